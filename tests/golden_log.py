"""What the golden log of an earlier schema holds: one record of every kind, extreme numbers, hostile text, a step run twice.

`python tests/golden_log.py FILE` writes it with the code that is on the path; `tests/data/events_v1.db` was written by the last
code of schema 1, and its records' content hashes stand beside it.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

from rosellm.roserlhf.store import EventLog
from rosellm.roserlhf.trajectory import (
    CopySpan,
    ParentLink,
    ParsedAction,
    ParseFailure,
    PolicyAction,
    SamplingParameters,
    ScoreRecord,
    TokenSpan,
    ToolCall,
    ToolResult,
    Trajectory,
    TransitionRecord,
    VersionSpan,
)

HOSTILE = 'a\ud800\x00\u2028"🦊\x1b[31m</script>'


def records() -> list[Trajectory]:
    """Build the records, new ones at every call."""
    return [root(), branch(), child("compaction"), child("continuation"), broken(), Trajectory("empty", "k", "", "")]


def root() -> Trajectory:
    """Build a finished rollout of two turns in which every field is used."""
    arguments = {"a": None, HOSTILE: [1, 2**70, -0.0, {"x": {}}], "empty": ""}
    parsed = ParsedAction(HOSTILE, [ToolCall("c0", "search", arguments, (0, 2))], [ParseFailure("bad", "c1", None, "{", (2, 3))])
    first = PolicyAction(
        0,
        [7, 2**16, 2**31, 2**40, 2**70],
        [-0.1, -0.0, -5e-324, -1e308, -(0.1 + 0.2)],
        "v7",
        HOSTILE,
        parsed,
        version_spans=[VersionSpan(0, 2, "v7"), VersionSpan(2, 5, "v8", "stale")],
        sampling=SamplingParameters(0.7, 0.9, 40, 0.01, 256, (2**70, HOSTILE, -1)),
        kept_support=[[7, 8], None, [2**31], None, [2**70]],
        stop_reason="stop",
        sidecars={"experts": bytes(range(10))},
        images=["img-1"],
        timing={"generate": 0.25, "ns": 2**62},
    )
    results = [
        ToolResult("c0", "error", HOSTILE, "guard", "ref", 3, 0.5, "cache", "g-1"),
        ToolResult("c1", origin="harness", attempts=0),
    ]
    shown = [TokenSpan([1, 2**40], "tool", [True, False], images=["img-2"]), TokenSpan([], "assistant", [], True)]
    rewards = {"correct": None, "cost": -0.0, "tiny": 5e-324}
    answered = TransitionRecord(
        0, "obs", rewards, False, False, "s0", results=results, observation=shown, cause="late", blame="environment"
    )
    made = Trajectory(
        "root",
        "task",
        "shop-1",
        "tok-1",
        [first],
        [answered],
        group_id="g",
        prompt=[TokenSpan([5, 6], "user", [True, False]), TokenSpan([9], "assistant")],
        run_id="run",
        step=2**40,
        member=1,
        attempt=2,
        initial_state_hash="s",
        seeds={"run": 2**40, "environment": -1},
        hashes={"tokenizer": "x", "code": HOSTILE},
        policy_name="p",
        trainable=False,
        timing={"total": 1.5},
    )
    made.append(PolicyAction(1, [3], [-0.25], "v8", "", {"free": [True, None]}), TransitionRecord(1, None, {"correct": 1.0}, True))
    return made


def branch() -> Trajectory:
    """Build a branch cut by a limit."""
    acted = PolicyAction(1, [4], [-0.5], "v8", "", ParseFailure("no call", cut=True), stop_reason="length")
    end = TransitionRecord(1, None, {}, False, True, observation=[TokenSpan([8], "tool")], cause="limit")
    return Trajectory("branch", "task", "shop-1", "tok-1", [acted], [end], group_id="g", parent=ParentLink("root", 1, "branch"))


def child(kind: Any) -> Trajectory:
    """Build a child that is cut: one that copies its prompt, or one that goes on with a cut action."""
    prompt: list[TokenSpan | CopySpan] = [CopySpan("root", 0, 3), TokenSpan([1], "user")] if kind == "compaction" else []
    acted = PolicyAction(1, [4, 5], [-0.5, -0.25], "v9", "", stop_reason="interrupted", continues_action=kind == "continuation")
    return Trajectory(f"a {kind}", "task", "shop-1", "tok-1", [acted], prompt=prompt, parent=ParentLink("root", 1, kind))


def broken() -> Trajectory:
    """Build a record that the infrastructure broke off."""
    made = Trajectory("broken", "task", "shop-1", "tok-1")
    made.fail("infrastructure", "engine died")
    return made


def fill(log: EventLog) -> None:
    """Append everything, step 1 twice."""
    for run in range(2):
        if run:
            log.supersede(1)
        for number, trajectory in enumerate(records()):
            if not run or number % 2:
                log.append_trajectory(trajectory, step=number % 2, phase="train")
        for step in range(run, 2):
            log.add_policy(f"v{step}", step=step, parent=f"v{step - 1}" if step else None, content_hash="h")
            log.append_metrics("train", step, {"loss": math.nan, "best": -math.inf, "n": 2**80, HOSTILE: [0.1 + 0.2, run]})
        log.append_score(ScoreRecord("branch", 1, {"judge": None if run else -0.0}, "judge-1"))
    log.append_trajectory(root(), step=2**40, phase="evaluate")
    splits: dict[str, dict[str, Any]] = {"a": {"trained": 5}, "b": {"trained": 3, "excluded": {"stale": 2}}}
    for name, split in splits.items():
        log.append_ledger(name, "launched", step=0, detail={"worker": HOSTILE})
        log.append_ledger(name, "finished", step=0, sampled=5)
        log.append_ledger(name, "admitted", step=0)
        log.append_ledger(name, "trained", step=0, **split)
    log.append_ledger("c", "launched", step=0)
    log.append_ledger("c", "failed", step=0, reason="timeout", sampled=2)
    log.append_ledger("c", "rejected", step=1, reason="unscored", detail={"advantage": None})
    log.append_ledger("d", "launched", step=0)


if __name__ == "__main__":
    with EventLog.create(sys.argv[1]) as written:
        fill(written)
        hashes = [s.trajectory.content_hash() for s in written.trajectories(include_superseded=True)]
    Path(sys.argv[1]).with_suffix(".json").write_text(json.dumps(hashes, indent=1) + "\n", encoding="utf-8")
