"""`roserlhf doctor`: a run folder, a model, an environment, a tokenizer, a batch -> checks: evidence, likely cause and fix."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

from rich.console import Console

from rosellm.roserlhf.audit.diagnosis import Outcome, exit_code
from rosellm.roserlhf.cli.options import Flag, option_help, parse
from rosellm.roserlhf.cli.output import write_output
from rosellm.roserlhf.cli.run_argument import run_folder
from rosellm.roserlhf.cli.safe_text import console, safe
from rosellm.roserlhf.cli.verdicts import show_outcome, show_report, show_totals
from rosellm.roserlhf.config import Config
from rosellm.roserlhf.errors import ConfigError, MissingExtraError, RoseError, RunFolderError

USAGE = """\
usage: roserlhf doctor RUN [--repair] [--json FILE]
       roserlhf doctor --model M [--env E] [--json FILE]
       roserlhf doctor --env E [--seconds S] [--json FILE]
       roserlhf doctor --tokenizer X [--json FILE]
       roserlhf doctor --batch FILE [--json FILE] [--html FILE]

RUN      is the run folder to be trusted: hashes, laws, counts, ledger, checkpoints?
--model  find a fault in training by nine steps, each resting on those before
--env    play right, empty, random and hostile answers: nothing may execute,
         hang, raise or be paid but the right one
--tokenizer  find what a tokenizer and its chat template do to episodes
--batch  find what is wrong with the tensors of one training step

Exit code 0 when nothing failed, 1 when a check failed, 2 when the call was
wrong or the file holds no batch.
"""
FLAGS = {
    "model": Flag("a run folder, one of its checkpoints/<step>, or a folder with config.json, safetensors and tokenizer", "M"),
    "env": Flag("environment to examine, a name or module:Class; with --model the one to play, by default the run's", "E"),
    "seconds": Flag("time limit of one episode of an environment [20]", "S"),
    "tokenizer": Flag("a folder, package:NAME or a Hugging Face id in the local cache: what its chat template does", "X"),
    "batch": Flag("tensors named as the arguments of check_batch: .parquet, .npz or .safetensors", "FILE"),
    "repair": Flag("first copy every intact row of a damaged event log into a new one, and list what is lost"),
    "json": Flag("write what was found there, too", "FILE"),
    "html": Flag("write the page of the batch there, too", "FILE"),
    "help": Flag("this list"),
}
_BELONGS = {"env": ("--model", "--env"), "seconds": ("--env",), "html": ("--batch",), "repair": ("RUN",)}


def run(argv: Sequence[str]) -> int:
    """Examine what the command line names; return the exit code."""
    if not argv:
        raise ConfigError("doctor must be given one of RUN, --model, --env, --tokenizer and --batch, got none")
    given = {word.partition("=")[0] for word in argv}
    verb = next((name for name in ("--model", "--tokenizer", "--batch") if name in given), "RUN")
    if verb == "RUN" and "--env" in given and not _operands(argv):
        verb = "--env"
    parsed = parse(argv, Config, flags=FLAGS, operands=("RUN",) if verb == "RUN" else ())
    if "help" in parsed.flags:
        print(f"{USAGE}\n{option_help(Config, FLAGS)}", end="")
        return 0
    _require_fitting(parsed.flags, verb)
    screen = console()
    if verb == "--batch":
        return _batch(screen, Path(parsed.flags["batch"]), parsed.flags)
    if verb == "--model":
        outcomes = _model(screen, Path(parsed.flags["model"]), parsed.flags.get("env"))
    elif verb == "--tokenizer":
        outcomes = _tokenizer(screen, parsed.flags["tokenizer"])
    elif verb == "--env":
        outcomes = _environment(screen, parsed.flags)
    else:
        outcomes = _run(screen, run_folder(parsed.operands[0]), repair="repair" in parsed.flags)
    show_totals(screen, outcomes)
    _write(parsed.flags.get("json"), json.dumps({"outcomes": [outcome.to_dict() for outcome in outcomes]}, indent=1) + "\n")
    return exit_code(outcomes)


def _operands(argv: Sequence[str]) -> list[str]:
    """List the words that are neither an option nor the value of one."""
    takes_value = [f"--{name}" for name, flag in FLAGS.items() if flag.metavar]
    return [
        word for before, word in zip(["", *argv], argv, strict=False) if not word.startswith("--") and before not in takes_value
    ]


def _require_fitting(flags: Mapping[str, str], verb: str) -> None:
    if len(verbs := [f"--{name}" for name in ("model", "tokenizer", "batch") if name in flags]) > 1:
        raise ConfigError(f"doctor must be given one of RUN, --model, --env, --tokenizer and --batch, got {' and '.join(verbs)}")
    for name, owners in _BELONGS.items():
        if name in flags and verb not in owners:
            raise ConfigError(f"--{name} must come with {owners[0]}, got {verb}")
    for name in ("json", "html"):
        if name in flags and not Path(flags[name]).absolute().parent.is_dir():
            raise ConfigError(f"--{name} must name a file in a folder that exists, got {flags[name]}")


def _write(path: str | None, text: str) -> None:
    if path is not None:
        write_output(path, text)


def _say(screen: Console, text: str) -> None:
    screen.print(safe(text), soft_wrap=True)


def _tokenizer(screen: Console, source: str) -> list[Outcome]:
    """Examine a tokenizer and its chat template."""
    with screen.status("loading") as line:
        from rosellm.roserlhf.cli.doctor_tokenizer import examine_tokenizer

        outcomes = examine_tokenizer(source, lambda what: line.update(safe(what)))
    for outcome in outcomes:
        show_outcome(screen, outcome)
    return outcomes


def _model(screen: Console, folder: Path, environment: str | None) -> list[Outcome]:
    """Run the nine steps, each printed as soon as it is known."""
    with screen.status("loading") as line:
        from rosellm.roserlhf.audit.examination.loading import load_subject  # loads torch
        from rosellm.roserlhf.audit.examination.order import examine

        try:
            subject = load_subject(folder, environment, lambda why: _say(screen, why))
        except RunFolderError as error:
            raise ConfigError(f"--{error}") from error
        size = sum(parameter.numel() for parameter in subject.model.parameters())
        _say(screen, f"{folder}: weights {subject.version}, {size:,} parameters, recipe {subject.recipe.config.recipe}")
        if subject.world is None:
            _say(screen, f"{subject.no_world}; replies to made-up prompts are examined instead")
        now = ""

        def on_step(number: int, name: str) -> None:
            nonlocal now
            now = f"step {number} of 9: {name}"
            line.update(safe(now))

        def on_update(update: int, updates: int, success: float) -> None:
            line.update(safe(f"{now}, update {update}/{updates}, success {success:.2f}"))

        outcomes: list[Outcome] = []
        with closing(examine(subject, on_step=on_step, on_update=on_update)) as steps:
            for number, outcome in enumerate(steps, start=1):
                show_outcome(screen, outcome, number)
                outcomes.append(outcome)
    return outcomes


def _environment(screen: Console, flags: Mapping[str, str]) -> list[Outcome]:
    """Make the checks of an environment, each printed as soon as it is known."""
    from rosellm.roserlhf.audit.environment.order import SECONDS, examine_environment

    outcomes: list[Outcome] = []
    with screen.status("importing the environment") as line:
        checks = examine_environment(
            flags["env"],
            seconds=_seconds(flags.get("seconds"), SECONDS),
            on_check=lambda number, name: line.update(safe(f"check {number}: {name}")),
        )
        with closing(checks):
            for outcome in checks:
                show_outcome(screen, outcome)
                outcomes.append(outcome)
    return outcomes


def _seconds(text: str | None, default: float) -> float:
    try:
        value = default if text is None else float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise ConfigError(f"--seconds must be a number above 0, got {text}")
    return value


def _run(screen: Console, folder: Path, *, repair: bool) -> list[Outcome]:
    """Make the checks of a run folder, each printed as soon as it is known."""
    with screen.status("loading") as line:
        from rosellm.roserlhf.audit.inspection.order import inspect_run  # loads torch
        from rosellm.roserlhf.audit.inspection.repair import repaired

        outcomes: list[Outcome] = []
        if repair:
            outcomes.append(repaired(folder))
            show_outcome(screen, outcomes[0])
        with closing(inspect_run(folder, lambda number, name: line.update(safe(f"check {number}: {name}")))) as checks:
            for outcome in checks:
                show_outcome(screen, outcome)
                outcomes.append(outcome)
    return outcomes


def _batch(screen: Console, path: Path, flags: Mapping[str, str]) -> int:
    """Check the tensors of one training step."""
    with screen.status("reading"):
        from rosellm.roserlhf.audit import check_batch  # loads torch
        from rosellm.roserlhf.audit.batch.file import read_batch

        try:
            report = check_batch(**read_batch(path))
        except MissingExtraError:
            raise
        except RoseError as error:  # no verdict about a batch: another exit code than that of a finding
            raise ConfigError(str(error)) from error
    show_report(screen, report)
    _write(flags.get("json"), report.to_json() + "\n")
    if "html" in flags:
        report.write_html(flags["html"])
    return int(bool(report.at_least("error")))
