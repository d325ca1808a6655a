"""What a call would do, in one vocabulary: shell, Python, git, patches and searches become acts, which rules and judges read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args

ActKind = Literal[
    "read",
    "list",
    "write",
    "delete",
    "link",
    "run",
    "import",
    "fetch",
    "search",
    "install",
    "revision",
    "process",
    "frame",
    "environment",
    "patch",
    "define",
    "exit",
    "detect",
    "schedule",
    "decode",
    "text",
    "code",
    "resemblance",
    "opaque",
]
"""Kinds of acts; what `target` and `detail` hold:

| kind | target | detail |
|---|---|---|
| read | path whose content is read, copied, hashed, searched or compared | program or function that does it |
| list | directory whose names are read | program or function |
| write | path created, overwritten, appended to, moved to, or whose mode or owner changes | program or function |
| delete | path removed, truncated, moved away or shadowed by a mount | program or function |
| link | path of the link that is made | what it points to |
| run | program that is started, as written | its arguments, joined by spaces |
| import | module that is imported, dotted | function that imports, if it is not the statement |
| fetch | URL, or host and path | program or function |
| search | words looked for on the web | |
| install | package as named, without a version | manager and verb, such as `pip download` |
| revision | revision expression or object that git reads, `*` for all | subcommand and what matters of its options |
| process | another process, or its memory, trace, open files: pid, `/proc` path, name | program or function |
| frame | frames, referrers, loaded modules, closures of the code that called: what is touched | function |
| environment | variable that is set, or read though it is not the program's own; `*`: all | `set VALUE` or `read` |
| patch | dotted name that is replaced or removed at run time | what replaces it, as written, shortened |
| define | hook, special method or start-up file that changes how tests run or compare: `__eq__` | such as `always true` |
| exit | status of an exit that the caller takes as the outcome, `?` if computed | function; `at import` if before any test |
| detect | what tells that a test or a verifier is looking (`sys.modules['pytest']`, `CI`) | what depends on it |
| schedule | what runs later, or in the background beside the verifier | program: `cron`, `at`, `trap`, `nohup`, `watch`, `&` |
| decode | decoded payload, shortened | how it was hidden |
| text | words that somebody will read: answer, message, comment, literal | where they stand |
| code | trait of written code that is a shortcut (`returns literals`, `table of outputs`, `skips test`) | the evidence, shortened |
| resemblance | how much the call is like labelled attempts, two decimals | what of it weighs most, if it is like them |
| opaque | what could not be read: why | |
"""
KINDS: tuple[str, ...] = get_args(ActKind)

UNKNOWN = "\ufffc"
"""Stands in a target for a part that only running the call would tell; matches anything."""


@dataclass(frozen=True, slots=True, init=False)
class Act:
    """One thing that a call would do."""

    kind: ActKind
    target: str
    """See `ActKind`. Paths are as resolved as can be: absolute, `~` and variables filled in, `..` and known links followed,
    decoded, confusable letters folded; a glob of the shell stays one; `UNKNOWN` stands for what is not known."""
    detail: str = ""
    argument: str = ""
    """Argument of the call that says so."""
    span: tuple[int, int] = (0, 0)
    """Where in that argument's text, [start, end)."""
    via: tuple[str, ...] = ()
    """Languages and disguises on the way to it, outermost first: `("shell", "base64", "python")`."""
    traits: Mapping[str, str] = field(default_factory=dict)
    """Further facts that rules may ask for, by name; what an extractor sets is listed in its docstring."""

    def __init__(
        self: Any,
        kind: ActKind,
        target: str,
        detail: str = "",
        argument: str = "",
        span: tuple[int, int] = (0, 0),
        via: tuple[str, ...] = (),
        traits: Mapping[str, str] | None = None,
    ) -> None:
        """Make an act; every call makes dozens, and what a frozen dataclass would do by itself takes three times as long."""
        _set_class(self, _Open)
        self.kind = kind
        self.target = target
        self.detail = detail
        self.argument = argument
        self.span = span
        self.via = via
        self.traits = {} if traits is None else traits
        self.__class__ = Act


class _Open:
    """An act as long as it is made: it holds the same and may be changed."""

    __slots__ = tuple(one.name for one in fields(Act))


_set_class = object.__dict__["__class__"].__set__
