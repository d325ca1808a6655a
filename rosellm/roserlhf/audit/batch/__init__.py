"""Checks of one batch of tensors: `tensors -> a few numbers per row -> findings`."""
