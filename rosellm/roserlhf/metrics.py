"""Dicts of partials of micro-batches and ranks -> one dict of partials -> numbers, divided once at the end.

    mean over the step = (sum of all sums) / (sum of all counts)

Averaging means instead would weigh a short micro-batch like a long one. A statistic that a part does not have counts nothing there.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Iterable, Mapping

import torch
import torch.distributed as dist
from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.errors import DtypeError, ShapeError
from rosellm.roserlhf.masked import Partial


def merge(parts: Iterable[Mapping[str, Partial]]) -> dict[str, Partial]:
    """Add partials of the same name; names keep the order in which they first appear.

    Args:
        parts: one mapping per micro-batch, for example the `partials` of a loss. No part at all gives an empty dict.

    Returns:
        The partials of all parts together, on the device they came from; nothing is read on the host.

    Example:
        >>> one, two = Partial(torch.tensor(4.0), torch.tensor(1.0)), Partial(torch.tensor(0.0), torch.tensor(3.0))
        >>> merge([{"loss": one}, {"loss": two}])["loss"].mean()
        tensor(1.)
    """
    merged: dict[str, Partial] = {}
    for part in parts:
        for name, value in part.items():
            merged[name] = merged[name] + value if name in merged else value
    return merged


def over_ranks(partials: Mapping[str, Partial], process_group: dist.ProcessGroup) -> dict[str, Partial]:
    """Add the partials of all ranks of a group, in one all-reduce.

    Args:
        partials: what this rank merged; every rank must have the same names (a rank without data: zero of zero).
        process_group: the ranks to add over.

    Returns:
        The same names, equal on every rank.

    Raises:
        ShapeError: the ranks have different names, which would add unrelated numbers.
        DtypeError: `process_group` is none.
    """
    require_group(process_group)
    names = sorted(partials)
    _require_same_names(names, process_group)
    if not names:
        return {}
    table = _table([partials[name] for name in names])
    dist.all_reduce(table, group=process_group)
    return {name: Partial(row[0], row[1]) for name, row in zip(names, table, strict=True)}


def means(partials: Mapping[str, Partial]) -> dict[str, float]:
    """Divide, once, and bring the numbers to the host in one transfer; NaN where nothing was counted.

    Args:
        partials: merged over micro-batches and ranks.

    Returns:
        One number per name, in the given order.

    Example:
        >>> means({"clip_fraction": Partial(torch.tensor(1.0), torch.tensor(4.0))})
        {'clip_fraction': 0.25}
    """
    if not partials:
        return {}
    table = _table(list(partials.values()))
    return dict(zip(partials, (table[:, 0] / table[:, 1]).tolist(), strict=True))


def _table(partials: list[Partial]) -> Tensor:
    """`[names, 2]`: sums and counts in the widest dtype among them."""
    numbers = [number for partial in partials for number in (partial.sum, partial.count)]
    widest = functools.reduce(torch.promote_types, (number.dtype for number in numbers))
    return torch.stack([number.to(widest) for number in numbers]).view(-1, 2)


def _require_same_names(names: list[str], group: dist.ProcessGroup) -> None:
    mine = torch.tensor([zlib.crc32("\n".join(names).encode())], dtype=torch.int64, device=group_device(group))
    theirs = [torch.zeros_like(mine) for _ in range(dist.get_world_size(group))]
    dist.all_gather(theirs, mine, group=group)
    if any(int(other) != int(mine) for other in theirs):
        raise checks.fail(ShapeError, "partials", "have the same names on every rank", names)


def require_group(group: object) -> None:
    """Require a process group.

    Raises:
        DtypeError: something else was given.
    """
    if not (dist.is_available() and isinstance(group, dist.ProcessGroup)):
        got = f"{group!r:.80} ({type(group).__name__})"
        raise checks.fail(DtypeError, "process_group", "be a torch.distributed.ProcessGroup", got)


def group_device(group: dist.ProcessGroup) -> torch.device:
    """Return the device on which a group exchanges tensors that have no home yet: the current GPU for NCCL, else the CPU."""
    return torch.device("cuda", torch.cuda.current_device()) if dist.get_backend(group) == "nccl" else torch.device("cpu")
