r"""Increments, decays -> the linear recursion that every temporal estimator is, run backwards in time.

.. math:: y_t = x_t + c_t\, y_{t+1},\qquad y_T = 0

One step after another costs as many tensor operations as there are steps. Here the steps are cut into blocks of `BLOCK` that run
side by side, and what enters a block from the future is the same recursion over blocks: about ``BLOCK * log_BLOCK(T)`` operations.
Up to `BLOCK` steps the sums are those of the plain loop. Nothing is divided by a product of decays, which would underflow.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

BLOCK = 64


def backward_recursion(increments: Tensor, decays: Tensor) -> Tensor:
    r"""Run :math:`y_t = x_t + c_t y_{t+1}` along the last dimension, without gradient.

    A decay of 0 cuts: nothing later is seen, not even NaN or infinity. A step with increment 0 and decay 1 is absent time.

    Args:
        increments: `[..., T]`, floating point, T ≥ 1.
        decays: same shape and dtype, in [0, 1].

    Returns:
        `[..., T]`, same dtype.
    """
    steps = increments.shape[-1]
    if steps <= BLOCK:
        return _step_by_step(increments, decays)[0].movedim(0, -1)
    blocks = -(-steps // BLOCK)
    missing, cut = blocks * BLOCK - steps, (*increments.shape[:-1], blocks, BLOCK)
    inside, reach = _step_by_step(
        pad(increments, (0, missing)).reshape(cut),
        pad(decays, (0, missing), value=1.0).reshape(cut),
    )
    at_block_start = backward_recursion(inside[0], reach[0])
    after_block = pad(at_block_start[..., 1:], (0, 1))
    inside.addcmul_(reach, torch.where(reach != 0, after_block, 0.0))
    return inside.movedim(0, -1).reshape(*increments.shape[:-1], -1)[..., :steps]


def _step_by_step(increments: Tensor, decays: Tensor) -> tuple[Tensor, Tensor]:
    """Return the recursion and the products of all decays from each step to the end, both with time first."""
    # time first: every step reads and writes one contiguous piece
    result = increments.movedim(-1, 0).clone(memory_format=torch.contiguous_format)
    reach = decays.movedim(-1, 0).clone(memory_format=torch.contiguous_format)
    y, c, linked = result.unbind(0), reach.unbind(0), (reach != 0).unbind(0)
    nothing = result.new_zeros(())
    for t in range(len(y) - 2, -1, -1):
        # selected before the product: 0 * NaN is NaN, and an overflow in one packed episode would reach the one before it
        y[t].addcmul_(c[t], torch.where(linked[t], y[t + 1], nothing))
        c[t].mul_(c[t + 1])
    return result, reach
