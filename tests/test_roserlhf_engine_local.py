"""The local engine: exact log-probabilities, draws that depend on their key alone, atomic publication, failures that are heard."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from loop_models import answer, ask, full_logprobs, request, tiny_model
from torch import Tensor

from rosellm.roserlhf.engine.llama import LlamaStep
from rosellm.roserlhf.engine.local import LocalEngine
from rosellm.roserlhf.engine.protocol import Chunk, PolicyHandle, Sampling
from rosellm.roserlhf.errors import CheckpointError, DtypeError, NonFiniteError, RangeError
from rosellm.roserlhf.models.causal import weights

PROMPTS = [(1, 2, 3), (4,), (5, 6, 7, 8, 9, 10), (2, 2), (3, 1, 4, 1, 5), (9, 8, 7), (0, 0, 0, 0), (6,), (10, 1)]


@pytest.fixture
def make() -> Iterator[Callable[..., LocalEngine]]:
    """Build engines over the tiny model and close them afterwards."""
    made: list[LocalEngine] = []

    def new(**options: Any) -> LocalEngine:
        model = options.pop("model", None) or tiny_model()
        made.append(LocalEngine(model, **{"version": "v0", "threads": 1, **options}))
        return made[-1]

    yield new
    for engine in made:
        engine.close()


def tokens(chunks: list[Chunk]) -> list[tuple[int, ...]]:
    return [chunk.token_ids for chunk in chunks]


# ---- log-probabilities


@pytest.mark.parametrize(("heads", "kv_heads"), [(1, 1), (2, 1), (4, 2), (4, 4)])
@pytest.mark.parametrize("temperature", [1.0, 0.5, 2.0])
def test_recorded_logprobs_are_the_models_own(
    make: Callable[..., LocalEngine], heads: int, kv_heads: int, temperature: float
) -> None:
    model = tiny_model(layers=2, heads=heads, key_value_heads=kv_heads)
    requests = [request(prompt, max_tokens=16, temperature=temperature) for prompt in PROMPTS]
    for asked, chunk in zip(requests, ask(make(model=model, batch_rows=4), requests), strict=True):
        assert len(chunk.token_ids) == 16
        expected = full_logprobs(model, asked.prompt_ids + chunk.token_ids, temperature=temperature)[-16:]
        assert (torch.tensor(chunk.logprobs, dtype=torch.float64) - expected).abs().max() < 1e-4


def test_greedy_is_transformers_greedy_and_records_temperature_one(make: Callable[..., LocalEngine]) -> None:
    model = tiny_model(layers=2)
    found = ask(make(model=model), [request(prompt, temperature=0.0, max_tokens=8, stop_ids=(3,)) for prompt in PROMPTS])
    for prompt, chunk in zip(PROMPTS, found, strict=True):
        ids = torch.tensor([prompt])
        options = {"do_sample": False, "max_new_tokens": 8, "eos_token_id": 3, "pad_token_id": 0}
        expected = model.generate(ids, attention_mask=torch.ones_like(ids), **options)[0, len(prompt) :].tolist()
        assert list(chunk.token_ids) == expected
        exact = full_logprobs(model, (*prompt, *chunk.token_ids))[-len(chunk.token_ids) :]
        assert (torch.tensor(chunk.logprobs, dtype=torch.float64) - exact).abs().max() < 1e-4


def test_R11_the_recorded_logprob_is_that_of_the_tempered_distribution(
    make: Callable[..., LocalEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    # softmax([0, ln 3] / 0.5) = [1, 9] / 10
    def fixed(self: LlamaStep, ids: Tensor, *_: Any, **__: Any) -> Tensor:
        return torch.tensor([[0.0, 3.0]]).log1p().mul(torch.tensor(3.0).log() / torch.tensor(4.0).log()).expand(len(ids), 2)

    monkeypatch.setattr(LlamaStep, "forward", fixed)
    found = ask(make(), [request((1,), n, temperature=0.5, max_tokens=1) for n in range(500)])
    ln = {0: torch.tensor(0.1).log().item(), 1: torch.tensor(0.9).log().item()}
    for chunk in found:
        assert chunk.logprobs[0] == pytest.approx(ln[chunk.token_ids[0]], abs=1e-6)
    # 500 draws: standard error of the share sqrt(0.09 / 500) = 0.0134
    assert abs(sum(chunk.token_ids[0] for chunk in found) / 500 - 0.9) < 4 * 0.0134


def test_tokens_follow_the_exact_distribution(make: Callable[..., LocalEngine]) -> None:
    model = tiny_model(vocabulary_size=5, sharpness=12.0)
    found = ask(make(model=model, batch_rows=256), [request((1, 2), n, max_tokens=2) for n in range(3000)])
    with torch.no_grad():
        first = model(torch.tensor([[1, 2]])).logits[0, -1].double().softmax(-1)
        second = model(torch.tensor([[1, 2, i] for i in range(5)])).logits[:, -1].double().softmax(-1)
    expected = 3000 * first[:, None] * second
    counts = torch.zeros(5, 5, dtype=torch.float64)
    for chunk in found:
        counts[chunk.token_ids] += 1
    common = expected >= 5
    assert common.sum() >= 8  # far from one certain token
    # chi-square over the common pairs and one cell for the rest; 99.99 % quantiles: 40.1 for 12, 61.0 for 25 degrees of freedom
    rest = (counts[~common].sum() - expected[~common].sum()) ** 2 / expected[~common].sum().clamp(min=1)
    statistic = ((counts - expected)[common] ** 2 / expected[common]).sum() + rest
    assert statistic < {True: 40.1, False: 61.0}[bool(common.sum() <= 12)]


# ---- independence of everything but the key


@pytest.mark.parametrize("truncation", [{}, {"top_p": 0.9}, {"top_k": 4, "temperature": 1.5}])
def test_draws_do_not_depend_on_batch_order_company_or_threads(
    make: Callable[..., LocalEngine], truncation: dict[str, Any]
) -> None:
    model = tiny_model(layers=2)
    requests = [request(prompt, max_tokens=9, stop_ids=(4,), **truncation) for prompt in PROMPTS]
    expected = ask(make(model=model), requests)
    engine = make(model=model)
    others = {
        "alone": [ask(engine, [asked])[0] for asked in requests],
        "reversed": ask(make(model=model), requests[::-1])[::-1],
        "small batches, three threads": ask(make(model=model, batch_rows=2, threads=3), requests),
        "waves of two": ask(make(model=model, cache_rows=2), requests),
        "with strangers": ask(make(model=model), [request((n,), n, max_tokens=3) for n in range(11)] + requests)[11:],
    }
    assert len(set(tokens(expected))) > 5
    for name, found in others.items():
        assert tokens(found) == tokens(expected), name
        for one, other in zip(found, expected, strict=True):
            assert one.logprobs == pytest.approx(other.logprobs, abs=1e-5), name
            assert (one.stop_reason, one.support) == (other.stop_reason, other.support)


def test_draws_do_not_depend_on_cache_hits_or_eviction(make: Callable[..., LocalEngine]) -> None:
    def converse(engine: LocalEngine, *, sessions: bool, shuffled: bool = False) -> list[list[tuple[int, ...]]]:
        contexts: list[tuple[int, ...]] = list(PROMPTS)
        said: list[list[tuple[int, ...]]] = [[] for _ in contexts]
        for turn in range(3):
            order = list(range(len(contexts)))[:: -1 if shuffled and turn % 2 else 1]
            requests = [request(contexts[i], i, turn, session=f"s{i}" if sessions else "", max_tokens=4) for i in order]
            for i, chunk in zip(order, ask(engine, requests), strict=True):
                said[i].append(chunk.token_ids)
                contexts[i] = (*contexts[i], *chunk.token_ids, 7, i)  # an observation of two tokens
        return said

    expected = converse(make(), sessions=False)
    assert converse(make(), sessions=True) == expected
    assert converse(make(cache_rows=4), sessions=True) == expected
    assert converse(make(cache_rows=1), sessions=True) == expected
    assert converse(make(cache_rows=4, batch_rows=3, threads=2), sessions=True, shuffled=True) == expected


def test_a_hit_computes_only_what_is_new(make: Callable[..., LocalEngine], monkeypatch: pytest.MonkeyPatch) -> None:
    widths: list[int] = []
    plain = LlamaStep.forward

    def counted(self: LlamaStep, ids: Tensor, *args: Any, **options: Any) -> Tensor:
        widths.append(ids.shape[1])
        return plain(self, ids, *args, **options)

    monkeypatch.setattr(LlamaStep, "forward", counted)
    engine = make()
    (first,) = ask(engine, [request((1, 2, 3, 4, 5), session="s", max_tokens=2)])
    ask(engine, [request((1, 2, 3, 4, 5, *first.token_ids, 9), session="s", max_tokens=1)])
    # five prompt tokens, then one by one; the second request adds the last sampled token and the observation
    assert widths == [5, 1, 2]


def test_another_history_under_the_same_session_is_computed_anew(make: Callable[..., LocalEngine]) -> None:
    engine = make()
    ask(engine, [request((1, 2, 3, 4, 5), session="s")])
    for prompt in [(1, 2, 9, 4, 5, 6, 7, 8, 9, 10, 1, 2), (1, 2), (1, 2, 3, 4, 5), (3,)]:
        again, fresh = ask(engine, [request(prompt, session="s")]), ask(make(), [request(prompt)])
        assert tokens(again) == tokens(fresh)


def test_two_requests_of_one_session_at_once_do_not_share_a_row(make: Callable[..., LocalEngine]) -> None:
    engine = make(cache_rows=2)
    requests = [request(prompt, session="s") for prompt in PROMPTS]
    expected = [ask(make(), [request(prompt)])[0] for prompt in PROMPTS]
    assert tokens(ask(engine, requests)) == tokens(expected)
    assert tokens(ask(engine, requests)) == tokens(expected)


def test_forgetting_makes_an_engine_like_new(make: Callable[..., LocalEngine]) -> None:
    engine, rows = make(cache_rows=4), []
    plain = LlamaStep.forward

    def watched(self: LlamaStep, ids: Tensor, positions: Tensor, used: list[int], *args: Any, **options: Any) -> Tensor:
        rows.append(list(used))
        return plain(self, ids, positions, used, *args, **options)

    requests = [request(prompt, session=str(prompt), max_tokens=2) for prompt in PROMPTS[:3]]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LlamaStep, "forward", watched)
        first = ask(engine, requests)
        seen = list(rows)
        ask(engine, [request((n,), session=f"other {n}") for n in range(7)])
        engine.forget()
        rows.clear()
        assert ask(engine, requests) == first
    assert rows == seen


# ---- where sampling ends


def test_a_stop_id_ends_sampling_and_is_part_of_it(make: Callable[..., LocalEngine]) -> None:
    engine = make()
    (free,) = ask(engine, [request((1, 2), max_tokens=12)])
    stop = free.token_ids[3]
    cut = free.token_ids[: free.token_ids.index(stop) + 1]
    (found,) = ask(engine, [request((1, 2), max_tokens=12, stop_ids=(stop, 99))])
    assert (found.token_ids, found.stop_reason) == (cut, "stop")
    assert len(found.logprobs) == len(cut)


def test_length_ends_sampling_and_a_stop_id_at_the_last_place_is_a_stop(make: Callable[..., LocalEngine]) -> None:
    engine = make()
    (found,) = ask(engine, [request((1, 2), max_tokens=5)])
    assert (len(found.token_ids), found.stop_reason) == (5, "length")
    last = found.token_ids[-1]
    place = found.token_ids.index(last) + 1
    (stopped,) = ask(engine, [request((1, 2), max_tokens=place, stop_ids=(last,))])
    assert (stopped.token_ids, stopped.stop_reason) == (found.token_ids[:place], "stop")


@pytest.mark.parametrize("room", [1, 2, 5])
def test_the_context_ends_sampling(make: Callable[..., LocalEngine], room: int) -> None:
    model = tiny_model()
    prompt = tuple(n % 11 for n in range(32 - room))
    alone, *_ = found = ask(make(model=model), [request(prompt, max_tokens=99), request((1, 2), max_tokens=99)])
    assert (len(alone.token_ids), alone.stop_reason) == (room, "length")
    assert len(found[1].token_ids) == 30
    for ids, chunk in zip((prompt, (1, 2)), found, strict=True):
        exact = full_logprobs(model, ids + chunk.token_ids)[-len(chunk.token_ids) :]
        assert (torch.tensor(chunk.logprobs, dtype=torch.float64) - exact).abs().max() < 1e-4


# ---- publication


def test_R42_publication_replaces_weights_and_version_together_and_forgets_the_cache(make: Callable[..., LocalEngine]) -> None:
    old, new = tiny_model(seed=1), tiny_model(seed=2)
    engine = make(model=old, version="v7")
    (first,) = ask(engine, [request((1, 2, 3), session="s")])
    assert (first.version, engine.version) == ("v7", "v7")
    ack = asyncio.run(engine.publish(PolicyHandle("v8", weights(new))))
    prompt = (1, 2, 3, *first.token_ids, 4)
    (second,) = ask(engine, [request(prompt, session="s")])
    assert (ack.version, second.version, engine.version) == ("v8", "v8", "v8")
    # nothing of what v7 cached may be left: every key and value is v8's
    exact = full_logprobs(new, prompt + second.token_ids)[-6:]
    assert (torch.tensor(second.logprobs, dtype=torch.float64) - exact).abs().max() < 1e-4


def test_publication_during_a_wave_waits_for_its_end(make: Callable[..., LocalEngine], monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = tiny_model(seed=1), tiny_model(seed=2)
    engine, started, go_on = make(model=old), threading.Event(), threading.Event()
    plain = LlamaStep.forward

    def slow(self: LlamaStep, *args: Any, **options: Any) -> Tensor:
        started.set()
        assert go_on.wait(300)
        return plain(self, *args, **options)

    monkeypatch.setattr(LlamaStep, "forward", slow)

    async def race() -> tuple[Chunk, Chunk]:
        before = asyncio.create_task(answer(engine, request((1, 2, 3))))
        while not started.is_set():
            await asyncio.sleep(0.001)
        publication = asyncio.create_task(engine.publish(PolicyHandle("v1", weights(new))))
        await asyncio.sleep(0.01)
        after = asyncio.create_task(answer(engine, request((1, 2, 3))))
        await asyncio.sleep(0.01)
        assert not publication.done()
        assert engine.version == "v0"
        go_on.set()
        await publication
        return await before, await after

    before, after = asyncio.run(race())
    for chunk, version, model in ((before, "v0", old), (after, "v1", new)):
        assert chunk.version == version
        exact = full_logprobs(model, (1, 2, 3, *chunk.token_ids))[-6:]
        assert (torch.tensor(chunk.logprobs, dtype=torch.float64) - exact).abs().max() < 1e-4


def test_weights_that_do_not_fit_leave_the_old_policy_in_place(make: Callable[..., LocalEngine]) -> None:
    engine = make()
    expected = ask(engine, [request((1, 2))])
    wrong = weights(tiny_model(seed=2))
    wrong[list(wrong)[-1]] = torch.zeros(3)
    with pytest.raises(CheckpointError, match="shape"):
        asyncio.run(engine.publish(PolicyHandle("v1", wrong)))
    assert ask(engine, [request((1, 2))]) == expected


def test_the_engine_keeps_its_own_copy_of_the_weights(make: Callable[..., LocalEngine]) -> None:
    model = tiny_model()
    torch.manual_seed(3)
    expected_draw = torch.rand(1)
    torch.manual_seed(3)
    engine = make(model=model)
    assert torch.equal(torch.rand(1), expected_draw)  # building an engine draws nothing from the caller's random state
    expected = ask(engine, [request((1, 2))])
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    assert ask(engine, [request((1, 2))]) == expected


# ---- failures


def test_cancelled_and_closed_requests_do_not_disturb_the_others(make: Callable[..., LocalEngine]) -> None:
    engine = make()
    expected = ask(make(), [request(prompt) for prompt in PROMPTS])

    async def some_give_up() -> list[Chunk]:
        tasks = [asyncio.create_task(answer(engine, request(prompt))) for prompt in PROMPTS]
        gone = [asyncio.create_task(answer(engine, request((n,), n))) for n in range(3)]
        abandoned = engine.generate(request((1,), "abandoned"))
        waiting = asyncio.ensure_future(anext(abandoned))
        await asyncio.sleep(0)
        for task in (*gone, waiting):
            task.cancel()
        await asyncio.gather(*gone, waiting, return_exceptions=True)
        await abandoned.aclose()
        await engine.generate(request((1,), "never started")).aclose()
        return await asyncio.gather(*tasks)

    assert tokens(asyncio.run(some_give_up())) == tokens(expected)
    assert tokens(ask(engine, [request(prompt) for prompt in PROMPTS])) == tokens(expected)


def test_R40_a_failing_worker_is_heard_by_everyone_and_the_engine_goes_on(
    make: Callable[..., LocalEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = make(cache_rows=3, batch_rows=1, threads=2)
    requests = [request(prompt, session="" if i % 2 else f"s{i}") for i, prompt in enumerate(PROMPTS)]
    expected = tokens(ask(make(), [request(prompt) for prompt in PROMPTS]))
    plain, running, lock = LlamaStep.forward, [0], threading.Lock()

    def failing(self: LlamaStep, ids: Tensor, positions: Tensor, *args: Any, **options: Any) -> Tensor:
        with lock:
            running[0] += 1
        try:
            if int(ids[0, 0]) == 4 and int(positions[0, 0]) == 0:
                raise RuntimeError("out of memory")
            return plain(self, ids, positions, *args, **options)
        finally:
            with lock:
                running[0] -= 1

    async def everyone() -> list[Chunk | BaseException]:
        return await asyncio.gather(*(answer(engine, asked) for asked in requests), return_exceptions=True)

    with monkeypatch.context() as patch:
        patch.setattr(LlamaStep, "forward", failing)
        for _ in range(4):  # a row lost each time would be the end of the third wave
            found = asyncio.run(everyone())
            # waves of three: the second prompt fails, so the first three requests hear of it and the others are served
            assert [str(one) for one in found[:3]] == ["out of memory"] * 3
            assert [one.token_ids for one in found[3:] if isinstance(one, Chunk)] == expected[3:]
            assert running == [0]  # nobody still writes to the cache when the failure is told
    assert tokens(ask(engine, requests)) == expected


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        ((), "prompt_ids must hold 1 to 31 tokens, got 0"),
        (tuple([1] * 32), "prompt_ids must hold 1 to 31 tokens, got 32"),
        ((1, 11), r"prompt_ids must be in \[0, 11\), got 11"),
        ((-1, 1), r"prompt_ids must be in \[0, 11\), got -1"),
    ],
)
def test_a_prompt_that_cannot_be_continued_is_refused_before_it_joins_a_wave(
    make: Callable[..., LocalEngine], prompt: tuple[int, ...], message: str
) -> None:
    engine = make()

    async def beside_a_good_one() -> tuple[Chunk, BaseException]:
        good, bad = await asyncio.gather(
            answer(engine, request((1, 2))), answer(engine, request(prompt, "bad")), return_exceptions=True
        )
        assert isinstance(good, Chunk)
        assert isinstance(bad, BaseException)
        return good, bad

    good, bad = asyncio.run(beside_a_good_one())
    assert good == ask(make(), [request((1, 2))])[0]
    with pytest.raises(RangeError, match=message):
        raise bad


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"temperature": -0.1}, RangeError, r"temperature must be in \[0, inf\), got -0.1"),
        ({"temperature": float("nan")}, RangeError, "temperature must be in"),
        ({"temperature": float("inf")}, RangeError, "temperature must be in"),
        ({"temperature": "1"}, DtypeError, "temperature must be a number"),
        ({"max_tokens": 0}, RangeError, r"max_tokens must be in \[1, inf\), got 0"),
        ({"max_tokens": 2.5}, DtypeError, "max_tokens must be an integer, got 2.5"),
    ],
)
def test_sampling_options_out_of_range_are_refused(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Sampling(**options)


@pytest.mark.parametrize("option", ["threads", "cache_rows", "batch_rows"])
def test_an_engine_of_nothing_is_refused(make: Callable[..., LocalEngine], option: str) -> None:
    with pytest.raises(RangeError, match=rf"{option} must be in \[1, inf\), got 0"):
        make(**{option: 0})


def test_a_policy_that_is_not_finite_is_refused(make: Callable[..., LocalEngine]) -> None:
    engine = make()
    wrong = weights(tiny_model())
    wrong["model.embed_tokens.weight"][3, 2] = float("nan")
    with pytest.raises(NonFiniteError, match="policy must be finite, got NaN or infinity in model"):
        asyncio.run(engine.publish(PolicyHandle("v1", wrong)))
    assert engine.version == "v0"
