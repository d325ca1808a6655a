"""Drawing tokens: temperature, top-k, top-p, ties, and the log-probability that a token was drawn with."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from rosellm.roserlhf.engine.choice import choose
from rosellm.roserlhf.engine.protocol import Sampling
from rosellm.roserlhf.errors import NonFiniteError

NEARLY_ONE = 1 - 2**-53


def kept_by_sorting(logits: Sequence[float], sampling: Sampling) -> tuple[int, ...]:
    """The obvious way: sort by logit, then id; cut by number; renormalise; cut by mass."""
    z = torch.log_softmax(torch.tensor(logits) / sampling.temperature, -1).double().tolist()
    ids = sorted(range(len(z)), key=lambda i: (-z[i], i))[: sampling.top_k]
    total = 1.0 if (sampling.top_k or len(z)) >= len(z) else math.fsum(math.exp(z[i]) for i in ids)
    kept, mass = [], 0.0
    for i in ids:
        if sampling.top_p < 1 and mass >= sampling.top_p * total:
            break
        kept.append(i)
        mass += math.exp(z[i])
    return tuple(sorted(kept))


def one(logits: Sequence[float], draw: float, **options: float | int | None) -> tuple[int, float, tuple[int, ...] | None]:
    found = choose(torch.tensor([logits]), [Sampling(**options)], [draw])  # type: ignore[arg-type]
    return found.tokens[0], found.logprobs[0], found.supports[0]


# probabilities 0.5, 0.25, 0.15, 0.1, out of order
LOGITS = [math.log(p) for p in (0.15, 0.5, 0.1, 0.25)]


@pytest.mark.parametrize(
    ("options", "support", "mass"),
    [
        ({"top_k": 1}, (1,), 0.5),
        ({"top_k": 2}, (1, 3), 0.75),
        ({"top_k": 3}, (0, 1, 3), 0.9),
        ({"top_p": 0.3}, (1,), 0.5),
        ({"top_p": 0.6}, (1, 3), 0.75),  # 0.5 is not enough
        ({"top_p": 0.8}, (0, 1, 3), 0.9),
        ({"top_p": 0.95}, (0, 1, 2, 3), 1.0),
        ({"top_p": 1e-9}, (1,), 0.5),  # never less than the most likely one
        # of the three most likely ones, 0.5 / 0.9 = 0.556 have the first, 0.75 / 0.9 = 0.833 the first two
        ({"top_k": 3, "top_p": 0.6}, (1, 3), 0.75),
        ({"top_k": 3, "top_p": 0.85}, (0, 1, 3), 0.9),
    ],
)
def test_what_is_kept_and_what_its_tokens_are_worth(options: dict[str, float], support: tuple[int, ...], mass: float) -> None:
    probability = (0.15, 0.5, 0.1, 0.25)
    for draw in (0.0, 0.2, 0.55, 0.7, 0.9, NEARLY_ONE):
        token, logprob, kept = one(LOGITS, draw, **options)
        assert kept == support
        assert token in support
        assert logprob == pytest.approx(math.log(probability[token] / mass), abs=1e-6)


def test_temperature_comes_before_truncation() -> None:
    # at temperature 1/2 the probabilities are squared: 0.25, 0.0625, 0.0225, 0.01, together 0.345; the first has 0.7246 of it
    assert one(LOGITS, 0.5, temperature=0.5, top_p=0.7)[1:] == (0.0, (1,))
    token, logprob, kept = one(LOGITS, NEARLY_ONE, temperature=0.5, top_p=0.75)
    assert (token, kept) == (3, (1, 3))
    assert logprob == pytest.approx(math.log(0.0625 / 0.3125), abs=1e-6)


def test_equal_logits_are_kept_by_id() -> None:
    assert one([0.0] * 10, 0.5, top_k=3)[2] == (0, 1, 2)
    assert one([0.0] * 10, 0.5, top_p=0.35)[2] == (0, 1, 2, 3)  # 0.3 is not enough
    assert one([0.0, 1.0, 0.0, 1.0, 1.0, 0.0], 0.5, top_k=4)[2] == (0, 1, 3, 4)
    many = [0.0] * 5000
    many[4000] = 1.0
    assert one(many, 0.5, top_k=3)[2] == (0, 1, 4000)


def test_truncation_that_cuts_nothing_off_is_not_recorded() -> None:
    assert one(LOGITS, 0.5, top_k=4)[2] is None
    assert one(LOGITS, 0.5)[2] is None


def test_greedy_knows_no_truncation() -> None:
    for options in ({}, {"top_k": 1}, {"top_p": 0.1}):
        token, logprob, kept = one(LOGITS, 0.99, temperature=0.0, **options)
        assert (token, kept) == (1, None)
        assert logprob == pytest.approx(math.log(0.5), abs=1e-6)
    assert one([1.0, 3.0, 3.0], 0.99, temperature=0.0)[0] == 1


ROWS = st.lists(st.integers(-6, 6), min_size=1, max_size=40)
OPTIONS = st.builds(
    Sampling,
    temperature=st.sampled_from([0.3, 1.0, 1.7]),
    top_p=st.sampled_from([0.05, 0.33, 0.66, 0.9, 0.97, 1.0]),
    top_k=st.none() | st.integers(1, 45),
)


@settings(derandomize=True, max_examples=60, deadline=None)
@given(st.lists(st.tuples(ROWS, OPTIONS, st.floats(0, NEARLY_ONE)), min_size=1, max_size=4))
def test_every_row_is_truncated_and_drawn_as_if_it_were_alone(cases: list[tuple[list[int], Sampling, float]]) -> None:
    # logits in steps of a quarter, so that many are equal; a row that is shorter is filled with what can never be drawn
    width = max(len(row) for row, _, _ in cases)
    logits = torch.tensor([[x / 4 for x in row] + [-math.inf] * (width - len(row)) for row, _, _ in cases])
    found = choose(logits, [sampling for _, sampling, _ in cases], [draw for _, _, draw in cases])
    for i, (row, sampling, draw) in enumerate(cases):
        z = [x / 4 for x in row] + [-math.inf] * (width - len(row))
        truncated = sampling.top_p < 1 or (sampling.top_k or width) < width
        kept = kept_by_sorting(z, sampling)
        if truncated:
            assert {i for i in found.supports[i] or () if z[i] > -math.inf} == {i for i in kept if z[i] > -math.inf}
        else:
            assert found.supports[i] is None
        inside = torch.tensor(z, dtype=torch.float64)[list(kept)] / sampling.temperature
        expected = float(inside.log_softmax(-1)[list(kept).index(found.tokens[i])])
        assert found.logprobs[i] == pytest.approx(expected, abs=1e-5)
        alone = choose(logits[i : i + 1], [sampling], [draw])
        assert (alone.tokens[0], alone.supports[0]) == (found.tokens[i], found.supports[i])


def drawn_by_summing(logprobs: Tensor, draw: float) -> int:
    """The obvious way: add up one by one."""
    cumulative = np.cumsum(logprobs.double().exp().numpy())
    return int(np.searchsorted(cumulative, draw * cumulative[-1], side="right"))


@pytest.mark.parametrize("size", [1, 2, 3, 90, 2048, 49152])
def test_the_search_in_two_steps_finds_what_adding_up_finds(size: int) -> None:
    generator = torch.Generator().manual_seed(size)
    logits = 4 * torch.randn(40, size, generator=generator)
    draws = torch.rand(40, generator=generator, dtype=torch.float64).tolist()
    found = choose(logits, [Sampling()] * 40, draws)
    assert found.tokens == [drawn_by_summing(row, draw) for row, draw in zip(logits.log_softmax(-1), draws, strict=True)]


@pytest.mark.parametrize("size", [5, 300])
def test_a_token_without_mass_is_never_drawn(size: int) -> None:
    logits = torch.full((4, size), -math.inf)
    logits[:, 2], logits[:, 3] = 1.0, 2.0
    for sampling, tokens in (
        (Sampling(), [2, 2, 3, 3]),  # 1 / (1 + e) = 0.2689
        (Sampling(top_k=4), [3, 3, 3, 2]),  # what is truncated is drawn most likely first
        (Sampling(top_p=0.999999), [3, 3, 3, 2]),
    ):
        assert choose(logits, [sampling] * 4, [0.0, 0.26, 0.27, NEARLY_ONE]).tokens == tokens


def test_truncated_draws_follow_the_renormalised_distribution() -> None:
    count = 4000
    draws = torch.rand(count, generator=torch.Generator().manual_seed(5), dtype=torch.float64).tolist()
    found = choose(torch.tensor([LOGITS]).expand(count, 4), [Sampling(top_p=0.8)] * count, draws)
    shares = np.bincount(found.tokens, minlength=4) / count
    for token, probability in enumerate((0.15 / 0.9, 0.5 / 0.9, 0.0, 0.25 / 0.9)):
        assert abs(shares[token] - probability) <= 4 * math.sqrt(probability * (1 - probability) / count)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_logits_that_are_no_numbers_are_refused(bad: float) -> None:
    with pytest.raises(NonFiniteError, match="logits must be finite"):
        one([0.0, bad, 1.0], 0.5)


def test_a_whole_vocabulary_is_truncated_exactly() -> None:
    generator = torch.Generator().manual_seed(3)
    logits = (2 * torch.randn(3, 49152, generator=generator)).bfloat16().float()  # thousands of equal ones
    for sampling in (Sampling(top_p=0.9), Sampling(top_k=700), Sampling(temperature=0.7, top_k=900, top_p=0.5)):
        found = choose(logits, [sampling] * 3, [0.1, 0.5, 0.9])
        for row, token, support in zip(logits.tolist(), found.tokens, found.supports, strict=True):
            kept = kept_by_sorting(row, sampling)
            assert support is not None
            assert len({*support} ^ {*kept}) <= 1  # the sums of 10,000 masses are rounded in another order
            assert token in support
