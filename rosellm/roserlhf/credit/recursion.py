r"""Increments, decays -> the linear recursion that every temporal estimator is, run backwards in time.

.. math:: y_t = x_t + c_t\, y_{t+1},\qquad y_T = 0

One step after another costs as many tensor operations as there are steps. Here every step first sums a window of w steps, and the
window doubles: :math:`y_t^{2w} = y_t^w + c_t^w\,y_{t+w}^w`, where :math:`c^w` is the product of w decays. Then windows are chained
from the end, w steps at a time. All operations run over contiguous rows. Up to `SHORT` steps w stays 1, and the sums are those of
the plain loop. Nothing is divided by a product of decays, which would underflow.

A decay of 0 cuts, even what is not finite. Only there does the product need a selection (0 * NaN is NaN), so on the CPU the numbers
are computed without it first and once more with it if they turn out not to be finite; where looking would wait for a device, or
be no part of a compiled graph, the selection is always made.
"""

from __future__ import annotations

import torch
from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.credit.into import into
from rosellm.roserlhf.credit.pieces import in_pieces

SHORT = 64
_WINDOW, _LONGEST_CHAIN = 32, 256


def backward_recursion(increments: Tensor, decays: Tensor) -> Tensor:
    r"""Run :math:`y_t = x_t + c_t y_{t+1}` along the last dimension, without gradient.

    A decay of 0 cuts: nothing later is seen, not even NaN or infinity. A step with increment 0 and decay 1 is absent time.

    Args:
        increments: `[..., T]`, floating point, T ≥ 1.
        decays: same shape and dtype, ≥ 0.

    Returns:
        `[..., T]`, same dtype.
    """
    result = torch.empty_like(increments, memory_format=torch.contiguous_format)
    for x, c, y in in_pieces(increments, decays, result):
        for guarded in (False, True):
            if guarded or (y.device.type == "cpu" and not torch.compiler.is_compiling()):
                _write(y, x, c, guarded=guarded)
            if checks.surely_finite(y):
                break
    return result


def _write(result: Tensor, increments: Tensor, decays: Tensor, *, guarded: bool) -> None:
    """Run the recursion over rows `[R, T]` into `result`."""
    steps, widest = result.shape[-1], 1
    while steps > SHORT and (widest < _WINDOW or steps > _LONGEST_CHAIN * widest):
        widest *= 2
    y, c, window = increments, decays, 1
    # both sides of every doubling are kept apart by turns between two buffers each; the last sums land in the result
    spare = [torch.empty_like(result) for _ in range(3 if widest > 1 else 0)]
    while window < widest:
        to_result = (widest // window).bit_length() % 2 == 0
        sums, products = result if to_result else spare[0], spare[1 if to_result else 2]
        early = c[:, :-window]
        into(sums[:, :-window], torch.addcmul, y[:, :-window], early, _seen(y[:, window:], early, guarded))
        sums[:, -window:] = y[:, -window:]
        still = max(steps - 2 * window, 0)  # later steps have come to the end, and their products are not used again
        into(products[:, :still], torch.mul, c[:, :still], _seen(c[:, window : window + still], c[:, :still], guarded))
        y, c, window = sums, products, 2 * window
    if y is not result:
        result.copy_(y)
    _chain(result, c, window, guarded)


def _chain(y: Tensor, c: Tensor, window: int, guarded: bool) -> None:
    """Add to every window what comes after it, from the end, in place; the first one may be narrower."""
    count = -(-y.shape[-1] // window)
    widths = [y.shape[-1] - window * (count - 1)] + [window] * (count - 1)
    sums, products = y.split(widths, dim=-1), c.split(widths, dim=-1)
    for k in range(count - 2, -1, -1):
        later = sums[k + 1] if k else sums[k + 1][:, window - widths[0] :]
        sums[k].addcmul_(products[k], _seen(later, products[k], guarded))


def _seen(later: Tensor, decays: Tensor, guarded: bool) -> Tensor:
    return torch.where(decays != 0, later, 0.0) if guarded else later
