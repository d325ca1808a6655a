r"""How far the policy is from a reference: sampled estimates, the exact sum over the vocabulary, as a loss or in the reward.

With `l = log pi - log pi_ref` at a token sampled from `pi`, the estimators are k1 = l, k2 = l^2 / 2 and k3 = e^{-l} - 1 + l. What
optimising one of them does is decided by where it stands, not by its value:

| estimator | its mean | expected gradient as a loss | expected gradient in the reward |
|---|---|---|---|
| `k1` | KL(pi \|\| ref) | **0** | grad KL(pi \|\| ref) |
| `k2` | near KL | grad KL(pi \|\| ref) | grad (E k2 - KL(pi \|\| ref)) |
| `k3` | KL(pi \|\| ref) | grad **KL(ref \|\| pi)** | grad (KL(pi \|\| ref) - KL(ref \|\| pi)) |
| `k3_k2_gradient` | KL(pi \|\| ref) | grad KL(pi \|\| ref) | the same as k3 |

A loss sees each token with its context fixed. Only the reward form also charges a token for the drift that later contexts owe to
it, which is the gradient of the KL of whole sequences.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Literal, Unpack, get_args

import torch
from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.errors import MaskError, ShapeError
from rosellm.roserlhf.masked import Partial, at_least_float32, fraction, partial, select
from rosellm.roserlhf.objective import inputs
from rosellm.roserlhf.objective.aggregation import Aggregation, weighing
from rosellm.roserlhf.objective.layout import Layout
from rosellm.roserlhf.objective.outputs import finish
from rosellm.roserlhf.objective.ratios import bounded, representable

KlEstimator = Literal["k1", "k2", "k3", "k3_k2_gradient"]
"""How KL(pi || ref) is estimated from one sampled token; the table is in the module's docstring."""

_GRADIENT_AS_A_LOSS = {"k1": "0: it adds noise and no penalty", "k3": "that of the forward KL(ref || pi), not of KL(pi || ref)"}


@dataclass(frozen=True)
class KlLossOutput:
    """Output of `kl_loss`."""

    loss: Tensor
    """0-d: the divergence; multiply it by the coefficient and add it to the policy loss."""
    objective: Tensor
    """0-d, detached: minus the loss."""
    kl: Tensor
    """0-d, detached: mean of the estimate over live tokens."""
    token_loss: Tensor
    """Shape of the tokens, differentiable: the estimate of each token, 0 where masked."""
    partials: dict[str, Partial]
    """Addable statistics by name; `mean_ratio` only with `behaviour_logprobs`."""


@dataclass(frozen=True)
class TokenKl:
    """An estimate per token, differentiable, and where the overflow bound acted on it."""

    value: Tensor
    clamped: Tensor


def token_kl(log_ratio: Tensor, estimator: KlEstimator, max_log_ratio: float) -> TokenKl:
    """Turn `log pi - log pi_ref` into an estimate; only the exponential is bounded, so only k3 loses gradient, and is counted."""
    nowhere = torch.zeros_like(log_ratio, dtype=torch.bool)
    if estimator == "k1":
        return TokenKl(log_ratio, nowhere)
    if estimator == "k2":
        return TokenKl(log_ratio.square() / 2, nowhere)
    limit = representable(max_log_ratio, log_ratio.dtype)
    clamped = log_ratio.detach() < -limit
    if estimator == "k3":
        return TokenKl(_k3(log_ratio, limit), clamped)
    carrier = log_ratio.detach() * (log_ratio - log_ratio.detach())  # value 0, gradient of k2
    return TokenKl(_k3(log_ratio.detach(), limit) + carrier, clamped)


def _k3(log_ratio: Tensor, max_log_ratio: float) -> Tensor:
    log = log_ratio.clamp(min=-max_log_ratio)
    return _never_negative(torch.expm1(-log) + log)


def _never_negative(divergence: Tensor) -> Tensor:
    """Repair rounding below zero and leave the gradient alone."""
    return divergence + (-divergence.detach()).clamp(min=0.0)


def warn_of_gradient(estimator: KlEstimator, logprobs: Tensor, *, stacklevel: int) -> None:
    """Warn, once per line of code that calls, if the estimator is about to be differentiated and that is not what it looks like."""
    if torch.compiler.is_compiling() or estimator not in _GRADIENT_AS_A_LOSS:
        return
    if torch.is_grad_enabled() and logprobs.requires_grad:
        warnings.warn(
            f"the expected gradient of estimator={estimator!r} as a loss is {_GRADIENT_AS_A_LOSS[estimator]}; use "
            '"k3_k2_gradient" or "k2", put the penalty in the reward (kl_penalty), or detach the log-probabilities to only measure',
            UserWarning,
            stacklevel=stacklevel + 1,
        )


def kl_estimate(
    current_logprobs: Tensor,
    reference_logprobs: Tensor,
    action_mask: Tensor | None = None,
    *,
    estimator: KlEstimator = "k3_k2_gradient",
    max_log_ratio: float = 20.0,
) -> Tensor:
    r"""Estimate KL(pi || reference) at each sampled token.

    .. math::
        l_t = \ell_t - \ell_t^{\text{reference}}, \qquad k_1 = l, \qquad k_2 = l^2/2, \qquad k_3 = e^{-l} - 1 + l

    k1 and k3 have the mean KL(pi || ref) under tokens sampled from `pi`; k1 is negative for single tokens, k3 never is, and k2 is
    biased by a third-order term. Default: `k3_k2_gradient`, the value of k3 with the gradient of k2, which is right both ways; the
    table of the module says what the others do when differentiated. The log-ratio is bounded *before* the exponential of k3 and
    only on the side where it overflows, `l < -max_log_ratio`: there the value is finite and the gradient of k3 exactly 0, while
    that of `k3_k2_gradient` is still `l`. verl bounds both sides at 20 and the value at 10, OpenRLHF all of them at 10.

    Source: Schulman 2020, "Approximating KL divergence", http://joschu.net/blog/kl-approx.html; the straight-through form is verl's
    `k3+`

    Args:
        current_logprobs: `[..., T]`, floating point: log-probabilities under `pi`; differentiable.
        reference_logprobs: same shape; detached.
        action_mask: same shape, boolean or exactly 0/1; where it is false the estimate is 0 and the inputs may be anything.
            Default: every token.
        estimator: `k1`, `k2`, `k3` or `k3_k2_gradient`.
        max_log_ratio: bound on the exponent of k3, above 0; infinity leaves 88 in float32.

    Returns:
        `[..., T]`, float32 at least.

    Raises:
        MaskError: the mask is not 0/1.
        NonFiniteError: NaN or infinity at a live position; the message names the argument.
        RangeError, ShapeError, DtypeError, DeviceError: an unknown estimator, or the tensors do not fit together.

    Warns:
        UserWarning: `current_logprobs` requires a gradient and the estimator is k1 or k3, whose expected gradient is another one.

    Example:
        >>> current, reference = torch.tensor([-1.0]), torch.tensor([-2.0])
        >>> [kl_estimate(current, reference, estimator=name) for name in ("k1", "k2", "k3")]
        [tensor([1.]), tensor([0.5000]), tensor([0.3679])]
    """
    mask = _mask(action_mask, current_logprobs)
    checks.one_of(estimator, "estimator", get_args(KlEstimator))
    inputs.positive_number(max_log_ratio, "max_log_ratio")
    current = inputs.current(current_logprobs, mask)
    reference = inputs.recorded(reference_logprobs, "reference_logprobs", mask)
    warn_of_gradient(estimator, current_logprobs, stacklevel=2)
    return select(token_kl(current - reference, estimator, max_log_ratio).value, mask)


def _mask(action_mask: Tensor | None, logprobs: Tensor) -> Tensor:
    if action_mask is not None:
        return inputs.token_mask(action_mask, logprobs)
    checks.floating(logprobs, "current_logprobs")
    return torch.ones_like(logprobs, dtype=torch.bool)


def kl_loss(
    current_logprobs: Tensor,
    reference_logprobs: Tensor,
    action_mask: Tensor,
    *,
    estimator: KlEstimator = "k3_k2_gradient",
    behaviour_logprobs: Tensor | None = None,
    max_log_ratio: float = 20.0,
    aggregation: Aggregation = "token",
    denominator: float | Tensor | None = None,
    **layout: Unpack[Layout],
) -> KlLossOutput:
    r"""Minimise an estimate of KL(pi || reference) over the live tokens.

    .. math:: \text{loss} = \frac{1}{D} \sum_t m_t w_t k(\ell_t - \ell_t^{\text{reference}})

    Default: `k3_k2_gradient`, whose value is the unbiased k3 and whose gradient `l * grad log pi` has the mean grad KL(pi || ref);
    GRPO as printed differentiates k3, whose expected gradient is that of the *forward* KL(ref || pi).

    Those means hold for tokens sampled from `pi` itself. With `behaviour_logprobs` each estimate is weighted by `rho = pi / pi_b`,
    so that every estimator has the right gradient on stale data: k1 and k3 with the ratio in the graph (DeepSeek-V3.2 with k3; the
    gradient is `rho * l * grad log pi`, and nothing warns), k2 and `k3_k2_gradient` with the ratio detached, which for k3 gives the
    same gradient. At ratio 1 this differs from the plain k3 in the gradient, not in the value.

    Source: Shao et al. 2024 (GRPO), Eq. 4, https://arxiv.org/abs/2402.03300; DeepSeek-AI 2025 (DeepSeek-V3.2), unbiased KL
    estimate, https://arxiv.org/abs/2512.02556

    Args:
        current_logprobs: `[..., T]`, floating point.
        reference_logprobs: same shape; detached.
        action_mask: same shape as `current_logprobs`, boolean or exactly 0/1: the loss mask. Masked values may be anything.
        estimator: `k1`, `k2`, `k3` or `k3_k2_gradient`; see `kl_estimate`.
        behaviour_logprobs: same shape: recorded log-probabilities of the policy that sampled; detached. Default: no weight.
        max_log_ratio: bound on the exponent of k3 and on the absolute log-ratio of the weight, above 0; infinity leaves 88 in
            float32.
        aggregation: how tokens are weighed; see `aggregate`.
        denominator: of the whole optimizer step, from `step_denominator`; default: this call's own.
        layout: which tokens are one sequence (default: a row) and one rollout, and the horizon; see `Layout`.

    Returns:
        `KlLossOutput`.

    Raises:
        MaskError: the mask is not 0/1, or empty without a denominator (`empty mask`).
        NonFiniteError: NaN or infinity at a live position; the message names the argument.
        RangeError, ShapeError, DtypeError, DeviceError: an unknown estimator, or the tensors do not fit together.

    Warns:
        UserWarning: k1 or k3 without `behaviour_logprobs` while `current_logprobs` requires a gradient.

    Example:
        >>> current = torch.tensor([[-1.0, -3.0]], requires_grad=True)
        >>> out = kl_loss(current, torch.tensor([[-2.0, -3.0]]), torch.ones(1, 2))
        >>> out.loss.detach(), torch.autograd.grad(out.loss, current)[0]
        (tensor(0.1839), tensor([[0.5000, 0.0000]]))
    """
    mask = inputs.token_mask(action_mask, current_logprobs)
    checks.one_of(estimator, "estimator", get_args(KlEstimator))
    inputs.positive_number(max_log_ratio, "max_log_ratio")
    how = weighing(mask, aggregation, denominator, layout)
    current = inputs.current(current_logprobs, mask)
    reference = inputs.recorded(reference_logprobs, "reference_logprobs", mask)

    estimate = token_kl(current - reference, estimator, max_log_ratio)
    value, clamped = estimate.value, estimate.clamped
    statistics: dict[str, Partial] = {}
    if behaviour_logprobs is None:
        warn_of_gradient(estimator, current_logprobs, stacklevel=2)
    else:
        ratios = bounded(current - inputs.recorded(behaviour_logprobs, "behaviour_logprobs", mask), max_log_ratio)
        value = value * (ratios.value if estimator in ("k1", "k3") else ratios.value.detach())
        clamped = clamped | ratios.clamped
        statistics["mean_ratio"] = partial(ratios.value, mask)
    statistics |= {"kl": partial(value, mask), "log_ratio_clamped_fraction": fraction(clamped, mask)}
    core = finish(-value, mask, how, statistics)
    return KlLossOutput(
        loss=core.loss, objective=core.objective, kl=core.mean("kl"), token_loss=core.token_loss, partials=core.partials
    )


def kl_penalty(
    rewards: Tensor,
    behaviour_logprobs: Tensor,
    reference_logprobs: Tensor,
    action_mask: Tensor,
    *,
    coefficient: float,
    estimator: Literal["k1", "k2", "k3"] = "k1",
    max_log_ratio: float = 20.0,
) -> Tensor:
    r"""Charge each sampled token for its drift from the reference: KL in the reward.

    .. math:: r'_t = r_t - \beta\, m_t\, k(\ell_t - \ell_t^{\text{reference}})

    Maximising the return of these rewards with a score-function gradient maximises E[R] - beta KL(pi || ref) for k1, over whole
    sequences. k2 and k3 are biased here (see the module), although k3 is the better *measurement*. The policy that sampled must be
    the one that is penalised: give its recorded log-probabilities. Tokens that the policy did not sample add no KL and keep their
    reward.

    Source: Ouyang et al. 2022 (InstructGPT), Eq. 2, https://arxiv.org/abs/2203.02155

    Args:
        rewards: `[..., T]`, floating point, one per token.
        behaviour_logprobs: same shape; detached.
        reference_logprobs: same shape; detached.
        action_mask: same shape, boolean or exactly 0/1: tokens that the policy sampled; others may have any log-probability.
        coefficient: beta, at least 0.
        estimator: `k1`, or one of the biased `k2` and `k3`.
        max_log_ratio: bound on the exponent of k3, above 0; infinity leaves 88 in float32.

    Returns:
        `[..., T]`, float32 at least, detached; where the mask is false, `rewards` as they were.

    Raises:
        MaskError: the mask is not 0/1.
        NonFiniteError: NaN or infinity at a live position; the message names the argument.
        RangeError, ShapeError, DtypeError, DeviceError: a number is out of range, or the tensors do not fit together.

    Example:
        >>> rewards, behaviour, reference = torch.tensor([0.0, 0.0, 1.0]), torch.tensor([-1.0, -9.0, -2.0]), torch.full((3,), -2.0)
        >>> kl_penalty(rewards, behaviour, reference, torch.tensor([1, 0, 1]), coefficient=0.1)  # the middle one is a tool's token
        tensor([-0.1000,  0.0000,  1.0000])
    """
    checks.floating(behaviour_logprobs, "behaviour_logprobs")
    mask: Tensor = checks.mask(action_mask, "action_mask")
    checks.one_of(estimator, "estimator", ("k1", "k2", "k3"))
    checks.number_in(coefficient, "coefficient", 0.0, float("inf"), open_high=True)
    inputs.positive_number(max_log_ratio, "max_log_ratio")
    behaviour = inputs.recorded(behaviour_logprobs, "behaviour_logprobs", mask)
    reference = inputs.recorded(reference_logprobs, "reference_logprobs", mask)
    checks.floating(rewards, "rewards")
    checks.same_shape(rewards, "rewards", mask, "action_mask")
    checks.finite(rewards, "rewards", where=mask)
    charge = coefficient * token_kl(behaviour - reference, estimator, max_log_ratio).value
    return at_least_float32(rewards.detach()) - select(charge, mask)


def exact_kl(
    logits: Tensor,
    reference_logits: Tensor,
    action_mask: Tensor | None = None,
    *,
    temperature: float = 1.0,
    support: Tensor | None = None,
) -> Tensor:
    r"""Sum KL(pi || reference) over the whole vocabulary at each position.

    .. math:: \sum_v \pi(v) \big(\log \pi(v) - \log \pi_{\text{ref}}(v)\big), \qquad \pi = \operatorname{softmax}(z / T)

    No sampling and no estimator: the gradient with respect to the logits is exact. It holds two tensors as large as the logits; use
    a sampled estimate where that is too much. With `support` both distributions are restricted to it and normalised there, as for
    top-k or top-p sampling or a grammar; what stands outside is not read, so minus infinity may stand there.

    Source: Kullback & Leibler 1951, https://doi.org/10.1214/aoms/1177729694

    Args:
        logits: `[..., V]`, floating point; differentiable.
        reference_logits: same shape; detached.
        action_mask: `[...]`, boolean or exactly 0/1; where it is false the result is 0 and the logits may be anything.
        temperature: `T` of both distributions, above 0.
        support: `[..., V]`, boolean or exactly 0/1: the tokens that can be sampled, at least one per live position.

    Returns:
        `[...]`, float32 at least, never negative.

    Raises:
        MaskError: a mask is not 0/1, or a live position has no support.
        NonFiniteError: NaN or infinity in what is read.
        RangeError, ShapeError, DtypeError, DeviceError: `temperature` is not positive, or the tensors do not fit together.

    Example:
        >>> exact_kl(torch.tensor([[0.75, 0.25]]).log(), torch.tensor([[0.5, 0.5]]).log())
        tensor([0.1308])
    """
    checks.floating(logits, "logits")
    checks.at_least_rank(logits, 1, "logits")
    if not logits.shape[-1]:
        raise checks.fail(ShapeError, "logits", "hold at least one vocabulary entry", tuple(logits.shape))
    checks.floating(reference_logits, "reference_logits")
    checks.same_shape(reference_logits, "reference_logits", logits, "logits")
    inputs.temperature(temperature, "temperature")
    live, kept = _read(logits, action_mask, support)
    checks.finite(logits, "logits", where=kept)
    checks.finite(reference_logits, "reference_logits", where=kept)

    # a masked position gets two equal distributions over everything: 0 forward and backward
    inside = kept | ~live.unsqueeze(-1)
    log_pi = _log_softmax(logits, kept, inside, temperature)
    log_reference = _log_softmax(reference_logits.detach(), kept, inside, temperature)
    return _never_negative((log_pi.exp() * select(log_pi - log_reference, inside)).sum(-1))


def _read(logits: Tensor, action_mask: Tensor | None, support: Tensor | None) -> tuple[Tensor, Tensor]:
    """Check the two masks; return the live positions and, of their logits, those that are read."""
    positions = logits.new_zeros(logits.shape[:-1])
    live = torch.ones_like(positions, dtype=torch.bool)
    if action_mask is not None:
        live = checks.mask(action_mask, "action_mask")
        checks.same_shape(action_mask, "action_mask", positions, "logits without the vocabulary")
    kept = live.unsqueeze(-1).expand(logits.shape)
    if support is not None:
        chosen = checks.mask(support, "support")
        checks.same_shape(support, "support", logits, "logits")
        kept = kept & chosen
        requirement = "select a token at every live position"
        checks.each("support", requirement, lambda: (kept.sum(-1), live & ~kept.any(-1)), MaskError)
    return live, kept


def _log_softmax(logits: Tensor, kept: Tensor, inside: Tensor, temperature: float) -> Tensor:
    scaled = select(at_least_float32(logits), kept) / temperature
    return torch.log_softmax(select(scaled, inside, -torch.inf), dim=-1)
