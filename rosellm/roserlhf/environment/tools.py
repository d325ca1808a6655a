"""Tools: a name, typed parameters, a docstring; read off annotated functions and methods, once per class."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self, TypeVar, get_type_hints, overload
from weakref import WeakKeyDictionary

from rosellm.roserlhf import checks
from rosellm.roserlhf.environment import docstring
from rosellm.roserlhf.environment.schema import ANNOTATIONS, misfits, schema_of
from rosellm.roserlhf.errors import DtypeError, RangeError
from rosellm.roserlhf.record import plain

_F = TypeVar("_F", bound=Callable[..., Any])
_MARK = "_tool_options"
_MOST_NAMES, _LONGEST_NAME = 8, 40
_read: WeakKeyDictionary[type, tuple[Tool, ...]] = WeakKeyDictionary()


@dataclass(frozen=True)
class Tool:
    """A callable with a JSON schema."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """Parameter names to their annotations, in order."""
    required: tuple[str, ...]
    """The parameters without a default."""
    function: Callable[..., Any] = field(repr=False)
    """Plain or `async`; what it returns is shown to the policy as text."""
    irreversible: bool = False
    """Needs a confirmation before it runs."""
    instant: bool = False
    """Returns at once: it runs where it is called, and no time limit stands around it."""
    repeatable: bool = False
    """Safe to run again after it failed or did not answer in time."""
    described: Mapping[str, str] = field(default_factory=dict)
    """What the docstring says about parameters, by name."""

    def schema(self) -> Mapping[str, Any]:
        """Return the plain JSON schema that a chat template is given; made once, read-only."""
        return self._schema

    @cached_property
    def _schema(self) -> Mapping[str, Any]:
        parameters = {"type": "object", "properties": self._properties, "required": list(self.required)}
        function = {"name": self.name, "description": self.description, "parameters": parameters}
        found: Mapping[str, Any] = plain.json_value({"type": "function", "function": function}, f"schema of {self.name}")
        return found

    @cached_property
    def _properties(self) -> Mapping[str, Mapping[str, Any]]:
        return {name: self._property(name, annotation) for name, annotation in self.parameters.items()}

    def _property(self, name: str, annotation: Any) -> Mapping[str, Any]:
        found = schema_of(annotation)
        if found is None:
            raise checks.fail(DtypeError, f"{self.name}({name})", f"be annotated with one of {ANNOTATIONS}", annotation)
        return {**found, "description": self.described[name]} if name in self.described else found

    def complaint(self, arguments: Mapping[str, Any]) -> str | None:
        """Say what is wrong with the arguments of a call, worded for the model; None if nothing is."""
        problems = []
        if missing := [name for name in self.required if name not in arguments]:
            problems.append(f"missing {_listed(missing)}")
        if extra := [name for name in arguments if name not in self.parameters]:
            problems.append(f"unexpected {_listed(extra)}")
        for name, value in arguments.items():
            problems.extend(misfits(value, self._properties.get(name, {}), name))
        return "; ".join(problems[:_MOST_NAMES]) or None

    def bound_to(self, owner: object) -> Tool:
        """Return the same tool as a method of `owner`."""
        bound = object.__new__(type(self))  # unlike `replace`, this keeps the schema that was made
        bound.__dict__.update(self.__dict__, function=self.function.__get__(owner, type(owner)))
        return bound


def _listed(names: list[str]) -> str:
    shown = [name[:_LONGEST_NAME] for name in names[:_MOST_NAMES]]
    return ", ".join(shown) + (f" and {len(names) - len(shown)} more" if len(names) > len(shown) else "")


@dataclass(frozen=True)
class ToolSet:
    """The tools of one episode, by name."""

    tools: Mapping[str, Tool] = field(default_factory=dict)

    @classmethod
    def of(cls, *functions: Callable[..., Any]) -> Self:
        """Make a set of annotated functions or bound methods; `@tool` on them is needed for its options only.

        Raises:
            DtypeError: an annotation that JSON has no type for.
            RangeError: two tools of one name.

        Example:
            >>> def double(number: int) -> int:
            ...     "Double a number."
            ...     return 2 * number
            >>> ToolSet.of(double).tools["double"].complaint({"number": "2"})
            'number must be integer'
        """
        return cls(_by_name(read_tool(function) for function in functions))

    def schemas(self) -> list[Mapping[str, Any]]:
        """Schemas of all tools, in order of definition; each is made once per class, so that asking is cheap."""
        return [tool.schema() for tool in self.tools.values()]


@overload
def tool(function: _F) -> _F: ...


@overload
def tool(*, irreversible: bool = False, instant: bool = False, repeatable: bool = False) -> Callable[[_F], _F]: ...


def tool(
    function: _F | None = None, *, irreversible: bool = False, instant: bool = False, repeatable: bool = False
) -> _F | Callable[[_F], _F]:
    """Mark a function, or a method of an environment, as a tool.

    Its annotations become the schema, the first paragraph of its docstring the description, the docstring's section `Args:` the
    descriptions of its parameters.

    Args:
        function: plain or `async`.
        irreversible: for what cannot be undone; it runs only when the tool runner confirms the call.
        instant: for what returns at once, whatever it is given; it runs without a thread of its own and without a time limit.
        repeatable: for what may run twice where once was meant; the tool runner may try it again.

    Example:
        >>> @tool
        ... def search(item: str, limit: int = 3) -> str:
        ...     "Look up the price of an item."
        >>> read_tool(search).schema()["function"]["parameters"]["required"]
        ['item']
    """
    options = {"irreversible": irreversible, "instant": instant, "repeatable": repeatable}
    for name, value in options.items():
        checks.flag(value, name)

    def mark(marked: _F) -> _F:
        # a static method is marked itself, whichever decorator comes first
        setattr(getattr(marked, "__func__", marked), _MARK, options)
        return marked

    return mark if function is None else mark(function)


def read_tool(function: Callable[..., Any]) -> Tool:
    """Read name, parameters and description off an annotated function or bound method.

    Raises:
        DtypeError: a parameter has no annotation or one that JSON has no type for, cannot be passed by name, or its default is of
            another type.
        RangeError: the docstring describes a parameter that there is not.
    """
    return _read_tool(function, skip=0)


def _read_tool(function: Callable[..., Any], *, skip: int) -> Tool:
    parameters = dict(list(inspect.signature(function).parameters.items())[skip:])
    hints = _hints(function)
    text = inspect.getdoc(function) or ""
    described = docstring.arguments(text)
    if unknown := [name for name in described if name not in parameters]:
        raise checks.fail(RangeError, f"Args of {function.__name__}", "describe its parameters", ", ".join(unknown))
    for name, parameter in parameters.items():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise checks.fail(DtypeError, f"{function.__name__}({name})", "be passed by name", parameter.kind.description)
    found = Tool(
        function.__name__,
        docstring.description(text),
        {name: hints.get(name) for name in parameters},
        tuple(name for name, parameter in parameters.items() if parameter.default is parameter.empty),
        function,
        described=described,
        **getattr(function, _MARK, {}),
    )
    _check_defaults(found, parameters)
    return found


def _check_defaults(known: Tool, parameters: Mapping[str, inspect.Parameter]) -> None:
    """Require every default to be what the policy could pass; making the schema checks the annotations."""
    properties = known.schema()["function"]["parameters"]["properties"]
    for name, parameter in parameters.items():
        problems = () if name in known.required else misfits(parameter.default, properties[name], "the default")
        if problem := next(iter(problems), None):
            fix = "annotate it with ... | None" if parameter.default is None else None
            requirement = f"have a default of its own type: {problem}"
            raise checks.fail(DtypeError, f"{known.name}({name})", requirement, repr(parameter.default), fix=fix)


def _hints(function: Callable[..., Any]) -> Mapping[str, Any]:
    try:
        return get_type_hints(function)
    except NameError as error:
        fix = "import it outside of TYPE_CHECKING" if error.name else None
        raise checks.fail(DtypeError, function.__name__, "have annotations that can be read", str(error), fix=fix) from error


def _by_name(tools: Iterable[Tool]) -> dict[str, Tool]:
    found: dict[str, Tool] = {}
    for known in tools:
        if known.name in found:
            raise checks.fail(RangeError, "tools", "have different names", f"two of the name {known.name}")
        found[known.name] = known
    return found


def tools_of(owner: object) -> ToolSet:
    """Collect the tools of an object: its marked methods in order of definition (base classes first), then its class's `toolbox`.

    An override decides by its own mark. A function in `toolbox` whose first parameter is `self` becomes a method. Signatures are
    read once per class, for an environment has an instance per episode.

    Raises:
        DtypeError, RangeError: see `read_tool`; RangeError also for two tools of one name.
    """
    cls = type(owner)
    if cls not in _read:
        names = dict.fromkeys(name for base in reversed(cls.__mro__) for name in vars(base))
        marked = [inspect.getattr_static(cls, name) for name in names if hasattr(getattr(cls, name, None), _MARK)]
        found = _by_name(_read_member(member) for member in (*marked, *map(_as_member, getattr(cls, "toolbox", ()))))
        for known in found.values():
            known.schema()
        _read[cls] = tuple(found.values())
    return ToolSet({known.name: known.bound_to(owner) for known in _read[cls]})


def _as_member(function: Callable[..., Any]) -> Any:
    """Give a function of a `toolbox` the form in which it would stand in the class."""
    parameters = inspect.signature(function).parameters
    return function if next(iter(parameters), None) == "self" else staticmethod(function)


def _read_member(member: Any) -> Tool:
    static = isinstance(member, staticmethod)
    return replace(_read_tool(getattr(member, "__func__", member), skip=0 if static else 1), function=member)
