"""The short conversations by which a chat template is examined, one question each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal, get_args

from rosellm.roserlhf import checks
from rosellm.roserlhf.codec.layout import placeholder
from rosellm.roserlhf.codec.markup import Standing
from rosellm.roserlhf.codec.template import QUESTION, REPLY, Template
from rosellm.roserlhf.errors import TemplateError
from rosellm.roserlhf.trajectory import Message

ReplyKind = Literal["plain", "padded", "reasoning"]
"""`plain`: a word. `padded`: a word between blanks. `reasoning`: thoughts before the answer, however the template spells them."""
KINDS: tuple[ReplyKind, ...] = get_args(ReplyKind)
FOLLOW_UPS: Mapping[str, Message] = {"tool": Message("tool", "t", "search", "call-0"), "user": Message("user", "u")}
"""What may follow a reply."""
WRITTEN = ("system", "user", "tool")
"""Roles of messages that no policy writes."""
_THOUGHTS = (
    "<think>\nr\n</think>\n\ny",
    "<think>\nr\n</think>\ny",
    "<think>r</think>y",
    "\n<think>r</think>\ny",
    "r\n</think>\n\ny",
    "r\n</think>\ny",
    "r</think>y",
)
_LAST_REPLIES = ("y", " y ", *_THOUGHTS[:1], *_THOUGHTS[4:5])
_NO_THOUGHTS = ("", "</think>", "\n</think>\n\n", "\n<think></think>\n", "<think>\n\n</think>\n\n")
QUESTION_ALONE = (QUESTION,)
"""The conversation before such a reply."""
_THINK = "<think>"
_SAID = placeholder(0)


def reply_of(kind: ReplyKind) -> str:
    """Return a reply of a kind, as most templates spell it."""
    return {"plain": "y", "padded": " y ", "reasoning": _THOUGHTS[0]}[kind]


def header(template: Template) -> str:
    """Return what the template writes between generation prompt and reply.

    Raises:
        TemplateError: it does not write the reply exactly once.
    """
    text = template.text([QUESTION, Message("assistant", REPLY)], prompt=False).text
    if text.count(REPLY) != 1:
        raise checks.fail(TemplateError, "chat template", "write a reply once", f"{text.count(REPLY)} times")
    before = text.partition(REPLY)[0]
    return before.removeprefix(template.opening.text) if before.startswith(template.opening.text) else ""


def takes_its_header(template: Template, said_before: str) -> bool:
    """Tell whether a reply that begins with the control tokens of its header is not given a second one, or refused."""
    spelled = template.markup.spell(Standing(said_before))
    if spelled == said_before:
        return True
    text = _or_nothing(template, [QUESTION, Message("assistant", spelled + REPLY)], prompt=False)
    return text.startswith(template.opening.text + said_before + REPLY)


def generation_prompt(template: Template) -> str:
    """Return what the template writes after a user's message to open the assistant's turn."""
    said = Message("user", _SAID)
    closed = _or_nothing(template, [said], prompt=False)
    text = template.text([said]).text
    return text[common(text, closed) :] if closed else text.partition(_SAID)[2]


def opener(template: Template) -> str:
    """Return `<think>` and the blanks behind it, if the generation prompt ends so."""
    text = template.markup.spell(template.opening)
    return text[text.rfind(_THINK) :] if text.rstrip().endswith(_THINK) else ""


def refusal(template: Template, role: str) -> str | None:
    """Say why a message of that role cannot follow a reply; None if it can."""
    said = replace(FOLLOW_UPS[role], content=_SAID)
    try:
        text = template.text([QUESTION, Message("assistant", REPLY), said]).text
    except TemplateError as error:
        return str(error)
    return None if _SAID in text else "it is left out"


def stops(template: Template, accepted: Sequence[str]) -> tuple[tuple[str, ...], str]:
    """Find the control tokens that end a reply, and the blanks between them and the next message."""
    reply = Message("assistant", REPLY)
    token, glue = _after_reply(template, template.text([QUESTION, reply], prompt=False))
    if token:
        return (token,), glue
    # where nothing closes a reply, what opens the next message does
    found = [_after_reply(template, template.text([QUESTION, reply, FOLLOW_UPS[role]]))[0] for role in accepted]
    return tuple(dict.fromkeys(token for token in found if token)), ""


def _after_reply(template: Template, rendered: Standing) -> tuple[str, str]:
    tail = rendered.text.partition(REPLY)[2]
    controls = template.markup.standing(Standing(tail))
    if not controls or tail[: controls[0][0]].strip():
        return "", ""
    rest = tail[controls[0][0] + 1 :]
    return controls[0][1], rest[: len(rest) - len(rest.lstrip())]


def kept(template: Template, role: str, ends: Sequence[str]) -> frozenset[ReplyKind]:
    """Find the kinds of replies that stand as they were sampled when a message of that role follows."""
    spellings = {"plain": [f"{before}y" for before in _NO_THOUGHTS], "padded": [" y "], "reasoning": _THOUGHTS}
    return frozenset(kind for kind in KINDS if any(_stands(template, reply, role, ends) for reply in spellings[kind]))


def lead(template: Template, roles: Sequence[str], ends: Sequence[str]) -> str:
    """Return what a reply without thoughts has to begin with so that it stands: nothing, or thoughts that are empty."""
    fits = (before for before in _NO_THOUGHTS if any(_stands(template, f"{before}y", role, ends) for role in roles))
    return next(fits, "")


def _stands(template: Template, reply: str, role: str, ends: Sequence[str]) -> bool:
    spell = template.markup.spell
    text = spell(template.text([QUESTION, Message("assistant", reply), FOLLOW_UPS[role]]))
    return text.startswith(tuple(spell(template.opening) + reply + end for end in ends or ("",)))


def is_local(template: Template, role: str) -> bool:
    """Tell whether what follows a reply is the same after a longer conversation, and changes nothing in it."""
    spell = template.markup.spell
    begun = spell(template.opening)
    others = [other for other in FOLLOW_UPS if refusal(template, other) is None]
    for last in _LAST_REPLIES:
        new = [Message("assistant", last), FOLLOW_UPS[role]]
        short = spell(template.text([QUESTION, *new]))
        for first, other in ((first, other) for first in _LAST_REPLIES for other in others):
            past = [QUESTION, Message("assistant", first), FOLLOW_UPS[other]]
            try:
                long, before = spell(template.text([*past, *new])), spell(template.text(past))
            except TemplateError:
                return False
            stands = short.startswith(begun + last)
            if stands != long.startswith(before + last) or (stands and short[len(begun) :] != long[len(before) :]):
                return False
    return True


def is_local_beside(template: Template, other: Template, role: str) -> bool:
    """Tell whether a template that is local shows what follows a reply as the other one does, tools in its prompt for example."""
    spell = template.markup.spell
    try:
        if not is_local(other, role):
            return False
        begun = [(one, spell(one.opening)) for one in (template, other)]
        for reply in _LAST_REPLIES:
            new = [QUESTION, Message("assistant", reply), FOLLOW_UPS[role]]
            mine, theirs = ((spell(one.text(new)), opening) for one, opening in begun)
            stands = mine[0].startswith(mine[1] + reply)
            if stands != theirs[0].startswith(theirs[1] + reply) or (stands and _rest(*mine) != _rest(*theirs)):
                return False
    except TemplateError:
        return False
    return True


def _rest(text: str, before: str) -> str:
    return text[len(before) :]


def trims(template: Template, role: str) -> bool:
    """Tell whether contents of that role are trimmed."""
    text = _or_nothing(template, _ending_with(role, f" {_SAID} "))
    return _SAID in text and f" {_SAID} " not in text


def quotes(template: Template, role: str) -> bool:
    """Tell whether contents of that role are written as JSON strings."""
    return f'{_SAID}\\"' in _or_nothing(template, _ending_with(role, f'{_SAID}"'))


def system(template: Template) -> str:
    """Say what becomes of a system message: `shown`, `default` if it replaces one of the template's own, or why it cannot be."""
    try:
        text = template.text([Message("system", _SAID), QUESTION]).text
    except TemplateError as error:
        return str(error)
    if _SAID not in text:
        return "it is left out"
    before, _, after = text.partition(_SAID)
    without = template.opening.text
    replaced = without.startswith(before) and without.endswith(after) and len(without) > len(before) + len(after)
    return "default" if replaced else "shown"


def common(one: str, other: str) -> int:
    """Return how many characters two texts begin with alike."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (left, right) in pairs if left != right), min(len(one), len(other)))


def _ending_with(role: str, content: str) -> list[Message]:
    before = [QUESTION, Message("assistant", "y")] if role == "tool" else []
    after = [QUESTION] if role == "system" else []
    return [*before, Message(role, content, "search", "call-0"), *after]


def _or_nothing(template: Template, messages: list[Message], *, prompt: bool = True) -> str:
    try:
        return template.text(messages, prompt=prompt).text
    except TemplateError:
        return ""
