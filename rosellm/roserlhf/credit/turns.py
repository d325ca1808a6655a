"""One advantage per turn -> one per token; rewards and values of turns -> the advantages of their tokens."""

from __future__ import annotations

import torch
from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.credit.gae import generalized_advantage_estimation
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


@torch.no_grad()
def turn_generalized_advantage_estimation(
    turn_rewards: Tensor,
    turn_values: Tensor,
    turn_ids: Tensor,
    action_mask: Tensor,
    *,
    gamma: float = 1.0,
    gae_lambda: float | Tensor = 1.0,
    critic_lambda: float | Tensor | None = None,
    terminated: Tensor | None = None,
    turn_mask: Tensor | None = None,
    bootstrap_value: Tensor | float | None = None,
    episode_ids: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    r"""Estimate one advantage per turn and give it to every token of the turn.

    .. math:: A_t = m_t\,\hat A_{k(t)},\qquad \hat A_k = \delta_k + \gamma\lambda\,(1-d_k)\,\hat A_{k+1}

    :math:`\hat A_k` is :func:`generalized_advantage_estimation` with turns as steps: one discount per turn, whatever its length.
    The value of a turn may be a critic's own number or :func:`turn_values` of token values. The turn is the action: inside it all
    tokens have one advantage. A turn that no token names (its tokens were masked) remains a step, and its reward counts; leave it
    out with `turn_mask`.

    Source: turn-level critics as described for Turn-PPO 2025, https://arxiv.org/abs/2512.17008 (no authors' code seen); GAE:
    Schulman et al. 2015, https://arxiv.org/abs/1506.02438

    Args:
        turn_rewards, turn_values: `[..., K]`, floating point, one per turn, in order.
        turn_ids: `[..., T]`, integer, turn of each token, in [0, K-1] wherever `action_mask` is true.
        action_mask: `[..., T]`, boolean or exactly 0/1, true where the policy sampled the token.
        gamma, gae_lambda, critic_lambda: as in :func:`generalized_advantage_estimation`, per turn.
        terminated, episode_ids: `[..., K]`, as there.
        turn_mask: `[..., K]`, boolean or exactly 0/1, false where there is no turn (rows have different numbers of them).
        bootstrap_value: value after the last turn of a cut episode, as there.

    Returns:
        Token advantages `[..., T]` (0 where `action_mask` is false) and turn value targets `[..., K]`, detached; the widest input
        dtype, float32 at least.

    Raises:
        DtypeError, ShapeError, DeviceError, MaskError, NonFiniteError, RangeError: as the two functions it consists of.

    Example:
        >>> ids, mask = torch.tensor([0, 0, 9, 1, 1]), torch.tensor([True, True, False, True, True])
        >>> rewards, values = torch.tensor([0.0, 1.0]), torch.tensor([0.25, 0.5])
        >>> turn_generalized_advantage_estimation(rewards, values, ids, mask, terminated=torch.tensor([False, True]))
        (tensor([0.7500, 0.7500, 0.0000, 0.5000, 0.5000]), tensor([1., 1.]))
    """
    checks.floating(turn_rewards, "turn_rewards")
    checks.at_least_rank(turn_rewards, 1, "turn_rewards")
    checks.floating(turn_values, "turn_values")
    checks.same_shape(turn_values, "turn_values", turn_rewards, "turn_rewards")
    exists = torch.ones_like(turn_rewards, dtype=torch.bool)
    if turn_mask is not None:
        checks.tensor(turn_mask, "turn_mask")
        checks.same_shape(turn_mask, "turn_mask", turn_rewards, "turn_rewards")
        exists = checks.mask(turn_mask, "turn_mask")
    checks.finite(turn_rewards, "turn_rewards", where=exists)
    checks.finite(turn_values, "turn_values", where=exists)
    advantages, targets = generalized_advantage_estimation(
        turn_rewards,
        turn_values,
        gamma=gamma,
        gae_lambda=gae_lambda,
        critic_lambda=critic_lambda,
        terminated=terminated,
        valid_mask=exists,
        bootstrap_value=bootstrap_value,
        episode_ids=episode_ids,
    )
    return broadcast_turn_advantages(advantages, turn_ids, action_mask), targets
