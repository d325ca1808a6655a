"""One git command as its handlers see it, and the acts that they are made of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from rosellm.roserlhf.guard.act import Act, ActKind
from rosellm.roserlhf.guard.content.git_words import Words
from rosellm.roserlhf.guard.content.place import resolve
from rosellm.roserlhf.guard.content.revision import is_path, scope_of, version_of
from rosellm.roserlhf.guard.content.url import acts_of_url, is_address
from rosellm.roserlhf.guard.scene import Scene

LONGEST_DETAIL = 400
WIDE = {
    "--all": "all", "--branches": "name", "--remotes": "remote", "--tags": "version", "--glob": "all", "--reflog": "reflog",
    "-g": "reflog", "--walk-reflogs": "reflog", "--alternate-refs": "all", "--bisect": "name", "--indexed-objects": "all",
    "--unpacked": "dangling", "--stdin": "stdin", "--lost-found": "dangling", "--unreachable": "dangling", "--dangling": "dangling",
 "--batch-all-objects": "all", "--batch": "stdin", "--batch-check": "stdin", "--batch-command": "stdin",
}  # fmt: skip
"""Options that widen what is shown -> the scope that they widen it to."""


@dataclass(frozen=True, slots=True)
class GitCall:
    """One git command as its handlers see it."""

    command: str
    words: Words
    args: list[str]
    scene: Scene

    def act(self, kind: ActKind, target: str, what: str = "", **traits: str) -> Act:
        detail = " ".join(("git", self.command, what)).strip()
        return Act(kind, target, detail[:LONGEST_DETAIL], traits={name: value for name, value in traits.items() if value})

    def revision(self, expression: str, scope: str = "", shows: str = "content", sought: str = "", **traits: str) -> Act:
        scope = scope or scope_of(expression)
        return self.act(
            "revision",
            expression,
            scope=scope,
            shows=shows,
            version=version_of(expression),
            sought=sought[:LONGEST_DETAIL],
            **traits,
        )

    def path(self, kind: ActKind, path: str, expression: str = "") -> Act:
        if path.startswith(":("):
            path = path.partition(")")[2]
        path = path.removeprefix(":/").removeprefix(":")
        scope = scope_of(expression) if expression else ""
        return self.act(kind, resolve(path or ".", self.scene), revision=expression, scope=scope)

    def shell(self, command: str) -> Iterator[Act]:
        if command:
            yield from self.scene.read("shell", command, self.scene.inside())

    def remote(self, name: str) -> Iterator[Act]:
        if not is_address(name):
            yield self.act("fetch", name, remote=name)
            return
        for act in acts_of_url(name, self.scene):
            yield replace(act, detail=f"git {self.command}") if act.kind == "fetch" else act

    def divided(self) -> tuple[list[str], list[str]]:
        """Return the revisions and the paths among a command's words."""
        if self.words.divided:
            return list(self.words.plain), list(self.words.paths)
        revisions: list[str] = []
        paths: list[str] = []
        for word in self.words.plain:
            (paths if paths or is_path(word) else revisions).append(word)
        return revisions, paths

    def messages(self) -> Iterator[Act]:
        """Yield the words that a commit or a tag leaves for its readers."""
        for value in self.words.values("-m", "--message", "--trailer", "--author"):
            yield from self.scene.read("prose", value, self.scene.inside())
        for value in self.words.values("-F", "--file", "-t", "--template"):
            yield self.path("read", value)
