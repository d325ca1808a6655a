"""Identifiers of any hashable kind -> dense integers: the form in which groups, trees, states and episodes reach the mathematics.

Integer tensors and arrays never leave their device and are never looped over; everything else costs one dictionary look-up each.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.errors import DtypeError, NonFiniteError, ShapeError

_PLAIN = frozenset({str, int, bytes, bool})
_UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)
"""What torch stores and does not compute with; distinct ids stay distinct as int64."""
_TABLE_PER_ID = 4
"""A table over the range of the ids is used while it has at most so many places per id."""
_BLOCK = 1 << 15


def integer_ids(ids: Tensor | np.ndarray[Any, Any] | Sequence[Hashable], argument: str, count: int | None = None) -> Tensor:
    """Number the distinct identifiers 0 .. G-1 in the order in which they first appear.

    Two ids are one if they have the same type and are equal: in a list `1`, `1.0` and `True` are three ids, inside tuples, too.
    NumPy scalars count as the Python number they hold. What cannot name a group is an error: NaN equals nothing, not even itself,
    so each row would be alone; `None` means that there is no name, so unrelated rows would become one group.

    Args:
        ids: `[N]`, one per row: an integer tensor, a NumPy array of integers or strings, or a list or tuple of hashable values.
        argument: how errors name the ids.
        count: number of rows, if it must match.

    Returns:
        `[N]`, int64, on the device of a tensor of ids, else on the CPU.

    Raises:
        DtypeError: the ids are floating point, boolean, one string, without order (a set), or a value among them is not hashable,
            `None` or a tensor.
        NonFiniteError: an id is NaN.
        ShapeError: not one dimension, or not `count` ids.

    Example:
        >>> from rosellm.roserlhf.credit.identifiers import integer_ids
        >>> integer_ids(["shop-7", "shop-2", "shop-7"], "group_ids")
        tensor([0, 1, 0])
        >>> integer_ids(torch.tensor([40, -3, 40, 7]), "group_ids")
        tensor([0, 1, 0, 2])
    """
    if isinstance(ids, Tensor):
        checks.tensor(ids, argument)
        checks.holds_data(ids, argument)
        ids = ids.to(torch.int64) if ids.dtype in _UNSIGNED else ids
        checks.integer(ids, argument)
        _check_shape(ids.shape, argument, count)
        return _from_integers(ids.to(torch.int64))
    if isinstance(ids, np.ndarray):
        return _from_array(ids, argument, count)
    if isinstance(ids, (str, bytes)) or not isinstance(ids, Sequence):
        raise checks.fail(
            DtypeError, argument, "be a tensor, an array, a list or a tuple of ids", f"{ids!r:.80} ({type(ids).__name__})"
        )
    _check_shape((len(ids),), argument, count)
    return _from_values(ids, argument)


def number_of_groups(ids: Tensor) -> int:
    """Return G of dense ids; 0 if there are none. On an accelerator this waits for the device."""
    return int(ids.max()) + 1 if ids.numel() else 0


def blocks(ids: Tensor) -> int:
    """Return how many rows to take at a time: few on the CPU, where their intermediate results then stay in its cache, else all."""
    return _BLOCK if ids.device.type == "cpu" else max(1, len(ids))


def _check_shape(shape: tuple[int, ...], argument: str, count: int | None) -> None:
    if len(shape) != 1:
        raise checks.fail(ShapeError, argument, "have 1 dimension, one id per row", f"shape {tuple(shape)}")
    if count is not None and shape[0] != count:
        raise checks.fail(ShapeError, argument, f"have one id for each of the {count} rows", f"{shape[0]} ids")


def _from_array(ids: np.ndarray[Any, Any], argument: str, count: int | None) -> Tensor:
    _check_shape(ids.shape, argument, count)
    if ids.dtype.kind in "iu":
        return _from_integers(torch.from_numpy(ids.astype(np.int64)))
    if ids.dtype.kind not in "USO":
        raise checks.fail(DtypeError, argument, "be an array of integers, strings or hashable objects", ids.dtype)
    return _from_values(ids.tolist(), argument)


def _from_integers(ids: Tensor) -> Tensor:
    if not ids.numel() or _numbered(ids):
        return ids
    low, high = (int(bound) for bound in torch.aminmax(ids))
    size = high - low + 1
    if size <= _TABLE_PER_ID * ids.numel():
        ids = ids - low if low else ids
    else:
        distinct, ids = torch.unique(ids, return_inverse=True)
        size = distinct.numel()
    count = ids.numel()
    first = torch.full((size,), count, device=ids.device)  # a place of the table that no id has keeps `count`
    for start, part in zip(range(0, count, blocks(ids)), ids.split(blocks(ids)), strict=True):
        first.scatter_reduce_(0, part, torch.arange(start, start + len(part), device=ids.device), "amin")
    starts = torch.zeros(count + 1, dtype=torch.bool, device=ids.device).index_fill_(0, first, True)[:-1]
    by_appearance = ids.index_select(0, starts.nonzero().squeeze(-1))
    number = first.index_copy_(0, by_appearance, torch.arange(len(by_appearance), device=ids.device))
    return number.index_select(0, ids)


def _numbered(ids: Tensor) -> bool:
    """Tell that ids are 0, 0, 1, 1, 1, 2 ... already, as where rollouts come group by group; the first other block decides."""
    if int(ids[0]):
        return False
    for start in range(0, len(ids) - 1, blocks(ids)):
        low, high = torch.aminmax(ids[start : start + blocks(ids) + 1].diff())
        if low < 0 or high > 1:
            return False
    return True


def _from_values(ids: Sequence[Hashable], argument: str) -> Tensor:
    kinds = set(map(type, ids))
    keys: Iterable[Hashable] = ids
    if len(kinds) > 1 or not kinds <= _PLAIN:
        keys = [_key(value, argument) for value in ids]
    table: defaultdict[Hashable, int] = defaultdict()
    table.default_factory = table.__len__
    return torch.from_numpy(np.fromiter(map(table.__getitem__, keys), dtype=np.int64, count=len(ids)))


def _key(value: Any, argument: str, *, inside: bool = False) -> Hashable:
    """Return what stands for an id in the dictionary: its type and itself, for `1 == 1.0 == True` to Python."""
    if isinstance(value, np.generic) and value.dtype.kind not in "mMV":
        value = value.item()
    kind = type(value)
    if kind in _PLAIN:
        return kind, value
    if kind is tuple and _PLAIN.issuperset(kinds := tuple(map(type, value))):
        return kind, value, kinds
    if isinstance(value, (tuple, frozenset)):
        parts = [_key(part, argument, inside=True) for part in value]
        return kind, tuple(parts) if isinstance(value, tuple) else frozenset(parts)
    if (value is None and not inside) or isinstance(value, Tensor):
        raise checks.fail(DtypeError, argument, "hold a hashable value per row", f"{value!r:.80} ({kind.__name__})")
    try:
        hash(value)
    except TypeError:
        raise checks.fail(DtypeError, argument, "hold hashable ids", f"{value!r:.80} ({kind.__name__})") from None
    if value != value:
        raise checks.fail(NonFiniteError, argument, "not hold NaN, which equals no other id", f"{value!r:.80} ({kind.__name__})")
    return kind, value
