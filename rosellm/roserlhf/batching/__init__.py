"""Batching: records and their credit → aligned rows → padded tensors.

Masks come from what was recorded, never from ids or widths.
"""
