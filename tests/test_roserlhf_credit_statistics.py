"""Statistics of groups against loops over their members: ragged, in any order, with members left out, of any size."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles_groups import deviation, mean, members, standardized

from rosellm.roserlhf.credit import identifiers
from rosellm.roserlhf.credit.identifiers import integer_ids
from rosellm.roserlhf.credit.statistics import StdKind, check_std, group_count, group_range, group_statistics, group_sum
from rosellm.roserlhf.errors import RangeError

thorough = settings(derandomize=True, max_examples=60, deadline=None)
NAN = float("nan")
values_and_ids = st.lists(
    st.tuples(st.floats(-8, 8, allow_subnormal=False), st.integers(0, 6), st.booleans()), min_size=1, max_size=40
)


@thorough
@given(values_and_ids, st.sampled_from(["population", "sample"]))
def test_against_loops(rows: list[tuple[float, int, bool]], std: StdKind) -> None:
    values = torch.tensor([v if keep else NAN for v, _, keep in rows], dtype=torch.float64)
    ids = integer_ids([g for _, g, _ in rows], "ids")
    where = torch.tensor([keep for _, _, keep in rows])
    found = group_statistics(values, ids, where)
    for group, indices in enumerate(members(ids.tolist())):
        chosen = [i for i in indices if rows[i][2]]
        numbers = [rows[i][0] for i in chosen]
        assert found.count[group] == len(numbers)
        if not numbers:
            assert found.uniform[group]
            assert [found.low[group].item(), found.high[group].item(), found.mean[group].item()] == [0.0, 0.0, 0.0]
            continue
        assert [found.low[group].item(), found.high[group].item()] == [min(numbers), max(numbers)]
        assert found.uniform[group] == (len(set(numbers)) == 1)
        assert found.mean[group].item() == pytest.approx(mean(numbers), abs=1e-12)
        assert found.deviation(std)[group].item() == pytest.approx(deviation(numbers, std), abs=1e-12)
        assert found.standardized(std, 1e-3)[chosen].tolist() == pytest.approx(standardized(numbers, std, 1e-3), abs=1e-9)
    assert found.centred()[~where].tolist() == found.standardized(std)[~where].tolist() == [0.0] * int((~where).sum())


def test_leading_dimensions_are_batch() -> None:
    # groups {1, 3} and {5}; {2, 2} and {7}
    values = torch.tensor([[1.0, 5.0, 3.0], [2.0, 7.0, 2.0]])
    found = group_statistics(values, torch.tensor([0, 1, 0]))
    assert found.mean.tolist() == [[2.0, 5.0], [2.0, 7.0]]
    assert found.deviation().tolist() == [[1.0, 0.0], [0.0, 0.0]]
    assert found.deviation("sample").tolist() == [[pytest.approx(2**0.5), 0.0], [0.0, 0.0]]
    assert found.centred().tolist() == [[-1.0, 0.0, 1.0], [0.0, 0.0, 0.0]]
    assert found.uniform.tolist() == [[False, True], [True, True]]
    assert found.of_rows(found.mean).tolist() == [[2.0, 5.0, 2.0], [2.0, 7.0, 2.0]]


def test_reductions_of_one_kind() -> None:
    values, ids, where = torch.tensor([1.0, NAN, 3.0, 4.0]), torch.tensor([0, 0, 2, 2]), torch.tensor([True, False, True, True])
    assert group_count(ids, 4, where).tolist() == [1, 0, 2, 0]
    assert group_count(ids, 3).tolist() == [2, 0, 2]
    assert group_sum(values, ids, 4, where).tolist() == [1.0, 0.0, 7.0, 0.0]
    low, high = group_range(values, ids, 4, where)
    assert (low.tolist(), high.tolist()) == ([1.0, 0.0, 3.0, 0.0], [1.0, 0.0, 4.0, 0.0])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("value", [0.1, 0.3, 0.35, 0.9, 1 / 3, 100.1, -7e-3])
def test_a_uniform_group_of_any_size_has_no_residue(dtype: torch.dtype, value: float) -> None:
    sizes = torch.arange(2, 65)
    ids = torch.repeat_interleave(torch.arange(63), sizes)[
        torch.randperm(int(sizes.sum()), generator=torch.Generator().manual_seed(0))
    ]
    found = group_statistics(torch.full((len(ids),), value, dtype=dtype), ids)
    assert found.uniform.all()
    for numbers in (found.centred(), found.standardized(), found.standardized("sample", 1e-12), found.deviation()):
        assert numbers.count_nonzero() == 0


@pytest.mark.parametrize("scale", [1e-300, 1e-20, 1.0, 1e30, 1e300])
def test_numbers_of_any_size(scale: float) -> None:
    # around their mean 2: -1, 0, 1; population deviation sqrt(2/3)
    values = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64) * scale
    found = group_statistics(values, torch.zeros(3, dtype=torch.int64))
    assert found.standardized().tolist() == pytest.approx([-(1.5**0.5), 0.0, 1.5**0.5], rel=1e-14, abs=1e-14)
    assert found.deviation().item() == pytest.approx((2 / 3) ** 0.5 * scale, rel=1e-14)


def test_no_rows() -> None:
    found = group_statistics(torch.zeros(0), torch.zeros(0, dtype=torch.int64))
    assert found.count.tolist() == found.mean.tolist() == found.standardized().tolist() == []


def test_the_deviation_is_named() -> None:
    with pytest.raises(RangeError, match="std must be one of 'population', 'sample', got 'unbiased'"):
        check_std("unbiased")


def test_batches_of_many_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    values, where = torch.randn(3, 257, generator=torch.Generator().manual_seed(0)), torch.arange(257) % 5 > 0
    ids = integer_ids(torch.randint(0, 40, (257,), generator=torch.Generator().manual_seed(1)) - 7, "ids")
    for chosen in (None, where):
        whole = group_statistics(values, ids, chosen)
        monkeypatch.setattr(identifiers, "_BLOCK", 16)
        parts = group_statistics(values, integer_ids(ids, "ids"), chosen)
        for name in ("count", "low", "high", "mean", "above_low"):
            torch.testing.assert_close(getattr(parts, name), getattr(whole, name), rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(parts.centred(), whole.centred(), rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(parts.standardized(), whole.standardized(), rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(
            group_sum(values, ids, len(whole.count), chosen), whole.mean * whole.count, rtol=1e-12, atol=1e-12
        )
        monkeypatch.undo()
