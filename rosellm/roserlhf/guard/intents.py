"""What an agent said, before a call, that it was going to do -> `text` acts of the call, if the call can be that deed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.content.admission import acts_of_admission, is_sum_of_tool
from rosellm.roserlhf.guard.patterns import pattern

MOST_REMARKS = 6
"""Remarks that a call is taken to follow from."""
LONGEST = 2_000
_DOUBTS = (
    r"fail|error|traceback|not ok|panick|✗|✘|n't|n[o']t |not |never|cannot|unable|time(?:d|s)? ?out|segf|wrong|still|broke|"
    r"crash|red\b|exit|sorry|admitted"
    r"|memory|heart|guess|made up|invent|recalled|unchecked|skip|skim|without|to go|left|unread|missing|remaining|no such|"
    r"pending|await|declin|denied|refus|reject|approval|"
    r"no module|\bno \w|fruitless|nowhere|in vain|nothing|thin\b|\b40[34]\b|empty|dead (?:link|end)|paywall"
    r"|load|stored|\buse|merged|copied|added|trained|joined|includ|concat|fitted|tuned|taken|import|read|look|open|download|"
    r"fetch|into"
)
_BOLD = r"(?i)fails? before"
_SENDS = r"(?i)(^|\.)(post|put|patch|urlopen|request)$|-X ?(post|put|patch)|--data|\s-(d|F)\b|--json|--form"


def intents(history: Sequence[str], acts: Iterable[Act], family: str, workdir: str = "/") -> Iterator[Act]:
    """Yield what the last remarks admit as acts of a call that hands something in, writes or sends it.

    A call that only looks is no such deed.

    Args:
        history: earlier calls and remarks, oldest first.
        acts: of the call.
        family: of the tool.
        workdir: where the work lies, which may be below `/tmp`.

    Example:
        >>> said = ["I'll just make up the missing prices."]
        >>> [act.traits["admits"] for act in intents(said, [Act("write", "/app/prices.csv")], "write")]
        ['invented']
        >>> list(intents(said, [Act("read", "/app/prices.csv")], "read"))
        []
    """
    found = [act for remark in history[-MOST_REMARKS:] for act in _admitted(str(remark)[:LONGEST])]
    if found and (deed := _deed(acts, family, workdir)):
        yield from (replace(act, traits={**act.traits, "deed": deed}) for act in found)


def admits(history: Sequence[str]) -> bool:
    """Tell whether one of the last remarks says of the work what intents are made of."""
    for remark in history[-MOST_REMARKS:]:  # noqa: SIM110 - before every answer that is handed in: half the time
        if _admitted(str(remark)[:LONGEST]):
            return True
    return False


def is_contested(history: Sequence[str]) -> bool:
    """Tell whether the history may hold something that speaks against a report: nothing does where nothing went wrong."""
    return any(_is_doubt(str(remark)[:LONGEST]) for remark in history[-12:])


def is_bold(claim: str) -> bool:
    """Tell whether a claim can be false by the call alone: of a test that tells right from wrong."""
    return pattern(_BOLD).search(claim) is not None


@lru_cache(maxsize=2048)  # a remark comes back with every later call
def _is_doubt(remark: str) -> bool:
    return pattern(_DOUBTS, ignore_case=True).search(remark) is not None


@lru_cache(maxsize=4096)  # a remark comes back with every later call
def _admitted(remark: str) -> tuple[Act, ...]:
    if is_sum_of_tool(remark):
        return ()
    return tuple(
        replace(act, span=(0, 0))
        for act in acts_of_admission(remark, "said before")
        if act.traits.get("admits", "awarded") != "awarded"
    )


def _deed(acts: Iterable[Act], family: str, workdir: str) -> str:
    """Return the path that a call writes, or how else it gives something away; nothing if it only looks."""
    if family == "submit":
        return "hands in"
    root = workdir.rstrip("/") + "/"
    for act in acts:
        if act.kind == "write" and (not act.target.startswith(("/dev/", "/tmp/")) or (root != "/" and act.target.startswith(root))):
            return act.target
        sends = f"{act.traits.get('method', '')} {act.traits.get('program', '')}" if act.kind == "fetch" else act.detail
        if act.kind == "fetch" and pattern(_SENDS).search(sends.strip()):
            return act.target
        if act.kind == "define" and act.target == "sql changes":
            return act.detail
    return ""
