"""What the policy sampled in one turn: `ids + behaviour log-probabilities + versions -> PolicyAction`."""

from __future__ import annotations

import math
import sys
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Literal

from rosellm.roserlhf.checks import fail
from rosellm.roserlhf.errors import RecordError
from rosellm.roserlhf.record import plain
from rosellm.roserlhf.record.calls import ParsedAction, ParseFailure
from rosellm.roserlhf.record.plain import Json
from rosellm.roserlhf.record.spans import SamplingParameters, VersionSpan

StopReason = Literal["stop", "length", "interrupted"]
"""`stop`: the policy ended its turn. `length`: a budget cut it. `interrupted`: the generation was cut and is to be continued."""

_set = object.__setattr__


@dataclass(frozen=True, slots=True)
class PolicyAction:
    """What the policy sampled in one turn.

    At least one token: a policy that says nothing still samples its stop token, and a generation cut before its first token is no
    action (the continuation child begins with it).

    Example:
        >>> action = PolicyAction(0, [11, 12, 2], [-0.1, -0.5, -0.01], "v7", "hi", stop_reason="stop")
        >>> action.version_spans
        (VersionSpan(start=0, end=3, version='v7', prefix_cache='recomputed'),)
    """

    turn: int
    """Absolute turn."""
    token_ids: Sequence[int]
    """Sampled ids, the stop token included."""
    old_logprobs: Sequence[float]
    """Behaviour log-probability of each id, under the distribution really sampled from (after temperature and truncation)."""
    policy_version: str
    """Version of the oldest span, which is the first: versions only move forward while a reply is generated."""
    text: str
    """Decoded ids, for reading; never encoded again."""
    parsed_action: ParsedAction | ParseFailure | Json = None
    """The parsed reply, a parse failure, any JSON value, or None when nothing was parsed."""
    _: KW_ONLY
    version_spans: Sequence[VersionSpan] = ()
    """Spans that tile the ids; `()` means one span of `policy_version` over all of them."""
    sampling: SamplingParameters | None = None
    """How it was sampled; None if unknown."""
    kept_support: Sequence[Sequence[int] | None] | None = None
    """Per token, the ids that truncation kept (the sampled one among them), None for all; None if not recorded."""
    stop_reason: StopReason | None = None
    """Why the generation ended; None if unknown."""
    continues_action: bool = False
    """True in the first action of a continuation that goes on with the parent's cut action."""
    sidecars: Mapping[str, bytes] = plain.EMPTY
    """Opaque data aligned with the ids, the same number of bytes per token (expert routing, grammar masks)."""
    images: Sequence[str] = ()
    """References to images, kept opaque."""
    timing: Mapping[str, float] = plain.EMPTY
    """Seconds (or integer nanoseconds) by name; not part of the content hash."""
    _packed: array[int] | None = field(init=False, repr=False, compare=False)
    _packed_logprobs: array[float] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        turn = plain.natural(self.turn, "turn")
        ids = plain.token_ids(self.token_ids, "token_ids")
        _set(self, "turn", turn)
        _set(self, "token_ids", ids)
        _set(self, "_packed", plain.packed(ids))
        _set(self, "old_logprobs", _logprobs(self.old_logprobs, len(ids), turn))
        _set(self, "_packed_logprobs", plain.packed_floats(self.old_logprobs))  # type: ignore[arg-type]
        if not ids:
            raise fail(RecordError, "token_ids", "hold at least one sampled token", f"none at turn {turn}")
        plain.name(self.policy_version, "policy_version")
        plain.text(self.text, "text")
        if self.parsed_action is not None and not isinstance(self.parsed_action, (ParsedAction, ParseFailure)):
            _set(self, "parsed_action", plain.json_value(self.parsed_action, "parsed_action"))
        _set(self, "version_spans", self._tiled() if self.version_spans else (VersionSpan(0, len(ids), self.policy_version),))
        self._check_optional_fields(len(ids))

    @property
    def packed_ids(self) -> array[int] | None:
        """The ids as machine integers, as narrow as they can be (`plain.packed`); None if one is ≥ 2**63."""
        return self._packed

    @property
    def packed_logprobs(self) -> array[float]:
        """The behaviour log-probabilities as machine numbers, `array('d')`."""
        return self._packed_logprobs

    def _tiled(self) -> tuple[VersionSpan, ...]:
        spans: tuple[VersionSpan, ...] = plain.records(self.version_spans, "version_spans", VersionSpan)
        edges = [0, *(s.end for s in spans)]
        if [s.start for s in spans] != edges[:-1] or edges[-1] != len(self.token_ids):
            got = [(s.start, s.end) for s in spans]
            raise fail(RecordError, "version_spans", f"tile the {len(self.token_ids)} token_ids without gap or overlap", got)
        if spans[0].version != self.policy_version:
            raise fail(
                RecordError, "policy_version", f"be the oldest span's version {spans[0].version!r}", repr(self.policy_version)
            )
        return spans

    def _check_optional_fields(self, count: int) -> None:
        plain.flag(self.continues_action, "continues_action")
        if self.sampling is not None and not isinstance(self.sampling, SamplingParameters):
            raise fail(RecordError, "sampling", "be SamplingParameters", plain.shown(self.sampling))
        if self.stop_reason is not None:
            plain.one_of(self.stop_reason, "stop_reason", StopReason)
        if self.kept_support is not None:
            _set(self, "kept_support", _support(self.kept_support, self.token_ids))
        if isinstance(self.parsed_action, (ParsedAction, ParseFailure)):
            _check_call_spans(self.parsed_action, count)
        if self.sidecars is not plain.EMPTY:
            _set(self, "sidecars", plain.mapping(self.sidecars, "sidecars", plain.opaque))
            for name, data in self.sidecars.items():
                if len(data) % count:
                    raise fail(
                        RecordError, f"sidecars[{name!r}]", f"hold the same number of bytes for each of {count} tokens", len(data)
                    )
        _set(self, "images", plain.records(self.images, "images", str))
        _set(self, "timing", plain.mapping(self.timing, "timing", plain.seconds))


def _logprobs(values: Any, count: int, turn: int) -> tuple[float, ...]:
    logprobs = plain.sequence(values, "old_logprobs")
    if len(logprobs) != count:
        rule = "hold one behaviour log-probability for every sampled token"
        raise fail(RecordError, "old_logprobs", rule, f"{len(logprobs)} for {count} token_ids at turn {turn}")
    # The usual case in C: a NaN or an infinity anywhere would survive the sum.
    if count and {*map(type, logprobs)} == {float} and max(logprobs) <= 0.0 and math.isfinite(sum(logprobs)):
        return logprobs
    return tuple(_logprob(v, f"old_logprobs[{i}] of turn {turn}") for i, v in enumerate(logprobs))


def _logprob(value: Any, argument: str) -> float:
    number = plain.native(value)
    if type(number) not in (int, float) or not -sys.float_info.max <= number <= 0:
        fix = "the engine must give the log-probability of each token it samples, a stand-in such as 0.0 would claim certainty"
        raise fail(RecordError, argument, "be a finite number ≤ 0", plain.shown(value), fix=fix)
    return float(number)


def _support(values: Any, ids: Sequence[int]) -> tuple[tuple[int, ...] | None, ...]:
    rows = plain.sequence(values, "kept_support")
    if len(rows) != len(ids):
        raise fail(RecordError, "kept_support", f"hold one entry for each of {len(ids)} tokens", len(rows))
    kept = tuple(None if row is None else plain.token_ids(row, f"kept_support[{i}]") for i, row in enumerate(rows))
    for i, (row, token) in enumerate(zip(kept, ids, strict=True)):
        if row is not None and token not in row:
            raise fail(RecordError, f"kept_support[{i}]", f"hold the sampled id {token}", plain.shown(row))
    return kept


def _check_call_spans(parsed: ParsedAction | ParseFailure, count: int) -> None:
    spans = (
        [parsed.span] if isinstance(parsed, ParseFailure) else [c.span for c in parsed.calls] + [f.span for f in parsed.failures]
    )
    for span in spans:
        if span is not None and span[1] > count:
            raise fail(RecordError, "span", f"lie within the {count} token_ids", span)
