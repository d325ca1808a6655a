"""Recipes that weigh every token's gradient instead of cutting some off: a smooth gate, and a capped weight."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

from pydantic import Field

from rosellm.roserlhf.recipes.options import RECIPE
from rosellm.roserlhf.recipes.registry import RecipeConfig, build, named
from rosellm.roserlhf.trainer.recipe import Recipe


@named
class SapoConfig(RecipeConfig):
    """Soft adaptive policy optimisation: a smooth gate around ratio 1 in place of the clip, mean over episodes."""

    recipe: Literal["sapo"] = Field(default="sapo", description=RECIPE)
    tau_positive: float = Field(default=1.0, gt=0, description="sharpness of the gate where the advantage is positive")
    tau_negative: float = Field(default=1.05, gt=0, description="sharpness of the gate elsewhere")

    def bind(self) -> Recipe:
        """Join standardised advantages and the gated objective."""
        from rosellm.roserlhf.advantages import group_standardized_advantages
        from rosellm.roserlhf.batching.scored import PerGroup
        from rosellm.roserlhf.losses import sapo_policy_loss

        objective = partial(
            sapo_policy_loss, tau_positive=self.tau_positive, tau_negative=self.tau_negative, aggregation="sequence_mean"
        )
        credit = PerGroup(group_standardized_advantages)
        return Recipe(config=self, credit=credit, objective=objective, denominator_mode="sequence_mean")


@named
class CispoConfig(RecipeConfig):
    """Clipped importance-sampling weights: REINFORCE with a capped, detached ratio, mean over tokens."""

    recipe: Literal["cispo"] = Field(default="cispo", description=RECIPE)
    ratio_max: float = Field(default=5.0, gt=0, description="cap of the ratio, absolute: not an offset from 1")

    def bind(self) -> Recipe:
        """Join standardised advantages and the capped objective."""
        from rosellm.roserlhf.advantages import group_standardized_advantages
        from rosellm.roserlhf.batching.scored import PerGroup
        from rosellm.roserlhf.losses import cispo_policy_loss

        objective = partial(cispo_policy_loss, ratio_max=self.ratio_max)
        return Recipe(config=self, credit=PerGroup(group_standardized_advantages), objective=objective)


def sapo(**options: Any) -> Recipe:
    r"""Build SAPO: advantages standardised inside each group, a soft gate instead of a clip, mean over episodes.

    .. math:: f(r) = \frac{4}{\tau}\,\sigma\bigl(\tau (r - 1)\bigr),\qquad
        L = -\frac{1}{B}\sum_i \frac{1}{n_i}\sum_t f(r_{it})\, A_i

    with B the episodes of the step, `tau_positive` where the advantage is positive and `tau_negative` elsewhere: the paper's 1.0
    and 1.05. The loss at ratio 1 is 2A/τ, so loss values of different τ do not compare; gradients do.

    Source: Gao et al. 2025, "Soft Adaptive Policy Optimization", https://arxiv.org/abs/2511.20347

    Args:
        options: fields of `SapoConfig`, nested sections as dicts or as their configuration objects.

    Raises:
        ConfigError: an unknown or ill-typed field; the message names the nearest.

    Example:
        >>> sapo().config.tau_negative
        1.05
    """
    return build(SapoConfig, options)


def cispo(**options: Any) -> Recipe:
    r"""Build CISPO: every token keeps its gradient, weighted by its ratio up to a cap.

    .. math:: L = -\frac{1}{N}\sum_{i,t} \operatorname{sg}\bigl[\min(r_{it}, r_{\max})\bigr]\, A_i \log\pi_\theta(a_{it}\mid s_{it})

    with advantages standardised inside each group and N the tokens of the step. The paper prints :math:`1+\epsilon_h` and not its
    value; `ratio_max` is that whole number, and 5 what peers recommend for it.

    Source: MiniMax 2025, "MiniMax-M1", Eq. 4 and 5, https://arxiv.org/abs/2506.13585

    Args:
        options: fields of `CispoConfig`, nested sections as dicts or as their configuration objects.

    Raises:
        ConfigError: an unknown or ill-typed field; the message names the nearest.

    Example:
        >>> cispo(ratio_max=2.0).config.ratio_max
        2.0
    """
    return build(CispoConfig, options)
