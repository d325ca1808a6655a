"""Learner: one optimizer step over as many micro-batches as it takes; the policy update and cloning share it."""
