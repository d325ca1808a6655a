"""Credit of recipes that is more than a function of one group's rewards: `ScoredRollouts → advantages`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from torch import Tensor

from rosellm.roserlhf.advantages import GigpoAdvantages, gdpo_advantages, gigpo_advantages, overlong_penalty
from rosellm.roserlhf.batching.scored import Credit, ScoredRollouts


@dataclass(frozen=True)
class Overlong:
    """Other credit, of rewards from which a soft penalty on the length of the episode was taken."""

    credit: Credit
    max_length: int
    cache_length: int

    def __call__(self, scored: ScoredRollouts) -> Tensor:
        """Return one advantage per rollout."""
        return self.credit(replace(scored, rewards=scored.rewards + self.penalties(scored)))

    def penalties(self, scored: ScoredRollouts) -> Tensor:
        """Return what is added to each reward, `[N]`, in [-1, 0]."""
        return overlong_penalty(scored.known("lengths"), max_length=self.max_length, cache_length=self.cache_length)


@dataclass(frozen=True)
class GroupInGroup:
    """Advantages among the episodes of a task plus advantages among the visits of a state."""

    omega: float
    gamma: float
    normalization: Literal["std", "none"]

    def __call__(self, scored: ScoredRollouts) -> Tensor:
        """Return one advantage per turn."""
        return self.parts(scored).advantages

    def parts(self, scored: ScoredRollouts) -> GigpoAdvantages:
        """Return the advantages of turns with what they were added up from, `[S]` each."""
        rollouts = scored.known("turn_rollouts")
        return gigpo_advantages(
            scored.known("turn_rewards"),
            scored.known("turn_states"),
            rollouts,
            scored.group_ids[rollouts],
            omega=self.omega,
            gamma=self.gamma,
            normalization=self.normalization,
        )


@dataclass(frozen=True)
class Decoupled:
    """Weighted sum of the components, each standardised inside the group; the sums are standardised over the step."""

    whiten: Literal["rollout", "token", "none"]

    def __call__(self, scored: ScoredRollouts) -> Tensor:
        """Return one advantage per rollout."""
        return gdpo_advantages(
            scored.known("components"),
            scored.group_ids,
            weights=scored.known("weights"),
            whiten=self.whiten,
            lengths=scored.lengths if self.whiten == "token" else None,
        )
