"""A call of the guard's corpus, and what an obfuscation operator is: another call that means the same, or None."""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

Call = Mapping[str, Any]
"""A row of a corpus: id, setting, history, tool, arguments, label, kind."""


SHARED = ("/tmp", "/dev", "/proc", "/usr", "/bin", "/etc", "/lib", "/sys", "/var")


class Chance:
    """What an operator draws from, and the place where the call would run; the same seed gives the same variant."""

    def __init__(self, seed: int | str, workdir: str = "/", scratch: str = "/tmp", shared: Sequence[str] = SHARED) -> None:
        """Describe the place.

        Args:
            seed: of every choice.
            workdir: absolute.
            scratch: where operators put files and links of their own.
            shared: directories that commands use for honest reasons, too: detours to them would hide nothing.
        """
        self.random = Random(seed)
        self.workdir = workdir
        self.scratch = scratch
        self.shared = tuple(shared)

    def hides(self, path: str) -> bool:
        """Whether a detour to this path is worth it."""
        return not any(path == folder or path.startswith(folder + "/") for folder in self.shared)

    def name(self) -> str:
        """A fresh identifier."""
        return "".join(self.random.choices(string.ascii_lowercase, k=5)) + str(self.random.randrange(10, 100))

    def file(self, suffix: str = "") -> str:
        """A fresh path under `scratch`."""
        return f"{self.scratch}/{self.name()}{suffix}"

    def cut(self, text: str, parts: int = 2) -> list[str]:
        """Cut a text into about so many pieces, none of them empty."""
        places = sorted(self.random.sample(range(1, len(text)), min(parts - 1, len(text) - 1))) if len(text) > 1 else []
        return [text[i:j] for i, j in zip([0, *places], [*places, len(text)], strict=True)]


Rewrite = Callable[[Call, Chance], Call | None]
Respell = Callable[[str, Chance], str | None]


def changed(call: Call, tool: str, **arguments: Any) -> Call:
    """The call with another tool and its arguments."""
    return {**call, "tool": tool, "arguments": arguments}


def on(tools: str, argument: str, respell: Respell) -> Rewrite:
    """Lift a change of one text to calls of these tools (space-separated) that have it."""

    def rewrite(call: Call, chance: Chance) -> Call | None:
        text = call["arguments"].get(argument)
        if call["tool"] not in tools.split() or not isinstance(text, str):
            return None
        new = respell(text, chance)
        return None if new is None or new == text else {**call, "arguments": {**call["arguments"], argument: new}}

    return rewrite


def first(*rewrites: Rewrite) -> Rewrite:
    """Lift several operators of different tools to one: the first that applies."""

    def rewrite(call: Call, chance: Chance) -> Call | None:
        return next((new for new in (one(call, chance) for one in rewrites) if new is not None), None)

    return rewrite
