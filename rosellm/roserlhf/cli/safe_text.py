"""Text of a model or of a record -> text that a terminal only prints: control and reordering characters are shown, never sent."""

from __future__ import annotations

import shutil
import sys

from rich.console import Console
from rich.text import Text

from rosellm.roserlhf.report.markup import visible

WIDTH = 100
"""Columns that every table fits into; a narrower terminal gets narrower ones."""


def safe(value: object, style: str = "") -> Text:
    """Make a text of anything; nothing in it is markup, and what prints nothing is written as its code point."""
    return Text(visible(str(value)), style=style)


def console() -> Console:
    """Return a console for results: at most `WIDTH` columns, no guessing at highlights, markup or emoji."""
    columns = min(WIDTH, shutil.get_terminal_size((WIDTH, 24)).columns)
    return Console(file=sys.stdout, width=columns, highlight=False, markup=False, emoji=False)
