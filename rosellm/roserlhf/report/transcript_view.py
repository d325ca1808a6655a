"""One rollout, token by token: `Transcript -> markup` in which role, masks, log-probability and fate of every token can be seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from rosellm.roserlhf.report import units
from rosellm.roserlhf.report.markup import Html, join, tag, text

Outcome: TypeAlias = Literal["success", "failure", "unscored"]
SHOWN_TOKENS = 1200
"""Tokens shown of one rollout; of a longer one the middle is left out, with a line that says how much."""
EVALUATION = "evaluate-"
"""Phases of held-out episodes begin so; the mode follows."""
SHADES = 7
FULL_SHADE = 3.5
"""Surprise (-log-probability, nats) at which the shade is full: a token the policy gave 3 %."""


@dataclass(frozen=True)
class Token:
    """One token of the record."""

    token_id: int
    text: str
    policy: bool = False
    """`policy_mask`: the policy of this record sampled it."""
    content: bool = True
    """`content_mask`: body, not scaffold."""
    logprob: float | None = None
    """Behaviour log-probability, of sampled tokens."""
    excluded: str | None = None
    """Why a sampled token was not trained."""
    trained: bool = False
    """Whether the ledger says that it was trained; neither trained nor excluded means that the ledger does not say."""


@dataclass(frozen=True)
class Block:
    """Consecutive tokens of one role."""

    role: str
    place: str
    """Where in the record: `prompt`, `turn 0 · action`, `turn 0 · observation`."""
    tokens: tuple[Token, ...]
    notes: tuple[str, ...] = ()
    """What the record says beside the tokens: stop reason, tool results, rewards."""


@dataclass(frozen=True)
class Transcript:
    """One rollout as it is shown."""

    trajectory_id: str
    task_id: str
    phase: str
    step: int
    outcome: Outcome
    rewards: dict[str, float | None] = field(default_factory=dict)
    """Named components, summed over the turns; None where not scored."""
    advantage: float | tuple[float, ...] | None = None
    """Of the rollout, or of each of its turns."""
    fate: str = units.NOT_RECORDED
    """`trained`, `excluded: reason`, or not recorded."""
    ended: str = units.NOT_RECORDED
    versions: tuple[str, ...] = ()
    blocks: tuple[Block, ...] = ()

    @property
    def tokens(self) -> list[Token]:
        """All tokens in order."""
        return [token for block in self.blocks for token in block.tokens]


def transcript_view(transcript: Transcript, *, opened: bool) -> Html:
    """Write one rollout as a foldable block."""
    tokens = transcript.tokens
    sampled = sum(token.policy for token in tokens)
    words = [f"task {transcript.task_id}", _rewards(transcript)]
    if not transcript.phase.startswith(EVALUATION):  # a held-out episode has none
        words.append(f"advantage {units.advantage(transcript.advantage, '+.3f') or units.NOT_RECORDED}")
    words.append(f"{sampled} of {len(tokens)} tokens sampled")
    head = tag(
        "summary",
        tag("span", transcript.outcome, class_=f"chip {transcript.outcome}"),
        tag("b", f"{transcript.phase} step {transcript.step}"),
        text(" " + " · ".join(words)),
    )
    facts = [
        ("trajectory", transcript.trajectory_id),
        ("ended", transcript.ended),
        ("fate", transcript.fate),
        ("policy version", ", ".join(transcript.versions) or units.NOT_RECORDED),
    ]
    line = tag("p", " · ".join(f"{name}: {value}" for name, value in facts), class_="soft small")
    return tag("details", head, line, *_blocks(transcript.blocks), class_="transcript", open=opened)


def _rewards(transcript: Transcript) -> str:
    if not transcript.rewards:
        return f"reward {units.NOT_RECORDED}"
    return ", ".join(
        f"{name} {'not scored' if value is None else units.number(value, 3)}" for name, value in transcript.rewards.items()
    )


def _blocks(blocks: Sequence[Block]) -> list[Html]:
    total, seen, parts = sum(len(block.tokens) for block in blocks), 0, []
    head, tail = (total, total) if total <= SHOWN_TOKENS else (SHOWN_TOKENS * 2 // 3, total - SHOWN_TOKENS // 3)
    told = False
    for block in blocks:
        shown: list[Html] = []
        for token in block.tokens:
            if seen < head or seen >= tail:
                shown.append(token_view(token))
            elif not told:
                shown.append(tag("em", f" … {tail - head:,} tokens in the middle are not shown here … ", class_="soft"))
                told = True
            seen += 1
        if shown or not block.tokens:
            parts.append(_block(block, shown))
    return parts


def _block(block: Block, shown: list[Html]) -> Html:
    notes = tag("div", " · ".join(block.notes), class_="small") if block.notes else None
    body = tag("p", *shown, class_="tokens") if block.tokens else None if block.notes else tag("p", "no tokens", class_="missing")
    return tag("div", tag("div", tag("b", block.role), block.place, class_="role"), body, notes, class_="turn")


def token_view(token: Token) -> Html:
    """Write one token: shade = surprise, underline = fate, dotted frame = scaffold, everything again in words as its tooltip."""
    classes, words = ["t"], [f"id {token.token_id}"]
    if token.policy:
        classes.append("p")
        fate = "trained" if token.trained else f"excluded: {token.excluded}" if token.excluded else "sampled, fate not recorded"
        classes += [] if token.trained else ["x"] if token.excluded else ["u"]
        words.append(f"policy_mask 1, {fate}")
        if token.logprob is not None:
            shade = round(SHADES * min(1.0, -token.logprob / FULL_SHADE))
            classes += [f"s{shade}"] if shade else []
        words.append(f"behaviour log-probability {units.number(token.logprob)}")
    else:
        words.append("policy_mask 0, context")
    if not token.content:
        classes.append("f")
        words.append("scaffold (content_mask 0)")
    shown = tag("span", _shown(token.text), class_=" ".join(classes), title="\n".join(words))
    return join([shown, tag("br")]) if token.text.endswith("\n") else shown


def _shown(value: str) -> Html:
    """Put a visible mark where the line breaks are, and break inside the token only where text follows."""
    body = value.rstrip("\n")
    inner = [part for line in body.split("\n") for part in (text(line), text("↵"), tag("br"))][:-2]
    return join([*inner, text("↵" * (len(value) - len(body)))]) if value else text("⟨empty⟩")


def legend() -> Html:
    """Explain the marks of `token_view` with tokens drawn by it."""
    samples = [
        (Token(0, "shop", content=True), "context: policy_mask 0, never trained"),
        (Token(0, "<tag>", content=False), "scaffold: content_mask 0 (template, not body)"),
        (Token(0, "sure", policy=True, logprob=-0.01, trained=True), "sampled and trained: policy_mask 1, solid underline"),
        (Token(0, "doubt", policy=True, logprob=-3.5, trained=True), "darker = less likely under the behaviour policy"),
        (Token(0, "out", policy=True, logprob=-0.4, excluded="reason"), "sampled but excluded under a named reason: dashed"),
        (Token(0, "open", policy=True, logprob=-0.4), "sampled, fate not recorded: dotted"),
    ]
    return tag(
        "ul",
        *(tag("li", tag("span", token_view(token)), meaning) for token, meaning in samples),
        class_="key",
        aria_label="Legend of the tokens",
    )


def section(transcripts: Sequence[Transcript], note: str) -> Html:
    """Write the section of all chosen rollouts; the first success and the first failure are open."""
    opened = {
        next((index for index, one in enumerate(transcripts) if one.outcome == outcome), None) for outcome in ("success", "failure")
    }
    views = [transcript_view(one, opened=index in opened) for index, one in enumerate(transcripts)]
    missing = None if views else tag("p", units.NOT_RECORDED, class_="missing box")
    key = legend() if views else None
    return tag("section", tag("h2", "Transcripts"), tag("p", note, class_="lead"), key, missing, *views, id="transcripts")
