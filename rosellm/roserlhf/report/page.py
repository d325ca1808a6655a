"""The report: `run folder -> one HTML file` that opens from disk, needs no network and no script, and says what was not recorded.

Reads files only, never live objects, so the same page comes out during a run, after a crash and on another machine. A content
security policy in the page forbids every request, and every script but its own.
"""

from __future__ import annotations

import base64
import hashlib
import os
from pathlib import Path

from rosellm.roserlhf.report import learning_sections, overview, rollout_sections, transcript_view, update_sections
from rosellm.roserlhf.report.findings import check_run
from rosellm.roserlhf.report.markup import Html, join, tag
from rosellm.roserlhf.report.run_folder import read_run
from rosellm.roserlhf.report.settings import settings
from rosellm.roserlhf.report.style import CSS, SCRIPT
from rosellm.roserlhf.report.transcripts import read_transcripts

FOOTER = "Made from the files of the run folder alone: metrics.jsonl has every number, events.db every record."
NAVIGATION = {
    "warnings": "Warnings",
    "learning": "Learning",
    "signal": "Signal",
    "update": "Update",
    "ratios": "Ratios",
    "rollouts": "Rollouts",
    "time": "Time",
    "warm-start": "Warm start",
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
    recipe = overview.named(run, "recipe")
    body = tag(
        "body",
        overview.header(run),
        tag("nav", tag("div", *(tag("a", name, href=f"#{anchor}") for anchor, name in NAVIGATION.items())), aria_label="Sections"),
        tag(
            "main",
            overview.facts(run),
            overview.warnings(check_run(run)),
            learning_sections.learning(run),
            learning_sections.signal(run),
            update_sections.update(run),
            update_sections.ratios(run),
            rollout_sections.rollouts(run),
            rollout_sections.time(run),
            learning_sections.warm_start(run),
            transcript_view.section(*read_transcripts(run)),
            settings(run),
        ),
        tag(
            "footer",
            FOOTER,
        ),
        tag("script", Html(SCRIPT)),
    )
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_policy()),
        tag("meta", name="viewport", content="width=device-width,initial-scale=1"),
        tag("title", f"Training report: {recipe}" if recipe else "Training report"),
        tag("style", Html(CSS)),
    )
    return "<!doctype html>\n" + join([tag("html", head, body, lang="en")]) + "\n"


def _policy() -> str:
    """Allow this page's own style and script by their hashes, and nothing else."""
    style, script = (base64.b64encode(hashlib.sha256(part.encode()).digest()).decode() for part in (CSS, SCRIPT))
    return f"default-src 'none'; style-src 'sha256-{style}'; script-src 'sha256-{script}'; base-uri 'none'; form-action 'none'"


def write_report(run_folder: Path) -> Path:
    """Write `report.html` into the run folder; an older one stays whole until the new one is complete.

    Args:
        run_folder: as for `build_report`.

    Returns:
        The path of the file.

    Raises:
        RunFolderError: `run_folder` is not a run folder.
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
    finally:
        partial.unlink(missing_ok=True)
    return path
