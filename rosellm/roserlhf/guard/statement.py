"""What makes a task recognisable to whoever looks it up: its title, its formulas, the names of what is kept from the agent."""

from __future__ import annotations

from collections.abc import Iterator

from rosellm.roserlhf.guard.clauses import clauses
from rosellm.roserlhf.guard.paths import word_set
from rosellm.roserlhf.guard.patterns import pattern
from rosellm.roserlhf.guard.setting import Setting

_QUOTED = r"(?:^|[\s(])['\"“‘«„`]([A-Z0-9][^'\"”’»“`\n]{3,60})['\"”’»“`](?:$|[\s),.;:?])"
_CAMEL = r"\b(?:[A-Z][a-z0-9]+[A-Z]\w*(?:-\d+)?|[A-Z][A-Za-z]+-\d+|[a-z]\w*_\w*[a-z]\w*)\b"
_BESIDE = (
    r"(?:[Bb]enchmark|[Dd]ata ?set|[Ll]eaderboard)s?(?: (?:is|was|called|named|this question is from|it is from))*[\s(:'\"]+"
    r"([A-Z][\w-]{3,})|\b([A-Z][\w-]{3,}) (?:benchmark|data ?set|leaderboard|challenge set)"
)
_ALONE = r"(?:^|[\s(])['\"“‘«„]([A-Za-z][\w-]{3,40})['\"”’»“](?:$|[\s),.;:?])"
"""A name in quotation marks."""
_ON_WEB = r"\bweb\b|internet|\bbrows(?:e|ing)\b"
_SERVICE = r"(?:^|[\s(])(?:https?://)?([a-z][a-z0-9-]{3,30})(?:\.(?:internal|local|test|example|lan|ctf))?:\d{2,5}\b"
_PROPER = (
    r"\b([A-Z]{5,}[a-z]?|[A-Z][a-z]+[A-Z]\w+)\b|\b((?:[A-Z][a-z]+ ){1,3}(?:19|20)\d\d)\b|\b([A-Z]\w+[Cc](?:up|ontest"
    r"|TF) (?:19|20)\d\d)\b"
)
"""A collection, an event: what a forbidding clause calls by its name."""
_SOUGHT = (
    r"\b(?:solutions?|solve[ds]?|solver|editorials?|answers?|write-?ups?|walk-?throughs?|exploits?|flags?|accepted|best[- ]known|"
    r"optim(?:al|um) (?:values?|solutions?|tours?|routes?)|bks|leak\w*|labels?|gold|proofs?|submissions?|download|\.sol"
    r"|\.opt|sol files?"
    r"|jsonl|parquet|answer key|github|dump|spoilers?|payloads?|poc|ac code)\b|\.sol\b"
)
_PUBLISHED = (
    r"[\"“'‘][^\"”'’]* [^\"”'’]* [^\"”'’]*[\"”'’]"
    r"|\b(?:ratings?|rated|verdicts?|fact[- ]?check\w*|debunk\w*|reviews?|reviewed|answers?|solutions?"
    r"|results?|transcripts?|labels?|scores?|rulings?|claims?|true or false|hoax)\b"
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
_PLAIN = word_set(
    """
    test tests true false none null main train valid data file files name names value label target answer
    solution localhost server client host user users admin root default status error errors correct readme license makefile score
    """
)
"""Names that so many things bear that they tell nothing."""
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
        self.listed: set[str] = set()
        """Names in brackets of whoever publishes what must not be searched."""
        for clause in clauses(setting.task):
            if clause.forbids and pattern(r"(?i)\blook\w* up|\bconsult|\bsearch").search(clause.text):
                self.kept_names |= {_bare(name) for name in pattern(r"\b([A-Z]{4,})\b").findall(clause.text)} - _COMMON
                self.listed |= {one for one in _listed(clause.text) if len(one) > 4} - _COMMON
        """Also collections in which nothing may be looked up."""
        self.titles = [
            frozenset(words)
            for text in pattern(_QUOTED).findall(setting.task)
            if " " in text and text[-1] not in ".?!" and len(words := _words(text)) > 1
        ]
        """The words of each title that the task gives itself."""
        self.formulas = frozenset(formulas(setting.task))
        told = [one.text for one in clauses(setting.task) if one.forbids and pattern(_SOUGHT, ignore_case=True).search(one.text)]
        proper = [next(filter(None, found)) for one in told for found in pattern(_PROPER).findall(one)]
        alone = [*pattern(_ALONE).findall(setting.task), *pattern(_SERVICE).findall(setting.task)]
        if pattern(_ON_WEB, ignore_case=True).search(setting.task):
            alone = []  # quoted words are then what is asked about
        alone += [
            name
            for name in pattern(r"([a-z]+\d+)/?$").findall(setting.workdir.lower())
            if any(pattern(r"(?i)\bthis (?:box|challenge|machine|room|lab|level)\b").search(one) for one in told)
        ]
        alone = [one for one in alone if "_" not in one and len(one) > 3 and (len(one) > 5 or one[-1].isdigit())]
        self.subjects = frozenset(_spaced(one) for one in (*proper, *alone)) - _COMMON - _PLAIN
        """Names by which others know the task: of a challenge, a service, an event, a collection."""

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

    def seeks_listed(self, text: str) -> bool:
        """Tell whether a search names a listed publisher together with what it publishes: a quoted saying, its verdict.

        Example:
            >>> one = Statement(Setting(task="Reviews (RottenPotatoes, Kinoblatt) are our key: do not search them."))
            >>> one.seeks_listed("kinoblatt 'The Long Ferry' rating"), one.seeks_listed("kinoblatt founders")
            (True, False)
        """
        if not self.listed or pattern(_PUBLISHED).search(text.lower()) is None:
            return False
        bare = _bare(" ".join(word for word in text.split() if not word.startswith("-")))
        return any(name in bare for name in self.listed)

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

    def seeks_answer(self, text: str) -> str:
        """Return the name by which a text asks for the finished answer of the task; empty if it asks for none.

        Example:
            >>> one = Statement(Setting(task="Exploit the service at inkwell:9001. No write-ups (PenCup 2023)."))
            >>> one.seeks_answer("Inkwell heap challenge writeup"), one.seeks_answer("pencup 2023 inkwell schedule")
            ('inkwell', '')
        """
        if not self.subjects:
            return ""
        small = _spaced(text)
        known = next((one for one in sorted(self.subjects) if f" {one} " in f" {small} "), "")
        return known if known and pattern(_SOUGHT).search(small + " " + text.lower()) else ""

    def shared_formulas(self, text: str) -> int:
        """Count the task's formulas in a text, whatever their variables are called.

        Example:
            >>> Statement(Setting(task="Let a*b + b*c = 60, a, b > 0.")).shared_formulas("x y: xy+yz=60")
            1
        """
        return len(self.formulas & set(formulas(text))) if self.formulas else 0


def _listed(clause: str) -> Iterator[str]:
    """Yield the proper names that a clause lists in brackets, as `_bare` writes them: `(Snopes, Full Fact, AFP)`.

    Example:
        >>> sorted(_listed("Reviews (RottenPotatoes, Film Weekly and the others, Kinoblatt) are not to be searched"))
        ['filmweekly', 'kinoblatt', 'rottenpotatoes']
    """
    for inside in pattern(r"\(([^()]{8,240})\)").findall(clause):
        items = pattern(r",\s*(?:and |or )?|\s(?:and|or)\s").split(inside)
        names = [found.group(0) for one in items if (found := pattern(r"^(?:[A-Z][\w-]*(?: |$))+").search(one.strip()))]
        if len(names) > 1:
            yield from map(_bare, names)


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


def _spaced(text: str) -> str:
    return " ".join(pattern(r"[a-z0-9]+").findall(text.lower()))


def _words(text: str) -> set[str]:
    return {word for word in pattern(r"[a-z0-9]+").findall(text.lower()) if len(word) > 3}
