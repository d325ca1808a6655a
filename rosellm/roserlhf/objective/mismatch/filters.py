"""Filters of sequences by name: MIS-PO and off-policy sequence masking."""

from __future__ import annotations

import math
from typing import Unpack

import torch.distributed as dist
from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.objective import inputs
from rosellm.roserlhf.objective.layout import Layout
from rosellm.roserlhf.objective.mismatch.bounds import mismatch_correction
from rosellm.roserlhf.objective.mismatch.correction import MismatchCorrection, correction
from rosellm.roserlhf.objective.mismatch.levels import sequences_of, statistic


def mis(
    proximal_logprobs: Tensor,
    behaviour_logprobs: Tensor,
    action_mask: Tensor,
    *,
    ratio_min: float = 0.996,
    ratio_max: float = 1.001,
    token_ratio_min: float = 0.5,
    token_ratio_max: float = 2.0,
    context_group: dist.ProcessGroup | None = None,
    **layout: Unpack[Layout],
) -> MismatchCorrection:
    r"""Filter sequences by their geometric mean ratio and tokens by their own; what is kept has weight 1 (MIS-PO).

    The sequence interval is closed, the token interval open; the defaults are those of Step-3.5. For a filter by the product, or on
    one side alone, `mismatch_correction` with `weight="one"`.

    Source: StepFun 2026 (Step 3.5 Flash), Metropolis-independence-sampling-filtered policy optimisation,
    https://arxiv.org/abs/2602.10604

    Args:
        proximal_logprobs, behaviour_logprobs, action_mask, context_group, layout: as in `mismatch_correction`.
        ratio_min, ratio_max: interval of the sequence, around 1.
        token_ratio_min, token_ratio_max: interval of the token, around 1.

    Returns:
        `MismatchCorrection`, with the partials of both levels.

    Raises:
        NonFiniteError, MaskError, RangeError, ArgumentError, ShapeError, DtypeError, DeviceError: as in `mismatch_correction`;
            bounds of the token are called `ratio_min`, `ratio_max` in the message.

    Example:
        >>> rho = torch.tensor([[1.0, 1.0, 1.0], [0.25, 1.0, 4.0], [1.0, 1.0, 1.5]])
        >>> mis(rho.log(), torch.zeros(3, 3), torch.ones(3, 3)).weights
        tensor([[1., 1., 1.],
                [0., 1., 0.],
                [0., 0., 0.]])
    """
    checks.known_keywords(layout, Layout.__annotations__)
    evidence = proximal_logprobs, behaviour_logprobs, action_mask
    of_sequences = mismatch_correction(
        *evidence,
        level="geometric_sequence",
        action="mask",
        weight="one",
        ratio_min=ratio_min,
        ratio_max=ratio_max,
        context_group=context_group,
        **layout,
    )
    of_tokens = mismatch_correction(
        *evidence,
        level="token",
        action="mask",
        weight="one",
        bounds="open",
        ratio_min=token_ratio_min,
        ratio_max=token_ratio_max,
        context_group=context_group,
        **layout,
    )
    return of_sequences * of_tokens


def opsm(
    current_logprobs: Tensor,
    behaviour_logprobs: Tensor,
    advantages: Tensor,
    action_mask: Tensor,
    *,
    delta: float,
    context_group: dist.ProcessGroup | None = None,
    **layout: Unpack[Layout],
) -> MismatchCorrection:
    r"""Reject tokens with a negative advantage in sequences that the policy has drifted away from (off-policy sequence masking).

    .. math::
        w_t = \begin{cases}
        0 & A_t < 0 \ \text{ and } \ \frac{1}{n_i} \sum_t m_{it} (\ell_t^{\text{behaviour}} - \ell_t) > \delta \\
        1 & \text{otherwise} \end{cases}

    Pushing down what the policy no longer says is what destabilises; learning from stale successes goes on. It looks at the policy
    that is trained, so compute it in every micro-batch. A drift of exactly `delta` is kept. slime uses 1e-4; the paper prints none.

    Source: DeepSeek-AI 2025 (DeepSeek-V3.2), off-policy sequence masking, https://arxiv.org/abs/2512.02556

    Args:
        current_logprobs: `[..., T]`, floating point; detached.
        behaviour_logprobs: same shape: recorded by the engine that sampled; detached.
        advantages: one per token, per row (`[...]` or `[..., 1]`, where rows are sequences) or per packed sequence; detached.
        action_mask: same shape as `current_logprobs`, boolean or exactly 0/1.
        delta: the drift, in nats per token, at least 0, above which a sequence counts as off-policy.
        context_group, layout: as in `mismatch_correction`.

    Returns:
        `MismatchCorrection`, with `drift` and the share of sequences above `delta`, `drifted_fraction`, among its partials.

    Raises:
        NonFiniteError: NaN or infinity at a live position; the message names the argument.
        MaskError, RangeError, ShapeError, DtypeError, DeviceError: the arguments do not fit together, `delta` is negative.

    Example:
        >>> behaviour, current = torch.tensor([[-1.0, -1.0], [-1.0, -1.0]]), torch.tensor([[-1.5, -1.0], [-1.5, -1.0]])
        >>> opsm(current, behaviour, torch.tensor([1.0, -1.0]), torch.ones(2, 2), delta=0.1).weights
        tensor([[1., 1.],
                [0., 0.]])
    """
    mask = inputs.token_mask(action_mask, current_logprobs, "current_logprobs")
    checks.number_in(delta, "delta", 0.0, math.inf)
    current = inputs.recorded(current_logprobs, "current_logprobs", mask)
    behaviour = inputs.recorded(behaviour_logprobs, "behaviour_logprobs", mask)
    sequences = sequences_of(mask, layout, context_group)
    credit = inputs.token_advantages(advantages, "advantages", mask, sequences)
    of_sequences = statistic(behaviour - current, mask, "geometric_sequence", sequences, None, context_group)
    drifted = of_sequences.log > delta
    keep_mask = mask & ~(of_sequences.spread(drifted) & (credit < 0))
    partials = {
        "drift": of_sequences.counted(of_sequences.log),
        "drifted_fraction": of_sequences.counted(drifted.to(current.dtype)),
    }
    return correction(keep_mask.to(current.dtype), keep_mask, partials, mask, sequences)
