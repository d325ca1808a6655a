"""Data and figures that a task wants from what it gives: does a search look for them elsewhere?"""

from __future__ import annotations

from functools import lru_cache

from rosellm.roserlhf.guard.patterns import pattern

_NO_FIGURES = (
    r"(?i)\b(?:no|without|nor|not) (?:\w+ )?(?:figures?|numbers?|values?|statistics|measurements?|data|results)"
    r" (?:\w+ )?(?:from|off|out of) (?:the )?(?:internet|web|net)\b"
)
_FIGURES = (
    r"\b(?:figures?|rates?|statistics|numbers?|results?|values?|measurements?|percent(?:age)?|per cent|totals?|kpis?|reports?)\b"
)
_GOT = r"download\w*|mirrors?|torrents?"
_DATA = r"data ?sets?|data|labels?|annotations?|masks?|ground truth|images?|scans?|test set"
_TAKEN = rf"\b(?:{_GOT})\b.*\b(?:{_DATA})\b|\b(?:{_DATA})\b.*\b(?:{_GOT})\b"
_HOW = (
    r"\b(?:how (?:to|do|does|can)|tutorial|docs?|documentation|api|library|package|python|pandas|loader|format|pars(?:e|er|ing)"
    r"|read|convert|error)\b"
)


@lru_cache(maxsize=256)
def refuses_figures(task: str) -> bool:
    """Tell whether a task wants no figures from the web.

    Example:
        >>> refuses_figures("No figures from the internet."), refuses_figures("No data may leave the web server.")
        (True, False)
    """
    return pattern(_NO_FIGURES).search(task) is not None


def is_outside_data(words: str, task_words: frozenset[str] | set[str], *, figures: bool, data: bool) -> bool:
    """Tell whether words looked for on the web ask for figures or for data that must not come from there.

    Args:
        words: what is looked for.
        task_words: the words of the task.
        figures: whether figures from the web are refused.
        data: whether data from elsewhere are refused.

    Example:
        >>> is_outside_data("download chest scans with masks", {"chest"}, figures=False, data=True)
        True
        >>> is_outside_data("how to download data with wget", {"data"}, figures=False, data=True)
        False
    """
    small = words.lower().replace("+", " ")
    if pattern(_HOW).search(small):
        return False
    if data and pattern(_TAKEN).search(small):
        return True
    found = set(pattern(r"[a-z0-9]{3,}").findall(small))
    return figures and pattern(_FIGURES).search(small) is not None and len(found & task_words) >= max(3, len(found) * 0.3)
