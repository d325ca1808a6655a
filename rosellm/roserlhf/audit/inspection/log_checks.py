"""The event log: does it open, is every row whole, does every record obey its laws, do ledger, tokens and metrics agree?"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Set
from typing import Any

from rosellm.roserlhf.audit.diagnosis import Outcome
from rosellm.roserlhf.audit.inspection.run_files import METRICS, Record, RunFiles, step_of
from rosellm.roserlhf.errors import RecordError, StoreError
from rosellm.roserlhf.store.encoding import unpack_record
from rosellm.roserlhf.store.updates import Update
from rosellm.roserlhf.trainer.account import row_hash
from rosellm.roserlhf.trainer.folder import LOG
from rosellm.roserlhf.trainer.provenance import PROCESS
from rosellm.roserlhf.trainer.rollouts import whole_rollouts
from rosellm.roserlhf.trainer.session import json_line
from rosellm.roserlhf.trajectory import Trajectory

EVENT_LOG, RECORDS, POLICIES, LEDGER, TOKENS, METRIC_ROWS = "event log", "records", "policy table", "ledger", "tokens", "metrics"
UPDATES = "updates"
_REPAIR = f"roserlhf doctor RUN --repair copies every intact row into a new {LOG} and lists what is lost"

_RESTORE = f"restore {LOG} from a copy"

SHOWN = 20
"""Problems of an event log that are listed."""


def event_log(run: RunFiles) -> Outcome:
    """The file opens, no row is missing, and every row and record is what was written, lawful, and what its columns say."""
    try:
        problems = list(run.log.problems())
    except StoreError as error:
        problems = [str(error)]
    if problems:
        evidence = problems[0] if len(problems) == 1 else f"{len(problems):,} problems, the first: {problems[0]}"
        cause = "the file was damaged on the disk, or edited"
        return Outcome(EVENT_LOG, "failed", evidence, cause, _REPAIR, tuple(problems[1:SHOWN]))
    counts = {"ledger events": run.ledger_entries, "metrics": run.metrics, "policies": run.policies}
    evidence = "every row is whole: " + ", ".join(f"{len(rows):,} {name}" for name, rows in counts.items())
    return Outcome(EVENT_LOG, "passed", "; ".join([evidence, *run.notes]))


def records(run: RunFiles) -> Outcome:
    """Every record of a training step was sampled by a version that is older than its step."""
    known = {policy.version for policy in run.policies}
    found: dict[tuple[str, str], Record] = {}
    open_episodes: dict[str, list[Trajectory]] = {}
    for stored in run.log.packed_trajectories():
        trajectory, about = unpack_record(stored.packed), stored.summary
        try:
            rollout_id, hashed = _laid_out(trajectory, about.phase, open_episodes)
        except RecordError as error:
            return Outcome(RECORDS, "failed", str(error), "a record that it goes on with was lost or edited", _RESTORE)
        record = Record(about.step, about.sampled_tokens, about.policy_versions, trajectory.tokenizer_hash, hashed, rollout_id)
        found[about.phase, about.trajectory_id] = record
        if about.phase == "train" and (odd := _odd_versions(record, known)) is not None:
            evidence = f"{about.trajectory_id} of step {about.step} was sampled by {odd}"
            cause = "stale weights were labelled fresh, or the policy table was edited"
            return Outcome(RECORDS, "failed", evidence, cause, "do not train on records of an unknown policy")
    run.records.update(found)
    sampled = sum(record.sampled for record in found.values())
    return Outcome(RECORDS, "passed", f"{len(found):,} records, {sampled:,} sampled tokens, each by a version older than its step")


def _laid_out(trajectory: Trajectory, phase: str, open_episodes: dict[str, list[Trajectory]]) -> tuple[str, str | None]:
    """Name the attempt of a record and hash its row.

    Args:
        trajectory: records come in the order in which they were stored, a root before what goes on with it.
        phase: only what was collected for training became a row.
        open_episodes: by last record, the records of episodes that handed off and whose next record has not come yet.
    """
    parent = trajectory.parent
    before = [] if parent is None else open_episodes.pop(f"{phase} {parent.record_id}", [])
    episode = [*before, trajectory]
    if trajectory.ending == "handed_off":
        open_episodes[f"{phase} {trajectory.trajectory_id}"] = episode
    if phase != "train":
        return episode[0].trajectory_id, None
    (rollout,) = whole_rollouts(episode)
    return rollout.trajectory_id, row_hash(rollout.rows()[-1])


def _odd_versions(record: Record, known: Set[str]) -> str | None:
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
            return Outcome(POLICIES, "failed", f"version {policy.version}: {problem}", "the table was edited", _RESTORE)
        seen[policy.version] = policy.step
    if run.finished and f"v{run.config.steps}" not in seen:
        return Outcome(POLICIES, "failed", f"the run is finished and v{run.config.steps} is missing", "rows were lost", _REPAIR)
    return Outcome(POLICIES, "passed", f"{len(seen)} versions in order, each with its hash")


def ledger(run: RunFiles) -> Outcome:
    """Every attempt's path is legal and at its end, and what it sampled is what its record holds."""
    stored = {name: record for (phase, name), record in run.records.items() if phase == "train"}
    by_step = Counter[int]()
    for record in stored.values():
        by_step[record.step] += record.sampled
    try:
        run.ledger.balance(recorded=by_step, allow_open=not run.finished)
    except StoreError as error:
        return Outcome(LEDGER, "failed", str(error), "a record or a ledger event was lost or edited", _RESTORE)
    if (problem := _odd_attempt(run, stored)) is not None:
        return Outcome(LEDGER, "failed", problem, "the record was edited after its step, or a ledger event was", _RESTORE)
    states = ", ".join(f"{count:,} {state}" for state, count in sorted(run.ledger.states().items()))
    attempts = len({record.rollout_id for record in stored.values()})
    return Outcome(LEDGER, "passed", f"{attempts:,} attempts in {len(run.ledger.steps())} steps balance: {states}")


def _odd_attempt(run: RunFiles, stored: Mapping[str, Record]) -> str | None:
    """Name the first attempt whose records are missing, of another length, or not the ones that entered the loss."""
    counted = {entry.attempt_id: entry.sampled for entry in run.ledger_entries if entry.sampled is not None}
    ends = {entry.attempt_id: entry.detail for entry in run.ledger_entries if entry.state in ("rejected", "trained")}
    attempts: dict[str, list[Record]] = {}
    for record in stored.values():
        attempts.setdefault(record.rollout_id, []).append(record)
    for name in sorted({*counted, *attempts}):
        parts, detail = attempts.get(name, []), ends.get(name)
        sampled = sum(part.sampled for part in parts)
        if not parts or counted.get(name) != sampled:
            held = f"{sampled} tokens" if parts else "nothing"
            return f"attempt {name} sampled {counted.get(name)} tokens in the ledger, its record holds {held}"
        hashed = detail.get("row_hash") if isinstance(detail, Mapping) else None
        if hashed is not None and hashed != (parts[0].row_hash if len(parts) == 1 else [part.row_hash for part in parts]):
            return f"the tokens or log-probabilities of {name} are not those that entered the loss: another row hash"
    return None


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
            return Outcome(
                TOKENS, "failed", evidence, "tokens were lost or counted twice", "keep the folder and report it as a fault"
            )
        own = {"sampled": counted.sampled, "trained": counted.trained, "excluded": dict(counted.excluded)}
        if _counted(own) != _counted(written):
            evidence = f"step {row.step}: the metrics say {written}, the ledger {own}"
            return Outcome(
                TOKENS, "failed", evidence, "metrics or ledger were edited", "the ledger can be replayed, the metrics cannot"
            )
        totals = {name: total + written[name] for name, total in totals.items()}
    evidence = f"{totals['sampled']:,} sampled, {totals['trained']:,} trained, the rest excluded by reason, in {len(rows)} steps"
    return Outcome(TOKENS, "passed", evidence)


def _counted(counts: Any) -> tuple[int, int, dict[str, int]]:
    return counts["sampled"], counts["trained"], {name: count for name, count in counts["excluded"].items() if count}


def metrics(run: RunFiles) -> Outcome:
    """metrics.jsonl holds the metrics of the event log, line for line."""
    path = run.folder / METRICS
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    written = [line for line in text.split("\n") if line.strip()]
    wanted = [json_line(row.phase, row.step, row.values) for row in run.metrics if row.phase != PROCESS]
    fix = f"roserlhf train --resume makes {METRICS} again from {LOG} if the run is not finished; {LOG} is the source"
    if not run.finished and _is_ahead_or_behind(text, "".join(wanted)):
        evidence = (
            f"{METRICS} has {len(written)} lines, {LOG} {len(wanted)} rows: a process that died while it wrote leaves them so"
        )
        return Outcome(METRIC_ROWS, "info", evidence, fix=fix)
    for number, (line, row) in enumerate(zip(written, wanted, strict=False), start=1):
        if (place := _first_difference(line, row)) is not None:
            return Outcome(
                METRIC_ROWS, "failed", f"{METRICS} line {number}: {place}", "the file was edited, or its last line torn", fix
            )
    if len(written) != len(wanted):
        evidence = f"{METRICS} has {len(written)} lines, {LOG} {len(wanted)} rows"
        return Outcome(METRIC_ROWS, "failed", evidence, "lines were lost or added", fix)
    return Outcome(METRIC_ROWS, "passed", f"{len(wanted):,} lines, each the row of the event log")


def _is_ahead_or_behind(written: str, wanted: str) -> bool:
    """Whether the last line is missing, torn, or of a row that was undone; a resume that died may have undone several."""
    if written == wanted:
        return False
    behind = wanted.startswith(written) and wanted[len(written) :].count("\n") == 1
    return behind or written.startswith(wanted)


def _first_difference(line: str, wanted: str) -> str | None:
    if line == wanted.rstrip("\n"):
        return None
    try:
        found = json.loads(line)
    except ValueError as error:
        return f"no JSON: {error}"
    right = json.loads(wanted)
    if not isinstance(found, Mapping):
        return f"a JSON object must stand there, got {line:.60}"
    names = [name for name in {**right, **found} if found.get(name) != right.get(name) or (name in found) != (name in right)]
    return f"{names[0]} is {found.get(names[0])!r:.80}, the event log says {right.get(names[0])!r:.80}" if names else None


def updates(run: RunFiles) -> Outcome:
    """Every trained attempt took part in an update that was made, no other did, and the evidence is whole and finite."""
    trained = {entry.attempt_id for entry in run.ledger_entries if entry.state == "trained"}
    steps, made, count, skipped = set[int](), set[str](), 0, 0
    for update in run.log.updates():
        count += update.skipped is None
        skipped += update.skipped is not None
        steps.add(update.step)
        where = f"update {update.number} of step {update.step}"
        if (problem := _odd_update(run, update)) is not None:
            fix = "do not trust what is recomputed from this evidence; restore the event log from a copy"
            return Outcome(UPDATES, "failed", f"{where}: {problem}", "the evidence was edited, or a worker broke", fix)
        if update.skipped is None:
            made.update(run.records["train", row.trajectory_id].rollout_id for row in update.rows)
    missing = sorted({row.step for row in run.metrics if row.phase == "train"} - steps)
    if missing and len(missing) == len(run.ledger.steps()):
        return Outcome(UPDATES, "skipped", "this run kept no evidence of its updates")
    if missing:
        return Outcome(UPDATES, "failed", f"step {missing[0]} has no evidence of its updates", "rows were lost", _REPAIR)
    if odd := sorted(made ^ trained):
        where = "took part in no update that was made" if odd[0] in trained else "took part in an update"
        state = "is trained in the ledger" if odd[0] in trained else "is not trained in the ledger"
        evidence = f"{odd[0]} {state} and {where} ({len(odd)} such)"
        return Outcome(UPDATES, "failed", evidence, "ledger or evidence was edited", "replay the step from its checkpoint")
    refused = f"; {skipped:,} not made, each with its reason" if skipped else ""
    return Outcome(UPDATES, "passed", f"{count:,} updates in {len(steps)} steps, of {len(made):,} trained attempts{refused}")


def _odd_update(run: RunFiles, update: Update) -> str | None:
    if update.skipped is None:
        for name in ("denominator", "loss", "gradient_norm", "learning_rate"):
            if not math.isfinite(getattr(update, name)):
                return f"its {name} is {getattr(update, name)}, and it was made"
    for row in update.rows:
        record = run.records.get(("train", row.trajectory_id))
        if record is None:
            return f"it used {row.trajectory_id}, of which there is no record"
        if len(row.current_logprobs) != record.sampled:
            return f"it has {len(row.current_logprobs)} log-probabilities of {row.trajectory_id}, which has {record.sampled} tokens"
        bad = next((i for i, logprob in enumerate(row.current_logprobs) if not -math.inf < logprob <= 0), None)
        if bad is not None:
            return f"log-probability {bad} of {row.trajectory_id} is {row.current_logprobs[bad]}"
    return None
