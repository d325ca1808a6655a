"""What an edit looks for and what it puts there -> the words themselves, as far as a pattern spells them, and a patch of them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

_BLANK: Final = (" ", "\t")
_OLD: Final = re.compile(r"(?<!\\)(?:&|\\(?:g<)?([0-9])>?|\$&|\$(\d))")
_GROUP: Final = re.compile(r"\\\(((?:(?!\\[()]).)*+)\\\)")
_PLAIN_GROUP: Final = re.compile(r"(?<!\\)\(([^()]*+)\)")
_SIGN: Final = re.compile(r"\\([\s\S])|[\^$](?=$)|^\^|\.[*+]|\[\^?[^\]]*\][*+?]?")


def patch_of(path: str, edits: Iterable[tuple[str, str]], inside: str = "") -> str:
    """Return replacements in a file, as pairs of what goes and what comes, as a patch of it.

    Args:
        path: the file.
        edits: what goes and what comes.
        inside: line of a definition that what is indented is taken to stand in.

    Example:
        >>> patch_of("/app/a.py", [("x = 1", "x = 2")]).splitlines()
        ['--- /app/a.py', '+++ /app/a.py', '@@ -1 +1 @@', '-x = 1', '+x = 2']
    """
    hunks = "".join(
        f"@@ -1 +1 @@{inside if new[:1] in _BLANK else ''}\n{_signed('-', old)}{_signed('+', new)}" for old, new in edits
    )
    return f"--- {path}\n+++ {path}\n{hunks}"


def _signed(sign: str, text: str) -> str:
    return "".join(f"{sign}{line}\n" for line in text.split("\n")) if text else ""


def filled(new: str, old: str) -> str:
    """Put what was found into what comes: all of it, or what stands in its brackets."""
    groups = _GROUP.findall(old) or _PLAIN_GROUP.findall(old)

    def fill(found: re.Match[str]) -> str:
        number = int(found[1] or found[2] or 0)
        return spelled(groups[number - 1] if 0 < number <= len(groups) else old)

    return _OLD.sub(fill, new)


def spelled(old: str) -> str:
    """Return the words that a regular expression looks for, its signs left out."""
    return _SIGN.sub(lambda found: letter(found[1]) if found[1] else "", old)


def letter(letter: str) -> str:
    """Return what a letter means after a backslash."""
    return {"n": "\n", "t": "\t", "b": "", "s": " ", "(": "(", ")": ")"}.get(letter, "" if letter.isdigit() else letter)
