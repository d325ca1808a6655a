"""The wording of errors and when value checks run."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
import torch

from rosellm.roserlhf import checks
from rosellm.roserlhf.errors import DeviceError, DtypeError, MaskError, NonFiniteError, RangeError, RoseError, ShapeError


@pytest.fixture(autouse=True)
def _nothing_deferred() -> Iterator[None]:
    yield
    checks._deferred.clear()


def test_wording() -> None:
    assert str(checks.fail(RangeError, "gamma", "be in [0, 1]", 2, fix="use 1")) == "gamma must be in [0, 1], got 2; use 1"
    assert isinstance(checks.fail(RangeError, "gamma", "be in [0, 1]", 2), RoseError)


def test_types_and_shapes() -> None:
    values = torch.zeros(2, 3)
    checks.tensor(values, "x")
    checks.floating(values, "x")
    checks.integer(values.long(), "x")
    checks.at_least_rank(values, 2, "x")
    checks.same_shape(values, "x", values, "y")
    with pytest.raises(DtypeError, match=r"x must be a torch.Tensor, got list"):
        checks.tensor([1.0], "x")
    with pytest.raises(DtypeError, match=r"x must be a floating-point tensor, got torch.int64"):
        checks.floating(values.long(), "x")
    for wrong in (values, values.bool(), values.to(torch.complex64)):
        with pytest.raises(DtypeError, match="x must be an integer tensor"):
            checks.integer(wrong, "x")
    with pytest.raises(ShapeError, match=r"x must have at least 3 dimension\(s\), got shape \(2, 3\)"):
        checks.at_least_rank(values, 3, "x")
    with pytest.raises(ShapeError, match=r"x must have the shape of y \(3,\), got \(2, 3\)"):
        checks.same_shape(values, "x", torch.zeros(3), "y")
    with pytest.raises(DeviceError, match=r"x must be on the device of y \(meta\), got cpu"):
        checks.same_shape(values, "x", torch.zeros(2, 3, device="meta"), "y")


def test_masks_become_boolean() -> None:
    for dtype in (torch.bool, torch.int8, torch.int64, torch.float16, torch.float64):
        assert checks.mask(torch.tensor([0, 1], dtype=dtype), "m").tolist() == [False, True]
    for bad in ([0.0, 0.5], [1.0, math.nan], [2.0, 0.0], [-1.0, 0.0]):
        with pytest.raises(MaskError, match="m must be boolean or exactly 0/1, got the value"):
            checks.mask(torch.tensor(bad), "m")
    with pytest.raises(DtypeError, match="m must be boolean or exactly 0/1"):
        checks.mask(torch.tensor([1j]), "m")


def test_values_name_the_first_offender() -> None:
    with pytest.raises(NonFiniteError, match=r"x must be finite, got the value nan at \[1, 0\]"):
        checks.finite(torch.tensor([[0.0, 1.0], [math.nan, math.inf]]), "x")
    checks.finite(torch.tensor([math.nan, 1.0]), "x", where=torch.tensor([False, True]))
    with pytest.raises(RangeError, match=r"x must be positive and finite, got the value 0.0$"):
        checks.positive(torch.tensor(0.0), "x")
    with pytest.raises(RangeError, match=r"x must be in \[0, 4\), got the value 4 at \[1\]; fix"):
        checks.index(torch.tensor([3, 4]), "x", 4, fix="fix")
    with pytest.raises(RangeError, match=r"x must be in \[0, inf\) wherever its mask is true, got the value -1"):
        checks.index(torch.tensor([-1, -2]), "x", None, where=torch.tensor([True, False]))
    checks.index(torch.tensor([-1, 9]), "x", 4, where=torch.tensor([False, False]))


def test_numbers() -> None:
    for good in (0, 1, 0.5, 1.0):
        checks.number_in(good, "x", 0.0, 1.0)
    with pytest.raises(RangeError, match=r"x must be in \(0, 1\), got 1"):
        checks.number_in(1, "x", 0.0, 1.0, open_low=True, open_high=True)
    with pytest.raises(RangeError, match=r"x must be in \[0, inf\), got nan"):
        checks.number_in(math.nan, "x", 0.0, math.inf)
    for wrong in (True, "1", None):
        with pytest.raises(DtypeError, match="x must be a number and be in"):
            checks.number_in(wrong, "x", 0.0, 1.0)
    with pytest.raises(RangeError, match="x must be one of 'a', 'b', got 'c'"):
        checks.one_of("c", "x", ("a", "b"))


def test_a_tensor_that_torch_could_not_compute_with_is_refused_by_name() -> None:
    ones = torch.ones(2, 3)
    with pytest.raises(DtypeError, match=r"x must be a dense tensor, got torch.sparse_coo of torch.float32"):
        checks.tensor(ones.to_sparse(), "x")
    with pytest.raises(DtypeError, match=r"x must be a floating-point tensor, got torch.float8_e4m3fn"):
        checks.floating(ones.to(torch.float8_e4m3fn), "x")


def test_an_integer_beyond_every_float_is_out_of_range() -> None:
    for huge in (10**400, -(10**400)):
        with pytest.raises(RangeError, match=r"x must be in \[-inf, inf\), got -?1000"):
            checks.number_in(huge, "x", -math.inf, math.inf)
    checks.number_in(math.inf, "x", 0.0, math.inf)


@pytest.mark.parametrize("wrong", [1, 0.0, None, "False", torch.tensor(True)])
def test_a_flag_is_true_or_false(wrong: object) -> None:
    checks.flag(False, "x")
    with pytest.raises(DtypeError, match="x must be True or False, got "):
        checks.flag(wrong, "x")


@pytest.mark.parametrize("wrong", [None, 3, "ab", {}, torch.tensor(1.0)])
def test_several_values_are_no_single_one(wrong: object) -> None:
    assert checks.items((1, 2), "x") == [1, 2]
    with pytest.raises(DtypeError, match="x must be a sequence of tensors, got "):
        checks.items(wrong, "x")


@pytest.mark.parametrize("wrong", [torch.ones(2), ["a"], None, True])
def test_a_reading_is_compared_by_type_first(wrong: object) -> None:
    with pytest.raises(RangeError, match="x must be one of 'a', 1, got "):
        checks.one_of(wrong, "x", ("a", 1))


def test_the_flag_of_a_meta_tensor_is_never_read() -> None:
    checks.finite(torch.ones(3, device="meta"), "x")
    checks.raise_deferred()


def test_an_empty_mask_keeps_its_words() -> None:
    checks.selects_something(torch.tensor([False, True]), "m")
    with pytest.raises(MaskError, match="m must select at least one position, got an empty mask; do this"):
        checks.selects_something(torch.tensor([False]), "m", fix="do this")


def test_value_checks_can_be_skipped() -> None:
    with checks.without_value_checks():
        checks.finite(torch.tensor(math.nan), "x")
        checks.selects_something(torch.tensor([False]), "m")
        with checks.without_value_checks():
            pass
        checks.finite(torch.tensor(math.nan), "x")
        with pytest.raises(DtypeError):
            checks.mask("no tensor", "m")
    with pytest.raises(NonFiniteError):
        checks.finite(torch.tensor(math.nan), "x")


class OnAnAccelerator(torch.Tensor):
    """CPU data that says it lives on a device, so that checks defer; reading a value is counted."""

    reads = 0

    @property
    def device(self) -> torch.device:
        return torch.device("cuda", 0)

    @device.setter
    def device(self, value: torch.device) -> None:
        raise AssertionError

    def __bool__(self) -> bool:
        OnAnAccelerator.reads += 1
        return bool(self.as_subclass(torch.Tensor))


def test_accelerator_errors_wait_for_raise_deferred() -> None:
    OnAnAccelerator.reads = 0
    good, bad = (torch.tensor(data).as_subclass(OnAnAccelerator) for data in ([0.0, 1.0], [0.0, math.inf]))
    for _ in range(100):
        checks.finite(good, "x")
        checks.mask(good, "m")
    checks.raise_deferred()
    assert OnAnAccelerator.reads == 2  # one flag for each message, not for each call

    checks.finite(good, "x")
    checks.finite(bad, "x")
    checks.finite(good, "x")
    checks.selects_something(torch.tensor([False]).as_subclass(OnAnAccelerator), "m")
    with pytest.raises(NonFiniteError, match="x must be finite, got other values"):
        checks.raise_deferred()
    checks.raise_deferred()  # reported once


def test_an_empty_mask_is_deferred_too() -> None:
    checks.selects_something(torch.tensor([False]).as_subclass(OnAnAccelerator), "m")
    with pytest.raises(MaskError, match="empty mask"):
        checks.raise_deferred()
