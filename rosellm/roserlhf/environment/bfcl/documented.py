"""A tool whose schema somebody else wrote: `document → Tool`; arguments are checked by name, their types are the tool's affair."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rosellm.roserlhf.environment.tools import Tool

_TYPES = {"dict": "object", "float": "number"}
"""Names of types that no JSON schema knows."""
_PYTHON = {"string": str, "integer": int, "number": float, "boolean": bool, "array": list, "object": dict}


@dataclass(frozen=True)
class DocumentedTool(Tool):
    """A tool with a ready JSON schema."""

    document: Mapping[str, Any] = field(default_factory=dict)
    """JSON schema of the parameters."""

    def schema(self) -> Mapping[str, Any]:
        """Return the schema as documented."""
        function = {"name": self.name, "description": self.description, "parameters": self.document}
        return {"type": "function", "function": function}

    def complaint(self, arguments: Mapping[str, Any]) -> str | None:
        """Say which arguments are missing or unknown."""
        if missing := [name for name in self.required if name not in arguments]:
            return f"missing {', '.join(missing)}"
        if extra := [name for name in arguments if name not in self.parameters]:
            return f"unexpected {', '.join(extra)}"
        return None


def read_document(document: Mapping[str, Any], function: Callable[..., Any]) -> DocumentedTool:
    """Make a tool of a document, as `files.documents` gives it, and the function that carries it out."""
    schema = json_schema(document["parameters"])
    return DocumentedTool(
        document["name"],
        document["description"],
        {name: _PYTHON[kind["type"]] for name, kind in schema["properties"].items()},
        tuple(schema["required"]),
        function,
        instant=True,
        document=schema,
    )


def json_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Copy a schema with the names of types that JSON schema has."""
    copy = {name: value for name, value in schema.items() if name not in ("type", "properties", "items")}
    copy["type"] = _TYPES.get(schema["type"], schema["type"])
    if "properties" in schema:
        copy["properties"] = {name: json_schema(kind) for name, kind in schema["properties"].items()}
    if "items" in schema:
        copy["items"] = json_schema(schema["items"])
    return copy
