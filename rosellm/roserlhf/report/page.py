"""The report: `run folder -> one HTML file` that opens from disk, needs no network and no script, and says what was not recorded.

Reads files only, never live objects, so the same page comes out during a run, after a crash and on another machine.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from rosellm.roserlhf.errors import RunFolderError
from rosellm.roserlhf.report import (
    before_after,
    guard_section,
    learning_sections,
    overview,
    rollout_sections,
    transcript_view,
    update_sections,
)
from rosellm.roserlhf.report.document import document
from rosellm.roserlhf.report.findings import check_run
from rosellm.roserlhf.report.markup import tag
from rosellm.roserlhf.report.run_folder import read_run
from rosellm.roserlhf.report.settings import settings
from rosellm.roserlhf.report.transcripts import read_transcripts

FOOTER = "Made from the files of the run folder alone: metrics.jsonl has every number, events.db every record."
NAVIGATION = {
    "warnings": "Warnings",
    "learning": "Learning",
    "signal": "Signal",
    "update": "Update",
    "ratios": "Ratios",
    "rollouts": "Rollouts",
    guard_section.ANCHOR: guard_section.NAME,
    "time": "Time",
    "warm-start": "Warm start",
    "before-after": "Before and after",
    "transcripts": "Transcripts",
    "configuration": "Configuration",
}


def build_report(run_folder: Path) -> str:
    """Build the page of one run, finished or not.

    Args:
        run_folder: holds at least one of `run.toml`, `metrics.jsonl`, `summary.json`; transcripts come from `events.db` and
            `tokenizer/tokenizer.json`.

    Returns:
        A complete HTML document.

    Raises:
        RunFolderError: `run_folder` is not a run folder.
    """
    run = read_run(run_folder)
    recipe, guarded = overview.named(run, "recipe"), guard_section.is_guarded(run)
    navigation = {anchor: name for anchor, name in NAVIGATION.items() if guarded or anchor != guard_section.ANCHOR}
    return document(
        f"Training report: {recipe}" if recipe else "Training report",
        overview.header(run),
        tag("nav", tag("div", *(tag("a", name, href=f"#{anchor}") for anchor, name in navigation.items())), aria_label="Sections"),
        tag(
            "main",
            overview.facts(run),
            overview.warnings(check_run(run)),
            learning_sections.learning(run),
            learning_sections.signal(run),
            update_sections.update(run),
            update_sections.ratios(run),
            rollout_sections.rollouts(run),
            guard_section.guard(run) if guarded else None,
            rollout_sections.time(run),
            learning_sections.warm_start(run),
            before_after.section(*before_after.read_pairs(run)),
            transcript_view.section(*read_transcripts(run)),
            settings(run),
        ),
        tag("footer", FOOTER),
    )


def write_report(run_folder: Path) -> Path:
    """Write `report.html` into the run folder; an older one stays whole until the new one is complete.

    Args:
        run_folder: as for `build_report`.

    Returns:
        The path of the file.

    Raises:
        RunFolderError: `run_folder` is not a run folder, or the page cannot be written.
    """
    page = build_report(run_folder)
    path = run_folder / "report.html"
    partial = run_folder / f".report.html.{os.getpid()}.tmp"
    try:
        with partial.open("w", encoding="utf-8", newline="\n") as file:
            file.write(page)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        raise RunFolderError(f"{path} cannot be written: {error.strerror or error}") from error
    finally:
        with contextlib.suppress(OSError):  # on a read-only disk even what is not there cannot be removed
            partial.unlink()
    return path
