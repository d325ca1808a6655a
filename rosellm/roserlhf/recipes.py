"""Named runs: each function returns a `Recipe`, a frozen configuration bound to credit and objective.

Choosing by name happens here and on the command line only; the mathematics receives callables. torch is first imported when a
configuration is bound, so a run file can be read, checked and printed without it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import Field, model_validator

from rosellm.roserlhf import config as configs
from rosellm.roserlhf.errors import ConfigError
from rosellm.roserlhf.trainer.config import OptimizerConfig, TrainConfig
from rosellm.roserlhf.trainer.recipe import Recipe

if TYPE_CHECKING:
    from torch import Tensor


class GrpoConfig(TrainConfig):
    """Group-relative policy optimisation: standardised advantages inside each group, clipped ratio, global token mean."""

    recipe: Literal["grpo"] = Field(default="grpo", description="algorithm: a composition of credit, objective and aggregation")
    clip_low: float = Field(default=0.2, ge=0, lt=1, description="ratio bound below 1, as an offset")
    clip_high: float = Field(default=0.2, ge=0, description="ratio bound above 1, as an offset")


class OnPolicyOptimizerConfig(OptimizerConfig):
    """AdamW with a linear decay, one update per step."""

    minibatches: int = Field(default=1, ge=1, description="optimizer updates per pass; 1, see epochs")
    epochs: int = Field(default=1, ge=1, description="passes over one step's episodes; 1, an on-policy objective has no ratio")

    @model_validator(mode="after")
    def _one_update(self) -> Self:
        for name, value in (("epochs", self.epochs), ("minibatches", self.minibatches)):
            if value != 1:
                raise ConfigError(
                    f"{name} must be 1 for recipe reinforce, got {value}; after the first update the episodes are no longer "
                    "the policy's own and reinforce has no ratio that corrects for it, recipe grpo has"
                )
        return self


class ReinforceConfig(TrainConfig):
    """REINFORCE with the leave-one-out baseline: no ratio, no clipping; one update per step keeps it on-policy."""

    recipe: Literal["reinforce"] = Field(
        default="reinforce", description="algorithm: a composition of credit, objective and aggregation"
    )
    optimizer: OnPolicyOptimizerConfig = OnPolicyOptimizerConfig()


def _bind_grpo(config: GrpoConfig) -> Recipe:
    from rosellm.roserlhf.advantages import group_standardized_advantages
    from rosellm.roserlhf.losses import clipped_policy_loss

    objective = partial(clipped_policy_loss, clip_low=config.clip_low, clip_high=config.clip_high)
    return Recipe(config=config, credit=group_standardized_advantages, objective=objective)


def _bind_reinforce(config: ReinforceConfig) -> Recipe:
    from rosellm.roserlhf.advantages import leave_one_out_advantages
    from rosellm.roserlhf.losses import reinforce_policy_loss

    def objective(
        current_logprobs: Tensor, old_logprobs: Tensor, advantages: Tensor, action_mask: Tensor, *, denominator: Tensor | float
    ) -> Any:
        return reinforce_policy_loss(current_logprobs, advantages, action_mask, old_logprobs=old_logprobs, denominator=denominator)

    return Recipe(config=config, credit=leave_one_out_advantages, objective=objective)


@dataclass(frozen=True)
class _Named:
    kind: type[TrainConfig]
    """The options of the recipe."""
    bind: Callable[[Any], Recipe]
    """From a configuration of that kind to callables."""


RECIPES: Mapping[str, _Named] = {
    "grpo": _Named(GrpoConfig, _bind_grpo),
    "reinforce": _Named(ReinforceConfig, _bind_reinforce),
}
"""Every recipe by name. A new one is a configuration class, a function that binds it and a line here."""


def grpo(**options: Any) -> Recipe:
    r"""Build GRPO: advantages standardised inside each group, the clipped objective, one mean over all tokens of the step.

    .. math:: A_i = \frac{R_i - \bar R}{\sigma_R + \epsilon},\qquad
        L = -\frac{1}{N}\sum_{i,t} \min\bigl(r_{it} A_i,\ \operatorname{clip}(r_{it}, 1-\epsilon_l, 1+\epsilon_h)\, A_i\bigr)

    The paper averages inside each response first; the token mean over the whole step is DAPO's and does not favour short responses.

    Source: Shao et al. 2024, "DeepSeekMath", Eq. 3, https://arxiv.org/abs/2402.03300;
    token mean: Yu et al. 2025, "DAPO", section 3.3, https://arxiv.org/abs/2503.14476

    Args:
        options: fields of `GrpoConfig`, nested sections as dicts or as their configuration objects.

    Raises:
        ConfigError: an unknown or ill-typed field; the message names the nearest.

    Example:
        >>> grpo(collect={"group_size": 4}).config.collect.group_size
        4
    """
    return recipe_from(options_to_config({**options, "recipe": "grpo"}))


def reinforce(**options: Any) -> Recipe:
    r"""Build REINFORCE with the leave-one-out baseline: each episode is compared with the mean of the others of its group.

    .. math:: A_i = R_i - \frac{1}{G-1}\sum_{j\ne i} R_j,\qquad L = -\frac{1}{N}\sum_{i,t} A_i \log\pi_\theta(a_{it}\mid s_{it})

    There is no ratio, so each step makes one update; more epochs or minibatches are refused.

    Source: Ahmadian et al. 2024, "Back to Basics", section 2, https://arxiv.org/abs/2402.14740

    Args:
        options: fields of `ReinforceConfig`, nested sections as dicts or as their configuration objects.

    Raises:
        ConfigError: an unknown or ill-typed field; the message names the nearest.

    Example:
        >>> reinforce(seed=3).config.optimizer.minibatches
        1
    """
    return recipe_from(options_to_config({**options, "recipe": "reinforce"}))


def recipe_from(config: TrainConfig) -> Recipe:
    """Bind a configuration to the callables of its recipe; this is where torch is imported."""
    return RECIPES[config.recipe].bind(config)


def kind_of(name: object) -> type[TrainConfig]:
    """Return the configuration class of a recipe.

    Raises:
        ConfigError: there is no recipe of that name.
    """
    if not isinstance(name, str) or name not in RECIPES:
        near = configs.nearest(str(name), tuple(RECIPES))
        raise ConfigError(
            f"recipe must be one of {', '.join(RECIPES)}, got {name!r}" + (f"; did you mean {near[0]}?" if near else "")
        )
    return RECIPES[name].kind


def other_kinds(kind: type[TrainConfig]) -> dict[str, type[TrainConfig]]:
    """Return the configuration classes of all recipes but one, to tell whose option a key is that this one does not have."""
    return {name: named.kind for name, named in RECIPES.items() if named.kind is not kind}


def options_to_config(options: Mapping[str, Any]) -> TrainConfig:
    """Validate the options of the recipe that they name, `grpo` if they name none.

    Raises:
        ConfigError: as `config.build` says.
    """
    kind = kind_of(options.get("recipe", "grpo"))
    return configs.build(kind, options, elsewhere=other_kinds(kind))


def load_recipe(path: Path) -> Recipe:
    """Read a run file (`run.toml` of a run folder, or one written by hand) and bind it.

    Raises:
        ConfigError: the file cannot be read, or something in it is wrong.
    """
    return recipe_from(options_to_config(configs.load_toml(path)))
