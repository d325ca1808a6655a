"""Acts as rules see them: paths without look-alike letters, whoever read them; and the words of a call without disguise."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from operator import attrgetter
from typing import Any

from rosellm.roserlhf.guard.act import UNKNOWN, Act
from rosellm.roserlhf.guard.hidden_text import shown

LONGEST = 40_000
"""Characters of a call's words without disguise that a judge may look at."""
_SHOWN = 400
"""Characters of a program's arguments that its act surely keeps."""
_BEGINNINGS = (6, 12)
"""Characters of words that are looked for before all of them."""
_NEAR = 200
_SAYING = frozenset(("decode", "run", "write"))
"""Kinds of acts that hold words of the call."""
_PATHS = frozenset(("read", "list", "write", "delete", "link", "run", "import", "process", "install"))


def plain(acts: Sequence[Act]) -> Sequence[Act]:
    """Fold letters that pass for others, and leave out those that nobody sees, in the paths of acts.

    Example:
        >>> plain([Act("read", "/\u0435val/te\u200bst.py")])[0].target
        '/eval/test.py'
    """
    traits = chain.from_iterable(map(_traits, acts))
    if "link" not in map(_kind, acts) and "from" not in traits and "".join(map(_target, acts)).isascii():
        return acts  # as nearly always
    return [_plain(act) if not act.target.isascii() or act.kind == "link" or "from" in act.traits else act for act in acts]


_kind, _target, _traits = map(attrgetter, ("kind", "target", "traits"))


def _plain(act: Act) -> Act:
    if act.kind not in _PATHS:
        return act
    if not act.target.isascii() and not act.target.replace(UNKNOWN, "").isascii():
        act = replace(act, target=shown(act.target).text)
    if act.kind == "link" and not act.detail.isascii():
        act = replace(act, detail=shown(act.detail).text)
    if "from" in act.traits and not act.traits["from"].isascii():
        act = replace(act, traits={**act.traits, "from": shown(act.traits["from"]).text})
    return act


def weighed_by_effect(acts: dict[tuple[Any, ...], Act]) -> dict[tuple[Any, ...], Act]:
    """Give payloads that a program is seen to run the trait `runs`: what they do is among the acts."""
    for act in acts.values():
        if act.kind == "decode":
            break
    else:
        return acts
    run = [f"{act.target} {act.detail}" for act in acts.values() if act.kind == "run"]
    return {
        key: replace(act, traits={**act.traits, "runs": "yes"}) if act.kind == "decode" and _is_run(act, run) else act
        for key, act in acts.items()
    }


def _is_run(act: Act, run: list[str]) -> bool:
    words = act.traits.get("text", act.target).strip()[:_SHOWN]
    return " " in words and any(words in one for one in run)


def undisguised(acts: Iterable[Act], said: str) -> str:
    """Return what a call says once it is decoded, folded and expanded, as far as its own text does not say it in as many words.

    Args:
        acts: of the call; those that decode carry the whole of it as their trait `text`.
        said: the call's own text.
    """
    found: dict[str, None] = {}
    stands: dict[str, bool] = {}  # whether a beginning is said at all; long calls hold many words of one beginning
    left = LONGEST
    at = 0  # where the words of the act before stand: those of the next stand behind them as a rule
    for act in acts:
        if act.kind not in _SAYING:
            continue
        if act.kind == "run":
            words = f"{act.target} {act.detail}".strip()
        elif act.kind == "decode":
            words = act.traits.get("text", act.target).strip()
        elif "content" in act.traits:
            words = act.traits["content"].strip()
        else:
            continue
        if not words or words in found:
            continue
        place = said.find(words, at, at + len(words) + _NEAR)
        if place < 0 and _begins(words, said, stands):
            place = said.find(words, at)
            if place < 0:
                place = said.find(words, 0, at + len(words))
        if place >= 0:
            at = place
        else:
            found[words] = None
            left -= len(words)
            if left <= 0:
                break
    return "\n".join(found)[:LONGEST]


def _begins(words: str, said: str, stands: dict[str, bool]) -> bool:
    """Tell whether a text holds the beginning of some words; `stands` remembers."""
    for size in _BEGINNINGS:
        beginning = words[:size]
        if beginning not in stands:
            stands[beginning] = beginning in said
        if not stands[beginning]:
            return False
    return True
