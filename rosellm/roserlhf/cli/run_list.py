"""Runs in a table: `run folders -> name, recipe, environment, steps, success before and after, status, size`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from rosellm.roserlhf.cli.safe_text import safe
from rosellm.roserlhf.cli.whole_table import print_whole, whole_table
from rosellm.roserlhf.errors import RunFolderError
from rosellm.roserlhf.report import units
from rosellm.roserlhf.report.run_folder import Run, read_run


def show_runs(console: Console, folders: Sequence[Path], below: Path) -> None:
    """Show a line for every run folder."""
    if not folders:
        console.print(safe(f"no runs below {below}/; `roserlhf train` makes one"))
        return
    table = whole_table("run", "recipe", "environment", ">steps", "success", ">size", "status")
    for folder in folders:
        table.add_row(*map(safe, _cells(folder)))
    print_whole(console, table)


def _cells(folder: Path) -> list[str]:
    try:
        found = read_run(folder)
    except RunFolderError as error:
        return [str(folder), "", "", "", "", "", str(error)]
    config = found.config or {}
    return [
        str(folder),
        str(config.get("recipe", "?")),
        str(config.get("environment", "?")),
        steps_of(found),
        success_of(found),
        units.memory(_size(folder)),
        status_of(found),
    ]


def steps_of(found: Run) -> str:
    """Say how many training steps were made of how many."""
    planned = (found.config or {}).get("steps", "?")
    return f"{found.train[-1].step if found.train else 0}/{planned}"


def success_of(found: Run) -> str:
    """Say the sampled success on held-out tasks at the first and the last evaluation."""
    measured = [row.number("success") for row in found.evaluations if row.word("mode") == "sampled"]
    known = [f"{value:.3f}" for value in measured if value is not None]
    return " → ".join([known[0], known[-1]] if len(known) > 1 else known) or "not measured"


def status_of(found: Run) -> str:
    """Say whether the run came to its end; from the files alone, one that goes on and one that was stopped look the same."""
    if found.finished:
        return "finished"
    if not (found.train or found.warm_start or found.evaluations):
        return "begun"
    return "not finished" + ("" if found.train else ", in its warm start")


def _size(folder: Path) -> int:
    """Add up the files of a folder; what disappears meanwhile is not counted, links are not followed."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(parent, name)).st_size
            except OSError:
                continue
    return total
