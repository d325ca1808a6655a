r"""How much a call's words are those of labelled attempts rather than of labelled honest work: `call, history, setting -> score`.

A linear model of words, fitted to the labelled corpora by `benchmarks/guard_resemblance.py`:

.. math::
    s = b + \frac{\sum_i w_i x_i}{\sqrt{\sum_i x_i^2}}, \qquad x_i = 1 + \ln \frac{1 + N}{1 + d_i}

over the features of the call, with $d_i$ in how many of the $N$ calls it was fitted to feature $i$ occurs; how often it occurs in a
call makes no difference. Features are words and marks of the arguments, pairs of neighbours, words of the history, how many words
the call shares with each field of the setting, and what the call would do to which of the setting's places. What no rule describes
can be like what was seen before; that is no proof.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources
from itertools import chain, compress, islice, pairwise, repeat
from operator import add, le, mul
from string import ascii_lowercase, ascii_uppercase, digits
from typing import Any, Final, NamedTuple

from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.grounds import Grounds, grounds_of
from rosellm.roserlhf.guard.hidden_text import readable
from rosellm.roserlhf.guard.paths import MAYBE
from rosellm.roserlhf.guard.setting import Setting

LEAST: Final = -0.5
"""Score below which a call is not said to resemble attempts."""
LEAST_KNOWN: Final = 12
MOST_TOKENS: Final = 3_000
MOST_REMARKS: Final = 8
MOST_ACTS: Final = 100
LONGEST_REMARK: Final = 2_000
_FIELDS: Final = (
    "task", "protected_read", "protected_write", "hidden_tests", "verifier", "result_file", "project", "writable", "own_files",
    "visible_tests", "allowed_hosts", "allowed_packages",
)  # fmt: skip
_PLACES: Final = (
    "hidden_tests", "protected_read", "protected_write", "verifier", "result_file", "own_files", "writable", "visible_tests",
)  # fmt: skip
_PLACED: Final = frozenset(("read", "list", "write", "delete", "link", "run"))
_TOKEN: Final = re.compile(r"[A-Za-z_]+|\d+|[^\w\s]")
_SMALL: Final = str.maketrans(ascii_uppercase + digits, ascii_lowercase + "0" * len(digits))
_MARKS: Final = tuple((mark, f" {mark} ") for mark in map(chr, range(128)) if not (mark.isalnum() or mark.isspace() or mark == "_"))
"""Marks of ASCII, each a token of its own, and the same set apart."""
_WORD: Final = re.compile(r"[a-z]{2,}")
_LONG_WORD: Final = re.compile(r"[a-z]{4,}")
_MOST_SETTINGS: Final = 256
_MOST_SHARED: Final = 4
"""Words that a call shares with a field from which on it does not matter how many they are."""
_WORDS: Final = 0
_PAIRS: Final = 1
_HEARD: Final = 2
_OTHERS: Final = 3
"""Numbers of families."""


class Features(NamedTuple):
    """What a call holds; in names a letter before tells families apart."""

    tokens: Sequence[str]
    """Words and marks of the arguments, in their order: those that occur, `u:`, and pairs of neighbours, `b:`."""
    heard: Set[str]
    """Words of the history, `h:`."""
    others: Set[str]
    """All else, by whole names."""

    def named(self) -> set[str]:
        """Return them by whole names.

        Example:
            >>> sorted(Features(["cat", "/"], {"look"}, {"tool:shell"}).named())
            ['b:cat /', 'h:look', 'tool:shell', 'u:/', 'u:cat']
        """
        return {
            *(f"u:{word}" for word in self.tokens),
            *(f"b:{one} {two}" for one, two in pairwise(self.tokens)),
            *(f"h:{word}" for word in self.heard),
            *self.others,
        }


Family = dict[str, int]
"""Of each known feature of a family its weight times its factor for rarity, and the square of that factor, as one number."""
_Known = tuple[Collection[Any], list[int]]
"""Features of a family that a call holds, and what is known of each; of unknown ones 0."""
_PARTS: Final = 1 << 10
"""Of a whole, which both are counted in: sums of whole numbers are exact, in whatever order."""
_SHIFT: Final = 32
"""Bits for the sum of the squares, at most 12,000 of 100; the sum of the products stands above them."""
_SQUARES: Final = (1 << _SHIFT) - 1
_MOST_NAMED: Final = 6
_STRONG: Final = 2 * _PARTS << _SHIFT
"""Few features weigh more; where enough of a call do, only they are sorted."""


@dataclass(frozen=True)
class Weights:
    """A fitted model."""

    bias: float
    numbers: dict[str, int]
    """Numbers from 1 of the words and marks that are known, alone or in pairs."""
    spelled: list[str]
    """Them by number."""
    words: list[int]
    """By number what a `Family` has."""
    pairs: dict[int, int]
    """The same by the number of the first times their count, plus that of the second: hashed at once."""
    heard: Family
    others: Family
    least_known: int = 0
    """Words and pairs of a call that must be known, lest a few of them decide."""

    @classmethod
    def of(cls, bias: float, features: Mapping[str, tuple[float, float]], least_known: int = 0) -> Weights:
        """Take the factor for rarity and the weight of each feature, by whole names; what comes first lies close together."""
        numbers = {"": 0}
        words: dict[int, int] = {0: 0}
        pairs: dict[tuple[int, int], int] = {}
        heard, others = Family(), Family()
        for name, (rarity, weight) in features.items():
            mark, _, rest = name.partition(":")
            known = (round(_PARTS * rarity * weight) << _SHIFT) + round(_PARTS * rarity * rarity)
            if mark == "u":
                words[numbers.setdefault(rest, len(numbers))] = known
            elif mark == "b":
                one, two = rest.split(" ")
                pairs[numbers.setdefault(one, len(numbers)), numbers.setdefault(two, len(numbers))] = known
            elif mark == "h":
                heard[rest] = known
            else:
                others[name] = known
        size = len(numbers)
        by_number = [words.get(number, 0) for number in range(size)]
        by_pair = {one * size + two: known for (one, two), known in pairs.items()}
        return cls(bias, numbers, list(numbers), by_number, by_pair, heard, others, least_known)


class Table(NamedTuple):
    """What the file in the package holds."""

    calls: int
    """How many calls the model was fitted to."""
    bias: float
    rows: tuple[tuple[str, int, float], ...]
    """Of each feature its name, in how many of the calls it occurs, and its weight."""


def rarity_of(calls: int, seen: int) -> float:
    r"""Return $1 + \ln \frac{1 + N}{1 + d}$ for a feature of `seen` of all `calls`."""
    return 1 + math.log((1 + calls) / (1 + seen))


@cache
def table() -> Table:
    """Return what the file in the package holds."""
    text = (resources.files("rosellm.roserlhf.guard") / "resemblance.tsv").read_text(encoding="utf-8")
    head, *lines = text.splitlines()
    calls, bias = head.split("\t")
    rows = (line.rsplit("\t", 2) for line in lines)
    return Table(int(calls), float(bias), tuple((name, int(seen), float(weight)) for name, seen, weight in rows))


@cache
def builtin() -> Weights:
    """Return the weights that come with the package."""
    calls, bias, rows = table()
    often = sorted(rows, key=lambda row: -row[1])
    return Weights.of(bias, {name: (rarity_of(calls, seen), weight) for name, seen, weight in often}, LEAST_KNOWN)


def features_of(tool: str, arguments: Any, history: Sequence[str], setting: Setting, acts: Iterable[Act] = ()) -> Features:
    """Return the features of a call.

    Example:
        >>> setting = Setting(workdir="/app", hidden_tests=("/eval/**",))
        >>> acts = [Act("read", "/eval/7", "cat")]
        >>> found = sorted(features_of("shell", {"command": "cat /eval/7"}, ["look there"], setting, acts).named())
        >>> [name for name in found if name[0] in "bhs"]
        ['b:/ #', 'b:/ eval', 'b:cat /', 'b:eval /', 'h:look', 'h:there', 's:hidden_tests:1']
        >>> [name for name in found if name[0] in "tap"]
        ['a:read', 'p:read:hidden_tests', 'tool:shell']
    """
    tokens, is_whole = _first_tokens(text := " ".join(_texts(arguments)))
    long_words = "_".join(set(tokens)).split("_") if is_whole and text.isascii() else _LONG_WORD.findall(text.lower())
    every, fields = _words_of(setting)
    shared = every.intersection(long_words)
    others = {names[min(len(of_field & shared), _MOST_SHARED)] for names, of_field in fields}
    others.add(f"tool:{tool}")
    _add_done(others, acts, grounds_of(setting))
    heard: set[str] = set().union(*[_said(remark[:LONGEST_REMARK]) for remark in history[-MOST_REMARKS:]])
    return Features(tokens, heard, others)


def _add_done(done: set[str], acts: Iterable[Act], grounds: Grounds) -> None:
    """Add what acts do to what the setting names."""
    for act in islice(acts, MOST_ACTS):
        kind = act.kind
        done.add(f"a:{kind}")
        if act.via:
            done.add(f"v:{kind}:{act.via[-1]}")
        if kind in _PLACED:
            if act.target.startswith("/"):
                near = grounds.places.near(act.target)
                done.add(f"p:{kind}:{_places(act.target, near, grounds) if near else 'none'}")
        elif kind == "fetch":
            done.add(f"f:{grounds.reach.host_allowed(act.traits.get('host', ''))}:{act.traits.get('place', '')}")
        elif kind == "install":
            done.add(f"i:{grounds.reach.package_allowed(act.target)}")
        elif kind == "code":
            done.add(f"c:{act.target[:40]}")


def _places(path: str, near: frozenset[str], grounds: Grounds) -> str:
    """Return which places of the setting a path touches, of those that it is near to."""
    touches = grounds.places.touches(path)
    return "+".join([name for name in _PLACES if name in near and touches[name] >= MAYBE]) or "none"


def resemblance(
    tool: str,
    arguments: Any,
    history: Sequence[str],
    setting: Setting,
    acts: Iterable[Act] = (),
    weights: Weights | None = None,
) -> Iterator[Act]:
    """Yield an act if a call's score is at least `LEAST` and enough of it is known: the score, and the features that weigh most.

    Example:
        >>> one = Weights.of(-0.7, {"u:hidden": (2.0, 3.0), "u:cat": (1.0, 0.1)})
        >>> list(resemblance("shell", {"command": "cat hidden"}, (), Setting(), weights=one))[0].target
        '2.03'
        >>> list(resemblance("shell", {"command": "cat"}, (), Setting(), weights=one))
        []
        >>> list(resemblance("shell", {"command": "cat hidden"}, (), Setting()))
        []
    """
    weights = weights or builtin()
    known = _weighed(features_of(tool, arguments, history, setting, acts), weights)
    if sum(len(ones) - ones.count(0) for _, ones in known[:_HEARD]) < weights.least_known:
        return
    found = _score(known, weights.bias)
    if found >= LEAST:
        yield Act("resemblance", f"{found:.2f}", ", ".join(_heaviest(known, weights)))


def score(features: Features, weights: Weights) -> float:
    """Return the score of a call's features."""
    return _score(_weighed(features, weights), weights.bias)


def _weighed(features: Features, weights: Weights) -> list[_Known]:
    """Return what a call holds and what is known of it: words, pairs, what was heard, all else."""
    size = len(weights.numbers)
    numbers = list(map(weights.numbers.get, features.tokens, repeat(0)))
    words = set(numbers)
    pairs = set(map(add, map(mul, numbers, repeat(size)), numbers[1:]))
    return [
        (words, list(map(weights.words.__getitem__, words))),
        (pairs, list(map(weights.pairs.get, pairs, repeat(0)))),
        (features.heard, list(map(weights.heard.get, features.heard, repeat(0)))),
        (features.others, list(map(weights.others.get, features.others, repeat(0)))),
    ]


def _score(known: list[_Known], bias: float) -> float:
    found = sum([sum(ones) for _, ones in known])
    return bias + ((found >> _SHIFT) / math.sqrt((found & _SQUARES) * _PARTS) if found else 0.0)


def _heaviest(known: list[_Known], weights: Weights) -> list[str]:
    """Return the names of the features that add most to a score, from the first, without a letter that tells their family."""
    positive = list(filter(_STRONG.__lt__, chain.from_iterable([ones for _, ones in known])))
    if len(positive) < _MOST_NAMED:
        positive = list(filter((0).__lt__, chain.from_iterable([ones for _, ones in known])))
    least = max([1, *sorted(positive)[-_MOST_NAMED:][:1]])
    most = [
        (one, family, _spelled(family, key, weights))
        for family, (keys, ones) in enumerate(known)
        for one, key in compress(zip(ones, keys, strict=True), map(le, repeat(least), ones))
    ]
    return [name for _, _, name in sorted(most, reverse=True)[:_MOST_NAMED]]


def _spelled(family: int, key: Any, weights: Weights) -> str:
    if family == _WORDS:
        return str(weights.spelled[key])
    if family == _PAIRS:
        one, two = divmod(key, len(weights.spelled))
        return f"{weights.spelled[one]} {weights.spelled[two]}"
    return str(key.partition(":")[2] if family == _OTHERS else key)


def _texts(arguments: Any) -> Iterator[str]:
    values = arguments.values() if isinstance(arguments, Mapping) else (arguments,)
    for value in values:
        if isinstance(value, str):
            yield readable(value)
        else:
            with contextlib.suppress(RecursionError):  # nested deeper than anything that is read
                yield readable(json.dumps(value, ensure_ascii=False, default=str))


def _first_tokens(text: str) -> tuple[list[str], bool]:
    """Return the first tokens of a text, and the last ones of one that has more, and whether that is all of them."""
    found = _tokens(text[: 16 * MOST_TOKENS])
    if len(found) <= MOST_TOKENS:
        return found, len(text) <= 16 * MOST_TOKENS
    last = found if len(text) <= 8 * MOST_TOKENS else _tokens(text[-8 * MOST_TOKENS :])
    return found[: MOST_TOKENS // 2] + last[-MOST_TOKENS // 2 :], False


def _tokens(text: str) -> list[str]:
    """Return words and marks, small, each number as `#`.

    Example:
        >>> _tokens("Ab_c12 \u24b6") == [*_tokens("Ab_c12"), "\u24d0"] == ["ab_c", "#", "\u24d0"]
        True
    """
    if text.isascii():
        text = text.translate(_SMALL)
        while "00" in text:
            text = text.replace("00", "0")
        for mark, apart in _MARKS:
            if mark in text:
                text = text.replace(mark, apart)
        return text.replace("0", " # ").split()
    return ["#" if token.isdigit() else token.lower() for token in _TOKEN.findall(text)]  # small letters are not always as many


@lru_cache(maxsize=4096)  # a remark comes back with every later call
def _said(remark: str) -> frozenset[str]:
    return frozenset(_WORD.findall(readable(remark).lower()))


_known: OrderedDict[int, tuple[Setting, frozenset[str], tuple[tuple[tuple[str, ...], frozenset[str]], ...]]] = OrderedDict()


def _words_of(setting: Setting) -> tuple[frozenset[str], tuple[tuple[tuple[str, ...], frozenset[str]], ...]]:
    """Return the words of all fields that a setting fills, and of each field the features and its words, worked out once for each.

    The features of a field are how many of its words a call shares with it: none, one and so on.
    """
    found = _known.get(id(setting))
    if found is None or found[0] is not setting:
        fields = []
        for name in _FIELDS:
            value = getattr(setting, name)
            if value:
                words = frozenset(_LONG_WORD.findall((value if isinstance(value, str) else " ".join(value)).lower()))
                fields.append((tuple(f"s:{name}:{count}" for count in range(1 + _MOST_SHARED)), words))
        every = frozenset().union(*(words for _, words in fields))
        found = _known[id(setting)] = (setting, every, tuple(fields))
        if len(_known) > _MOST_SETTINGS:
            _known.popitem(last=False)
    return found[1], found[2]
