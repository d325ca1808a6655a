"""Rewards of a trajectory and of its group -> its advantage, recomputed beside the recorded one: `Evidence -> CreditStory`."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rosellm.roserlhf.audit.explanation.credit_formula import Formula, formula_of
from rosellm.roserlhf.audit.explanation.evidence import Evidence
from rosellm.roserlhf.batching.credit import advantage_of_row, compared, group_rows, total_reward
from rosellm.roserlhf.batching.rollout import Rollout
from rosellm.roserlhf.batching.rows import Row
from rosellm.roserlhf.batching.scored import scored_rollouts
from rosellm.roserlhf.errors import RecordError, RoseError
from rosellm.roserlhf.record.exclusion import NOT_TRAINABLE, UNSCORED
from rosellm.roserlhf.trainer.account import advantage_of, hash_of, kept
from rosellm.roserlhf.trainer.guarding import masked

_AGREE = 1e-9
"""Relative difference up to which a recomputed advantage is the recorded one; both are float64."""


@dataclass(frozen=True)
class TurnReward:
    """What one turn was paid."""

    turn: int
    """Absolute turn."""
    components: Mapping[str, float | None]
    """By name; None = not scored."""
    weighted: float | None
    """Weighted sum of the components that have a weight; None if one of them is not scored or the weights are not known."""


@dataclass(frozen=True)
class Member:
    """One rollout of the group."""

    trajectory_id: str
    """Its record."""
    reward: float | None
    """Total; None = unscored, or not known."""
    left_out: str | None
    """Why it has no part in the statistics; None if it has."""
    advantage: float | tuple[float, ...] | None
    """As the ledger recorded it; one for each turn where turns have their own."""


@dataclass(frozen=True)
class CreditStory:
    """From rewards to the advantage."""

    weights: Mapping[str, float] | None
    """Of the reward components; None if not known."""
    turns: tuple[TurnReward, ...]
    """Turns that were paid, in order."""
    components: Mapping[str, float | None]
    """Summed over the turns."""
    reward: float | None
    """Total, the undiscounted return of the episode; None = unscored, or not known."""
    reward_is_known: bool
    """Whether a reward of None means unscored."""
    group_id: str | None
    """The group; None if it has none."""
    members: tuple[Member, ...]
    """Rollouts of the group, itself included; empty outside training."""
    baseline: float | None
    """What the reward was compared with."""
    advantage: float | tuple[float, ...] | None
    """The one that was trained with: recorded, or recomputed where none was recorded. One for each turn if they have their own."""
    recorded: float | tuple[float, ...] | None
    """As the ledger has it."""
    recomputed: float | tuple[float, ...] | None
    """By the recipe's credit function from the stored rewards."""
    formula: tuple[str, ...]
    """How it was recomputed, with the numbers put in."""
    turn_formulas: tuple[tuple[str, ...], ...] = ()
    """How it went on for each turn, where turns have advantages of their own."""
    first_turn: int = 0
    """Absolute turn of the first of them."""

    def of_turn(self, turn: int | None) -> float | None:
        """Return the advantage of an absolute turn."""
        if not isinstance(self.advantage, tuple):
            return self.advantage
        return None if turn is None else self.advantage[turn - self.first_turn]

    def formula_of_turn(self, turn: int | None) -> tuple[str, ...]:
        """Return the lines that work out the advantage of an absolute turn."""
        return self.formula if turn is None or not self.turn_formulas else self.formula + self.turn_formulas[turn - self.first_turn]

    @property
    def disagreement(self) -> str | None:
        """Say that recorded and recomputed advantage differ; None if they agree or one of them is not known."""
        if self.recorded is None or self.recomputed is None or _agree(self.recorded, self.recomputed):
            return None
        return f"the advantage recorded is {self.recorded!r}, but the rewards stored give {self.recomputed!r}"


def same(one: float, other: float, relative: float, absolute: float = 0.0) -> bool:
    """Tell whether two numbers agree; NaN agrees with NaN."""
    return math.isclose(one, other, rel_tol=relative, abs_tol=absolute) or (math.isnan(one) and math.isnan(other))


def _agree(one: float | tuple[float, ...], other: float | tuple[float, ...]) -> bool:
    columns = [value if isinstance(value, tuple) else (value,) for value in (one, other)]
    return len(columns[0]) == len(columns[1]) and all(same(a, b, _AGREE) for a, b in zip(*columns, strict=True))


def rewards_of(evidence: Evidence) -> dict[str, float | None] | None:
    """Return the total reward of every peer: from its components, or as the ledger kept it where the weights are not known.

    None where neither is known.
    """
    weights = evidence.reward_weights
    if weights is not None:
        return {one.trajectory_id: total_reward(one, weights) for one in evidence.peers}
    kept = {name: fate.entry.detail for name, fate in evidence.fates.items()}
    if not kept or not all(isinstance(detail, Mapping) and "reward" in detail for detail in kept.values()):
        return None
    return {name: _number(detail["reward"]) for name, detail in kept.items() if isinstance(detail, Mapping)}


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def credit_story(evidence: Evidence, rows: Mapping[str, Row]) -> CreditStory:
    """Tell how a rollout came to its advantage; `rows` as `recomputed_rows` returns them."""
    rollout, weights, rewards = evidence.rollout, evidence.reward_weights, rewards_of(evidence)
    name = rollout.trajectory_id
    compared = evidence.is_training and rollout.group_id is not None
    group = [one for one in evidence.peers if compared and one.group_id == rollout.group_id]
    members = tuple(_member(one, evidence, rewards) for one in group)
    own = [rows[record.trajectory_id] for record in rollout.records if record.trajectory_id in rows]
    recomputed = advantage_of(own) if len(own) == len(rollout.records) and rewards is not None else None
    recorded = None if evidence.fate is None else evidence.fate.advantage
    formula = None if rewards is None or recomputed is None else _formula(evidence, rewards)
    return CreditStory(
        weights=weights,
        turns=tuple(_turn_rewards(rollout, weights)),
        components=rollout.reward_totals(),
        reward=None if rewards is None else rewards.get(name),
        reward_is_known=rewards is not None,
        group_id=rollout.group_id,
        members=members,
        baseline=None if formula is None else formula.baseline,
        advantage=recomputed if recorded is None else recorded,
        recorded=recorded,
        recomputed=recomputed,
        formula=() if formula is None else formula.lines,
        turn_formulas=() if formula is None else formula.turns,
        first_turn=rollout.first_turn,
    )


def _formula(evidence: Evidence, rewards: Mapping[str, float | None]) -> Formula | None:
    """Work the advantage out from the rollouts that it was compared with; None if it was compared with none."""
    totals = [rewards.get(rollout.trajectory_id) for rollout in evidence.peers]
    groups, _ = compared(evidence.peers, totals)
    chosen = [evidence.peers[i] for i in groups]
    name = evidence.rollout.trajectory_id
    place = next((place for place, rollout in enumerate(chosen) if rollout.trajectory_id == name), None)
    if evidence.recipe is None or place is None:
        return None
    weights = evidence.reward_weights
    scored = scored_rollouts(chosen, [total for i in groups if (total := totals[i]) is not None], list(groups.values()), weights)
    return formula_of(evidence.recipe.credit, scored, place, tuple(weights or ()))


def _turn_rewards(rollout: Rollout, weights: Mapping[str, float] | None) -> list[TurnReward]:
    told = []
    for transition in rollout.transitions:
        named = transition.reward_components
        if named:
            parts = None if weights is None else [(weights[name], value) for name, value in named.items() if name in weights]
            known = None if parts is None else [weight * value for weight, value in parts if value is not None]
            whole = known is not None and parts is not None and len(known) == len(parts)
            told.append(TurnReward(transition.turn, dict(named), sum(known) if whole and known is not None else None))
    return told


def _member(rollout: Rollout, evidence: Evidence, rewards: Mapping[str, float | None] | None) -> Member:
    fate = evidence.fates.get(rollout.trajectory_id)
    reward = None if rewards is None else rewards.get(rollout.trajectory_id)
    left_out = None
    if not rollout.trainable:
        left_out = NOT_TRAINABLE
    elif reward is None and rewards is not None:
        left_out = UNSCORED + _cause(rollout)
    else:
        left_out = rollout.left_out
    return Member(rollout.trajectory_id, reward, left_out, None if fate is None else fate.advantage)


def _cause(rollout: Rollout) -> str:
    blamed = [(t.blame, t.cause) for t in rollout.transitions if t.blame == "infrastructure"]
    if rollout.failure is not None and rollout.failure.blame == "infrastructure":
        blamed.append((rollout.failure.blame, rollout.failure.cause))
    if blamed:
        return f" ({blamed[0][1]}, {blamed[0][0]})"
    unscored = [name for name, value in rollout.reward_totals().items() if value is None]
    return f" ({', '.join(unscored)} not scored)" if unscored else " (a weighted component was never scored)"


def recomputed_rows(evidence: Evidence, problems: list[str]) -> dict[str, Row]:
    """Make the rows of a training step again as the trainer did, by record; without rewards they have no advantage."""
    rewards, recipe = rewards_of(evidence), evidence.recipe
    if rewards is None or recipe is None:
        return _bare_rows(evidence.peers)
    totals = [rewards.get(rollout.trajectory_id) for rollout in evidence.peers]
    try:
        drop, weights = recipe.config.drop_uniform_groups, evidence.reward_weights
        rows = group_rows(evidence.peers, totals, recipe.credit, drop_uniform=drop, weights=weights)
    except RoseError as error:
        problems.append(f"the advantages of the step cannot be recomputed: {error}")
        return _bare_rows(evidence.peers)
    return {row.trajectory_id: row for row in masked(rows, evidence.peers, recipe.config.guard)}


def trained_rows(evidence: Evidence, rows: Mapping[str, Row]) -> dict[str, Row]:
    """Give rows the advantages that the ledger recorded, because those are what happened; where it has none they keep theirs."""
    first_turns = {rollout.trajectory_id: rollout.first_turn for rollout in evidence.peers}
    found = dict(rows)
    for name, row in rows.items():
        fate = evidence.fates.get(row.rollout_id)
        if fate is not None and fate.advantage is not None:
            advantage = advantage_of_row(fate.advantage, row, first_turns[row.rollout_id])
            found[name] = dataclasses.replace(row, advantage=advantage)
    return found


def tampered(evidence: Evidence) -> list[str]:
    """Hold a rollout against what the ledger kept of it when it was trained: its total reward and the hashes of its rows."""
    detail = None if evidence.fate is None else evidence.fate.entry.detail
    found = []
    if isinstance(detail, Mapping) and "reward" in detail and evidence.reward_weights is not None:
        recorded, given = _number(detail["reward"]), total_reward(evidence.credited, evidence.reward_weights)
        agree = recorded is given if recorded is None or given is None else same(recorded, given, _AGREE)
        if not agree:
            found.append(f"the reward recorded is {recorded!r}, but the components stored give {given!r}")
    rows = list(_bare_rows([evidence.rollout]).values())
    if isinstance(detail, Mapping) and "row_hash" in detail and rows and kept(hash_of(rows)) != detail["row_hash"]:
        found.append("the tokens or behaviour log-probabilities stored are not those that the ledger recorded the hash of")
    return found


def _bare_rows(rollouts: Sequence[Rollout]) -> dict[str, Row]:
    rows: dict[str, Row] = {}
    for rollout in rollouts:
        with contextlib.suppress(RecordError):  # its context stands in another record, so it was no row of its own
            rows |= {row.trajectory_id: row for row in rollout.rows()}
    return rows
