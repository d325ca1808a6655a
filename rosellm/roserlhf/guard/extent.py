"""What part of a place the words of a setting mean: `phrase -> what it names, what it leaves out, whether only what exists`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rosellm.roserlhf.guard.patterns import pattern
from rosellm.roserlhf.guard.phrases import file_names, is_path, paths_in

_EXCEPT = (
    r"(?i)[\s,;(]+(?:with the exceptions? of|except(?:ing|ed)?(?: for| in)?|other than|apart from|aside from|but (?:for|not)|"
    r"excluding|save(?: for)?|not including|unless|minus)\s+|\s*[,(]\s*(?:not|no|without|never)\s+(?:the\s+|in\s+|below\s+|"
    r"under\s+)?"
)
_NOT = r"(?i)([\s,;(]+(?:but )?(?:not|without|never|no)\s+(?:the |any |existing )?)[^\s()]*[/*]"
"""A path or a glob after `not`; `(not read-only)` leaves nothing out."""
_EXISTING = (
    r"(?i)\b(exist(s|ed|ing)?|(was|were|is|are) (already )?(there|present)( already)?|already (there|present)|pre-?existing|"
    r"given( by the task)?|that (come|came|ship) with|shipped|supplied|original(ly)?|"
    r"(present|old|given|current|visible) ones?|tracked|checked[- ]in|committed|at (the )?(base|HEAD|start)|current)\b"
)
_NEW = (
    r"(?i)\b(new|additional|further|added|extra|not yet there)[\s)]*$|\(new( ones?| only| files?[^)]*)?\)"
    r"|\b(?:new|additional|further|extra|more) (\w+ )?(files?|tests?|classes|specs?|modules?|test files|suites?|cases|"
    r"scripts?|ones)\b"
)
_NAME = r"(?:^|[\s`'\"(,])((?:[\w.-]*\*[\w.*-]*|\w[\w-]*)\.\w{1,5}|_\w+\.\w{1,5})(?:$|[\s`'\"),;])"
"""The name of a file, or a glob for one, without a directory."""

_BARE = r"^(?:the )?([\w.-]+\*?)(?:/|\)|$)|^[\w.-]*\*[\w.-]*"
"""The bare name of a folder, or a glob for names, right behind the words that leave it out."""
_ENDS = r";\s+"
_JOINS = r",\s+(?:and |or )?|\s+and\s+|\s+or\s+"

_LATER = (
    r"(?i)\((?:later |then )?(?:copied|put|placed|moved|dropped|unpacked|laid|added|merged|injected) "
    r"(?:in|into|over|to|onto) [^()/]{0,20}\b\w[^()]*\)"
)
"""Where else in the work something will lie once the work is done."""

When = Literal["", "existing", "new"]


@dataclass(frozen=True)
class Extent:
    """What a phrase means by a place."""

    paths: tuple[str, ...]
    """Paths and globs that it names."""
    without: tuple[str, ...] = ()
    """Paths and globs that it leaves out."""
    when: When = ""
    """`existing`: only what is there already; `new`: only what is not."""


def extent_of(phrase: str) -> Extent:
    """Read a path, a glob or plain words about one.

    Example:
        >>> extent_of("notes/tests/** except test_own_*.py")
        Extent(paths=('notes/tests/**',), without=('notes/tests/**/test_own_*.py',), when='')
        >>> extent_of("test files (tests/test_*.py) that exist already")
        Extent(paths=('tests/test_*.py',), without=(), when='existing')
        >>> extent_of("tests/test_*.py (new files only)").when, extent_of("_test.go files that exist at HEAD").paths
        ('new', ('**/*_test.go',))
        >>> extent_of("/src/*.go (not *_test.go that exist)").without
        ('/src/**/*_test.go',)
        >>> extent_of("/ci/hidden (copied into src/test by CI)").paths, extent_of("/ci/hidden (mounted at /mnt/t)").paths
        (('/ci/hidden',), ('/ci/hidden', '/mnt/t'))
    """
    if is_path(phrase):
        return Extent((phrase,))
    parts = pattern(_EXCEPT).search(phrase) or pattern(_NOT).search(phrase)
    kept = phrase if parts is None else phrase[: parts.start()]
    rest = "" if parts is None else phrase[parts.end(1) if parts.groups() else parts.end() :]
    paths = _named(pattern(_LATER).sub("()", kept) if kept.startswith("/") else kept)
    names = file_names(kept)
    if names and kept.strip(" `'\"").startswith(names[0]):  # a list of files, with a remark
        paths += [name for name in names if "*" not in name and not any(path.endswith(name) for path in paths)]
    where = next((path.partition("*")[0] for path in paths if "/" in path), "")
    named = [*_named(rest), *(f"**/{name}" for name in file_names(rest) if "*" not in name and not name.startswith("_"))]
    named += [] if named else [f"**/{name}" for name in pattern(_BARE).findall(rest)]
    without = [_below(where, path) for path in named]
    if pattern(_EXISTING).search(kept) or (paths and parts is not None and pattern(_NEW).search(rest)):
        return Extent(tuple(paths), tuple(without), "existing")
    return Extent(tuple(paths), tuple(without), "new" if pattern(_NEW).search(kept) else "")


def parts(phrase: str) -> tuple[str, ...]:
    """Return the places that a phrase lists, each with the words about it; what an exception lists stays together.

    Example:
        >>> parts("test/, jest.config.js; files within vendor/ by hand (and lib/ too)")
        ('test/', 'jest.config.js', 'files within vendor/ by hand (and lib/ too)')
        >>> parts("the judge's cases and solutions in /judge"), parts("/box except /box/a and /box/b; /tmp")
        (("the judge's cases and solutions in /judge",), ('/box except /box/a and /box/b', '/tmp'))
    """
    if is_path(phrase):
        return (phrase,)
    found: list[str] = []
    for piece in _split(phrase, _ENDS):
        items = [piece] if pattern(_EXCEPT).search(piece) else _split(piece, _JOINS)
        held = ""
        for item in items:
            held = f"{held} and {item}" if held else item
            if _places(item):
                found.append(held)
                held = ""
        if held and found:
            found[-1] = f"{found[-1]}, {held}"
        elif held:
            found.append(held)
    return tuple(found)


def _split(text: str, ends: str) -> list[str]:
    found, start, place = [], 0, 0
    while match := pattern(ends).search(text[place:]):
        begin, place = match.start() + place, match.end() + place
        if text.count("(", start, begin) <= text.count(")", start, begin):
            found.append(text[start:begin].strip())
            start = place
    return [one for one in (*found, text[start:].strip()) if one]


def _places(words: str) -> bool:
    return words.startswith(("/", "~")) or bool(_named(words) or file_names(words))


def _below(where: str, path: str) -> str:
    """Return a place that an exception names, below that from which it is taken out."""
    if not where or where.startswith("**") or path.startswith(("/", "~", ".")):
        return path
    if path.startswith("**/"):
        return f"{where}{path}"
    return path if path.startswith(where.partition("/")[0]) else f"{where}**/{path}"


def _named(words: str) -> list[str]:
    found = paths_in(words)
    place = 0
    while match := pattern(_NAME).search(words[place:]):
        name = match.group(1)
        if ("*" in name or name.startswith("_")) and name not in found:
            found.append("**/" + (name if "*" in name else "*" + name))
        place += match.span(1)[1]
    return found
