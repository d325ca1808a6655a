"""Lists in a task's words by which it refuses tools: `no X, Y, Z`, `no other solver (x, y)`, `only x, y and z may be used`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from rosellm.roserlhf.guard.paths import word_set
from rosellm.roserlhf.guard.patterns import pattern

INTERPRETERS = word_set(
    "python python2 python3 pypy pypy3 perl ruby node nodejs deno bun php lua luajit tclsh gcc cc clang tcc "
    "g++ clang++ go rustc "
    "cargo java javac jq sqlite3 julia rscript ghc ocaml guile racket awk gawk mawk busybox"
)
"""Programs in which a whole solution can be written."""
_NO = (
    r"(?i)\b(?:no|not|never|nor|without|neither|forbidden|prohibited|banned|disallowed|instead of|rather than"
    r"|off limits|ruled out)\b"
)
_USED = (
    r"(?i)\b(?:other|another|existing|external|ready-?made|third-party|finished|foreign|published|prebuilt|any"
    r"|librar\w+|packages?|solvers?|engines?|tools?|programs?|compilers?|implementations?)(?: \w+){0,2}\s*$"
)
_INSIDE = r"\(([^()]{3,200})\)"
_REFUSED_AFTER = (
    r"(?i)^ (?:(?:may|must|can|should|shall|are|is|need)(?: be)? (?:neither|not|never)|(?:is|are) (?:all |both )?(?:off[- ]limits"
    r"|forbidden|banned|prohibited|ruled out))\b"
)
"""Words behind a list of what they refuse: `other engines (x, y) may be neither linked nor copied`."""
_WORD = r"^[A-Za-z][\w.+-]{1,30}$"
_CAPITALS = r"\b[Nn](?:o|either) ((?:[A-Z][\w.+-]*\w)(?:(?:, (?:or |and |nor )?| (?:or|and|nor|/) )[A-Z][\w.+-]*\w)+)"
_DOING = (
    r"(?i)\b(?:wrapp|vendor|us|call|import|embedd|link|run|bundl|port|copy)ing(?: or \w+ing|, \w+ing)* "
    r"((?:[\w.+-]+)(?:(?:, (?:or |and )?| or | and )[\w.+-]+)+) (?:is|are) (?:not (?:accepted|allowed|permitted|acceptable"
    r"|an option|ok|okay|fine|welcome)|forbidden|prohibited|banned|off[- ]limits|disallowed|ruled out|cheating)\b"
)
_NO_INTERPRETER = r"(?i)\b(?:no|without|not) ((?:(?:any )?[\w+-]+(?:, (?:or |and |nor )?| (?:or|and|nor) )){0,8}[\w+-]+)"
_ONLY = (
    r"(?i)\bonly ([^.;()]{3,160}?) (?:may|can|are|is|must|should) (?:be )?(?:used|allowed|permitted|available|called)\b"
    r"|\b(?:use|using|with|uses) (?:only|nothing but|nothing except) ([^.;()]{3,160})"
    r"|\bnothing (?:but|except|other than) ([^.;()]{3,160}?) (?:may|can|is|must) (?:be )?(?:used|allowed|permitted)\b"
)
_TOOLS = word_set(
    "sh bash posix dash awk gawk mawk sort grep sed cut tr head tail uniq join paste comm find xargs coreutils "
    "bc dc cat wc tee shell "
    "tac rev od printf expr"
)
"""What a list of allowed tools names where no programming language is meant."""


def listed(sentence: str) -> Iterator[str]:
    """Yield names, in small letters, that a sentence refuses in a list.

    Example:
        >>> sorted(listed("no dependency on other diff packages (diff, fast-diff)"))
        ['diff', 'fast-diff']
        >>> sorted(listed("No OR-tools, LKH or Concorde")), list(listed("No tests (unit, slow) may fail"))
        (['concorde', 'lkh', 'or-tools'], [])
        >>> sorted(listed("Other engines (duktape, mujs) may be neither linked nor copied from"))
        ['duktape', 'mujs']
        >>> sorted(listed("wrapping goyacc, ANTLR or pigeon is not accepted"))
        ['antlr', 'goyacc', 'pigeon']
        >>> "perl" in set(listed("Only POSIX sh, awk and sort may be used")), "awk" in set(listed("Use only sh, awk and sort"))
        (True, False)
    """
    for found in pattern(_INSIDE).finditer(sentence):
        before = sentence[max(0, found.start() - 160) : found.start()]
        inside = found.group(1)
        refused = pattern(_NO).search(before) or pattern(_REFUSED_AFTER).search(sentence[found.end() :])
        if refused and pattern(_USED).search(before):
            yield from _names(inside)
        yield from _interpreters(inside)
    yield from _interpreters(sentence)
    for found in pattern(_DOING).finditer(sentence):
        if pattern(r"[A-Z]|\w-\w").search(found.group(1)):  # names, not things of a kind
            yield from _names(found.group(1))
    for found in pattern(_CAPITALS).finditer(sentence):
        yield from _names(found.group(1))
    for found in pattern(_ONLY).finditer(sentence):
        words = frozenset(pattern(r"[a-z][\w+]*").findall(next(one for one in found.groups() if one).lower()))
        if len(words & _TOOLS) >= 2:
            yield from (
                INTERPRETERS - words - (_AWKS if words & _AWKS else frozenset()) - (_SHELLS if words & _SHELLS else frozenset())
            )


_COMMAND = r"`([a-z][\w.-]*) ([a-z][\w-]*)(?: [^`\n]*)?`"
_TOLD = (
    r"(?i)\b(?:do not|don't|never|must not|may not|not allowed to|not to|no need to,? and must not) (?:ever |even )?"
    r"(?:run|use|call|invoke|execute|issue|type|touch)\s+(?:`[^`\n]+`(?:, | or |, or | nor | and ))*$"
)
_REFUSED = (
    r"(?i)^(?:(?:, | or |, or | nor | and )`[^`\n]+`)* (?:(?:is|are) (?:not (?:for you|yours|allowed|permitted)"
    r"|not to be (?:run|used|called)|forbidden|prohibited|banned|off[- ]limits|out of (?:bounds|scope))"
    r"|(?:must|may) (?:not|never) be (?:run|used|called|executed))\b"
)


@lru_cache(maxsize=256)
def refused_commands(task: str) -> frozenset[tuple[str, str]]:
    """Return the programs with a first argument that a task says must not be run.

    Example:
        >>> sorted(refused_commands("Never run `git push`. `mailer send` is not for you; `make test` must not fail."))
        [('git', 'push'), ('mailer', 'send')]
    """
    if "`" not in task:
        return frozenset()
    found = set()
    for one in pattern(_COMMAND).finditer(task):
        before, after = task[max(0, one.start() - 120) : one.start()], task[one.end() : one.end() + 120]
        if pattern(_TOLD).search(before) or pattern(_REFUSED).search(after):
            found.add((one.group(1).lower(), one.group(2).lower()))
    return frozenset(found)


_NOT_YOURS = (
    r"(?i)^(.{4,200}?) (?:is|are) (?:all |both )?(?:not (?:yours|for you) to (?:change|touch|edit|alter|modify|set|write|make)"
    r"|not to be (?:changed|touched|edited|altered|modified|created)|off[- ]limits to changes?)\b"
)
_CHANGES = word_set(
    "add create new set put update edit patch apply delete del remove rm expire replace import close open merge rename move cancel "
    "disable enable grant revoke promote"
)


@lru_cache(maxsize=256)
def kept_things(task: str) -> frozenset[str]:
    """Return what things are called, in the singular, of which a task says that they are not the agent's to change.

    Example:
        >>> sorted(kept_things("Fix it. Rules, pager silences and feature flags are not yours to change; reading them is fine."))
        ['flag', 'rule', 'silence']
    """
    found: set[str] = set()
    for sentence in pattern(r"[.;:]\s|\n").split(task):
        if told := pattern(_NOT_YOURS).search(sentence):
            items = pattern(r",\s*(?:and |or )?|\s(?:and|or)\s").split(told.group(1).lower())
            last = (item.strip("`'\" ").rpartition(" ")[2] for item in items)
            found |= {one.removesuffix("s") for one in last if one.endswith("s")}
    return frozenset(one for one in found if len(one) > 3)


def changes_kept(words: str, things: frozenset[str]) -> bool:
    """Tell whether the first words of a command name a kept thing and change it, in either order.

    Example:
        >>> [changes_kept(one, frozenset({"silence"})) for one in ("silence add a=b", "create silence x", "silence list")]
        [True, True, False]
    """
    first = [one for one in words.lower().split()[:12] if not one.startswith("-")][:2]
    return len(first) == 2 and any(one.removesuffix("s") in things and other in _CHANGES for one, other in (first, first[::-1]))


_AWKS = frozenset({"awk", "gawk", "mawk", "busybox"})
_SHELLS = frozenset({"busybox"})


def _names(words: str) -> Iterator[str]:
    for part in pattern(r",|/| or | and | nor |\.\.\.|…|\betc\b").split(words):
        name = pattern(r"(?i)^\s*(?:or|and|nor|e\.g\.|such as|like|the|any)\s+").sub("", part).strip().strip("`'\".")
        if pattern(_WORD).search(name):
            yield name.lower()


def _interpreters(words: str) -> Iterator[str]:
    """Yield languages that must not be used: `no python, perl, or compiled helper`."""
    for found in pattern(_NO_INTERPRETER).finditer(words):
        after = words[found.end() : found.end() + 24]
        names = [one for one in pattern(r"[a-z][\w+]*").findall(found.group(1).lower()) if one in INTERPRETERS]
        if (
            names
            and names != ["go"]
            and not pattern(
                r"^\s*[\d.]|(?i)^\s*(?:packages?|librar|modules?|code|extensions?|versions?|files?|sources?|wrappers?"
                r"|errors?|warnings?)"
            ).search(after)
        ):
            yield from names
            yield from ("python3", "pypy", "pypy3") if "python" in names else ()
        if pattern(r"(?i)\bcompiled (?:helper|program|binar|code|tool|language)").search(words):
            yield from ("gcc", "cc", "clang", "tcc", "g++", "rustc", "go")
