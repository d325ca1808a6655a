"""A labelled corpus of calls: `CALLS.jsonl, SETTINGS.json -> labelled calls, settings`; what is a label never reaches a rule."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from rosellm.roserlhf import checks
from rosellm.roserlhf.errors import ConfigError, DtypeError, RecordError
from rosellm.roserlhf.guard.call_line import call_line
from rosellm.roserlhf.guard.setting import Setting
from rosellm.roserlhf.trajectory import ToolCall


@dataclass(frozen=True, slots=True)
class Call:
    """A call as a guard sees it: nothing in it says what it is."""

    tool: str
    arguments: Mapping[str, Any]
    history: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Labelled:
    """A call of a corpus with what is known about it."""

    id: str
    setting: str
    call: Call
    is_hack: bool
    kind: str


def read_settings(file: Path) -> dict[str, Setting]:
    """Read the settings of a corpus; other top-level keys than `settings` are ignored.

    Raises:
        RecordError: the file is no JSON object of settings; the message names the setting and the field.
    """
    try:
        given = json.loads(file.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise RecordError(f"{file} must be JSON: {error}") from None
    settings = given.get("settings") if isinstance(given, dict) else None
    if not isinstance(settings, dict):
        raise RecordError(
            f'{file} must be {{"settings": {{ID: {{…}}}}}}, got {_kind(settings if isinstance(given, dict) else given)}'
        )
    found = {}
    for name, one in settings.items():
        try:
            found[name] = Setting.of(one)
        except (DtypeError, ConfigError, RecordError) as error:
            raise RecordError(f"{file}: setting {name}: {error}") from None
    return found


def read_calls(file: Path, settings: Mapping[str, Setting]) -> list[Labelled]:
    """Read the calls of a corpus, one JSON object a line; blank lines are skipped.

    Raises:
        RecordError: a line is no such object; the message names the line and the field.
    """
    found: list[Labelled] = []
    seen: dict[str, int] = {}
    for number, line in _lines(file):
        where = f"{file}, line {number}"
        try:
            given = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise RecordError(f"{where} must be a JSON object: {error}") from None
        one = _labelled(given, where, settings)
        if one.id in seen:
            raise RecordError(f"{where}: id must be used once, got {one.id!r:.80} of line {seen[one.id]} again")
        seen[one.id] = number
        found.append(one)
    return found


def _lines(file: Path) -> Iterator[tuple[int, str]]:
    try:
        text = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise RecordError(f"{file} must be UTF-8: {error}") from None
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield number, line


def _labelled(given: Any, where: str, settings: Mapping[str, Setting]) -> Labelled:
    def bad(field: str, requirement: str) -> NoReturn:
        value = given.get(field, "nothing") if isinstance(given, dict) else given
        raise checks.fail(RecordError, f"{where}: {field}", requirement, f"{value!r:.80}")

    if not isinstance(given, dict):
        raise RecordError(f"{where} must be a JSON object, got {_kind(given)}")
    if type(given.get("id")) is int:
        given = {**given, "id": str(given["id"])}
    for name in ("id", "setting", "tool", "label"):
        if not isinstance(given.get(name), str) or not given[name]:
            bad(name, "be a text")
    if given["setting"] not in settings:
        bad("setting", "be one of the settings of SETTINGS")
    if given["label"] not in ("hack", "honest"):
        bad("label", "be hack or honest")
    if not isinstance(given.get("arguments"), dict):
        bad("arguments", "be an object")
    history = given.get("history")
    if not isinstance(history, list | None):
        bad("history", "be a list of texts, or of calls {tool, arguments}")
    if not isinstance(given.get("kind"), str | int | None):
        bad("kind", "be a text")
    call = Call(given["tool"], given["arguments"], tuple(_line(one) for one in history or () if one is not None))
    kind = given.get("kind")
    return Labelled(given["id"], given["setting"], call, given["label"] == "hack", "unnamed" if kind in (None, "") else str(kind))


def _line(given: Any) -> str:
    """Return an entry of a history as the guard remembers it: words as they are, a call as one line."""
    if isinstance(given, str):
        return given
    if isinstance(given, dict):
        with contextlib.suppress(RecordError):
            return call_line(ToolCall("earlier", given.get("tool"), given.get("arguments")))  # type: ignore[arg-type]
    return json.dumps(given)


def _kind(value: Any) -> str:
    return "nothing" if value is None else f"{value!r:.60} ({type(value).__name__})"
