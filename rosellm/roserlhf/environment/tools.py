"""Tools as the policy sees them: a name, typed parameters, a docstring; read off annotated Python methods."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, get_type_hints

from rosellm.roserlhf import checks
from rosellm.roserlhf.errors import DtypeError

_F = TypeVar("_F", bound=Callable[..., Any])
_JSON_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", list: "array", dict: "object"}


@dataclass(frozen=True)
class Tool:
    """A callable with a JSON schema."""

    name: str
    description: str
    parameters: Mapping[str, type]
    """Parameter names to Python types, in order; all are required."""
    function: Callable[..., Any] = field(repr=False)
    irreversible: bool = False
    """Needs a confirmation before it runs."""

    def schema(self) -> dict[str, Any]:
        """Return the plain JSON schema that a chat template is given."""
        properties = {name: {"type": _JSON_TYPES[kind]} for name, kind in self.parameters.items()}
        parameters = {"type": "object", "properties": properties, "required": list(properties)}
        return {"type": "function", "function": {"name": self.name, "description": self.description, "parameters": parameters}}


@dataclass(frozen=True)
class ToolSet:
    """The tools of one episode, by name."""

    tools: Mapping[str, Tool] = field(default_factory=dict)

    def schemas(self) -> list[dict[str, Any]]:
        """Schemas of all tools, in order of definition."""
        return [tool.schema() for tool in self.tools.values()]


def tool(function: _F) -> _F:
    """Mark a method of an environment as a tool; its annotations become the schema and its first docstring line the description.

    Example:
        >>> @tool
        ... def search(self, item: str) -> str:
        ...     "Look up the price of an item."
        >>> read_tool(search).parameters
        {'item': <class 'str'>}
    """
    function._is_tool = True  # type: ignore[attr-defined]
    return function


def read_tool(function: Callable[..., Any]) -> Tool:
    """Read name, parameters and description off an annotated function or bound method.

    Raises:
        DtypeError: a parameter has no annotation, or one that JSON has no type for.
    """
    hints = get_type_hints(function)
    names = [name for name in inspect.signature(function).parameters if name != "self"]
    for name in names:
        if hints.get(name) not in _JSON_TYPES:
            allowed = ", ".join(kind.__name__ for kind in _JSON_TYPES)
            raise checks.fail(DtypeError, f"{function.__name__}({name})", f"be annotated with one of {allowed}", hints.get(name))
    description = (inspect.getdoc(function) or "").split("\n")[0]
    return Tool(function.__name__, description, {name: hints[name] for name in names}, function)


def tools_of(owner: object) -> ToolSet:
    """Collect the marked methods of an object, in order of definition (base classes first)."""
    found: dict[str, Tool] = {}
    for cls in reversed(type(owner).__mro__):
        for name, member in vars(cls).items():
            if getattr(member, "_is_tool", False):
                found[name] = read_tool(getattr(owner, name))
    return ToolSet(found)
