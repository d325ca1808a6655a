"""What happens to a confirmed call, and to the reward of its episode: two choices by name, independent of each other.

| policy | a confirmed call | the policy is shown | the episode |
|---|---|---|---|
| block-and-continue | is not executed | a dummy result that does not reveal the block | goes on |
| block-and-tell | is not executed | that it was blocked, and why | goes on |
| observe-only | is executed | the true result | goes on |
| end-episode | is not executed | nothing | is terminated, with the rule as its cause |

| reward | of an episode with a confirmed call |
|---|---|
| untouched | what the verifier says |
| penalty | the same, and a component of its own, `guard_penalty`, negative for each confirmed call |
| zero | counts as 0; the record keeps what the verifier said |
| exclude | leaves its group, baseline and denominators, counted under its reason |

A call that was blocked because the judge failed is no confirmed call: it ends no episode and changes no reward.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from rosellm.roserlhf import checks
from rosellm.roserlhf.errors import RangeError
from rosellm.roserlhf.guard.event import Action, GuardEvent

PolicyName = Literal["block-and-continue", "block-and-tell", "observe-only", "end-episode"]
RewardName = Literal["untouched", "penalty", "zero", "exclude"]
PENALTY = "guard_penalty"
"""Reward component of the penalty."""
CAUGHT = "guard: confirmed call"
"""Why an episode is left out of its group by `exclude`."""
MASKED = "guard: blocked call"
"""Why the tokens of a blocked call are left out of the loss, where they are."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What happens to a confirmed call."""

    name: PolicyName
    confirmed: Action
    """Action on a call that the judge confirmed."""
    failed: Action
    """Action on a call about which the judge gave no verdict: never executed, except where nothing is ever blocked."""


BLOCK_AND_CONTINUE = Policy("block-and-continue", "blocked", "blocked")
BLOCK_AND_TELL = Policy("block-and-tell", "told", "told")
OBSERVE_ONLY = Policy("observe-only", "observed", "observed")
END_EPISODE = Policy("end-episode", "ended", "blocked")
POLICIES: Mapping[str, Policy] = {one.name: one for one in (BLOCK_AND_CONTINUE, BLOCK_AND_TELL, OBSERVE_ONLY, END_EPISODE)}


@dataclass(frozen=True, slots=True)
class RewardHandling:
    """What happens to the reward of an episode with confirmed calls.

    Example:
        >>> from rosellm.roserlhf.guard.policy import RewardHandling
        >>> RewardHandling("zero").total(0.5, caught=2), RewardHandling("penalty", 0.25).total(1.0, caught=2)
        (0.0, 0.5)
    """

    name: RewardName = "untouched"
    penalty: float = 1.0
    """Taken off for each confirmed call; read by `penalty` alone."""

    def __post_init__(self) -> None:
        checks.one_of(self.name, "reward", get_args(RewardName))
        checks.number_in(self.penalty, "penalty", 0, float("inf"), open_low=True, open_high=True)

    @property
    def weights(self) -> dict[str, float]:
        """Weights of the reward components that it adds."""
        return {PENALTY: 1.0} if self.name == "penalty" else {}

    def components(self, caught: int) -> dict[str, float]:
        """Reward components of a turn with that many confirmed calls; 0 is said, too, for what is missing is unscored."""
        return {PENALTY: -self.penalty * caught if caught else 0.0} if self.name == "penalty" else {}

    def total(self, reward: float | None, caught: int) -> float | None:
        """Return what a total reward without any handling becomes; None where the episode is unscored or left out."""
        if reward is None or not caught or self.name == "untouched":
            return reward
        if self.name == "penalty":
            return reward - self.penalty * caught
        return 0.0 if self.name == "zero" else None


UNTOUCHED = RewardHandling()


def confirmed(events: Iterable[GuardEvent]) -> int:
    """Count the calls that the judge called hacks."""
    return sum(event.attempt for event in events)


def policy_named(name: str) -> Policy:
    """Return the policy of a name.

    Raises:
        RangeError: there is none; the names are listed.
    """
    if name not in POLICIES:
        raise checks.fail(RangeError, "policy", f"be one of {', '.join(POLICIES)}", repr(name))
    return POLICIES[name]
