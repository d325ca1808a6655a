"""GSPO and GSPO-token: one geometric-mean ratio per sequence, clipped once per sequence.

Both are computed in the token form: the ratio of a sequence is a constant, and each token carries its own part of the gradient. For
one advantage per sequence, and one weight (its tokens belong to one rollout), that is the gradient of the sequence form; and no
rank needs the gradients of another.
"""

from __future__ import annotations

from typing import Unpack

import torch.distributed as dist
from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.errors import ShapeError
from rosellm.roserlhf.masked import Partial, at_least_float32, select
from rosellm.roserlhf.objective import inputs
from rosellm.roserlhf.objective.aggregation import Aggregation, Weighing, weighing
from rosellm.roserlhf.objective.context import SequenceMeans, check_context, sequence_means
from rosellm.roserlhf.objective.layout import Layout, Sequences
from rosellm.roserlhf.objective.outputs import GspoPolicyLossOutput, finish
from rosellm.roserlhf.objective.ratios import Ratios, bounded, clip_fractions, clipped_surrogate, divergence, outside


def gspo_policy_loss(
    current_logprobs: Tensor,
    rollout_logprobs: Tensor,
    sequence_advantages: Tensor,
    action_mask: Tensor,
    *,
    clip_low: float,
    clip_high: float,
    max_log_ratio: float = 20.0,
    context_group: dist.ProcessGroup | None = None,
    aggregation: Aggregation = "sequence_mean",
    denominator: float | Tensor | None = None,
    **layout: Unpack[Layout],
) -> GspoPolicyLossOutput:
    r"""Maximise the sequence-level clipped surrogate of GSPO.

    .. math::
        s_i = \exp\Big(\frac{1}{n_i} \sum_t m_{it} (\ell_{it} - \ell_{it}^{\text{behaviour}})\Big), \qquad
        J = \frac{1}{N} \sum_i \min\big(s_i A_i,\ \operatorname{clip}(s_i, 1-\epsilon_l, 1+\epsilon_h) A_i\big)

    Every token of an unclipped sequence gets the same gradient `s * A / (n * N)`. `s` is the geometric mean of the token
    ratios, not the density ratio of the sequence: with 1000 tokens, 1.0004 is a density ratio of 1.49. A sequence without a live
    token has no ratio and is left out. One-token sequences give PPO. A ratio exactly on a bound keeps its gradient.

    Default: `aggregation="sequence_mean"`, every response with equal weight, as printed. Under another aggregation each token
    carries its sequence's surrogate, so `token` weighs sequences by their length. verl has the token form alone, fixes this
    aggregation and bounds the log-ratio at 10; in TRL, sequence-level ratios give the objective as printed only with the loss type
    `grpo`.

    Context parallelism: where the tokens of each sequence are split over ranks, give their group. Every rank of it then calls with
    the same sequences in the same order (its columns of `[B, T]`, or `cu_seqlens` of equal length), if need be without a live token
    in some of them. Ratios are those of whole sequences, no gradient is exchanged, and the losses of the ranks add up to the loss
    in one process. Lengths of whole sequences come with the denominator: `aggregation="rollout"` and `rollout_denominators` over
    the group, with one id per sequence, is `sequence_mean` over the ranks.

    Source: Zheng et al. 2025 (GSPO), Eq. 5 and 7, gradient Eq. 10, https://arxiv.org/abs/2507.18071

    Args:
        current_logprobs: `[..., T]`, floating point.
        rollout_logprobs: same shape: recorded behaviour log-probabilities; detached.
        sequence_advantages: one per row, `[...]` or `[..., 1]`; with packed sequences one per sequence, `[S]`, which `sequence_ids`
            then index. Detached.
        action_mask: same shape as `current_logprobs`, boolean or exactly 0/1. Masked values may be anything.
        clip_low: offset below 1, in [0, 1); the paper uses 3e-4, far below a token clip.
        clip_high: offset above 1, at least 0; the paper uses 4e-4.
        max_log_ratio: bound on the absolute log-ratio of a sequence, above 0; infinity leaves 88 in float32.
        context_group: the ranks that hold parts of the same sequences; needs a denominator. Default: sequences are whole.
        aggregation: how tokens are weighed; see `aggregate`.
        denominator: of the whole optimizer step, from `step_denominator`; default: this call's own.
        layout: which tokens are one sequence (default: a row) and one rollout, and the horizon; see `Layout`.

    Returns:
        `GspoPolicyLossOutput` with `sequence_ratios` of shape `[...]`, one per row, or `[S]`. Over context ranks a sequence counts
        in the partials of each by the part of its live tokens there, so that they add up.

    Raises:
        MaskError: the mask is not 0/1, or empty without a denominator (`empty mask`).
        NonFiniteError: NaN or infinity at a live position; the message names the argument.
        RangeError, ShapeError, DtypeError, DeviceError: a number is out of range, or the tensors do not fit together.

    Example:
        >>> current, rollout = torch.tensor([[4.0, 1.0]]).log(), torch.zeros(1, 2)
        >>> gspo_policy_loss(current, rollout, torch.ones(1), torch.ones(1, 2), clip_low=0.2, clip_high=2.0).sequence_ratios
        tensor([2.])
    """
    mask = inputs.token_mask(action_mask, current_logprobs)
    bounds = inputs.ratio_bounds(clip_low, clip_high)
    inputs.positive_number(max_log_ratio, "max_log_ratio")
    layout = _indexed(layout, sequence_advantages)
    how = weighing(mask, aggregation, denominator, layout)
    check_context(context_group, layout, how)
    current = inputs.current(current_logprobs, mask)
    rollout = inputs.recorded(rollout_logprobs, "rollout_logprobs", mask)

    units = how.sequences.of(mask)
    means = sequence_means(current - rollout, units, context_group)
    credit = _credit(sequence_advantages, means.live, how.sequences)
    ratios = bounded(means.mean, max_log_ratio)
    by_sign = clip_fractions("sequence_clip_fraction", ratios.value, bounds, credit, means.live, means.counted)
    token_ratios = _carried(current, units.spread(means.mean), max_log_ratio)
    surrogate = clipped_surrogate(token_ratios, units.spread(credit), bounds)
    return _output(surrogate, mask, how, ratios, means, by_sign)


def gspo_token_policy_loss(
    current_logprobs: Tensor,
    rollout_logprobs: Tensor,
    token_advantages: Tensor,
    action_mask: Tensor,
    *,
    clip_low: float,
    clip_high: float,
    max_log_ratio: float = 20.0,
    context_group: dist.ProcessGroup | None = None,
    aggregation: Aggregation = "sequence_mean",
    denominator: float | Tensor | None = None,
    **layout: Unpack[Layout],
) -> GspoPolicyLossOutput:
    r"""Maximise the token form of GSPO, whose advantages may differ inside a sequence.

    .. math::
        s_{it} = \operatorname{sg}[s_i] \cdot \frac{\pi_\theta(x_{it})}{\operatorname{sg}[\pi_\theta(x_{it})]}, \qquad
        J = \frac{1}{N} \sum_i \frac{1}{n_i} \sum_t
            \min\big(s_{it} A_{it},\ \operatorname{clip}(s_{it}, 1-\epsilon_l, 1+\epsilon_h) A_{it}\big)

    The second factor is numerically 1 and carries the gradient: each active token gets `s * A / (n * N)` with its own `A`. With one
    advantage per sequence, value and gradient equal `gspo_policy_loss`, clipped or not. Averaging the advantages of a sequence
    first, as AReaL does, destroys the credit of single turns. Default: `aggregation="sequence_mean"`, as printed.

    Context parallelism: as in `gspo_policy_loss`.

    Source: Zheng et al. 2025 (GSPO), Eq. 13 and 14, https://arxiv.org/abs/2507.18071

    Args:
        current_logprobs: `[..., T]`, floating point.
        rollout_logprobs: same shape: recorded behaviour log-probabilities; detached.
        token_advantages: one per token, per row (`[...]` or `[..., 1]`, where rows are sequences) or per packed sequence; detached.
        action_mask: same shape as `current_logprobs`, boolean or exactly 0/1. Masked values may be anything.
        clip_low: offset below 1, in [0, 1).
        clip_high: offset above 1, at least 0.
        max_log_ratio: bound on the absolute log-ratio of a sequence, above 0; infinity leaves 88 in float32.
        context_group: the ranks that hold parts of the same sequences; needs a denominator. Default: sequences are whole.
        aggregation: how tokens are weighed; see `aggregate`.
        denominator: of the whole optimizer step, from `step_denominator`; default: this call's own.
        layout: which tokens are one sequence (default: a row) and one rollout, and the horizon; see `Layout`.

    Returns:
        `GspoPolicyLossOutput` with `sequence_ratios` one per row; with `sequence_ids` one slot per token, the sequences in the
        order of their ids and NaN in the slots that are left. The partials `clip_fraction_...` by sign count tokens, since
        advantages differ inside a sequence.

    Raises:
        MaskError: the mask is not 0/1, or empty without a denominator (`empty mask`).
        NonFiniteError: NaN or infinity at a live position; the message names the argument.
        RangeError, ShapeError, DtypeError, DeviceError: a number is out of range, or the tensors do not fit together.

    Example:
        >>> current = torch.zeros(1, 2, requires_grad=True)
        >>> credit, ones = torch.tensor([[1.0, -2.0]]), torch.ones(1, 2)
        >>> out = gspo_token_policy_loss(current, torch.zeros(1, 2), credit, ones, clip_low=0.2, clip_high=0.2)
        >>> torch.autograd.grad(out.loss, current)[0]
        tensor([[-0.5000,  1.0000]])
    """
    mask = inputs.token_mask(action_mask, current_logprobs)
    bounds = inputs.ratio_bounds(clip_low, clip_high)
    inputs.positive_number(max_log_ratio, "max_log_ratio")
    how = weighing(mask, aggregation, denominator, layout)
    check_context(context_group, layout, how)
    current = inputs.current(current_logprobs, mask)
    rollout = inputs.recorded(rollout_logprobs, "rollout_logprobs", mask)
    credit = inputs.token_advantages(token_advantages, "token_advantages", mask, how.sequences)

    units = how.sequences.of(mask)
    means = sequence_means(current - rollout, units, context_group)
    ratios = bounded(means.mean, max_log_ratio)
    token_ratios = _carried(current, units.spread(means.mean), max_log_ratio)
    surrogate = clipped_surrogate(token_ratios, credit, bounds)
    by_sign = clip_fractions("clip_fraction", token_ratios, bounds, credit, mask)
    sequences = {"sequence_clip_fraction": means.counted(outside(ratios.value, bounds), means.live)}
    return _output(surrogate, mask, how, ratios, means, {**sequences, **by_sign})


def _carried(current: Tensor, log_ratios: Tensor, max_log_ratio: float) -> Tensor:
    """Multiply the ratio of each token's sequence by a one whose gradient is that of the token's log-probability."""
    return bounded(log_ratios + (current - current.detach()), max_log_ratio).value


def _indexed(layout: Layout, sequence_advantages: Tensor) -> Layout:
    """Let ids that come without a number of sequences index the advantages."""
    checks.floating(sequence_advantages, "sequence_advantages")
    named = layout.get("sequence_ids") is not None or layout.get("position_ids") is not None
    if not named or layout.get("num_sequences") is not None or sequence_advantages.ndim != 1:
        return layout
    return {**layout, "num_sequences": len(sequence_advantages)}


def _credit(sequence_advantages: Tensor, live: Tensor, sequences: Sequences) -> Tensor:
    """Check one advantage per sequence, shaped like `live`, or `[..., 1]` for rows; detach them."""
    checks.same_device(sequence_advantages, "sequence_advantages", live, "action_mask")
    shape, per_sequence = tuple(sequence_advantages.shape), tuple(live.shape)
    if shape != per_sequence and (sequences.ids is not None or shape != (*per_sequence, 1)):
        packed = "have shape [S], one number per sequence" + (f" ({sequences.count})" if sequences.count is not None else "")
        requirement = packed if sequences.ids is not None else f"have one number per row {per_sequence}"
        fix = "gspo_token_policy_loss takes one per token"
        raise checks.fail(ShapeError, "sequence_advantages", requirement, shape, fix=fix)
    credit = sequence_advantages.detach().view(per_sequence)
    checks.finite(credit, "sequence_advantages", where=live)
    return select(at_least_float32(credit), live)


def _output(
    surrogate: Tensor, mask: Tensor, how: Weighing, ratios: Ratios, means: SequenceMeans, clip_fractions: dict[str, Partial]
) -> GspoPolicyLossOutput:
    statistics = {
        **clip_fractions,
        "sequence_ratio_divergence": means.counted(divergence(ratios.log), means.live),
        "mean_sequence_ratio": means.counted(ratios.value, means.live),
        "log_ratio_clamped_fraction": means.counted(ratios.clamped, means.live),
    }
    core = finish(surrogate, mask, how, statistics)
    return GspoPolicyLossOutput(
        loss=core.loss,
        objective=core.objective,
        sequence_ratio_divergence=core.mean("sequence_ratio_divergence"),
        sequence_clip_fraction=core.mean("sequence_clip_fraction"),
        mean_sequence_ratio=core.mean("mean_sequence_ratio"),
        sequence_ratios=select(ratios.value, means.live, float("nan")),
        token_loss=core.token_loss,
        partials=core.partials,
    )
