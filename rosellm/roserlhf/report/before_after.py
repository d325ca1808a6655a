"""The same held-out tasks before training and after it: `events.db, tokenizer.json -> pairs of Transcripts`."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import TypeAlias

from rosellm.roserlhf.batching.rollout import Rollout, connected, rollouts_of
from rosellm.roserlhf.errors import RoseError
from rosellm.roserlhf.report import units
from rosellm.roserlhf.report.markup import Html, tag
from rosellm.roserlhf.report.run_folder import Run
from rosellm.roserlhf.report.transcript_view import Outcome, Transcript, transcript_view
from rosellm.roserlhf.report.transcripts import Stored, outcome_of, to_transcript
from rosellm.roserlhf.report.vocabulary import read_vocabulary
from rosellm.roserlhf.store import EventLog

COUNT = 4
PHASES = {"evaluate-greedy": "greedy, so no chance is involved", "evaluate-sampled": "sampled once"}
"""Where held-out episodes stand in the log, the first that was played before and after is shown; and what the page says of it."""
Pair: TypeAlias = tuple[Transcript, Transcript]


def read_pairs(run: Run) -> tuple[Sequence[Pair], str]:
    """Choose held-out tasks that were played at the first evaluation and at the last, changed outcomes first.

    Args:
        run: its folder holds `events.db`, and `tokenizer/tokenizer.json` for the texts.

    Returns:
        Pairs (before, after) of one task each, and a sentence that says which they are or why there are none.
    """
    path = run.folder / "events.db"
    if not path.is_file():
        return [], f"events.db: {units.NOT_RECORDED}."
    vocabulary = read_vocabulary(run.folder / "tokenizer" / "tokenizer.json")
    try:
        with EventLog.read(path) as log:
            for phase, how in PHASES.items():
                steps = sorted({row.step for row in run.evaluations} & log.sampled_tokens(phase=phase).keys())
                if len(steps) < 2:
                    continue
                before, after = (_by_task(log, phase, step) for step in (steps[0], steps[-1]))
                found = {
                    task: (Stored(before[task], phase, steps[0]), Stored(after[task], phase, steps[-1]))
                    for task in before.keys() & after
                }
                pairs = [(to_transcript(a, vocabulary), to_transcript(b, vocabulary)) for a, b in _chosen(found)]
                return pairs, f"{_counted(found)} Steps {steps[0]} and {steps[-1]}, {how}; tasks are chosen by a hash of their ids."
    except RoseError as error:
        return [], f"events.db could not be read: {error}"
    return [], "No held-out task was played both before and after training."


def _by_task(log: EventLog, phase: str, step: int) -> dict[str, Rollout]:
    stored = (one.trajectory for one in log.trajectories(phase=phase, step=step))
    return {rollout.task_id: rollout for rollout in rollouts_of(connected(stored))}


def _change(pair: tuple[Stored, Stored]) -> tuple[Outcome, Outcome]:
    return outcome_of(pair[0].rollout), outcome_of(pair[1].rollout)


def _chosen(found: Mapping[str, tuple[Stored, Stored]]) -> list[tuple[Stored, Stored]]:
    """Go round what was learnt, lost and still fails until there are `COUNT`; what always succeeded fills up."""
    order = [("failure", "success"), ("success", "failure"), ("failure", "failure")]

    def rank(task: str) -> int:
        change = _change(found[task])
        return order.index(change) if change in order else len(order)

    tasks = sorted(found, key=lambda task: (rank(task), hashlib.sha256(task.encode()).digest()))
    turns = [(rank(task) == len(order), index, task) for _, kind in groupby(tasks, rank) for index, task in enumerate(kind)]
    return [found[task] for *_, task in sorted(turns, key=lambda turn: turn[:2])[:COUNT]]


def _counted(found: Mapping[str, tuple[Stored, Stored]]) -> str:
    changes = Counter(map(_change, found.values()))
    words = [f"{before} → {after}: {units.number(count)}" for (before, after), count in changes.most_common()]
    return f"Of {units.number(len(found))} held-out tasks, " + ", ".join(words) + "."


def section(pairs: Sequence[Pair], note: str) -> Html:
    """Write the pairs below each other; the first is open."""
    views = [
        tag(
            "div",
            tag("h3", f"Task {before.task_id}: {before.outcome} before, {after.outcome} after"),
            transcript_view(before, opened=index == 0),
            transcript_view(after, opened=index == 0),
        )
        for index, (before, after) in enumerate(pairs)
    ]
    missing = None if views else tag("p", units.NOT_RECORDED, class_="missing box")
    return tag("section", tag("h2", "Before and after"), tag("p", note, class_="lead"), missing, *views, id="before-after")
