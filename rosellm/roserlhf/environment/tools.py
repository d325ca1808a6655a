"""Tools: a name, typed parameters, a docstring; read off annotated Python methods, once per class."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, get_type_hints, overload
from weakref import WeakKeyDictionary

from rosellm.roserlhf import checks
from rosellm.roserlhf.errors import DtypeError

_F = TypeVar("_F", bound=Callable[..., Any])
_JSON_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", list: "array", dict: "object"}
_MARK = "_tool_options"
_read: WeakKeyDictionary[type, tuple[Tool, ...]] = WeakKeyDictionary()


@dataclass(frozen=True)
class Tool:
    """A callable with a JSON schema."""

    name: str
    description: str
    parameters: Mapping[str, type]
    """Parameter names to Python types, in order."""
    required: tuple[str, ...]
    """The parameters without a default."""
    function: Callable[..., Any] = field(repr=False)
    """Plain or `async`; what it returns is shown to the policy as text."""
    irreversible: bool = False
    """Needs a confirmation before it runs."""

    def schema(self) -> dict[str, Any]:
        """Return the plain JSON schema that a chat template is given."""
        properties = {name: {"type": _JSON_TYPES[kind]} for name, kind in self.parameters.items()}
        parameters = {"type": "object", "properties": properties, "required": list(self.required)}
        return {"type": "function", "function": {"name": self.name, "description": self.description, "parameters": parameters}}

    def complaint(self, arguments: Mapping[str, Any]) -> str | None:
        """Say what is wrong with the arguments of a call, worded for the model; None if nothing is."""
        problems = []
        if missing := [name for name in self.required if name not in arguments]:
            problems.append(f"missing {', '.join(missing)}")
        if extra := [name for name in arguments if name not in self.parameters]:
            problems.append(f"unexpected {', '.join(extra)}")
        for name, value in arguments.items():
            kind = self.parameters.get(name, object)
            accepted = (int, float) if kind is float else kind
            if not isinstance(value, accepted) or (isinstance(value, bool) and kind not in (bool, object)):
                problems.append(f"{name} must be {_JSON_TYPES[kind]}")
        return "; ".join(problems) or None


@dataclass(frozen=True)
class ToolSet:
    """The tools of one episode, by name."""

    tools: Mapping[str, Tool] = field(default_factory=dict)

    def schemas(self) -> list[dict[str, Any]]:
        """Schemas of all tools, in order of definition."""
        return [tool.schema() for tool in self.tools.values()]


@overload
def tool(function: _F) -> _F: ...


@overload
def tool(*, irreversible: bool) -> Callable[[_F], _F]: ...


def tool(function: _F | None = None, *, irreversible: bool = False) -> _F | Callable[[_F], _F]:
    """Mark a method of an environment as a tool; its annotations become the schema and its first docstring line the description.

    Args:
        function: the method, plain or `async`.
        irreversible: `@tool(irreversible=True)` for what cannot be undone; it runs only when the tool runner confirms the call.

    Example:
        >>> @tool
        ... def search(item: str, limit: int = 3) -> str:
        ...     "Look up the price of an item."
        >>> read_tool(search).schema()["function"]["parameters"]["required"]
        ['item']
    """

    def mark(marked: _F) -> _F:
        # a static method is marked itself, whichever decorator comes first
        setattr(getattr(marked, "__func__", marked), _MARK, {"irreversible": irreversible})
        return marked

    return mark if function is None else mark(function)


def read_tool(function: Callable[..., Any]) -> Tool:
    """Read name, parameters and description off an annotated function or bound method.

    Raises:
        DtypeError: a parameter has no annotation or one that JSON has no type for, or cannot be passed by name.
    """
    hints = get_type_hints(function)
    parameters = inspect.signature(function).parameters
    for name, parameter in parameters.items():
        argument = f"{function.__name__}({name})"
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise checks.fail(DtypeError, argument, "be passed by name", parameter.kind.description)
        if hints.get(name) not in _JSON_TYPES:
            allowed = ", ".join(kind.__name__ for kind in _JSON_TYPES)
            raise checks.fail(DtypeError, argument, f"be annotated with one of {allowed}", hints.get(name))
    return Tool(
        function.__name__,
        (inspect.getdoc(function) or "").split("\n")[0],
        {name: hints[name] for name in parameters},
        tuple(name for name, parameter in parameters.items() if parameter.default is parameter.empty),
        function,
        **getattr(function, _MARK, {}),
    )


def tools_of(owner: object) -> ToolSet:
    """Collect the marked methods of an object, in order of definition (base classes first); an override decides by its own mark.

    Signatures are read once per class, for an environment has an instance per episode.
    """
    cls = type(owner)
    if cls not in _read:
        names = dict.fromkeys(name for base in reversed(cls.__mro__) for name in vars(base))
        marked = [name for name in names if hasattr(getattr(cls, name, None), _MARK)]
        _read[cls] = tuple(replace(read_tool(getattr(owner, name)), function=getattr(cls, name)) for name in marked)
    return ToolSet({known.name: replace(known, function=getattr(owner, known.name)) for known in _read[cls]})
