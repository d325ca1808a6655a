"""Recipes with one ratio for each episode: the geometric mean over its tokens, clipped as a whole."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Unpack

from pydantic import Field

from rosellm.roserlhf import checks
from rosellm.roserlhf.errors import ShapeError
from rosellm.roserlhf.recipes.options import RECIPE
from rosellm.roserlhf.recipes.registry import RecipeConfig, build, named
from rosellm.roserlhf.trainer.recipe import Recipe

if TYPE_CHECKING:
    from torch import Tensor

    from rosellm.roserlhf.losses import Layout


class SequenceRatioConfig(RecipeConfig):
    """A recipe that clips the ratio of whole episodes."""

    clip_low: float = Field(default=3e-4, ge=0, lt=1, description="bound of an episode's ratio below 1, as an offset")
    clip_high: float = Field(default=4e-4, ge=0, description="bound of an episode's ratio above 1, as an offset")


@named
class GspoConfig(SequenceRatioConfig):
    """Group sequence policy optimisation: standardised advantages, one clipped ratio per episode, mean over episodes."""

    recipe: Literal["gspo"] = Field(default="gspo", description=RECIPE)

    def bind(self) -> Recipe:
        """Join standardised advantages and the sequence objective."""
        from rosellm.roserlhf.advantages import group_standardized_advantages
        from rosellm.roserlhf.batching.scored import PerGroup
        from rosellm.roserlhf.losses import gspo_policy_loss

        def objective(
            current_logprobs: Tensor,
            old_logprobs: Tensor,
            advantages: Tensor,
            action_mask: Tensor,
            *,
            denominator: Tensor | float,
            **layout: Unpack[Layout],
        ) -> Any:
            return gspo_policy_loss(
                current_logprobs,
                old_logprobs,
                _sequence_advantages(advantages, action_mask, layout.get("sequence_ids")),
                action_mask,
                clip_low=self.clip_low,
                clip_high=self.clip_high,
                denominator=denominator,
                **layout,
            )

        credit = PerGroup(group_standardized_advantages)
        return Recipe(config=self, credit=credit, objective=objective, denominator_mode="sequence_mean")


@named
class GspoTokenConfig(SequenceRatioConfig):
    """The token form of GSPO, whose advantages may differ inside an episode."""

    recipe: Literal["gspo_token"] = Field(default="gspo_token", description=RECIPE)

    def bind(self) -> Recipe:
        """Join standardised advantages and the token form of the sequence objective."""
        from rosellm.roserlhf.advantages import group_standardized_advantages
        from rosellm.roserlhf.batching.scored import PerGroup
        from rosellm.roserlhf.losses import gspo_token_policy_loss

        objective = partial(gspo_token_policy_loss, clip_low=self.clip_low, clip_high=self.clip_high)
        credit = PerGroup(group_standardized_advantages)
        return Recipe(config=self, credit=credit, objective=objective, denominator_mode="sequence_mean")


def _sequence_advantages(advantages: Tensor, action_mask: Tensor, sequence_ids: Tensor | None) -> Tensor:
    """Return the one advantage that all trained tokens of each episode have, `[B, T]` to one for each row or sequence id."""
    live = action_mask.bool()
    rows = live.new_ones(live.shape[0]).cumsum(0) - 1
    ids = rows[:, None].expand_as(live) if sequence_ids is None else sequence_ids
    common = advantages.new_zeros(int(ids.max()) + 1)
    common[ids[live]] = advantages[live]
    given = advantages[live]
    if bool(((given != common[ids[live]]) & given.isfinite()).any()):
        fix = "join credit that differs between turns with the recipe gspo_token"
        raise checks.fail(ShapeError, "advantages", "be the same for all tokens of an episode", "different ones", fix=fix)
    return common


def gspo(**options: Any) -> Recipe:
    r"""Build GSPO: one ratio per episode, the geometric mean of its tokens' ratios, and a clip around it.

    .. math:: s_i = \exp\Bigl(\frac{1}{n_i}\sum_t \log r_{it}\Bigr),\qquad
        L = -\frac{1}{B}\sum_i \min\bigl(s_i A_i,\ \operatorname{clip}(s_i, 1-\epsilon_l, 1+\epsilon_h)\, A_i\bigr)

    with advantages standardised inside each group and B the episodes of the step. The mean of n log-ratios is far nearer to 0 than
    one of them, hence bounds of 3e-4 and 4e-4. They are the paper's, for responses of thousands of tokens; the spread of a mean
    falls with the root of n, so ten times as much clips about as often where an episode has tens of tokens.

    Source: Zheng et al. 2025, "Group Sequence Policy Optimization", Eq. 5 and 7,
    https://arxiv.org/abs/2507.18071

    Args:
        options: fields of `GspoConfig`, nested sections as dicts or as their configuration objects.

    Raises:
        ConfigError: an unknown or ill-typed field; the message names the nearest.

    Example:
        >>> gspo().config.clip_high
        0.0004
    """
    return build(GspoConfig, options)


def gspo_token(**options: Any) -> Recipe:
    r"""Build GSPO-token: the ratio of the episode at every token, with the token's own advantage.

    .. math:: s_{it} = \operatorname{sg}[s_i]\,\frac{\pi_\theta(a_{it})}{\operatorname{sg}[\pi_\theta(a_{it})]},\qquad
        L = -\frac{1}{B}\sum_i \frac{1}{n_i}\sum_t
            \min\bigl(s_{it} A_{it},\ \operatorname{clip}(s_{it}, 1-\epsilon_l, 1+\epsilon_h)\, A_{it}\bigr)

    With this recipe's credit, one advantage per episode, value and gradient are those of `gspo`. It is the objective to join with
    credit that differs between turns.

    Source: Zheng et al. 2025, "Group Sequence Policy Optimization", Eq. 13 and 14, https://arxiv.org/abs/2507.18071

    Args:
        options: fields of `GspoTokenConfig`, nested sections as dicts or as their configuration objects.

    Raises:
        ConfigError: an unknown or ill-typed field; the message names the nearest.

    Example:
        >>> from dataclasses import replace
        >>> from rosellm.roserlhf import recipes
        >>> by_turn = replace(recipes.gspo_token(), credit=recipes.gigpo().credit)
        >>> by_turn.denominator_mode
        'sequence_mean'
    """
    return build(GspoTokenConfig, options)
