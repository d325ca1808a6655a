"""Values and a mask -> the values that the mask selects and 0 elsewhere, without a branch per number and without a gradient.

The rule is that of `masked.select`: what is left out cannot change anything, not even NaN. The way is to erase its bits, because a
selection that branches is several times slower where a processor cannot guess the mask.
"""

from __future__ import annotations

import torch
from torch import Tensor

_INTEGERS = {torch.float32: torch.int32, torch.float64: torch.int64}


def bits(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Return integers as wide as `dtype`, every bit set where the boolean `mask` is true and none elsewhere."""
    return mask.view(torch.int8).neg().to(_INTEGERS[dtype])


def ones(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Return 1 where the boolean `mask` is true and 0 elsewhere; from bytes this is much faster than from booleans."""
    return mask.view(torch.int8).to(dtype)


def keep(values: Tensor, selected: Tensor) -> Tensor:
    """Return float32 or float64 `values` where `selected` (from `bits`) is set and 0 elsewhere."""
    return (values.view(selected.dtype) & selected).view(values.dtype)
