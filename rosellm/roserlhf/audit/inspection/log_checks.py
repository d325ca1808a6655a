"""The event log: does it open, is every row whole, does every record obey its laws, do ledger, tokens and metrics agree?"""

from __future__ import annotations

import json
from typing import Any

from rosellm.roserlhf.audit.inspection.run_files import METRICS, Record, RunFiles, step_of
from rosellm.roserlhf.audit.outcome import Outcome
from rosellm.roserlhf.errors import StoreError
from rosellm.roserlhf.trainer.folder import LOG

EVENT_LOG, RECORDS, POLICIES, LEDGER, TOKENS, METRIC_ROWS = "event log", "records", "policy table", "ledger", "tokens", "metrics"
_REPAIR = f"roserlhf doctor RUN --repair copies every intact row into a new {LOG} and lists what is lost"


def event_log(run: RunFiles) -> Outcome:
    """The file opens, and every row but the records themselves can be read."""
    try:
        superseded = {"include_superseded": True}
        counts = {
            "ledger events": sum(1 for _ in run.log.ledger(**superseded)),
            "scores": sum(1 for _ in run.log.scores(**superseded)),
            "metrics": len(run.log.metrics(**superseded)),
            "policies": len(run.log.policies(**superseded)),
        }
    except StoreError as error:
        return Outcome(EVENT_LOG, "failed", str(error), "the file was damaged on the disk or edited", _REPAIR)
    return Outcome(EVENT_LOG, "passed", "every checksum holds: " + ", ".join(f"{count:,} {name}" for name, count in counts.items()))


def records(run: RunFiles) -> Outcome:
    """Every record can be read, obeys its laws, and was sampled by a version that the policy table knows."""
    known = {policy.version: place for place, policy in enumerate(run.policies)}
    count = 0
    try:
        for stored in run.log.trajectories(include_superseded=True):
            count += 1
            trajectory = stored.trajectory
            if stored.superseded:
                continue
            name = (stored.phase, trajectory.trajectory_id)
            run.records[name] = Record(
                stored.step,
                stored.phase,
                trajectory.sampled_tokens,
                trajectory.behavior_policy_versions,
                trajectory.tokenizer_hash,
            )
            if stored.phase == "train" and (odd := _odd_versions(run.records[name], known)) is not None:
                evidence = f"{trajectory.trajectory_id} of step {stored.step} was sampled by {odd}"
                cause = "stale weights were labelled fresh, or the policy table was edited"
                return Outcome(RECORDS, "failed", evidence, cause, "do not train on records of an unknown policy")
    except StoreError as error:
        return Outcome(RECORDS, "failed", f"after {count:,} whole records: {error}", "the file was damaged or edited", _REPAIR)
    return Outcome(RECORDS, "passed", f"{count:,} records, {sum(r.sampled for r in run.records.values()):,} sampled tokens, each lawful")


def _odd_versions(record: Record, known: dict[str, int]) -> str | None:
    """Say which version cannot have sampled a record of its step."""
    unknown = [version for version in record.versions if version not in known]
    if unknown:
        return f"{unknown[0]}, which the policy table does not have"
    late = [version for version in record.versions if (made := step_of(version)) is not None and made >= record.step]
    return f"{late[0]}, which that step or a later one made" if late else None


def policy_table(run: RunFiles) -> Outcome:
    """Versions stand in the order of the steps that made them, each made from one before it and known by its hash."""
    seen: dict[str, int] = {}
    for policy in run.policies:
        problem = None
        if policy.parent is not None and policy.parent not in seen:
            problem = f"its parent {policy.parent} does not stand before it"
        elif any(step > policy.step for step in seen.values()):
            problem = f"it is of step {policy.step} and stands after step {max(seen.values())}"
        elif step_of(policy.version) not in (None, policy.step):
            problem = f"it is of step {policy.step}"
        elif not policy.content_hash:
            problem = "it has no hash of its weights"
        if problem is not None:
            return Outcome(POLICIES, "failed", f"version {policy.version}: {problem}", "the table was edited", "restore the event log")
        seen[policy.version] = policy.step
    if run.finished and f"v{run.config.steps}" not in seen:
        return Outcome(POLICIES, "failed", f"the run is finished and v{run.config.steps} is missing", "rows were lost", _REPAIR)
    return Outcome(POLICIES, "passed", f"{len(seen)} versions in order, each with its hash")


def ledger(run: RunFiles) -> Outcome:
    """Every attempt's path is legal and at its end, and what it sampled is what its record holds."""
    replayed = run.ledger  # a path that is not legal is an error here
    stored = {name: record for (phase, name), record in run.records.items() if phase == "train"}
    by_step: dict[int, int] = {}
    for record in stored.values():
        by_step[record.step] = by_step.get(record.step, 0) + record.sampled
    replayed.balance(recorded=by_step, allow_open=not run.finished)
    attempts = {entry.attempt_id: entry.sampled for entry in run.ledger_entries if entry.sampled is not None}
    for name in sorted({*attempts, *stored}):
        counted = attempts.get(name)
        if name not in stored or counted != stored[name].sampled:
            held = f"{stored[name].sampled} tokens" if name in stored else "nothing"
            evidence = f"attempt {name} sampled {counted} tokens in the ledger, its record holds {held}"
            return Outcome(LEDGER, "failed", evidence, "a record or a ledger event was lost or edited", _REPAIR)
    states = ", ".join(f"{count:,} {state}" for state, count in sorted(replayed.states().items()))
    return Outcome(LEDGER, "passed", f"{len(attempts):,} attempts in {len(replayed.steps())} steps balance: {states}")


def tokens(run: RunFiles) -> Outcome:
    """sampled = trained + Σ excluded at every step, and the metrics count what the ledger counts."""
    totals = {"sampled": 0, "trained": 0}
    rows = [row for row in run.metrics if row.phase == "train"]
    for row in rows:
        written: Any = row.values.get("tokens")
        counted = run.ledger.tokens(row.step)
        placed = written["trained"] + sum(written["excluded"].values())
        if written["sampled"] != placed:
            evidence = f"step {row.step}: {written['sampled']} tokens were sampled, {placed} trained or excluded"
            return Outcome(TOKENS, "failed", evidence, "tokens were lost or counted twice", "keep the folder and report it as a fault")
        own = {"sampled": counted.sampled, "trained": counted.trained, "excluded": dict(counted.excluded)}
        if _counted(own) != _counted(written):
            evidence = f"step {row.step}: the metrics say {written}, the ledger {own}"
            return Outcome(TOKENS, "failed", evidence, "metrics or ledger were edited", "the ledger can be replayed, the metrics cannot")
        totals = {name: total + written[name] for name, total in totals.items()}
    evidence = f"{totals['sampled']:,} sampled, {totals['trained']:,} trained, the rest excluded by reason, in {len(rows)} steps"
    return Outcome(TOKENS, "passed", evidence)


def _counted(counts: Any) -> tuple[int, int, dict[str, int]]:
    return counts["sampled"], counts["trained"], {name: count for name, count in counts["excluded"].items() if count}
