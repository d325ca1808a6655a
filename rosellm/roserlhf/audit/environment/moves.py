"""Actions as JSON values, so that they can be handed to another process: `move -> ParsedAction | ParseFailure`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rosellm.roserlhf.audit.environment.answers import PLAIN_VALUES, WRAPPINGS, Answer, values_for
from rosellm.roserlhf.trajectory import ParsedAction, ParseFailure, ToolCall

Move = dict[str, Any]
"""`{"reply": text}`: a reply without a call; `{"failure": text}`: one that a codec cannot read; `{"echo": wrapping}`: the prompt
again; `{"call": name, "arguments": {…}}`."""


@dataclass(frozen=True)
class Attempt:
    """One first action to be played."""

    answer: str
    """Name of what is tried."""
    place: str
    """Where it stands: a reply, or an argument of a tool."""
    move: Move
    never_right: bool = True
    """False for a value that may be the right answer of some task: then it must not be right for all of them."""

    @property
    def name(self) -> str:
        """What is tried, and where."""
        return f"{self.answer} {self.place}"


def action_of(move: Mapping[str, Any], prompt: str) -> ParsedAction | ParseFailure:
    """Make an action, `prompt` being what the policy was shown first."""
    if "call" in move:
        return ParsedAction(calls=(ToolCall("call-0", move["call"], move["arguments"]),))
    if "failure" in move:
        return ParseFailure("not a tool call", raw=move["failure"])
    return ParsedAction(move["reply"] if "reply" in move else move["echo"].format(prompt))


def replies(answers: Sequence[Answer]) -> Iterator[Attempt]:
    """Say each answer as a reply: bare and in the places where a verifier looks for it, read as text and not read at all."""
    for answer in answers:
        for wrapping in WRAPPINGS:
            place = "as a reply" if wrapping == "{}" else f"as a reply in {wrapping.format('…')}"
            yield Attempt(answer.name, place, {"reply": wrapping.format(answer.text)})
        yield Attempt(answer.name, "as a reply that is no call", {"failure": answer.text})


def echoes() -> Iterator[Attempt]:
    """Say the prompt again."""
    for wrapping in WRAPPINGS:
        yield Attempt("the prompt itself", f"as a reply in {wrapping.format('…')}", {"echo": wrapping})


def calls(schemas: Sequence[Mapping[str, Any]], answers: Sequence[Answer]) -> Iterator[Attempt]:
    """Hand each answer to every parameter of every tool, the others being plain; and make calls that fit no tool."""
    for schema in schemas:
        function = schema["function"]
        name, properties = function["name"], function["parameters"].get("properties", {})
        plain = {parameter: _plain(about) for parameter, about in properties.items()}
        for parameter, about in properties.items():
            for kind in _kinds(about):
                for answer, value, never_right in values_for(kind, list(answers)):
                    move = {"call": name, "arguments": {**plain, parameter: value}}
                    yield Attempt(answer, f"as {name}({parameter})", move, never_right)
        yield Attempt("no argument", f"to {name}", {"call": name, "arguments": {}}, not properties)
        yield Attempt("too many arguments", f"to {name}", {"call": name, "arguments": {**plain, "": "", "surplus\x00": []}})
        wrong = {parameter: {"a": None} for parameter in properties}
        yield Attempt("arguments of a wrong type", f"to {name}", {"call": name, "arguments": wrong}, never_right=False)
    for name in ("", "__class__", "__init__", "finish", "score", "close", "reset", "no_such_tool", "\x00"):
        yield Attempt(f"a call of {name!r}", "", {"call": name, "arguments": {"value": "1"}}, never_right=False)


def _kinds(about: Mapping[str, Any]) -> Sequence[str]:
    kind = about.get("type", "string")
    return (kind,) if isinstance(kind, str) else tuple(kind)


def _plain(about: Mapping[str, Any]) -> Any:
    if about.get("enum"):
        return about["enum"][0]
    return PLAIN_VALUES.get(next(iter(_kinds(about)), "string"))
