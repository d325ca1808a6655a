"""Records → what credit is made from: the scored rollouts of a step as tensors, and their turns.

Credit functions see nothing else, so the mathematics never meets a record. A credit function returns one advantage for each
rollout, `[N]`, or one for each turn, `[S]`; every rollout has at least one turn, so if N = S both are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.batching.rollout import Episode, Rollout, as_rollout
from rosellm.roserlhf.errors import GroupError, ShapeError


@dataclass(frozen=True, kw_only=True)
class ScoredRollouts:
    """N rollouts of one step with S turns and K reward components; unscored ones and ones alone in their group are not among them.

    Example:
        >>> from rosellm.roserlhf.batching.scored import ScoredRollouts
        >>> ScoredRollouts.of(torch.tensor([1.0, 0.0, 3.0]), torch.tensor([0, 0, 1])).rewards
        tensor([1., 0., 3.], dtype=torch.float64)
    """

    rewards: Tensor
    """`[N]` float64: weighted total."""
    group_ids: Tensor
    """`[N]` int64: equal for rollouts of one task that are compared with each other."""
    components: Tensor | None = None
    """`[N, K]` float64: each component summed over the turns, without its weight; None where weights are not known."""
    weights: Tensor | None = None
    """`[K]` float64: weight of each component in the total."""
    lengths: Tensor | None = None
    """`[N]` int64: sampled tokens."""
    turn_rollouts: Tensor | None = None
    """`[S]` int64: index of the rollout that each turn belongs to, ascending; turns of one rollout stand in order."""
    turn_rewards: Tensor | None = None
    """`[S]` float64: what each turn was paid, weighted; None where weights are not known."""
    turn_states: Tensor | None = None
    """`[S]` int64: equal for turns that began in the same state; a state that is not known equals no other. None: none is known."""

    @classmethod
    def of(cls, rewards: Tensor, group_ids: Tensor) -> ScoredRollouts:
        """Take rollouts of which only total and group are known, `[N]` each."""
        return cls(rewards=rewards.double(), group_ids=group_ids.long())

    def known(self, name: str) -> Tensor:
        """Return a field that must not be None here.

        Raises:
            GroupError: it is not known.
        """
        value: Tensor | None = getattr(self, name)
        if value is None:
            raise checks.fail(GroupError, name, "be known to this credit function", None, fix=_FIXES.get(name))
        return value


_FIXES = {
    "turn_states": "let the environment's state_key() name the states that are the same",
    "components": "give the weights of the reward components",
    "turn_rewards": "give the weights of the reward components",
}

Credit = Callable[[ScoredRollouts], Tensor]
"""Scored rollouts of one step to advantages: `[N]`, one for each rollout, or `[S]`, one for each turn."""


@dataclass(frozen=True)
class PerGroup:
    """Credit from a function of one group's rewards, `[G]` to `[G]`; each group is a call of its own.

    Example:
        >>> from rosellm.roserlhf.batching.scored import PerGroup, ScoredRollouts
        >>> credit = PerGroup(leave_one_out_advantages)
        >>> credit(ScoredRollouts.of(torch.tensor([1.0, 5.0, 0.0, 7.0]), torch.tensor([0, 1, 0, 1]))).tolist()
        [1.0, -2.0, -1.0, 2.0]
    """

    function: Callable[[Tensor], Tensor]

    def __call__(self, scored: ScoredRollouts) -> Tensor:
        """Apply the function to every group."""
        advantages = torch.empty_like(scored.rewards)
        for group in scored.group_ids.unique():
            members = scored.group_ids == group
            rewards = scored.rewards[members]
            found = self.function(rewards)
            if found.shape != rewards.shape:
                requirement = f"return one advantage for each of {len(rewards)} rewards"
                raise checks.fail(ShapeError, "credit", requirement, tuple(found.shape))
            advantages[members] = found.to(advantages.dtype)
        return advantages


def scored_rollouts(
    episodes: Sequence[Episode],
    rewards: Sequence[float],
    group_ids: Sequence[int],
    weights: Mapping[str, float] | None,
) -> ScoredRollouts:
    """Lay scored rollouts out as tensors.

    Args:
        episodes: N rollouts, each with a reward.
        rewards: their weighted totals.
        group_ids: their groups.
        weights: of the reward components; None where only the totals are known.
    """
    rollouts = [as_rollout(episode) for episode in episodes]
    turns = [len(rollout.turns) for rollout in rollouts]
    states = [_states(rollout) for rollout in rollouts]
    return ScoredRollouts(
        rewards=torch.tensor(rewards, dtype=torch.float64),
        group_ids=torch.tensor(group_ids, dtype=torch.int64),
        components=None if weights is None else _components(rollouts, weights),
        weights=None if weights is None else torch.tensor(list(weights.values()), dtype=torch.float64),
        lengths=torch.tensor([rollout.sampled_tokens for rollout in rollouts], dtype=torch.int64),
        turn_rollouts=torch.arange(len(turns)).repeat_interleave(torch.tensor(turns, dtype=torch.int64)),
        turn_rewards=None if weights is None else _turn_rewards(rollouts, weights),
        turn_states=_identified([state for own in states for state in own]),
    )


def _components(rollouts: Sequence[Rollout], weights: Mapping[str, float]) -> Tensor:
    totals = [rollout.reward_totals() for rollout in rollouts]
    return torch.tensor([[one[name] for name in weights] for one in totals], dtype=torch.float64).view(len(totals), len(weights))


def _turn_rewards(rollouts: Sequence[Rollout], weights: Mapping[str, float]) -> Tensor:
    paid: list[float] = []
    for rollout in rollouts:
        named = [transition.reward_components for transition in rollout.transitions]
        paid += [sum(weight * (one.get(name) or 0.0) for name, weight in weights.items()) for one in named]
        paid += [0.0] * (len(rollout.turns) - len(named))  # a cut last action was not answered, hence not paid
    return torch.tensor(paid, dtype=torch.float64)


def _states(rollout: Rollout) -> list[str | None]:
    """The state in which each turn began."""
    after = [rollout.initial_state_hash, *(transition.state_hash for transition in rollout.transitions)]
    return after[: len(rollout.turns)]


def _identified(states: Sequence[str | None]) -> Tensor | None:
    """Number the states in order of appearance; what is not known gets a number of its own."""
    if all(state is None for state in states):
        return None
    numbers: dict[str | int, int] = {}
    keys = [place if state is None else state for place, state in enumerate(states)]
    return torch.tensor([numbers.setdefault(key, len(numbers)) for key in keys], dtype=torch.int64)
