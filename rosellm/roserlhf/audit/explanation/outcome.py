"""What a trajectory did, in sentences: `Evidence, credit, updates -> headline`, or why it moved nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rosellm.roserlhf.audit.explanation.evidence import TRAINING, Evidence
from rosellm.roserlhf.audit.explanation.numbers import brief
from rosellm.roserlhf.audit.explanation.reward_story import CreditStory
from rosellm.roserlhf.audit.explanation.token_story import TokenStory
from rosellm.roserlhf.audit.explanation.update_story import UpdateStory
from rosellm.roserlhf.batching.credit import ALONE, UNIFORM
from rosellm.roserlhf.guard.policy import CAUGHT, MASKED
from rosellm.roserlhf.record.exclusion import NOT_TRAINABLE, STALE, UNSCORED
from rosellm.roserlhf.report import units
from rosellm.roserlhf.trajectory import Trajectory

_REASONS = {
    UNIFORM: "every scored member of its group had the same reward, so there is nothing to prefer",
    UNSCORED: "its reward is not known, and not known is not 0",
    ALONE: "no other member of its group was scored, so there is nothing to compare it with",
    CAUGHT: "a call of it was confirmed as a hack, and the run leaves such episodes out",
    MASKED: "all of its tokens are those of calls that the guard blocked",
    NOT_TRAINABLE: "its record is kept as evidence or context only",
    STALE: "its tokens were sampled over keys and values of an older policy, so no single distribution made them",
}


def outside(evidence: Evidence) -> str | None:
    """Say why the whole record has no part in any policy loss; None if it may have one."""
    phase = evidence.stored.phase
    if evidence.stored.superseded:
        return "superseded: its step was run again from an earlier checkpoint"
    if phase == "demonstration":
        return "not in a policy loss: a demonstration, which the warm start imitates"
    if phase.startswith("evaluate"):
        return "not in a loss: an evaluation"
    return None if phase == TRAINING else f"not in a policy loss: collected for {phase}"


def why_nothing_moved(evidence: Evidence, updates: Sequence[UpdateStory]) -> str | None:
    """Say why no weight moved on a trajectory; None if it took part in an update that was made, or the log says it was trained."""
    phase = evidence.stored.phase
    if evidence.stored.superseded:
        return "Its step was run again from an earlier checkpoint: this record is superseded, and the weights know nothing of it."
    if phase == "demonstration":
        return (
            "It is a scripted demonstration, which the warm start cloned token by token before training. It has no advantage and "
            "no part in a policy update, and of the cloning steps no evidence is kept."
        )
    if phase.startswith("evaluate"):
        return "It is an evaluation: it measured the policy and moved nothing."
    if phase != TRAINING:
        return f"It was collected for {phase}, not for training, so it moved nothing."
    if evidence.fate is None:
        return "The ledger does not know this attempt, so nothing says that it was trained."
    entry = evidence.fate.entry
    if entry.state == "trained":
        return None
    if entry.state != "rejected":
        return f"It was not trained (yet): its attempt is {entry.state}."
    reason = entry.reason or "no reason recorded"
    refused = [f"update {update.number}: {update.skipped}" for update in updates if update.skipped]
    because = _REASONS.get(reason) or "; ".join(refused)
    return f"It was left out of the update as “{reason}”" + (f": {because}." if because else ".")


def ending_of(trajectory: Trajectory) -> str:
    """Say how an episode ended, with its cause."""
    if trajectory.failure is not None:
        return f"broke off: {trajectory.failure.cause} ({trajectory.failure.blame})"
    cause = trajectory.transitions[-1].cause if trajectory.transitions else None
    return (trajectory.ending or "not ended") + (f" ({cause})" if cause else "")


def headline(
    evidence: Evidence,
    credit: CreditStory,
    updates: Sequence[UpdateStory],
    tokens: Sequence[TokenStory],
    nothing: str | None,
) -> tuple[str, ...]:
    """Tell the story in a few sentences: what it did, its reward against its group, what was pushed by how much."""
    return (
        _deeds(evidence, tokens),
        *_parts(evidence),
        *_rewards(credit),
        *([nothing] if nothing else []),
        *(_pushes(update, len(updates)) for update in updates),
    )


def _deeds(evidence: Evidence, tokens: Sequence[TokenStory]) -> str:
    trajectory = evidence.stored.trajectory
    turns, sampled = len(trajectory.actions), trajectory.sampled_tokens
    versions = " and ".join(trajectory.behavior_policy_versions)
    by = f" sampled by {versions}" if versions else ""
    return (
        f"{evidence.stored.phase} step {evidence.stored.step}, task {trajectory.task_id}: {_count(turns, 'turn')}, "
        f"{sampled} of {len(tokens)} tokens{by}; it {_verb(trajectory)}{ending_of(trajectory)}."
    )


def _parts(evidence: Evidence) -> list[str]:
    """Say where the record stands in an episode of several."""
    names = [record.trajectory_id for record in evidence.rollout.records]
    if len(names) == 1:
        return []
    place = names.index(evidence.stored.trajectory.trajectory_id)
    before = f", after {names[place - 1]}" if place else ""
    after = f", before {names[place + 1]}" if place + 1 < len(names) else ""
    return [
        f"It is record {place + 1} of {len(names)} of one episode{before}{after}; reward and advantage are the whole episode's."
    ]


def _verb(trajectory: Trajectory) -> str:
    if trajectory.failure is not None:
        return ""
    return "was " if trajectory.ending is not None and trajectory.ending != "terminated" else "" if trajectory.ending else "has "


def _rewards(credit: CreditStory) -> list[str]:
    if not credit.reward_is_known:
        recorded = "" if credit.recorded is None else f" The ledger recorded the advantage {units.advantage(credit.recorded)}."
        return [f"Its total reward is not known here, because the weights of the components are not.{recorded}"]
    reward = "unscored" if credit.reward is None else brief(credit.reward)
    if not credit.members:
        return [f"Its total reward: {reward}."] if credit.components else []
    rewards = Counter(brief(m.reward) for m in credit.members if m.reward is not None and m.left_out is None)
    listed = ", ".join(f"{count} x {value}" for value, count in sorted(rewards.items(), key=lambda item: -float(item[0])))
    without = sum(member.left_out is not None for member in credit.members)
    group = f"its group of {len(credit.members)} got {listed or 'no reward'}" + (f", {without} left out" if without else "")
    against = "" if credit.baseline is None else f", baseline {brief(credit.baseline)}"
    several = "s of its turns" if isinstance(credit.advantage, tuple) else ""
    advantage = "" if credit.advantage is None else f": advantage{several} {units.advantage(credit.advantage)}"
    return [f"Its total reward is {reward}; {group}{against}{advantage}."]


def _pushes(update: UpdateStory, count: int) -> str:
    place = f"Update {update.number}" + (f" (epoch {update.epoch})" if update.epoch else "") if count > 1 else "The update"
    if update.row_absolute is None:
        return f"{place} had {update.rows} rows, this one among them; its derivative is not known."
    live = [token for token in update.tokens if token.derivative is not None]
    parts = [f"{_count(update.up, 'token')} up" if update.up else "", f"{_count(update.down, 'token')} down" if update.down else ""]
    idle = len(live) - update.up - update.down
    pushed = " and ".join(part for part in parts if part) or "no token"
    rest = f", {idle} got no gradient" if idle else ""
    share = "" if update.row_share is None else f", {100 * update.row_share:.3g} % of the update's ({update.rows} rows)"
    made = f"{place} pushed" if update.skipped is None else f"{place} was not made ({update.skipped}); it would have pushed"
    return f"{made} {pushed}{rest}: |dL/dl| sums to {update.row_absolute:.3g}{share}."


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
