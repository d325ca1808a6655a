"""Run folders made by hand for the tests of `explain` and `show`: one step, one group of four, every number chosen.

```
member   reward   advantage   ratios of its two tokens   D = 8
a          1         +1          1.5   1
b          0         -1          1.5   0.5
c          0         -1          1     1
d          1         +1          1     1
```
"""

from __future__ import annotations

import json
import math
from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rosellm.roserlhf import recipes
from rosellm.roserlhf.config import dump_toml
from rosellm.roserlhf.store import EventLog
from rosellm.roserlhf.store.updates import Update, UpdatedRow
from rosellm.roserlhf.trajectory import PolicyAction, TokenSpan, Trajectory, TransitionRecord, VersionSpan

WORDS = {0: "<pad>", 1: "What", 2: "<end>", 3: "yes", 4: "no", 5: "<tool>"}
REWARDS = {"a": 1.0, "b": 0.0, "c": 0.0, "d": 1.0}
RATIOS = {"a": (1.5, 1.0), "b": (1.5, 0.5), "c": (1.0, 1.0), "d": (1.0, 1.0)}
BEHAVIOUR = (math.log(0.5), math.log(0.25))
ADVANTAGE = 0.5 / (0.5 + 1e-8)
"""Of a reward 1 among [1, 0, 0, 1]: mean and population standard deviation are 0.5."""
LOSS = 0.0125
"""-(1.2 + 1 - 1.5 - 0.8 - 1 - 1 + 1 + 1) / 8: the clip holds the first at 1.2 and the fourth at 0.8."""


def name_of(member: str) -> str:
    """Id of a member's record, with the slashes that ids have."""
    return f"run/train/1/task-1/{member}"


def rollout(
    member: str,
    reward: float | None = None,
    *,
    stale: int = 0,
    answer: str = "yes",
    trajectory_id: str | None = None,
    trainable: bool = True,
) -> Trajectory:
    """Two prompt tokens, one action of two tokens; the last `stale` of them over a stale prefix cache."""
    spans = [VersionSpan(0, 2, "v0")]
    if stale:
        spans = [VersionSpan(0, 2 - stale, "v0"), VersionSpan(2 - stale, 2, "v0+1", "stale")]
    paid = {"correct": REWARDS[member] if reward is None else reward, "cost": -0.25}
    return Trajectory(
        trajectory_id or name_of(member),
        "task-1",
        "Shop-1",
        "tokenizer",
        [PolicyAction(0, [3, 2], BEHAVIOUR, "v0", answer, version_spans=spans, stop_reason="stop")],
        [TransitionRecord(0, None, paid, terminated=True, cause="finished")],
        group_id="run/train/1/task-1",
        prompt=[TokenSpan([1, 2], "user", [True, False])],
        step=1,
        trainable=trainable,
    )


def broken(member: str) -> Trajectory:
    """A member that the infrastructure failed: unscored."""
    record = Trajectory(
        name_of(member), "task-1", "Shop-1", "tokenizer", group_id="run/train/1/task-1", prompt=[TokenSpan([1, 2], "user")], step=1
    )
    record.append(
        PolicyAction(0, [3, 2], BEHAVIOUR, "v0", "yes"),
        TransitionRecord(0, None, {"correct": None}, observation=[TokenSpan([5], "tool")]),
    )
    record.fail("infrastructure", "sandbox lost")
    return record


def update(members: Sequence[str] = "abcd", *, number: int = 0, epoch: int = 0, **changed: Any) -> Update:
    """The evidence of one update on these members."""
    logprobs = {m: [b + math.log(r) for b, r in zip(BEHAVIOUR, RATIOS[m], strict=True)] for m in members}
    rows = [UpdatedRow(name_of(m), array("f", logprobs[m])) for m in members]
    facts: dict[str, Any] = {"denominator": 8.0, "loss": LOSS, "gradient_norm": 0.75, "learning_rate": 0.001}
    return Update(1, number, epoch=epoch, rows=rows, **{**facts, **changed})


def place(
    log: EventLog,
    record: Trajectory,
    state: str,
    *,
    advantage: float | None = None,
    reason: str | None = None,
    stale: int = 0,
    kept: Mapping[str, Any] | None = None,
) -> None:
    """Store a record of step 1 and walk its attempt through the ledger; `kept` is what else the ledger keeps of it."""
    log.append_trajectory(record, step=1, phase="train")
    name, sampled = record.trajectory_id, record.sampled_tokens
    ended = None if record.failure is None else record.failure.cause
    log.append_ledger(name, "launched", step=1)
    log.append_ledger(name, "finished" if ended is None else "failed", step=1, sampled=sampled, reason=ended)
    detail = {"advantage": advantage, **(kept or {})}
    if state == "rejected":
        log.append_ledger(name, "rejected", step=1, reason=reason, detail=detail)
    elif state != "finished":
        log.append_ledger(name, "admitted", step=1)
        excluded = {"stale prefix cache": stale} if stale else {}
        log.append_ledger(name, "trained", step=1, trained=sampled - stale, excluded=excluded, detail=detail)


def make_run(folder: Path, *, words: Mapping[int, str] = WORDS, weights: bool = True, **options: Any) -> Path:
    """Make a run folder with run.toml, tokenizer and a log that says at most which rewards count."""
    (folder / "tokenizer").mkdir(parents=True)
    (folder / "run.toml").write_text(dump_toml(recipes.grpo(steps=2, **options).config), encoding="utf-8")
    vocabulary = {"model": {"type": "WordLevel", "vocab": {}}, "added_tokens": [{"id": i, "content": w} for i, w in words.items()]}
    (folder / "tokenizer" / "tokenizer.json").write_text(json.dumps(vocabulary), encoding="utf-8")
    with EventLog.create(folder / "events.db") as log:
        if weights:
            log.append_metrics("process", 0, {"machine": {}, "reward_weights": {"correct": 1.0}, "success_component": "correct"})
    return folder


def trained_run(folder: Path, *, updates: Sequence[Update] = (), recorded: float = ADVANTAGE, **options: Any) -> Path:
    """The group of the table above, trained in one update (or in the ones given)."""
    make_run(folder, **options)
    with EventLog.open(folder / "events.db") as log:
        for member, reward in REWARDS.items():
            place(log, rollout(member), "trained", advantage=recorded if reward else -recorded)
        for one in updates or [update()]:
            log.append_update(one)
    return folder
