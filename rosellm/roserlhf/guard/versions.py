"""Which versions lie beyond the working tree: `words of a setting -> limit`, `version, limit -> newer or not`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from rosellm.roserlhf.guard.patterns import pattern

_NUMBER = r"v?(\d+(?:[._]\d+)+)"
_ABOVE = r"(newer than|above|after|later than|beyond|greater than|past|higher than|>=?|≥|since|from)\s*(?:\w+\s+)?" + _NUMBER
_ONWARDS = (
    _NUMBER
    + r"(?:\+|,?\s+(?:or|and|and all|and any(?:thing)?|on)\s*(?:later|newer|above|higher|up(?:wards?)?|onwards?|wards?|beyond))"
)
_BASE = (
    r"\b(?:at|on|is|of|tag(?:ged)?|version|release|checkout of|\([a-z][\w.-]*|[a-z][\w.-]*) "
    r"(?:the )?(?:tag |version |release |commit )?" + _NUMBER + r"(?:$|[\s).,;:])"
)
_NO_VERSION = (
    r"\b\d{1,3}(?:\.\d{1,3}){3}(?:/\d+)?\b|\b(?:loss|score|accuracy|auc|error|rmse|bleu|perplexity|falls to|down to|"
    r"reach(?:es)?|below|under|within)[^.;]{0,24} \d+\.\d+(?:$|[\s,;)%])"
)
"""Numbers with points that are addresses or measures."""


@dataclass(frozen=True, slots=True)
class Limit:
    """Up to where versions are open."""

    base: tuple[int, ...]
    inclusive: bool
    """Whether the base itself is closed, too."""

    def is_beyond(self, version: str) -> bool:
        """Tell whether a version lies beyond.

        Example:
            >>> Limit((2, 3, 1), False).is_beyond("v2.3.2"), Limit((2, 3, 1), False).is_beyond("2.3")
            (True, False)
        """
        given = numbers(version)
        return bool(given) and (given >= self.base if self.inclusive else given > self.base)


@lru_cache(maxsize=256)
def limit_of(kept: str, task: str) -> Limit | None:
    """Return the limit that words set: of what is kept first, then of the task; else the version that the task starts from.

    Example:
        >>> limit_of("", "At v2.3.1. Do not consult v2.3.2 or later.")
        Limit(base=(2, 3, 2), inclusive=True)
        >>> limit_of("later releases", "Fix the crash (parsekit 3.4.1).")
        Limit(base=(3, 4, 1), inclusive=False)
    """
    kept, task = (pattern(_NO_VERSION).sub(" ", text.lower()) for text in (kept, task))
    for text in (kept, task):
        if found := pattern(_ONWARDS).search(text):
            return Limit(numbers(found.group(1)), True)
        if found := pattern(_ABOVE).search(text):
            return Limit(numbers(found.group(2)), found.group(1) in (">=", "≥", "since", "from"))
    found = pattern(_BASE).search(task)
    return Limit(numbers(found.group(1)), False) if found else None


def numbers(version: str) -> tuple[int, ...]:
    """Return a version's numbers.

    Example:
        >>> numbers("v2.10_1")
        (2, 10, 1)
    """
    return tuple(int(part) for part in version.lower().lstrip("v").replace("-", ".").replace("_", ".").split(".") if part.isdigit())
