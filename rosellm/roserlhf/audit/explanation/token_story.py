"""A record and what became of it -> one `TokenStory` for every token of its row: role, mask, and why it is in the loss or not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from rosellm.roserlhf.record.exclusion import STALE
from rosellm.roserlhf.report.token_fate import Fate, blocked_places, own_reason
from rosellm.roserlhf.report.vocabulary import Vocabulary
from rosellm.roserlhf.trajectory import CopySpan, PolicyAction, TokenSpan, Trajectory


@dataclass(frozen=True)
class TokenStory:
    """One token of a row, whatever update it took part in."""

    position: int
    """Place in the row, from 0; the row ends with the last sampled token."""
    token_id: int
    """Its id."""
    text: str | None
    """What the id stands for; None where the run's tokenizer could not be read."""
    role: str
    """Of its message; `assistant` where the policy sampled it."""
    content: bool
    """Content mask: body, not scaffold."""
    sampled: bool
    """Policy mask: sampled by the policy in this record."""
    trained: bool | None
    """Loss mask; None where the log does not say."""
    why: str
    """Why it is in or out of the loss."""
    turn: int | None
    """Turn of its action, or of the action that its observation answers; None in the prompt."""
    version: str | None = None
    """Policy version that sampled it."""
    prefix_cache: str | None = None
    """`recomputed`, or `stale` where keys and values of an older version stood before it."""
    behaviour_logprob: float | None = None
    """Recorded by the sampler; None for context."""
    guard: str | None = None
    """What the guard did about the call that it is part of; None if it did not look twice at it."""


def token_stories(
    trajectory: Trajectory,
    *,
    fate: Fate | None,
    outside: str | None,
    vocabulary: Vocabulary | None,
    context: Sequence[TokenSpan] | None = None,
) -> tuple[TokenStory, ...]:
    """Tell every token of a record's row.

    Args:
        trajectory: the record.
        fate: the last ledger event of the attempt; None if the ledger has none.
        outside: why the whole record has no part in any policy loss (an evaluation, for example); None if it may have.
        vocabulary: of the run; None if it could not be read.
        context: everything in front of its first action, where part of that stands in other records. None: its own prompt; what it
            copies is not among its tokens then.
    """
    told: list[TokenStory] = []
    blocked = blocked_places(trajectory)
    end = 0
    turn: int | None = None
    own = trajectory.spans() if context is None else islice(trajectory.spans(), len(trajectory.prompt), None)
    for span in (*(context or ()), *own):
        if isinstance(span, CopySpan):
            continue
        if isinstance(span, PolicyAction):
            turn = span.turn
            told += _sampled(span, len(told), fate, outside, vocabulary, blocked.get(span.turn, frozenset()))
            end = len(told)
        else:
            told += _context(span, len(told), turn, vocabulary)
    return tuple(told[:end])


def _context(span: TokenSpan, first: int, turn: int | None, vocabulary: Vocabulary | None) -> Iterator[TokenStory]:
    source = "sampled by a policy in another record, " if span.policy else ""
    content = span.content_mask or [True] * len(span.token_ids)
    for index, (token_id, body) in enumerate(zip(span.token_ids, content, strict=True)):
        why = f"{source}context of role {span.role}" + ("" if body else ", scaffold")
        yield TokenStory(first + index, token_id, _text(token_id, vocabulary), span.role, body, False, False, why, turn)


def _sampled(
    action: PolicyAction,
    first: int,
    fate: Fate | None,
    outside: str | None,
    vocabulary: Vocabulary | None,
    blocked: frozenset[int],
) -> Iterator[TokenStory]:
    spans = [span for span in action.version_spans for _ in range(span.start, span.end)]
    columns = zip(action.token_ids, action.old_logprobs, spans, strict=True)
    for index, (token_id, logprob, span) in enumerate(columns):
        trained, why = _placed(own_reason(span.prefix_cache == "stale", index in blocked), fate, outside)
        yield TokenStory(
            position=first + index,
            token_id=token_id,
            text=_text(token_id, vocabulary),
            role="assistant",
            content=True,
            sampled=True,
            trained=trained,
            why=why,
            turn=action.turn,
            version=span.version,
            prefix_cache=span.prefix_cache,
            behaviour_logprob=logprob,
        )


def _placed(own: frozenset[str], fate: Fate | None, outside: str | None) -> tuple[bool | None, str]:
    """Say whether a sampled token is in the loss, and why."""
    if outside is not None:
        return False, f"sampled; {outside}"
    if fate is None:
        return None, "sampled; the ledger does not know this attempt"
    if STALE in own and fate.entry.state in ("trained", "rejected"):
        return False, f"sampled; excluded: {STALE}"
    trained, reason = fate.of_token(own)
    if trained:
        return True, "sampled and trained"
    if reason is not None:
        return False, f"sampled; excluded: {reason}"
    if fate.entry.state == "trained":
        return None, "sampled; the ledger counts excluded tokens but does not say which"
    return False, f"sampled; not trained (yet): the attempt is {fate.entry.state}"


def _text(token_id: int, vocabulary: Vocabulary | None) -> str | None:
    return None if vocabulary is None else vocabulary.texts.get(token_id)
