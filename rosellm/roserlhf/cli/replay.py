"""`roserlhf replay`: a run folder and a step -> the step computed again, and the first thing that is not as it was recorded."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rosellm.roserlhf.cli.display import Display
from rosellm.roserlhf.cli.options import Flag, option_help, parse
from rosellm.roserlhf.cli.output import write_output
from rosellm.roserlhf.config import Config, build
from rosellm.roserlhf.errors import ConfigError, RangeError
from rosellm.roserlhf.report.markup import visible

if TYPE_CHECKING:
    from rosellm.roserlhf.audit.rerun.comparison import Compared
    from rosellm.roserlhf.audit.rerun.replay import Replay

FLAGS = {"json": Flag("write what was found to a file, too", "FILE"), "help": Flag("this list")}


class ReplayOptions(Config):
    """Which step is computed again."""

    step: int = Field(ge=1, description="training step; those between it and the checkpoint before it are replayed, too")


def run(argv: Sequence[str]) -> int:
    """Replay as the command line says; return 0 if everything is equal, 1 if something is not."""
    parsed = parse(argv, ReplayOptions, flags=FLAGS, operands=("RUN",))
    if "help" in parsed.flags:
        print(f"usage: roserlhf replay RUN --step N [OPTIONS]\n\n{option_help(ReplayOptions, FLAGS)}", end="")
        return 0
    if "step" not in parsed.options:
        raise ConfigError("--step must be given, got none; it is the training step to compute again")
    options, folder = build(ReplayOptions, parsed.options), Path(parsed.operands[0])
    if not (folder / "run.toml").is_file():
        raise ConfigError(f"RUN must be a run folder, got {folder}, which holds no run.toml")

    from rosellm.roserlhf.audit.rerun.replay import replay  # loads torch

    console = Console(highlight=False, soft_wrap=True, markup=False, emoji=False)
    with Display(console) as display:
        try:
            found = replay(folder, step=options.step, on_progress=display)
        except RangeError as error:
            raise ConfigError(str(error)) from error
    show_replay(console, found)
    if "json" in parsed.flags:
        write_output(parsed.flags["json"], json.dumps(as_json(found), indent=1, allow_nan=False) + "\n")
    return 0 if found.equal else 1


def show_replay(console: Console, found: Replay) -> None:
    """Show what was compared, how it was allowed to differ, and the first difference."""
    steps = f"step {found.step}" if found.step == found.checkpoint + 1 else f"steps {found.checkpoint + 1} to {found.step}"
    console.print(Text(f"{visible(str(found.folder))}: {steps} computed again from checkpoint {found.checkpoint}"))
    if found.elsewhere:
        console.print("the same bits cannot be expected here:")
        for reason in found.elsewhere:
            console.print(Text(f"  {visible(reason)}"))
        console.print(
            "rounding is allowed for, more with every step from the checkpoint; what it changes altogether is not comparable"
        )
    else:
        console.print("same machine, same versions: every number must be the same bit for bit")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in ("quantity", "compared", "not comparable", "differing", "largest", "allowed"):
        table.add_column(column, justify="left" if column == "quantity" else "right", no_wrap=True)
    for line in found.quantities:
        table.add_row(line.quantity, *_cells(line))
    console.print(table)
    if found.first is not None:
        console.print(Text(f"first difference: {visible(str(found.first))}"))
    elif not found.elsewhere:
        console.print("equal")
    else:
        console.print("equal within what is allowed, as far as it can be compared here")


def _cells(line: Compared) -> tuple[str, ...]:
    largest = "" if line.largest is None else f"{line.largest:.2g}"
    allowed = "" if line.allowed is None else "none" if line.allowed == 0 else f"{line.allowed:.1g}"
    return f"{line.compared:,}", f"{line.incomparable:,}", f"{line.differing:,}", largest, allowed


def as_json(found: Replay) -> dict[str, Any]:
    """Put a replay into strict JSON: numbers that JSON does not know are text."""
    values: dict[str, Any] = _plain({**asdict(found), "folder": str(found.folder), "equal": found.equal})
    return values


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return repr(value) if isinstance(value, float) and not math.isfinite(value) else value
