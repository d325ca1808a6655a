"""How a chat template writes a tool call, and which call format reads it: found by letting it write one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rosellm.roserlhf.codec.calls import FORMATS
from rosellm.roserlhf.codec.layout import placeholder
from rosellm.roserlhf.codec.markup import Markup, Standing
from rosellm.roserlhf.codec.probes import common
from rosellm.roserlhf.codec.template import QUESTION, Form, Render, Template
from rosellm.roserlhf.errors import TemplateError
from rosellm.roserlhf.trajectory import ParsedAction, ToolCall

_CALL = ToolCall("call-0", "search", {"item": "red lamps", "limit": 3})
_PARAMETERS = {
    "type": "object",
    "properties": {"item": {"type": "string"}, "limit": {"type": "integer"}},
    "required": ["item", "limit"],
}
_SCHEMAS = {"search": _PARAMETERS}
TOOL = {"type": "function", "function": {"name": "search", "description": "Look up.", "parameters": _PARAMETERS}}
"""A tool to show to templates."""
_RESULT = placeholder(0)
_READERS = ("hermes", "llama3", "pythonic", "tags")
"""Formats by how exactly they say what a call is: the loosest last, so that it does not take what belongs to another."""


@dataclass(frozen=True)
class ProbedCalls:
    """How a template writes calls that it is handed in fields of their own, as a server does with what it parsed."""

    format: str = "function"
    """The call format that reads them; `function` if none does."""
    standing: str = ""
    """One call, with stand-ins for control tokens; empty if the template has no place for calls."""
    text: str = ""
    """The same, control tokens spelled out."""
    around: tuple[str, str] | None = None
    """What it writes before and after the very text that the call format writes; None if it writes the call otherwise."""
    stable: bool = False
    """A reply with a call keeps its text when a server that parsed it lets the template write it anew."""


def probe_calls(template: Template, stops: tuple[str, ...]) -> ProbedCalls:
    """Let a template write a call."""
    for arguments in (dict(_CALL.arguments), '{"item": "red lamps", "limit": 3}'):
        for answered in (True, False):
            written = _written(template, arguments, stops, answered=answered)
            if _CALL.name in written and "red lamps" in written:
                standing = written.rstrip()
                text = template.markup.spell(Standing(standing))
                name = _reader(text)
                around = None if name is None else _around(text, name)
                return ProbedCalls(name or "function", standing, text, around, around is not None and standing == written)
    return ProbedCalls()


def _around(text: str, name: str) -> tuple[str, str] | None:
    before, found, after = text.partition(FORMATS[name].write([_CALL], _SCHEMAS))
    return (before, after) if found else None


def shows_tools(render: Render, markup: Markup, form: Form) -> bool:
    """Tell whether tools appear in the prompt."""
    try:
        return "Look up." in Template(render, markup, [TOOL], form=form).text([QUESTION]).text
    except TemplateError:
        return False


def _written(template: Template, arguments: Any, stops: tuple[str, ...], *, answered: bool) -> str:
    call = {"id": _CALL.call_id, "type": "function", "function": {"name": _CALL.name, "arguments": arguments}}
    chat: list[dict[str, Any]] = [
        {"role": "user", "content": QUESTION.content},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": _RESULT, "name": _CALL.name, "tool_call_id": _CALL.call_id},
    ]
    try:
        text = template.of_chat(chat if answered else chat[:2], prompt=False).text
    except TemplateError:
        return ""
    start = common(template.opening.text, text)
    limit = text.find(_RESULT, start) if answered else len(text)
    ends = [place for stop in stops if 0 <= (place := text.find(template.markup.stand_ins[stop], start)) < limit]
    return text[start : min(ends)] if ends else text[start:limit] if not answered else _before_result(template, chat, text, start)


def _before_result(template: Template, chat: list[dict[str, Any]], text: str, start: int) -> str:
    """Cut off a call that no stop token follows: where the rendering without a result ends, but for a token that opens one."""
    try:
        alone = template.of_chat(chat[:2], prompt=False).text
    except TemplateError:
        return ""
    body = text[start : common(text, alone)].rstrip()
    controls = template.markup.characters
    return body[:-1] if len(body) > 1 and body[-1] in controls and body[-2] in controls else body


def _reader(text: str) -> str | None:
    for name in _READERS:
        match FORMATS[name].parse(text, _SCHEMAS):
            case ParsedAction(calls=(call,), failures=()) if (call.name, call.arguments) == (_CALL.name, _CALL.arguments):
                return name
    return None
