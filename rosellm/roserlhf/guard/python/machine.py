"""The state of a program that is read: names, files written, fuel; and what passes between the parts of the reader."""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.python import places
from rosellm.roserlhf.guard.python.findings import Findings
from rosellm.roserlhf.guard.python.value import STAR, Choice, Scope, Thing, choice, paths
from rosellm.roserlhf.guard.scene import Scene

FUEL = 2000
"""Expressions that are evaluated, beyond about as many as the text holds, before loops and functions are read once only."""
DEEPEST_CALL = 6
DEEPEST_EXPRESSION = 110
LONGEST_FOLDER = 1024
MOST_LINKS = 256
MOST_NESTED_READS = 48
"""Pieces of other languages that are read."""


@dataclass(slots=True, eq=False)
class Machine:
    """One program."""

    scene: Scene
    findings: Findings
    scope: Scope
    fuel: int = FUEL
    depth: int = 0
    """Of expressions."""
    calls: int = 0
    """Functions that are being read inside each other."""
    dead: bool = False
    """The branch that is read would not run as far as is known: it changes no value."""
    visited: set[int] = field(default_factory=set)
    """Bodies and branches that were read."""
    log: list[dict[tuple[int, str], tuple[Scope, Any]]] = field(default_factory=list)
    """For each branch that is being read, what its names were before."""
    waiting: list[Any] = field(default_factory=list)
    """Functions that were defined: those that nobody called are read at the end."""
    returned: list[Any] = field(default_factory=list)
    leaving: str = ""
    """`return`, `break`, `continue`, while a block is being left."""
    modules: set[str] = field(default_factory=set)
    """Modules that were imported."""
    stars: list[str] = field(default_factory=list)
    """Modules whose names were all imported."""
    files: dict[str, str] = field(default_factory=dict)
    """Contents of files that were written, by absolute path."""
    changes: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    """What was put in the place of words of a file that is not known otherwise, by absolute path."""
    reads: int = 0
    folders: list[str] = field(default_factory=list)
    """Folders that the program put on its search path for modules."""
    output: Any = None
    """Open file that what is printed goes to."""
    executed: set[ast.AST | None] = field(default_factory=set)
    """Calls whose code in a string was read."""
    guards: list[str] = field(default_factory=list)
    """What tells that a test is looking, in the conditions around what is being read."""
    computes: dict[ast.AST, bool] = field(default_factory=dict)
    """Comprehensions that were read, and whether they do nothing but compute."""
    options: dict[str, Any] = field(default_factory=dict)
    """Texts and paths that options of the command line have if nobody gives others, by the attribute."""
    saved: dict[str, str] = field(default_factory=dict)
    """Names of this program that hold what is, or was, at a dotted name: name -> dotted name."""

    def spend(self, steps: int = 1) -> bool:
        """Take fuel for a repetition, beside what its expressions take; False if there is none left."""
        self.fuel -= steps
        return self.fuel > 0

    # Names

    def assign(self, name: str, value: Any) -> None:
        """Bind a name in the scope that it belongs to."""
        scope = self.scope
        while name in scope.shared and scope.parent is not None:
            scope = scope.parent
        if self.log:
            self.log[-1].setdefault((id(scope), name), (scope, scope.names.get(name, _ABSENT)))
        scope.names[name] = value

    def lookup(self, name: str) -> Any:
        """Return what a name is bound to, `ABSENT` if to nothing."""
        scope: Scope | None = self.scope
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.parent
        return _ABSENT

    def start_branch(self) -> None:
        """Begin a branch: what it binds can be taken back."""
        self.log.append({})

    def end_branch(self, keep: bool) -> list[tuple[Scope, str, Any]]:
        """End a branch; return what it bound. If it is not kept, names are what they were before."""
        changed = []
        log = self.log.pop()
        for (_, name), (scope, before) in log.items():
            changed.append((scope, name, scope.names.get(name, _ABSENT)))
            if not keep:
                if before is _ABSENT:
                    scope.names.pop(name, None)
                else:
                    scope.names[name] = before
            elif self.log:
                self.log[-1].setdefault((id(scope), name), (scope, before))
        return changed

    def merge(self, changes: Iterable[tuple[Scope, str, Any]]) -> None:
        """Make names be either what they are now or what a branch bound."""
        for scope, name, value in changes:
            now = scope.names.get(name, _ABSENT)
            if value is _ABSENT or now is value:
                continue
            if self.log:
                self.log[-1].setdefault((id(scope), name), (scope, now))
            scope.names[name] = value if now is _ABSENT else choice((now, value))

    # Acts

    def path(self, text: str) -> str:
        """Resolve a path."""
        return places.absolute(text, self.scene.workdir, self.scene.home, self.scene.links)

    def paths(self, value: Any) -> list[str]:
        """Resolve the paths that a value may be."""
        return list(dict.fromkeys(self.path(one) for one in paths(value)))

    def nested(
        self, language: str, code: str, node: ast.AST | None, *disguises: str, scene: Scene | None = None, **traits: str
    ) -> list[Act]:
        """Read code of another language, or Python in a string."""
        self.reads += 1
        if self.reads > MOST_NESTED_READS:
            self.findings.add("opaque", "more code inside this code than is read", language, node)
            return []
        if language == "url" and (how := self.findings.decoded(code)):
            traits["disguised"] = how
        inner = (scene or self.scene).inside(files={**self.scene.files, **self.files} if self.files else self.scene.files)
        acts = inner.read(language, code.replace(STAR, "*"), inner)
        self.findings.adopt(acts, node, *disguises, **traits)
        return acts

    def enter(self, folder: str) -> None:
        """Change the working directory."""
        if not self.dead and len(folder) < LONGEST_FOLDER:
            self.scene = replace(self.scene, workdir=folder)

    def set_variable(self, name: str, value: str) -> None:
        """Change a variable of the environment."""
        if not self.dead and isinstance(self.scene.variables, dict):
            self.scene.variables[name] = value

    def set_link(self, place: str, to: str) -> None:
        """Make a link."""
        if not self.dead and isinstance(self.scene.links, dict) and len(self.scene.links) < MOST_LINKS:
            self.scene.links[place] = to

    def fold(self, size: int) -> bool:
        """Tell whether a constant of that size may still be computed with."""
        if size > 2000:
            self.fuel -= size // 64
        return self.fuel > 0 or size <= 2000

    @contextlib.contextmanager
    def inside(self, where: str) -> Iterator[None]:
        """Be in another part of the program."""
        before, self.findings.where = self.findings.where, where
        try:
            yield
        finally:
            self.findings.where = before


_ABSENT = Thing("absent")
ABSENT = _ABSENT


def first(value: Any) -> Any:
    """Return the first option of a value."""
    return value.options[0] if type(value) is Choice else value


def each(names: str, value: Any) -> dict[str, Any]:
    """Give several names one value."""
    return dict.fromkeys(names.split(), value)
