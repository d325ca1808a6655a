"""`roserlhf report`: a run folder -> its `report.html`, written again from the files alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rosellm.roserlhf.cli.options import Flag, option_help, parse
from rosellm.roserlhf.config import Config
from rosellm.roserlhf.report import write_report

FLAGS = {"help": Flag("this list")}


def run(argv: Sequence[str]) -> int:
    """Write the report of the run that the command line names; return the exit code."""
    parsed = parse(argv, Config, flags=FLAGS, operands=("RUN",))
    if "help" in parsed.flags:
        print(f"usage: roserlhf report RUN\n\n{option_help(Config, FLAGS)}", end="")
        return 0
    print(write_report(Path(parsed.operands[0])))
    return 0
