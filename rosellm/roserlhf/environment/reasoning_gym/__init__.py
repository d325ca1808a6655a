"""Any data set of the package `reasoning-gym` as an environment of one question and one answer: `reasoning-gym:<dataset>`."""

from __future__ import annotations

from rosellm.roserlhf.environment.reasoning_gym.environment import ReasoningGym, dataset_environment

__all__ = ["ReasoningGym", "dataset_environment"]
