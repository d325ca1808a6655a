"""`roserlhf show`: the runs there are, what one of them holds, or one trajectory to read; finished or not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from rosellm.roserlhf.cli.options import Flag, option_help, parse
from rosellm.roserlhf.cli.run_argument import RUNS, run_folder, run_folders
from rosellm.roserlhf.config import Config, build

FLAGS = {"help": Flag("this list")}
USAGE = """\
usage: roserlhf show                    runs below ./runs
       roserlhf show RUN [OPTIONS]      what a run holds, and some of its trajectories
       roserlhf show RUN TRAJECTORY     one trajectory, turn by turn
"""


class ShowOptions(Config):
    """Which trajectories of a run are listed."""

    step: int | None = Field(default=None, ge=0, description="only this training step; the last one of the phase if not given")
    phase: str = Field(default="train", description="only this phase: train, evaluate-sampled, evaluate-greedy, demonstration")
    reward: Literal["any", "positive", "zero", "negative", "unscored"] = Field(
        default="any", description="only trajectories whose total reward is so"
    )
    limit: int = Field(default=10, ge=0, description="at most so many")


def run(argv: Sequence[str]) -> int:
    """Show what the command line asks for; return the exit code."""
    parsed = parse(argv, ShowOptions, flags=FLAGS, optional=("RUN", "TRAJECTORY"))
    if "help" in parsed.flags:
        print(f"{USAGE}\n{option_help(ShowOptions, FLAGS)}", end="")
        return 0
    options = build(ShowOptions, parsed.options)

    from rosellm.roserlhf.cli.safe_text import console

    if not parsed.operands:
        from rosellm.roserlhf.cli.run_list import show_runs

        show_runs(console(), run_folders(RUNS), RUNS)
    elif len(parsed.operands) == 1:
        from rosellm.roserlhf.cli.run_overview import show_overview

        show_overview(console(), run_folder(parsed.operands[0]), options)
    else:
        from rosellm.roserlhf.cli.transcript import show_transcript

        show_transcript(console(), run_folder(parsed.operands[0]), parsed.operands[1])
    return 0
