"""Group advantages by id: hand arithmetic, the loop over members, and what must not change anything."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles_groups import grouped, members
from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.advantages import (
    group_centered_advantages,
    group_standardized_advantages,
    grouped_advantages,
    leave_one_out_advantages,
)
from rosellm.roserlhf.errors import (
    DeviceError,
    DtypeError,
    GroupError,
    MaskError,
    NonFiniteError,
    RangeError,
    RoseError,
    ShapeError,
)

thorough = settings(derandomize=True, max_examples=60, deadline=None)
NAN, INF = float("nan"), float("inf")
READINGS: list[dict[str, Any]] = [
    {"baseline": baseline, "scale": scale, "std": std}
    for baseline in ("mean", "leave_one_out")
    for scale in ("std", "none", "batch_std")
    for std in ("population", "sample")
]
MIXED = torch.tensor([1.0, 0.0, 0.0, 5.0, 1.0, 2.0])
NAMES = ["c", "a", "c", "b", "a", "c"]


def f64(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


@st.composite
def batches(draw: st.DrawFn) -> tuple[list[float], list[int], list[bool]]:
    size = draw(st.integers(1, 30))
    level = st.sampled_from([0.0, 1.0, 0.1, 0.35, -2.0]) | st.floats(-4, 4, allow_subnormal=False).map(lambda x: round(x, 3))
    rewards = draw(st.lists(level, min_size=size, max_size=size))
    ids = draw(st.lists(st.integers(0, 5), min_size=size, max_size=size))
    scored = draw(st.lists(st.booleans() | st.just(True), min_size=size, max_size=size))
    return rewards, ids, scored


# hand arithmetic


def test_a_ragged_batch_in_any_order() -> None:
    # c = {1, 0, 2}: mean 1, deviation sqrt(2/3); a = {0, 1}: mean 1/2, deviation 1/2; b is alone
    found = grouped_advantages(MIXED.double(), NAMES, eps=0.0)
    assert found.tolist() == pytest.approx([0.0, -1.0, -(1.5**0.5), 0.0, 1.0, 1.5**0.5], abs=1e-15)


@pytest.mark.parametrize(
    "ids", [torch.tensor([7, 2, 7, 9, 2, 7]), np.array(NAMES), tuple(NAMES), [("t", n) for n in NAMES]], ids=str
)
def test_ids_of_every_kind_form_the_same_groups(ids: Any) -> None:
    assert grouped_advantages(MIXED, ids).equal(grouped_advantages(MIXED, NAMES))


def test_R19_the_deviation_is_named() -> None:
    # mean 2.5; squares 2.25 + 0.25 + 0.25 + 2.25 = 5; population sqrt(5/4) = 1.118, sample sqrt(5/3) = 1.291
    four, two = f64(1, 2, 3, 4), f64(0, 1)
    population, sample = [-1.34164, -0.44721, 0.44721, 1.34164], [-1.16190, -0.38730, 0.38730, 1.16190]
    assert grouped_advantages(four, ["x"] * 4).tolist() == pytest.approx(population, abs=1e-5)
    assert grouped_advantages(four, ["x"] * 4, std="sample").tolist() == pytest.approx(sample, abs=1e-5)
    assert grouped_advantages(two, ["x"] * 2).tolist() == pytest.approx([-1, 1])
    assert grouped_advantages(two, ["x"] * 2, std="sample").tolist() == pytest.approx([-(0.5**0.5), 0.5**0.5])


@pytest.mark.parametrize(
    ("std", "eps", "expected"),
    [
        ("population", 0.0, 1.0),
        ("population", 1e-6, 0.999998000004),  # 0.5 / (0.5 + 1e-6)
        ("sample", 0.0, 0.8660254037844387),  # 0.5 / sqrt(1/3)
        ("sample", 1e-6, 0.8660239037870368),
        ("sample", 1e-4, 0.8658754297607016),
    ],
)
def test_half_of_four_succeed(std: Any, eps: float, expected: float) -> None:
    found = grouped_advantages(f64(1, 0, 0, 1), [3] * 4, std=std, eps=eps)
    assert found.tolist() == pytest.approx([expected, -expected, -expected, expected], rel=1e-12)


def test_one_of_five_succeeds() -> None:
    # mean 1/5; population deviation sqrt(0.16) = 0.4: 0.8 / 0.4 and -0.2 / 0.4
    one = f64(1, 0, 0, 0, 0)
    assert grouped_advantages(one, [0] * 5, eps=0.0).tolist() == pytest.approx([2, -0.5, -0.5, -0.5, -0.5])
    found = grouped_advantages(one, [0] * 5, std="sample", eps=1e-4).tolist()
    assert found == pytest.approx([1.788454471422555, *[-0.44711361785563875] * 4], rel=1e-12)


def test_where_eps_stands_matters_for_a_tiny_spread() -> None:
    # half the spread is 2^-21: 2^-21 / (2^-21 + 1e-6) = 0.3229
    found = grouped_advantages(f64(1.0, 1.0 + 2**-20), [0, 0], eps=1e-6)
    assert found.tolist() == pytest.approx([-0.32287727563903873, 0.32287727563903873], rel=1e-12)
    assert grouped_advantages(f64(1.0, 1.0 + 2**-20), [0, 0], eps=0.0).tolist() == [-1.0, 1.0]


def test_leave_one_out() -> None:
    # [3, -1, 0.5, 2.5]: 3 - (-1 + 0.5 + 2.5) / 3 = 2 1/3; -1 - 6/3; 0.5 - 4.5/3; 2.5 - 2.5/3
    found = grouped_advantages(f64(3, -1, 0.5, 2.5), ["x"] * 4, baseline="leave_one_out", scale="none")
    assert found.tolist() == pytest.approx([7 / 3, -3, -1, 5 / 3])


def test_R18_leave_one_out_over_a_deviation_stays_of_order_one() -> None:
    # a lone 0.95 among seven 0.35: mean 0.425, deviation 0.6 * sqrt(7) / 8; 8/7 of [-0.37796 ..., 2.64575]
    rewards = torch.tensor([0.35] * 7 + [0.95])
    found = grouped_advantages(rewards, [0] * 8)
    assert found.tolist() == pytest.approx([-0.37796] * 7 + [2.64575], abs=1e-4)
    scaled = grouped_advantages(rewards, [0] * 8, baseline="leave_one_out")
    assert scaled.tolist() == pytest.approx((found * 8 / 7).tolist(), rel=1e-6)
    lone = grouped_advantages(torch.tensor([1.0, 0, 0, 0]), [0] * 4, baseline="leave_one_out", scale="none")
    assert lone.tolist() == pytest.approx([1.0, -1 / 3, -1 / 3, -1 / 3])


def test_the_deviation_of_the_batch_is_that_of_its_raw_rewards() -> None:
    # {0, 2} and {10, 12}: means 1 and 11; raw mean 6, squares 36 + 16 + 16 + 36: population sqrt(104/4), sample sqrt(104/3)
    rewards = f64(0, 10, 2, 12)
    found = grouped_advantages(rewards, [0, 1, 0, 1], scale="batch_std", eps=0.0)
    assert found.tolist() == pytest.approx([-(26**-0.5), -(26**-0.5), 26**-0.5, 26**-0.5])
    found = grouped_advantages(rewards, [0, 1, 0, 1], scale="batch_std", std="sample", eps=1e-4)
    assert found.tolist() == pytest.approx([s / ((104 / 3) ** 0.5 + 1e-4) for s in (-1, -1, 1, 1)])


def test_dr_grpo_divides_by_nothing() -> None:
    assert group_centered_advantages(f64(1, 0, 0, 1)).tolist() == [0.5, -0.5, -0.5, 0.5]
    assert group_centered_advantages(f64(1, 2, 4)).tolist() == pytest.approx([-4 / 3, -1 / 3, 5 / 3])
    assert group_centered_advantages(f64(1, 2, 4) * 10 - 3).tolist() == pytest.approx([-40 / 3, -10 / 3, 50 / 3])
    assert group_centered_advantages(torch.tensor([[1.0, 5.0], [3.0, 5.0]]), dim=0).tolist() == [[-1.0, 0.0], [1.0, 0.0]]
    assert group_centered_advantages(torch.full((7,), 0.1)).tolist() == [0.0] * 7


def test_leave_one_out_is_unbiased_and_the_group_mean_shrinks_the_gradient() -> None:
    # every group of 3 draws of a 3-armed bandit, weighted by its probability; score of arm a: e_a - p
    p = torch.softmax(f64(0.2, -0.1, 0.5), 0)
    arms = f64(1, 0, 2)
    groups = torch.cartesian_prod(*[torch.arange(3)] * 3)
    chance, score = p[groups].prod(1), torch.eye(3, dtype=torch.float64)[groups] - p
    truth = (p[:, None] * arms[:, None] * (torch.eye(3, dtype=torch.float64) - p)).sum(0)
    assert truth.tolist() == pytest.approx([-0.06375863149182762, -0.28692803514072684, 0.3506866666325545])
    names = torch.arange(27).repeat_interleave(3)

    def expected(**reading: Any) -> list[float]:
        advantages = grouped_advantages(arms[groups].flatten(), names, scale="none", **reading).view(27, 3, 1)
        return ((advantages * score).mean(1) * chance[:, None]).sum(0).tolist()

    assert expected(baseline="leave_one_out") == pytest.approx(truth.tolist(), abs=1e-14)
    assert expected() == pytest.approx((truth * 2 / 3).tolist(), abs=1e-14)


# against the loop and the rectangular functions


@thorough
@given(batches(), st.sampled_from(READINGS), st.sampled_from([0.0, 1e-8, 1e-2]))
def test_against_the_loop(batch: tuple[list[float], list[int], list[bool]], reading: dict[str, Any], eps: float) -> None:
    rewards, ids, scored = batch
    expected = grouped(rewards, ids, scored, eps=eps, **reading)
    for dtype, rel in ((torch.float64, 1e-10), (torch.float32, 2e-6)):
        values = torch.tensor(rewards, dtype=dtype)
        if dtype == torch.float32:  # the loop sees the rewards that were rounded
            expected = grouped(values.tolist(), ids, scored, eps=eps, **reading)
        found = grouped_advantages(values, ids, scored_mask=torch.tensor(scored), eps=eps, **reading)
        assert found.dtype == dtype
        assert found.tolist() == pytest.approx(expected, rel=rel, abs=rel)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("scale", [1e-20, 1.0, 1e30])
def test_rectangular_groups_agree_with_the_functions_by_dimension(dtype: torch.dtype, scale: float) -> None:
    rewards = (torch.randn(9, 6, generator=torch.Generator().manual_seed(1)) * scale).to(dtype)
    flat, ids = rewards.flatten(), torch.arange(9).repeat_interleave(6)
    for found, expected in (
        (grouped_advantages(flat, ids), group_standardized_advantages(rewards)),
        (grouped_advantages(flat, ids, eps=1e-3), group_standardized_advantages(rewards, eps=1e-3)),
        (grouped_advantages(flat, ids, scale="none"), group_centered_advantages(rewards)),
        (grouped_advantages(flat, ids, baseline="leave_one_out", scale="none"), leave_one_out_advantages(rewards)),
    ):
        assert found.isfinite().all()
        torch.testing.assert_close(found.view(9, 6) / scale, expected / scale, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("reading", READINGS, ids=lambda r: "-".join(r.values()))
@pytest.mark.parametrize("scale", [1e-200, 1e-20, 1e30, 1e200])
def test_large_and_small_rewards(scale: float, reading: dict[str, Any]) -> None:
    rewards = f64(1, 2, 4, 1, 0, 3)
    plain = grouped_advantages(rewards, [0, 0, 0, 1, 1, 1], eps=0.0, **reading)
    found = grouped_advantages(rewards * scale, [0, 0, 0, 1, 1, 1], eps=0.0, **reading)
    torch.testing.assert_close(found / (scale if reading["scale"] == "none" else 1.0), plain, rtol=1e-12, atol=1e-12)


# what is exactly zero


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("reading", READINGS, ids=lambda r: "-".join(r.values()))
def test_R18_equal_rewards_are_exactly_zero_for_every_size(dtype: torch.dtype, reading: dict[str, Any]) -> None:
    sizes = torch.arange(2, 65)
    ids = torch.repeat_interleave(torch.arange(63), sizes)
    ids = ids[torch.randperm(len(ids), generator=torch.Generator().manual_seed(0))]
    values = torch.tensor([0.1, 0.35, 0.9, 1 / 3, 100.1, -7e-3])[ids % 6].to(dtype)  # each group has its own
    for eps in (0.0, 1e-12, 1e-8):
        assert grouped_advantages(values, ids, eps=eps, **reading).count_nonzero() == 0
        assert grouped_advantages(values[ids == 1], ids[ids == 1], eps=eps, **reading).count_nonzero() == 0


@pytest.mark.parametrize("reading", READINGS, ids=lambda r: "-".join(r.values()))
def test_R17_a_group_of_one_is_zero_in_every_reading(reading: dict[str, Any]) -> None:
    found = grouped_advantages(torch.tensor([0.7, 1.0, 0.0, 0.0, 1.0]), ["lone", "x", "x", "x", "x"], **reading)
    assert found[0] == 0.0
    four = grouped_advantages(torch.tensor([1.0, 0.0, 0.0, 1.0]), ["x"] * 4, **reading)
    if reading["scale"] != "batch_std":
        assert found[1:].equal(four)
    assert grouped_advantages(torch.tensor([0.7]), ["lone"], **reading).tolist() == [0.0]


def test_R16_one_group_per_rollout_never_returns_the_rewards() -> None:
    rewards = torch.tensor([1.0, 0.0, 1.0, 0.0])
    assert grouped_advantages(rewards, ["task"] * 4).tolist() == pytest.approx([1, -1, 1, -1])
    assert grouped_advantages(rewards, ["r1", "r2", "r3", "r4"]).tolist() == [0.0] * 4
    with pytest.raises(GroupError, match="group_ids must put at least 2 scored members into every group, got the value 1 at"):
        grouped_advantages(rewards, ["r1", "r2", "r3", "r4"], singleton="error")
    with pytest.raises(GroupError, match="group_ids must put group_size=4 members into every group, got the value 1 at"):
        grouped_advantages(rewards, ["r1", "r2", "r3", "r4"], group_size=4)


def test_R20_statistics_are_taken_over_rollouts() -> None:
    # one reward per rollout, spread over its turns afterwards: {1, 0} has mean 0.5 and deviation 0.5
    advantages = grouped_advantages(f64(1, 0), ["x", "x"], eps=0.0)
    assert advantages.repeat_interleave(torch.tensor([3, 1])).tolist() == [1.0, 1.0, 1.0, -1.0]


# members that were not scored


def test_R56_an_unscored_member_leaves_its_own_group_only() -> None:
    # {1, 0, 1}: mean 2/3, deviation sqrt(2)/3
    rewards = torch.tensor([1, 0, NAN, 1, 0, 1, 0, 1], dtype=torch.float64)
    ids = ["one"] * 4 + ["two"] * 4
    found = grouped_advantages(rewards, ids, scored_mask=~rewards.isnan(), eps=0.0)
    assert found.tolist() == pytest.approx([0.5**0.5, -(2**0.5), 0.0, 0.5**0.5, -1, 1, -1, 1])
    alone = grouped_advantages(rewards[4:], ids[4:], eps=0.0)
    assert found[4:].equal(alone)
    with pytest.raises(NonFiniteError, match=r"rewards must be finite wherever a row is scored, got the value nan at \[2\]; leave"):
        grouped_advantages(rewards, ids)


def test_R58_a_grader_failure_is_no_zero() -> None:
    found = grouped_advantages(torch.tensor([1.0, NAN, INF, 0.0]), ["t"] * 4, scored_mask=torch.tensor([1, 0, 0, 1]))
    assert found.tolist() == pytest.approx([1.0, 0.0, 0.0, -1.0])


@pytest.mark.parametrize("reading", READINGS, ids=lambda r: "-".join(r.values()))
@thorough
@given(batches(), st.sampled_from([NAN, INF, 1e30, 0.0]))
def test_an_unscored_member_is_as_if_never_launched(
    reading: dict[str, Any], batch: tuple[list[float], list[int], list[bool]], junk: float
) -> None:
    rewards, ids, scored = batch
    kept = [i for i, keep in enumerate(scored) if keep]
    values = torch.tensor([r if keep else junk for r, keep in zip(rewards, scored, strict=True)], dtype=torch.float64)
    found = grouped_advantages(values, ids, scored_mask=torch.tensor(scored), **reading)
    never = grouped_advantages(f64(*[rewards[i] for i in kept]), [ids[i] for i in kept], **reading)
    assert found[kept].tolist() == never.tolist()
    assert found[~torch.tensor(scored)].count_nonzero() == 0
    # the mask is the row mask, too: numerator and denominator of a loss agree with the batch without the row
    row = torch.tensor(scored)
    if kept:
        torch.testing.assert_close(found[row].mean(), never.mean())


def test_singletons_are_counted_among_the_scored() -> None:
    rewards, scored = torch.tensor([1.0, NAN, 0.0, 1.0]), torch.tensor([True, False, True, True])
    assert grouped_advantages(rewards, [0, 0, 1, 1], scored_mask=scored).tolist() == pytest.approx([0, 0, -1, 1])
    with pytest.raises(GroupError, match=r"at least 2 scored members into every group, got the value 1 at \[0\]; singleton='zero'"):
        grouped_advantages(rewards, [0, 0, 1, 1], scored_mask=scored, singleton="error")
    nobody = grouped_advantages(rewards, [0, 0, 1, 1], scored_mask=torch.tensor([0, 0, 1, 1]), singleton="error")
    assert nobody.tolist() == pytest.approx([0, 0, -1, 1])  # a group without a scored member trains nothing
    assert grouped_advantages(rewards, [0, 0, 1, 1], scored_mask=torch.zeros(4)).tolist() == [0.0] * 4


def test_the_size_of_a_group_counts_those_who_were_launched() -> None:
    rewards, ids = torch.tensor([1.0, NAN, 0.0, 0.0, 1.0]), ["a", "a", "a", "b", "b"]
    scored = torch.tensor([True, False, True, True, True])
    with pytest.raises(
        GroupError, match=r"group_size=3 members into every group, got the value 2 at \[3\]; partial_groups='admit'"
    ):
        grouped_advantages(rewards, ids, group_size=3, scored_mask=scored)
    admitted = grouped_advantages(rewards, ids, group_size=3, partial_groups="admit", scored_mask=scored)
    assert admitted.tolist() == pytest.approx([1, 0, -1, -1, 1])
    with pytest.raises(GroupError, match="at most group_size=2 members into every group, got the value 3"):
        grouped_advantages(rewards, ids, group_size=2, partial_groups="admit", scored_mask=scored)


# what must not change anything


@thorough
@given(batches(), st.sampled_from(READINGS), st.randoms(use_true_random=False))
def test_order_and_names_do_not_matter(
    batch: tuple[list[float], list[int], list[bool]], reading: dict[str, Any], random: Any
) -> None:
    rewards, ids, scored = batch
    values, mask = f64(*rewards), torch.tensor(scored)
    found = grouped_advantages(values, ids, scored_mask=mask, **reading)
    order = list(range(len(ids)))
    random.shuffle(order)
    moved = grouped_advantages(values[order], [ids[i] for i in order], scored_mask=mask[order], **reading)
    torch.testing.assert_close(moved, found[order], rtol=1e-12, atol=1e-12)
    renamed = grouped_advantages(values, [f"task-{7 - i}" for i in ids], scored_mask=mask, **reading)
    assert renamed.equal(found)


@thorough
@given(batches(), st.sampled_from(READINGS))
def test_shift_and_scale(batch: tuple[list[float], list[int], list[bool]], reading: dict[str, Any]) -> None:
    rewards, ids, scored = batch
    values, mask = f64(*rewards), torch.tensor(scored)
    found = grouped_advantages(values, ids, scored_mask=mask, eps=0.0, **reading)
    # powers of two and quarters: the moved rewards are exact, so that equal rewards stay equal
    moved = grouped_advantages(values * 4.0, ids, scored_mask=mask, eps=0.0, **reading)
    torch.testing.assert_close(moved, found * (4.0 if reading["scale"] == "none" else 1.0), rtol=1e-9, atol=1e-9)
    whole = (values * 1000).round()
    found = grouped_advantages(whole, ids, scored_mask=mask, eps=0.0, **reading)
    shifted = grouped_advantages(whole + 64.0, ids, scored_mask=mask, eps=0.0, **reading)
    torch.testing.assert_close(shifted, found, rtol=1e-9, atol=1e-9)


@thorough
@given(batches(), st.sampled_from([r for r in READINGS if r["scale"] != "batch_std"]))
def test_a_sibling_group_that_is_dropped_changes_nothing(
    batch: tuple[list[float], list[int], list[bool]], reading: dict[str, Any]
) -> None:
    rewards, ids, _ = batch
    found = grouped_advantages(f64(*rewards), ids, **reading)
    for rows in members(ids):
        alone = grouped_advantages(f64(*[rewards[i] for i in rows]), [ids[i] for i in rows], **reading)
        torch.testing.assert_close(alone, found[rows], rtol=1e-12, atol=1e-12)


def test_nothing_flows_back_and_nothing_is_changed() -> None:
    rewards = torch.tensor([1.0, 0.0], requires_grad=True)
    assert not grouped_advantages(rewards, [0, 0]).requires_grad
    assert not group_centered_advantages(rewards).requires_grad
    assert rewards.tolist() == [1.0, 0.0]


def test_no_rows_are_no_groups() -> None:
    assert grouped_advantages(torch.zeros(0), []).shape == (0,)


# bad input


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"rewards": [1.0, 0.0]}, DtypeError, r"rewards must be a torch\.Tensor, got list"),
        ({"rewards": torch.tensor([1, 0])}, DtypeError, "rewards must be a floating-point tensor"),
        ({"rewards": torch.ones(2, 2)}, ShapeError, r"rewards must have 1 dimension, one reward per row, got shape \(2, 2\)"),
        ({"rewards": torch.tensor(1.0)}, ShapeError, "rewards must have 1 dimension"),
        ({"rewards": torch.tensor([1.0, INF])}, NonFiniteError, r"rewards must be finite .*got the value inf at \[1\]"),
        ({"group_ids": [0]}, ShapeError, "group_ids must have one id for each of the 2 rows, got 1 ids"),
        ({"group_ids": torch.tensor([0.0, 0.0])}, DtypeError, "group_ids must be an integer tensor"),
        ({"group_ids": [NAN, 1]}, NonFiniteError, "group_ids must not hold NaN"),
        ({"group_ids": [None, None]}, DtypeError, "group_ids must hold a hashable value per row, got None"),
        (
            {"group_ids": torch.zeros(2, dtype=torch.int64, device="meta")},
            DeviceError,
            "group_ids must be on the device of rewards",
        ),
        ({"scored_mask": [True, True]}, DtypeError, "scored_mask must be a torch.Tensor"),
        ({"scored_mask": torch.tensor([True])}, ShapeError, "scored_mask must have the shape of rewards"),
        ({"scored_mask": torch.tensor([0.5, 1.0])}, MaskError, "scored_mask must be boolean or exactly 0/1"),
        ({"baseline": "median"}, RangeError, "baseline must be one of 'mean', 'leave_one_out', got 'median'"),
        ({"scale": True}, RangeError, "scale must be one of 'std', 'none', 'batch_std', got True"),
        ({"std": "unbiased"}, RangeError, "std must be one of"),
        ({"eps": -1e-8}, RangeError, r"eps must be in \[0, inf\)"),
        ({"eps": NAN}, RangeError, "eps must be in"),
        ({"singleton": "raise"}, RangeError, "singleton must be one of 'zero', 'error'"),
        ({"group_size": 0}, RangeError, "group_size must be at least 1, got 0"),
        ({"group_size": 2.0}, DtypeError, "group_size must be a whole number"),
        ({"group_size": 3}, GroupError, "group_ids must put group_size=3 members into every group, got the value 2"),
        ({"partial_groups": "drop"}, RangeError, "partial_groups must be one of 'error', 'admit'"),
    ],
    ids=str,
)
def test_bad_input_is_named(change: dict[str, Any], error: type[RoseError], message: str) -> None:
    given_: dict[str, Any] = {"rewards": torch.tensor([1.0, 0.0]), "group_ids": [0, 0], **change}
    with pytest.raises(error, match=message):
        grouped_advantages(given_.pop("rewards"), given_.pop("group_ids"), **given_)


def test_value_checks_can_be_left_out() -> None:
    with checks.without_value_checks():
        assert grouped_advantages(torch.tensor([1.0, NAN]), [0, 0])[0].isnan()
