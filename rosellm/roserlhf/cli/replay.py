"""`roserlhf replay`: a run folder -> a step computed again, or its episodes, and the first thing that is not as it was recorded."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
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
    from rosellm.roserlhf.audit.rerun.environment import EnvironmentReplay
    from rosellm.roserlhf.audit.rerun.replay import Replay

USAGE = """\
usage: roserlhf replay RUN --step N [OPTIONS]
       roserlhf replay RUN --environment [--step N | --record ID | --all] [OPTIONS]

--step N       compute the updates of a training step again
--environment  execute the actions of stored episodes again, without a model:
               of a step, of one record, of all; by default of 32

Exit code 0 if everything is equal, 1 if something is not, 2 if the call was
wrong or the environment does not promise that episodes can be replayed.
"""
FLAGS = {
    "environment": Flag("play episodes again instead of computing updates again"),
    "record": Flag("only the episode of this record; with --environment", "ID"),
    "all": Flag("all episodes; with --environment"),
    "json": Flag("write what was found to a file, too", "FILE"),
    "help": Flag("this list"),
}


class ReplayOptions(Config):
    """Which step is computed again."""

    step: int | None = Field(
        default=None, ge=1, description="training step; those between it and the checkpoint before it are replayed, too"
    )


def run(argv: Sequence[str]) -> int:
    """Replay as the command line says; return 0 if everything is equal, 1 if something is not."""
    parsed = parse(argv, ReplayOptions, flags=FLAGS, operands=("RUN",))
    if "help" in parsed.flags:
        print(f"{USAGE}\n{option_help(ReplayOptions, FLAGS)}", end="")
        return 0
    options, folder = build(ReplayOptions, parsed.options), Path(parsed.operands[0])
    for name in ("record", "all"):
        if name in parsed.flags and "environment" not in parsed.flags:
            raise ConfigError(f"--{name} must come with --environment, got none")
    if options.step is None and "environment" not in parsed.flags:
        fix = "it is the training step to compute again; --environment plays episodes again"
        raise ConfigError(f"--step must be given, got none; {fix}")
    if not (folder / "run.toml").is_file():
        raise ConfigError(f"RUN must be a run folder, got {folder}, which holds no run.toml")

    return _episodes(folder, options, parsed.flags) if "environment" in parsed.flags else _steps(folder, options, parsed.flags)


def _steps(folder: Path, options: ReplayOptions, flags: Mapping[str, str]) -> int:
    from rosellm.roserlhf.audit.rerun.replay import replay  # loads torch

    assert options.step is not None
    console = Console(highlight=False, soft_wrap=True, markup=False, emoji=False)
    with Display(console) as display:
        try:
            found = replay(folder, step=options.step, on_progress=display)
        except RangeError as error:
            raise ConfigError(str(error)) from error
    show_replay(console, found)
    _write(flags, as_json(found))
    return 0 if found.equal else 1


def _episodes(folder: Path, options: ReplayOptions, flags: Mapping[str, str]) -> int:
    from rosellm.roserlhf.audit.rerun.environment import replay_environment  # loads torch

    console = Console(highlight=False, soft_wrap=True, markup=False, emoji=False)
    with Display(console) as display:
        try:
            found = replay_environment(
                folder, trajectory_id=flags.get("record"), step=options.step, every="all" in flags, on_progress=display
            )
        except RangeError as error:
            raise ConfigError(str(error)) from error
    show_episodes(console, found)
    _write(flags, {**asdict(found), "folder": str(found.folder), "equal": found.equal})
    return 0 if found.equal else 1


def show_episodes(console: Console, found: EnvironmentReplay) -> None:
    """Show what was compared, what could not be, and the first difference."""
    head = f"{found.folder}: {found.episodes:,} of {found.stored:,} records' episodes played again in {found.environment}"
    console.print(Text(visible(head)))
    console.print(
        Text("compared: " + (", ".join(f"{count:,} × {visible(name)}" for name, count in found.compared.items()) or "nothing"))
    )
    if found.incomparable:
        console.print(Text("not comparable: " + ", ".join(f"{count:,} × {name}" for name, count in found.incomparable.items())))
    if found.first is None:
        console.print("equal" if found.compared else "nothing could be compared")
        return
    console.print(Text(f"{len(found.differences):,} episodes differ; the first difference: {visible(str(found.first))}"))


def _write(flags: Mapping[str, str], values: Mapping[str, Any]) -> None:
    if "json" in flags:
        write_output(flags["json"], json.dumps(_plain(dict(values)), indent=1, allow_nan=False) + "\n")


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
