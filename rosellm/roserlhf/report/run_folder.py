"""A run folder as the report sees it: `summary.json, run.toml, metrics.jsonl -> Run`.

Nothing is guessed: a missing file, a torn line, a value of the wrong type becomes a sentence in `Run.problems` and the value counts
as not recorded. Files are never written or locked here, so a run may be read while it is going on.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rosellm.roserlhf import checks
from rosellm.roserlhf.errors import RunFolderError

WORDS = frozenset({"phase", "version", "mode", "recipe", "status", "versions", "environment", "skipped"})
"""Keys whose values are words; everything else in a row is a number, null, or a table or list of those."""
LARGEST_STEP = 2**40
LARGEST = 2**63
"""Counters and seeds stay below; a longer integer is not a measurement."""


@dataclass(frozen=True)
class Row:
    """One line of `metrics.jsonl`, or another table of numbers, read by path."""

    values: Mapping[str, Any]

    def number(self, *path: str) -> float | None:
        """Return the number at `path`; None where it is missing, null or not a number."""
        value: Any = self.values
        for key in path:
            value = value.get(key) if isinstance(value, Mapping) else None
        return _number(value)

    def numbers(self, *path: str) -> tuple[float, ...] | None:
        """Return the list of numbers at `path`; None where it is missing or anything else."""
        value: Any = self.values
        for key in path:
            value = value.get(key) if isinstance(value, Mapping) else None
        found = [_number(item) for item in value] if isinstance(value, list) else [None]
        return None if any(item is None for item in found) else tuple(item for item in found if item is not None)

    def table(self, *path: str) -> dict[str, float | None]:
        """Return the table of numbers at `path`; empty where it is missing."""
        value: Any = self.values
        for key in path:
            value = value.get(key) if isinstance(value, Mapping) else None
        return {str(key): _number(item) for key, item in value.items()} if isinstance(value, Mapping) else {}

    def word(self, key: str) -> str | None:
        """Return the text at `key`; None where it is missing or not text."""
        value = self.values.get(key)
        return value if isinstance(value, str) else None

    @property
    def step(self) -> int:
        """Step of the row; a row without one is refused on reading."""
        return int(self.values["step"])


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return None if isinstance(value, int) and abs(value) > LARGEST else value


@dataclass(frozen=True)
class Run:
    """Everything the page needs but the transcripts; each tuple of rows is in step order, one row per step (and mode)."""

    folder: Path
    summary: Row | None = None
    """None when the run has not (yet) written one."""
    config: Mapping[str, Any] | None = None
    train: tuple[Row, ...] = ()
    warm_start: tuple[Row, ...] = ()
    evaluations: tuple[Row, ...] = ()
    problems: tuple[str, ...] = ()
    """What could not be read, one sentence each."""

    @property
    def finished(self) -> bool:
        """Whether the summary says that the run came to its end."""
        return self.summary is not None and self.summary.word("status") == "finished"


@dataclass
class _Reader:
    folder: Path
    problems: list[str] = field(default_factory=list)

    def summary(self) -> Mapping[str, Any] | None:
        name = "summary.json"
        try:
            found = self._mapping(name, json.loads((self.folder / name).read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError) as error:
            self.problems.append(f"{name} could not be read: {error}")
            return None
        self._note_words_for_numbers(name, found or {})
        return found

    def toml(self, name: str) -> Mapping[str, Any] | None:
        try:
            return tomllib.loads((self.folder / name).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError) as error:
            self.problems.append(f"{name} could not be read: {error}")
            return None

    def _mapping(self, name: str, found: object) -> Mapping[str, Any] | None:
        if isinstance(found, dict):
            return found
        self.problems.append(f"{name} must hold a JSON object, got {type(found).__name__}")
        return None

    def lines(self, name: str) -> list[Mapping[str, Any]]:
        path = self.folder / name
        if not path.exists():
            return []
        rows = []
        for index, line in enumerate(path.read_bytes().split(b"\n"), start=1):
            if line.strip():
                row = self._line(f"{name} line {index}", line)
                if row is not None:
                    rows.append(row)
        return rows

    def _line(self, place: str, line: bytes) -> Mapping[str, Any] | None:
        try:
            found = json.loads(line)
        except (ValueError, RecursionError) as error:
            self.problems.append(f"{place} is not complete JSON and was skipped: {error}")
            return None
        row = self._mapping(place, found)
        if row is None:
            return None
        step = row.get("step")
        whole = isinstance(step, int) and not isinstance(step, bool) and 0 <= step <= LARGEST_STEP
        if not whole or row.get("phase") not in ("warm_start", "train", "evaluate"):
            self.problems.append(
                f"{place} must have a known phase and a whole step, got {_shown(row.get('phase'))}, {_shown(step)}"
            )
            return None
        self._note_words_for_numbers(place, row)
        return row

    def _note_words_for_numbers(self, place: str, row: Mapping[str, Any]) -> None:
        self.problems.extend(
            f"{place}: {name} must be a number or null, got {_shown(value)}" for name, value in _not_numbers(row, "")
        )

    def unique(self, rows: Sequence[Mapping[str, Any]], phase: str) -> tuple[Row, ...]:
        """Keep the last row of each step (and mode): a killed and resumed step is written again."""
        kept: dict[tuple[int, str], Row] = {}
        for row in rows:
            if row["phase"] == phase:
                key = (int(row["step"]), str(row.get("mode", "")))
                if key in kept:
                    self.problems.append(f"metrics.jsonl has {phase} step {key[0]} more than once; the last line of it is shown")
                kept[key] = Row(row)
        return tuple(kept[key] for key in sorted(kept))


def _shown(value: object) -> str:
    return f"{value!r:.80}"


def _not_numbers(value: Mapping[str, Any], prefix: str) -> list[tuple[str, object]]:
    found: list[tuple[str, object]] = []
    for key, item in value.items():
        if key in WORDS or item is None:
            continue
        if isinstance(item, Mapping):
            found += _not_numbers(item, f"{prefix}{key}.")
        else:
            parts = item if isinstance(item, list) else [item]
            found += [(f"{prefix}{key}", part) for part in parts if _number(part) is None]
    return found


def read_run(folder: Path) -> Run:
    """Read a run folder, finished or not.

    Args:
        folder: holds at least one of `run.toml`, `metrics.jsonl`, `summary.json`.

    Returns:
        The run; what could not be read stands in its `problems`.

    Raises:
        RunFolderError: `folder` is not a directory or holds none of the three files.
    """
    names = ("run.toml", "metrics.jsonl", "summary.json")
    if not any((folder / name).is_file() for name in names):
        raise checks.fail(RunFolderError, "run_folder", "be a folder with one of " + ", ".join(names), str(folder))
    reader = _Reader(folder)
    summary, config, rows = reader.summary(), reader.toml("run.toml"), reader.lines("metrics.jsonl")
    parts = {phase: reader.unique(rows, phase) for phase in ("train", "warm_start", "evaluate")}
    return Run(
        folder=folder,
        summary=Row(summary) if summary is not None else None,
        config=config,
        train=parts["train"],
        warm_start=parts["warm_start"],
        evaluations=parts["evaluate"],
        problems=tuple(reader.problems),
    )


def column(rows: Sequence[Row], *path: str) -> tuple[float | None, ...]:
    """Return one number per row; None where it was not recorded."""
    return tuple(row.number(*path) for row in rows)


def recorded(values: Sequence[float | None]) -> list[float]:
    """Keep the finite values."""
    return [value for value in values if value is not None and math.isfinite(value)]


def names_of(rows: Sequence[Row], *path: str) -> list[str]:
    """Return the keys of the tables at `path` over all rows, in order of first appearance."""
    return list(dict.fromkeys(name for row in rows for name in row.table(*path)))
