"""Training steps made again from the run folder alone: `records -> the same weights, or the first difference`."""
