"""The state of a program that is read: names, files written, fuel; and what passes between the parts of the reader."""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.python import places
from rosellm.roserlhf.guard.python.findings import Findings
from rosellm.roserlhf.guard.python.value import STAR, Choice, Closure, Scope, Thing, choice, paths
from rosellm.roserlhf.guard.scene import Scene

FUEL = 2000
"""Expressions that are evaluated, beyond about as many as the text holds, before loops and functions are read once only."""
DEEPEST_CALL = 6
DEEPEST_EXPRESSION = 110
LONGEST_FOLDER = 1024
MOST_LINKS = 256
MOST_NESTED_READS = 48
"""Pieces of other languages that are read."""


class Machine:
    """One program."""

    __slots__ = (
        "calls", "changes", "computes", "dead", "depth", "executed", "files", "findings", "folders", "fuel", "guards",
        "is_apart", "leaving", "log", "modules", "options", "output", "reads", "returned", "saved", "scene", "scope", "stars",
        "visited", "waiting",
    )  # fmt: skip

    def __init__(self, scene: Scene, findings: Findings, scope: Scope, fuel: int = FUEL) -> None:
        """Start with nothing known; every program makes one, and what a dataclass would do by itself takes twice as long."""
        self.scene = scene
        self.is_apart = False
        """The scene's links and variables are the program's own, no longer the caller's."""
        self.findings = findings
        self.scope = scope
        self.fuel = fuel
        self.depth = 0
        """Of expressions."""
        self.calls = 0
        """Functions that are being read inside each other."""
        self.dead = False
        """The branch that is read would not run as far as is known: it changes no value."""
        self.visited: set[int] = set()
        """Bodies and branches that were read."""
        self.log: list[dict[tuple[int, str], tuple[Scope, Any]]] = []
        """For each branch that is being read, what its names were before."""
        self.waiting: list[tuple[Closure, str]] = []
        """Functions that were defined, and where: those that nobody called are read at the end."""
        self.returned: list[Any] = []
        self.leaving = ""
        """`return`, `break`, `continue`, while a block is being left."""
        self.modules: set[str] = set()
        """Modules that were imported."""
        self.stars: list[str] = []
        """Modules whose names were all imported."""
        self.files: dict[str, str] = {}
        """Contents of files that were written, by absolute path."""
        self.changes: dict[str, list[tuple[str, str]]] = {}
        """What was put in the place of words of a file that is not known otherwise, by absolute path."""
        self.reads = 0
        self.folders: list[str] = []
        """Folders that the program put on its search path for modules."""
        self.output: Any = None
        """Open file that what is printed goes to."""
        self.executed: set[ast.AST | None] = set()
        """Calls whose code in a string was read."""
        self.guards: list[str] = []
        """What tells that a test is looking, in the conditions around what is being read."""
        self.computes: dict[ast.AST, bool] = {}
        """Comprehensions that were read, and whether they do nothing but compute."""
        self.options: dict[str, Any] = {}
        """Texts and paths that options of the command line have if nobody gives others, by the attribute."""
        self.saved: dict[str, str] = {}
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
        if not self.dead:
            variables = self._own_scene().variables
            assert isinstance(variables, dict)
            variables[name] = value

    def set_link(self, place: str, to: str) -> None:
        """Make a link."""
        if not self.dead and len(self.scene.links) < MOST_LINKS:
            links = self._own_scene().links
            assert isinstance(links, dict)
            links[place] = to

    def _own_scene(self) -> Scene:
        """Return the scene with links and variables that the program may change."""
        if not self.is_apart:
            self.scene, self.is_apart = self.scene.apart(), True
        return self.scene

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
