"""The command `roserlhf`: `argv -> exit code`.

Errors are one line; 2 means that the call was wrong, 1 that it failed, 130 that it was stopped. Nothing here is heavy: `--help`,
`--dry-run` and a misspelled option are answered before torch is imported.
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback
import warnings
from collections.abc import Sequence

from rosellm.roserlhf import __version__
from rosellm.roserlhf.errors import ConfigError, MissingExtraError, RoseError, missing_extra

HELP = """\
Train language-model agents by reinforcement learning, every gradient traceable.

usage: roserlhf COMMAND [OPTIONS]

commands:
  train    train an agent; writes a run folder with checkpoints and a report
  eval     success of a trained run, or of one checkpoint, on held-out tasks
  report   write the report of a run folder again
  show     list runs, look into one, or read one of its trajectories
  explain  why the tokens of a trajectory moved, or one of them, in numbers
  replay   make a training step or episodes again and say what differs first
  doctor   check a run, model, tokenizer, environment or batch; name the fault
  export   write records as Parquet or JSON lines, or a model for transformers
  import   make an event log from an export
  guard    score the anti-hack guard on a corpus, or scan a run for attempts

  roserlhf COMMAND --help lists the options of a command

options:
  --help, --version, --debug (shows the traceback of an error)

examples:
  roserlhf train --recipe grpo --seed 1 --out runs/mine
  roserlhf eval runs/mine --tasks 2048 --samples 8
"""
COMMANDS = {
    "train": "train",
    "eval": "evaluate",
    "report": "report",
    "show": "show",
    "explain": "explain",
    "replay": "replay",
    "doctor": "doctor",
    "export": "export",
    "import": "import_",
    "guard": "guard",
}
"""Every command and the module of this package that runs it."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; the entry point of the console script."""
    prepare_process()
    if "" not in sys.path:
        sys.path.insert(0, "")  # an environment of one's own is found in the current folder, as with `python -m`
    arguments = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in arguments
    arguments = [argument for argument in arguments if argument != "--debug"]
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _warn  # type: ignore[assignment]
            code = _dispatch(arguments)
            sys.stdout.flush()
            return code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # whoever read the output has seen enough; rich leaves with 1, too
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python would complain when it flushes at the end
        return 1
    except (RoseError, OSError, ModuleNotFoundError) as error:
        shown = missing_extra(error) if isinstance(error, ModuleNotFoundError) else error
        if debug:
            traceback.print_exc()
        elif not isinstance(shown, (RoseError, OSError)):
            raise  # a module that no extra provides: a fault of the installation or of this program, not of the call
        print(f"roserlhf: error: {_one_line(shown)}", file=sys.stderr)
        return 2 if isinstance(shown, (ConfigError, MissingExtraError)) else 1


def _warn(message: Warning | str, *_: object) -> None:
    """Print a warning as errors are printed, without the place in this program that gave it."""
    print(f"roserlhf: warning: {_one_line(message)}", file=sys.stderr)


def _one_line(said: object) -> str:
    """Make a line that a terminal only prints: it may quote ids, paths and text of a model."""
    text = str(said)
    if isinstance(said, OSError) and said.strerror and said.filename is not None:
        text = f"{said.filename} cannot be used: {said.strerror}"
    if text.isprintable():
        return text
    from rosellm.roserlhf.report.markup import visible  # loads what most calls do without

    return visible(text)


def prepare_process() -> None:
    """Let idle threads of torch sleep, unless the user chose otherwise: spinning starves the others on a shared machine.

    It works only before torch is imported, so it is the first thing the command does. The package itself sets nothing: inside
    somebody else's program this is not ours to decide.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("KMP_BLOCKTIME", "0")  # the same for Intel's OpenMP, which some builds of torch use
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")  # transformers' own bars would break the one live line


def _dispatch(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("--help", "-h"):
        print(HELP, end="")
        return 0
    if arguments[0] == "--version":
        print(f"roserlhf {__version__}")
        return 0
    if arguments[0] not in COMMANDS:
        from rosellm.roserlhf.config import nearest

        near = nearest(arguments[0], tuple(COMMANDS))
        raise ConfigError(f"unknown command {arguments[0]}; " + (f"did you mean {near[0]}?" if near else "see roserlhf --help"))
    command = importlib.import_module(f"{__name__}.{COMMANDS[arguments[0]]}")
    return int(command.run(arguments[1:]))
