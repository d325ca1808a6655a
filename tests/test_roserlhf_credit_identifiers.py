"""Identifiers of every hashable kind become dense integers in the order of first appearance; what names nothing is refused."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rosellm.roserlhf.credit.identifiers import integer_ids, number_of_groups
from rosellm.roserlhf.errors import DtypeError, NonFiniteError, RoseError, ShapeError

thorough = settings(derandomize=True, max_examples=60, deadline=None)
NAN = float("nan")


def first_appearance(ids: list[Any]) -> list[int]:
    seen: list[Any] = []
    result = []
    for name in ids:
        if name not in seen:
            seen.append(name)
        result.append(seen.index(name))
    return result


@pytest.mark.parametrize(
    "ids",
    [
        ["b", "a", "b", "c"],
        ("b", "a", "b", "c"),
        [7, -3, 7, 0],
        [2**80, 1, 2**80, 5],
        [b"x", b"", b"x", b"y"],
        [("t", 1), ("t", 2), ("t", 1), ("u", 1)],
        [frozenset({1, 2}), frozenset(), frozenset({2, 1}), "a"],
        [(1, (2, "x")), (1, (2, "y")), (1, (2, "x")), ()],
        [0.5, -0.5, 0.5, 2.0],
        np.array(["b", "a", "b", "c"]),
        np.array(["b", ("a", 1), "b", 3], dtype=object),
        np.array([7, -3, 7, 0]),
        np.array([7, 3, 7, 0], dtype=np.uint8),
        np.array([7, -3, 7, 0], dtype=">i4"),
        np.array([0, 0, 0, 7, 0, 3, 0, 7])[::-2],
        np.array([2**64 - 1, 3, 2**64 - 1, 0], dtype=np.uint64),
        torch.tensor([7, -3, 7, 0]),
        torch.tensor([7, -3, 7, 0], dtype=torch.int8),
        torch.tensor([2**62, -(2**62), 2**62, 0]),
        torch.tensor([7, 0, 3, 0, 7, 0, 1, 0])[::2],
        [np.int64(4), np.str_("4"), 4, np.float64(4)],
    ],
    ids=str,
)
def test_every_kind_is_numbered_by_first_appearance(ids: Any) -> None:
    found = integer_ids(ids, "group_ids", 4)
    assert found.tolist() == [0, 1, 0, 2]
    assert found.dtype == torch.int64


def test_equal_numbers_of_different_types_are_different_ids() -> None:
    assert integer_ids([1, 1.0, True, 1, True, 1.0], "keys").tolist() == [0, 1, 2, 0, 2, 1]
    assert integer_ids([(1,), (1.0,), (True,), (1,)], "keys").tolist() == [0, 1, 2, 0]
    assert integer_ids([(0, (1,)), (0, (True,)), (0, (1,))], "keys").tolist() == [0, 1, 0]
    assert integer_ids([frozenset({1}), frozenset({True}), frozenset({1})], "keys").tolist() == [0, 1, 0]
    assert integer_ids(["1", 1, b"1"], "keys").tolist() == [0, 1, 2]


def test_none_may_be_a_part_of_an_id() -> None:
    assert integer_ids([("shop", None), ("shop", 1), ("shop", None)], "keys").tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    ("ids", "error", "message"),
    [
        (torch.tensor([1.0, 2.0]), DtypeError, r"keys must be an integer tensor, got torch\.float32"),
        (torch.tensor([True, False]), DtypeError, r"keys must be an integer tensor, got torch\.bool"),
        (np.array([1.0, 2.0]), DtypeError, "keys must be an array of integers, strings or hashable objects, got float64"),
        (np.array([True, False]), DtypeError, "keys must be an array of integers.*got bool"),
        ("ab", DtypeError, "keys must be a tensor, an array, a list or a tuple of ids, got 'ab'"),
        pytest.param({"a", "b"}, DtypeError, "keys must be a tensor.*set", id="set"),
        pytest.param(iter([1, 2]), DtypeError, "keys must be a tensor.*iterator", id="iterator"),
        (3, DtypeError, "keys must be a tensor.*int"),
        ([[1], [2]], DtypeError, r"keys must hold hashable ids, got \[1\] \(list\)"),
        ([(1, [2]), (1, [2])], DtypeError, r"keys must hold hashable ids, got \[2\] \(list\)"),
        ([None, "a"], DtypeError, r"keys must hold a hashable value per row, got None"),
        ([torch.tensor(1), torch.tensor(1)], DtypeError, r"keys must hold a hashable value per row, got tensor\(1\)"),
        ([1.0, NAN], NonFiniteError, "keys must not hold NaN, which equals no other id, got nan"),
        ([("a", NAN), ("a", NAN)], NonFiniteError, "keys must not hold NaN"),
        ([np.float32("nan"), 1], NonFiniteError, "keys must not hold NaN"),
        ([Decimal("nan"), Decimal(1)], NonFiniteError, "keys must not hold NaN"),
        (np.array([NAN, 1], dtype=object), NonFiniteError, "keys must not hold NaN"),
        ([1, 2, 3], ShapeError, "keys must have one id for each of the 2 rows, got 3 ids"),
        (torch.tensor([1]), ShapeError, "keys must have one id for each of the 2 rows, got 1 ids"),
        (torch.tensor([[1, 2]]), ShapeError, r"keys must have 1 dimension, one id per row, got shape \(1, 2\)"),
        (torch.tensor(1), ShapeError, "keys must have 1 dimension"),
        (np.array([["a"]]), ShapeError, "keys must have 1 dimension"),
    ],
    ids=str,
)
def test_what_names_no_group_is_refused(ids: Any, error: type[RoseError], message: str) -> None:
    with pytest.raises(error, match=message):
        integer_ids(ids, "keys", 2)


@pytest.mark.parametrize("ids", [[], (), torch.tensor([], dtype=torch.int32), np.array([], dtype=np.int64)], ids=repr)
def test_no_rows_have_no_groups(ids: Any) -> None:
    found = integer_ids(ids, "keys", 0)
    assert (found.tolist(), found.dtype, number_of_groups(found)) == ([], torch.int64, 0)


@thorough
@given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3), max_size=60))
def test_tensors_arrays_and_lists_agree(ids: list[int]) -> None:
    expected = first_appearance(ids)
    assert integer_ids(torch.tensor(ids, dtype=torch.int64), "keys").tolist() == expected
    assert integer_ids(np.array(ids, dtype=np.int64), "keys").tolist() == expected
    assert integer_ids(ids, "keys").tolist() == expected
    assert integer_ids([str(i) for i in ids], "keys").tolist() == expected
    assert integer_ids([("task", i) for i in ids], "keys").tolist() == expected
    assert number_of_groups(integer_ids(ids, "keys")) == len(set(ids))


def test_the_tensor_given_is_not_changed() -> None:
    ids = torch.tensor([5, 4, 5])
    integer_ids(ids, "keys")
    assert ids.tolist() == [5, 4, 5]
