"""A damaged event log -> every whole row of it in a new one, and the list of what is lost."""

from __future__ import annotations

from pathlib import Path

from rosellm.roserlhf.audit.diagnosis import Outcome
from rosellm.roserlhf.audit.inspection.run_files import RunFiles
from rosellm.roserlhf.errors import StoreError
from rosellm.roserlhf.store import Recovery, recover
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
        return Outcome(REPAIR, "info", f"every row of {LOG} is whole: there is nothing to repair")
    try:
        found = recover(folder / LOG)
    except StoreError as error:
        fix = "restore the run folder from a copy"
        return Outcome(REPAIR, "failed", str(error), "nothing of the file can be read, or another process writes it", fix)
    rows = ", ".join(f"{count:,} {table}" for table, count in found.kept.items())
    evidence = f"kept {rows}; the damaged file is {found.damaged.name}"
    if found.is_whole:
        return Outcome(REPAIR, "passed", f"{evidence}; nothing is known to be lost")
    fix = "restore a copy if there is one; an unfinished run goes on from its last checkpoint with roserlhf train --resume"
    return Outcome(REPAIR, "warning", f"{evidence}; lost {_lost(found)}", "the file was damaged on the disk", fix, _lines(found))


def damage(folder: Path) -> str | None:
    """Say the first thing in a run's event log that is not as it was written; None if there is nothing."""
    run = RunFiles(folder)
    try:
        return next(run.log.problems(), None)
    except StoreError as error:
        return str(error)
    finally:
        run.close()


def _lost(found: Recovery) -> str:
    rows = [f"{len(numbers):,} rows of {table}" for table, numbers in found.lost_rows.items()]
    return ", ".join([*rows, f"{len(found.lost_ids):,} trajectories by name"] if found.lost_ids else rows)


def _lines(found: Recovery) -> tuple[str, ...]:
    return tuple(f"lost: {trajectory_id}" for trajectory_id in found.lost_ids)
