"""Rewards -> advantages; tensors in, tensors out. `rosellm.roserlhf.advantages` is the public door and the index."""
