"""Contracts with one wording: `<argument> must <requirement>, got <value>`; every public function calls these in its first lines.

Duck-typed on purpose: nothing here imports torch, so records and configuration share it. Shape and type checks always run. *Value*
checks (a mask is 0/1, numbers are finite) read the data: on the CPU they raise at once; on an accelerator they would stall the
stream, so they leave a flag on the device (one per message, however often it fails) that `raise_deferred` reads when the caller
chooses to; under `torch.compile`, and inside `without_value_checks()`, they are skipped. A boolean mask needs no value check.
"""

from __future__ import annotations

import contextlib
import difflib
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from rosellm.roserlhf.errors import (
    ArgumentError,
    DeviceError,
    DtypeError,
    MaskError,
    NonFiniteError,
    RangeError,
    RoseError,
    ShapeError,
)

_deferred: dict[tuple[str, type[RoseError], str], Any] = {}
_value_checks = True
_LARGEST = sys.float_info.max
_STORED = ("torch.uint16", "torch.uint32", "torch.uint64")


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
    pending = list(_deferred.items())
    _deferred.clear()
    for (message, error, _), flag in pending:
        if not flag.is_meta and bool(flag):  # a meta tensor has no data that could be wrong, or be read
            raise error(message)


def _reads_values() -> bool:
    torch = sys.modules.get("torch")
    return _value_checks and not (torch is not None and torch.compiler.is_compiling())


def _defer(error: RoseError, flag: Any) -> None:
    """Remember on its device that the 0-d boolean `flag` stands for `error`; flags of one message are merged, so none pile up."""
    key = (str(error), type(error), str(flag.device))
    _deferred[key] = _deferred[key] | flag if key in _deferred else flag


def each(
    argument: str,
    requirement: str,
    read: Callable[[], tuple[Any, Any]],
    error: type[RoseError],
    *,
    fix: str | None = None,
) -> None:
    """Require something of every number; `read()` returns the numbers and, elementwise, which of them break the requirement."""
    if not _reads_values():
        return
    values, bad = read()
    if bad.device.type != "cpu":
        _defer(fail(error, argument, requirement, "other values", fix=fix), bad.any())
    elif bool(bad.any()):
        place = bad.nonzero()[0].tolist()
        raise fail(
            error, argument, requirement, f"the value {values[bad].flatten()[0].item()}{f' at {place}' if place else ''}", fix=fix
        )


def is_tensor(value: object) -> bool:
    """Tell whether `value` is a torch tensor, without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def tensor(value: Any, argument: str) -> None:
    """Require a torch tensor, dense and not quantised."""
    if not is_tensor(value):
        raise fail(DtypeError, argument, "be a torch.Tensor", type(value).__name__)
    if value.layout != sys.modules["torch"].strided or value.is_quantized:
        raise fail(DtypeError, argument, "be a dense tensor", f"{value.layout} of {value.dtype}")


def holds_data(value: Any, argument: str) -> None:
    """Require a tensor whose numbers can be read: one on the device meta has a shape and nothing else."""
    if value.is_meta:
        raise fail(DeviceError, argument, "hold data", "a tensor on the device meta")


def floating(value: Any, argument: str) -> None:
    """Require a floating-point tensor; the 8-bit formats are storage, not numbers to compute with, and are refused."""
    tensor(value, argument)
    if not value.is_floating_point() or value.dtype.itemsize < 2:
        raise fail(DtypeError, argument, "be a floating-point tensor", value.dtype)


def integer(value: Any, argument: str) -> None:
    """Require an integer tensor (not bool, floating point or the unsigned types that torch stores but does not compare)."""
    tensor(value, argument)
    if value.is_floating_point() or value.is_complex() or str(value.dtype) == "torch.bool":
        raise fail(DtypeError, argument, "be an integer tensor", value.dtype)
    _computable(value, argument)


def _computable(value: Any, argument: str) -> None:
    """Refuse the dtypes that torch stores and hardly computes with: not even a comparison is there for all of them."""
    if str(value.dtype) in _STORED or (value.is_floating_point() and value.dtype.itemsize < 2):
        raise fail(DtypeError, argument, "have a dtype that torch computes with", value.dtype, fix="convert it by .long()")


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


def mask(value: Any, argument: str, where: Any | None = None) -> Any:
    """Require a boolean or exactly 0/1 mask and return it as a boolean tensor; with `where`, not read and false elsewhere."""
    tensor(value, argument)
    if str(value.dtype) == "torch.bool":
        return _chosen(value, where)
    if value.is_complex():
        raise fail(DtypeError, argument, "be boolean or exactly 0/1", value.dtype)
    _computable(value, argument)
    each(argument, "be boolean or exactly 0/1", lambda: (value, _chosen((value != 0) & (value != 1), where)), MaskError)
    return _chosen(value == 1, where)


def surely_finite(value: Any) -> bool:
    """Tell in one pass that all numbers are finite; False means not known: one is not, the sum overflows, or asking would wait."""
    torch = sys.modules.get("torch")
    if value.device.type != "cpu" or (torch is not None and torch.compiler.is_compiling()):
        return False
    return math.isfinite(value.sum().item())


def finite(value: Any, argument: str, where: Any | None = None) -> None:
    """Require finite numbers, at the positions `where` (boolean) if given."""
    if _reads_values() and surely_finite(value):
        return
    place = "" if where is None else " wherever its mask is true"
    each(argument, f"be finite{place}", lambda: (value, _chosen(~value.isfinite(), where)), NonFiniteError)


def positive(value: Any, argument: str, where: Any | None = None) -> None:
    """Require finite real numbers above zero, at the positions `where` (boolean) if given."""
    if value.is_complex() or str(value.dtype) in ("torch.bool", *_STORED):
        raise fail(DtypeError, argument, "be a tensor of real numbers", value.dtype)
    place = "" if where is None else " wherever its mask is true"
    each(argument, f"be positive and finite{place}", lambda: (value, _chosen(~(value.isfinite() & (value > 0)), where)), RangeError)


def index(value: Any, argument: str, size: int | None, where: Any | None = None, *, fix: str | None = None) -> None:
    """Require integers in [0, size), at the positions `where` (boolean) if given; `size=None` sets no upper end."""
    integer(value, argument)
    place = "" if where is None else " wherever its mask is true"
    requirement = f"be in [0, {'inf' if size is None else size}){place}"

    def read() -> tuple[Any, Any]:
        outside = value < 0 if size is None else (value < 0) | (value >= size)
        return value, _chosen(outside, where)

    each(argument, requirement, read, RangeError, fix=fix)


def _chosen(bad: Any, where: Any | None) -> Any:
    return bad if where is None else bad & where


def number_in(value: Any, argument: str, low: float, high: float, *, open_low: bool = False, open_high: bool = False) -> None:
    """Require a real number in an interval, closed unless said otherwise; NaN, bool and strings are refused."""

    def requirement() -> str:  # only made for an error: a graph that is traced cannot print a bound that changes between calls
        left, right = "(" if open_low else "[", ")" if open_high or math.isinf(high) else "]"
        return f"be in {left}{low:g}, {high:g}{right}"

    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise fail(DtypeError, argument, f"be a number and {requirement()}", f"{value!r} ({type(value).__name__})")
    below = value <= low if open_low else value < low
    above = value >= high if open_high else value > high
    if value != value or below or above or _LARGEST < abs(value) != math.inf:
        raise fail(RangeError, argument, requirement(), f"{value!r:.80}")


def count(value: Any, argument: str, *, at_least: int = 0) -> None:
    """Require a whole number; bool, floats and tensors are refused."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise fail(DtypeError, argument, f"be a whole number of at least {at_least}", f"{value!r:.80} ({type(value).__name__})")
    if not at_least <= value < 2**63:
        raise fail(RangeError, argument, f"be at least {at_least}" if value < at_least else "be below 2**63", f"{value!r:.80}")


def known_keywords(given: Iterable[str], known: Iterable[str]) -> None:
    """Refuse a keyword argument that nothing reads, naming the nearest that something does."""
    allowed = list(known)
    for name in given:
        if name not in allowed:
            near = difflib.get_close_matches(name, allowed, 1)
            fix = f"did you mean {near[0]}?" if near else None
            raise fail(ArgumentError, name, f"be one of the keyword arguments {', '.join(allowed)}", "an unknown name", fix=fix)


def flag(value: Any, argument: str) -> None:
    """Require True or False: a string or a tensor would silently count as true."""
    if not isinstance(value, bool):
        raise fail(DtypeError, argument, "be True or False", f"{value!r:.80} ({type(value).__name__})")


def items(values: Any, argument: str, of: str = "tensors") -> list[Any]:
    """Require several values, one tensor per micro-batch for example, and return them as a list."""
    if getattr(values, "ndim", 1) == 0 or isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        raise fail(DtypeError, argument, f"be a sequence of {of}", f"{values!r:.80} ({type(values).__name__})")
    return list(values)


def one_of(value: Any, argument: str, allowed: Sequence[object]) -> None:
    """Require one of a few named readings."""
    if not any(type(value) is type(a) and value == a for a in allowed):
        raise fail(RangeError, argument, "be one of " + ", ".join(repr(a) for a in allowed), f"{value!r:.80}")


def selects_something(mask_: Any, argument: str, *, fix: str | None = None) -> None:
    """Require a mask that selects at least one position; the message keeps the words `empty mask`."""
    if not _reads_values():
        return
    error = fail(MaskError, argument, "select at least one position", "an empty mask", fix=fix)
    if mask_.device.type != "cpu":
        _defer(error, ~mask_.any())
    elif not bool(mask_.any()):
        raise error
