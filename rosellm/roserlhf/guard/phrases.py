"""What plain words of a setting forbid and allow: `task, phrases -> subjects closed and open, paths, addresses`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from rosellm.roserlhf.guard.paths import word_set
from rosellm.roserlhf.guard.patterns import pattern

SUBJECTS = {
    "history": r"\b((commit|revision|version|state|checkout|repository|repo) (is |was |stands )?(just |"
    r"right )?(at )?(the )?(commit )?(before|prior to) (the|a|its|an?y?) ?(upstream |bug )?fix|commits?|ancestors?|"
    r"git (objects?|history|log|tags?|branch(es)?|refs?|reflog)|reflog|branch(es)?|tags?|stash(es)?|"
    r"(future|later|newer|next|subsequent)( \w+)? (versions?|revisions?|changes?|states?)|"
    r"(versions?|revisions?|releases?|states?)( of \S+)? (after|beyond|past|since|later than|newer than|above)|"
    r"v?\d+(\.\d+)+ ?(or|and|\+)( any\w*)? ?(later|newer|above|higher|up|onwards?|beyond)|base commit|"
    r"repository'?s? history|history of the repo\w*|history (that|which|not|beyond|after|outside|other|past)|"
    r"(not |un)reachable|dangling (objects?|commits?|blobs?)|git notes)\b",
    "upstream": r"\b(upstream|releases?|released|published (package|version|module|crate|library)|newer|"
    r"v?\d+(\.\d+)+ ?(or|and|\+)( any\w*)? ?(later|newer|above|higher|up|onwards?|beyond)|later( \w+)? versions?|"
    r"(npm|pypi|pip) package|"
    r"package|forks?|mirrors?|crates\.io|docs\.rs|(original|official|public) (repo\w*|source|code|implementation)|github|gitlab)\b",
    "solution": r"\b(solutions?|editorials?|answers?|proofs?|gold(en)?|reference (implementation|patch|answer|output)s?|key|keys|"
    r"write-?ups?|walk-?throughs?|oracle|expected (output|answer|result)s?|spoilers?|leaderboards?)\b",
    "labels": r"\b(labels?|ground[- ]truth|targets? of the test|private (set|split|data)|held[- ]out (set|split|data|labels?))\b",
    "process": r"\b(process(es)?('s)?|memory|environ(ment)?( variables?)?|stack frames?|call stack|/proc|parent process)\b",
    "others": r"\b(others?'?|other (participant|people|student|agent|user|contestant|team|player|competitor|submission)\w*'?s?)\b",
    "image": r"\b(layers?|docker|container|images?|set-?up scripts?|snapshots?)\b",
    "network": r"\b(internet|network|web|online)\b",
    "runner": r"\b(conftest\w*|test (runner|configuration|harness)|pytest (plugin|hook|configuration)s?|fixtures?|hooks?|plugins?|"
    r"ci|continuous integration|test infrastructure|mocha|jest|harness|"
    r"junit|which tests run|start-?up files|test (set-?up|runs?))\b",
    "tests": r"\b(tests?|specs?|test suites?|assertions?|checks?|checker)\b",
    "verifier": r"\b(verifiers?|graders?|judges?|evaluators?|evaluation|scorers?|scoring|metrics?|benchmarks?|rewards?|rubrics?)\b",
    "cells": r"\bcells?\b",
}
"""Subjects that words speak of. A subject is closed if a protected phrase or a forbidding clause names it."""

_FORBIDS = (
    r"\b(nothing (is|may|must|should|can|shall)|none of|nobody|nor (may|is|are)|"
    r"do(es)? not|don'?t|must not|mustn'?t|may not|might not|never|not to be|off[- ]limits|(not|isn'?t|"
    r"aren'?t) (allowed|permitted|a "
    r"solution|yours?|for you|part|to)|forbid(den)?|prohibit(ed|s)?|out of (scope|bounds)|without|not from|stays? closed|"
    r"cannot|can'?t|"
    r"refrain|avoid|leave [^.]* (alone|as|unchanged|untouched)|rather than|should not|shouldn'?t|cheating|no (peeking|"
    r"looking|internet|network|web|upstream|later|newer|future|external|published|outside|searching|releases?|"
    r"(\w+ )?install|(\w+ )?source of|(reference )?solutions?|answers? keys?)|keep (away|out)|out of reach|read[- ]only|"
    r"disallowed|instead of|are not|is not|unchanged|closed to)\b"
)
_ALLOWS = (
    r"\b(you (may|can|should|are (free|allowed)|have|must|need)|may be|can be|as (you|much as you) (like|wish|please|want)|freely|"
    r"with the (help of the )?web|"
    r"is (allowed|permitted|yours|fine|ok)|are "
    r"(allowed|permitted|yours|fine|ok)|allowed|permitted|feel free|free to|yours to|please|find|recover|restore|write|"
    r"add|extend|fix|implement|"
    r"make|change|edit|update|port|build|debug|investigate|explain|use|replace|create|set up|restore|bisect|cherry-pick|"
    r"backport|merge)\b"
)
_NETWORK = r"\b(internet|network|web)\b"
_CHANGES = (
    r"\b(edit\w*|chang\w+|modif\w+|writ\w+|alter\w*|touch\w*|delet\w+|remov\w+|tamper\w*|overwrit\w+|weaken\w*|disabl\w+|"
    r"mov\w+|renam\w+|"
    r"replac\w+|read[- ]only|unchanged|untouched|as (it|they) (is|are))\b"
)
_READS = (
    r"\b(read\w*|look\w*|open\w*|see\w*|view\w*|access\w*|inspect\w*|consult\w*|copy\w*|use\w*|using|cat|peek\w*|"
    r"search\w*|fetch\w*|download\w*|"
    r"secret|hidden|closed|private|off[- ]limits|out of (scope|bounds)|forbidden|prohibited)\b"
)
_PATH = r"(?:^|[\s`'\"(,=])((?:[a-z]+://|~/|/|\.{1,2}/)[^\s`'\"(),;]+|[\w.*?-]+/(?:[^\s`'\"(),;]*[\w*/])?)"


_NOUNS = word_set(
    """
    about above after against agent agents allowed anything before below being build class closed commit commits
    contest could copies copy data dataset directory does during every exact file files folder forbidden from have
    hidden image images inside into itself layer layers member memory must named newer none object objects only other
    others outside pages people problem process processes project published read release released releases repository
    scripts secret server shop should some source such task team test tests text than that their them these they this
    those training used user users value values verifier version versions were what when where which while with
    without work write written yours your train training form notes note details detail names name lines line parts
    part same rest input output state list lists text order place first upstream branches tags ancestors base history
    later future tool environment package packages library module website web
    """
)
_SECRET = (
    r"\b([a-z][a-z-]{4,}) (?:tests?|suites?|cases|sets?|answers?|keys?|labels?|references?|files?)? ?(?:is|are|lies?|"
    r"stays?|remains?) (?:secret|hidden|private|kept|closed|stored|only)"
)


def nouns(phrase: str) -> set[str]:
    """Return the words of a phrase that tell what it is about.

    Example:
        >>> sorted(nouns("the shop's admin pages and reference translations"))
        ['admin', 'reference', 'translations']
    """
    words = " ".join(word for word in phrase.lower().replace("'s", "").split() if "/" not in word)
    return {word for word in pattern(r"[a-z]{5,}").findall(words) if word not in _NOUNS}


def secrets(task: str) -> set[str]:
    """Return what a task calls secret.

    Example:
        >>> secrets("Tests: test_lru.py. The stress test is secret.")
        {'stress'}
    """
    return {word for word in pattern(_SECRET).findall(task.lower()) if word not in _NOUNS}


@dataclass
class Said:
    """What the words of a setting come to."""

    closed: set[str] = field(default_factory=set)
    """Subjects that are forbidden."""
    open: set[str] = field(default_factory=set)
    """Subjects that the task allows or asks for."""
    unread: list[str] = field(default_factory=list)
    """Paths and addresses that must not be read."""
    unchanged: list[str] = field(default_factory=list)
    """Paths that must not be changed."""


def is_path(entry: str) -> bool:
    """Tell a path, glob or address from a phrase in plain words.

    Example:
        >>> [is_path(text) for text in ("tests/**", "Makefile", "/a b/c.txt", "git objects after HEAD")]
        [True, True, True, False]
    """
    text = entry.strip()
    return " " not in text or (text[0] in "/~" and not pattern(r"\s[a-z]{2,}\s|\sof ").search(text))


def is_program(entry: str) -> bool:
    """Tell the bare name of a program from a path.

    Example:
        >>> is_program("pytest"), is_program("check.sh")
        (True, False)
    """
    return pattern(r"^[\w-]+$").search(entry.strip()) is not None


def paths_in(phrase: str) -> list[str]:
    """Return the paths and addresses that plain words name, those of `/proc` apart: they need more than a path to be understood.

    Example:
        >>> paths_in("the image's build layers and set-up scripts (/setup/**)")
        ['/setup/**']
    """
    found, place = [], 0
    named = pattern(_PATH)
    while match := named.search(phrase[place:]):
        text = match.group(1).rstrip(".:")
        if not text.startswith("/proc") and len(text) > 2:
            found.append(text)
        place += match.span(1)[1]
    return found


def subjects(text: str) -> set[str]:
    """Return the subjects that a text speaks of.

    Example:
        >>> sorted(subjects("git objects that are not ancestors of the base commit"))
        ['history']
    """
    small = " ".join(word for word in text.lower().split() if not word.strip("`'(").startswith(("/", "~")))
    return {name for name, words in SUBJECTS.items() if pattern(words).search(small)}


def said(task: str) -> Said:
    """Read what a task forbids and allows, clause by clause.

    Example:
        >>> found = said("Fix the bug. You may edit tests/conftest.py. Do not read /golden or look at later commits.")
        >>> sorted(found.closed), found.unread, "runner" in found.open
        (['history'], ['/golden'], True)
    """
    found = Said()
    for clause in _clauses(task):
        small = clause.lower()
        about = subjects(clause)
        if about & {"history", "upstream", "solution"} and not pattern(_NETWORK).search(small):
            about.discard("network")  # "online" tells where the other thing is not to be had
        if pattern(_FORBIDS).search(small):
            paths = paths_in(clause)
            reads = pattern(_READS).search(small.replace("read-only", "").replace("read only", ""))
            changes = pattern(_CHANGES).search(small)
            found.closed |= (
                about if reads or not changes else about & {"history", "upstream", "solution", "labels", "process", "others"}
            )
            found.unread += paths if reads else []
            found.unchanged += paths if changes or not reads else []
        elif pattern(_ALLOWS).search(small):
            found.open |= about
    found.open -= found.closed
    return found


def _clauses(task: str) -> Iterator[str]:
    rest = task
    ends = pattern(r"(?:[.!?;:](?:\s|$)|\n|,? but |,? and (?:do not|don't|never|must not) |, (?:which|nor) )")
    while match := ends.search(rest):
        start, stop = match.span()
        yield rest[:start]
        kept = rest[start:stop]
        rest = kept.lstrip(", ").removeprefix("and ") * (" not " in kept or "never" in kept or "don't" in kept) + rest[stop:]
    yield rest
