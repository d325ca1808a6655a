"""The shell's state as far as it is known: variables, directory, functions, links, files; branches are undone and joined."""

from __future__ import annotations

from typing import Any, Final

from rosellm.roserlhf.guard.shell.value import ANYTHING, Value, one_of

Key = tuple[str, str]

LASTING: Final = frozenset(["link", "file", "gone"])
"""What a subshell leaves behind: the file system; everything else is the shell's own."""
_COUNTED: Final = frozenset(["link", "file", "function", "alias"])
_MISSING: Final = object()


class State:
    """A table of what is known, with a journal, so that a branch costs what it changes.

    Spaces: `var` (`Value`), `array` (list of `Value`), `function`, `alias`, `cwd`, `args`, `link`, `file`, `descriptor`.
    """

    __slots__ = ("_journal", "files", "known", "links", "renames")

    def __init__(self, known: dict[Key, Any] | None = None) -> None:
        self.known = known if known is not None else {}
        """What is known now, to be read only."""
        self._journal: list[tuple[Key, Any]] = []
        self.links = 0
        """Grows with every change of the links that are known."""
        self.renames = False
        """Whether a function or an alias was ever known."""
        self.files = False
        """Whether anything was ever known of a file's content."""

    def get(self, space: str, name: str, default: Any = None) -> Any:
        """Return what is known, or the default."""
        return self.known.get((space, name), default)

    def set(self, space: str, name: str, value: Any) -> None:
        """Note what is known now."""
        key = (space, name)
        if space in _COUNTED:
            if space == "link":
                self.links += 1
            elif space == "file":
                self.files = True
            else:
                self.renames = True
        self._journal.append((key, self.known.get(key, _MISSING)))
        self.known[key] = value

    def drop(self, space: str, name: str) -> None:
        """Forget."""
        key = (space, name)
        if key in self.known:
            self.links += space == "link"
            self._journal.append((key, self.known.pop(key)))

    def names(self, space: str) -> list[str]:
        """Return the names known in a space."""
        return [name for where, name in self.known if where == space]

    def table(self, *spaces: str) -> list[dict[str, Any]]:
        """Return what is known in each of these spaces, by name."""
        found: dict[str, dict[str, Any]] = {space: {} for space in spaces}
        for (space, name), value in self.known.items():
            if space in found:
                found[space][name] = value
        return list(found.values())

    def mark(self) -> int:
        """Return the present point of the journal."""
        return len(self._journal)

    def back(self, mark: int, *, keep: frozenset[str] = frozenset()) -> dict[Key, Any]:
        """Undo what was done since a mark, but in the spaces `keep`; return what was undone: the values before undoing."""
        if len(self._journal) <= mark:
            return {}
        undone: dict[Key, Any] = {}
        kept: list[tuple[Key, Any]] = []
        for key, before in reversed(self._journal[mark:]):
            if key[0] in keep:
                kept.append((key, before))
                continue
            self.links += key[0] == "link"
            undone.setdefault(key, self.known.get(key, _MISSING))
            if before is _MISSING:
                self.known.pop(key, None)
            else:
                self.known[key] = before
        self._journal[mark:] = reversed(kept)
        return undone

    def join(self, branches: list[dict[Key, Any]]) -> None:
        """Go on after branches of which one was taken: what differs has alternatives."""
        for key in dict.fromkeys(key for branch in branches for key in branch):
            here = self.known.get(key, _MISSING)
            found = [value for value in (branch.get(key, here) for branch in branches) if value is not _MISSING]
            if found:
                self.set(*key, _either(key[0], found))

    def variable(self, name: str) -> Value:
        """Return a variable's value; an array gives its first element."""
        found = self.get("var", name)
        if found is not None:
            return found  # type: ignore[no-any-return]
        array = self.get("array", name)
        return array[0] if array else ANYTHING


def _either(space: str, found: list[Any]) -> Any:
    if space in ("var", "cwd"):
        return one_of(text for value in found for text in value)
    return max(found, key=len) if space == "array" else found[-1]
