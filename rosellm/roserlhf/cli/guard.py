"""`roserlhf guard`: what the anti-hack guard thinks of calls."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

from rosellm.roserlhf.config import nearest
from rosellm.roserlhf.errors import ConfigError

HELP = """\
usage: roserlhf guard VERB [OPTIONS]

verbs:
  evaluate  score rules and judge on a labelled corpus of calls

  roserlhf guard VERB --help lists the options of a verb
"""
VERBS = {"evaluate": "guard_evaluate"}
"""Every verb and the module of this package that runs it."""


def run(argv: Sequence[str]) -> int:
    """Run one verb; return the exit code."""
    if not argv or argv[0] in ("--help", "-h"):
        print(HELP, end="")
        return 0
    if argv[0] not in VERBS:
        near = nearest(argv[0], tuple(VERBS))
        raise ConfigError(f"unknown verb {argv[0]} of guard; " + (f"did you mean {near[0]}?" if near else "see roserlhf guard --help"))
    verb = importlib.import_module(f"rosellm.roserlhf.cli.{VERBS[argv[0]]}")
    return int(verb.run(argv[1:]))
