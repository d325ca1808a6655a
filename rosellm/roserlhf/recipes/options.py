"""Options that several recipes share."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from rosellm.roserlhf.errors import ConfigError
from rosellm.roserlhf.recipes.registry import RecipeConfig
from rosellm.roserlhf.trainer.config import CollectConfig, OptimizerConfig

RECIPE = "algorithm: a composition of credit, objective and aggregation"
"""What the option `recipe` is."""


class ClippedConfig(RecipeConfig):
    """A recipe that clips a ratio."""

    clip_low: float = Field(default=0.2, ge=0, lt=1, description="ratio bound below 1, as an offset")
    clip_high: float = Field(default=0.2, ge=0, description="ratio bound above 1, as an offset")


class OnPolicyOptimizerConfig(OptimizerConfig):
    """AdamW with a linear decay, one update per step."""

    minibatches: int = Field(default=1, ge=1, description="optimizer updates per pass; 1, see epochs")
    epochs: int = Field(default=1, ge=1, description="passes over one step's episodes; 1, an on-policy objective has no ratio")


class OnPolicyConfig(RecipeConfig):
    """A recipe without a ratio: one update per step keeps it on-policy."""

    optimizer: OnPolicyOptimizerConfig = OnPolicyOptimizerConfig()

    @model_validator(mode="after")
    def _one_update(self) -> Self:
        for name in ("epochs", "minibatches"):
            if (value := getattr(self.optimizer, name)) != 1:
                raise ConfigError(
                    f"optimizer.{name} must be 1 for recipe {self.recipe}, got {value}; after the first update the episodes are no "
                    f"longer the policy's own and {self.recipe} has no ratio that corrects for it, recipe grpo has"
                )
        return self


def settle(config: RecipeConfig, name: str, value: int) -> None:
    """Give an option that was left open the value that follows from the others, so that the run file holds it."""
    if getattr(config, name) is None:
        object.__setattr__(config, name, value)  # a validator's own model; frozen from here on


def generation_budget(collect: CollectConfig) -> int:
    """Return how many tokens an episode may sample: turns times tokens per turn."""
    return collect.max_turns * collect.max_turn_tokens
