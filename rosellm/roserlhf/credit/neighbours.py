"""A mask -> for every place of the last dimension, the nearest selected place before or after it."""

from __future__ import annotations

import torch
from torch import Tensor


def first_at_or_after(mask: Tensor) -> Tensor:
    """Return at every place the index (int64) of the first selected one from there on; the length if there is none."""
    steps = mask.shape[-1]
    # selected places as negative numbers, others 0: a product instead of a selection, which branches
    index = torch.arange(-steps, 0, device=mask.device) * mask.view(torch.int8)
    return index.flip(-1).cummin(-1).values.flip(-1).add_(steps)


def last_at_or_before(mask: Tensor) -> Tensor:
    """Return at every place the index (int64) of the last selected one up to there; -1 if there is none."""
    index = torch.arange(1, mask.shape[-1] + 1, device=mask.device) * mask.view(torch.int8)
    return index.cummax(-1).values.sub_(1)
