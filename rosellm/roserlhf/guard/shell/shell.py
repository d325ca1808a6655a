"""A shell that only reads: its state, where it stands in the text, and the acts found so far."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from rosellm.roserlhf.guard.act import UNKNOWN, Act, ActKind
from rosellm.roserlhf.guard.scene import DEEPEST, Scene
from rosellm.roserlhf.guard.shell.path import absolute, unlinked
from rosellm.roserlhf.guard.shell.state import LASTING, State
from rosellm.roserlhf.guard.shell.syntax import Source, parse
from rosellm.roserlhf.guard.shell.value import ANYTHING, BLANKS, NOTHING, Value, mapped, one_of

if TYPE_CHECKING:
    from tree_sitter import Node

_LONGEST_DECODED: Final = 20_000
_EVIDENCE: Final = 200
"""Characters of a text that an act keeps."""
_ARGUMENTS: Final = 600
"""Characters of a program's arguments that its act keeps."""
_CALLS: Final = 24
"""Functions, loops and codes within each other that are followed."""
_STEPS: Final = 3_000
"""Commands that are read again (loops, functions, alternatives) at most, beside those that the text itself holds."""
_CWD: Final = ("cwd", "")
_IFS: Final = ("var", "IFS")
_OWN: Final = frozenset(["IFS", "PWD"])
"""Variables that code of another language does not take over."""
Run = Callable[["Shell", "Node"], Value]


class Shell:
    """State of reading one command.

    Attributes:
        stdin: what the command that is read now gets on its standard input; None: nothing is known to be connected.
        linked: whether any link is known.
        beside: whether what is read now was put into the background.
        endings: code of traps that runs when the command ends.
        program: name of the program that is read now, for the acts of its redirections.
    """

    def __init__(self, scene: Scene, run: Run) -> None:
        self.scene = scene
        known = {("var", "HOME"): (scene.home,)}
        for name, value in scene.variables.items():
            known["var", name] = (value,)
        known["var", "PWD"] = known[_CWD] = (scene.workdir,)
        known["var", "IFS"] = (BLANKS,)
        self.state = State(known)
        self.acts: list[Act] = []
        self.argument = scene.argument
        self.via: tuple[str, ...] = ("shell",)
        self.stdin: Value | None = None
        self.program = ""
        self.span = (0, 0)
        self.source: Source
        self.steps = _STEPS
        self.depth = 0
        self.decoded: dict[str, str] = {}
        self.traits: dict[str, str] = {}
        self.linked = bool(scene.links)
        self._resolved: dict[tuple[str, Value, int], Value] = {}
        self._run = run
        self._calls = 0
        self.endings: list[str] = []
        self.beside = False

    # --- acts

    def disguise_of(self, text: str) -> tuple[str, ...]:
        """Return by which encoding a text was hidden that is read as code now."""
        return next(((how,) for payload, how in self.decoded.items() if payload.strip() in text), ())

    def act(self, kind: ActKind, target: str, detail: str = "", **traits: str) -> None:
        """Note an act of the command that is read now."""
        found = {**self.traits, **traits} if self.traits else traits
        self.acts.append(Act(kind, target, detail, self.argument, self.span, self.via, found))

    def note_program(self, argv: list[str], **traits: str) -> None:
        """Note that a program is started."""
        if self.stdin is not None:
            traits["stdin"] = "yes"
        if self.traits:
            traits = {**self.traits, **traits}
        said = " ".join(argv[1:])
        if len(said) > _ARGUMENTS:
            said = shortened(said, _ARGUMENTS)
        self.acts.append(Act("run", argv[0], said, self.argument, self.span, self.via, traits))

    def note_decoded(self, how: str, text: str) -> None:
        """Note a payload that was hidden by an encoding."""
        if text.strip() and len(self.decoded) < 64 and text not in self.decoded:
            self.decoded[text] = how
            self.act("decode", shortened(text), how, text=text[:_LONGEST_DECODED])

    def note_run(self, code: str) -> None:
        """Note of payloads that were hidden that they are read as code now: their acts say what they do."""
        if not self.decoded:
            return
        for at, act in enumerate(self.acts):
            if act.kind == "decode" and "runs" not in act.traits and (text := act.traits.get("text", "").strip()) and text in code:
                self.acts[at] = replace(act, traits={**act.traits, "runs": "yes"})

    def at(self, node: Node) -> None:
        """Say which part of the text is read now."""
        self.span = self.source.where(node.start_byte, node.end_byte)

    # --- places

    @property
    def cwd(self) -> Value:
        """The directory, or what it may be."""
        return self.state.known[_CWD]  # type: ignore[no-any-return]

    @property
    def separators(self) -> str:
        """What words are split at where they are expanded."""
        found: Value | None = self.state.known.get(_IFS)
        return BLANKS if found is None or UNKNOWN in found[0] else found[0]

    def link(self, path: str) -> str | None:
        """Return what a known link points to."""
        found = self.state.get("link", path)
        return found if found is not None else self.scene.links.get(path)

    def path(self, text: str) -> str:
        """Resolve a path; in a directory that may be several, the first."""
        cwd = self.state.known[_CWD][0]
        return absolute(text, cwd, self.link) if self.linked else unlinked(text, cwd)

    def paths(self, text: str) -> Value:
        """Resolve a path from every directory that this may be."""
        cwd = self.state.known[_CWD]
        if not self.linked and len(cwd) == 1:
            return (unlinked(text, cwd[0]),)
        key = (text, cwd, self.state.links)
        if key not in self._resolved:
            self._resolved[key] = mapped(lambda one: absolute(text, one, self.link), cwd)
        return self._resolved[key]

    def follow(self, link: str, target: str) -> None:
        """Note a link that is followed from now on."""
        self.state.set("link", link, target)
        self.linked = True

    def forget(self, path: str) -> None:
        """Note that a path is gone."""
        for space in ("link", "file", "directory"):
            self.state.drop(space, path)

    def path_itself(self, text: str) -> str:
        """Resolve a path, but for a link at its end."""
        return absolute(text, self.cwd[0], self.link, itself=True)

    def paths_themselves(self, text: str) -> Value:
        """Resolve a path from every directory that this may be, but for a link at its end."""
        return mapped(lambda cwd: absolute(text, cwd, self.link, itself=True), self.cwd)

    def file(self, path: str) -> str | None:
        """Return the content of a file that was written before, if it is known."""
        found: str | None = self.state.known.get(("file", path))
        return found if found is not None else self.scene.files.get(path)

    # --- code within code

    def run(self, node: Node) -> Value:
        """Read a statement; return what it prints."""
        return self._run(self, node)

    def again(self) -> bool:
        """Take a step of those for what is read more than once; False when none is left."""
        self.steps -= 1
        return self.steps > 0

    def call(self, source: Source, node: Node) -> Value:
        """Read a statement of another text: the body of a function, of evaluated text."""
        if self._calls >= _CALLS or not self.again():
            self.act("opaque", "called too deeply or too often")
            return ANYTHING
        before, self.source = self.source, source
        self._calls += 1
        try:
            return self.run(node)
        finally:
            self.source = before
            self._calls -= 1

    def evaluate(self, code: str, *disguise: str, new: bool = False) -> Value:
        """Read text as shell code, here (`eval`, `source`) or in a `new` shell; return what it prints."""
        if UNKNOWN in code and not code.replace(UNKNOWN, "").strip():
            self.act("opaque", "shell code that is not known")
            return ANYTHING
        source = parse(code, self.span) if self.depth + self.scene.depth < DEEPEST else None
        if source is None:
            self.act("opaque", "shell code nested too deeply")
            return ANYTHING
        via, self.via = self.via, (*self.via, *disguise, "shell")
        self.note_run(code)
        self.depth += 1
        mark = self.state.mark() if new else 0
        try:
            return self.call(source, source.root)
        finally:
            self.depth -= 1
            self.via = via
            if new:
                self.leave(mark)

    def leave(self, mark: int) -> None:
        """Leave a subshell: only what it did to files stays."""
        self.state.back(mark, keep=LASTING)

    def read(self, language: str, code: str, *disguise: str, **traits: str) -> list[Act]:
        """Hand code of another language to its reader; its acts are noted and returned."""
        if UNKNOWN in code and not code.replace(UNKNOWN, "").strip():
            self.act("opaque", f"{language} code that is not known")
            return []
        if self.depth + self.scene.depth >= DEEPEST:
            self.act("opaque", f"{language} code nested too deeply")
            return []
        self.note_run(code)
        via = (*self.via, *disguise)
        given = {**self.traits, **traits}
        found = [
            Act(
                act.kind,
                act.target,
                act.detail,
                self.argument,
                self.span,
                (*via, *act.via),
                {**act.traits, **given} if given else act.traits,
            )
            for act in self.scene.read(language, code, self.inner())
        ]
        self.acts += found
        return found

    def inner(self) -> Scene:
        """Return the scene of code of another language that is run here."""
        scene = self.scene
        state = self.state
        known = state.known
        variables = {
            name: value[0]
            for (space, name), value in known.items()
            if space == "var" and name not in _OWN and UNKNOWN not in value[0]
        }
        links, files = scene.links, scene.files
        if state.links:
            links = {**links, **{name: value for (space, name), value in known.items() if space == "link"}}
        if state.files:
            files = {**files, **{name: value for (space, name), value in known.items() if space == "file" and value is not None}}
        return Scene(
            known[_CWD][0],
            scene.read,
            scene.home,
            variables,
            links,
            files,
            scene.copies,
            scene.names,
            scene.depth + self.depth + 1,
        )

    def lines_of(self, value: Value | None) -> list[str]:
        """Return the lines of a text that may be one of several."""
        return [line for text in value or NOTHING for line in text.split("\n") if line]

    def words_of(self, value: Value | None) -> list[str]:
        """Return the words of a text that may be one of several."""
        return [word for text in value or NOTHING for word in text.split()]


def shortened(text: str, most: int = _EVIDENCE) -> str:
    """Cut a text to what is kept as evidence."""
    return text if len(text) <= most else text[: most - 1] + "…"


def either(values: Iterable[Value]) -> Value:
    """Return the value that is one of several values."""
    return one_of(text for value in values for text in value)
