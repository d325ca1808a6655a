"""What a project, its packages and its hosts are called."""

from __future__ import annotations

from rosellm.roserlhf.guard.patterns import pattern


def plain_name(text: str) -> str:
    """Write a name of a package as all its spellings are: small, with dashes.

    Example:
        >>> plain_name("Tiny_Codec.Core")
        'tiny-codec-core'
    """
    return "-".join(text.strip().lower().replace("_", "-").replace(".", "-").split())


def named_parts(text: str) -> list[str]:
    """Return the names and addresses in what a setting calls the project: itself, or the words of a sentence that say them.

    Example:
        >>> named_parts("click (https://github.com/pallets/click, on PyPI: click-core)")
        ['click', 'https://github.com/pallets/click', 'click-core']
    """
    if "(" not in text and "," not in text and "://" not in text.strip()[1:].partition(" ")[2]:
        return [text]
    words = [word.strip("(),;`'\"") for word in text.split()]
    after = [word for before, word in zip(["", *text.split()], words, strict=False) if before.endswith((":", "named", "called"))]
    return [word for word in dict.fromkeys([*words[:1], *(one for one in words if "://" in one or "/" in one), *after]) if word]


def host_fits(name: str, allowed: str) -> bool:
    """Tell whether a host is one that an entry of the allowed ones means: itself, or below it."""
    entry = allowed.partition("://")[2] or allowed
    entry = entry.partition("/")[0].partition(":")[0].removeprefix("www.")
    if entry in ("*", "any", "all"):
        return True
    bare = entry.removeprefix("*.").removeprefix(".")
    return name == bare or name.endswith("." + bare)


_CLOSES = (
    r"\b(?:block|hosts?|domains?|sites?|off[- ]limits|closed|leave (?:those|them|these|it|that) alone"
    r"|(?:open|visit|use|fetch|consult) (?:any of )?(?:those|them|these|it)\b)"
    r"|\b(?:fetch\w*|download\w*|look\w*|read|search\w*|copied|taken)\b[^.;]{0,60}\b(?:from|on|at) [\w-]+\.[a-z]"
)


def bare_hosts(words: str) -> list[str]:
    """Return the hosts that a rule lists by their bare names: `blocked by rule: huggingface.co, github.com`."""
    if not pattern(_CLOSES).search(words.lower()):
        return []
    return [
        one.lower()
        for one in pattern(r"(?:^|[\s(,])((?:[\w-]+\.)+(?:[a-z]{2}|com|org|net|dev|edu|gov|example))(?:$|[\s),;.])").findall(words)
    ]
