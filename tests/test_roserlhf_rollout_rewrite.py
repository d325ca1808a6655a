"""Where a template writes the conversation anew: the record hands off, a child goes on, and both are one rollout."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import chat_templates
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rollout_fakes import CODEC, Breaking, Echo, FakeEngine, chunk, play, play_records, says, turn_of

from rosellm.roserlhf.batching.credit import group_rows, total_reward
from rosellm.roserlhf.batching.rollout import Rollout, rollouts_of
from rosellm.roserlhf.batching.rows import Row
from rosellm.roserlhf.batching.scored import Credit, PerGroup, ScoredRollouts
from rosellm.roserlhf.codec.hf import chat_codec
from rosellm.roserlhf.codec.protocol import Codec
from rosellm.roserlhf.credit.group import leave_one_out_advantages
from rosellm.roserlhf.engine.protocol import Chunk, Request
from rosellm.roserlhf.environment.protocol import Observation, StepResult, ToolRunner
from rosellm.roserlhf.errors import RecordError
from rosellm.roserlhf.rollout.episode import Facts
from rosellm.roserlhf.rollout.rewrite import LEAST, rewritten_prompt
from rosellm.roserlhf.store.forest.forest import Forest
from rosellm.roserlhf.trainer.rollouts import whole_rollouts
from rosellm.roserlhf.trajectory import (
    CopySpan,
    Message,
    ParentLink,
    ParsedAction,
    ParseFailure,
    PolicyAction,
    TokenSpan,
    Trajectory,
    TransitionRecord,
)


def stripped(text: str) -> str:
    """Forget what stands between brackets, as a reasoning template forgets thoughts."""
    return re.sub(r"\[.*?\]", "", text)


def ids_of(prompt: Sequence[TokenSpan | CopySpan], row: Sequence[int]) -> list[int]:
    """Resolve the copies by hand."""
    found: list[int] = []
    for span in prompt:
        found += row[span.start : span.end] if isinstance(span, CopySpan) else span.token_ids
    return found


# -- the prompt of the child


def test_the_common_beginning_is_a_copy_and_the_rest_is_new() -> None:
    rendered = (TokenSpan([1, 2, 3], "user"), TokenSpan([9, 5, 6], "assistant", [False, True, True]))
    prompt = rewritten_prompt("a", [1, 2, 3, 4, 5, 6], rendered)
    assert prompt == (CopySpan("a", 0, 3), TokenSpan((9, 5, 6), "assistant", (False, True, True)))


def test_what_stands_behind_a_dropped_part_is_a_copy_too() -> None:
    # row: 3 ids, 4 dropped, LEAST kept; rendered: the 3, the LEAST, 2 new ones
    kept = list(range(100, 100 + LEAST))
    row = [1, 2, 3, 50, 51, 52, 53, *kept]
    prompt = rewritten_prompt("a", row, (TokenSpan([1, 2, 3, *kept], "x"), TokenSpan([7, 8], "tool")))
    assert prompt == (CopySpan("a", 0, 3), CopySpan("a", 7, 7 + LEAST), TokenSpan((7, 8), "tool"))


def test_nothing_in_common_is_no_copy() -> None:
    assert rewritten_prompt("a", [1, 2], (TokenSpan([3], "user"),)) == (TokenSpan((3,), "user"),)


@given(st.lists(st.integers(0, 2), max_size=80), st.lists(st.lists(st.integers(0, 2), max_size=30), max_size=5))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_copies_give_back_the_rendering_and_go_forward_only(row: list[int], parts: list[list[int]]) -> None:
    rendered = tuple(TokenSpan(part, "user") for part in parts)
    prompt = rewritten_prompt("a", row, rendered)
    whole = [token for part in parts for token in part]
    assert ids_of(prompt, row) == whole
    copies = [span for span in prompt if isinstance(span, CopySpan)]
    assert all(one.end <= other.start for one, other in pairwise(copies))
    if row and whole and row[0] == whole[0]:
        assert (copies[0].start, prompt[0]) == (0, copies[0])
    assert all(span.end - span.start >= LEAST for span in copies if span.start)


# -- the episode


def broken_up(*breaks: int, **limits: Any) -> tuple[tuple[Trajectory, ...], FakeEngine]:
    engine = says(CODEC, "[ab]hm", "[cd]so", "end(x)")
    codec = Breaking(CODEC, breaks, retold=stripped)
    return play_records(Echo(replies=["again", "more"]), engine, codec=codec, **limits), engine


def test_the_record_hands_off_and_a_child_goes_on() -> None:
    (root, child), engine = broken_up(1)
    assert [t.ending for t in root.transitions] == [None, "handed_off"]
    end = root.transitions[-1]
    assert (end.cause, end.blame, end.observation, dict(end.reward_components)) == ("reasoning stripped", None, (), {})
    assert child.parent == ParentLink(root.trajectory_id, 2, "rewrite")
    assert child.trajectory_id == f"{root.trajectory_id}/rewrite-2"
    assert (child.group_id, child.task_id, child.member, child.seeds) == (None, root.task_id, root.member, root.seeds)
    assert (child.initial_state_hash, child.first_turn, child.ending) == (end.state_hash, 2, "terminated")
    # the engine is asked with exactly the new rendering, under the stream of the turn and in a session of its own
    whole = CODEC.text(engine.requests[2].prompt_ids)
    assert whole == "<user>abcdefg<end><assistant>hm<end><tool>again<end><assistant>so<end><tool>more<end><assistant>"
    assert [request.session for request in engine.requests] == [root.trajectory_id] * 2 + [child.trajectory_id]
    assert engine.requests[2].stream[-1] == 2
    assert child.reward_totals() == {"correct": 1.0}


def test_the_childs_prompt_copies_the_parents_row() -> None:
    (root, child), engine = broken_up(1)
    row = [token for span in root.spans() for token in getattr(span, "token_ids", ())]
    assert ids_of(child.prompt, row) == list(engine.requests[2].prompt_ids)
    assert child.prompt[0] == CopySpan(root.trajectory_id, 0, 10)  # up to the thought: <user> a b c d e f g <end> <assistant>
    assert Forest([root, child]).context(child.trajectory_id).token_ids == engine.requests[2].prompt_ids


def test_a_child_can_hand_off_itself() -> None:
    records, engine = broken_up(0, 1)
    assert [record.ending for record in records] == ["handed_off", "handed_off", "terminated"]
    assert [record.parent and record.parent.record_id for record in records] == [None, *(r.trajectory_id for r in records[:2])]
    forest = Forest(records)
    for record, request in zip(records, engine.requests, strict=True):
        assert forest.context(record.trajectory_id).token_ids == request.prompt_ids
    assert [len(record.actions) for record in records] == [1, 1, 1]
    assert forest.counts().total.trainable == sum(len(CODEC.reply(line)) for line in ("[ab]hm", "[cd]so", "end(x)"))


def test_a_break_after_the_last_action_ends_the_record_as_it_would_have_ended() -> None:
    # nothing is asked with the new rendering, so there is no record for it
    (only,), _ = broken_up(1, max_turns=2)
    assert (only.ending, only.transitions[-1].cause) == ("truncated", "turn budget used up")
    assert only.transitions[-1].observation == (TokenSpan((), "tool"),)
    assert only.reward_totals() == {"correct": 1.0}


def test_a_new_rendering_that_fills_the_window_ends_the_episode() -> None:
    # rendered anew: 10 + hm<end> 3 + <tool>again<end><assistant> 8 = 21
    (only,), engine = broken_up(0, context_window=21)
    assert (only.ending, only.transitions[-1].cause) == ("truncated", "context window used up")
    assert len(engine.requests) == 1
    records, engine = broken_up(0, context_window=22)
    assert [request.sampling.max_tokens for request in engine.requests] == [12, 1]
    assert len(records) == 2


def test_a_break_leaves_the_environments_own_end_alone() -> None:
    class Impatient(Echo):
        async def step(self, action: ParsedAction | ParseFailure, run: ToolRunner) -> StepResult:
            return StepResult(Observation((Message("tool", "enough"),)), truncated=True, cause="closing time")

    (only,) = play_records(Impatient(), says(CODEC, "hm"), codec=Breaking(CODEC, {0}))
    assert (only.ending, only.transitions[-1].cause) == ("truncated", "closing time")


def test_what_fails_in_a_child_fails_the_rollout() -> None:
    class Late(Echo):
        async def step(self, action: ParsedAction | ParseFailure, run: ToolRunner) -> StepResult:
            self.broken = "step" if self.seen else ""
            return await super().step(action, run)

    root, child = play_records(Late(), says(CODEC, "hm"), codec=Breaking(CODEC, {0}))
    assert (root.failure, child.failure and child.failure.cause) == (None, "step raised OSError: no step for you")
    (rollout,) = rollouts_of([root, child])
    assert (rollout.is_unscored, total_reward(rollout, {"correct": 1.0})) == (True, None)


# -- R08, both forms


@pytest.mark.parametrize("form", ["append-only", "new segment"])
def test_R08_a_template_that_rewrites_history(form: str) -> None:
    codec: Codec = Breaking(CODEC, {0} if form == "new segment" else (), retold=stripped)
    engine = says(CODEC, "[abc]ok", "end(x)")
    records = play_records(Echo(replies=["again"]), engine, codec=codec)
    second = CODEC.text(engine.requests[1].prompt_ids)
    assert "again" in second
    assert ("[abc]" in second) == (form == "append-only")
    rows = [row for rollout in whole_rollouts(records) for row in rollout.rows()]
    sampled = ["".join(CODEC.text([t]) for t, m in zip(r.token_ids, r.policy_mask, strict=True) if m) for r in rows]
    assert "".join(sampled) == "[abc]ok<end>end(x)<end>"  # every sampled token once …
    for row, request in zip(rows[-1:], engine.requests[1:], strict=True):  # … behind its own prompt
        assert row.token_ids[: len(request.prompt_ids)] == request.prompt_ids
    assert sum(row.trained for row in rows) == len(CODEC.reply("[abc]ok")) + len(CODEC.reply("end(x)"))


def test_R08_a_real_template_that_strips_reasoning() -> None:
    codec = chat_codec(chat_templates.tokenizer_for("qwen3"), [])
    replies = ["<think>\nlong thoughts\n</think>\n\nfirst", "<think>\nmore\n</think>\n\nsecond", "third"]

    def speak(request: Request) -> list[Chunk]:
        return [chunk(codec.reply(replies[turn_of(request)]))]

    class Talking(Echo):
        async def step(self, action: ParsedAction | ParseFailure, run: ToolRunner) -> StepResult:
            self.seen.append(action)
            return StepResult(Observation((Message("user", "again"),)))

    engine = FakeEngine(speak)
    records = play_records(Talking(), engine, codec=codec, max_turns=3)
    assert [record.transitions[-1].cause for record in records] == ["reasoning stripped"] * 2 + ["turn budget used up"]
    texts = [codec.text(request.prompt_ids) for request in engine.requests]
    assert ["long thoughts" in text for text in texts] == [False, False, False]
    assert "again" in texts[1]
    forest = Forest(records)
    for record, request in zip(records, engine.requests, strict=True):
        assert forest.context(record.trajectory_id).token_ids == request.prompt_ids
    assert forest.counts().total.trainable == sum(len(codec.reply(reply)) for reply in replies)
    assert isinstance(records[1].prompt[0], CopySpan)


# -- the rollout


def member(name: str, breaks: Sequence[int], lines: Sequence[str], wages: Sequence[float], *, group: str = "g") -> list[Trajectory]:
    """Play one episode of a group: a wage for every turn, and a verdict in the end."""

    class Paid(Echo):
        async def step(self, action: ParsedAction | ParseFailure, run: ToolRunner) -> StepResult:
            result = await super().step(action, run)
            wage = wages[len(self.seen) - 1]
            return StepResult(result.observation, result.results, {"wage": wage}, terminated=len(self.seen) == len(lines))

    codec = Breaking(CODEC, breaks)
    facts = Facts(environment_version="e", group_id=group)
    records = play_records(
        Paid(rewards={"correct": float(len(lines) % 2)}), says(CODEC, *lines), codec=codec, facts=facts, max_turns=9
    )
    return [renamed(record, name) for record in records]


def renamed(record: Trajectory, name: str) -> Trajectory:
    """Give a record and what it refers to another root."""

    def new(old: str) -> str:
        return old.replace("run/train/3/task-1/0", name)

    prompt = [CopySpan(new(s.record_id), s.start, s.end) if isinstance(s, CopySpan) else s for s in record.prompt]
    link = record.parent and ParentLink(new(record.parent.record_id), record.parent.turn, record.parent.kind)
    return Trajectory(
        new(record.trajectory_id),
        record.task_id,
        record.environment_version,
        record.tokenizer_hash,
        record.actions,
        record.transitions,
        group_id=record.group_id,
        prompt=prompt,
        parent=link,
        initial_state_hash=record.initial_state_hash,
    )


class ByTurn:
    """An advantage for each turn: what it was paid, and a little for its place."""

    def __call__(self, scored: ScoredRollouts) -> torch.Tensor:
        return scored.known("turn_rewards") + torch.arange(len(scored.known("turn_rewards"))) / 7


def trained(rows: Sequence[Row]) -> dict[str, list[tuple[int, float, float]]]:
    """The tokens in the loss of every rollout, with behaviour log-probability and advantage, in order."""
    found: dict[str, list[tuple[int, float, float]]] = {}
    for row in rows:
        columns = zip(row.token_ids, row.behaviour_logprobs, row.token_advantages(), row.loss_mask, strict=True)
        found.setdefault(row.rollout_id, []).extend((token, logprob, credit) for token, logprob, credit, live in columns if live)
    return found


episodes = st.lists(st.tuples(st.lists(st.sampled_from(["a", "hm", "so so"]), min_size=1, max_size=5), st.sets(st.integers(0, 4))),
                    min_size=2, max_size=4)  # fmt: skip


@given(episodes, st.booleans())
@settings(max_examples=40, deadline=None, derandomize=True)
def test_breaks_change_neither_tokens_nor_rewards_nor_advantages(played: list[tuple[list[str], set[int]]], by_turn: bool) -> None:
    credit: Credit = ByTurn() if by_turn else PerGroup(leave_one_out_advantages)
    weights = {"correct": 1.0, "wage": 0.5}
    outcomes = []
    for broken in (False, True):
        rollouts: list[Rollout] = []
        for number, (lines, breaks) in enumerate(played):
            wages = [0.25 * (turn + number) for turn in range(len(lines))]
            records = member(f"m{number}", sorted(breaks) if broken else (), lines, wages)
            assert len(records) == 1 + (len([b for b in breaks if b + 1 < len(lines)]) if broken else 0)
            rollouts += whole_rollouts(records)
        rewards = [total_reward(rollout, weights) for rollout in rollouts]
        rows = group_rows(rollouts, rewards, credit, drop_uniform=False, weights=weights)
        assert sum(row.sampled for row in rows) == sum(row.trained + sum(row.excluded.values()) for row in rows)
        lengths = [(len(rollout.turns), rollout.sampled_tokens, rollout.ending, rollout.initial_state_hash) for rollout in rollouts]
        outcomes.append((rewards, trained(rows), lengths))
    assert outcomes[0] == outcomes[1]


def test_rewards_of_both_records_add_up_and_none_stays_none() -> None:
    records = member("m", [0], ["a", "hm"], [0.25, 0.5])
    (rollout,) = rollouts_of(records)
    assert rollout.reward_totals() == {"wage": 0.75, "correct": 0.0}
    end = TransitionRecord(1, None, {"wage": None}, terminated=True)
    action, link = PolicyAction(1, [5], [-0.1], "v", ""), records[1].parent
    prompt = [TokenSpan([1], "user")]
    unpaid = Trajectory("m/rewrite-1", "task-1", "e", CODEC.tokenizer_hash, [action], [end], parent=link, prompt=prompt)
    assert rollouts_of([records[0], unpaid])[0].reward_totals() == {"wage": None}


def test_a_record_that_goes_on_with_nothing_is_refused() -> None:
    root, child = member("m", [0], ["a", "hm"], [0.25, 0.5])
    with pytest.raises(
        RecordError, match="trajectory 'm/rewrite-1' must follow the record that it goes on with, got 'm' not before it"
    ):
        rollouts_of([child, root])
    with pytest.raises(RecordError, match="records must have different ids, got 'm' twice"):
        rollouts_of([root, child, root])
    agent = Trajectory("s", "task-1", "e", "t", parent=ParentLink("m", 0, "subagent"))
    with pytest.raises(RecordError, match="must be a root, a branch, or go on with one before it, got a subagent"):
        rollouts_of([root, agent])


def test_one_record_is_played_as_before() -> None:
    codec = Breaking(CODEC, ())
    assert (
        play(Echo(), says(CODEC, "hm", "end(x)"), codec=codec).content_hash()
        == play(Echo(), says(CODEC, "hm", "end(x)")).content_hash()
    )
