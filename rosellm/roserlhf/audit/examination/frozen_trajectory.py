"""Step 1: freeze one trajectory and read it: does the trainer see what the policy was shown and what it said?

The row of every record is laid out a second time here, by plain loops over the record, and what the engine was asked to continue is
held against the ids that the record says stood there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rosellm.roserlhf.audit.diagnosis import Outcome
from rosellm.roserlhf.audit.examination.subject import Episodes, Subject
from rosellm.roserlhf.batching.rows import Row
from rosellm.roserlhf.report import units
from rosellm.roserlhf.trajectory import CopySpan, PolicyAction, Trajectory

NAME = "one trajectory, frozen and printed"
_FIX_ROW = "build rows from the spans of the record, never from text, from ids or from padded widths"
_FIX_HISTORY = "append sampled ids to the context as they are; decode text for reading only and never encode it again"


@dataclass(frozen=True)
class Token:
    """One token of a record, and what a row must say at its place."""

    token_id: int
    role: str
    turn: int | None = None
    """Turn of the action that sampled it; None for context."""
    behaviour: float | None = None
    """Log-probability it was sampled with; None for context."""

    @property
    def sampled(self) -> bool:
        """Whether the policy sampled it here."""
        return self.behaviour is not None


@dataclass(frozen=True)
class _Problem:
    evidence: str
    cause: str
    fix: str


def tokens_of(trajectory: Trajectory) -> list[Token]:
    """Walk a record that holds its whole context, up to its last sampled token."""
    tokens: list[Token] = []
    for span in trajectory.spans():
        if isinstance(span, PolicyAction):
            pairs = zip(span.token_ids, span.old_logprobs, strict=True)
            tokens += [Token(token_id, "assistant", span.turn, logprob) for token_id, logprob in pairs]
        elif not isinstance(span, CopySpan):
            tokens += [Token(token_id, span.role) for token_id in span.token_ids]
    while tokens and not tokens[-1].sampled:
        tokens.pop()
    return tokens


def frozen_trajectory(subject: Subject, episodes: Episodes, spelled: Episodes | None) -> Outcome:
    """Hold rows and requests against the records, and print the shortest trajectory.

    Args:
        subject: who sampled them.
        episodes: sampled as configured.
        spelled: with replies that no tokenizer would write so, where there are any: encoding the history again shows.
    """
    samples = [episodes] if spelled is None else [episodes, spelled]
    problems = [problem for played in samples for problem in _problems(subject, played)]
    trajectory, row = min(zip(episodes.trajectories, episodes.rows, strict=True), key=lambda pair: len(pair[1].token_ids))
    lines = tuple(printed(trajectory, row, decoder(subject)))
    count = sum(len(played.trajectories) for played in samples)
    if problems:
        first = problems[0]
        return Outcome(
            NAME, "failed", f"{first.evidence}; {len(problems)} faults in {count} records", first.cause, first.fix, lines
        )
    sampled = sum(trajectory.sampled_tokens for played in samples for trajectory in played.trajectories)
    return Outcome(
        NAME, "passed", f"{count} records, {sampled:,} sampled tokens: each row and request is its record's", lines=lines
    )


def _problems(subject: Subject, played: Episodes) -> Iterator[_Problem]:
    for trajectory, row in zip(played.trajectories, played.rows, strict=True):
        tokens = tokens_of(trajectory)
        yield from _row_problems(trajectory.trajectory_id, tokens, row)
        yield from _history_problems(trajectory, tokens, played.prompts.get(trajectory.trajectory_id, []))
        if trajectory.actions and (found := trajectory.behavior_policy_versions) != (subject.version,):
            evidence = f"{trajectory.trajectory_id} was sampled by {', '.join(found)}, {subject.version} was published"
            cause = "the engine names another version than it was given"
            yield _Problem(evidence, cause, "let every chunk carry the published version")


def _row_problems(name: str, tokens: list[Token], row: Row) -> Iterator[_Problem]:
    columns: Sequence[tuple[str, list[object], Sequence[object]]] = (
        ("token id", [token.token_id for token in tokens], row.token_ids),
        ("policy mask", [token.sampled for token in tokens], row.policy_mask),
        ("behaviour log-probability", [token.behaviour or 0.0 for token in tokens], row.behaviour_logprobs),
        ("turn", [-1 if token.turn is None else token.turn for token in tokens], row.turns),
    )
    for what, recorded, found in columns:
        if recorded != list(found):
            place = next((i for i in range(len(recorded)) if i >= len(found) or recorded[i] != found[i]), len(recorded))
            got, wanted = (values[place] if place < len(values) else "missing" for values in (found, recorded))
            evidence = f"{what} at position {place} of the row of {name} is {got}, the record says {wanted}"
            yield _Problem(evidence, _shift(recorded, list(found)), _FIX_ROW)
            return
    for place, (in_loss, token) in enumerate(zip(row.loss_mask, tokens, strict=True)):
        if in_loss and not token.sampled:
            cause = _shift([token.sampled for token in tokens], list(row.loss_mask))
            evidence = f"position {place} of the row of {name} is in the loss, the record says that it is {token.role} context"
            yield _Problem(evidence, cause, _FIX_ROW)
            return
    placed = row.trained + sum(row.excluded.values())
    if row.sampled != placed:
        cause = "sampled tokens leave the loss without a reason: stop tokens, calls or thoughts are dropped"
        if row.sampled < placed:
            cause = "tokens that the policy did not sample were in the loss"
        counts = f"{row.sampled} sampled, {row.trained} in the loss, excluded {dict(row.excluded)}"
        yield _Problem(f"the row of {name} does not balance: {counts}", cause, "exclude by name, so that counts balance")


def _shift(recorded: list[object], found: list[object]) -> str:
    for places, direction in ((1, "right"), (-1, "left")):
        inner = range(1, len(recorded) - 1)
        if len(found) == len(recorded) and all(found[i] == recorded[i - places] for i in inner):
            return f"the mask is shifted by one to the {direction} against its tokens"
    return "the row builder does not lay out what was recorded"


def _history_problems(trajectory: Trajectory, tokens: list[Token], prompts: list[tuple[int, ...]]) -> Iterator[_Problem]:
    for turn, (action, prompt) in enumerate(zip(trajectory.actions, prompts, strict=False)):
        start = next(i for i, token in enumerate(tokens) if token.turn == action.turn)
        context = tuple(token.token_id for token in tokens[:start])
        if prompt != context:
            pairs = enumerate(zip(prompt, context, strict=False))
            place = next((i for i, (asked, kept) in pairs if asked != kept), min(len(prompt), len(context)))
            evidence = (
                f"turn {turn} of {trajectory.trajectory_id} continued {len(prompt)} ids, its record holds {len(context)} "
                f"before it, different from position {place} on"
            )
            yield _Problem(evidence, "the history was decoded and encoded again between turns", _FIX_HISTORY)
            return


def decoder(subject: Subject) -> Callable[[int], str]:
    """Return what writes one id as text; ids stay numbers where there is no codec."""
    return (lambda token_id: "") if subject.world is None else (lambda token_id: subject.world.codec.text((token_id,)))  # type: ignore[union-attr]


def printed(trajectory: Trajectory, row: Row, decode: Callable[[int], str]) -> Iterator[str]:
    """Write a trajectory a token a line: position, turn, role, mask, id, log-probability, text; then its rewards and its end."""
    yield f"{trajectory.trajectory_id}"
    yield f"{'place':>5} {'turn':>4}  {'role':<9}  {'mask':<4}  {'id':>6}  {'log π':>9}  text"
    for place, token in enumerate(tokens_of(trajectory)):
        turn = "" if token.turn is None else str(token.turn)
        logprob = "" if token.behaviour is None else f"{token.behaviour:.4f}"
        mask = "1" if place < len(row.policy_mask) and row.policy_mask[place] else "0"
        yield f"{place:>5} {turn:>4}  {token.role:<9}  {mask:<4}  {token.token_id:>6}  {logprob:>9}  {decode(token.token_id)!r}"
    for transition in trajectory.transitions:
        if transition.reward_components or transition.ending:
            rewards = ", ".join(f"{name} {value}" for name, value in transition.reward_components.items())
            end = f"{transition.ending}" + (f" ({transition.cause})" if transition.cause else "")
            yield f"turn {transition.turn}: reward {rewards or 'none'}; {end}"
    yield (
        "credit: "
        + (f"advantage {units.advantage(row.advantage, '.4f')}" if row.advantage is not None else "no advantage")
        + (f"; left out: {dict(row.excluded)}" if row.excluded else "")
    )
