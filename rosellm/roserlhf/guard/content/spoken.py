"""Words that code carries to other readers -> texts: bodies of heredocs, and strings, also strings inside strings.

A commit message on standard input, the text that `sed` puts into every output, the body of a request: whoever reads code by its
syntax sees an argument, whoever judges the work reads words.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.content import (
    admission,
    choosing,
    invention,
    learning,
    prose,
    reaching,
    scoring,
    sheets,
    statements,
    unpaid,
    weights,
)
from rosellm.roserlhf.guard.content.admission import AWARDS, SAYS, acts_of_admission
from rosellm.roserlhf.guard.content.choosing import acts_of_choosing
from rosellm.roserlhf.guard.content.invention import acts_of_invention
from rosellm.roserlhf.guard.content.learning import acts_of_learning
from rosellm.roserlhf.guard.content.prose import acts_of_address, speaks
from rosellm.roserlhf.guard.content.reaching import acts_of_serving
from rosellm.roserlhf.guard.content.scoring import acts_of_scoring
from rosellm.roserlhf.guard.content.sheets import acts_of_sheets
from rosellm.roserlhf.guard.content.statements import acts_of_axioms, acts_of_statements
from rosellm.roserlhf.guard.content.unpaid import acts_of_bending
from rosellm.roserlhf.guard.content.weights import acts_of_weights
from rosellm.roserlhf.guard.hints import FirstLook
from rosellm.roserlhf.guard.patterns import pattern

MOST = 60
_LEAST_BLANKS = 3
_HEREDOC = r"<<[-~]?\s*\\?[\"']?([A-Za-z_]\w*)[\"']?"
_STRING = r"\"((?:[^\"\\]|\\.)*)\"|'((?:[^'\\]|\\.)*)'|`((?:[^`\\]|\\.)*)`"

_LONGEST = 20_000
"""Characters that every reader looks at: words at the end of a part may be others in the whole."""
_INVENTS, _SCORES, _CHOOSES, _STATES, _ASSUMES, _LEARNS, _BENDS, _SERVES, _WEIGHS, _SHEETS, _SPEAKS = (
    2 * AWARDS << place for place in range(11)
)
_ALL = 2 * _SPEAKS - 1


def acts_of_words(text: str, is_code: bool, is_prose: bool = False, before: str = "") -> Iterator[Act]:
    """Yield what a text admits or claims and, where it is code, what it makes up and what the texts in it say to a judge.

    Args:
        text: the words.
        is_code: whether they are run.
        is_prose: whether they are for people alone.
        before: the words that they replace.
    """
    held = _look().held(text) if len(text) <= _LONGEST else _ALL
    if held & SAYS:
        yield from acts_of_admission(text, "said", held)
    if not is_prose:
        if held & _INVENTS:
            yield from acts_of_invention(text)
        if held & _SCORES:
            yield from acts_of_scoring(text)
        if held & _CHOOSES:
            yield from acts_of_choosing(text)
        if held & _STATES:
            yield from acts_of_statements(text)
        if held & _ASSUMES:
            yield from acts_of_axioms(text)
        if held & _LEARNS or before:
            yield from acts_of_learning(text, before)
        if held & _BENDS or before:
            yield from acts_of_bending(text, before)
        if held & _SERVES:
            yield from acts_of_serving(text)
        if held & _WEIGHS:
            yield from acts_of_weights(text)
        if held & _SHEETS:
            yield from acts_of_sheets(text)
    if is_code and (held & _SPEAKS or not text.isascii()) and text.count(" ") >= _LEAST_BLANKS and speaks(text):
        for one in texts_in(text):
            for act in acts_of_address(one, "said"):
                if "addresses" in act.traits:
                    yield replace(act, span=(0, len(text)))


@cache
def _look() -> FirstLook:
    """Return what tells at once which of the readers may find something."""
    return FirstLook(
        {
            **admission.hints(),
            _INVENTS: invention.HINTS,
            _SCORES: [scoring.HINT],
            _CHOOSES: choosing.HINTS,
            _STATES: [statements.STATED],
            _ASSUMES: [statements.ASSUMED],
            _LEARNS: [learning.HINT],
            _BENDS: unpaid.BENDS,
            _SERVES: reaching.SERVES,
            _WEIGHS: [weights.HINT],
            _SHEETS: [sheets.HINT],
            _SPEAKS: prose.words(),
        }
    )


def texts_in(code: str) -> Iterator[str]:
    """Yield the texts in code that hold several words.

    Example:
        >>> list(texts_in("git commit -F - <<'X'\\nNote: all of this was done by hand.\\nX"))
        ['Note: all of this was done by hand.']
    """
    count = 0
    for one in (*_bodies(code), *_strings(code)):
        if one.count(" ") >= _LEAST_BLANKS:
            yield one
            count += 1
            if count == MOST:
                return


def _bodies(code: str) -> Iterator[str]:
    if "<<" not in code:
        return
    for found in pattern(_HEREDOC).finditer(code):
        start = code.find("\n", found.end())
        end = code.find(f"\n{found.group(1)}", start)
        if 0 <= start < end:
            yield code[start + 1 : end]


def _strings(code: str, depth: int = 0) -> Iterator[str]:
    for found in pattern(_STRING).finditer(code):
        inner = next(one for one in found.groups() if one is not None)
        yield inner.replace("\\n", "\n").replace('\\"', '"').replace("\\'", "'") if "\\" in inner else inner
        if depth == 0 and ('"' in inner or "'" in inner or "`" in inner):
            yield from _strings(inner, 1)
