"""`roserlhf train`: options and run files -> a run folder; Ctrl-C saves and says how to go on."""

from __future__ import annotations

import re
import shlex
import shutil
import signal
import textwrap
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from types import FrameType

from rich.console import Console

from rosellm.roserlhf import recipes
from rosellm.roserlhf.cli.display import Display, duration, show_run
from rosellm.roserlhf.cli.options import Flag, Parsed, as_option, merged, option_help, parse
from rosellm.roserlhf.config import dump_toml, load_toml
from rosellm.roserlhf.environment.named import environment_class
from rosellm.roserlhf.errors import ConfigError, RunFolderError
from rosellm.roserlhf.report import write_report
from rosellm.roserlhf.trainer.config import ModelConfig, TrainConfig
from rosellm.roserlhf.trainer.place import require_free

FLAGS = {
    "recipe": Flag(f"algorithm, one of {', '.join(recipes.RECIPES)}; its options are listed below [grpo]", "NAME"),
    "config": Flag("run file to start from; options given here win over it", "FILE.toml"),
    "out": Flag("run folder to make [runs/<environment>-<recipe>-<seed>]", "DIR"),
    "resume": Flag("go on with a run that was stopped; it keeps its own options", "RUN"),
    "dry_run": Flag("print the resolved configuration as TOML and stop"),
    "help": Flag("this list; with --recipe NAME for another recipe"),
}


SHORT = {"--model": "--model.source", "--lora": "--model.lora", "--env": "--environment"}
"""Short names of options."""

_SHORT_HELP = (
    "--model X, --lora N and --env E are short for --model.source, --model.lora and --environment; "
    "a pretrained model has other defaults; --model X --dry-run shows them."
)


def run(argv: Sequence[str]) -> int:
    """Train as the command line says; return the exit code."""
    argv = [SHORT.get(name, name) + equals + value for name, equals, value in (word.partition("=") for word in argv)]
    file = _peek(argv, "--config")
    base = load_toml(Path(file)) if file else {}
    named = _peek(argv, "--recipe")
    kind = recipes.kind_of(base.get("recipe", "grpo") if named is None else named)
    parsed = parse(argv, kind, flags=FLAGS, elsewhere=recipes.other_kinds(kind))
    if "help" in parsed.flags:
        print(f"usage: roserlhf train [OPTIONS]\n\n{_about(kind)}\n\n{option_help(kind, FLAGS)}", end="")
        return 0
    resume = "resume" in parsed.flags
    if resume:
        config, out = _resumed(parsed)
    else:
        config = recipes.options_to_config(merged(base, {**parsed.options, "recipe": kind.model_fields["recipe"].default}))
        out = Path(parsed.flags["out"]) if "out" in parsed.flags else free_folder(config)
    if "dry_run" in parsed.flags:
        print(dump_toml(config), end="")
        return 0
    return _train(config, out, resume=resume)


def _about(kind: type[recipes.RecipeConfig]) -> str:
    """Say in a sentence what the recipe is, and what options may be called for short, wrapped to the terminal."""
    summary = (kind.__doc__ or "").strip().splitlines()[0]
    texts = (f"recipe {kind.model_fields['recipe'].default}: {summary}", _SHORT_HELP)
    return "\n\n".join(textwrap.fill(text, shutil.get_terminal_size().columns, break_on_hyphens=False) for text in texts)


def _peek(argv: Sequence[str], option: str) -> str | None:
    """Return the value of an option, the last where it stands several times, before the others can be told from each other."""
    found = None
    for here, after in pairwise([*argv, ""]):
        if here == option:
            found = after
        elif here.startswith(option + "="):
            found = here.partition("=")[2]
    return found


def _resumed(parsed: Parsed) -> tuple[TrainConfig, Path]:
    """Read the options of a run that was stopped; others given beside it would make two runs out of one."""
    others = [as_option(name) for name in [*parsed.flags, *parsed.options] if name not in ("resume", "dry_run")]
    if others:
        raise ConfigError(
            f"--resume must stand alone, got {', '.join(others)} too; a resumed run keeps the options it was started with"
        )
    folder = Path(parsed.flags["resume"])
    if not (folder / "run.toml").is_file():
        raise RunFolderError(f"--resume must name a run folder, got {folder}, which holds no run.toml")
    return recipes.options_to_config(load_toml(folder / "run.toml")), folder


def free_folder(config: TrainConfig, under: Path = Path("runs")) -> Path:
    """Name the folder of a run after what it is: runs/<environment>-<recipe>-<seed>, with -2, -3 … once that is taken."""
    name = re.sub(r"[^A-Za-z0-9_.]+", "-", f"{config.environment}-{config.recipe}-{config.seed}")
    taken = {path.name for path in under.iterdir()} if under.is_dir() else set()
    count = 1
    while (name if count == 1 else f"{name}-{count}") in taken:
        count += 1
    return under / (name if count == 1 else f"{name}-{count}")


def _train(config: TrainConfig, out: Path, *, resume: bool) -> int:
    console = Console(highlight=False, soft_wrap=True, markup=False, emoji=False)
    if resume and (out / "summary.json").is_file():
        if not (out / "report.html").is_file():
            write_report(out)
        console.print(f"{out} is finished; its report is {out / 'report.html'}")
        return 0
    environment_class(config.environment)  # a misspelled name is answered before torch is loaded
    if not resume:
        require_free(out)
    console.print(plan(config, out, resume=resume))

    from rosellm.roserlhf.trainer.run import train  # torch is loaded here, after everything that can be wrong without it

    with Display(console) as display, _interruptible(console) as stop:
        try:
            done = train(recipes.recipe_from(config), out=out, resume=resume, on_progress=display, should_stop=stop.is_set)
        except KeyboardInterrupt:
            done = None
    if done is None or done.summary is None:
        saved = (out / "run.toml").is_file()
        go_on = f"go on with: roserlhf train --resume {shlex.quote(str(out))}"
        console.print(f"stopped; {go_on}" if saved else "stopped before anything was saved")
        return 130
    show_run(console, done.summary)
    console.print(f"report: {out / 'report.html'}")
    return 0


def plan(config: TrainConfig, out: Path, *, resume: bool) -> str:
    """Say in a few lines what a run is going to do and about how long it takes."""
    collect, verb = config.collect, "go on with" if resume else "train"
    warm = f"up to {config.warm_start.max_steps} steps of cloning demonstrations, then " if config.warm_start.max_steps else ""
    seconds = None if resume else expected_seconds(config)
    long = "how long it takes is shown after the first step" if seconds is None else f"about {duration(seconds)} on two idle cores"
    return (
        f"{verb} {config.environment} by {config.recipe}, seed {config.seed}, on {config.device}: {warm}{config.steps} steps of "
        f"{collect.tasks} tasks x {collect.group_size} episodes, success measured on {config.evaluate.tasks} held-out tasks before "
        f"and after; {long}.\neverything goes to {out}; Ctrl-C finishes the step and saves."
    )


_CLONING_ROW_SECONDS, _TRAINING_EPISODE_SECONDS, _EVALUATED_EPISODE_SECONDS = 0.0014, 0.0031, 0.002
"""Of the default run, from its stage times on two x86-64 cores; only the announcement at the start depends on them."""


def expected_seconds(config: TrainConfig) -> float | None:
    """Estimate a run by counting what it plays and learns; None for a model, device or task whose costs were not measured."""
    if (config.model, config.device, config.environment) != (ModelConfig(), "cpu", "shop"):
        return None
    cloning = config.warm_start.max_steps * config.warm_start.batch_size * _CLONING_ROW_SECONDS
    training = config.steps * config.collect.tasks * config.collect.group_size * _TRAINING_EPISODE_SECONDS
    return cloning + training + 4 * config.evaluate.tasks * _EVALUATED_EPISODE_SECONDS  # sampled and greedy, before and after


@contextmanager
def _interruptible(console: Console) -> Iterator[threading.Event]:
    """Let the first Ctrl-C ask for a stop after this step, and the second one stop at once."""
    stop = threading.Event()

    def on_interrupt(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()
        console.print("finishing this step, then saving; Ctrl-C again stops at once")

    before = signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)
