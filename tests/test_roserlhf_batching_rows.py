"""Rows: every column aligned, masks from what was recorded, and the account of sampled tokens."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles_batching import cells_of
from record_strategies import PROPERTY, trajectories

from rosellm.roserlhf.batching.rows import STALE, Row, exclude, row_of
from rosellm.roserlhf.errors import RecordError
from rosellm.roserlhf.store import Forest
from rosellm.roserlhf.trajectory import (
    CopySpan,
    ParentLink,
    PolicyAction,
    StopReason,
    TokenSpan,
    Trajectory,
    TransitionRecord,
    VersionSpan,
)


def episode(*turns: tuple[list[int], list[int]], prompt: tuple[int, ...] = (1, 2)) -> Trajectory:
    """A finished record of (sampled ids, observed ids) pairs; the log-probability of a token is −id / 10."""
    record = Trajectory("t", "task", "e", "h", prompt=[TokenSpan(prompt, "user")], group_id="g")
    for turn, (sampled, observed) in enumerate(turns):
        last = turn == len(turns) - 1
        answer = TransitionRecord(turn, None, terminated=last, observation=() if last else [TokenSpan(observed, "tool")])
        record.append(PolicyAction(turn, sampled, [-i / 10 for i in sampled], "v1", ""), answer)
    return record


def test_a_row_by_hand() -> None:
    row = row_of(episode(([7, 8], [3, 4]), ([9], [])))
    #                prompt | action 0 | observation | action 1
    assert row.token_ids == (1, 2, 7, 8, 3, 4, 9)
    assert row.policy_mask == (False, False, True, True, False, False, True)
    assert row.loss_mask == row.policy_mask
    assert row.behaviour_logprobs == (0.0, 0.0, -0.7, -0.8, 0.0, 0.0, -0.9)
    assert row.turns == (-1, -1, 0, 0, -1, -1, 1)
    assert (row.sampled, row.trained, row.excluded, row.advantage) == (3, 3, {}, None)
    assert (row.trajectory_id, row.group_id) == ("t", "g")


def test_a_row_ends_with_its_last_sampled_token() -> None:
    record = Trajectory("t", "task", "e", "h", prompt=[TokenSpan([1], "user")])
    shown = TokenSpan(range(100, 200), "tool")  # kept in the record: the value of a truncated end may be asked for
    record.append(PolicyAction(0, [7, 8], [-0.1, -0.2], "v1", ""), TransitionRecord(0, None, truncated=True, observation=[shown]))
    assert row_of(record).token_ids == (1, 7, 8)
    unsampled = Trajectory("t", "task", "e", "h", prompt=[TokenSpan([1], "user")])
    unsampled.fail("infrastructure", "no engine")
    assert row_of(unsampled).token_ids == ()


def test_R02_an_end_token_is_sampled_even_where_its_id_is_the_padding_id() -> None:
    pad = end = 2
    # the same id inside the prompt, inside an observation and at the end of both replies
    row = row_of(episode(([5, 6, end], [4, pad, 4]), ([5, 6, 7, 8, end], []), prompt=(1, pad, 3)))
    assert row.token_ids == (1, 2, 3, 5, 6, 2, 4, 2, 4, 5, 6, 7, 8, 2)
    assert [int(mask) for mask in row.policy_mask] == [0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1, 1, 1]
    assert row.behaviour_logprobs[5] == row.behaviour_logprobs[13] == -0.2
    assert row.trained == 8


def test_R42_tokens_over_a_stale_cache_are_excluded_under_their_name() -> None:
    spans = [VersionSpan(0, 57, "v7"), VersionSpan(57, 128, "v8", "stale")]
    reply = PolicyAction(0, range(128), [-0.1] * 128, "v7", "", version_spans=spans)
    record = Trajectory("t", "task", "e", "h", prompt=[TokenSpan([1], "user")])
    record.append(reply, TransitionRecord(0, None, terminated=True))
    row = row_of(record)
    assert (row.sampled, row.trained, row.excluded) == (128, 57, {STALE: 71})
    assert row.loss_mask == (False, *[True] * 57, *[False] * 71)
    assert exclude(row, "unscored").excluded == {STALE: 71, "unscored": 57}


def test_a_token_is_excluded_once_and_under_the_first_reason() -> None:
    row = exclude(row_of(episode(([7, 8], []))), "unscored")
    assert (row.sampled, row.trained, row.excluded) == (2, 0, {"unscored": 2})
    assert exclude(row, "uniform group").excluded == {"unscored": 2}
    assert row.policy_mask == (False, False, True, True)  # it was sampled all the same


def test_excluding_makes_another_row() -> None:
    row = row_of(episode(([7, 8], [])))
    exclude(row, "unscored")
    assert (row.trained, row.excluded) == (2, {})


@pytest.mark.parametrize("kind", ["branch", "continuation"])
def test_a_record_whose_context_is_elsewhere_is_refused(kind: str) -> None:
    child = Trajectory("c", "task", "e", "h", parent=ParentLink("t", 1, kind))  # type: ignore[arg-type]
    child.append(PolicyAction(1, [7], [-0.1], "v1", ""), TransitionRecord(1, None, terminated=True))
    with pytest.raises(RecordError, match=f"trajectory must hold its whole context, got a {kind} of 't'"):
        row_of(child)


def test_a_record_that_copies_its_context_is_refused() -> None:
    child = Trajectory("c", "task", "e", "h", parent=ParentLink("t", 1, "compaction"), prompt=[CopySpan("t", 0, 2)])
    with pytest.raises(RecordError, match="trajectory must hold its whole context, got a copy of 't'"):
        row_of(child)


def test_a_child_with_a_prompt_of_its_own_is_a_row() -> None:
    child = Trajectory("c", "task", "e", "h", parent=ParentLink("t", 1, "subagent"), prompt=[TokenSpan([1, 2], "user")])
    child.append(PolicyAction(0, [7], [-0.1], "v1", ""), TransitionRecord(0, None, terminated=True))
    assert row_of(child).token_ids == (1, 2, 7)


# --- context from other records -------------------------------------------------------------------------------------------------


def test_the_row_of_a_branch_by_hand() -> None:
    root = episode(([7, 8], [3, 4]), ([9], []))
    child = Trajectory("c", "task", "e", "h", parent=ParentLink("t", 1, "branch"), group_id="g")
    child.append(PolicyAction(1, [5], [-0.5], "v2", ""), TransitionRecord(1, None, terminated=True))
    row = row_of(child, context=Forest([root, child]).context("c").spans)
    #                 the root's prompt, action 0 and observation | action 1
    assert row.token_ids == (1, 2, 7, 8, 3, 4, 5)
    assert row.policy_mask == row.loss_mask == (*[False] * 6, True)  # 7 and 8 were sampled, but not here
    assert row.behaviour_logprobs == (*[0.0] * 6, -0.5)
    assert row.turns == (*[-1] * 6, 1)
    assert (row.trajectory_id, row.group_id, row.sampled) == ("c", "g", 1)


def test_the_row_of_a_compaction_holds_what_it_copies() -> None:
    root = Trajectory("t", "task", "e", "h", prompt=[TokenSpan([1, 2], "user")])
    root.append(PolicyAction(0, [7, 8], [-0.7, -0.8], "v1", ""), TransitionRecord(0, None, handed_off=True))
    prompt: list[TokenSpan | CopySpan] = [TokenSpan([6], "user"), CopySpan("t", 1, 3)]
    child = Trajectory("c", "task", "e", "h", parent=ParentLink("t", 1, "compaction"), prompt=prompt)
    child.append(PolicyAction(1, [9], [-0.9], "v1", ""), TransitionRecord(1, None, terminated=True))
    context = Forest([root, child]).context("c").spans
    row = row_of(child, context=context)
    assert (row.token_ids, row.sampled, row.trained) == ((6, 2, 7, 9), 1, 1)
    with pytest.raises(RecordError, match="context must hold the 3 tokens of the prompt, got 4"):
        row_of(child, context=[*context, TokenSpan([4], "user")])
    with pytest.raises(RecordError, match=r"context must hold the prompt's own ids, got others at positions \[0, 1\)"):
        row_of(child, context=[TokenSpan([5], "user"), *context[1:]])


def test_a_context_that_a_root_holds_already_changes_nothing() -> None:
    root = episode(([7, 8], [3, 4]), ([9], []))
    assert row_of(root, context=[TokenSpan([1, 2], "user")]) == row_of(root)
    with pytest.raises(RecordError, match="context must hold the prompt's own ids"):
        row_of(root, context=[])


@st.composite
def cuts(draw: st.DrawFn) -> tuple[list[tuple[list[int], list[int]]], list[tuple[int, int]]]:
    """Draw turns, and places (turn, tokens of it sampled so far) at which the episode was broken off and continued, in order."""
    ids = st.lists(st.integers(1, 99), min_size=1, max_size=4)
    turns = draw(st.lists(st.tuples(ids, st.lists(st.integers(1, 99), max_size=3)), min_size=1, max_size=4))
    places = [(turn, done) for turn, (sampled, _) in enumerate(turns) for done in range(len(sampled))]
    return turns, sorted(draw(st.lists(st.sampled_from(places), min_size=1, max_size=4, unique=True)))


def in_parts(turns: list[tuple[list[int], list[int]]], places: list[tuple[int, int]]) -> list[Trajectory]:
    """Store the episode of these turns as one root and, from every place on, a continuation."""
    records = [Trajectory("t", "task", "e", "h", prompt=[TokenSpan((1, 2), "user")], group_id="g")]
    for turn, (sampled, observed) in enumerate(turns):
        edges = sorted({0, *(done for k, done in places if k == turn), len(sampled)})
        for start, end in itertools.pairwise(edges):
            if (turn, start) in places:
                link = ParentLink(records[-1].trajectory_id, turn, "continuation")
                records.append(Trajectory(f"t{len(records)}", "task", "e", "h", parent=link))
            cut, last = end < len(sampled), turn == len(turns) - 1
            stop: StopReason = "interrupted" if cut else "stop"
            logprobs = [-i / 10 for i in sampled[start:end]]
            action = PolicyAction(turn, sampled[start:end], logprobs, "v1", "", stop_reason=stop, continues_action=start > 0)
            answer = TransitionRecord(turn, None, terminated=last, observation=[] if last else [TokenSpan(observed, "tool")])
            records[-1].append(action, None if cut else answer)
    return records


@PROPERTY
@given(cuts())
def test_an_episode_in_parts_gives_the_tokens_masks_and_logprobs_of_one_record(
    drawn: tuple[list[tuple[list[int], list[int]]], list[tuple[int, int]]],
) -> None:
    turns, places = drawn
    expected = row_of(episode(*turns))
    forest = Forest(in_parts(turns, places))
    rows = [row_of(record, context=forest.context(record.trajectory_id).spans) for record in forest]
    assert rows[-1].token_ids == expected.token_ids
    width = len(expected.token_ids)
    for row in rows:
        assert row.token_ids == expected.token_ids[: len(row.token_ids)]
    for name, nothing in (("policy_mask", 0), ("loss_mask", 0), ("behaviour_logprobs", 0.0), ("turns", -1)):
        columns = [[*getattr(row, name), *[nothing] * (width - len(row.token_ids))] for row in rows]
        whole_row = [[value for value in cells if value != nothing] for cells in zip(*columns, strict=True)]
        assert [(cells or [nothing])[0] for cells in whole_row] == list(getattr(expected, name))
        assert all(len(cells) <= 1 for cells in whole_row)  # no token is in two rows' masks
    joined = forest.joined_actions("t")
    assert [(a.token_ids, a.transition is not None) for a in joined] == [(tuple(sampled), True) for sampled, _ in turns]


def whole(record: Trajectory) -> bool:
    return not any(isinstance(span, CopySpan) for span in record.prompt) and (record.parent is None or bool(record.prompt))


@PROPERTY
@given(trajectories().filter(whole), st.lists(st.sampled_from(["unscored", "uniform group", "late"]), max_size=3))
def test_the_law_holds_for_every_record(record: Trajectory, reasons: list[str]) -> None:
    row = row_of(record)
    columns = zip(row.token_ids, row.policy_mask, row.loss_mask, row.behaviour_logprobs, row.turns, strict=True)
    assert list(columns) == cells_of(record)
    assert row.sampled == record.sampled_tokens
    for reason in (None, *reasons):
        row = row if reason is None else exclude(row, reason)
        assert row.sampled == row.trained + sum(row.excluded.values()) == record.sampled_tokens
        assert all(trained <= sampled for trained, sampled in zip(row.loss_mask, row.policy_mask, strict=True))
        assert all(count > 0 for count in row.excluded.values())
    assert not (reasons and row.trained)


def test_a_row_made_by_hand_counts_itself() -> None:
    row = Row("t", None, (1, 2, 3), (False, True, True), (False, True, False), (0.0, -1.0, -1.0), (-1, 0, 0), {"late": 1})
    assert (row.sampled, row.trained) == (2, 1)
