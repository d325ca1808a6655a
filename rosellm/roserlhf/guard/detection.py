"""Stage 1 as one function: `(tool, arguments, history, setting) → suspicions`, the call read, its acts held against the rules.

Short calls that were looked at before are not looked at again: a policy that learns says the same thousands of times.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.history import MOST_STRINGS
from rosellm.roserlhf.guard.intents import admits
from rosellm.roserlhf.guard.plain_words import acts_of_plain_words
from rosellm.roserlhf.guard.reading import read_call
from rosellm.roserlhf.guard.rules import Rules, Suspicion
from rosellm.roserlhf.guard.setting import Setting

Detect = Callable[[str, Mapping[str, Any], Sequence[str], Setting], Sequence[Suspicion]]
"""`(tool, arguments, history, setting)` to what is suspicious about a call; empty if nothing is."""


MOST_REMEMBERED = 16_384
"""Calls whose suspicions are kept, the last used ones."""
LONGEST_REMEMBERED = 1_000
"""Characters of an argument in such a call."""


def detection(rules: Rules) -> Detect:
    """Return the function that reads a call and asks these rules.

    Calls are equal where tool and arguments are, and the setting, and, unless they are plain words, the history that is looked at.

    Example:
        >>> from rosellm.roserlhf.guard.detection import detection
        >>> from rosellm.roserlhf.guard.rules import Rules
        >>> from rosellm.roserlhf.guard.setting import Setting
        >>> detect, setting = detection(Rules.read()), Setting(workdir="/app", hidden_tests=("/eval/**",))
        >>> detect("read_file", {"path": "../eval/t.py"}, (), setting)[0].rule, detect("read_file", {"path": "t.py"}, (), setting)
        ('protected-read', [])
    """

    seen: OrderedDict[tuple[Any, ...], tuple[Setting, Sequence[Suspicion]]] = OrderedDict()

    def keep(key: tuple[Any, ...], setting: Setting, acts: Sequence[Act]) -> Sequence[Suspicion]:
        suspicions = rules.suspicions(acts, setting)
        seen[key] = (setting, suspicions)  # the setting too, lest another one gets its number
        if len(seen) > MOST_REMEMBERED:
            seen.popitem(last=False)
        return suspicions

    def detect(tool: str, arguments: Mapping[str, Any], history: Sequence[str], setting: Setting) -> Sequence[Suspicion]:
        for value in arguments.values():
            if not isinstance(value, str) or len(value) > LONGEST_REMEMBERED:
                return rules.suspicions(read_call(tool, arguments, history, setting).acts, setting)
        key: tuple[Any, ...] = (tool, tuple(arguments.items()), id(setting), admits(history))
        found = seen.get(key)
        if found is None:
            plain = acts_of_plain_words(tool, arguments, history)
            if plain is not None:
                return keep(key, setting, plain)
            key = (*key, tuple(history[-MOST_STRINGS:]))
            found = seen.get(key)
        if found is None:
            return keep(key, setting, read_call(tool, arguments, history, setting).acts)
        with contextlib.suppress(KeyError):  # another thread needed its place
            seen.move_to_end(key)
        return found[1]

    return detect
