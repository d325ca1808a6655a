"""Engines: token ids in → sampled ids, their behaviour log-probabilities and the policy version that made them, out."""
