"""Policies: build, load and save the causal language models that the engine samples from and the learner updates."""
