"""Acts as rules see them: paths without look-alike letters, whoever read them; and the words of a call without disguise."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.hidden_text import shown

LONGEST = 40_000
"""Characters of a call's words without disguise that a judge may look at."""
_PATHS = frozenset(("read", "list", "write", "delete", "link", "run", "import", "process", "install"))
_TRAITS = ("from",)


def plain(act: Act) -> Act:
    """Fold letters that pass for others, and leave out those that nobody sees, in the path of an act.

    Example:
        >>> plain(Act("read", "/\u0435val/te\u200bst.py")).target
        '/eval/test.py'
    """
    if act.kind not in _PATHS:
        return act
    if not act.target.isascii():
        act = replace(act, target=shown(act.target).text)
    if act.kind == "link" and not act.detail.isascii():
        act = replace(act, detail=shown(act.detail).text)
    for name in _TRAITS:
        if name in act.traits and not act.traits[name].isascii():
            act = replace(act, traits={**act.traits, name: shown(act.traits[name]).text})
    return act


def undisguised(acts: Iterable[Act], said: str) -> str:
    """Return what a call says once it is decoded, folded and expanded, as far as its own text does not say it in as many words.

    Args:
        acts: of the call; those that decode carry the whole of it as their trait `text`.
        said: the call's own text.
    """
    found: dict[str, None] = {}
    left = LONGEST
    for act in acts:
        if act.kind == "decode":
            words = act.traits.get("text", act.target)
        elif act.kind == "run":
            words = f"{act.target} {act.detail}".strip()
        elif act.kind == "write":
            words = act.traits.get("content", "")
        else:
            continue
        words = words.strip()
        if words and words not in found and words not in said:
            found[words] = None
            left -= len(words)
            if left <= 0:
                break
    return "\n".join(found)[:LONGEST]
