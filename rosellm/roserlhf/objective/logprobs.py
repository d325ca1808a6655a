"""Logits + token ids -> log-probabilities of those tokens."""

from __future__ import annotations

import torch
from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.errors import ShapeError
from rosellm.roserlhf.masked import at_least_float32
from rosellm.roserlhf.objective.support import checked, outside


def gather_token_logprobs(
    logits: Tensor,
    target_ids: Tensor,
    *,
    temperature: float = 1.0,
    support: tuple[Tensor, Tensor] | None = None,
    scale: float | None = None,
    softcap: float | None = None,
) -> Tensor:
    r"""Read the log-probability of each target token from the logits that predict it.

    .. math:: \ell_t = z_{t, x_t} - \log \sum_{v \in S_t} e^{z_{t, v}}

    with :math:`z` the logits after `scale`, `softcap` and `temperature`, in this order (`selected_logprobs` says whose order it
    is), and :math:`S_t` the whole vocabulary or the kept support of truncated sampling. Most models apply scale and soft-cap
    themselves: these options are for raw logits.

    Half-precision logits are computed in float32, float64 stays. The maximum is subtracted before the exponential (log-softmax), so
    a common offset of the logits costs no precision. There is no shift inside: position `t` of `logits` must predict position `t`
    of `target_ids`. For a causal model that is `gather_token_logprobs(logits[:, :-1], ids[:, 1:])`, and a mask in token space drops
    its *first* entry in the same way, `mask[:, 1:]`; `policy_logprobs` makes this shift. Both sides of a ratio must use one
    temperature and one support. Padding needs a valid id (any: mask it afterwards); -100 is refused.

    Source: the autoregressive factorisation of a policy, Williams 1992, https://doi.org/10.1007/BF00992696

    Args:
        logits: `[..., V]`, floating point.
        target_ids: `[...]`, integers in `[0, V)`.
        temperature: of the sampler, > 0; the logits are divided by it.
        support: `KeptSupport` or `(ids, offsets)` over the flattened positions; a position with no ids keeps the whole vocabulary.
        scale: factor of the logits, > 0; None for 1.
        softcap: bound `c` of the logits, `c tanh(z / c)`, > 0; None for none.

    Returns:
        `[...]`, float32 or float64, differentiable with respect to `logits`.

    Raises:
        ShapeError: `target_ids` is not shaped like `logits` without its last dimension, or `support` does not fit it.
        RangeError: an id is outside the vocabulary or its support, or an option is not positive.
        DtypeError: `logits` is not floating point or `target_ids` is not an integer tensor.

    Example:
        >>> gather_token_logprobs(torch.tensor([[0.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 1]))
        tensor([-0.6931, -0.3133])
        >>> gather_token_logprobs(torch.tensor([1.0, 3.0]).log(), torch.tensor(1), temperature=0.5)  # 9 / 10
        tensor(-0.1054)
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
    check_logit_options(temperature, scale, softcap)
    kept = None if support is None else checked(support, target_ids, vocabulary)
    indices = target_ids.long().unsqueeze(-1)
    if logits.device.type != "cpu":
        # An accelerator learns of a bad id only at `checks.raise_deferred`; until then it must not read outside the row.
        indices = indices.clamp(0, vocabulary - 1)
    final = final_logits(at_least_float32(logits), temperature, scale, softcap)
    if kept is not None:
        final = final.masked_fill(outside(kept, 0, vocabulary).view(final.shape), -torch.inf)
    return torch.log_softmax(final, dim=-1).gather(-1, indices).squeeze(-1)


def check_logit_options(temperature: float, scale: float | None, softcap: float | None) -> None:
    """Require positive, finite numbers."""
    for value, argument in ((temperature, "temperature"), (scale, "scale"), (softcap, "softcap")):
        if value is not None:
            checks.number_in(value, argument, 0.0, float("inf"), open_low=True, open_high=True)


def final_logits(logits: Tensor, temperature: float, scale: float | None, softcap: float | None) -> Tensor:
    """Turn raw logits into those of the sampler: scale, then soft-cap, then temperature."""
    if scale is not None:
        logits = logits * scale
    if softcap is not None:
        logits = softcap * torch.tanh(logits / softcap)
    return logits if temperature == 1 else logits / temperature
