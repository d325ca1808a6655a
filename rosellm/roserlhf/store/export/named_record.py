"""A record as nested dicts of its fields by name, tokens in place, and back through the constructors: what a line of JSON shows.

A span with a `record_id` is a copy. What was parsed says its kind: `{"kind": "action" | "failure" | "json", "value": ...}`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rosellm.roserlhf.errors import StoreError
from rosellm.roserlhf.store.skeleton import FIELDS
from rosellm.roserlhf.trajectory import (
    CopySpan,
    Failure,
    ParentLink,
    ParsedAction,
    ParseFailure,
    PolicyAction,
    SamplingParameters,
    TokenSpan,
    ToolCall,
    ToolResult,
    Trajectory,
    TransitionRecord,
    VersionSpan,
)

_NAMES = {**FIELDS, PolicyAction: ("token_ids", "old_logprobs", *FIELDS[PolicyAction][1:])}
_KINDS: dict[str, type] = {"action": ParsedAction, "failure": ParseFailure}


def to_named(record: Any) -> dict[str, Any]:
    """Return the fields of a record, or of a part of one, by name."""
    named = {name: _plain(getattr(record, name)) for name in _NAMES[type(record)]}
    if isinstance(record, PolicyAction) and record.parsed_action is not None:
        kind = next((kind for kind, cls in _KINDS.items() if isinstance(record.parsed_action, cls)), "json")
        named["parsed_action"] = {"kind": kind, "value": named["parsed_action"]}
    return named


def _plain(value: Any) -> Any:
    if type(value) in _NAMES:
        return to_named(value)
    return [to_named(item) for item in value] if isinstance(value, tuple) and value and type(value[0]) in _NAMES else value


def from_named(values: Mapping[str, Any]) -> Trajectory:
    """Build a record, sealed, from what :func:`to_named` returned.

    Raises:
        RecordError: it breaks a rule of the record.
        StoreError: a field is unknown.
        TypeError, LookupError: the values are no record.
    """
    record: Trajectory = _built(Trajectory, values)
    record.seal()
    return record


def _built(cls: type, values: Mapping[str, Any]) -> Any:
    unknown = [name for name in values if name not in _NAMES[cls]]
    if unknown:
        raise StoreError(f"a {cls.__name__} must have known fields, got {unknown[0]!r:.80}; upgrade rosellm")
    parts = _PARTS.get(cls, {})
    return cls(**{name: parts[name](value) if name in parts else value for name, value in values.items()})


def _each(cls: type) -> Callable[[Any], list[Any]]:
    return lambda values: [_built(cls, value) for value in values]


def _maybe(cls: type) -> Callable[[Any], Any]:
    return lambda value: None if value is None else _built(cls, value)


def _spans(values: Any) -> list[Any]:
    return [_built(CopySpan if "record_id" in value else TokenSpan, value) for value in values]


def _parsed(value: Any) -> Any:
    if value is None or value["kind"] == "json":
        return value and value["value"]
    return _built(_KINDS[value["kind"]], value["value"])


_PARTS: dict[type, dict[str, Callable[[Any], Any]]] = {
    Trajectory: {
        "prompt": _spans,
        "actions": _each(PolicyAction),
        "transitions": _each(TransitionRecord),
        "parent": _maybe(ParentLink),
        "failure": _maybe(Failure),
    },
    PolicyAction: {
        "parsed_action": _parsed,
        "version_spans": _each(VersionSpan),
        "sampling": _maybe(SamplingParameters),
    },
    TransitionRecord: {"results": _each(ToolResult), "observation": _spans},
    ParsedAction: {"calls": _each(ToolCall), "failures": _each(ParseFailure)},
}
