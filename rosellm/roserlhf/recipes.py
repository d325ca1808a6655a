"""Named runs: each function returns a `Recipe`, a frozen configuration bound to credit and objective.

Choosing by name happens here and on the command line only; the mathematics receives callables.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

from pydantic import Field

from rosellm.roserlhf.trainer.config import TrainConfig
from rosellm.roserlhf.trainer.recipe import Recipe


class GrpoConfig(TrainConfig):
    """Group-relative policy optimisation: standardised advantages inside each group, clipped ratio, global token mean."""

    recipe: Literal["grpo"] = "grpo"
    clip_low: float = Field(default=0.2, ge=0, lt=1, description="ratio bound below 1, as an offset")
    clip_high: float = Field(default=0.2, ge=0, description="ratio bound above 1, as an offset")


class ReinforceConfig(TrainConfig):
    """REINFORCE with the leave-one-out baseline: no ratio, no clipping; one update per step keeps it on-policy."""

    recipe: Literal["reinforce"] = "reinforce"


def grpo(**options: Any) -> Recipe:
    """Build the `grpo` recipe (Shao et al. 2024, https://arxiv.org/abs/2402.03300, with the token mean over the whole step).

    Args:
        options: fields of `GrpoConfig`, nested sections as dicts or as their configuration objects.

    Raises:
        ConfigError: an unknown or ill-typed field, with the nearest name.
    """
    return grpo_from(GrpoConfig(**options))


def grpo_from(config: GrpoConfig) -> Recipe:
    """Bind a `GrpoConfig` to its credit and objective."""
    from rosellm.roserlhf.advantages import group_standardized_advantages
    from rosellm.roserlhf.losses import clipped_policy_loss

    objective = partial(clipped_policy_loss, clip_low=config.clip_low, clip_high=config.clip_high)
    return Recipe(config=config, credit=group_standardized_advantages, objective=objective)
