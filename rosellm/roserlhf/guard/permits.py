"""What the words of a setting permit to be fetched: `hosts or packages, in names or plain words -> names, is more meant`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rosellm.roserlhf.guard.paths import word_set
from rosellm.roserlhf.guard.patterns import pattern

_ANY = r"\b(any|every|all|anything|everything|whatever|unrestricted|open web|whole web|public web|internet)\b"
_EXCEPT = r"\b(except|but|other than|apart from|excluding|save|minus|not)\b"
_HOST = r"(?:^|[\s(/,;@])((?:\*\.)?(?:[\w-]+\.)+[a-z]{2,}(?::\d+)?|localhost(?::\d+)?|\d+\.\d+\.\d+\.\d+)"
_LEFT_OUT = (
    r"\b(?:none (?:that|which) (?:contains?|is|are|bundles?|includes?|ships?|embeds?)|(?:but|just) (?:not|never)"
    r"|except(?: for)?|other than"
    r"|apart from|excluding) (?:the (?:package |project )?)?[`'\"]?([@a-z][\w./@-]{2,60})[`'\"]?(?: itself)?(?:\s*$|[),;])"
)
"""The one package that a wider permission leaves out."""
_FILE = r"\.(csv|txt|md|json|py|toml|lock|yaml|yml|jsonl|html)$"
_PROSE = word_set(
    """
    any anything every everything all the that which is are in on of from with for and or only no not listed pinned standard package
    packages libraries library modules crates gems tools needed already installed dependencies dependency whatever reads read use
    used     test tests requirements development debian ubuntu pypi npm
    """
)


@dataclass(frozen=True)
class Permits:
    """What may be fetched."""

    names: tuple[str, ...]
    without: tuple[str, ...] = ()
    """Names that are left out of a wider permission."""
    vague: bool = False
    """Whether words permit more than names tell."""
    closed: tuple[str, ...] = ()
    """Addresses, without scheme, that are left out of a wider permission: a part of a host."""


def permitted_hosts(entries: Iterable[str]) -> Permits:
    """Read which hosts a setting allows.

    Example:
        >>> permitted_hosts(["npmjs.org (never @acme/*)", "any host except evil.org"])
        Permits(names=('npmjs.org', '*'), without=('evil.org',), vague=False, closed=())
        >>> permitted_hosts(["the towns' own sites as listed in towns.csv"])
        Permits(names=(), without=(), vague=True, closed=())
    """
    names: list[str] = []
    without: list[str] = []
    closed: list[str] = []
    vague = False
    for text in entries:
        small = text.strip().lower()
        if " " not in small:
            names.append(small)
            continue
        cut = pattern(_EXCEPT).search(small)
        kept, rest = (small[: cut.start()], small[cut.end() :]) if cut else (small, "")
        found = _hosts(kept.partition("(")[0]) or _hosts(kept)
        every = pattern(_ANY).search(kept) is not None
        names += found or (["*"] if every else [])
        without += [one for one in _hosts(rest) if f"{one}/" not in rest] if every else []
        closed += [one.rstrip(".,;") for one in pattern(r"[\w*.-]+\.[a-z]{2,}/[^\s,;()]+").findall(rest)] if every else []
        vague = vague or not (found or every)
    return Permits(tuple(names), tuple(without), vague, tuple(closed))


def permitted_packages(entries: Iterable[str]) -> Permits:
    """Read which packages a setting allows.

    Example:
        >>> permitted_packages(["numpy", "scipy (scratch only)", "apt: nginx, curl"]).names
        ('numpy', 'scipy', 'nginx', 'curl')
        >>> permitted_packages(["anything from the registry, none that contains acme/logs"]).without
        ('acme/logs',)
        >>> permitted_packages("anything on PyPI that reads PDFs".splitlines()).vague
        True
    """
    names: list[str] = []
    without: list[str] = []
    vague = False
    for text in entries:
        small = text.strip().lower()
        if " " not in small:
            names.append(small)
            continue
        if left_out := pattern(_LEFT_OUT).search(small):
            without.append(left_out.group(1).rstrip("."))
            small = small[: left_out.start()].rstrip(" ,;(")
        listed = pattern(r"\([^)]*\)?").sub(" ", pattern(r"^(?:apt|pip|npm|cargo|gem|go|conda|debian|pypi)[\w ]*:").sub("", small))
        words = [word.strip("`'\"") for word in pattern(r"[,;]|\band\b|\bor\b").split(listed)]
        plain = [word.strip() for word in words if word.strip() and " " not in word.strip() and word.strip() not in _PROSE]
        names += plain
        vague = vague or len(plain) < sum(bool(word.strip()) for word in words)
    return Permits(tuple(names), tuple(without), vague)


def _hosts(words: str) -> list[str]:
    return [one for one in pattern(_HOST).findall(words) if not pattern(_FILE).search(one)]
