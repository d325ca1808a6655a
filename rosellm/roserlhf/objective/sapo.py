"""SAPO: a smooth gate on the token ratio in place of the clip."""

from __future__ import annotations

from typing import Unpack

import torch
from torch import Tensor

from rosellm.roserlhf.masked import fraction, partial
from rosellm.roserlhf.objective import inputs
from rosellm.roserlhf.objective.aggregation import Aggregation, weighing
from rosellm.roserlhf.objective.layout import Layout
from rosellm.roserlhf.objective.outputs import SapoPolicyLossOutput, finish
from rosellm.roserlhf.objective.ratios import bounded, divergence


def sapo_policy_loss(
    current_logprobs: Tensor,
    rollout_logprobs: Tensor,
    token_advantages: Tensor,
    action_mask: Tensor,
    *,
    tau_positive: float = 1.0,
    tau_negative: float = 1.05,
    max_log_ratio: float = 20.0,
    aggregation: Aggregation = "sequence_mean",
    denominator: float | Tensor | None = None,
    **layout: Unpack[Layout],
) -> SapoPolicyLossOutput:
    r"""Maximise the softly gated surrogate of SAPO.

    .. math::
        f_t(\rho) = \frac{4}{\tau_t}\, \sigma(\tau_t (\rho - 1)), \qquad
        \tau_t = \begin{cases} \tau_+ & A_t > 0 \\ \tau_- & A_t \le 0 \end{cases}, \qquad
        J = \frac{1}{D} \sum_t m_t w_t f_t(\rho_t) A_t

    With `p = sigmoid(tau * (rho - 1))` the gradient is `4 p (1 - p) * rho * A` per token: the gate `4 p (1 - p)` is 1 at
    ratio 1 for every temperature and falls on both sides. The *weight* is gate times ratio, which for temperature 1 still rises to
    1.57 near ratio 2.06. The ratio stays in the graph (detached, the gradient would be zero). The value at ratio 1 is `2 A / tau`,
    so losses of different temperatures cannot be compared. An advantage of 0 takes the negative temperature and contributes
    nothing.

    Default: `aggregation="sequence_mean"`, the mean over responses of token means as printed; some ports use the token mean, which
    can have the opposite sign.

    Source: Gao et al. 2025 (SAPO), Eq. 5 and 6, https://arxiv.org/abs/2511.20347

    Args:
        current_logprobs: `[..., T]`, floating point.
        rollout_logprobs: same shape: recorded behaviour log-probabilities; detached.
        token_advantages: one per token, per row (`[...]` or `[..., 1]`, where rows are sequences) or per packed sequence; detached.
        action_mask: same shape as `current_logprobs`, boolean or exactly 0/1. Masked values may be anything.
        tau_positive: temperature of the gate where the advantage is positive, above 0.
        tau_negative: temperature elsewhere, above 0; the paper makes it the larger one.
        max_log_ratio: bound on the absolute log-ratio, above 0; infinity leaves 88 in float32.
        aggregation: how tokens are weighed; see `aggregate`.
        denominator: of the whole optimizer step, from `step_denominator`; default: this call's own.
        layout: which tokens are one sequence (default: a row) and one rollout, and the horizon; see `Layout`.

    Returns:
        `SapoPolicyLossOutput` with the mean gate and the mean of gate times ratio, which is what multiplies the advantage in the
        gradient; both are partials.

    Raises:
        MaskError: the mask is not 0/1, or empty without a denominator (`empty mask`).
        NonFiniteError: NaN or infinity at a live position; the message names the argument.
        RangeError, ShapeError, DtypeError, DeviceError: a number is out of range, or the tensors do not fit together.

    Example:
        >>> current = torch.zeros(1, 2, requires_grad=True)
        >>> out = sapo_policy_loss(current, torch.zeros(1, 2), torch.tensor([[2.0, -3.0]]), torch.ones(1, 2), tau_negative=5.0)
        >>> torch.autograd.grad(out.loss, current)[0], out.mean_gradient_gate, out.mean_gradient_weight
        (tensor([[-1.0000,  1.5000]]), tensor(1.), tensor(1.))
    """
    mask = inputs.token_mask(action_mask, current_logprobs)
    inputs.positive_number(max_log_ratio, "max_log_ratio")
    inputs.temperature(tau_positive, "tau_positive")
    inputs.temperature(tau_negative, "tau_negative")
    how = weighing(mask, aggregation, denominator, layout)
    current = inputs.current(current_logprobs, mask)
    rollout = inputs.recorded(rollout_logprobs, "rollout_logprobs", mask)
    credit = inputs.token_advantages(token_advantages, "token_advantages", mask, how.sequences)

    ratios = bounded(current - rollout, max_log_ratio)
    ratio = ratios.value
    temperature = torch.full_like(credit, tau_negative).masked_fill(credit > 0, tau_positive)
    gate_probability = torch.sigmoid(temperature * (ratio - 1.0))
    surrogate = 4.0 / temperature * gate_probability * credit

    gate = (4.0 * gate_probability * (1.0 - gate_probability)).detach()
    statistics = {
        "approximate_kl": partial(divergence(ratios.log), mask),
        "mean_ratio": partial(ratio, mask),
        "mean_gradient_gate": partial(gate, mask),
        "mean_gradient_weight": partial(gate * ratio.masked_fill(ratios.clamped, 0.0), mask),
        "log_ratio_clamped_fraction": fraction(ratios.clamped, mask),
    }
    core = finish(surrogate, mask, how, statistics)
    return SapoPolicyLossOutput(
        loss=core.loss,
        objective=core.objective,
        approximate_kl=core.mean("approximate_kl"),
        mean_ratio=core.mean("mean_ratio"),
        mean_gradient_gate=core.mean("mean_gradient_gate"),
        mean_gradient_weight=core.mean("mean_gradient_weight"),
        token_loss=core.token_loss,
        partials=core.partials,
    )
