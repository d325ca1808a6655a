"""Plain data: `what a caller hands over -> checked, read-only Python values`, the ground on which records stand.

Every function takes `(value, argument)`, returns the value in the form a record keeps (a copy: sequences as tuples, mappings as
read-only dicts, numpy and torch scalars as Python numbers) and raises `RecordError` with the argument's name otherwise. numpy
and torch are recognised by their `tolist` method, never imported.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import math
import re
import struct
from array import array
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, NoReturn, TypeAlias, get_args

from rosellm.roserlhf.checks import fail
from rosellm.roserlhf.errors import RecordError

Json: TypeAlias = Any
"""A JSON value: None, bool, int, float, str, or a list or string-keyed mapping of them."""

_EVENT_TIMES = re.compile(r', "seconds": \{[^{}]*\}\}\Z')
"""How a guard's event ends: with its times, which are no more part of a record's content than other times."""
JSON_DEPTH = 100
"""Deepest nesting of a JSON value that a record keeps."""


class FrozenDict(dict[str, Any]):
    """A dict that refuses every change; `dict(x)` gives a copy that does not."""

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("a record is read-only; change a copy of it, dict(...)")

    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (dict(self),)


class FrozenList(list[Any]):
    """A list that refuses every change; `list(x)` gives a copy that does not."""

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("a record is read-only; change a copy of it, list(...)")

    __setitem__ = __delitem__ = __iadd__ = __imul__ = append = extend = insert = pop = remove = _refuse
    clear = sort = reverse = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (list(self),)


EMPTY: FrozenDict = FrozenDict()
"""The one empty mapping."""


def shown(value: object) -> str:
    """Show a value and its type in an error message, cut to a line."""
    return f"{value!r:.80} ({type(value).__name__})"


def native(value: Any) -> Any:
    """Turn numpy and torch scalars and arrays into Python numbers and lists."""
    return value.tolist() if hasattr(value, "tolist") else value


def sequence(values: Any, argument: str) -> tuple[Any, ...]:
    """Copy a sequence (or an iterator) into a tuple; text, bytes, mappings and sets are refused."""
    if type(values) is tuple or type(values) is list:
        return tuple(values)
    values = native(values)
    if isinstance(values, (str, bytes, Mapping, set, frozenset)) or not isinstance(values, Iterable):
        raise fail(RecordError, argument, "be a sequence", shown(values))
    return tuple(values)


def records(values: Any, argument: str, *classes: type) -> tuple[Any, ...]:
    """Copy a sequence whose items are instances of `classes`."""
    items = sequence(values, argument)
    for i, item in enumerate(items):
        if not isinstance(item, classes):
            raise fail(RecordError, f"{argument}[{i}]", "be a " + " or ".join(c.__name__ for c in classes), shown(item))
    return items


def natural(value: Any, argument: str) -> int:
    """Require an integer ≥ 0; bool is refused."""
    number = value if type(value) is int else native(value)
    if type(number) is not int or number < 0:
        raise fail(RecordError, argument, "be an integer ≥ 0", shown(value))
    return number


def integer(value: Any, argument: str) -> int:
    """Require an integer; bool is refused."""
    number = native(value)
    if type(number) is not int:
        raise fail(RecordError, argument, "be an integer", shown(value))
    return number


def token_ids(values: Any, argument: str) -> tuple[int, ...]:
    """Copy a sequence of integers ≥ 0."""
    ids = sequence(values, argument)
    if ids and ({*map(type, ids)} != {int} or min(ids) < 0):
        return tuple(natural(v, f"{argument}[{i}]") for i, v in enumerate(ids))
    return ids


def packed(ids: tuple[int, ...]) -> array[int] | None:
    """Write ids as the narrowest machine integers that hold them: `array('H' | 'i' | 'q')`; None if one is ≥ 2**63.

    Where ids were just checked they are still in the processor's cache, and packing them is a fraction of what it costs later.
    """
    for typecode in "Hiq":
        with contextlib.suppress(struct.error):
            return array(typecode, _packer(len(ids), typecode)(*ids))
    return None


def packed_floats(values: tuple[float, ...]) -> array[float]:
    """Write floats as machine numbers, `array('d')`; as with ids, this is the cheapest moment for it."""
    return array("d", _packer(len(values), "d")(*values))


@functools.lru_cache(maxsize=4096)
def _packer(count: int, typecode: str) -> Callable[..., bytes]:
    return struct.Struct(f"{count}{typecode}").pack


def span(value: Any, argument: str) -> tuple[int, int] | None:
    """Require positions `(start, end)` with start ≤ end, or None."""
    if value is None:
        return None
    pair = token_ids(value, argument)
    if len(pair) != 2 or pair[0] > pair[1]:
        raise fail(RecordError, argument, "be (start, end) with start ≤ end", repr(pair))
    return pair[0], pair[1]


def real(value: Any, argument: str, *, fix: str | None = None) -> float:
    """Require a finite number; bool counts as 0 or 1, text is refused."""
    plain = native(value)
    if not isinstance(plain, (int, float)):
        raise fail(RecordError, argument, "be a finite number", shown(value), fix=fix)
    try:
        number = float(plain)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise fail(RecordError, argument, "be a finite number", shown(value), fix=fix)
    return number


def reward(value: Any, argument: str) -> float | None:
    """Require a finite number, or None for "not scored"."""
    return None if value is None else real(value, argument, fix="None means not scored")


def seconds(value: Any, argument: str) -> float | int:
    """Require a finite number; an integer (nanoseconds, say) stays one."""
    plain = native(value)
    return plain if type(plain) is int else real(plain, argument)


def text(value: Any, argument: str) -> str:
    """Require a string."""
    if not isinstance(value, str):
        raise fail(RecordError, argument, "be a string", shown(value))
    return value


def name(value: Any, argument: str) -> str:
    """Require a non-empty string."""
    if not isinstance(value, str) or not value:
        raise fail(RecordError, argument, "be a non-empty string", shown(value))
    return value


def opaque(value: Any, argument: str) -> bytes:
    """Require bytes."""
    if not isinstance(value, bytes):
        raise fail(RecordError, argument, "be bytes", shown(value))
    return value


def flag(value: Any, argument: str) -> bool:
    """Require True or False."""
    if value is not True and value is not False:
        raise fail(RecordError, argument, "be True or False", shown(value))
    return bool(value)


def optional(check: Callable[[Any, str], object], **values: Any) -> None:
    """Apply `check` to every argument that is not None."""
    for argument, value in values.items():
        if value is not None:
            check(value, argument)


def one_of(value: Any, argument: str, literal: Any) -> None:
    """Require one of the values of a `Literal`."""
    if value not in get_args(literal):
        raise fail(RecordError, argument, "be one of " + ", ".join(map(repr, get_args(literal))), repr(value))


def mapping(values: Any, argument: str, convert: Callable[[Any, str], Any]) -> FrozenDict:
    """Copy a mapping from names, each value through `convert`."""
    if not isinstance(values, Mapping):
        raise fail(RecordError, argument, "be a mapping from names", shown(values))
    for key in values:
        text(key, f"every name in {argument}")
    return FrozenDict({k: convert(v, f"{argument}[{k!r}]") for k, v in values.items()}) if values else EMPTY


def json_value(value: Any, argument: str) -> Json:
    """Copy a JSON value deeply into read-only dicts and lists."""
    return _json(value, argument, 0)


def _json(value: Any, argument: str, depth: int) -> Json:
    if value is None or isinstance(value, (str, bool, int, float)):
        return native(value)
    if depth == JSON_DEPTH:
        raise fail(RecordError, argument, f"be nested at most {JSON_DEPTH} deep", "a deeper value")
    if isinstance(value, Mapping):
        return mapping(value, argument, lambda v, _: _json(v, argument, depth + 1))
    if isinstance(value, (list, tuple)):
        return FrozenList([_json(v, argument, depth + 1) for v in value])
    if hasattr(value, "tolist"):
        return _json(native(value), argument, depth + 1)
    raise fail(RecordError, argument, "be a JSON value", shown(value))


def digest(value: Any, without: frozenset[str]) -> str:
    """Hash plain data and dataclasses, leaving out the fields named in `without`.

    SHA-256 of canonical JSON (sorted names, shortest exact floats, ASCII escapes): the same on every machine and in every process.
    """
    canonical = json.dumps(_canonical(value, without), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()


@functools.cache
def _field_names(cls: Any) -> tuple[str, ...]:
    return tuple(f.name for f in fields(cls) if not f.name.startswith("_"))


def _canonical(value: Any, without: frozenset[str]) -> Any:
    cls: Any = type(value)
    if is_dataclass(value):
        kept = {name: _canonical(getattr(value, name), without) for name in _field_names(cls) if name not in without}
        if kept.get("guard_event"):
            kept["guard_event"] = _EVENT_TIMES.sub("}", kept["guard_event"])
        return {"class": cls.__name__, "fields": kept}
    if isinstance(value, Mapping):
        return {k: _canonical(v, without) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        # Lists of numbers are most of a record: hand them to the encoder as they are.
        return value if {*map(type, value)} <= {int, float} else [_canonical(v, without) for v in value]
    return {"bytes": value.hex()} if isinstance(value, bytes) else value
