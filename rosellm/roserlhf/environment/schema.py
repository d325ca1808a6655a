"""JSON schema of Python annotations, and whether a value fits it: `annotation → schema`, `value, schema → what is wrong`."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from typing import Any, Literal, Union, get_args, get_origin

JSON_TYPES: Mapping[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean", list: "array", dict: "object"}
ANNOTATIONS = "str, int, float, bool, list, dict, list[...], dict[str, ...], Literal[...], one of these | None"
_ACCEPTED: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


def schema_of(annotation: Any) -> dict[str, Any] | None:
    """Turn an annotation into a JSON schema, in the words that chat templates know; None if JSON has no type for it.

    Example:
        >>> schema_of(dict[str, int] | None)
        {'type': 'object', 'additionalProperties': {'type': 'integer'}, 'nullable': True}
    """
    if annotation in JSON_TYPES:
        return {"type": JSON_TYPES[annotation]}
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return _literal(arguments)
    if origin in (Union, types.UnionType):
        others = [argument for argument in arguments if argument is not type(None)]
        inner = schema_of(others[0]) if len(others) == 1 else None
        return None if inner is None else {**inner, "nullable": True}
    if origin is list or (origin is dict and arguments[0] is str):
        inner = schema_of(arguments[-1])
        key = "items" if origin is list else "additionalProperties"
        return None if inner is None else {"type": JSON_TYPES[origin], key: inner}
    return None


def _literal(values: tuple[Any, ...]) -> dict[str, Any] | None:
    kinds = {type(value) for value in values}
    kind = kinds.pop()
    return None if kinds or kind not in (str, int, bool) else {"type": JSON_TYPES[kind], "enum": list(values)}


def misfits(value: Any, schema: Mapping[str, Any], place: str) -> Iterator[str]:
    """Yield what is wrong with a value, worded for the model; nothing if it fits.

    Of JSON schema are read: `type`, `nullable`, `enum`, `items`, `properties`, `required`, `additionalProperties`.

    Example:
        >>> list(misfits([1, "2"], {"type": "array", "items": {"type": "integer"}}, "values"))
        ['values[1] must be integer']
    """
    kinds = _kinds(schema)
    if kinds and not any(_is(value, kind) for kind in kinds):
        yield f"{place} must be {' or '.join(kinds)}"
    elif value is not None and "enum" in schema and not any(type(value) is type(one) and value == one for one in schema["enum"]):
        yield f"{place} must be one of {', '.join(map(str, schema['enum']))}"
    elif isinstance(value, list) and "items" in schema:
        for i, inner in enumerate(value):
            yield from misfits(inner, schema["items"], f"{place}[{i}]")
    elif isinstance(value, dict):
        yield from _object_misfits(value, schema, place)


def _object_misfits(value: Mapping[str, Any], schema: Mapping[str, Any], place: str) -> Iterator[str]:
    if missing := [name for name in schema.get("required", ()) if name not in value]:
        yield f"{place} must have {', '.join(missing)}"
    properties, others = schema.get("properties", {}), schema.get("additionalProperties", {})
    for name, inner in value.items():
        if name in properties:
            yield from misfits(inner, properties[name], f"{place}.{name:.40}")
        elif others is False:
            yield f"{place} must not have {name:.40}"
        elif isinstance(others, Mapping):
            yield from misfits(inner, others, f"{place}.{name:.40}")


def _kinds(schema: Mapping[str, Any]) -> list[str]:
    kind = schema.get("type", [])
    kinds = [kind] if isinstance(kind, str) else list(kind)
    return [*kinds, "null"] if kinds and schema.get("nullable") else kinds


def _is(value: Any, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, _ACCEPTED.get(kind, object))
