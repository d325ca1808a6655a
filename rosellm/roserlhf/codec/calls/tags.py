"""Plain tags, as Qwen3-Coder writes them:

```
<tool_call>
<function=name>
<parameter=key>
value
</parameter>
</function>
</tool_call>
```
A value is text as it stands, without the one newline after and before its tags; where the tool's schema wants anything but text it
is a JSON value, or one of Python's `True`, `False`, `None`, which Qwen's template writes. It ends at the first `</parameter>` after
which the call goes on as it must, so that most texts can hold that tag; a further call that begins before that says that it is not
closed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from rosellm.roserlhf import checks
from rosellm.roserlhf.codec.calls import json_text
from rosellm.roserlhf.codec.calls.protocol import Schemas, is_text, may_be_null
from rosellm.roserlhf.codec.calls.reading import MalformedError, Reading, reasoning_end
from rosellm.roserlhf.errors import RangeError
from rosellm.roserlhf.trajectory import ParsedAction, ToolCall

_START = re.compile(r"<tool_call>\s*+|(?=<function=)")
_FUNCTION = re.compile(r"<function=([^<>\n]+)>\s*+")
_PARAMETER = re.compile(r"<parameter=([^<>\n]+)>\n?+")
_VALUE_END = re.compile(r"</parameter>\s*+(?=<parameter=|</function>)|<tool_call>\s*+<function=")
_CLOSE = re.compile(r"</function>\s*+</tool_call>")
_NEXT = re.compile(r"</tool_call>|(?=<tool_call>)")
_PYTHON = {"True": True, "False": False, "None": None}


class TagCalls:
    """Calls as tags, one for the call and one for each argument."""

    name = "tags"

    def parse(self, text: str, schemas: Schemas) -> ParsedAction:
        """Read the calls; `schemas` tell which arguments are text. Those of an unknown tool are.

        Example:
            >>> text = "<tool_call><function=f><parameter=x>1</parameter></function></tool_call>"
            >>> TagCalls().parse(text, {}).calls[0].arguments
            {'x': '1'}
            >>> TagCalls().parse(text, {"f": {"properties": {"x": {"type": "integer"}}}}).calls[0].arguments
            {'x': 1}
        """
        reading, place = Reading(text), reasoning_end(text)
        while (start := _START.search(text, place)) and not reading.is_full(start.start()):
            function = _FUNCTION.match(text, start.end())
            try:
                if not start.group():
                    raise MalformedError("<function=…> must stand inside <tool_call>")
                if function is None:
                    raise MalformedError("after <tool_call> must follow <function=name>")
                arguments, place = _arguments(text, function.end(), schemas.get(function.group(1), {}))
            except MalformedError as mistake:
                following = _NEXT.search(text, start.end())
                place = len(text) if following is None else following.end()
                reading.failure(str(mistake), None if function is None else function.group(1), start.start(), place)
            else:
                reading.call(function.group(1), arguments, start.start(), place)
        return reading.action()

    def write(self, calls: Sequence[ToolCall], schemas: Schemas) -> str:
        """Write the calls as Qwen3-Coder's template does, but for `true`, `false` and `null`.

        Raises:
            RangeError: a name holds one of `<>` or a newline; a text would be read as something else; NaN, an infinity, half of
                a surrogate pair.
        """
        return "\n".join(_written(call, schemas.get(call.name, {}).get("properties", {})) for call in calls)


def _arguments(text: str, place: int, schema: Mapping[str, Any]) -> tuple[dict[str, Any], int]:
    """Read the parameters from `place` on; return them and where the call ends."""
    found: dict[str, Any] = {}
    while parameter := _PARAMETER.match(text, place):
        key = parameter.group(1)
        end = _VALUE_END.search(text, parameter.end())
        if end is None or end.group().startswith("<tool_call>"):
            raise MalformedError(f"{key:.40} is not closed by </parameter>")
        if key in found:
            raise MalformedError(f"{key:.40} is given twice")
        value = text[parameter.end() : end.start()].removesuffix("\n")
        found[key] = _value(value, key, schema.get("properties", {}).get(key, _TEXT))
        place = end.end()
    close = _CLOSE.match(text, place)
    if close is None:
        raise MalformedError("the call must go on with <parameter=…> or end with </function></tool_call>")
    return found, close.end()


_TEXT: Mapping[str, Any] = {"type": "string"}


def _value(text: str, key: str, kind: Mapping[str, Any]) -> Any:
    if is_text(kind):
        return None if text in ("null", "None") and may_be_null(kind) else text
    stripped = text.strip()
    if stripped in _PYTHON:
        return _PYTHON[stripped]
    try:
        value, end = json_text.read(stripped, 0)
    except MalformedError as mistake:
        raise MalformedError(f"{key:.40}: {mistake}") from None
    if end < len(stripped):
        raise MalformedError(f"{key:.40} must be one JSON value, got {stripped[end:][:20]} after it")
    return value


def _written(call: ToolCall, properties: Mapping[str, Any]) -> str:
    lines = ["<tool_call>", f"<function={_tag_name(call.name)}>"]
    for key, value in call.arguments.items():
        kind = properties.get(key, _TEXT)
        written = value if isinstance(value, str) and is_text(kind) else json_text.dump(value).replace("</", "<\\/")
        json_text.dump(written)  # refuses what no format can write
        lines += [f"<parameter={_tag_name(key)}>", written, "</parameter>"]
        if _VALUE_END.search(written) or _value(written, key, kind) != value:
            raise checks.fail(RangeError, f"{call.name}({key})", "be read again as it is written", f"{value!r:.80}")
    return "\n".join([*lines, "</function>", "</tool_call>"])


def _tag_name(name: str) -> str:
    if not name or set(name) & set("<>\n"):
        raise checks.fail(RangeError, "name", "hold none of < > and newline", f"{name!r:.80}")
    return name
