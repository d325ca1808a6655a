"""Reference cases of other values: returns, GAE, turns, V-trace, shaping, compaction."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from oracles_cases import Draw, Parts, discounted, makes


def gae(rewards: Any, values: Any, gamma: float, lam: float, after: float = 0.0) -> np.ndarray:
    out, advantage, following = np.zeros(len(rewards)), 0.0, after
    for t in reversed(range(len(rewards))):
        advantage = rewards[t] + gamma * following - values[t] + gamma * lam * advantage
        out[t], following = advantage, values[t]
    return out


@makes("returns")
def returns(draw: Draw) -> Parts:
    rewards = draw.standard_normal(6)
    expected = {"truncated": discounted(rewards, 0.8, -3), "terminated": discounted(rewards, 0.8)}
    return {"rewards": rewards, "bootstrap": -3}, {"gamma": 0.8}, expected


@makes("gae")
def gae_ends(draw: Draw) -> Parts:
    rewards, values = draw.standard_normal((2, 5))
    ended, cut = gae(rewards, values, 1, 0.6), gae(rewards, values, 1, 0.6, 0.7)
    expected = {
        "adv_terminated": ended,
        "targets_terminated": ended + values,
        "adv_truncated": cut,
        "targets_truncated": cut + values,
    }
    return {"rewards": rewards, "values": values, "bootstrap": 0.7}, {"gamma": 1, "lam": 0.6}, expected


def gae_limits(draw: Draw, how: dict[str, Any], after: float) -> Parts:
    rewards, values = draw.standard_normal((2, 4))
    expected = {
        "lam1_adv": gae(rewards, values, 0.7, 1, after),
        "lam1_target_equals_return": discounted(rewards, 0.7, after),
        "lam0_adv": gae(rewards, values, 0.7, 0, after),
    }
    return {"rewards": rewards, "values": values, **how}, {"gamma": 0.7}, expected


makes("gae")(lambda draw: gae_limits(draw, {"terminated": False}, 0))
makes("gae")(lambda draw: gae_limits(draw, {}, 0))
makes("gae")(lambda draw: gae_limits(draw, {"terminated": False, "bootstrap": 2}, 2))
makes("gae")(lambda draw: gae_limits(draw, {"terminated": True, "bootstrap": 2}, 0))


def gae_alone(draw: Draw, how: dict[str, Any], after: float) -> Parts:
    rewards, values = draw.standard_normal((2, 5))
    found = gae(rewards, values, 0.9, 0.3, after)
    return {"rewards": rewards, "values": values, **how}, {"gamma": 0.9, "lam": 0.3}, {"adv": found, "targets": found + values}


makes("gae")(lambda draw: gae_alone(draw, {"terminated": True}, 0))
makes("gae")(lambda draw: gae_alone(draw, {"terminated": False}, 0))
makes("gae")(lambda draw: gae_alone(draw, {"terminated": False, "bootstrap": 0.5}, 0.5))
makes("gae")(lambda draw: gae_alone(draw, {"bootstrap": 0}, 0))


@makes("gae")
def gae_packed(draw: Draw) -> Parts:
    episode, ended, after = [0, 0, 0, 1, 2, 2], [False, True, False], [0.4, 9.0, -1.0]
    rewards, values = draw.standard_normal((2, 6))
    parts = []
    for number in range(3):
        at = [i for i, e in enumerate(episode) if e == number]
        parts.append(gae(rewards[at], values[at], 0.9, 0.5, 0.0 if ended[number] else after[number]))
    inputs = {"rewards": rewards, "values": values, "episode": episode, "terminated": ended, "bootstrap": after}
    return inputs, {"gamma": 0.9, "lam": 0.5}, {"adv": np.concatenate(parts)}


@makes("sao_skip_obs_gae")
def semantic_actions(draw: Draw) -> Parts:
    rewards, end, following = draw.standard_normal((3, 4))

    def at(lam: float, last: float) -> np.ndarray:
        out, advantage = np.zeros(4), 0.0
        for k in reversed(range(4)):
            advantage = rewards[k] + 0.8 * (following[k] if k < 3 else last) - end[k] + 0.8 * lam * advantage
            out[k] = advantage
        return out

    expected = {"terminated_last": at(0.9, 0), "truncated_last": at(0.9, following[3]), "lam0_terminated": at(0, 0)}
    inputs = {"rewards": rewards, "action_end_values": end, "next_action_first_values": following}
    return inputs, {"gamma": 0.8, "lam": 0.9}, expected


@makes("explained_variance")
def explained(draw: Draw) -> Parts:
    target, values = draw.standard_normal((2, 7))
    expected = {
        "ev_population": 1 - (target - values).var() / target.var(),
        "constant_value_ev": 0,
        "uniform_returns": math.nan,
    }
    return {"returns": target, "values": values}, {}, expected


@makes("vapo")
def lambdas(draw: Draw) -> Parts:
    del draw
    lengths = np.array([3, 7, 50])
    expected = {
        "vapo_raw": 1 - 1 / (0.1 * lengths),
        "vapo_clamped": np.clip(1 - 1 / (0.1 * lengths), 0, 1),
        "sao": np.clip(1 - 1 / (2 * lengths), 0, 1),
    }
    return {"lengths": lengths}, {"alpha_vapo": 0.1, "alpha_sao": 2}, expected


def decoupled_lambdas(draw: Draw, how: dict[str, Any], after: float) -> Parts:
    rewards, values = draw.standard_normal((2, 4))
    actor = gae(rewards, values, 0.95, 0.4, after)
    expected = {
        "advantages": actor,
        "value_targets": gae(rewards, values, 0.95, 0.8, after) + values,
        "wrong_targets_if_one_lambda": actor + values,
    }
    inputs = {"rewards": rewards, "values": values, **how}
    return inputs, {"gamma": 0.95, "lam_policy": 0.4, "lam_critic": 0.8}, expected


makes("vc_ppo")(lambda draw: decoupled_lambdas(draw, {"terminated": True}, 0))
makes("vc_ppo")(lambda draw: decoupled_lambdas(draw, {"terminated": False, "bootstrap": 0.3}, 0.3))


@makes("value_pretraining")
def monte_carlo(draw: Draw) -> Parts:
    """The reward is that of the last live token, behind which is padding."""
    values, mask = draw.standard_normal(5), np.array([1, 1, 1, 0, 0])
    target = 2 * 0.5 ** np.array([2, 1, 0, np.inf, np.inf])
    error = np.where(mask > 0, values - target, 0)
    expected = {"targets": target, "mse": (error**2).sum() / 3, "half_mse": (error**2).sum() / 6, "grad_values": 2 * error / 3}
    return {"reward": 2, "values": values, "mask": mask}, {"gamma": 0.5}, expected


@makes("turn_ppo")
def turns(draw: Draw) -> Parts:
    rewards, values = draw.standard_normal((2, 3))
    by_turn = gae(rewards, values, 0.9, 0.5)
    inputs = {"turn_rewards": rewards, "turn_values": values, "tokens_per_turn": [1, 4, 2]}
    return inputs, {"gamma": 0.9, "lam": 0.5}, {"turn_adv": by_turn, "token_adv": np.repeat(by_turn, [1, 4, 2])}


def vtrace(draw: Draw, caps: dict[str, float], after: float) -> Parts:
    rho, (rewards, values) = np.exp(draw.standard_normal(5)), draw.standard_normal((2, 5))
    gamma, vs, pg = 0.85, np.zeros(5), np.zeros(5)
    following, next_value = after, after
    for t in reversed(range(5)):
        r, c = min(caps.get("rho_bar", 1), rho[t]), min(caps.get("c_bar", 1), rho[t])
        pg[t] = min(caps.get("pg_rho_bar", 1), rho[t]) * (rewards[t] + gamma * following - values[t])
        delta = r * (rewards[t] + gamma * next_value - values[t])
        vs[t] = values[t] + delta + gamma * c * (following - next_value)
        following, next_value = vs[t], values[t]
    inputs = {"rho": rho, "rewards": rewards, "values": values, "bootstrap": after}
    return inputs, {"gamma": gamma, **caps}, {"vs": vs, "pg_advantages": pg}


makes("vtrace")(lambda draw: vtrace(draw, {}, 0))
makes("vtrace")(lambda draw: vtrace(draw, {"rho_bar": 3, "c_bar": 2, "pg_rho_bar": 1.5}, 0.6))


@makes("potential_shaping")
def shaping(draw: Draw) -> Parts:
    rewards, phi, gamma = draw.standard_normal(4), draw.standard_normal(5), 0.8
    f = gamma * phi[1:] - phi[:-1]
    total = discounted(rewards, gamma)[0]
    shaped = total - phi[0] + gamma**4 * phi[4]
    expected = {
        "F": f,
        "G": total,
        "G_shaped": discounted(rewards + f, gamma)[0],
        "G_minus_phi0_plus_gammaT_phiT": shaped,
        "G_shaped_terminal_potential_zero": total - phi[0],
    }
    return {"rewards": rewards, "potentials": phi}, {"gamma": gamma}, expected


def segments(values: list[np.ndarray], outcome: float, gamma: float, lams: list[float]) -> list[np.ndarray]:
    """Each with the outcome at its own end."""
    found = []
    for value, lam in zip(values, lams, strict=True):
        rewards = np.zeros(len(value))
        rewards[-1] = outcome
        found.append(gae(rewards, value, gamma, lam))
    return found


@makes("compaction")
def compaction(draw: Draw) -> Parts:
    lengths, gamma, alpha, outcome = [3, 1, 4, 2], 0.9, 2, -1.5
    values = [draw.standard_normal(n) for n in lengths]
    later = [sum(lengths[k + 1 :]) for k in range(4)]
    own, whole = [1 - 1 / (alpha * n) for n in lengths], 1 - 1 / (alpha * sum(lengths))
    local, by_rollout = segments(values, outcome, gamma, own), segments(values, outcome, gamma, [whole] * 4)
    expected = {
        "n_after": later,
        "lam_per_segment_length": own,
        "local_adv_per_segment_length": local,
        "adv_per_segment_length": [a * (gamma * lam) ** n for a, lam, n in zip(local, own, later, strict=True)],
        "lam_whole_rollout_length": whole,
        "adv_whole_rollout_length": [a * (gamma * whole) ** n for a, n in zip(by_rollout, later, strict=True)],
    }
    return {"segment_values": values, "outcome": outcome}, {"gamma": gamma, "alpha": alpha}, expected


@makes("compaction")
def telescope(draw: Draw) -> Parts:
    del draw
    lengths = [1, 4, 2]
    distance = list(range(sum(lengths) - 1, -1, -1))
    flat = [3 * (0.7 * 0.9) ** d for d in distance]
    cut = [flat[:1], flat[1:5], flat[5:]]
    return {"segment_lengths": lengths, "outcome": 3, "values": "all zero"}, {"gamma": 0.7, "lam": 0.9}, {"adv": cut}
