"""Plain data as strict JSON and back: `value -> text -> the same value`, exact in every bit.

JSON has no NaN, no infinities and no bytes: these, and nothing else, are written as an object with one name that begins with `$`:

```
{"$float": "NaN"}           NaN, Infinity, -Infinity; any other NaN as the 16 hex digits of its bits
{"$integer": "0x1f..."}     an integer of more than 4,000 digits, which readers refuse
{"$bytes": "AAE="}          bytes, in base64
{"$object": ["$x", 1]}      the object {"$x": 1}, which would otherwise be taken for one of these
```

The text is ASCII: lone surrogates, NUL and line separators are `\\u` escapes, which every reader takes.
"""

from __future__ import annotations

import base64
import json
import math
import struct
from collections.abc import Mapping
from typing import Any, NoReturn

from rosellm.roserlhf.errors import StoreError

_LONGEST_BITS = 13_000
"""Python and others refuse integers of more than 4,300 digits in a text."""
_NAMED = {"NaN": struct.unpack(">d", bytes.fromhex("7ff8000000000000"))[0], "Infinity": math.inf, "-Infinity": -math.inf}


def dumps(value: Any) -> str:
    """Write plain data (None, booleans, numbers, strings, bytes, lists, tuples, string-keyed mappings) as one line of JSON.

    Example:
        >>> dumps({"a": [1, -0.0, float("inf")], "b": b"x"})
        '{"a":[1,-0.0,{"$float":"Infinity"}],"b":{"$bytes":"eA=="}}'
        >>> dumps({"$float": "NaN"}), loads(dumps({"$float": "NaN"}))
        ('{"$object":["$float","NaN"]}', {'$float': 'NaN'})
    """
    return json.dumps(_marked(value), allow_nan=False, separators=(",", ":"))


def loads(text: str | bytes) -> Any:
    """Read what :func:`dumps` wrote.

    Raises:
        StoreError: it is not strict JSON, names a field twice, or has an unknown `$` name.
    """
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=_refuse)
    except (ValueError, TypeError, RecursionError, struct.error) as error:
        raise StoreError(
            f"a stored value must be strict JSON, got a text of {len(text)} characters that is not: {error}"
        ) from error


def _marked(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$float": _float_name(value)}
    if isinstance(value, (str, bool)) or value is None:
        return value
    if isinstance(value, int):
        return value if value.bit_length() < _LONGEST_BITS else {"$integer": hex(value)}
    if isinstance(value, bytes):
        return {"$bytes": base64.b64encode(value).decode("ascii")}
    if isinstance(value, Mapping):
        marked = {name: _marked(item) for name, item in value.items()}
        return {"$object": next(iter(marked.items()))} if _looks_marked(marked) else marked
    # Most of a record is lists of numbers, which need no marks.
    kinds = {*map(type, value)}
    if kinds <= {int} and (not value or max(value).bit_length() < 64 > min(value).bit_length()):
        return value
    return [_marked(item) for item in value]


def _looks_marked(value: Mapping[str, Any]) -> bool:
    return len(value) == 1 and next(iter(value)).startswith("$")


def _float_name(value: float) -> str:
    bits = struct.pack(">d", value)
    return next((name for name, named in _NAMED.items() if struct.pack(">d", named) == bits), bits.hex())


def _object(pairs: list[tuple[str, Any]]) -> Any:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands twice in one object")
    if not _looks_marked(found):
        return found
    name, value = pairs[0]
    if name == "$float":
        return _NAMED[value] if value in _NAMED else struct.unpack(">d", bytes.fromhex(value))[0]
    if name == "$integer":
        return int(value, 16)
    if name == "$bytes":
        return base64.b64decode(value, validate=True)
    if name == "$object":
        return dict([value])
    raise ValueError(f"unknown mark {name!r:.40}")


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")
