"""One trajectory to read: `record -> turns with text, calls, results, rewards, versions`; nothing reaches the terminal raw."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.padding import Padding

from rosellm.roserlhf.audit.explanation.evidence import find_stored, open_log
from rosellm.roserlhf.audit.explanation.outcome import ending_of
from rosellm.roserlhf.cli.safe_text import safe
from rosellm.roserlhf.guard.event import event_of
from rosellm.roserlhf.report import units
from rosellm.roserlhf.report.token_fate import Fate, fates
from rosellm.roserlhf.report.vocabulary import Vocabulary, read_vocabulary
from rosellm.roserlhf.store import EventLog, StoredTrajectory
from rosellm.roserlhf.trajectory import (
    CopySpan,
    ParsedAction,
    ParseFailure,
    PolicyAction,
    TokenSpan,
    Trajectory,
    TransitionRecord,
)

SHOWN_CHARACTERS = 4000
"""Characters shown of one message; of a longer one the middle is left out."""


def show_transcript(console: Console, folder: Path, trajectory_id: str) -> None:
    """Show one trajectory, turn by turn.

    Raises:
        ConfigError: the run has no record of this id; the message names the nearest.
        RunFolderError: the run has no event log.
    """
    with open_log(folder) as log:
        stored = find_stored(log, trajectory_id)
        attempt = attempt_of(log, stored.trajectory)
        fate = fates(log, [attempt], {stored.step}).get(attempt)
    vocabulary = read_vocabulary(folder / "tokenizer" / "tokenizer.json")
    _show_facts(console, stored, fate)
    for heading, lines in transcript(stored.trajectory, vocabulary):
        console.print()
        console.print(safe(heading, "bold"))
        for line in lines:
            console.print(Padding(safe(line), (0, 0, 0, 2)))


def attempt_of(log: EventLog, trajectory: Trajectory) -> str:
    """Name the record that the episode began with, after which its attempt is named in the ledger."""
    seen = [trajectory.trajectory_id]
    while not trajectory.is_rollout and trajectory.parent is not None and trajectory.parent.record_id not in seen:
        seen.append(trajectory.parent.record_id)
        found = log.find(seen[-1])
        if not found:
            break
        trajectory = found[-1].trajectory
    return seen[-1]


def _show_facts(console: Console, stored: StoredTrajectory, fate: Fate | None) -> None:
    trajectory = stored.trajectory
    rewards = ", ".join(f"{name} {_scored(value)}" for name, value in trajectory.reward_totals().items())
    console.print(safe(trajectory.trajectory_id, "bold"))
    superseded = " (superseded: its step was run again)" if stored.superseded else ""
    console.print(safe(f"{stored.phase} step {stored.step}{superseded}, task {trajectory.task_id}, group {trajectory.group_id}"))
    console.print(
        safe(
            f"{len(trajectory.actions)} turns, {trajectory.sampled_tokens} tokens sampled by "
            f"{', '.join(trajectory.behavior_policy_versions) or 'nobody'}; ended: {ending_of(trajectory)}"
        )
    )
    console.print(safe(f"rewards: {rewards or units.NOT_RECORDED}; " + (fate.words if fate else "not in the ledger")))


def transcript(trajectory: Trajectory, vocabulary: Vocabulary | None) -> Iterator[tuple[str, list[str]]]:
    """Yield the parts of a record, in order: a heading and its lines."""
    if trajectory.parent is not None:
        parent = trajectory.parent
        yield f"{parent.kind} of {parent.record_id}", [f"goes on before its action {parent.turn}"]
    for span in trajectory.prompt:
        yield _context(span, "prompt", vocabulary)
    for index, action in enumerate(trajectory.actions):
        transition = trajectory.transitions[index] if index < len(trajectory.transitions) else None
        yield f"turn {action.turn} · policy {_versions(action)}", _action(action, transition)
        if transition is not None:
            for span in transition.observation:
                yield _context(span, f"turn {action.turn} · observation", vocabulary)
    if trajectory.failure is not None:
        yield "broke off", [f"{trajectory.failure.cause} ({trajectory.failure.blame})"]


def _versions(action: PolicyAction) -> str:
    return ", ".join(span.version + ("" if span.prefix_cache == "recomputed" else " (stale)") for span in action.version_spans)


def _context(span: TokenSpan | CopySpan, place: str, vocabulary: Vocabulary | None) -> tuple[str, list[str]]:
    if isinstance(span, CopySpan):
        return f"{place} · copy", [f"tokens {span.start} to {span.end} of {span.record_id}"]
    ids = span.token_ids
    words = " ".join(f"#{one}" for one in ids) if vocabulary is None else "".join(map(vocabulary.text, ids))
    return f"{place} · {span.role}", [_shortened(words)]


def _action(action: PolicyAction, transition: TransitionRecord | None) -> list[str]:
    lines = [_shortened(action.text)]
    if isinstance(action.parsed_action, ParsedAction):
        lines += [f"call {call.call_id}: {call.name}({_plain(call.arguments)})" for call in action.parsed_action.calls]
        lines += [f"no call: {failure.reason}" for failure in action.parsed_action.failures]
    elif isinstance(action.parsed_action, ParseFailure):
        lines.append(f"could not be parsed: {action.parsed_action.reason}")
    lines.append(f"{len(action.token_ids)} tokens, stopped by {action.stop_reason or units.NOT_RECORDED}")
    return lines if transition is None else [*lines, *_answer(transition)]


def _answer(transition: TransitionRecord) -> list[str]:
    lines = [
        f"result {result.call_id} ({result.status}, from the {result.origin}): {_shortened(result.content or '')}"
        for result in transition.results
    ]
    lines += [event.words for result in transition.results if (event := event_of(result)) is not None]
    named = ", ".join(f"{name} {_scored(value)}" for name, value in transition.reward_components.items())
    lines += [f"rewards: {named}"] if named else []
    if transition.ending is not None:
        lines.append(transition.ending + (f": {transition.cause}" if transition.cause else ""))
    if transition.blame is not None:
        lines.append(f"blame: {transition.blame}, {transition.cause}")
    return lines


def _plain(arguments: Mapping[str, Any] | Sequence[Any] | Any) -> str:
    if isinstance(arguments, Mapping):
        return ", ".join(
            f"{name}={_shortened(json.dumps(value, ensure_ascii=False, default=str))}" for name, value in arguments.items()
        )
    return _shortened(str(arguments))


def _scored(value: float | None) -> str:
    return "not scored" if value is None else units.number(value)


def _shortened(words: str) -> str:
    if len(words) <= SHOWN_CHARACTERS:
        return words
    half = SHOWN_CHARACTERS // 2
    return f"{words[:half]} … {len(words) - 2 * half:,} characters … {words[-half:]}"
