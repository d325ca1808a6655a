"""Stage 1 as one function: `(tool, arguments, history, setting) → suspicions`, the call read, its acts held against the rules.

Short calls that were looked at before are not looked at again: a policy that learns says the same thousands of times.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rosellm.roserlhf.guard.history import MOST_STRINGS
from rosellm.roserlhf.guard.intents import admits
from rosellm.roserlhf.guard.plain_words import NUMERIC, acts_of_plain_words, is_sum
from rosellm.roserlhf.guard.reading import read_call
from rosellm.roserlhf.guard.rules import Rules, Suspicion
from rosellm.roserlhf.guard.setting import Setting
from rosellm.roserlhf.guard.tool_names import family_of

Detect = Callable[[str, Mapping[str, Any], Sequence[str], Setting], Sequence[Suspicion]]
"""`(tool, arguments, history, setting)` to what is suspicious about a call; empty if nothing is."""


MOST_REMEMBERED = 16_384
"""Calls whose suspicions are kept: the last of plain words, and the last others."""
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

    sums_pass = rules.pass_words_of(frozenset(NUMERIC))
    plain: OrderedDict[tuple[Any, ...], tuple[Setting, Sequence[Suspicion], bool]] = OrderedDict()
    """Of plain words, to which the history adds nothing; but what is handed in is read in full after an admission."""
    others: OrderedDict[tuple[Any, ...], tuple[Setting, Sequence[Suspicion]]] = OrderedDict()

    def detect(tool: str, arguments: Mapping[str, Any], history: Sequence[str], setting: Setting) -> Sequence[Suspicion]:
        if sums_pass and is_sum(tool, arguments, history):
            return ()
        key = (tool, tuple(arguments.items()), id(setting))  # kept with the setting, lest another one gets its number
        try:
            known = plain.get(key)
        except TypeError:  # a list or an object among the arguments
            return rules.suspicions(read_call(tool, arguments, history, setting).acts, setting)
        if known is None:
            for value in arguments.values():
                if not isinstance(value, str) or len(value) > LONGEST_REMEMBERED:
                    return rules.suspicions(read_call(tool, arguments, history, setting).acts, setting)
            acts = acts_of_plain_words(tool, arguments)
            if acts is not None:
                known = plain[key] = (setting, rules.suspicions(acts, setting), family_of(tool) == "submit")
                if len(plain) > MOST_REMEMBERED:
                    plain.popitem(last=False)
        if known is not None and not (known[2] and admits(history)):
            return known[1]
        longer = (*key, tuple(history[-MOST_STRINGS:]))
        found = others.get(longer)
        if found is None:
            found = others[longer] = (setting, rules.suspicions(read_call(tool, arguments, history, setting).acts, setting))
            if len(others) > MOST_REMEMBERED:
                others.popitem(last=False)
        return found[1]

    return detect
