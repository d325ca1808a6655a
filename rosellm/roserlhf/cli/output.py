"""A file that the command line asked for beside what it prints."""

from __future__ import annotations

from pathlib import Path


def write_output(place: str, text: str) -> None:
    """Write the file.

    Raises:
        OSError: it cannot be written; the error names it, also where the system's own does not (a full disk).
    """
    try:
        Path(place).write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        error.filename = error.filename or place
        raise
