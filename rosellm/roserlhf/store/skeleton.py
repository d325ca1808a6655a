"""The skeleton of a record: `Trajectory -> nested lists + token ids + log-probabilities`, and back through the constructors.

Each class is a list of its fields in the order of :data:`FIELDS`. Every sequence of ids that is part of the row of tokens is
replaced by its length, and behaviour log-probabilities, one per sampled id, are left out: both stand in flat lists, in the order of
:meth:`~rosellm.roserlhf.trajectory.Trajectory.spans`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice, zip_longest
from typing import Any

from rosellm.roserlhf.errors import StoreError
from rosellm.roserlhf.trajectory import (
    SCHEMA_VERSION,
    CopySpan,
    Failure,
    ParentLink,
    ParsedAction,
    ParseFailure,
    PolicyAction,
    SamplingParameters,
    TokenSpan,
    ToolCall,
    ToolResult,
    Trajectory,
    TransitionRecord,
    VersionSpan,
)

FIELDS: dict[type, tuple[str, ...]] = {
    Trajectory: (
        *("prompt", "actions", "transitions", "trajectory_id", "task_id", "environment_version", "tokenizer_hash", "group_id"),
        *("parent", "run_id", "step", "member", "attempt", "initial_state_hash", "seeds", "hashes", "policy_name", "trainable"),
        *("failure", "timing"),
    ),
    PolicyAction: (
        *("token_ids", "parsed_action", "version_spans", "sampling", "turn", "policy_version", "text", "kept_support"),
        *("stop_reason", "continues_action", "sidecars", "images", "timing"),
    ),
    TransitionRecord: (
        *("observation", "results", "turn", "observation_ref", "reward_components", "terminated", "truncated", "state_hash"),
        *("handed_off", "cause", "blame", "timing"),
    ),
    TokenSpan: ("token_ids", "role", "content_mask", "policy", "images"),
    CopySpan: ("record_id", "start", "end"),
    VersionSpan: ("start", "end", "version", "prefix_cache"),
    SamplingParameters: ("temperature", "top_p", "top_k", "min_p", "max_tokens", "seed_key"),
    ParsedAction: ("content", "calls", "failures"),
    ToolCall: ("call_id", "name", "arguments", "span"),
    ParseFailure: ("reason", "call_id", "name", "raw", "span", "cut"),
    ToolResult: ("call_id", "status", "content", "origin", "ref", "attempts", "latency", "source", "guard_event"),
    ParentLink: ("record_id", "turn", "kind"),
    Failure: ("blame", "cause"),
}
"""Fields of each class in the order in which they are stored: a new one goes to the end, and a shorter list has its default."""

_PARSED, _PARSE_FAILURE, _JSON = 1, 2, 3

Fields = Sequence[Any]
"""The values of one record, in the order of its class in `FIELDS`."""

UPGRADES: dict[int, Callable[[Fields], Fields]] = {}
"""By schema version, what turns the fields of a trajectory into those of the next version; 1 is the first and the present one."""


Shown = list[TokenSpan | PolicyAction]
"""Whatever holds ids of the row of tokens, in its order."""


def take_apart(trajectory: Trajectory) -> tuple[Fields, Shown]:
    """Split a record into its skeleton and what holds the ids and log-probabilities of its row of tokens.

    Attribute by attribute, in the order of `FIELDS`: this is the hot path of recording, and twice as fast as anything generic.
    """
    t = trajectory
    row: Shown = []
    prompt = _spans(t.prompt, row)
    actions, transitions = [], []
    for action, transition in zip_longest(t.actions, t.transitions):
        row.append(action)
        actions.append(_action(action))
        if transition is not None:
            transitions.append(_transition(transition, _spans(transition.observation, row)))
    parent, failure = t.parent, t.failure
    fields = (
        prompt,
        actions,
        transitions,
        t.trajectory_id,
        t.task_id,
        t.environment_version,
        t.tokenizer_hash,
        t.group_id,
        None if parent is None else (parent.record_id, parent.turn, parent.kind),
        t.run_id,
        t.step,
        t.member,
        t.attempt,
        t.initial_state_hash,
        t.seeds,
        t.hashes,
        t.policy_name,
        t.trainable,
        None if failure is None else (failure.blame, failure.cause),
        t.timing,
    )
    return fields, row


def _spans(spans: Sequence[TokenSpan | CopySpan], row: Shown) -> list[Fields]:
    values: list[Fields] = []
    for span in spans:
        if isinstance(span, CopySpan):
            values.append((span.record_id, span.start, span.end))
            continue
        mask = span.content_mask
        row.append(span)
        values.append((len(span.token_ids), span.role, None if mask is None else bytes(mask), span.policy, span.images))
    return values


def _action(a: PolicyAction) -> Fields:
    spans, s = a.version_spans, a.sampling
    one = len(spans) == 1 and spans[0].prefix_cache == "recomputed"
    return (
        len(a.token_ids),
        None if a.parsed_action is None else _parsed(a.parsed_action),
        None if one else [(span.start, span.end, span.version, span.prefix_cache) for span in spans],
        None if s is None else (s.temperature, s.top_p, s.top_k, s.min_p, s.max_tokens, s.seed_key),
        a.turn,
        a.policy_version,
        a.text,
        a.kept_support,
        a.stop_reason,
        a.continues_action,
        a.sidecars,
        a.images,
        a.timing,
    )


def _transition(t: TransitionRecord, observation: list[Fields]) -> Fields:
    results = [(r.call_id, r.status, r.content, r.origin, r.ref, r.attempts, r.latency, r.source, r.guard_event) for r in t.results]
    return (
        observation,
        results,
        t.turn,
        t.observation_ref,
        t.reward_components,
        t.terminated,
        t.truncated,
        t.state_hash,
        t.handed_off,
        t.cause,
        t.blame,
        t.timing,
    )


def _parsed(parsed: Any) -> Fields:
    """Say which of the classes it is, since a JSON value may look like any of them."""
    if isinstance(parsed, ParsedAction):
        calls = [(call.call_id, call.name, call.arguments, call.span) for call in parsed.calls]
        return (_PARSED, (parsed.content, calls, list(map(_parse_failure, parsed.failures))))
    if isinstance(parsed, ParseFailure):
        return (_PARSE_FAILURE, _parse_failure(parsed))
    return (_JSON, parsed)


def _parse_failure(f: ParseFailure) -> Fields:
    return (f.reason, f.call_id, f.name, f.raw, f.span, f.cut)


def upgraded(fields: Fields, schema_version: int) -> Fields:
    """Bring the fields of a record of an older schema to the present one: the only place where that happens.

    Raises:
        StoreError: the record is of a newer schema.
    """
    if not 1 <= schema_version <= SCHEMA_VERSION:
        raise StoreError(f"schema_version must be in [1, {SCHEMA_VERSION}], got {schema_version}; upgrade rosellm")
    for version in range(schema_version, SCHEMA_VERSION):
        fields = UPGRADES[version](fields)
    return fields


def put_together(fields: Fields, ids: Sequence[int], logprobs: Sequence[float]) -> Trajectory:
    """Build the record again, through the constructors and sealed.

    Raises:
        RecordError: it breaks a rule of the record.
        StoreError: a field is unknown, or the arrays are longer or shorter than the skeleton says.
        TypeError, ValueError: the lists are no skeleton.
    """
    row, sampled = iter(ids), iter(logprobs)
    values = _named(Trajectory, fields)
    values["prompt"] = [_built_span(span, row) for span in values["prompt"]]
    actions, transitions = [], []
    for action, transition in zip_longest(values["actions"], values["transitions"]):
        actions.append(_built_action(action, row, sampled))
        if transition is not None:
            transitions.append(_built_transition(transition, row))
    values["actions"], values["transitions"] = actions, transitions
    values["parent"] = _built(ParentLink, values["parent"])
    values["failure"] = _built(Failure, values["failure"])
    if next(row, None) is not None or next(sampled, None) is not None:
        raise StoreError("the arrays of a stored record must hold the tokens that its skeleton counts, got more")
    return Trajectory(**values, sealed=True)


def _named(cls: type, values: Fields) -> dict[str, Any]:
    names = FIELDS[cls]
    if len(values) > len(names):
        raise StoreError(f"a stored {cls.__name__} must have at most {len(names)} fields, got {len(values)}; upgrade rosellm")
    return dict(zip(names, values, strict=False))


def _built(cls: type, values: Fields | None) -> Any:
    return None if values is None else cls(**_named(cls, values))


def _taken(count: int, items: Iterator[Any]) -> list[Any]:
    taken = list(islice(items, count))
    if len(taken) != count:
        raise StoreError("the arrays of a stored record must hold the tokens that its skeleton counts, got fewer")
    return taken


def _built_span(values: Fields, row: Iterator[int]) -> TokenSpan | CopySpan:
    if isinstance(values[0], str):
        return CopySpan(**_named(CopySpan, values))
    named = _named(TokenSpan, values)
    mask = named["content_mask"]
    named["content_mask"] = None if mask is None else list(mask)
    return TokenSpan(**{**named, "token_ids": _taken(named["token_ids"], row)})


def _built_action(values: Fields, row: Iterator[int], sampled: Iterator[float]) -> PolicyAction:
    named = _named(PolicyAction, values)
    count = named["token_ids"]
    named["token_ids"], named["old_logprobs"] = _taken(count, row), _taken(count, sampled)
    named["parsed_action"] = _built_parsed(named["parsed_action"])
    named["version_spans"] = [_built(VersionSpan, span) for span in named["version_spans"] or ()]
    named["sampling"] = _built(SamplingParameters, named["sampling"])
    return PolicyAction(**named)


def _built_parsed(tagged: Fields | None) -> Any:
    if tagged is None:
        return None
    kind, value = tagged
    if kind == _JSON:
        return value
    if kind == _PARSE_FAILURE:
        return _built(ParseFailure, value)
    if kind != _PARSED:
        raise StoreError(f"a stored parsed action must be of a known kind, got {kind!r}; upgrade rosellm")
    named = _named(ParsedAction, value)
    named["calls"] = [_built(ToolCall, call) for call in named["calls"]]
    named["failures"] = [_built(ParseFailure, failure) for failure in named["failures"]]
    return ParsedAction(**named)


def _built_transition(values: Fields, row: Iterator[int]) -> TransitionRecord:
    named = _named(TransitionRecord, values)
    named["observation"] = [_built_span(span, row) for span in named["observation"]]
    named["results"] = [_built(ToolResult, result) for result in named["results"]]
    return TransitionRecord(**named)
