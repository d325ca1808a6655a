r"""How much a call's words are those of labelled attempts rather than of labelled honest work: `call, history, setting -> score`.

A linear model of words, fitted to the labelled corpora by `benchmarks/guard_resemblance.py`:

.. math::
    s = b + \frac{\sum_i w_i x_i}{\sqrt{\sum_i x_i^2}}, \qquad x_i = (1 + \ln n_i) \left(1 + \ln \frac{1 + N}{1 + d_i}\right)

with $n_i$ how often feature $i$ occurs in the call and $d_i$ in how many of the $N$ calls it was fitted to. Features are words and
marks of the arguments, pairs of neighbours, words of the history, how many words the call shares with each field of the setting,
and what the call would do to which of the setting's places. What no rule describes can be like what was seen before; that is no
proof.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources
from itertools import islice, pairwise
from typing import Any, Final

from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.grounds import Grounds, grounds_of
from rosellm.roserlhf.guard.hidden_text import readable
from rosellm.roserlhf.guard.paths import Touch
from rosellm.roserlhf.guard.setting import Setting

LEAST: Final = -0.2
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
_PLACED: Final = ("read", "list", "write", "delete", "link", "run")
_TOKEN: Final = re.compile(r"[A-Za-z_]+|\d+|[^\w\s]")
_WORD: Final = re.compile(r"[a-z]{2,}")
_LONG_WORD: Final = re.compile(r"[a-z]{4,}")
_MOST_SETTINGS: Final = 256


@dataclass(frozen=True)
class Weights:
    """A fitted model."""

    bias: float
    features: Mapping[str, tuple[float, float]]
    """Of each feature its factor for rarity, and that times its weight."""
    least_known: int = 0
    """Words and pairs of a call that must be known, lest a few of them decide."""


@cache
def builtin() -> Weights:
    """Return the weights that come with the package."""
    text = (resources.files("rosellm.roserlhf.guard") / "resemblance.tsv").read_text(encoding="utf-8")
    head, *lines = text.splitlines()
    calls, bias = head.split("\t")
    features = {}
    for line in lines:
        name, seen, weight = line.rsplit("\t", 2)
        rarity = 1 + math.log((1 + int(calls)) / (1 + int(seen)))
        features[name] = (rarity, rarity * float(weight))
    return Weights(float(bias), features, LEAST_KNOWN)


def features_of(tool: str, arguments: Any, history: Sequence[str], setting: Setting, acts: Iterable[Act] = ()) -> Counter[str]:
    """Count the features of a call.

    Example:
        >>> setting = Setting(workdir="/app", hidden_tests=("/eval/**",))
        >>> found = features_of("shell", {"command": "cat /eval/7"}, ["look there"], setting, [Act("read", "/eval/7", "cat")])
        >>> [name for name in found if name[0] in "bhs"]
        ['b:cat /', 'b:/ eval', 'b:eval /', 'b:/ #', 'h:look', 'h:there', 's:hidden_tests:1']
        >>> [name for name in found if name[0] in "tap"]
        ['tool:shell', 'a:read', 'p:read:hidden_tests']
    """
    text = " ".join(_texts(arguments))
    tokens = ["#" if token.isdigit() else token.lower() for token in _first(_TOKEN, text)]
    found = Counter([f"u:{token}" for token in tokens])
    found.update([f"b:{one} {two}" for one, two in pairwise(tokens)])
    for remark in history[-MOST_REMARKS:]:
        found.update(_said(remark[:LONGEST_REMARK]))
    words = set(_LONG_WORD.findall(text.lower()))
    for name, of_field in _words_of(setting):
        found[f"s:{name}:{min(len(of_field & words), 4)}"] += 1
    found[f"tool:{tool}"] += 1
    grounds = grounds_of(setting)
    found.update(list(dict.fromkeys(name for act in islice(acts, MOST_ACTS) for name in _done(act, grounds))))
    return found


def _done(act: Act, grounds: Grounds) -> Iterator[str]:
    """Yield what an act does to what the setting names."""
    yield f"a:{act.kind}"
    if act.via:
        yield f"v:{act.kind}:{act.via[-1]}"
    if act.kind in _PLACED and act.target.startswith("/"):
        touched = [name for name in _PLACES if grounds.touch(act.target, name) >= Touch.MAYBE]
        yield f"p:{act.kind}:{'+'.join(touched) or 'none'}"
    elif act.kind == "fetch":
        yield f"f:{grounds.host_allowed(act.traits.get('host', ''))}:{act.traits.get('place', '')}"
    elif act.kind == "install":
        yield f"i:{grounds.package_allowed(act.target)}"
    elif act.kind == "code":
        yield f"c:{act.target[:40]}"


def resemblance(
    tool: str,
    arguments: Any,
    history: Sequence[str],
    setting: Setting,
    acts: Iterable[Act] = (),
    weights: Weights | None = None,
) -> Iterator[Act]:
    """Yield one act if a call's score is at least `LEAST`: its target is the score, its detail the features that weigh most.

    Example:
        >>> one = Weights(-0.5, {"u:hidden": (2.0, 6.0), "u:cat": (1.0, 0.1)})
        >>> [act.target for act in resemblance("shell", {"command": "cat hidden"}, (), Setting(), weights=one)]
        ['2.23']
        >>> list(resemblance("shell", {"command": "cat"}, (), Setting(), weights=one))
        []
    """
    known = weights or builtin()
    features = features_of(tool, arguments, history, setting, acts)
    found, parts = score(features, known)
    if found >= LEAST and sum(name[0] in "ub" for name in parts) >= known.least_known:
        most = sorted(parts, key=lambda name: -parts[name])[:6]
        yield Act("resemblance", f"{found:.2f}", ", ".join(name.partition(":")[2] for name in most))


def score(features: Mapping[str, int], weights: Weights) -> tuple[float, dict[str, float]]:
    """Return the score of counted features, and what each known one adds to it before all are divided by their length."""
    parts: dict[str, float] = {}
    squares = 0.0
    known = weights.features
    for name in [one for one in features if one in known]:
        count = features[name]
        rarity, weight = known[name]
        often = 1 + math.log(count) if count > 1 else 1.0
        squares += (often * rarity) * (often * rarity)
        parts[name] = often * weight
    return weights.bias + (sum(parts.values()) / math.sqrt(squares) if squares else 0.0), parts


def _texts(arguments: Any) -> Iterator[str]:
    values = arguments.values() if isinstance(arguments, Mapping) else (arguments,)
    for value in values:
        if isinstance(value, str):
            yield readable(value)
        else:
            with contextlib.suppress(RecursionError):  # nested deeper than anything that is read
                yield readable(json.dumps(value, ensure_ascii=False, default=str))


def _first(token: re.Pattern[str], text: str) -> list[str]:
    """Return the first tokens of a text, and the last ones of one that has more."""
    found = token.findall(text[: 16 * MOST_TOKENS])
    if len(found) <= MOST_TOKENS:
        return found
    return found[: MOST_TOKENS // 2] + token.findall(text[-8 * MOST_TOKENS :])[-MOST_TOKENS // 2 :]


@lru_cache(maxsize=4096)  # a remark comes back with every later call
def _said(remark: str) -> tuple[str, ...]:
    return tuple(f"h:{word}" for word in _WORD.findall(readable(remark).lower()))


_known: OrderedDict[int, tuple[Setting, tuple[tuple[str, frozenset[str]], ...]]] = OrderedDict()


def _words_of(setting: Setting) -> tuple[tuple[str, frozenset[str]], ...]:
    """Return the words of each field that a setting fills, worked out once for each."""
    found = _known.get(id(setting))
    if found is None or found[0] is not setting:
        texts = ((name, getattr(setting, name)) for name in _FIELDS)
        words = tuple(
            (name, frozenset(_LONG_WORD.findall((value if isinstance(value, str) else " ".join(value)).lower())))
            for name, value in texts
            if value
        )
        found = _known[id(setting)] = (setting, words)
        if len(_known) > _MOST_SETTINGS:
            _known.popitem(last=False)
    return found[1]
