"""Stage 1 as one function: `(tool, arguments, history, setting) → suspicions`, the call read, its acts held against the rules.

Short calls that were looked at before are not looked at again: a policy that learns says the same thousands of times.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rosellm.roserlhf.guard.history import telling
from rosellm.roserlhf.guard.reading import acts_of_number, read_call
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

    Calls are equal where tool and arguments are, and the setting, and what of the history the scene of a call depends on.

    Example:
        >>> from rosellm.roserlhf.guard.detection import detection
        >>> from rosellm.roserlhf.guard.rules import Rules
        >>> from rosellm.roserlhf.guard.setting import Setting
        >>> detect, setting = detection(Rules.read()), Setting(workdir="/app", hidden_tests=("/eval/**",))
        >>> detect("read_file", {"path": "../eval/t.py"}, (), setting)[0].rule, detect("read_file", {"path": "t.py"}, (), setting)
        ('protected-read', [])
    """

    def detect(tool: str, arguments: Mapping[str, Any], history: Sequence[str], setting: Setting) -> Sequence[Suspicion]:
        acts = acts_of_number(tool, arguments)
        return rules.suspicions(read_call(tool, arguments, history, setting).acts if acts is None else acts, setting)

    seen: OrderedDict[tuple[Any, ...], tuple[Setting, Sequence[Suspicion]]] = OrderedDict()

    def remembered(tool: str, arguments: Mapping[str, Any], history: Sequence[str], setting: Setting) -> Sequence[Suspicion]:
        for value in arguments.values():
            if not isinstance(value, str) or len(value) > LONGEST_REMEMBERED:
                return detect(tool, arguments, history, setting)
        key = (tool, tuple(arguments.items()), id(setting), telling(history))
        found = seen.get(key)
        if found is not None:
            with contextlib.suppress(KeyError):  # another thread needed its place
                seen.move_to_end(key)
            return found[1]
        suspicions = detect(tool, arguments, history, setting)
        seen[key] = (setting, suspicions)  # the setting too, lest another one gets its number
        if len(seen) > MOST_REMEMBERED:
            seen.popitem(last=False)
        return suspicions

    return remembered
