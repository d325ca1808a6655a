"""Recipes whose gradient is that of REINFORCE: `reward minus the mean of the others, times log-probability`; no ratio."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Unpack

from pydantic import Field

from rosellm.roserlhf.recipes.options import RECIPE, OnPolicyConfig
from rosellm.roserlhf.recipes.registry import build, named
from rosellm.roserlhf.trainer.recipe import Recipe

if TYPE_CHECKING:
    from torch import Tensor

    from rosellm.roserlhf.losses import Aggregation, Layout


@named
class ReinforceConfig(OnPolicyConfig):
    """REINFORCE with the leave-one-out baseline: no ratio, no clipping; one update per step keeps it on-policy."""

    recipe: Literal["reinforce"] = Field(default="reinforce", description=RECIPE)

    def bind(self) -> Recipe:
        """Join leave-one-out advantages and log-probability times advantage, averaged over tokens."""
        return _leave_one_out(self, "token")


@named
class RlooConfig(OnPolicyConfig):
    """REINFORCE leave-one-out as published: the whole episode is one action, its log-probability the sum over its tokens."""

    recipe: Literal["rloo"] = Field(default="rloo", description=RECIPE)

    def bind(self) -> Recipe:
        """Join leave-one-out advantages and log-probability times advantage, summed over each episode."""
        return _leave_one_out(self, "sequence_sum")


def _leave_one_out(config: OnPolicyConfig, aggregation: Aggregation) -> Recipe:
    from rosellm.roserlhf.advantages import leave_one_out_advantages
    from rosellm.roserlhf.batching.scored import PerGroup
    from rosellm.roserlhf.losses import reinforce_policy_loss

    def objective(
        current_logprobs: Tensor,
        old_logprobs: Tensor,
        advantages: Tensor,
        action_mask: Tensor,
        *,
        denominator: Tensor | float,
        **layout: Unpack[Layout],
    ) -> Any:
        return reinforce_policy_loss(
            current_logprobs,
            advantages,
            action_mask,
            old_logprobs=old_logprobs,
            aggregation=aggregation,
            denominator=denominator,
            **layout,
        )

    credit = PerGroup(leave_one_out_advantages)
    return Recipe(config=config, credit=credit, objective=objective, denominator_mode=aggregation)


def reinforce(**options: Any) -> Recipe:
    r"""Build REINFORCE with the leave-one-out baseline: each episode is compared with the mean of the others of its group.

    .. math:: A_i = R_i - \frac{1}{G-1}\sum_{j\ne i} R_j,\qquad L = -\frac{1}{N}\sum_{i,t} A_i \log\pi_\theta(a_{it}\mid s_{it})

    with N the tokens of the step; `rloo` divides by episodes instead. There is no ratio, so each step makes one update; more epochs
    or minibatches are refused.

    Source: Ahmadian et al. 2024, "Back to Basics", section 2, https://arxiv.org/abs/2402.14740

    Args:
        options: fields of `ReinforceConfig`, nested sections as dicts or as their configuration objects.

    Raises:
        ConfigError: an unknown or ill-typed field; the message names the nearest.

    Example:
        >>> reinforce(seed=3).config.optimizer.minibatches
        1
    """
    return build(ReinforceConfig, options)


def rloo(**options: Any) -> Recipe:
    r"""Build RLOO: the leave-one-out baseline, and the whole episode as one action.

    .. math:: L = -\frac{1}{B}\sum_i A_i \sum_t \log\pi_\theta(a_{it}\mid s_{it}),\qquad A_i = R_i - \frac{1}{G-1}\sum_{j\ne i} R_j

    with B the episodes of the step. The paper treats a completion as one action, hence the sum over its tokens: a long episode
    moves the weights more than a short one, and the gradient is unbiased. Its penalty on the divergence from a reference policy is
    left out: training holds no reference. One update per step, as for `reinforce`.

    Source: Ahmadian et al. 2024, "Back to Basics", https://arxiv.org/abs/2402.14740

    Args:
        options: fields of `RlooConfig`, nested sections as dicts or as their configuration objects.

    Raises:
        ConfigError: an unknown or ill-typed field; the message names the nearest.

    Example:
        >>> rloo().denominator_mode
        'sequence_sum'
    """
    return build(RlooConfig, options)
