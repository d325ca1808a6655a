"""What a script of `sed`, `perl -pi`, `ed` or `vim` takes out of a file and puts in, where that is not known: read as a patch."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from rosellm.roserlhf.guard.act import UNKNOWN
from rosellm.roserlhf.guard.content.substituted import filled, letter, patch_of, spelled
from rosellm.roserlhf.guard.shell.shell import Shell

_LONGEST: Final = 20_000
_MOST: Final = 200
_MOST_FILES: Final = 16
_SUBSTITUTION: Final = re.compile(
    r"(?<![\w\\])s([^\\\n\w\s])((?:\\[\s\S]|(?!\1)[^\\\n])*+)\1((?:\\[\s\S]|(?!\1)[^\\])*+)\1[gIiMmpesx\d]*(?=[ \t]*(?:[;\n}|]|$))"
)
_BRACED: Final = re.compile(r"(?<![\w\\])s\{((?:\\[\s\S]|[^\\{}\n])*+)\}\s*\{((?:\\[\s\S]|[^\\{}])*+)\}")
_PUT: Final = re.compile(r"(?:^|[;{}\n/\d$!])[ \t]*[aic](?:\\\n?[ \t]*|[ \t]+|(?=[^\w\s]))((?:\\\n|[^\n])+)")
_DELETED: Final = re.compile(
    r"(?:^|[;{}\n])[ \t]*(?:\d*,)?/((?:\\.|[^/\\\n])+)/(?:,(?:/(?:\\.|[^/\\\n])+/|\+?\d+|\$))?[ \t]*[dc]\b"
)
_GLOBAL: Final = re.compile(r"(?:^|\n|%|:)[ \t]*g/((?:\\.|[^/\\\n])+)/(?:d\b|normal)")
_INPUT: Final = re.compile(
    r"(?:^|\n)[ \t]*(?:[\d,.$]*|/[^/\n]*/)[aic]!?[ \t]*\n((?:(?!\.[ \t]*(?:\n|$))[^\n]*\n)*)\.[ \t]*(?=\n|$)"
)
_NAME: Final = re.compile(r"\b(?:def|func|fn|function|it|test|describe)(?: \w+)?$")
"""Where a definition breaks off: what follows its name went, too."""


def read_edits(shell: Shell, files: Sequence[str], codes: Sequence[str]) -> None:
    """Read what a script puts into files as a patch of them would be read."""
    pairs = list(edits("\n".join(codes)[:_LONGEST]))
    if not pairs:
        return
    places = [path for file in files[:_MOST_FILES] for path in shell.paths(file) if not path.startswith(UNKNOWN)]
    for path in places[:_MOST_FILES]:
        shell.read("patch", patch_of(path, pairs))


def edits(script: str) -> Iterator[tuple[str, str]]:
    """Yield (what goes, what comes) of every command of a script that changes lines.

    Example:
        >>> list(edits(r"s/assert f(x) == 1/assert True/; /def test_a/d")), list(edits(r"1i import os\\nos._exit(0)"))
        ([('assert f(x) == 1', 'assert True'), ('def test_a(', '')], [('', 'import os\\nos._exit(0)')])
    """
    for count, found in enumerate((*_SUBSTITUTION.finditer(script), *_BRACED.finditer(script))):
        old, new = found.groups()[-2:]
        if count < _MOST:
            yield spelled(old), _put(filled(new, old))
    rest = _SUBSTITUTION.sub("", script)
    for pattern in (_DELETED, _GLOBAL):
        for found in pattern.finditer(rest):
            yield _NAME.sub(r"\g<0>(", spelled(found[1])), ""
    for found in _INPUT.finditer(rest):
        yield "", found[1].rstrip("\n")
    for found in _PUT.finditer(_INPUT.sub("", rest)):
        yield "", _put(found[1])


def _put(new: str) -> str:
    return re.sub(r"\\([\s\S])", lambda found: letter(found[1]), new)
