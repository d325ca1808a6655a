"""Recipes with a clipped ratio for each token: GRPO and what was changed about it."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from rosellm.roserlhf.errors import ConfigError
from rosellm.roserlhf.recipes.options import RECIPE, ClippedConfig, generation_budget, settle
from rosellm.roserlhf.recipes.registry import build, named
from rosellm.roserlhf.trainer.recipe import Recipe


@named
class GrpoConfig(ClippedConfig):
    """Group-relative policy optimisation: standardised advantages inside each group, clipped ratio, global token mean."""

    recipe: Literal["grpo"] = Field(default="grpo", description=RECIPE)

    def bind(self) -> Recipe:
        """Join standardised advantages and the clipped objective."""
        from rosellm.roserlhf.advantages import group_standardized_advantages
        from rosellm.roserlhf.batching.scored import PerGroup
        from rosellm.roserlhf.losses import clipped_policy_loss

        objective = partial(clipped_policy_loss, clip_low=self.clip_low, clip_high=self.clip_high)
        return Recipe(config=self, credit=PerGroup(group_standardized_advantages), objective=objective)


@named
class DrGrpoConfig(ClippedConfig):
    """GRPO without its two divisions: no standard deviation, and one constant instead of each episode's length."""

    recipe: Literal["dr_grpo"] = Field(default="dr_grpo", description=RECIPE)
    horizon: int | None = Field(
        default=None, ge=1, description="constant that token sums are divided by; by default the tokens an episode may sample"
    )
    drop_uniform_groups: bool = Field(
        default=False, description="exclude groups without a signal; off: they count in the mean, so that its unit is constant"
    )

    @model_validator(mode="after")
    def _horizon_of_the_budget(self) -> Self:
        settle(self, "horizon", generation_budget(self.collect))
        return self

    def bind(self) -> Recipe:
        """Join centred advantages and the clipped objective over a constant."""
        from rosellm.roserlhf.advantages import group_centered_advantages
        from rosellm.roserlhf.batching.scored import PerGroup
        from rosellm.roserlhf.losses import clipped_policy_loss

        assert self.horizon is not None
        objective = partial(
            clipped_policy_loss,
            clip_low=self.clip_low,
            clip_high=self.clip_high,
            aggregation="horizon",
            horizon=float(self.horizon),
        )
        return Recipe(config=self, credit=PerGroup(group_centered_advantages), objective=objective, denominator_mode="horizon")


@named
class DapoConfig(ClippedConfig):
    """GRPO with a higher upper bound, token mean, groups without a signal left out and a soft penalty on overlong episodes."""

    recipe: Literal["dapo"] = Field(default="dapo", description=RECIPE)
    clip_high: float = Field(default=0.28, ge=0, description="ratio bound above 1, as an offset")
    max_length: int | None = Field(
        default=None, ge=1, description="sampled tokens beyond which the penalty is -1; by default what an episode may sample"
    )
    cache_length: int | None = Field(
        default=None,
        ge=0,
        description="tokens over which the penalty falls to -1; by default a fifth of max_length, 0 = no penalty",
    )

    @model_validator(mode="after")
    def _penalty_of_the_budget(self) -> Self:
        settle(self, "max_length", generation_budget(self.collect))
        assert self.max_length is not None
        settle(self, "cache_length", max(1, self.max_length // 5))
        assert self.cache_length is not None
        if self.cache_length > self.max_length:
            raise ConfigError(f"cache_length must be at most max_length = {self.max_length}, got {self.cache_length}")
        return self

    def bind(self) -> Recipe:
        """Join standardised advantages of penalised rewards and the clipped objective."""
        from rosellm.roserlhf.advantages import group_standardized_advantages
        from rosellm.roserlhf.batching.scored import Credit, PerGroup
        from rosellm.roserlhf.losses import clipped_policy_loss
        from rosellm.roserlhf.recipes.credit import Overlong

        credit: Credit = PerGroup(group_standardized_advantages)
        if self.max_length and self.cache_length:
            credit = Overlong(credit, max_length=self.max_length, cache_length=self.cache_length)
        return Recipe(
            config=self,
            credit=credit,
            objective=partial(clipped_policy_loss, clip_low=self.clip_low, clip_high=self.clip_high),
        )


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
    return build(GrpoConfig, options)


def dr_grpo(**options: Any) -> Recipe:
    r"""Build Dr. GRPO: rewards minus their group's mean, token sums over one constant.

    .. math:: A_i = R_i - \bar R,\qquad
        L = -\frac{1}{B L_{\max}}\sum_{i,t}
            \min\bigl(r_{it} A_i,\ \operatorname{clip}(r_{it}, 1-\epsilon_l, 1+\epsilon_h)\, A_i\bigr)

    with B the episodes of the step. Neither does an easy or hard task weigh more than others nor a token of a short episode. The
    constant :math:`L_{\max}` is printed nowhere in the objective; the authors' code divides by the generation budget, and so does
    the default of `horizon`. Groups without a signal are kept here, unlike in other recipes: dropping them would change B from step
    to step.

    Source: Liu et al. 2025, "Understanding R1-Zero-Like Training", https://arxiv.org/abs/2503.20783;
    the constant: https://github.com/sail-sg/understand-r1-zero

    Args:
        options: fields of `DrGrpoConfig`, nested sections as dicts or as their configuration objects.

    Raises:
        ConfigError: an unknown or ill-typed field; the message names the nearest.

    Example:
        >>> dr_grpo(horizon=256).denominator_mode
        'horizon'
    """
    return build(DrGrpoConfig, options)


def dapo(**options: Any) -> Recipe:
    r"""Build DAPO: GRPO's advantages, clip-higher, token mean, dynamic sampling by exclusion, soft overlong penalty.

    .. math:: R_i' = R_i + \operatorname{clip}\Bigl(\frac{L_{\max} - L_c - n_i}{L_c},\ -1,\ 0\Bigr),\qquad
        A_i = \frac{R_i' - \bar R'}{\sigma_{R'} + \epsilon}

    with :math:`n_i` the sampled tokens of an episode. Defaults of the paper: bounds 0.2 and 0.28, a cache :math:`L_c` of a fifth of
    the budget (4096 of 20480). The paper samples on until every group of the batch has a signal; here a step keeps the groups that
    have one and divides by their tokens (`drop_uniform_groups`), which gives the same mean over fewer tasks. The paper asks for one
    by correctness alone; here a group whose episodes differ in nothing but the penalty has one, too.

    Source: Yu et al. 2025, "DAPO", Eq. 10 to 13, https://arxiv.org/abs/2503.14476

    Args:
        options: fields of `DapoConfig`, nested sections as dicts or as their configuration objects.

    Raises:
        ConfigError: an unknown or ill-typed field; the message names the nearest.

    Example:
        >>> dapo().config.clip_high
        0.28
    """
    return build(DapoConfig, options)
