"""`roserlhf doctor`: a run folder, a model or a batch -> checks, each with its evidence, likely cause and fix."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from rich.console import Console

from rosellm.roserlhf.audit.outcome import Outcome, exit_code
from rosellm.roserlhf.cli.options import Flag, option_help, parse
from rosellm.roserlhf.cli.verdicts import show_outcome, show_totals
from rosellm.roserlhf.config import Config
from rosellm.roserlhf.errors import ConfigError

USAGE = """\
usage: roserlhf doctor RUN [--repair] [--json FILE]
       roserlhf doctor --model M [--env E] [--json FILE]
       roserlhf doctor --batch FILE [--json FILE] [--html FILE]

Exit code 0 when nothing failed, 1 when a check failed, 2 when the call was wrong.
"""
FLAGS = {
    "help": Flag("this list"),
    "model": Flag("run folder, checkpoint or Hugging Face folder: nine steps that find a fault in training", "M"),
    "env": Flag("environment to play, a name or module:Class; default: the run's", "E"),
    "batch": Flag("tensors of one training batch, .parquet, .npz or .safetensors: what is wrong with it", "FILE"),
    "repair": Flag("copy every intact row of a damaged event log into a new one, then check"),
    "json": Flag("write the results there, too", "FILE"),
    "html": Flag("write the page of a batch there, too", "FILE"),
}
_BELONGS = {"env": "model", "html": "batch", "repair": "RUN"}


def run(argv: Sequence[str]) -> int:
    """Examine what the command line names; return the exit code."""
    named = {word.partition("=")[0].removeprefix("--") for word in argv if word.startswith("--")}
    verb = next((name for name in ("model", "batch") if name in named), "RUN")
    flags = parse(argv, Config, flags=FLAGS, operands=("RUN",) if verb == "RUN" else ())
    if "help" in flags.flags:
        print(f"{USAGE}\n{option_help(Config, FLAGS)}", end="")
        return 0
    _require_fitting(flags.flags, verb)
    for name in ("json", "html"):
        if name in flags.flags and not Path(flags.flags[name]).absolute().parent.is_dir():
            raise ConfigError(f"--{name} must name a file in an existing folder, got {flags.flags[name]}")
    console = Console(highlight=False)
    if verb == "batch":
        raise NotImplementedError
    if verb == "model":
        outcomes = _model(console, Path(flags.flags["model"]), flags.flags.get("env"))
    else:
        raise NotImplementedError
    show_totals(console, outcomes)
    _write_json(flags.flags.get("json"), {"outcomes": [outcome.to_dict() for outcome in outcomes]})
    return exit_code(outcomes)


def _require_fitting(flags: dict[str, str], verb: str) -> None:
    if "model" in flags and "batch" in flags:
        raise ConfigError("doctor must be given RUN, --model or --batch, got --model and --batch")
    for name, owner in _BELONGS.items():
        if name in flags and owner != verb:
            raise ConfigError(
                f"--{name} must come with {owner if owner == 'RUN' else '--' + owner}, got {verb if verb == 'RUN' else '--' + verb}"
            )


def _write_json(path: str | None, content: dict[str, Any]) -> None:
    if path is not None:
        Path(path).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def _model(console: Console, folder: Path, environment: str | None) -> list[Outcome]:
    """Run the nine steps, each printed as soon as it is known."""
    with console.status("loading"):
        from rosellm.roserlhf.audit.examination.loading import load_subject  # loads torch
        from rosellm.roserlhf.audit.examination.order import examine

        subject = load_subject(folder, environment, console.print)
    console.print(
        f"{folder}: weights {subject.version}, {sum(p.numel() for p in subject.model.parameters()):,} parameters", markup=False
    )
    outcomes: list[Outcome] = []
    with console.status("") as line:
        now = ""

        def on_step(number: int, name: str) -> None:
            nonlocal now
            now = f"step {number} of 9: {name}"
            line.update(now)

        def on_update(update: int, updates: int, success: float) -> None:
            line.update(f"{now}, update {update} of at most {updates}, success {success:.2f}")

        for number, outcome in enumerate(_closing(examine(subject, on_step=on_step, on_update=on_update)), start=1):
            show_outcome(console, outcome, number)
            outcomes.append(outcome)
    return outcomes
