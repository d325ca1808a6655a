"""Call formats by name."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from rosellm.roserlhf import checks
from rosellm.roserlhf.codec.calls.function import FunctionCalls
from rosellm.roserlhf.codec.calls.hermes import HermesCalls
from rosellm.roserlhf.codec.calls.llama3 import Llama3Calls
from rosellm.roserlhf.codec.calls.protocol import CallFormat
from rosellm.roserlhf.codec.calls.pythonic import PythonicCalls
from rosellm.roserlhf.codec.calls.tags import TagCalls
from rosellm.roserlhf.errors import ConfigError

_ALL: tuple[CallFormat, ...] = (FunctionCalls(), HermesCalls(), Llama3Calls(), PythonicCalls(), TagCalls())
FORMATS: Mapping[str, CallFormat] = {known.name: known for known in _ALL}
"""`function`, `hermes`, `llama3`, `pythonic`, `tags`."""


def call_format(name: str) -> CallFormat:
    """Find a call format.

    Raises:
        ConfigError: there is none of this name; the nearest is named.

    Example:
        >>> call_format("hermes").write([ToolCall("call-0", "search", {"item": "lamps"})], {})
        '<tool_call>\\n{"name": "search", "arguments": {"item": "lamps"}}\\n</tool_call>'
    """
    if name not in FORMATS:
        near = difflib.get_close_matches(str(name), FORMATS, n=1, cutoff=0.4)
        fix = f"did you mean {near[0]}?" if near else None
        raise checks.fail(ConfigError, "call format", f"be one of {', '.join(FORMATS)}", repr(name), fix=fix)
    return FORMATS[name]
