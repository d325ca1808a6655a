"""Standardising over the tokens of a batch: where eps enters, what a long rollout weighs, and when the answer is 0."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles_groups import batch_standardized

from rosellm.roserlhf.advantages import batch_standardized_advantages, discounted_returns, grouped_advantages
from rosellm.roserlhf.errors import DtypeError, MaskError, NonFiniteError, RangeError, RoseError, ShapeError

thorough = settings(derandomize=True, max_examples=60, deadline=None)
NAN = float("nan")
ROW, MASK = torch.tensor([1.0, 2.0, 4.0, 0.0], dtype=torch.float64), torch.tensor([1.0, 1.0, 1.0, 0.0])


@pytest.mark.parametrize(
    ("std", "eps", "placement", "expected"),
    [
        # mean 7/3; squares 16/9 + 1/9 + 25/9 = 14/3: population variance 14/9, sample 7/3
        ("population", 1e-8, "inside_root", [-1.0690449642134818, -0.26726124105337057, 1.336306205266852]),
        ("sample", 1e-8, "inside_root", [-0.8728715590735306, -0.21821788976838274, 1.0910894488419132]),
        ("population", 1e-8, "variance_floor", [-1.0690449676496978, -0.2672612419124245, 1.3363062095621219]),
        ("population", 1e-5, "outside_root", [-1.06903639628985, -0.2672590990724626, 1.3362954953623123]),
        ("population", 16.0, "variance_floor", [-1 / 3, -1 / 12, 5 / 12]),  # max(14/9, 16) = 4 squared
    ],
)
def test_every_placement_of_eps(std: Any, eps: float, placement: Any, expected: list[float]) -> None:
    found = batch_standardized_advantages(ROW, MASK, std=std, eps=eps, eps_placement=placement)
    assert found.tolist() == pytest.approx([*expected, 0.0], rel=1e-14)


def test_reinforce_pp_standardises_the_returns_of_token_rewards() -> None:
    # rewards 1 and 0 at the last token, minus 0.5 * KL: [-.05, .9], [-.15, .05, -.2]; returns [.85, .9], [-.3, -.15, -.2]
    mask = torch.tensor([[True, True, False], [True, True, True]])
    kl = torch.tensor([[0.1, 0.2, NAN], [0.3, -0.1, 0.4]], dtype=torch.float64)
    outcome = torch.tensor([[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]], dtype=torch.float64)
    returns = discounted_returns(outcome - 0.5 * kl, valid_mask=mask)
    assert returns[mask].tolist() == pytest.approx([0.85, 0.9, -0.3, -0.15, -0.2])
    authors = batch_standardized_advantages(returns, mask, eps_placement="variance_floor")
    assert authors[mask].tolist() == pytest.approx(
        [1.1727147459036555, 1.2657873447848982, -0.9679550283649221, -0.6887372317211945, -0.781809830602437], rel=1e-12
    )
    verl = batch_standardized_advantages(returns, mask, std="sample")
    assert verl[mask].tolist() == pytest.approx(
        [1.048907941484908, 1.1321546035075198, -0.8657652850351623, -0.6160252989673269, -0.6992719609899387], rel=1e-12
    )
    assert authors[~mask].tolist() == verl[~mask].tolist() == [0.0]


def test_reinforce_pp_baseline_gives_a_uniform_group_the_mean_of_the_batch_back() -> None:
    # {1, 0, 0} centred: 2/3, -1/3, -1/3; {1, 1, 1}: 0. Tokens 2, 1, 1 and 1, 2, 3: mean (4/3 - 2/3) / 10 = 1/15
    lengths = torch.tensor([2, 1, 1, 1, 2, 3])
    centred = grouped_advantages(torch.tensor([1.0, 0, 0, 1, 1, 1], dtype=torch.float64), [0, 0, 0, 1, 1, 1], scale="none")
    mask = torch.arange(3) < lengths[:, None]
    found = batch_standardized_advantages(centred[:, None].expand(6, 3), mask, eps=0.0)
    expected = [1.8371173070873834, *[-1.2247448713915887] * 2, *[-0.20412414523193154] * 3]
    assert found[:, 0].tolist() == pytest.approx(expected, rel=1e-12)
    # each rollout once: mean 0, so that the uniform group stays at 0
    assert batch_standardized_advantages(centred, torch.ones(6))[3:].tolist() == pytest.approx([0.0] * 3, abs=1e-15)


@thorough
@given(
    st.lists(
        st.tuples(st.sampled_from([0.1, 0.35, 1.0]) | st.integers(-16, 16).map(float), st.booleans()), min_size=1, max_size=30
    ),
    st.sampled_from(["population", "sample"]),
    st.sampled_from(["inside_root", "outside_root", "variance_floor"]),
    st.sampled_from([0.0, 1e-8, 0.5]),
)
def test_against_the_loop(tokens: list[tuple[float, bool]], std: Any, placement: Any, eps: float) -> None:
    values, mask = torch.tensor([a if m else NAN for a, m in tokens], dtype=torch.float64), torch.tensor([m for _, m in tokens])
    found = batch_standardized_advantages(values, mask, std=std, eps=eps, eps_placement=placement)
    expected = batch_standardized([a for a, _ in tokens], mask.tolist(), std, eps, placement)
    assert found.tolist() == pytest.approx(expected, rel=1e-10, abs=1e-10)
    # padding and order change nothing
    padded = torch.cat([values, torch.full((3,), NAN, dtype=torch.float64)]).flip(0)
    again = batch_standardized_advantages(
        padded, torch.cat([mask, torch.zeros(3) > 0]).flip(0), std=std, eps=eps, eps_placement=placement
    )
    torch.testing.assert_close(again.flip(0)[:-3], found, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("placement", ["inside_root", "outside_root", "variance_floor"])
@pytest.mark.parametrize("std", ["population", "sample"])
def test_no_token_one_token_and_equal_tokens_are_zero(dtype: torch.dtype, placement: Any, std: Any) -> None:
    for count in (0, 1, 7):
        values, mask = torch.full((8,), 0.1, dtype=dtype), torch.arange(8) < count
        values[7] = NAN
        for eps in (0.0, 1e-8):
            found = batch_standardized_advantages(values, mask, std=std, eps=eps, eps_placement=placement)
            assert found.tolist() == [0.0] * 8
            assert found.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert batch_standardized_advantages(torch.zeros(2, 0), torch.zeros(2, 0)).shape == (2, 0)


@pytest.mark.parametrize("placement", ["inside_root", "outside_root", "variance_floor"])
@pytest.mark.parametrize("scale", [1e-200, 1e-20, 1e30, 1e200])
def test_numbers_of_any_size(scale: float, placement: Any) -> None:
    found = batch_standardized_advantages(ROW * scale, MASK, eps=0.0, eps_placement=placement)
    plain = batch_standardized_advantages(ROW, MASK, eps=0.0)
    torch.testing.assert_close(found, plain, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"advantages": torch.tensor([1, 0])}, DtypeError, "advantages must be a floating-point tensor"),
        (
            {"advantages": torch.tensor([NAN, 0.0])},
            NonFiniteError,
            "advantages must be finite wherever its mask is true, got the value nan",
        ),
        ({"mask": torch.ones(3)}, ShapeError, "mask must have the shape of advantages"),
        ({"mask": torch.tensor([2.0, 1.0])}, MaskError, "mask must be boolean or exactly 0/1"),
        ({"mask": None}, DtypeError, "mask must be a torch.Tensor"),
        ({"std": "n"}, RangeError, "std must be one of"),
        ({"eps": -1.0}, RangeError, "eps must be in"),
        ({"eps_placement": "under"}, RangeError, "eps_placement must be one of 'inside_root', 'outside_root', 'variance_floor'"),
    ],
    ids=str,
)
def test_bad_input_is_named(change: dict[str, Any], error: type[RoseError], message: str) -> None:
    given_: dict[str, Any] = {"advantages": torch.tensor([1.0, 0.0]), "mask": torch.ones(2), **change}
    with pytest.raises(error, match=message):
        batch_standardized_advantages(given_.pop("advantages"), given_.pop("mask"), **given_)


def test_nothing_flows_back() -> None:
    assert not batch_standardized_advantages(torch.tensor([1.0, 0.0], requires_grad=True), torch.ones(2)).requires_grad
