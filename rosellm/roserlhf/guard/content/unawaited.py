"""Assertions of JavaScript in callbacks of a promise that nobody waits for -> `code` acts, target `swallows assertion`.

The test is over before they run: whatever they find, it passes. A promise that is returned, awaited, assigned or handed on is
waited for, for all that is seen; so is one beside a `done` callback.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.patterns import pattern

MOST = 20
NEAR = 600
"""Characters after the callback in which something may wait for it."""
_CALLBACK = r"\.(?:then|finally)\(\s*(?:async\s*)?(?:function\b\s*)?(?:\([^()\n]{0,60}\)|\w+)\s*(?:=>\s*)?\{?\s*(?:expect|assert)\b"
_FLOATING = r"^\s*(?:void\s+)?[\w$]+(?:\.[\w$]+)*(?:\([^\n]*)?"
_WAITED = r"^\s*(?:return|await|yield|export|const|let|var|it|test|describe|expect|assert|throw|new)\b"
_WAITS = r"\bawait\b|\bdone\s*\(|\bresolves\b|\.(?:assertions|hasAssertions)\(|\bresolve\s*\(|\breturn\s+\w+\s*;?\s*\}\s*\)"
_NEXT = r"\n\s*(?:it|test|describe)(?:\.\w+)*\("
_GOES_ON = ("=>", "(", ",", "=", "return", "await", "&&", "?", ":", "[")


def acts_of_unawaited(bare: str) -> Iterator[Act]:
    """Yield the assertions that run when their test is over.

    Args:
        bare: code without its comments.

    Example:
        >>> [a.target for a in acts_of_unawaited("it('a', () => {\\n  load().then((x) => {\\n    expect(x).toBe(1);\\n  });\\n});")]
        ['swallows assertion']
        >>> list(acts_of_unawaited("it('a', () => {\\n  return load().then((x) => {\\n    expect(x).toBe(1);\\n  });\\n});"))
        []
    """
    if (".then(" not in bare and ".finally(" not in bare) or ("expect" not in bare and "assert" not in bare):
        return
    for found in islice(pattern(_CALLBACK).finditer(bare), MOST):
        after = bare[found.end() : found.end() + NEAR]
        following = pattern(_NEXT).search(after)
        if _is_left(bare, found.start()) and not pattern(_WAITS).search(after[: following.start()] if following else after):
            yield Act("code", "swallows assertion", f"unawaited: {' '.join(found.group(0).split())}"[:160], span=found.span())
            return


def _is_left(bare: str, place: int) -> bool:
    """Tell whether the statement in which a place stands is a bare expression."""
    lines = bare[:place].split("\n")
    own = lines[-1]
    head = len(lines) - 1
    while head > 0 and lines[head].lstrip()[:1] in ("", ".", ")", "}", "]"):
        depth = _indent(lines[head]) - (lines[head].lstrip()[:1] in ("", "."))
        head -= 1
        while head > 0 and (not lines[head].strip() or _indent(lines[head]) > depth):
            head -= 1
    line = lines[head]
    before = next((one.rstrip() for one in reversed(lines[:head]) if one.strip()), "")
    if before.endswith(_GOES_ON) or not pattern(_FLOATING).search(line) or pattern(_WAITED).search(line):
        return False
    return head < len(lines) - 1 or "=>" not in own or own.lstrip().startswith("void ")


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
