"""What makes a task recognisable to whoever looks it up: its title, its formulas, the names of what is kept from the agent."""

from __future__ import annotations

from collections.abc import Iterator

from rosellm.roserlhf.guard.patterns import pattern
from rosellm.roserlhf.guard.setting import Setting

_QUOTED = r"(?:^|[\s(])['\"“‘«„`]([A-Z0-9][^'\"”’»“`\n]{3,60})['\"”’»“`](?:$|[\s),.;:?])"
_CAMEL = r"\b(?:[A-Z][a-z0-9]+[A-Z]\w*(?:-\d+)?|[A-Z][A-Za-z]+-\d+|[a-z]\w*_\w*[a-z]\w*)\b"
_BESIDE = (
    r"(?:[Bb]enchmark|[Dd]ata ?set|[Ll]eaderboard)s?(?: (?:is|was|called|named|this question is from|it is from))*[\s(:'\"]+"
    r"([A-Z][\w-]{3,})|\b([A-Z][\w-]{3,}) (?:benchmark|data ?set|leaderboard|challenge set)"
)
_COMMON = frozenset(
    [
        "github",
        "gitlab",
        "huggingface",
        "stackoverflow",
        "leetcode",
        "codeforces",
        "kaggle",
        "postgresql",
        "javascript",
        "typescript",
        "pytorch",
        "tensorflow",
        "openai",
        "youtube",
        "wikipedia",
        "mathlib",
        "sqlite",
        "mysql",
        "nodejs",
        "pypi",
        "rubygems",
        "webarchive",
        "arxiv",
    ]
)
_OPERATOR = r"\s*(<=|>=|==|[+*/^=<>≤≥≡-])\s*"
_FORMULA = r"[a-z0-9(√|]+(?:(?:<=|>=|==|[+/^=<>≤≥≡-])[a-z0-9()√|]+){2,}"
_RELATION = r"[=<>≤≥≡]"
_FEWEST_OPERATORS = 4
"""Operators in a formula that nobody writes down by chance."""


class Statement:
    """The recognisable parts of one setting."""

    def __init__(self, setting: Setting, project: frozenset[str] = frozenset()) -> None:
        phrases = [one for one in (*setting.protected_read, *setting.hidden_tests) if " " in one.strip()]
        found = {name for phrase in phrases for name in pattern(_CAMEL).findall(phrase)}
        found |= {one or other for one, other in pattern(_BESIDE).findall(setting.task)}
        names = {_bare(form) for name in found for form in (name, pattern(r"-\d+$").sub("", name))}
        self.kept_names = {name for name in names if len(name) > 5} - _COMMON - {_bare(name) for name in project}
        """Proper names of what must not be read, small and without dashes."""
        self.titles = [
            frozenset(words)
            for text in pattern(_QUOTED).findall(setting.task)
            if " " in text and text[-1] not in ".?!" and len(words := _words(text)) > 1
        ]
        """The words of each title that the task gives itself."""
        self.formulas = frozenset(formulas(setting.task))

    def names_kept(self, text: str) -> bool:
        """Tell whether a text names what is kept, other than to leave it out of a search.

        Example:
            >>> one = Statement(Setting(protected_read=("the answers of DeepQuery-50",)))
            >>> one.names_kept("deep_query jsonl"), one.names_kept("keepers 1884 -DeepQuery")
            (True, False)
        """
        if not self.kept_names:
            return False
        bare = _bare(" ".join(word for word in text.split() if not word.startswith("-")))
        return any(name in bare for name in self.kept_names)

    def holds_title(self, text: str) -> bool:
        """Tell whether a text holds all words of the task's title.

        Example:
            >>> Statement(Setting(task="Solve 'Ferries and Locks' in C++.")).holds_title("ferries locks icpc solution")
            True
        """
        if not self.titles:
            return False
        words = _words(text)
        return any(title <= words for title in self.titles)

    def shared_formulas(self, text: str) -> int:
        """Count the task's formulas in a text, whatever their variables are called.

        Example:
            >>> Statement(Setting(task="Let a*b + b*c = 60, a, b > 0.")).shared_formulas("x y: xy+yz=60")
            1
        """
        return len(self.formulas & set(formulas(text))) if self.formulas else 0


def formulas(text: str) -> Iterator[str]:
    """Yield the formulas in a text in one spelling: no spaces, no signs of multiplication, variables named in their order.

    Example:
        >>> list(formulas("with x + y + z = 60 and x*y + y*z >= 7"))
        ['a+b+c=60', 'ab+bc>=7']
    """
    small = pattern(r"\\(?:cdot|times|left|right)|[$·×\\{}]").sub("", text.lower())
    small = pattern(r"\s*\*(\s*)").sub("", pattern(_OPERATOR).sub(r"\1", small))
    for found in pattern(_FORMULA).findall(small):
        if not pattern(r"[a-z]{4,}|\d-\d\d-\d").search(found):
            yield _renamed(found)


def states_formula(text: str) -> bool:
    """Tell whether a text spells out a statement: a relation between terms of several operators.

    Example:
        >>> states_formula("prove x/(y+1)+y/(x+1) >= 2/3"), states_formula("a+b=c")
        (True, False)
    """
    return any(
        pattern(_RELATION).search(one) and len(pattern(r"[+/^-]").findall(one)) >= _FEWEST_OPERATORS for one in formulas(text)
    )


def _renamed(formula: str) -> str:
    known: dict[str, str] = {}
    return "".join(known.setdefault(one, chr(97 + len(known))) if "a" <= one <= "z" else one for one in formula)


def _bare(text: str) -> str:
    return str(pattern(r"[\W_]+").sub("", text.lower()))


def _words(text: str) -> set[str]:
    return {word for word in pattern(r"[a-z0-9]+").findall(text.lower()) if len(word) > 3}
