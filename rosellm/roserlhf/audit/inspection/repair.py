"""A damaged event log -> every whole row of it in a new one, and the list of what is lost."""

from __future__ import annotations

from pathlib import Path

from rosellm.roserlhf.audit.inspection.run_files import RunFiles
from rosellm.roserlhf.audit.outcome import Outcome
from rosellm.roserlhf.errors import StoreError
from rosellm.roserlhf.store.recovery import Recovery, recover
from rosellm.roserlhf.trainer.folder import LOG

REPAIR = "repair"


def repaired(folder: Path) -> Outcome:
    """Recover the event log of a run if a row of it cannot be read; the damaged file is kept beside the new one.

    Args:
        folder: the run folder; nothing may be writing in it.

    Raises:
        RunFolderError: `folder` is no run folder.
    """
    if damage(folder) is None:
        return Outcome(REPAIR, "info", f"every row of {LOG} can be read: there is nothing to repair")
    try:
        found = recover(folder / LOG)
    except StoreError as error:
        fix = "restore the run folder from a copy"
        return Outcome(REPAIR, "failed", str(error), "nothing of the file can be read, or another process writes it", fix)
    rows = ", ".join(f"{count:,} {table}" for table, count in found.kept.items())
    evidence = f"kept {rows}; the damaged file is {found.damaged.name}"
    if found.is_whole:
        return Outcome(REPAIR, "passed", f"{evidence}; nothing is known to be lost")
    fix = "roserlhf train --resume goes on from the last checkpoint and makes what came after it again"
    return Outcome(REPAIR, "warning", f"{evidence}; lost {_lost(found)}", "the file was damaged on the disk", fix, _lines(found))


def damage(folder: Path) -> str | None:
    """Say what cannot be read of a run's event log; None if all of it can."""
    run = RunFiles(folder)
    try:
        for rows in (
            run.log.ledger(include_superseded=True),
            run.log.scores(include_superseded=True),
            run.log.metrics(include_superseded=True),
            run.log.policies(include_superseded=True),
            run.log.updates(include_superseded=True),
            run.log.packed_trajectories(include_superseded=True),
        ):
            for _ in rows:
                pass
    except StoreError as error:
        return str(error)
    finally:
        run.close()
    return None


def _lost(found: Recovery) -> str:
    rows = [f"{len(numbers):,} rows of {table}" for table, numbers in found.lost_rows.items()]
    return ", ".join([*rows, f"{len(found.lost_ids):,} trajectories by name"] if found.lost_ids else rows)


def _lines(found: Recovery) -> tuple[str, ...]:
    return tuple(f"lost: {trajectory_id}" for trajectory_id in found.lost_ids)
