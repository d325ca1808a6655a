"""Arguments of a policy loss -> checked float tensors in which masked tokens hold a constant.

Selection happens here, once and before any arithmetic: a masked token has log-probability 0 on both sides (ratio 1) and advantage
0, so NaN or infinity that stands there reaches neither a value nor a gradient further on.
"""

from __future__ import annotations

import math
import warnings

import torch
from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.errors import DtypeError, ShapeError
from rosellm.roserlhf.masked import at_least_float32, select
from rosellm.roserlhf.objective.layout import Sequences


def token_mask(action_mask: Tensor, values: Tensor, argument: str = "current_logprobs") -> Tensor:
    """Check the mask against the log-probabilities (or critic's values) `[..., T]` and return it as boolean."""
    checks.floating(values, argument)
    checks.at_least_rank(values, 1, argument)
    mask: Tensor = checks.mask(action_mask, "action_mask")
    checks.same_shape(action_mask, "action_mask", values, argument)
    return mask


def current(logprobs: Tensor, mask: Tensor) -> Tensor:
    """Check log-probabilities of the policy that is trained; the gradient flows through what is returned."""
    checks.finite(logprobs, "current_logprobs", where=mask)
    _warn_if_rounded(logprobs, "current_logprobs")
    return select(at_least_float32(logprobs), mask)


def recorded(logprobs: Tensor, argument: str, mask: Tensor) -> Tensor:
    """Check recorded log-probabilities and detach them: they are evidence, not parameters."""
    checks.floating(logprobs, argument)
    checks.same_shape(logprobs, argument, mask, "action_mask")
    checks.finite(logprobs, argument, where=mask)
    _warn_if_rounded(logprobs, argument)
    return select(at_least_float32(logprobs.detach()), mask)


def token_advantages(advantages: Tensor, argument: str, mask: Tensor, sequences: Sequences) -> Tensor:
    """Check advantages given per token, per row (`[...]` or `[..., 1]`, where rows are sequences) or per sequence; detach them.

    One per packed sequence, `[S]`, is understood where S is known: with `cu_seqlens`, or with `num_sequences`.
    """
    checks.floating(advantages, argument)
    checks.same_device(advantages, argument, mask, "action_mask")
    credit, shape, tokens, rows = advantages.detach(), tuple(advantages.shape), tuple(mask.shape), tuple(mask.shape[:-1])
    if shape == tokens:
        per_token = credit
    elif sequences.ids is None and shape in (rows, (*rows, 1)):
        per_token = (credit.unsqueeze(-1) if shape == rows else credit).expand(tokens)
    elif sequences.ids is not None and shape == (sequences.count,):
        per_token = sequences.of(mask).spread(credit)
    else:
        raise checks.fail(ShapeError, argument, _allowed(tokens, rows, sequences), shape)
    checks.finite(per_token, argument, where=mask)
    if shape == tokens:
        require_one_reading(credit, argument, mask, sequences)
    return select(at_least_float32(per_token), mask)


def require_one_reading(per_token: Tensor, argument: str, mask: Tensor, sequences: Sequences) -> None:
    """Refuse what could be one per token and one per packed sequence, `[N]` both, unless it says the same either way."""
    if sequences.ids is None or mask.shape != (sequences.count,):
        return

    def differs() -> tuple[Tensor, Tensor]:
        of = sequences.of(mask)
        columns = (per_token,) if per_token.ndim == 1 else per_token.unbind(-1)
        differing = torch.stack([of.spread(column) != column for column in columns], -1).any(-1) & mask
        return columns[0], differing

    requirement = f"say the same read per token and per sequence, of which there are {sequences.count} each"
    checks.each(argument, requirement, differs, ShapeError, fix="give all tokens as [1, N], which no sequences are")


def _allowed(tokens: tuple[int, ...], rows: tuple[int, ...], sequences: Sequences) -> str:
    requirement = f"have the shape of the tokens {tokens}"
    if sequences.ids is None:
        return f"{requirement}, or of the rows {rows} or {(*rows, 1)}"
    if sequences.count is None:
        return f"{requirement} (one per sequence needs num_sequences or cu_seqlens)"
    return f"{requirement}, or of the sequences {(sequences.count,)}"


def whole(value: Tensor | None, argument: str) -> None:
    """Require a tensor that is all here: a shard would give the numbers of another model."""
    if hasattr(value, "full_tensor"):
        fix = f"call this inside the forward of the module that gathers it, or pass {argument}.full_tensor()"
        raise checks.fail(DtypeError, argument, "be a whole, local tensor", "a DTensor", fix=fix)


def ratio_bounds(clip_low: float, clip_high: float) -> tuple[float, float]:
    """Check the offsets from 1 and return the absolute bounds `ratio_min`, `ratio_max`."""
    checks.number_in(clip_low, "clip_low", 0.0, 1.0, open_high=True)
    checks.number_in(clip_high, "clip_high", 0.0, math.inf)
    return 1.0 - clip_low, 1.0 + clip_high


def positive_number(value: float, argument: str) -> None:
    """Require a number above zero; infinity is allowed (a bound that never acts)."""
    checks.number_in(value, argument, 0.0, math.inf, open_low=True)


def temperature(value: float, argument: str) -> None:
    """Require a finite number above zero."""
    checks.number_in(value, argument, 0.0, math.inf, open_low=True, open_high=True)


def _warn_if_rounded(logprobs: Tensor, argument: str) -> None:
    """Half-precision log-probabilities are rounded evidence: the ratio built on them is wrong before any update."""
    if torch.compiler.is_compiling() or logprobs.dtype not in (torch.bfloat16, torch.float16):
        return
    # numbers in [8, 16) are 8 * eps apart, so rounding is off by up to half of that
    error = math.expm1(torch.finfo(logprobs.dtype).eps * 8 / 2)
    warnings.warn(
        f"{argument} should be float32, got {logprobs.dtype}: a log-probability near -10 is rounded so that its importance ratio "
        f"is off by up to {error:.1%}; gather_token_logprobs upcasts the logits, store what it returns as float32",
        UserWarning,
        stacklevel=4,
    )
