"""A saved episode as bytes: `named JSON values ↔ UTF-8 JSON`, under the name of the environment that may read it; no pickle."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from rosellm.roserlhf import checks
from rosellm.roserlhf.errors import RecordError
from rosellm.roserlhf.record import plain
from rosellm.roserlhf.trajectory import ToolResult

FORMAT = 1


def write(environment: str, values: Mapping[str, Any]) -> bytes:
    """Write what an episode is made of.

    Raises:
        RecordError: a value is no JSON value.
    """
    content = plain.mapping(values, "snapshot", plain.json_value)
    try:
        return json.dumps({"format": FORMAT, "environment": environment, **content}, allow_nan=False).encode()
    except ValueError as error:
        raise checks.fail(RecordError, "snapshot", "hold finite numbers", str(error)) from error


def read(data: bytes, environment: str) -> dict[str, Any]:
    """Read what `write` wrote.

    Raises:
        RecordError: the bytes are no snapshot, or one of another environment, version or format.
    """
    plain.opaque(data, "snapshot")
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise checks.fail(RecordError, "snapshot", "be JSON as snapshot() writes it", plain.shown(data)) from error
    said = (found.get("environment"), found.get("format")) if isinstance(found, dict) else None
    if said != (environment, FORMAT):
        raise checks.fail(RecordError, "snapshot", f"be of {environment}, format {FORMAT}", plain.shown(said))
    return dict(found)


def result_values(result: ToolResult) -> dict[str, Any]:
    """Turn a tool result into JSON values; `ToolResult(**values)` makes it again."""
    return dataclasses.asdict(result)
