"""An operation and a place for its result -> the result in that place, without a copy where that can be had."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def into(place: Tensor, operation: Callable[..., Tensor], *arguments: Any, **options: Any) -> None:
    """Write what `operation` returns into `place`, a view of any layout.

    `torch.compile` traces no `out=` that is not contiguous; there the result is copied, which its fusion makes free.
    """
    if torch.compiler.is_compiling():
        place.copy_(operation(*arguments, **options))
    else:
        operation(*arguments, **options, out=place)
