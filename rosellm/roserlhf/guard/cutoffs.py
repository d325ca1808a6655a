"""Days after which nothing may be known: `task -> cutoff`, and whether a search or a request asks for what lies behind it."""

from __future__ import annotations

from datetime import date
from functools import lru_cache

from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.patterns import pattern

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = (
    r"(jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?"
    r"|dec(?:ember)?)\.?"
)
_DATE = (
    r"\b(\d{4})[-/](\d{1,2})(?:[-/](\d{1,2}))?\b"
    rf"|\b(\d{{1,2}})(?:st|nd|rd|th)? (?:of )?{_MONTH},? (\d{{4}})\b"
    rf"|\b{_MONTH} (?:(\d{{1,2}})(?:st|nd|rd|th)?,? )?(\d{{4}})\b"
)
_KNOWN = (
    r"(?:observ\w+|us(?:e|ed|ing)|know\w*|data|news|information|figures?|values?|weather|prices?|published|learn\w*|look\w*|measured|"
    r"recorded|reported)"
)
_CLOSES = (
    rf"(?:\b(?:no|nothing|none|not|never|neither|nor|n't)\b[^.;]{{0,60}}\b{_KNOWN}\b[^.;]{{0,60}}"
    rf"\b(?:after|later than|past|beyond|since|newer than)\b"
    rf"|\b(?:only|nothing but|just)\b[^.;]{{0,60}}\b{_KNOWN}\b[^.;]{{0,60}}\b(?:up to|until|till|before)\b"
    rf"|\bnothing (?:from )?(?:after|later than|past|beyond)\b"
    rf"|\b{_KNOWN}\b[^.;]{{0,40}}\b(?:after|later than|past|beyond)\b[^.;]{{0,60}}\b(?:forbidden|off[- ]limits"
    rf"|not|never|closed|n't)\b)"
)
"""What lies behind a day is refused, or only what lies before it is open."""
_CALLED = r"\bcut-?off\b|\bas[- ]of date\b|\bforecast origin\b|\binformation date\b"
_ENDS = r"[?&]\w*(?:end|to|until|till|stop|last|date|day|month|period|before)\w*=([^&\s]+)"
"""Parameters of a request that say up to when."""
_FORESEEN = (
    r"\b(?:calendars?|holidays?|school (?:terms?|breaks?)|vacations?|feiertage?|ferien|daylight|sunrise|sunset|dst|leap|schedules?"
    r"|scheduled|fixtures?|planned|how (?:to|do|does))\b"
)
"""What is known beforehand."""


@lru_cache(maxsize=256)
def cutoff_of(task: str) -> date | None:
    """Return the last day of which a task lets something be known; None if it names none.

    Example:
        >>> cutoff_of("Data end at the cutoff, 30 June 2023. Nothing observed after the cutoff may be used.")
        datetime.date(2023, 6, 30)
        >>> cutoff_of("Forecast sales from 1 July 2023.")
    """
    small = task.lower()
    if pattern(_CLOSES).search(small) is None:
        return None
    days = []
    for sentence in pattern(r"[.;](?:\s|$)|\n").split(small):
        if pattern(_CALLED).search(sentence) or pattern(_CLOSES + r"[^.;]{0,24}\d{4}").search(sentence):
            days += [last for _, last in _days(sentence)]
    return min(days, default=None)


def asks_beyond(act: Act, task: str) -> bool:
    """Tell whether a search or a request asks for what was observed after the day at which a task closes the world.

    Example:
        >>> task = "Cutoff: 2023-06-30. Nothing from after the cutoff may be used."
        >>> [asks_beyond(Act("search", words), task) for words in ("rail traffic August 2023", "rail traffic May 2023")]
        [True, False]
        >>> asks_beyond(Act("fetch", "https://a.example/v1?start=2020-01-01&end=2023-07-31"), task)
        True
    """
    small = act.target[:2_000].lower().replace("+", " ").replace("%20", " ")
    if pattern(r"\d{4}").search(small) is None:
        return False
    last = cutoff_of(task)
    if last is None or pattern(_FORESEEN).search(small):
        return False
    asked = " ".join(pattern(_ENDS).findall(small)) if act.kind == "fetch" else small
    return any(first > last for first, _ in _days(asked))


def _days(words: str) -> list[tuple[date, date]]:
    """Return the first and the last day of each date in small letters; a month alone has both."""
    found = []
    for match in pattern(_DATE).finditer(words):
        year, month, day, day_before, name, its_year, other, day_behind, other_year = match.groups()
        name = name or other
        number = _MONTHS.index(name[:3]) + 1 if name else int(month)
        whole = int(year or its_year or other_year)
        given = day or day_before or day_behind
        try:
            first = date(whole, number, int(given or 1))
            found.append((first, first if given else _end_of(whole, number)))
        except ValueError:
            continue
    return found


def _end_of(year: int, month: int) -> date:
    return date.fromordinal(date(year + month // 12, month % 12 + 1, 1).toordinal() - 1)
