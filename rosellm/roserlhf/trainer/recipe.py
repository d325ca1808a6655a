"""A recipe: one algorithm as a composition of callables, with the frozen configuration it was built from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Unpack

from rosellm.roserlhf.trainer.config import TrainConfig

if TYPE_CHECKING:
    from torch import Tensor

    from rosellm.roserlhf.batching.scored import Credit
    from rosellm.roserlhf.losses import Aggregation, Layout


class PolicyObjective(Protocol):
    """log-probabilities + advantages, `[B, T]` each → an output with `.loss`, `.token_loss` and `.partials`.

    `layout` is given only where an episode has several rows and the aggregation is not `token`: `sequence_ids` of its rows.
    """

    def __call__(
        self,
        current_logprobs: Tensor,
        old_logprobs: Tensor,
        advantages: Tensor,
        action_mask: Tensor,
        /,
        *,
        denominator: Tensor | float,
        **layout: Unpack[Layout],
    ) -> Any: ...


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """credit × objective, and the configuration that names them."""

    config: TrainConfig
    credit: Credit
    """Scored rollouts of one step to advantages, one for each rollout or one for each turn."""
    objective: PolicyObjective
    """Token objective with its own clip bounds and aggregation already bound."""
    denominator_mode: Aggregation = "token"
    """The unit that the objective's aggregation divides by (`step_denominator`)."""
