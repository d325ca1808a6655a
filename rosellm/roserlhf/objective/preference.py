"""Log-probabilities of preferred and rejected responses, under policy and reference -> preference losses (DPO, IPO)."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Literal, NamedTuple, Unpack

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from rosellm.roserlhf import checks
from rosellm.roserlhf.errors import MaskError, RangeError, ShapeError
from rosellm.roserlhf.masked import Partial, at_least_float32, fraction, partial
from rosellm.roserlhf.objective import inputs
from rosellm.roserlhf.objective.aggregation import one_denominator
from rosellm.roserlhf.objective.layout import Layout, read_sequences


@dataclass(frozen=True)
class PreferenceLossOutput:
    """Output of `dpo_loss` and `ipo_loss`. Means are over the pairs of this call; across micro-batches add the partials."""

    loss: Tensor
    """0-d: mean over the pairs (or their sum over `denominator`); call `backward` on it."""
    objective: Tensor
    """0-d, detached: minus the loss."""
    accuracy: Tensor
    """0-d: share of pairs whose margin is above 0; a tie is not correct, so an untrained policy has accuracy 0."""
    margin: Tensor
    """0-d: mean of `beta h`, the implicit reward of the chosen response minus that of the rejected one."""
    chosen_reward: Tensor
    """0-d: mean implicit reward `beta (policy - reference)` of the chosen responses; it may fall while the margin grows."""
    rejected_reward: Tensor
    """0-d: the same of the rejected responses."""
    pair_loss: Tensor
    """`[B]`, differentiable: the loss of each pair."""
    partials: dict[str, Partial]
    """Addable statistics by name, counted in pairs."""


def response_logprobs(
    token_logprobs: Tensor,
    action_mask: Tensor,
    *,
    reduction: Literal["sum", "mean"] = "sum",
    **layout: Unpack[Layout],
) -> Tensor:
    r"""Add up the log-probabilities of the tokens of each response.

    .. math:: \log\pi(y) = \sum_t m_t\, \ell_t

    The sum is the log-probability of the response and what DPO and IPO are derived for. The mean (divided by the number of tokens)
    is another quantity, without the preference for short responses: TRL uses it for IPO; the authors' code of DPO sums for both.
    Use one of them for policy and reference, chosen and rejected.

    Args:
        token_logprobs: `[..., T]`, floating point; differentiable.
        action_mask: `[..., T]`, boolean or exactly 0/1: the tokens of the response, not of the prompt. Masked values may be
            anything.
        reduction: `sum` or `mean`.
        layout: which tokens are one response (default: a row); packed ones need `cu_seqlens` or `num_sequences`, so that their
            order is known.

    Returns:
        One per row, `[...]`, or per packed sequence, `[S]`; float32 at least.

    Raises:
        MaskError: the mask is not 0/1, or a response has no token (`empty mask`).
        NonFiniteError, RangeError, ShapeError, DtypeError, DeviceError: the arguments do not fit together.

    Example:
        >>> response_logprobs(torch.tensor([[-1.0, -2.0, -9.0]]), torch.tensor([[True, True, False]]))
        tensor([-3.])
    """
    mask = inputs.token_mask(action_mask, token_logprobs, "token_logprobs")
    checks.finite(token_logprobs, "token_logprobs", where=mask)
    checks.one_of(reduction, "reduction", ("sum", "mean"))
    for unread in ("rollout_ids", "horizon"):
        if layout.get(unread) is not None:
            raise checks.fail(RangeError, unread, "not be given, a response is a sequence", "it")
    sequences = read_sequences(mask, layout)
    if sequences.ids is not None and sequences.count is None:
        requirement = "be given with sequence_ids or position_ids"
        raise checks.fail(RangeError, "num_sequences", requirement, None, fix="the order of the responses is unknown without it")
    responses = sequences.of(mask)
    lengths = responses.lengths()
    requirement = "select a token of every response (an empty mask has no log-probability)"
    checks.each("action_mask", requirement, lambda: (lengths, lengths == 0), MaskError, fix="leave the pair out")
    total = responses.sum(at_least_float32(token_logprobs))
    return total if reduction == "sum" else total / lengths.clamp(min=1)


def dpo_loss(
    policy_chosen_logprobs: Tensor,
    policy_rejected_logprobs: Tensor,
    reference_chosen_logprobs: Tensor,
    reference_rejected_logprobs: Tensor,
    *,
    beta: float = 0.1,
    label_smoothing: float = 0.0,
    denominator: float | Tensor | None = None,
) -> PreferenceLossOutput:
    r"""Make the chosen response likelier than the rejected one, measured against the reference.

    .. math::
        h = (\ell_w - \ell_w^{\text{ref}}) - (\ell_l - \ell_l^{\text{ref}}),\qquad
        L = -(1-\epsilon)\log\sigma(\beta h) - \epsilon \log\sigma(-\beta h)

    The maximum likelihood of a Bradley-Terry model whose reward is `beta log(policy / reference)`, the reward for which the policy
    is the optimum under a KL penalty of weight beta. The gradient at the chosen log-probability is
    `-beta ((1 - eps) sigma(-beta h) - eps sigma(beta h))` and the opposite at the rejected one: it sees the difference only, both
    may fall. `eps` is the probability that a label is wrong (conservative DPO); with it the loss has a minimum at a finite margin.

    Computed as a log-sigmoid, so margins of any size give finite losses. Equal margins give log 2 and count as not correct.

    Source: Rafailov et al. 2023, Eq. 7, https://arxiv.org/abs/2305.18290; label smoothing: Mitchell 2023, "A note on DPO with noisy
    preferences and relationship to IPO", https://ericmitchell.ai/cdpo.pdf

    Args:
        policy_chosen_logprobs, policy_rejected_logprobs: `[B]`, sums over the tokens of the response (`response_logprobs`);
            differentiable.
        reference_chosen_logprobs, reference_rejected_logprobs: `[B]`, of the frozen reference; detached.
        beta: above 0; larger keeps closer to the reference.
        label_smoothing: eps in [0, 0.5).
        denominator: pairs of the whole optimizer step, so that micro-batches add up; default: the pairs of this call. With it the
            call may have no pair.

    Returns:
        `PreferenceLossOutput`.

    Raises:
        RangeError: a number is out of range, or there is no pair and no denominator.
        ShapeError, DtypeError, DeviceError, NonFiniteError: the log-probabilities do not fit together.

    Example:
        >>> chosen, rejected, ref_chosen, ref_rejected = torch.tensor([[-10.0], [-12.0], [-11.0], [-11.5]])
        >>> out = dpo_loss(chosen, rejected, ref_chosen, ref_rejected)  # h = 1 + 0.5, -log sigmoid(0.15)
        >>> out.loss, out.margin
        (tensor(0.6210), tensor(0.1500))
    """
    inputs.temperature(beta, "beta")
    checks.number_in(label_smoothing, "label_smoothing", 0.0, 0.5, open_high=True)
    pairs = _read(policy_chosen_logprobs, policy_rejected_logprobs, reference_chosen_logprobs, reference_rejected_logprobs)
    margin = beta * pairs.difference()
    loss = -logsigmoid(margin)
    if label_smoothing:
        loss = (1 - label_smoothing) * loss - label_smoothing * logsigmoid(-margin)
    return _output(loss, pairs, beta, denominator)


def ipo_loss(
    policy_chosen_logprobs: Tensor,
    policy_rejected_logprobs: Tensor,
    reference_chosen_logprobs: Tensor,
    reference_rejected_logprobs: Tensor,
    *,
    beta: float = 0.1,
    denominator: float | Tensor | None = None,
) -> PreferenceLossOutput:
    r"""Pull the margin between chosen and rejected response to a fixed size instead of pushing it without end.

    .. math:: L = \Big(h - \frac{1}{2\beta}\Big)^2

    `h` as in `dpo_loss`; the paper calls beta tau. Where every label agrees DPO's optimum is an infinite margin whatever beta; here
    it is `1 / (2 beta)`. Log-probabilities are sums in the paper and in the code of DPO's authors; TRL averages over tokens
    (`response_logprobs(..., reduction="mean")`), which changes what beta means.

    Source: Azar et al. 2023, Eq. 17, https://arxiv.org/abs/2310.12036

    Args:
        policy_chosen_logprobs, policy_rejected_logprobs: `[B]`; differentiable.
        reference_chosen_logprobs, reference_rejected_logprobs: `[B]`, of the frozen reference; detached.
        beta: above 0; larger keeps closer to the reference.
        denominator: as in `dpo_loss`.

    Returns:
        `PreferenceLossOutput`.

    Raises:
        RangeError, ShapeError, DtypeError, DeviceError, NonFiniteError: as in `dpo_loss`.

    Example:
        >>> chosen, rejected, ref_chosen, ref_rejected = torch.tensor([[-10.0], [-12.0], [-11.0], [-11.5]])
        >>> ipo_loss(chosen, rejected, ref_chosen, ref_rejected).loss  # (1.5 - 5)²
        tensor(12.2500)
    """
    inputs.temperature(beta, "beta")
    pairs = _read(policy_chosen_logprobs, policy_rejected_logprobs, reference_chosen_logprobs, reference_rejected_logprobs)
    return _output((pairs.difference() - 1 / (2 * beta)).square(), pairs, beta, denominator)


class _Pairs(NamedTuple):
    """Log-ratios of policy to reference, `[B]` each."""

    chosen: Tensor
    rejected: Tensor

    def difference(self) -> Tensor:
        return self.chosen - self.rejected


def _read(policy_chosen: Tensor, policy_rejected: Tensor, reference_chosen: Tensor, reference_rejected: Tensor) -> _Pairs:
    given = {
        "policy_chosen_logprobs": policy_chosen,
        "policy_rejected_logprobs": policy_rejected,
        "reference_chosen_logprobs": reference_chosen,
        "reference_rejected_logprobs": reference_rejected,
    }
    for name, logprobs in given.items():
        checks.floating(logprobs, name)
        if logprobs.ndim != 1:
            fix = "add up the tokens of each response with response_logprobs"
            raise checks.fail(ShapeError, name, "have shape [B], one per pair", tuple(logprobs.shape), fix=fix)
        checks.same_shape(logprobs, name, policy_chosen, "policy_chosen_logprobs")
        checks.finite(logprobs, name)
        _warn_if_rounded(logprobs, name)
    first, second = (at_least_float32(logprobs) for logprobs in (policy_chosen, policy_rejected))
    ours, theirs = (at_least_float32(logprobs.detach()) for logprobs in (reference_chosen, reference_rejected))
    return _Pairs(first - ours, second - theirs)


def _warn_if_rounded(logprobs: Tensor, name: str) -> None:
    if torch.compiler.is_compiling() or logprobs.dtype not in (torch.bfloat16, torch.float16):
        return
    # numbers in [512, 1024) are 512 * eps apart, so rounding is off by up to half of that
    error = torch.finfo(logprobs.dtype).eps * 512 / 2
    warnings.warn(
        f"{name} should be float32, got {logprobs.dtype}: the log-probability of a response near -1000 is off by up to {error:g}, "
        "more than most margins; add up token log-probabilities in float32",
        UserWarning,
        stacklevel=4,
    )


def _output(pair_loss: Tensor, pairs: _Pairs, beta: float, denominator: float | Tensor | None) -> PreferenceLossOutput:
    count = _count(pair_loss, denominator)
    everything = torch.ones_like(pair_loss, dtype=torch.bool)
    chosen, rejected = beta * pairs.chosen.detach(), beta * pairs.rejected.detach()
    statistics = {
        "objective": partial(-pair_loss, everything),
        "accuracy": fraction(chosen > rejected, everything),
        "margin": partial(chosen - rejected, everything),
        "chosen_reward": partial(chosen, everything),
        "rejected_reward": partial(rejected, everything),
    }
    loss = pair_loss.sum() / count
    return PreferenceLossOutput(
        loss=loss,
        objective=-loss.detach(),
        accuracy=statistics["accuracy"].mean(),
        margin=statistics["margin"].mean(),
        chosen_reward=statistics["chosen_reward"].mean(),
        rejected_reward=statistics["rejected_reward"].mean(),
        pair_loss=pair_loss,
        partials=statistics,
    )


def _count(pair_loss: Tensor, denominator: float | Tensor | None) -> float | Tensor:
    if denominator is None:
        if not len(pair_loss):
            fix = "pass denominator= (of the whole optimizer step) if an empty micro-batch is expected"
            raise checks.fail(RangeError, "policy_chosen_logprobs", "hold at least one pair", "none", fix=fix)
        return len(pair_loss)
    return one_denominator(denominator, pair_loss, "policy_chosen_logprobs")
