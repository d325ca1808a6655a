"""Step 3: returns and advantages by hand: the real groups in plain Python loops against the library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from rosellm.roserlhf.advantages import discounted_returns
from rosellm.roserlhf.audit.diagnosis import Outcome
from rosellm.roserlhf.audit.examination.hand_formulas import HandRollout, hand_of
from rosellm.roserlhf.audit.examination.subject import Episodes, Subject
from rosellm.roserlhf.batching.scored import PerGroup
from rosellm.roserlhf.trainer.learning import credited
from rosellm.roserlhf.trajectory import Trajectory

NAME = "return and advantage by hand"
TOLERANCE = 1e-6


def hand_total(trajectory: Trajectory, weights: Mapping[str, float]) -> float | None:
    """Add up weighted components turn by turn; None if one is missing or unscored."""
    total = 0.0
    for name, weight in weights.items():
        values = [t.reward_components[name] for t in trajectory.transitions if name in t.reward_components]
        if not values or None in values or trajectory.is_unscored:
            return None
        for value in values:
            total += weight * (value or 0.0)
    return total


def hand_returns(rewards: Sequence[float], gamma: float) -> list[float]:
    """Sum what follows each step, every term written out: `Σ_k γ^k r_(t+k)`."""
    return [sum(gamma**k * rewards[t + k] for k in range(len(rewards) - t)) for t in range(len(rewards))]


def rescored(trajectories: Sequence[Trajectory], values: Sequence[float], weights: Mapping[str, float]) -> list[Trajectory]:
    """Give records made-up rewards: about `values` in total, spread over turns and components; what has no turn stays as it is."""
    changed = []
    for trajectory, value in zip(trajectories, values, strict=True):
        turns = len(trajectory.transitions)
        transitions = [
            replace(transition, reward_components={name: value / turns + t % 2 + k * t for k, name in enumerate(weights)})
            for t, transition in enumerate(trajectory.transitions)
        ]
        changed.append(replace(trajectory, transitions=transitions))
    return changed


def hand_credit(subject: Subject, episodes: Episodes) -> Outcome:
    """Compute totals, returns and advantages by hand, for the rewards as they are and for made-up ones that all differ.

    Groups are formed here by what they are about, the task and the prompt, and not by their ids.
    """
    mixed = _mixed_group(episodes.trajectories)
    if mixed is not None:
        cause = "wrong group ids: episodes of different tasks are compared with each other"
        return Outcome(NAME, "failed", mixed, cause, "form the id of a group from run, step and task")
    for trajectory, reward in zip(episodes.trajectories, episodes.rewards, strict=True):
        if not _near(by_hand := hand_total(trajectory, subject.reward_weights), reward):
            evidence = f"total reward of {trajectory.trajectory_id} is {reward}, by hand {by_hand}"
            return Outcome(
                NAME, "failed", evidence, "components are weighted or summed wrongly", "None is not 0; weights are the recipe's"
            )
    if (wrong := _wrong_return(episodes)) is not None:
        return Outcome(NAME, "failed", wrong, "returns are discounted or cut wrongly", "G_t = r_t + γ G_(t+1), 0 after the end")
    weights = subject.reward_weights
    if hand_of(subject.recipe.credit, weights) is None:
        credit: Any = subject.recipe.credit
        function = credit.function if isinstance(credit, PerGroup) else credit
        name = getattr(function, "__name__", repr(function))
        evidence = f"totals and returns agree; the advantages of {name} were not compared: it has no hand computation"
        return Outcome(
            NAME, "warning", evidence, "the credit function is one of your own", "compare it with a slow computation of it"
        )
    made_up = rescored(episodes.trajectories, [float((i * i) % 7) + 0.1 * i for i in range(len(episodes.trajectories))], weights)
    for what, trajectories in (("as scored", episodes.trajectories), ("made up", made_up)):
        if (wrong := _wrong_advantage(subject, trajectories)) is not None:
            evidence = f"rewards {what}: {wrong}"
            return Outcome(
                NAME, "failed", evidence, "another formula, or statistics over the wrong members", "credit is per group, by id"
            )
    groups = len({t.group_id for t in episodes.trajectories})
    evidence = f"{len(episodes.rewards)} totals, returns at γ 1 and 0.9, advantages of {groups} groups as scored and made up agree"
    return Outcome(NAME, "passed", f"{evidence} (allowed {TOLERANCE:g})")


def _near(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return abs(one - other) <= TOLERANCE * max(1.0, abs(one))


def _about(trajectory: Trajectory) -> tuple[Any, ...]:
    return trajectory.task_id, tuple(tuple(getattr(span, "token_ids", ())) for span in trajectory.prompt)


def _mixed_group(trajectories: Sequence[Trajectory]) -> str | None:
    by_id: dict[str | None, Trajectory] = {}
    by_task: dict[Any, Trajectory] = {}
    for trajectory in trajectories:
        first = by_id.setdefault(trajectory.group_id, trajectory)
        if _about(first) != _about(trajectory):
            pair = f"{first.trajectory_id} and {trajectory.trajectory_id}"
            return f"group {trajectory.group_id!r} holds {pair}, which are about different tasks"
        same = by_task.setdefault(_about(trajectory), trajectory)
        if same.group_id != trajectory.group_id:
            return f"{same.trajectory_id} and {trajectory.trajectory_id} are about one task, but are in different groups"
    return None


def _wrong_return(episodes: Episodes) -> str | None:
    for trajectory, total in zip(episodes.trajectories, episodes.rewards, strict=True):
        if total is None or not trajectory.actions:
            continue
        rewards = [0.0] * (len(trajectory.actions) - 1) + [total]
        for gamma in (1.0, 0.9):
            found = discounted_returns(torch.tensor(rewards, dtype=torch.float64), gamma=gamma).tolist()
            by_hand = hand_returns(rewards, gamma)
            if not all(map(_near, found, by_hand)):
                return f"returns of {trajectory.trajectory_id} at γ {gamma} are {found}, by hand {by_hand}"
    return None


def _wrong_advantage(subject: Subject, trajectories: Sequence[Trajectory]) -> str | None:
    weights, hand = subject.reward_weights, hand_of(subject.recipe.credit, subject.reward_weights)
    assert hand is not None
    _, rows = credited(subject.recipe, trajectories, weights)
    totals = [hand_total(trajectory, weights) for trajectory in trajectories]
    groups: dict[Any, list[int]] = {}
    for index, (trajectory, total) in enumerate(zip(trajectories, totals, strict=True)):
        if total is not None and trajectory.trainable:
            groups.setdefault(_about(trajectory), []).append(index)
    compared = [(index, about) for about, members in groups.items() if len(members) > 1 for index in members]
    rollouts = [
        HandRollout.of(trajectories[index], about, total, weights)
        for index, about in compared
        if (total := totals[index]) is not None
    ]
    by_hand = dict(zip([index for index, _ in compared], hand(rollouts) if rollouts else (), strict=True))
    for index, row in enumerate(rows):
        wanted, found = _turns(by_hand.get(index)), _turns(row.advantage)
        if len(wanted) != len(found) or not all(map(_near, wanted, found)):
            others = [totals[other] for other in groups.get(_about(trajectories[index]), [])]
            return f"advantage of {row.trajectory_id} is {row.advantage}, by hand {by_hand.get(index)} of the rewards {others}"
    return None


def _turns(advantage: float | tuple[float, ...] | None) -> tuple[float | None, ...]:
    return advantage if isinstance(advantage, tuple) else (advantage,)
