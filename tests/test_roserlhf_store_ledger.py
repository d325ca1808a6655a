"""The ledger: legal paths, counts that balance, and nothing that adds up by accident."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from record_strategies import PROPERTY

from rosellm.roserlhf.errors import RecordError, StoreError
from rosellm.roserlhf.store.ledger import Ledger, LedgerEntry, LedgerSummary, TokenCounts, check_transition

PATHS = [
    ["launched"],
    ["launched", "finished"],
    ["launched", "failed"],
    ["launched", "finished", "admitted"],
    ["launched", "failed", "admitted"],
    ["launched", "finished", "rejected"],
    ["launched", "failed", "rejected"],
    ["launched", "finished", "admitted", "trained"],
    ["launched", "failed", "admitted", "trained"],
    ["launched", "finished", "admitted", "rejected"],
    ["launched", "failed", "admitted", "rejected"],
]
"""Every way an attempt can have gone so far, written out."""
STATES = ["launched", "finished", "failed", "admitted", "rejected", "trained"]


def entry(attempt_id: str, state: Any, step: int = 0, tokens: int = 40, **fields: Any) -> LedgerEntry:
    by_state: dict[str, dict[str, Any]] = {
        "failed": {"reason": "timeout", "sampled": tokens},
        "finished": {"sampled": tokens},
        "rejected": {"reason": "stale"},
        "trained": {"trained": tokens},
    }
    return LedgerEntry(attempt_id, state, step=step, **{**by_state.get(state, {}), **fields})


@PROPERTY
@given(st.lists(st.sampled_from(STATES), max_size=5))
def test_an_attempt_walks_a_legal_path_and_no_other(states: list[str]) -> None:
    ledger = Ledger()
    walked: list[str] = []
    for state in states:
        if [*walked, state] in PATHS:
            ledger.add(entry("a", state))
            walked.append(state)
            continue
        with pytest.raises(StoreError, match=r"attempt 'a' must (go from|stay)"):
            ledger.add(entry("a", state))
    assert ledger.state("a") == (walked[-1] if walked else None)


def test_an_illegal_step_names_what_is_legal() -> None:
    check_transition("a", None, "launched")
    for before, after, message in (
        (None, "finished", "attempt 'a' must go from nothing to launched, got finished"),
        ("launched", "trained", "attempt 'a' must go from launched to finished or failed, got trained"),
        ("trained", "trained", "attempt 'a' must stay trained, got trained"),
        ("rejected", "admitted", "attempt 'a' must stay rejected, got admitted"),
    ):
        with pytest.raises(StoreError) as caught:
            check_transition("a", before, after)
        assert str(caught.value) == message


@st.composite
def histories(draw: st.DrawFn) -> list[list[LedgerEntry]]:
    """Draw attempts with their path so far and where their tokens went."""
    attempts = []
    for i in range(draw(st.integers(0, 5))):
        tokens, step = draw(st.integers(0, 50)), draw(st.integers(0, 2))
        stale = draw(st.integers(0, tokens))
        split = {"trained": tokens - stale, "excluded": {draw(st.sampled_from(["stale", "limit"])): stale}}
        path = draw(st.sampled_from(PATHS))
        attempts.append([entry(f"a{i}", s, step, tokens, **(split if s == "trained" else {})) for s in path])
    return attempts


@PROPERTY
@given(histories(), st.randoms(use_true_random=False))
def test_every_sampled_token_is_in_exactly_one_place(attempts: list[list[LedgerEntry]], random: Any) -> None:
    # Attempts interleave in any order; each keeps its own.
    waiting, entries = [list(path) for path in attempts], []
    while any(waiting):
        entries.append(random.choice([path for path in waiting if path]).pop(0))
    ledger = Ledger(entries)
    for step in (None, 0, 1, 2):
        # Slow count: walk every attempt of the step from its beginning.
        sampled, trained, pending, excluded, states = 0, 0, 0, Counter[str](), Counter[str]()
        for path in attempts:
            if step is not None and path[0].step != step:
                continue
            tokens = sum(e.sampled or 0 for e in path)
            states[path[-1].state] += 1
            sampled += tokens
            if path[-1].state == "trained":
                trained += path[-1].trained or 0
                excluded.update(path[-1].excluded)
            elif path[-1].state == "rejected":
                excluded["stale"] += tokens
            else:
                pending += tokens
        counts = ledger.tokens(step)
        assert counts == TokenCounts(sampled, trained, dict(excluded), pending)
        assert counts.sampled == counts.trained + sum(counts.excluded.values()) + counts.pending
        assert ledger.states(step) == dict(states)
    if all(path[-1].state in ("trained", "rejected") for path in attempts):
        ledger.balance()
    else:
        with pytest.raises(StoreError, match="must have no open attempt"):
            ledger.balance()
    ledger.balance(allow_open=True)
    ledger.balance(allow_open=True, recorded={step: ledger.tokens(step).sampled for step in ledger.steps()})


def test_tokens_that_do_not_add_up_are_refused_when_the_attempt_ends() -> None:
    ledger = Ledger([entry("a", "launched"), entry("a", "finished", tokens=40), entry("a", "admitted")])
    for trained, excluded in ((40, {"stale": 1}), (39, {}), (0, {}), (41, {})):
        with pytest.raises(StoreError, match="attempt 'a' must place each of its 40 sampled tokens once, got"):
            ledger.add(entry("a", "trained", trained=trained, excluded=excluded))
    assert ledger.state("a") == "admitted"
    ledger.add(entry("a", "trained", trained=38, excluded={"stale": 1, "limit": 1}))
    assert ledger.tokens(0) == TokenCounts(40, 38, {"stale": 1, "limit": 1}, 0)


def test_a_rejected_attempt_can_say_more_than_one_reason() -> None:
    # 40 sampled: 30 over a stale cache, the other 10 in a group without signal.
    ledger = Ledger([entry("a", "launched"), entry("a", "finished", tokens=40)])
    for excluded in ({"stale": 30}, {"stale": 30, "uniform group": 11}):
        with pytest.raises(StoreError, match="attempt 'a' must place each of its 40 sampled tokens once, got 0 trained and"):
            ledger.add(entry("a", "rejected", reason="stale", excluded=excluded))
    ledger.add(entry("a", "rejected", reason="stale", excluded={"stale": 30, "uniform group": 10}))
    assert ledger.tokens() == TokenCounts(40, 0, {"stale": 30, "uniform group": 10}, 0)
    assert ledger.summary().rejected == {"stale": 1}


def test_every_kind_of_attempt_is_counted_under_its_name() -> None:
    def attempt(name: str, *path: LedgerEntry, **launched: Any) -> list[LedgerEntry]:
        return [entry(name, "launched", **launched), *path]

    def done(name: str, reason: str | None = None, step: int = 0, **split: Any) -> list[LedgerEntry]:
        if reason is not None:
            return [entry(name, "finished", step, 10), entry(name, "rejected", step, reason=reason)]
        trained = entry(name, "trained", step, **(split or {"trained": 10}))
        return [entry(name, "finished", step, 10), entry(name, "admitted", step), trained]

    history = [
        # Group g: two trained, one of them in part; one unscored: a partial group.
        *attempt("g/0", *done("g/0"), group="g"),
        *attempt("g/1", *done("g/1", trained=7, excluded={"stale": 3}), group="g"),
        *attempt("g/2", entry("g/2", "failed", tokens=4, reason="engine died"), group="g"),
        entry("g/2", "rejected", reason="unscored"),
        # It was tried again, which failed in another way, and was data.
        *attempt("g/2/1", entry("g/2/1", "failed", tokens=6, reason="limit"), group="g", retry_of="g/2"),
        entry("g/2/1", "admitted"),
        entry("g/2/1", "trained", trained=6),
        # Group h: dynamic sampling rejects all of it, which leaves nothing partial.
        *attempt("h/0", *done("h/0", "uniform group"), group="h"),
        *attempt("h/1", *done("h/1", "uniform group"), group="h"),
        # Admitted, then too old; still on its way; launched in the next step; nobody's member.
        *attempt("i/0", entry("i/0", "finished", tokens=10), entry("i/0", "admitted"), entry("i/0", "rejected", 1), group="i"),
        *attempt("i/1", entry("i/1", "finished", tokens=10), group="i"),
        *attempt("j/0", *done("j/0", step=1), step=1),
        # Step 1 was run before: those attempts are gone, but counted.
        *[replace(e, superseded=True) for e in [*attempt("j/0", *done("j/0", step=1), step=1), *attempt("j/1", step=1)]],
    ]  # fmt: skip
    ledger = Ledger(history)
    assert ledger.summary(0) == LedgerSummary(
        launched=8,
        finished=6,
        failed={"engine died": 1, "limit": 1},
        admitted=4,
        trained=3,
        rejected={"unscored": 1, "uniform group": 2, "stale": 1},
        open=1,
        retries=1,
        groups=3,
        partial_groups=1,
        superseded=0,
        # 4 × 10 of g/0, g/1, h/0, h/1, 4 + 6 of the failed ones, 2 × 10 of i.
        tokens=TokenCounts(70, 10 + 7 + 6, {"stale": 3 + 10, "unscored": 4, "uniform group": 20}, 10),
    )
    later = ledger.summary(1)
    assert (later.launched, later.trained, later.superseded, later.groups) == (1, 1, 2, 0)
    whole = ledger.summary()
    assert (whole.launched, whole.trained, whole.superseded, whole.partial_groups) == (9, 4, 2, 1)
    assert whole.launched == whole.trained + sum(whole.rejected.values()) + whole.open
    assert Ledger().summary().launched == 0


def test_the_stored_records_are_the_other_side_of_the_balance() -> None:
    ledger = Ledger([entry("a", "launched", 3), entry("a", "finished", 3, 40), entry("a", "rejected", 3)])
    ledger.balance(recorded={3: 40})
    for recorded, message in (
        ({3: 41}, "the ledger of step 3 must count the 41 tokens that the stored records of the step hold, got 40"),
        ({}, "the ledger of step 3 must count the 0 tokens that the stored records of the step hold, got 40"),
        ({3: 40, 4: 5}, "the ledger of step 4 must count the 5 tokens that the stored records of the step hold, got 0"),
    ):
        with pytest.raises(StoreError) as caught:
            ledger.balance(recorded=recorded)
        assert str(caught.value) == message


def test_a_token_counts_where_its_attempt_was_launched() -> None:
    # Sampled in step 3, trained in step 4: the law of step 3 needs it, step 4 does not see it.
    ledger = Ledger([entry("a", "launched", 3), entry("a", "finished", 3), entry("a", "admitted", 3)])
    assert ledger.tokens(3).pending == 40
    ledger.add(entry("a", "trained", 4))
    assert ledger.tokens(3) == TokenCounts(40, 40, {}, 0)
    assert ledger.steps() == (3,)
    assert ledger.tokens(4) == TokenCounts(0, 0, {}, 0)


def test_R51_counters_do_not_wrap() -> None:
    big = 3_000_000_000
    ledger = Ledger()
    for name in "ab":
        for state in ("launched", "finished", "admitted"):
            ledger.add(entry(name, state, step=2**40, tokens=big))
        ledger.add(entry(name, "trained", step=2**40, tokens=big))
    assert ledger.tokens(2**40) == TokenCounts(6_000_000_000, 6_000_000_000, {}, 0)
    ledger.balance(recorded={2**40: 6_000_000_000})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"state": "failed", "sampled": 1}, "reason must be given when an attempt is failed, got None"),
        ({"state": "rejected"}, "reason must be given when an attempt is rejected, got None"),
        ({"state": "finished"}, "sampled must be given when an attempt is finished, got None"),
        ({"state": "launched", "sampled": 1}, "sampled must be None when an attempt is launched, got 1"),
        ({"state": "trained"}, "trained must be given when an attempt is trained, got None"),
        ({"state": "admitted", "trained": 1}, "trained must be None when an attempt is admitted, got 1"),
        ({"state": "finished", "sampled": 1, "group": "g"}, "group must be None when an attempt is finished, got 'g'"),
        ({"state": "admitted", "retry_of": "b"}, "retry_of must be None when an attempt is admitted, got 'b'"),
        ({"state": "admitted", "excluded": {"x": 1}}, "excluded must be empty when an attempt is admitted, got {'x': 1}"),
    ],
)
def test_an_entry_holds_what_its_state_needs(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(StoreError) as caught:
        LedgerEntry("a", step=0, **fields)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"state": "done"}, "state must be one of 'launched', .*, got 'done'"),
        ({"state": "launched", "step": -1}, "step must be an integer ≥ 0"),
        ({"state": "finished", "sampled": -1}, "sampled must be an integer ≥ 0"),
        ({"state": "finished", "sampled": True}, "sampled must be an integer ≥ 0"),
        ({"state": "trained", "trained": 1, "excluded": {"x": -1}}, r"excluded\['x'\] must be an integer ≥ 0"),
        ({"state": "launched", "attempt_id": ""}, "attempt_id must be a non-empty string"),
        ({"state": "launched", "detail": {1, 2}}, "detail must be a JSON value"),
    ],
)
def test_an_entry_is_plain_data(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(RecordError, match=message):
        LedgerEntry(**{"attempt_id": "a", "step": 0, **fields})
