"""`roserlhf explain`: a run and a trajectory -> why its tokens moved, as a table, a page or JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from pydantic import Field

from rosellm.roserlhf.cli.options import Flag, option_help, parse
from rosellm.roserlhf.cli.output import write_output
from rosellm.roserlhf.cli.run_argument import run_folder
from rosellm.roserlhf.config import Config, build
from rosellm.roserlhf.errors import ConfigError, RangeError

FLAGS = {
    "html": Flag("write a page instead of the table", "FILE"),
    "json": Flag("write everything as JSON instead; - for the standard output", "FILE"),
    "help": Flag("this list"),
}


class ExplainOptions(Config):
    """Which part of the trajectory is told."""

    token: int | None = Field(default=None, ge=0, description="one token, by its position in the row, worked out by hand")
    turn: int | None = Field(default=None, ge=0, description="one turn: its action and what answered it")


def run(argv: Sequence[str]) -> int:
    """Explain as the command line says; return the exit code."""
    parsed = parse(argv, ExplainOptions, flags=FLAGS, operands=("RUN", "TRAJECTORY"))
    if "help" in parsed.flags:
        print(f"usage: roserlhf explain RUN TRAJECTORY [OPTIONS]\n\n{option_help(ExplainOptions, FLAGS)}", end="")
        return 0
    options = build(ExplainOptions, parsed.options)
    folder = run_folder(parsed.operands[0])

    from rosellm.roserlhf.audit.explanation.explain import explain  # loads torch
    from rosellm.roserlhf.cli.explanation_view import show_explanation, show_token
    from rosellm.roserlhf.cli.safe_text import console

    try:
        explanation = explain(folder, parsed.operands[1], token=options.token, turn=options.turn)
    except RangeError as error:
        raise ConfigError(str(error)) from error
    if "html" in parsed.flags:
        _write(parsed.flags["html"], explanation.as_html())
    if "json" in parsed.flags:
        _write(parsed.flags["json"], json.dumps(explanation.as_json(), indent=1, allow_nan=False) + "\n")
    if not {"html", "json"} & parsed.flags.keys():
        show = show_explanation if options.token is None else show_token
        show(console(), explanation)
    return 0


def _write(place: str, content: str) -> None:
    if place == "-":
        sys.stdout.write(content)
        return
    write_output(place, content)
    print(place)
