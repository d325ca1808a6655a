"""One advantage per turn -> one per token."""

from __future__ import annotations

import torch
from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.credit.lookup import look_up
from rosellm.roserlhf.errors import ShapeError
from rosellm.roserlhf.masked import at_least_float32, select


@torch.no_grad()
def broadcast_turn_advantages(turn_advantages: Tensor, turn_ids: Tensor, action_mask: Tensor) -> Tensor:
    r"""Give every sampled token the advantage of its turn.

    .. math:: A_{t} = m_t\,\hat A_{k(t)}

    :math:`k(t)` is the turn of token t. This is credit by turn, spread evenly: it does not say that every token of a turn
    mattered equally. Where the mask is false the result is 0 and the id is not read (prompt, observation, padding: any id may
    stand there). A turn that no unmasked token names, not even by NaN, has no effect.

    Source: turn-level credit as in Zeng et al. 2025, "Reinforcing Multi-Turn Reasoning in LLM Agents via Turn-Level Credit
    Assignment", https://arxiv.org/abs/2505.11821

    Args:
        turn_advantages: `[..., K]`, floating point, one per turn.
        turn_ids: `[..., T]`, integer, turn of each token, in [0, K-1] wherever `action_mask` is true.
        action_mask: `[..., T]`, boolean or exactly 0/1, true where the policy sampled the token.

    Returns:
        `[..., T]`, detached; float32, or float64 for float64 `turn_advantages`.

    Raises:
        DtypeError: `turn_advantages` is not floating point or `turn_ids` not integer.
        ShapeError, DeviceError: the shapes or devices do not fit.
        MaskError: `action_mask` is not 0/1.
        RangeError: an unmasked id is out of range (`invalid turn`).
        NonFiniteError: an advantage that is used is NaN or infinite.

    Example:
        >>> ids, mask = torch.tensor([-1, 0, 0, 9, 1]), torch.tensor([False, True, True, False, True])
        >>> broadcast_turn_advantages(torch.tensor([0.5, -2.0]), ids, mask)
        tensor([ 0.0000,  0.5000,  0.5000,  0.0000, -2.0000])
    """
    checks.floating(turn_advantages, "turn_advantages")
    checks.at_least_rank(turn_advantages, 1, "turn_advantages")
    checks.integer(turn_ids, "turn_ids")
    checks.at_least_rank(turn_ids, 1, "turn_ids")
    checks.tensor(action_mask, "action_mask")
    checks.same_shape(action_mask, "action_mask", turn_ids, "turn_ids")
    checks.same_device(turn_advantages, "turn_advantages", turn_ids, "turn_ids")
    chosen = checks.mask(action_mask, "action_mask")
    rest = tuple(turn_ids.shape[:-1])
    if tuple(turn_advantages.shape[:-1]) != rest or turn_advantages.shape[-1] == 0:
        requirement = f"be {[*rest, 'K']} with at least one turn, like turn_ids without time"
        raise checks.fail(ShapeError, "turn_advantages", requirement, f"shape {tuple(turn_advantages.shape)}")
    fix = "an invalid turn has no advantage to give; mask the token or correct its id"
    table = at_least_float32(turn_advantages)
    spread = look_up(table, turn_ids, chosen, ids_name="turn_ids", fix=fix)
    checks.finite(spread, "turn_advantages", where=chosen)
    return select(spread, chosen)
