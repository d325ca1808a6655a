"""Hidden states + output embedding -> log-probabilities of the target ids, without the logits of a whole batch."""

from __future__ import annotations

from typing import Literal, overload

import torch
from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.errors import ShapeError
from rosellm.roserlhf.objective import inputs, kernel
from rosellm.roserlhf.objective.logprobs import check_logit_options
from rosellm.roserlhf.objective.support import checked


@overload
def selected_logprobs(
    hidden: Tensor,
    weight: Tensor,
    target_ids: Tensor,
    *,
    bias: Tensor | None = None,
    temperature: float = 1.0,
    softcap: float | None = None,
    scale: float | None = None,
    chunk: int = 1024,
    support: tuple[Tensor, Tensor] | None = None,
    mask: Tensor | None = None,
    with_entropy: Literal[False] = False,
) -> Tensor: ...
@overload
def selected_logprobs(
    hidden: Tensor,
    weight: Tensor,
    target_ids: Tensor,
    *,
    bias: Tensor | None = None,
    temperature: float = 1.0,
    softcap: float | None = None,
    scale: float | None = None,
    chunk: int = 1024,
    support: tuple[Tensor, Tensor] | None = None,
    mask: Tensor | None = None,
    with_entropy: Literal[True],
) -> tuple[Tensor, Tensor]: ...
def selected_logprobs(
    hidden: Tensor,
    weight: Tensor,
    target_ids: Tensor,
    *,
    bias: Tensor | None = None,
    temperature: float = 1.0,
    softcap: float | None = None,
    scale: float | None = None,
    chunk: int = 1024,
    support: tuple[Tensor, Tensor] | None = None,
    mask: Tensor | None = None,
    with_entropy: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    r"""Compute log-probabilities of targets from hidden states, forward and backward, never holding `[B, T, V]`.

    .. math:: \ell_t = z_{t, x_t} - \log \sum_{v \in S_t} e^{z_{t, v}}, \qquad
        z_t = \frac{1}{T}\, c \tanh\!\Big(\frac{s\,(h_t W^\top + b)}{c}\Big)

    The order is that of the models which use these options: scale (Cohere's `logit_scale`; Granite *divides* by `logits_scaling`,
    so its scale is 1 / that), then soft-cap (Gemma 2), then the sampler's temperature. Without a soft-cap `c` the tanh falls away.
    There is no shift inside: `hidden[t]` must be the state that predicts `target_ids[t]`; `policy_logprobs` makes the shift.

    Logits exist `chunk` positions by 4096 vocabulary entries at a time, and the backward pass computes them again; with a frozen
    `weight` and `bias`, and without entropy, the gradient of `hidden` is formed in the forward pass instead, at no second pass.
    Matrix products are in the input dtype; softmax, sums over chunks and the result are float32 (float64 for float64), under
    `torch.autocast` too; gradients have the dtype of their inputs. The entropy :math:`-\sum_{v \in S} p_v \log p_v` carries
    gradient: detach it for a statistic. Second derivatives are refused. Inside `torch.compile(fullgraph=True)` each pass is one
    opaque node.

    A position where `mask` is false is not computed: 0, exactly zero gradient, and its hidden state and id may be anything. `N = 0`
    and an empty mask give zeros that are connected to the graph.

    There is no collective inside, so ranks may hold different numbers of positions. `weight` must be whole and local: inside the
    forward of an FSDP module it is, outside it take `weight.full_tensor()`; a shard of the vocabulary gives wrong numbers or an id
    out of range, and a DTensor is refused.

    Source: the arithmetic of Wijmans et al. 2024 (Cut Cross-Entropy), https://arxiv.org/abs/2411.09009; soft-cap: Gemma Team 2024
    (Gemma 2), §2, https://arxiv.org/abs/2408.00118; support: DeepSeek-AI 2025 (DeepSeek-V3.2), §3.1,
    https://arxiv.org/abs/2512.02556

    Args:
        hidden: `[..., d]`, floating point: the last hidden states, after the final norm.
        weight: `[V, d]`, floating point: the output embedding.
        target_ids: `[...]`, integers in `[0, V)` wherever `mask` is true.
        bias: `[V]`, floating point.
        temperature: of the sampler, > 0.
        softcap: bound of the logits, > 0; None for none.
        scale: factor of the logits, > 0; None for 1.
        chunk: positions per block, ≥ 1. Memory grows with it, the result does not depend on it (1e-6).
        support: `KeptSupport` or `(ids, offsets)` over the flattened positions: renormalise over the kept ids of each; an empty
            list means the whole vocabulary. A target outside its support is an error.
        mask: `[...]`, boolean or exactly 0/1.
        with_entropy: return the entropy too, `[...]`, 0 where masked.

    Returns:
        `[...]` log-probabilities, float32 or float64; with `with_entropy` a pair.

    Raises:
        ShapeError, DtypeError, DeviceError: the arguments do not fit together, or `weight` is a DTensor.
        RangeError: an option, an id or a support is out of range, or a target is outside its support.
        GraphError: a second derivative is asked for.

    Example:
        >>> hidden, weight = torch.tensor([[1.0, 0.0], [0.0, 2.0]]), torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
        >>> selected_logprobs(hidden, weight, torch.tensor([1, 2]))
        tensor([-0.5514, -0.2395])
        >>> selected_logprobs(hidden, weight, torch.tensor([1, 2]), support=KeptSupport.of([[1, 0], [2]]))
        tensor([-0.3133,  0.0000])
    """
    _check_head(hidden, weight, bias)
    checks.integer(target_ids, "target_ids")
    leading = tuple(hidden.shape[:-1])
    if tuple(target_ids.shape) != leading:
        requirement = f"have the shape of hidden without its last dimension {leading}"
        raise checks.fail(ShapeError, "target_ids", requirement, tuple(target_ids.shape))
    checks.same_device(target_ids, "target_ids", hidden, "hidden")
    check_logit_options(temperature, scale, softcap)
    checks.count(chunk, "chunk", at_least=1)
    checks.flag(with_entropy, "with_entropy")
    chosen = None if mask is None else checks.mask(mask, "mask")
    if mask is not None:
        checks.same_shape(mask, "mask", target_ids, "target_ids")
    checks.index(
        target_ids, "target_ids", weight.shape[0], chosen, fix="mask what has no id; weight must hold the whole vocabulary"
    )
    kept = None if support is None else checked(support, target_ids, weight.shape[0], chosen)
    frozen_head = not weight.requires_grad and (bias is None or not bias.requires_grad)
    with_slope = torch.is_grad_enabled() and hidden.requires_grad and frozen_head and not with_entropy
    logprobs, _, entropy, _ = kernel.forward(
        hidden,
        weight,
        target_ids.long(),
        bias,
        chosen,
        None if kept is None else kept.ids,
        None if kept is None else kept.offsets,
        1.0 if scale is None else float(scale),
        None if softcap is None else float(softcap),
        float(temperature),
        chunk,
        with_slope,
        with_entropy,
    )
    return (logprobs, entropy) if with_entropy else logprobs


def _check_head(hidden: Tensor, weight: Tensor, bias: Tensor | None) -> None:
    for value, argument in ((hidden, "hidden"), (weight, "weight"), (bias, "bias")):
        if value is not None or argument != "bias":
            checks.floating(value, argument)
            inputs.whole(value, argument)
    checks.at_least_rank(hidden, 1, "hidden")
    checks.at_least_rank(weight, 1, "weight")
    for value, argument, shape in ((weight, "weight", (None, hidden.shape[-1])), (bias, "bias", (weight.shape[0],))):
        if value is None:
            continue
        if value.ndim != len(shape) or any(want not in (None, got) for want, got in zip(shape, value.shape, strict=True)):
            wanted = "[V, {1}]" if len(shape) == 2 else "[{0}]"
            raise checks.fail(ShapeError, argument, f"be shaped {wanted.format(*shape)}", tuple(value.shape))
        checks.same_device(value, argument, hidden, "hidden")
    if weight.shape[0] == 0:
        raise checks.fail(ShapeError, "weight", "hold at least one vocabulary entry", tuple(weight.shape))
