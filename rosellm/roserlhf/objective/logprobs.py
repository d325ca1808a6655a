"""Logits + token ids -> log-probabilities of those tokens."""

from __future__ import annotations

import torch
from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.errors import ShapeError
from rosellm.roserlhf.masked import at_least_float32


def gather_token_logprobs(logits: Tensor, target_ids: Tensor) -> Tensor:
    r"""Read the log-probability of each target token from the logits that predict it.

    .. math:: \ell_t = z_{t, x_t} - \log \sum_v e^{z_{t, v}}

    Half-precision logits are computed in float32, float64 stays. The maximum is subtracted before the exponential (log-softmax), so
    a common offset of the logits costs no precision. There is no shift inside: position `t` of `logits` must predict position `t`
    of `target_ids`. For a causal model that is `gather_token_logprobs(logits[:, :-1], ids[:, 1:])`, and a mask in token space drops
    its *first* entry in the same way, `mask[:, 1:]`. Sampling at temperature `T` has the log-probabilities of `logits / T`: both
    sides of a ratio must use the same one. Padding needs a valid id (any: mask it afterwards); -100 is refused.

    Source: the autoregressive factorisation of a policy, Williams 1992, https://doi.org/10.1007/BF00992696

    Args:
        logits: `[..., V]`, floating point.
        target_ids: `[...]`, integers in `[0, V)`.

    Returns:
        `[...]`, float32 or float64, differentiable with respect to `logits`.

    Raises:
        ShapeError: `target_ids` is not shaped like `logits` without its last dimension.
        RangeError: an id is outside the vocabulary.
        DtypeError: `logits` is not floating point or `target_ids` is not an integer tensor.

    Example:
        >>> gather_token_logprobs(torch.tensor([[0.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 1]))
        tensor([-0.6931, -0.3133])
    """
    checks.floating(logits, "logits")
    checks.at_least_rank(logits, 1, "logits")
    checks.integer(target_ids, "target_ids")
    expected, vocabulary = tuple(logits.shape[:-1]), logits.shape[-1]
    if tuple(target_ids.shape) != expected:
        requirement = f"have the shape of logits without the vocabulary {expected}"
        raise checks.fail(ShapeError, "target_ids", requirement, tuple(target_ids.shape))
    checks.same_device(target_ids, "target_ids", logits, "logits")
    checks.index(target_ids, "target_ids", vocabulary, fix="give padding any valid id and mask it out of the loss")
    indices = target_ids.long().unsqueeze(-1)
    if logits.device.type != "cpu":
        # An accelerator learns of a bad id only at `checks.raise_deferred`; until then it must not read outside the row.
        indices = indices.clamp(0, vocabulary - 1)
    return torch.log_softmax(at_least_float32(logits), dim=-1).gather(-1, indices).squeeze(-1)
