"""Recipes whose credit looks within an episode: at the states its turns began in, or at the components of its reward."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

from pydantic import Field

from rosellm.roserlhf.recipes.options import RECIPE, ClippedConfig
from rosellm.roserlhf.recipes.registry import build, named
from rosellm.roserlhf.trainer.recipe import Recipe


@named
class GigpoConfig(ClippedConfig):
    """Group-in-group policy optimisation: an advantage per turn, from the episode's group and from the group of its state."""

    recipe: Literal["gigpo"] = Field(default="gigpo", description=RECIPE)
    omega: float = Field(default=1.0, ge=0, description="weight of the advantage among visits of the same state")
    gamma: float = Field(default=0.95, ge=0, le=1, description="discount per turn of the returns that visits are compared by")
    normalization: Literal["std", "none"] = Field(default="std", description="what centred rewards and returns are divided by")

    def bind(self) -> Recipe:
        """Join the advantages of episodes and states and the clipped objective."""
        from rosellm.roserlhf.losses import clipped_policy_loss
        from rosellm.roserlhf.recipes.credit import GroupInGroup

        return Recipe(
            config=self,
            credit=GroupInGroup(omega=self.omega, gamma=self.gamma, normalization=self.normalization),
            objective=partial(clipped_policy_loss, clip_low=self.clip_low, clip_high=self.clip_high),
        )


@named
class GdpoConfig(ClippedConfig):
    """Group reward-decoupled normalisation: every reward component is standardised by itself before they are added up."""

    recipe: Literal["gdpo"] = Field(default="gdpo", description=RECIPE)
    whiten: Literal["rollout", "token", "none"] = Field(
        default="rollout", description="what the sums are standardised over in the end: episodes, tokens, or not at all"
    )

    def bind(self) -> Recipe:
        """Join the advantages of decoupled rewards and the clipped objective."""
        from rosellm.roserlhf.losses import clipped_policy_loss
        from rosellm.roserlhf.recipes.credit import Decoupled

        objective = partial(clipped_policy_loss, clip_low=self.clip_low, clip_high=self.clip_high)
        return Recipe(config=self, credit=Decoupled(whiten=self.whiten), objective=objective)


def gigpo(**options: Any) -> Recipe:
    r"""Build GiGPO: two levels of groups, episodes of a task and visits of a state, and an advantage for each turn.

    .. math:: A_{it} = A^E_i + \omega\, A^S_{it},\qquad A^E_i = \frac{R_i - \bar R}{\sigma_R},\qquad
        A^S_{it} = \frac{G_{it} - \bar G_{s}}{\sigma_{G_s}},\qquad G_{it} = \sum_{k\ge t}\gamma^{k-t} r_{ik}

    where the second mean is over all visits of the state s in which the turn began, by all episodes of the task. States are the
    same if the environment's `state_key()` says so; a state that nobody visited twice adds nothing.

    Objective: clipped token ratios, one mean over all tokens of the step, as in the authors' code; the paper averages over turns.
    Defaults of the paper: ω 1, γ 0.95. `normalization="none"` is the authors' other variant (WebShop). The paper's penalty on the
    divergence from a reference policy (0.01) is left out: training holds no reference.

    Source: Feng et al. 2025, "Group-in-Group Policy Optimization for LLM Agent Training", Eq. 3 to 8,
    https://arxiv.org/abs/2505.10978

    Args:
        options: fields of `GigpoConfig`, nested sections as dicts or as their configuration objects.

    Raises:
        ConfigError: an unknown or ill-typed field; the message names the nearest.

    Example:
        >>> gigpo(omega=0.5).config.omega
        0.5
    """
    return build(GigpoConfig, options)


def gdpo(**options: Any) -> Recipe:
    r"""Build GDPO: each reward component standardised inside the group, weighted, added up, and the sums standardised.

    .. math:: A_i = \frac{S_i - \bar S}{\sigma_S + \epsilon},\qquad S_i = \sum_k w_k \frac{r_{ik} - \bar r_k}{\sigma_{r_k}}

    with means of :math:`r_k` over a group and those of S over all episodes of the step. Weights are those that the environment
    gives its components; they multiply standardised components, so a weight says how much a component matters, not how large it is.
    `whiten="token"` is the authors' verl code, where long episodes weigh more in the last step; the paper and the authors' TRL code
    take episodes. Objective: clipped token ratios, one mean over all tokens of the step.

    Source: Liu et al. 2026, "GDPO", https://arxiv.org/abs/2601.05242

    Args:
        options: fields of `GdpoConfig`, nested sections as dicts or as their configuration objects.

    Raises:
        ConfigError: an unknown or ill-typed field; the message names the nearest.

    Example:
        >>> gdpo(whiten="none").config.whiten
        'none'
    """
    return build(GdpoConfig, options)
