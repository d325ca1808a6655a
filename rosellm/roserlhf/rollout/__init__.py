"""Rollout: the one loop that drives an episode, and the collector that runs many of them together."""
