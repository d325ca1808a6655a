"""Records drawn at random for property tests: every field, extreme numbers and hostile text, always a legal record."""

from __future__ import annotations

import itertools
import math
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

from rosellm.roserlhf.trajectory import (
    Blame,
    CopySpan,
    ParentLink,
    ParsedAction,
    ParseFailure,
    PolicyAction,
    PrefixCache,
    ResultOrigin,
    ResultStatus,
    SamplingParameters,
    TokenSpan,
    ToolCall,
    ToolResult,
    Trajectory,
    TransitionRecord,
    VersionSpan,
)

PROPERTY = settings(derandomize=True, max_examples=60, deadline=None)

ANY_TEXT = st.text(st.characters(), max_size=12) | st.sampled_from(
    ["", "\x00", "\u2028\u2029", "\ud800", "a\udfffb", "<|im_end|>", "🦊", "\x1b[31m", "é" * 500_000]
)
"""Any string that Python can hold: lone surrogates, control characters, a megabyte."""
NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
IDS = st.integers(0, 2**40) | st.sampled_from([0, 2**31, 2**32, 2**63, 2**70])
LOGPROBS = (
    st.floats(max_value=0.0, allow_nan=False, allow_infinity=False)
    | st.floats(max_value=0.0, allow_nan=False, allow_infinity=False, width=32)
    | st.sampled_from([0.0, -0.0, -5e-324, -1e-45, -1e308])
)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([0.1 + 0.2, -0.0, 5e-324])
SECONDS = st.dictionaries(NAMES, NUMBERS | st.integers(-(2**63), 2**63 - 1), max_size=2)
REWARDS = st.dictionaries(NAMES, st.none() | NUMBERS, max_size=3)
CACHES: st.SearchStrategy[PrefixCache] = st.sampled_from(["recomputed", "stale"])
STATUSES: st.SearchStrategy[ResultStatus] = st.sampled_from(["ok", "error", "timeout"])
ORIGINS: st.SearchStrategy[ResultOrigin] = st.sampled_from(["environment", "guard", "harness"])
BLAMES: st.SearchStrategy[Blame] = st.sampled_from(["policy", "environment", "infrastructure"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | NUMBERS | ANY_TEXT | st.sampled_from([math.inf, -math.inf]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3),
    max_leaves=6,
)


@st.composite
def token_spans(draw: st.DrawFn) -> TokenSpan:
    ids = draw(st.lists(IDS, max_size=5))
    mask = draw(st.none() | st.lists(st.booleans(), min_size=len(ids), max_size=len(ids)))
    return TokenSpan(
        ids, draw(st.sampled_from(["system", "user", "tool"])), mask, draw(st.booleans()), draw(st.lists(NAMES, max_size=2))
    )


@st.composite
def version_spans(draw: st.DrawFn, count: int) -> list[VersionSpan]:
    cuts = sorted(draw(st.sets(st.integers(1, count - 1), max_size=3))) if count > 1 else []
    edges = [0, *cuts, count]
    return [VersionSpan(a, b, draw(st.sampled_from(["v7", "v8", "v9"])), draw(CACHES)) for a, b in itertools.pairwise(edges)]


@st.composite
def parsed_actions(draw: st.DrawFn, count: int) -> ParsedAction:
    spans = st.none() | st.integers(0, count).map(lambda end: (0, end))
    names = draw(st.lists(NAMES, max_size=3, unique=True))
    arguments = st.dictionaries(ANY_TEXT, JSON, max_size=2)
    calls = [ToolCall(name, draw(ANY_TEXT), draw(arguments), draw(spans)) for name in names]
    failures = [
        ParseFailure("bad", draw(st.none() | ANY_TEXT), None, draw(ANY_TEXT), draw(spans), draw(st.booleans()))
        for _ in range(draw(st.integers(0, 1)))
    ]
    return ParsedAction(draw(ANY_TEXT), calls, failures)


@st.composite
def actions(draw: st.DrawFn, /, turn: int = 0, **fields: Any) -> PolicyAction:
    ids = draw(st.lists(IDS, min_size=1, max_size=6))
    count = len(ids)
    spans = draw(version_spans(count))
    support = st.lists(st.none() | st.lists(IDS, max_size=2), min_size=count, max_size=count)
    kept = draw(st.none() | support)
    chosen: dict[str, Any] = {
        "parsed_action": draw(parsed_actions(count) | st.builds(ParseFailure, NAMES) | JSON),
        "version_spans": spans,
        "sampling": draw(st.none() | st.builds(SamplingParameters, st.floats(0, 5), seed_key=st.tuples(IDS, ANY_TEXT))),
        "kept_support": kept and [None if row is None else [*row, token] for row, token in zip(kept, ids, strict=True)],
        "stop_reason": draw(st.sampled_from([None, "stop", "length"])),
        "sidecars": draw(st.dictionaries(NAMES, st.binary(max_size=2).map(lambda part: part * count), max_size=2)),
        "images": draw(st.lists(NAMES, max_size=1)),
        "timing": draw(SECONDS),
    }
    logprobs = draw(st.lists(LOGPROBS, min_size=count, max_size=count))
    return PolicyAction(turn, ids, logprobs, spans[0].version, draw(ANY_TEXT), **{**chosen, **fields})


@st.composite
def transitions(draw: st.DrawFn, action: PolicyAction, ending: str | None = None) -> TransitionRecord:
    calls = action.parsed_action.calls if isinstance(action.parsed_action, ParsedAction) else ()
    results = [
        ToolResult(
            c.call_id,
            draw(STATUSES),
            draw(ANY_TEXT),
            draw(ORIGINS),
            attempts=draw(st.integers(0, 3)),
            latency=draw(st.none() | NUMBERS),
        )
        for c in calls
        if draw(st.booleans())
    ]
    shown = () if ending in ("terminated", "handed_off") else [draw(token_spans()), *draw(st.lists(token_spans(), max_size=1))]
    cause = draw(st.none() | NAMES)
    return TransitionRecord(
        action.turn,
        draw(st.none() | ANY_TEXT),
        draw(REWARDS),
        ending == "terminated",
        ending == "truncated",
        draw(st.none() | NAMES),
        results=results,
        observation=shown,
        handed_off=ending == "handed_off",
        cause=cause,
        blame=draw(st.none() | BLAMES) if cause else None,
        timing=draw(SECONDS),
    )


PARENTS = st.none() | st.builds(
    ParentLink,
    st.just("parent"),
    st.integers(0, 5),
    st.sampled_from(["branch", "continuation", "compaction", "subagent", "rewrite"]),
)


@st.composite
def trajectories(draw: st.DrawFn, *, trajectory_id: str = "run/1/task/0/0") -> Trajectory:
    """Draw a record that is finished, open, interrupted or failed."""
    parent = draw(PARENTS)
    kind = parent and parent.kind
    own_prompt = kind not in ("branch", "continuation")
    copies = st.builds(CopySpan, st.just("parent"), st.just(2), st.integers(2, 2**40))
    parts = token_spans() | copies if own_prompt and parent else token_spans()
    record = Trajectory(
        trajectory_id,
        draw(NAMES),
        draw(ANY_TEXT),
        draw(ANY_TEXT),
        group_id=draw(st.none() | NAMES) if kind in (None, "branch") else None,
        prompt=draw(st.lists(parts, max_size=2)) if own_prompt else (),
        parent=parent,
        run_id=draw(st.none() | NAMES),
        step=draw(st.none() | st.integers(0, 2**40)),
        seeds=draw(st.dictionaries(NAMES, st.integers(-(2**40), 2**40), max_size=2)),
        hashes=draw(st.dictionaries(st.sampled_from(["task", "template", "code"]), ANY_TEXT, max_size=2)),
        policy_name=draw(st.none() | NAMES),
        trainable=draw(st.booleans()),
        timing=draw(SECONDS),
    )
    count = draw(st.integers(0, 3))
    ending = draw(st.sampled_from([None, "terminated", "truncated", "handed_off", "interrupted", "failed"]))
    for i in range(count):
        last = i == count - 1
        cut = last and ending == "interrupted"
        fields: dict[str, Any] = {"continues_action": kind == "continuation" and i == 0 and draw(st.booleans())}
        action = draw(actions(record.first_turn + i, **fields, **({"stop_reason": "interrupted"} if cut else {})))
        goes_on = not last or ending in (None, "failed")
        record.append(action, None if cut else draw(transitions(action, None if goes_on else ending)))
    if ending == "failed":
        record.fail(draw(BLAMES), draw(NAMES))
    return record
