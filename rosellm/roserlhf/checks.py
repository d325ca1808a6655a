"""Contracts with one wording: `<argument> must <requirement>, got <value>`; every public function calls these in its first lines.

Duck-typed on purpose: nothing here imports torch, so records and configuration share it. Shape and type checks always run. *Value*
checks (a mask is 0/1, numbers are finite) read the data: on the CPU they raise at once; on an accelerator they would stall the stream,
so they leave a flag on the device that `raise_deferred` reads when the caller chooses to; under `torch.compile`, and inside
`without_value_checks()`, they are skipped. A boolean mask needs no value check.
"""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from rosellm.roserlhf.errors import DeviceError, DtypeError, MaskError, NonFiniteError, RangeError, RoseError, ShapeError

_deferred: list[tuple[str, type[RoseError], Any]] = []
_value_checks = True


def fail(error: type[RoseError], argument: str, requirement: str, got: object, *, fix: str | None = None) -> RoseError:
    """Build the error `<argument> must <requirement>, got <value>[; <fix>]`; the caller raises it."""
    return error(f"{argument} must {requirement}, got {got}" + (f"; {fix}" if fix else ""))


@contextlib.contextmanager
def without_value_checks() -> Iterator[None]:
    """Skip checks that read tensor data inside the block; shapes, types and devices stay checked."""
    global _value_checks
    before, _value_checks = _value_checks, False
    try:
        yield
    finally:
        _value_checks = before


def raise_deferred() -> None:
    """Raise the first value error found on an accelerator since the last call. This is the one place that waits for the device."""
    pending, _deferred[:] = list(_deferred), []
    for message, error, flag in pending:
        if bool(flag):
            raise error(message)


def _reads_values() -> bool:
    torch = sys.modules.get("torch")
    return _value_checks and not (torch is not None and torch.compiler.is_compiling())


def _value_check(bad: Any, error: RoseError) -> None:
    """Raise `error` if the 0-d boolean tensor `bad` is true: now on the CPU, at `raise_deferred` elsewhere."""
    if bad.device.type != "cpu":
        _deferred.append((str(error), type(error), bad))
    elif bool(bad):
        raise error


def is_tensor(value: object) -> bool:
    """Tell whether `value` is a torch tensor, without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def tensor(value: Any, argument: str) -> None:
    """Require a torch tensor."""
    if not is_tensor(value):
        raise fail(DtypeError, argument, "be a torch.Tensor", type(value).__name__)


def floating(value: Any, argument: str) -> None:
    """Require a floating-point tensor."""
    tensor(value, argument)
    if not value.is_floating_point():
        raise fail(DtypeError, argument, "be a floating-point tensor", value.dtype)


def integer(value: Any, argument: str) -> None:
    """Require an integer tensor (bool and floating point are refused)."""
    tensor(value, argument)
    if value.is_floating_point() or value.is_complex() or str(value.dtype) == "torch.bool":
        raise fail(DtypeError, argument, "be an integer tensor", value.dtype)


def at_least_rank(value: Any, rank: int, argument: str) -> None:
    """Require at least `rank` dimensions."""
    if value.ndim < rank:
        raise fail(ShapeError, argument, f"have at least {rank} dimension(s)", f"shape {tuple(value.shape)}")


def same_shape(value: Any, argument: str, like: Any, like_name: str) -> None:
    """Require `value` and `like` to have one shape and one device."""
    if tuple(value.shape) != tuple(like.shape):
        raise fail(ShapeError, argument, f"have the shape of {like_name} {tuple(like.shape)}", tuple(value.shape))
    same_device(value, argument, like, like_name)


def same_device(value: Any, argument: str, like: Any, like_name: str) -> None:
    """Require two tensors on one device."""
    if value.device != like.device:
        raise fail(DeviceError, argument, f"be on the device of {like_name} ({like.device})", value.device)


def mask(value: Any, argument: str) -> Any:
    """Require a boolean or exactly 0/1 mask and return it as a boolean tensor."""
    tensor(value, argument)
    if str(value.dtype) == "torch.bool":
        return value
    if value.is_complex():
        raise fail(DtypeError, argument, "be boolean or exactly 0/1", value.dtype)
    if _reads_values():
        bad = ((value != 0) & (value != 1)).any()
        _value_check(bad, fail(MaskError, argument, "be boolean or exactly 0/1", _sample(value, bad)))
    return value == 1


def _sample(value: Any, bad: Any) -> str:
    if value.device.type != "cpu" or not bool(bad):
        return "other values"
    return f"the value {value[(value != 0) & (value != 1)].flatten()[0].item()}"


def finite(value: Any, argument: str, where: Any | None = None) -> None:
    """Require finite numbers, at the positions `where` (boolean) if given."""
    if not _reads_values():
        return
    bad = ~value.isfinite()
    if where is not None:
        bad = bad & where
    count = int(bad.sum()) if value.device.type == "cpu" else "some"
    place = "" if where is None else " wherever its mask is true"
    _value_check(bad.any(), fail(NonFiniteError, argument, f"be finite{place}", f"{count} NaN or infinite value(s)"))


def number_in(value: Any, argument: str, low: float, high: float, *, open_low: bool = False, open_high: bool = False) -> None:
    """Require a real number in an interval, closed unless said otherwise; NaN, bool and strings are refused."""
    left, right = "(" if open_low else "[", ")" if open_high or math.isinf(high) else "]"
    requirement = f"be in {left}{low:g}, {high:g}{right}"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise fail(DtypeError, argument, f"be a number and {requirement}", f"{value!r} ({type(value).__name__})")
    below = value <= low if open_low else value < low
    above = value >= high if open_high else value > high
    if math.isnan(value) or below or above:
        raise fail(RangeError, argument, requirement, f"{value!r}")


def one_of(value: Any, argument: str, allowed: Sequence[object]) -> None:
    """Require one of a few named readings."""
    if value not in allowed:
        raise fail(RangeError, argument, "be one of " + ", ".join(repr(a) for a in allowed), repr(value))


def selects_something(mask_: Any, argument: str) -> None:
    """Require a mask that selects at least one position; the message keeps the words `empty mask`."""
    if _reads_values():
        _value_check(~mask_.any(), MaskError(f"{argument} must select at least one position, got an empty mask; {_EMPTY_FIX}"))


_EMPTY_FIX = "pass denominator= (of the whole optimizer step) if an empty micro-batch is expected"


def each(
    argument: str, requirement: str, read: Callable[[], tuple[Any, Any]], error: type[RoseError], *, fix: str | None = None
) -> None:
    """Require something of every number: `read()` returns the numbers and, elementwise, which of them break the requirement."""
    if not _reads_values():
        return
    values, bad = read()
    got = f"the value {values[bad].flatten()[0].item()}" if bad.device.type == "cpu" and bool(bad.any()) else "other values"
    _value_check(bad.any(), fail(error, argument, requirement, got, fix=fix))
