"""What a tokenizer and its template do, in words, and what the codec therefore does: for people, one property at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from rosellm.roserlhf.codec.chat import ChatCodec
from rosellm.roserlhf.codec.probes import FOLLOW_UPS, KINDS, QUESTION_ALONE, ReplyKind, reply_of
from rosellm.roserlhf.codec.protocol import PrefixBreak
from rosellm.roserlhf.trajectory import Message

Worth = Literal["good", "note", "problem"]
"""`good`: as one wishes. `note`: worth knowing, nothing to do. `problem`: something will not work as it stands."""


@dataclass(frozen=True)
class Described:
    """One property."""

    name: str
    found: str
    """What the tokenizer or its template does."""
    so: str
    """What the codec, or the user, therefore does."""
    worth: Worth = "good"


@dataclass(frozen=True, kw_only=True)
class TokenizerFacts:
    """What a tokenizer says of itself."""

    size: int
    """Ids, from 0."""
    eos: str | None
    bos: str | None
    pad: str | None
    logits: int | None
    """Of the model that it belongs to; None if that is not known."""
    clock: bool
    """The template asks for the date."""


def described(codec: ChatCodec, facts: TokenizerFacts) -> list[Described]:
    """Describe a tokenizer that the codec serves."""
    return [
        *_ends(codec, facts),
        *(_prefix(codec, role) for role in FOLLOW_UPS),
        *_messages(codec),
        *_calls(codec),
        *_vocabulary(facts),
        *_date(facts),
    ]


def kinds(found: frozenset[ReplyKind]) -> str:
    """List kinds of replies."""
    return "all replies" if found == frozenset(KINDS) else f"{' and '.join(k for k in KINDS if k in found) or 'no'} replies"


def _ends(codec: ChatCodec, facts: TokenizerFacts) -> Iterator[Described]:
    form = codec.properties
    stops = ", ".join(codec.text([i]) for i in codec.stop_ids)
    found = f"the template ends a reply with {' or '.join(form.stops)}" if form.stops else "the template ends a reply with no token"
    found += f"; eos is {facts.eos}" if facts.eos else "; there is no eos"
    worth: Worth = "good" if form.stops else "problem"
    yield Described("end of a turn", found, f"generation stops at {stops}; the one that was sampled is trained", worth)
    if form.stops:
        so = "appended after the reply with mask 0" if form.glue else "nothing to append"
        yield Described("glue", f"{form.glue!r} stands between that token and the next message" if form.glue else "none", so)
    yield Described("assistant spans locatable", f"yes: after {form.prompt!r}", "replies are found in the rendering, once each")
    where = {
        "text": "in the text of the reply",
        "opened": f"in the text of the reply, behind {form.form.opener!r}, which the generation prompt says",
        "field": "in a field of their own",
    }
    yield Described("thoughts", where[form.form.reasoning], "replies are handed to the template so")


def _prefix(codec: ChatCodec, role: str) -> Described:
    form = codec.properties
    name = {"tool": "prefix-extending after tool results", "user": "prefix-extending after user messages"}[role]
    if role in form.refuses:
        return Described(name, f"cannot follow: {form.refuses[role]}", f"a message of role {role!r} is an error", "problem")
    kept = form.keeps[role]
    lost = [kind for kind in KINDS if kind not in kept]
    if not lost:
        return Described(name, "yes: every reply stands as it was sampled", f"the episode stays one record{_cost(codec, role)}")
    why = "; ".join(f"{kind}: {_why(codec, kind, role)}" for kind in lost)
    so = "a rewritten reply ends the record; a child of kind `rewrite` goes on from the template's own prompt"
    worth: Worth = "note" if "plain" in kept or "reasoning" in kept else "problem"
    return Described(name, f"{kinds(kept)} stand as they were sampled; the template rewrites {why}", so + _cost(codec, role), worth)


def _why(codec: ChatCodec, kind: ReplyKind, role: str) -> str:
    """Let the codec meet such a reply, and say what it calls the break."""
    ids = codec.reply(reply_of(kind))
    context = [i for span in codec.render(QUESTION_ALONE) for i in span.token_ids]
    messages = [*QUESTION_ALONE, Message("assistant", codec.reply_text(ids))]
    found = codec.extend([*context, *ids], messages, [FOLLOW_UPS[role]])
    return found.cause if isinstance(found, PrefixBreak) else "spelled otherwise"


def _cost(codec: ChatCodec, role: str) -> str:
    if role not in codec.properties.local:
        return "; what follows depends on what came before, so all of it is rendered each turn"
    return "" if role in codec.properties.local_with_tools else "; with tools, all of it is rendered each turn"


def _messages(codec: ChatCodec) -> Iterator[Described]:
    form = codec.properties
    if form.system == "shown":
        yield Described("system messages", "shown", "rendered as they are")
    elif form.system == "default":
        yield Described("system messages", "shown; without one the template writes its own", "begin with one of your own", "note")
    else:
        yield Described("system messages", f"not possible: {form.system}", "an error; put it into the user's message", "note")
    changed = [f"{role}s trimmed" for role in sorted(form.trims)] + [f"{role}s as JSON strings" for role in sorted(form.quotes)]
    so = "control tokens in them are marked before the template sees them, so that they stay text"
    yield Described("contents", ", ".join(changed) or "as they are", so)
    if form.form.parts:
        yield Described("content form", "a list of parts", "text is handed over as one part; images are refused", "note")


def _calls(codec: ChatCodec) -> Iterator[Described]:
    calls = codec.properties.calls
    if codec.properties.shows_tools:
        yield Described("tools", "listed in the prompt", "schemas are handed to the template")
    else:
        yield Described("tools", "not shown", "a run tells of them in the system message, unless model.tell_tools is off", "note")
    if not calls.text:
        yield Described("call format", "none in the template", f"calls are read and written as {codec.calls.name}", "note")
        return
    shown = " ".join(calls.text.split())
    yield Described(
        "call format", shown, f"read and written as {codec.calls.name}", "note" if calls.format == "function" else "good"
    )
    stays = "a call keeps its text when it is rendered anew"
    other = "a server that renders parsed calls anew changes their text: keep ids, as the codec does"
    yield Described("stable calls", *(("yes", stays, "good") if calls.stable else ("no", other, "note")))


def _vocabulary(facts: TokenizerFacts) -> Iterator[Described]:
    if facts.pad is None:
        yield Described("pad", "none", "none is needed: masks come from lengths")
    elif facts.pad == facts.eos:
        yield Described(
            "pad", f"{facts.pad}, the same as eos", "no mask comes from comparing ids with pad: the sampled eos is trained"
        )
    else:
        yield Described("pad", f"{facts.pad}, apart from eos", "never compared with")
    yield Described("bos", facts.bos or "none", "only where the template writes it")
    if facts.logits is None:
        yield Described("vocabulary", f"{facts.size:,} ids; the model's logits are not known here", "nothing to do")
    elif facts.logits == facts.size:
        yield Described("vocabulary", f"{facts.size:,} ids, and as many logits", "nothing to do")
    elif facts.logits > facts.size:
        found = f"{facts.size:,} ids, {facts.logits:,} logits"
        so = "the logits beyond stand for no text: they are cut off, in sampling and in learning"
        yield Described("vocabulary", found, so, "note")
    else:
        found = f"{facts.size:,} ids, {facts.logits:,} logits"
        yield Described("vocabulary", found, "some tokens have no logit: this tokenizer does not belong to the model", "problem")


def _date(facts: TokenizerFacts) -> Iterator[Described]:
    if facts.clock:
        so = "a prompt rendered tomorrow has other ids; records keep theirs"
        yield Described("date", "the template writes today's date", so, "note")
