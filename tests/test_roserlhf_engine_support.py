"""Truncated sampling from the engine to the loss and back from disk: what was kept travels with every token."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
from export_logs import new_log
from loop_models import ask, request, tiny_model
from rollout_fakes import CODEC, Echo, FakeEngine, play, says
from torch import Tensor
from transformers import LlamaForCausalLM

from rosellm.roserlhf.batching.rows import Row, row_of
from rosellm.roserlhf.batching.tensors import Batch, pad
from rosellm.roserlhf.engine.local import LocalEngine
from rosellm.roserlhf.engine.protocol import Chunk, Request
from rosellm.roserlhf.losses import policy_logprobs
from rosellm.roserlhf.store import EventLog
from rosellm.roserlhf.store.export.parquet import export_parquet, import_parquet
from rosellm.roserlhf.trainer.account import row_hash
from rosellm.roserlhf.trajectory import PolicyAction, TokenSpan, Trajectory, TransitionRecord

SAMPLING: dict[str, Any] = {"temperature": 0.7, "top_p": 0.8, "top_k": 6}


def trajectories(model: LlamaForCausalLM, count: int = 6, **sampling: Any) -> list[Trajectory]:
    """Sample episodes of two turns with an observation between them; prompts have different lengths."""
    engine = LocalEngine(model, version="v0", threads=1)
    records = []
    for n in range(count):
        prompt = tuple((3 * n + k) % 11 for k in range(2 + n % 3))
        record = Trajectory(f"t{n}", f"task{n}", "env", "tok", prompt=[TokenSpan(prompt, "user")])
        context = list(prompt)
        for turn in range(2):
            (chunk,) = ask(engine, [request(context, n, turn, session=str(n), max_tokens=4, **{**SAMPLING, **sampling})])
            action = PolicyAction(turn, chunk.token_ids, chunk.logprobs, chunk.version, "", kept_support=chunk.support)
            observation = () if turn else (TokenSpan((7, n % 11), "tool"),)
            record.append(action, TransitionRecord(turn, None, {"r": 1.0}, terminated=turn == 1, observation=observation))
            context += [*chunk.token_ids, 7, n % 11]
        records.append(record)
    engine.close()
    return records


def gaps(model: LlamaForCausalLM, batch: Batch, temperature: float = 0.7) -> Tensor:
    """|log ratio| of every sampled token before any update."""
    with torch.no_grad():
        current = policy_logprobs(model, batch.input_ids, temperature=temperature, support=batch.support)
    return (current - batch.behaviour_logprobs)[batch.policy_mask].abs()


@pytest.fixture(scope="module")
def model() -> LlamaForCausalLM:
    return tiny_model(layers=2, context_window=64)


@pytest.fixture(scope="module")
def rows(model: LlamaForCausalLM) -> list[Row]:
    return [row_of(record) for record in trajectories(model)]


def test_R11_the_first_ratio_is_one_at_any_temperature_and_truncation(model: LlamaForCausalLM) -> None:
    cases: list[dict[str, Any]] = [{}, {"temperature": 1.6}, {"top_p": 1.0}, {"top_k": None}, {"top_k": 2}, {"top_p": 0.3}]
    for sampling in cases:
        made = [row_of(record) for record in trajectories(model, **sampling)]
        temperature = {**SAMPLING, **sampling}["temperature"]
        assert gaps(model, pad(made), float(temperature or 0)).max() < 1e-5
        whole = dataclasses.replace(pad(made), support=None)
        assert gaps(model, whole, float(temperature or 0)).max() > 0.05  # it is the support that makes it one


def test_sampled_tokens_have_their_support_and_all_others_the_whole_vocabulary(rows: list[Row]) -> None:
    for row in rows:
        assert row.support is not None
        for token, sampled, kept in zip(row.token_ids, row.policy_mask, row.support, strict=True):
            assert (kept is not None) == sampled
            assert kept is None or (token in kept and len(kept) <= 6)


def test_padding_order_and_company_do_not_matter(model: LlamaForCausalLM, rows: list[Row]) -> None:
    together = pad(rows)
    with torch.no_grad():
        all_at_once = policy_logprobs(model, together.input_ids, temperature=0.7, support=together.support)
        for cut in (rows[::-1], rows[2:4], rows[5:], [rows[3], rows[0]]):
            batch = pad(cut)
            found = policy_logprobs(model, batch.input_ids, temperature=0.7, support=batch.support)
            for row, own in zip(cut, found, strict=True):
                length = len(row.token_ids)
                assert torch.allclose(own[:length], all_at_once[rows.index(row), :length], atol=1e-5)


def test_a_batch_lists_what_its_rows_kept(rows: list[Row]) -> None:
    # two rows of three and two tokens, padded to three places each
    base: dict[str, Any] = {
        "trajectory_id": "a",
        "group_id": None,
        "behaviour_logprobs": (0.0,) * 3,
        "turns": (-1, 0, 0),
        "advantage": 1.0,
    }
    masks: dict[str, Any] = {"policy_mask": (False, True, True), "loss_mask": (False, True, True)}
    one = Row(**base, **masks, token_ids=(4, 5, 6), support=(None, (5, 9), (6,)))
    short: dict[str, Any] = {name: value[:2] if isinstance(value, tuple) else value for name, value in {**base, **masks}.items()}
    two = Row(**short, token_ids=(4, 7))
    batch = pad([one, two])
    assert batch.support is not None
    assert batch.support.ids.tolist() == [5, 9, 6]
    assert batch.support.offsets.tolist() == [0, 0, 2, 3, 3, 3, 3]
    assert pad([two]).support is None


def test_rows_without_truncation_carry_no_support(model: LlamaForCausalLM) -> None:
    plain = [row_of(record) for record in trajectories(model, 2, top_p=1.0, top_k=None)]
    assert [row.support for row in plain] == [None, None]
    assert pad(plain).support is None


def test_gradients_reach_only_what_was_kept(model: LlamaForCausalLM, rows: list[Row]) -> None:
    leaf = torch.zeros(len(rows[0].token_ids), 11, requires_grad=True)

    class Given(torch.nn.Module):
        def forward(self, input_ids: Tensor, use_cache: bool) -> Any:
            return type("Output", (), {"logits": leaf[None]})

    batch = pad(rows[:1])
    policy_logprobs(Given(), batch.input_ids, temperature=0.7, support=batch.support)[batch.policy_mask].sum().backward()
    assert leaf.grad is not None
    for place, kept in enumerate(rows[0].support or ()):
        if kept is not None:
            assert {*leaf.grad[place - 1].nonzero().flatten().tolist()} == ({*kept} if len(kept) > 1 else set())


def test_the_hash_of_a_row_knows_its_support(rows: list[Row]) -> None:
    row = rows[0]
    assert row.support is not None
    place = row.policy_mask.index(True)
    kept = row.support[place]
    assert kept is not None
    changed = (*row.support[:place], (*kept, 99), *row.support[place + 1 :])
    assert row_hash(dataclasses.replace(row, support=changed)) != row_hash(row)


def test_support_survives_the_event_log_and_parquet(model: LlamaForCausalLM, rows: list[Row], tmp_path: Path) -> None:
    with new_log(tmp_path / "events.db", trajectories(model)) as log:
        export_parquet(log, tmp_path / "out")
        stored = [row_of(one.trajectory) for one in log.trajectories()]
    import_parquet(tmp_path / "out", tmp_path / "again.db")
    with EventLog.read(tmp_path / "again.db") as log:
        read = [row_of(one.trajectory) for one in log.trajectories()]
    for back in (stored, read):
        assert back == rows
        assert [row_hash(row) for row in back] == [row_hash(row) for row in rows]
        assert gaps(model, pad(back)).max() < 1e-5


def test_the_episode_loop_samples_as_its_limits_say_and_records_it() -> None:
    def speak(request: Request) -> list[Chunk]:
        ids = CODEC.reply("search(lamps)")
        kept = tuple((i, i + 1) for i in ids[:2])
        return [
            Chunk(ids[:2], (-0.5,) * 2, "v1", None, kept),
            Chunk(ids[2:], (-0.5,) * (len(ids) - 2), "v1", "stop"),
        ]

    engine = FakeEngine(speak)
    record = play(Echo(), engine, temperature=0.5, top_p=0.9, top_k=20, max_turns=1)
    sampling = engine.requests[0].sampling
    assert (sampling.temperature, sampling.top_p, sampling.top_k) == (0.5, 0.9, 20)
    (action,) = record.actions
    assert action.sampling is not None
    assert (action.sampling.temperature, action.sampling.top_p, action.sampling.top_k) == (0.5, 0.9, 20)
    ids = action.token_ids
    assert action.kept_support == (*((i, i + 1) for i in ids[:2]), *[None] * (len(ids) - 2))
    plain = play(Echo(), says(CODEC, "search(lamps)"), max_turns=1)
    assert plain.actions[0].kept_support is None
