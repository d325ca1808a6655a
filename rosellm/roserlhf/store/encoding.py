"""Records as bytes and back: `Trajectory -> msgpack -> Trajectory`, exact in every bit.

A record is a map from field names to values, fields that hold their default left out. Decoding goes through the constructors, so
what comes back obeys every rule of the record; an unknown field is an error. Two things msgpack cannot say are escaped: strings
with lone surrogates (a model can write one in a JSON argument) and integers beyond 64 bits.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import MISSING, fields
from operator import attrgetter
from typing import Any

from rosellm.roserlhf.errors import MissingExtraError, RecordError, StoreError
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

_PARTS: dict[str, type] = {
    "actions": PolicyAction,
    "transitions": TransitionRecord,
    "parent": ParentLink,
    "failure": Failure,
    "parsed": ParsedAction,
    "parse_failure": ParseFailure,
    "sampling": SamplingParameters,
    "version_spans": VersionSpan,
    "results": ToolResult,
    "observation": TokenSpan,
    "calls": ToolCall,
    "failures": ParseFailure,
}
"""The class of the record, or of each record of the sequence, that a field holds. A prompt holds two classes and is told apart."""
_CLASSES = (Trajectory, CopySpan, TokenSpan, *_PARTS.values())
_NAMES = {cls: [f.name for f in fields(cls) if f.name != "sealed"] for cls in _CLASSES}
_DEFAULTS = {
    cls: [f.default if f.name != "schema_version" else MISSING for f in fields(cls) if f.name != "sealed"] for cls in _CLASSES
}
"""Value at which a field is left out; the schema version never is."""
_VALUES = {cls: attrgetter(*names) for cls, names in _NAMES.items()}
_TEXT, _INTEGER, _PAIRS = 1, 2, 3


@functools.cache
def _msgpack() -> tuple[Any, Any, Any]:
    """Return the encoder, the decoder and the extension type, importing msgspec on first use."""
    try:
        import msgspec
    except ImportError as error:
        raise MissingExtraError("the event log needs msgspec: pip install 'rosellm[train]'") from error
    encoder = msgspec.msgpack.Encoder(enc_hook=_subclass)
    return encoder, msgspec.msgpack.Decoder(ext_hook=_unescape), msgspec.msgpack.Ext


def _subclass(value: Any) -> str:
    if isinstance(value, str):
        return str.__str__(value)
    raise TypeError(f"a {type(value).__name__} is not plain data")


def pack(value: Any) -> bytes:
    """Encode plain data (None, numbers, strings, bytes, lists, tuples, string-keyed mappings)."""
    encoder, _, _ = _msgpack()
    try:
        packed: bytes = encoder.encode(value)
    except (UnicodeEncodeError, OverflowError):
        packed = encoder.encode(_escape(value))
    return packed


def unpack(data: bytes) -> Any:
    """Decode what `pack` wrote.

    Raises:
        StoreError: the bytes are not a whole value.
    """
    _, decoder, _ = _msgpack()
    try:
        return decoder.decode(data)
    except (ValueError, RecursionError) as error:
        raise StoreError(f"the stored bytes must be one whole msgpack value, got {len(data)} other byte(s): {error}") from error


def _escape(value: Any) -> Any:
    encoder, _, ext = _msgpack()
    if isinstance(value, str):
        return value if _encodable(value) else ext(_TEXT, value.encode("utf-8", "surrogatepass"))
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        return ext(_INTEGER, value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True))
    if isinstance(value, Mapping):
        if all(map(_encodable, value)):
            return {k: _escape(v) for k, v in value.items()}
        return ext(_PAIRS, encoder.encode([(_escape(k), _escape(v)) for k, v in value.items()]))
    return [_escape(v) for v in value] if isinstance(value, (list, tuple)) else value


def _encodable(text: str) -> bool:
    return not any("\ud800" <= c <= "\udfff" for c in text)


def _unescape(code: int, data: memoryview) -> Any:
    if code == _TEXT:
        return bytes(data).decode("utf-8", "surrogatepass")
    if code == _INTEGER:
        return int.from_bytes(data, "big", signed=True)
    if code == _PAIRS:
        return dict(unpack(bytes(data)))
    raise ValueError(f"unknown extension {code}")


def encode(trajectory: Trajectory) -> bytes:
    """Encode a record; `sealed` is not written, because what is at rest is sealed."""
    return pack(_fields(trajectory))


def _fields(record: Any) -> dict[str, Any]:
    written = {}
    cls = type(record)
    for name, default, value in zip(_NAMES[cls], _DEFAULTS[cls], _VALUES[cls](record), strict=True):
        # 0.0 == -0.0, so equal floats are written: what is left out must come back bit for bit.
        if value is default or (value == default and type(value) is not float):
            continue
        if type(value) in _DEFAULTS:
            value = _fields(value)
        elif type(value) is tuple and value and type(value[0]) in _DEFAULTS:
            value = [_fields(part) for part in value]
        written[name] = value
    return _named_by_class(record, written) if isinstance(record, PolicyAction) else written


def _named_by_class(action: PolicyAction, written: dict[str, Any]) -> dict[str, Any]:
    """Leave out the one span that says nothing new, and let the name of `parsed_action` say which class it is."""
    if len(action.version_spans) == 1 and action.version_spans[0].prefix_cache == "recomputed":
        del written["version_spans"]
    if isinstance(action.parsed_action, ParsedAction):
        written["parsed"] = written.pop("parsed_action")
    elif isinstance(action.parsed_action, ParseFailure):
        written["parse_failure"] = written.pop("parsed_action")
    return written


def decode(data: bytes) -> Trajectory:
    """Decode a record into its classes, checked and sealed.

    Raises:
        StoreError: the bytes are not a record, or it breaks a rule or has a field this version does not know.
    """
    written = unpack(data)
    if not isinstance(written, dict):
        raise StoreError(f"a stored record must be a map of fields, got {type(written).__name__}")
    try:
        record: Trajectory = _built(Trajectory, {**written, "sealed": True})
    except (RecordError, TypeError, AttributeError) as error:
        name = written.get("trajectory_id")
        raise StoreError(f"a stored record must obey the rules of the record, got {name!r}: {error}") from error
    return record


def _built(cls: type, written: dict[str, Any]) -> Any:
    for name in written.keys() & _PARTS.keys():
        part = written[name]
        build = _PARTS[name]
        written[name] = [_built(build, p) for p in part] if isinstance(part, list) else _built(build, part)
    if "prompt" in written:
        written["prompt"] = [_built(CopySpan if "record_id" in p else TokenSpan, p) for p in written["prompt"]]
    for name in ("parsed", "parse_failure"):
        if name in written:
            written["parsed_action"] = written.pop(name)
    return cls(**written)
