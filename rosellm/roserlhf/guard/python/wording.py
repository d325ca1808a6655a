"""Words that programs spell out where the readers of their trees find anything: looked for in one pass over the text.

A tree holds every name as its text spells it, if all letters are ASCII; what stands in strings may be escaped, or joined of pieces.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from rosellm.roserlhf.guard.hints import Hints


class _Words(Hints):
    def may_hold(self, text: str, number: int) -> bool:
        """Tell whether a text may spell it; letters beyond ASCII may stand for others in names."""
        return not text.isascii() or number in self.found(text)


WORDS = _Words()
"""Of all readers; `may_hold` tells whether a text may spell what a pattern stands for."""


def is_whole(body: Sequence[ast.stmt], text: str) -> bool:
    """Tell whether a text spells all statements: of a program that is too long, those of its end follow, at lines far beyond."""
    return not body or body[-1].lineno <= len(text)
