r"""Increments, decays -> the linear recursion that every temporal estimator is, run backwards in time.

.. math:: y_t = x_t + c_t\, y_{t+1},\qquad y_T = 0

One step after another costs as many tensor operations as there are steps. Here the steps are cut into blocks of `BLOCK` that run
side by side, and what enters a block from the future is the same recursion over blocks: about ``BLOCK * log_BLOCK(T)`` operations.
Up to `BLOCK` steps the sums are those of the plain loop. Nothing is divided by a product of decays, which would underflow.

A decay of 0 cuts, even what is not finite. Only there does the product need a selection (0 * NaN is NaN), so on the CPU the numbers
are computed without it first and once more with it if they turn out not to be finite; where looking would wait for a device, the
selection is always made.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from rosellm.roserlhf import checks
from rosellm.roserlhf.credit.pieces import in_pieces

BLOCK = 32


def backward_recursion(increments: Tensor, decays: Tensor) -> Tensor:
    r"""Run :math:`y_t = x_t + c_t y_{t+1}` along the last dimension, without gradient.

    A decay of 0 cuts: nothing later is seen, not even NaN or infinity. A step with increment 0 and decay 1 is absent time.

    Args:
        increments: `[..., T]`, floating point, T ≥ 1.
        decays: same shape and dtype, ≥ 0.

    Returns:
        `[..., T]`, same dtype.
    """
    steps = increments.shape[-1]
    missing = -steps % BLOCK if steps > BLOCK else 0
    if missing:
        increments, decays = pad(increments, (0, missing)), pad(decays, (0, missing), value=1.0)
    result = torch.empty_like(increments, memory_format=torch.contiguous_format)
    for x, c, y in in_pieces(increments, decays, result):
        for guarded in (False, True):
            if guarded or y.device.type == "cpu":
                _write(y, x, c, guarded=guarded)
            if checks.surely_finite(y):
                break
    return result[..., :steps]


def _write(result: Tensor, increments: Tensor, decays: Tensor, *, guarded: bool) -> None:
    """Run the recursion over rows `[R, T]` into `result`; T is a multiple of `BLOCK`, or at most `BLOCK`."""
    length = min(BLOCK, result.shape[-1])
    # time first and lanes flat: every step reads and writes one contiguous piece, and the copies are plain transpositions
    y = increments.reshape(-1, length).t().clone(memory_format=torch.contiguous_format)
    c = decays.reshape(-1, length).t().clone(memory_format=torch.contiguous_format)
    _step_by_step(y, c, guarded=guarded)
    if result.shape[-1] > length:
        blocks = (result.shape[0], -1)
        at_block_start = backward_recursion(y[0].view(blocks), c[0].view(blocks))
        later = pad(at_block_start[:, 1:], (0, 1)).flatten()
        y.addcmul_(c, torch.where(c != 0, later, 0.0) if guarded else later)
    result.view(-1, length).copy_(y.t())


def _step_by_step(y: Tensor, c: Tensor, *, guarded: bool) -> None:
    """Turn increments into the recursion, and decays into the products of all decays to the end, in place, time first."""
    sums, reach = y.unbind(0), c.unbind(0)
    linked = (c != 0).unbind(0) if guarded else ()
    nothing = y.new_zeros(())
    for t in range(len(sums) - 2, -1, -1):
        sums[t].addcmul_(reach[t], torch.where(linked[t], sums[t + 1], nothing) if guarded else sums[t + 1])
        reach[t].mul_(torch.where(linked[t], reach[t + 1], nothing) if guarded else reach[t + 1])
