"""Logs to export, and everything that can be read from a log."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rosellm.roserlhf.store import EventLog, LedgerEntry, Update, UpdatedRow
from rosellm.roserlhf.store.encoding import pack_record
from rosellm.roserlhf.trajectory import (
    ParsedAction,
    PolicyAction,
    ScoreRecord,
    TokenSpan,
    ToolCall,
    ToolResult,
    Trajectory,
    TransitionRecord,
)


def episode(trajectory_id: str = "run/1/shop/0/0", *, step: int = 1, reward: float | None = 1.0, **fields: Any) -> Trajectory:
    """Two turns over a row of 12 tokens: prompt 3, action 3, observation 2, action 2, and 2 shown at the truncation."""
    record = Trajectory(
        trajectory_id,
        "shop",
        "shop-1",
        "tok-1",
        group_id="g0",
        prompt=[TokenSpan([10, 11], "system"), TokenSpan([12], "user")],
        run_id="run",
        step=step,
        member=0,
        **fields,
    )
    call = ToolCall("c1", "search", {"q": "lamp", "page": 2}, (0, 3))
    record.append(
        PolicyAction(0, [20, 21, 2], [-0.5, -0.25, -0.0], "v0", "search", ParsedAction("", [call]), stop_reason="stop"),
        TransitionRecord(
            0,
            None,
            {"format": 0.5},
            results=[ToolResult("c1", "ok", "1 lamp")],
            observation=[TokenSpan([30, 31], "tool")],
        ),
    )
    record.append(
        PolicyAction(1, [22, 2], [-1.0, -0.125], "v1", "buy", stop_reason="length"),
        TransitionRecord(
            1,
            None,
            {"success": reward, "format": 0.25},
            truncated=True,
            cause="turn limit",
            observation=[TokenSpan([32, 33], "tool")],
        ),
    )
    return record


def new_log(path: Path, records: Iterable[Trajectory] = (), *, phase: str = "train") -> EventLog:
    """Make a log of records, each at its own step, or at step 0."""
    log = EventLog.create(path)
    with log.transaction():
        for record in records:
            log.append_trajectory(record, step=(record.step or 0) % 2**62, phase=phase)
    return log


def run_log(path: Path) -> EventLog:
    """Make the log of a run that was resumed: every table has rows, and every kind of them superseded ones."""
    log = EventLog.create(path)
    log.add_policy("v0", step=0, content_hash="h0")
    for life in range(2):
        for step in (0, 1) if life == 0 else (1,):
            _step(log, step, life)
        if life == 0:
            log.supersede(1)
    return log


def _step(log: EventLog, step: int, life: int) -> None:
    if step:
        log.add_policy("v1", step=step, parent="v0", content_hash=f"h{life}")
    rows = []
    for member, reward in enumerate((1.0, None, -0.5)):
        record = episode(f"run/{step}/shop/{member}/0", step=step, reward=reward, timing={"seconds": 0.5 + life})
        log.append_entries([LedgerEntry(record.trajectory_id, "launched", step=step)])
        log.append_trajectory(record, step=step, phase="train")
        ends: list[LedgerEntry] = [LedgerEntry(record.trajectory_id, "finished", step=step, sampled=5)]
        if reward is None:
            ends.append(LedgerEntry(record.trajectory_id, "rejected", step=step, reason="unscored", detail={"advantage": None}))
        else:
            kept: dict[str, Any] = {
                "trained": 3,
                "excluded": {"stale": 2},
                "detail": {"advantage": reward / 3, "x": [math.nan, 2**70]},
            }
            ends += [LedgerEntry(record.trajectory_id, "admitted", step=step)]
            ends += [LedgerEntry(record.trajectory_id, "trained", step=step, **kept)]
            rows.append(UpdatedRow(record.trajectory_id, array("f", [-0.5, -0.1, math.nan, -math.inf, -1e-40])))
        log.append_entries(ends)
        log.append_score(ScoreRecord(record.trajectory_id, 1, {"judge": None, "late": 0.1 + life}, "judge-1"))
    log.append_trajectory(episode(f"held-out/{step}", step=step), step=step, phase="evaluate")
    log.append_metrics("train", step, {"reward": math.nan, "loss": -math.inf, "bytes": 2**70, "tiny": 5e-324, "zero": -0.0})
    log.append_update(update(step, 0, rows))
    log.append_update(update(step, 1, [], skipped="no gradient"))


def update(step: int, number: int, rows: Sequence[UpdatedRow], **fields: Any) -> Update:
    """Make an update with one loss that is no number."""
    numbers = {"denominator": 6.0, "loss": math.nan, "gradient_norm": 0.1, "learning_rate": 1e-5}
    return Update(step, number, **{"epoch": 0, "rows": rows, **numbers, **fields})


def everything(path: Path) -> dict[str, Any]:
    """Read all there is in a log, in a form in which NaN is equal to itself and records are compared bit by bit."""
    found: dict[str, Any] = {}
    with EventLog.read(path) as log:
        for all_rows in (False, True):
            reads: dict[str, Any] = {
                "records": ((s, pack_record(s.trajectory)) for s in log.trajectories(include_superseded=all_rows)),
                "summaries": log.summaries(include_superseded=all_rows),
                "scores": log.scores(include_superseded=all_rows),
                "ledger": log.ledger(include_superseded=all_rows),
                "policies": log.policies(include_superseded=all_rows),
                "metrics": log.metrics(include_superseded=all_rows),
                "updates": log.updates(include_superseded=all_rows),
            }
            found |= {f"{name} {all_rows}": [repr(row) for row in rows] for name, rows in reads.items()}
        found["tokens"] = log.sampled_tokens()
    return found
