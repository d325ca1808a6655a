"""What a batch computes, and what it does not compute twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from loop_models import ask, full_logprobs, request, tiny_model
from torch import Tensor

from rosellm.roserlhf.engine import batch
from rosellm.roserlhf.engine.llama import LlamaStep
from rosellm.roserlhf.engine.local import LocalEngine
from rosellm.roserlhf.engine.protocol import Chunk, Request


@pytest.fixture
def shapes(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Rows and columns of every forward pass from now on."""
    seen: list[tuple[int, int]] = []
    plain = LlamaStep.forward

    def counted(self: LlamaStep, ids: Tensor, *args: Any, **options: Any) -> Tensor:
        seen.append((ids.shape[0], ids.shape[1]))
        return plain(self, ids, *args, **options)

    monkeypatch.setattr(LlamaStep, "forward", counted)
    return seen


@pytest.fixture
def make() -> Iterator[Callable[..., LocalEngine]]:
    made: list[LocalEngine] = []

    def new(**options: Any) -> LocalEngine:
        model = tiny_model(layers=2, context_window=options.pop("context_window", 64))
        made.append(LocalEngine(model, **{"version": "v0", "threads": 1, **options}))
        return made[-1]

    yield new
    for engine in made:
        engine.close()


def alone(make: Callable[..., LocalEngine], requests: list[Request]) -> list[Chunk]:
    """Each of them by a new engine."""
    return [ask(make(), [asked])[0] for asked in requests]


def same(found: list[Chunk], expected: list[Chunk]) -> bool:
    assert [chunk.token_ids for chunk in found] == [chunk.token_ids for chunk in expected]
    pairs = zip(found, expected, strict=True)
    return all(one.logprobs == pytest.approx(other.logprobs, abs=1e-5) for one, other in pairs)


def test_equal_prompts_are_computed_once_and_sampled_apart(make: Callable[..., LocalEngine], shapes: list[tuple[int, int]]) -> None:
    prompts = [(1, 2, 3, 4, 5), (6, 7, 8, 9)]
    requests = [request(prompt, member, prompt[0], max_tokens=5) for prompt in prompts for member in range(6)]
    found = ask(make(), requests)
    assert shapes[:1] == [(2, 5)]
    assert all(columns == 1 for _, columns in shapes[1:])
    assert len({chunk.token_ids for chunk in found}) > 6
    assert same(found, alone(make, requests))


def test_a_common_beginning_is_computed_once(make: Callable[..., LocalEngine], shapes: list[tuple[int, int]]) -> None:
    beginning = tuple(n % 11 for n in range(20))
    requests = [request((*beginning, n, n, *range(n)), n, session=f"s{n}", max_tokens=3) for n in range(5)]
    engine = make()
    found = ask(engine, requests)
    assert shapes[0] == (1, 20)
    # what is left has 2 to 6 tokens: 2 and 3 together, 4 to 6 together
    assert sorted(shapes[1:3]) == [(2, 3), (3, 6)]
    assert same(found, alone(make, requests))
    # the next turn goes on from what every session has
    shapes.clear()
    following = [
        request((*asked.prompt_ids, *chunk.token_ids, 4), "next", n, session=f"s{n}", max_tokens=2)
        for n, (asked, chunk) in enumerate(zip(requests, found, strict=True))
    ]
    again = ask(engine, following)
    assert shapes[0] == (5, 2)
    assert same(again, alone(make, following))


def test_a_short_common_beginning_is_not_worth_a_pass_of_its_own(
    make: Callable[..., LocalEngine], shapes: list[tuple[int, int]]
) -> None:
    ask(make(), [request((1, 2, 3, n), max_tokens=1) for n in range(4)])
    assert shapes == [(4, 4)]


def test_one_prompt_may_be_the_beginning_of_another(make: Callable[..., LocalEngine]) -> None:
    long = tuple(n % 11 for n in range(30))
    requests = [request(long[:length], length, member, max_tokens=4) for length in (18, 30, 19) for member in range(2)]
    assert same(ask(make(), requests), alone(make, requests))


def test_long_prompts_are_computed_piece_by_piece(
    make: Callable[..., LocalEngine], shapes: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "_PIECE", 8)
    monkeypatch.setattr(batch, "_TOKENS", 16)
    requests = [request(tuple((n * k) % 11 for k in range(1, length)), n, max_tokens=3) for n, length in ((2, 30), (3, 17), (5, 9))]
    found = ask(make(), requests)
    assert max(rows * columns for rows, columns in shapes) <= 16
    monkeypatch.undo()
    assert same(found, alone(make, requests))


def test_rows_that_have_stopped_leave_the_batch(make: Callable[..., LocalEngine], shapes: list[tuple[int, int]]) -> None:
    # four of eight stop after 2 tokens, two after 4, two after 9: rows are moved when a quarter or more would be computed in vain
    lengths = [2, 9, 4, 2, 2, 9, 4, 2]
    requests = [request((n, 3, 5), n, max_tokens=length, session=f"s{n}") for n, length in enumerate(lengths)]
    engine = make()
    found = ask(engine, requests)
    assert [rows for rows, _ in shapes] == [8, 8, 4, 4, 2, 2, 2, 2, 2]
    assert same(found, alone(make, requests))
    # moved rows still hold what their sessions said
    shapes.clear()
    following = [
        request((*asked.prompt_ids, *chunk.token_ids, 7), "next", n, session=f"s{n}", max_tokens=2)
        for n, (asked, chunk) in enumerate(zip(requests, found, strict=True))
    ]
    assert same(ask(engine, following), alone(make, following))
    assert shapes[0] == (8, 2)


def test_nothing_is_cached_beyond_what_was_needed(make: Callable[..., LocalEngine]) -> None:
    engine = make(context_window=4096, cache_rows=600, batch_rows=200)
    ask(engine, [request((1, 2, 3), n, session=f"s{n}", max_tokens=4) for n in range(5)])
    held = [(block.cache.rows, block.cache.positions) for block in engine._rows._blocks]
    assert held == [(8, 64), (0, 0), (0, 0)]


def test_the_engine_may_be_given_shorter_sequences_than_the_model_has(make: Callable[..., LocalEngine]) -> None:
    engine = make(context_window=64, positions=10)
    (found,) = ask(engine, [request((1, 2, 3, 4), max_tokens=99)])
    assert (len(found.token_ids), found.stop_reason) == (6, "length")
    assert engine._rows._blocks[0].cache.positions == 10
    exact = full_logprobs(tiny_model(layers=2, context_window=64), (1, 2, 3, 4, *found.token_ids))[-6:]
    assert (torch.tensor(found.logprobs, dtype=torch.float64) - exact).abs().max() < 1e-4


def test_large_models_are_cut_into_batches_for_all_threads(
    make: Callable[..., LocalEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    from rosellm.roserlhf.engine import local

    assert [len(block.rows) for block in make()._rows._blocks] == [256] * 4
    monkeypatch.setattr(local, "_LARGE", 100)
    assert [len(block.rows) for block in make()._rows._blocks] == [32] * 4
    assert [len(block.rows) for block in make(cache_rows=70)._rows._blocks] == [32, 32, 6]
