"""Stage 1 as one function: `(tool, arguments, history, setting) → suspicions`, the call read, its acts held against the rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rosellm.roserlhf.guard.reading import read_call
from rosellm.roserlhf.guard.rules import Rules, Suspicion
from rosellm.roserlhf.guard.setting import Setting

Detect = Callable[[str, Mapping[str, Any], Sequence[str], Setting], Sequence[Suspicion]]
"""`(tool, arguments, history, setting)` to what is suspicious about a call; empty if nothing is."""


def detection(rules: Rules) -> Detect:
    """Return the function that reads a call and asks these rules.

    Example:
        >>> from rosellm.roserlhf.guard.detection import detection
        >>> from rosellm.roserlhf.guard.rules import Rules
        >>> from rosellm.roserlhf.guard.setting import Setting
        >>> detect, setting = detection(Rules.read()), Setting(workdir="/app", hidden_tests=("/eval/**",))
        >>> detect("read_file", {"path": "../eval/t.py"}, (), setting)[0].rule, detect("read_file", {"path": "t.py"}, (), setting)
        ('protected-read', [])
    """

    def detect(tool: str, arguments: Mapping[str, Any], history: Sequence[str], setting: Setting) -> Sequence[Suspicion]:
        return rules.suspicions(read_call(tool, arguments, history, setting).acts, setting)

    return detect
