"""Adapters: returns, GAE, turns, V-trace, shaping, compaction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from rosellm.roserlhf.advantages import (
    cross_segment_advantages,
    discounted_returns,
    explained_variance,
    generalized_advantage_estimation,
    length_adaptive_lambda,
    n_step_advantages,
    potential_shaping,
    skip_observation_generalized_advantage_estimation,
    turn_generalized_advantage_estimation,
    v_trace,
)
from rosellm.roserlhf.losses import value_loss

from .case import Case, adapts, gradient, length_mask, padded, ragged, tensor


def _last(like: Tensor) -> Tensor:
    """True at the last step only."""
    return torch.arange(like.shape[-1]) == like.shape[-1] - 1


def _end(case: Case, rewards: Tensor) -> dict[str, Any]:
    """How an episode ends: truly, or cut with a bootstrap (0 if none is given)."""
    if case.get("terminated", False):
        return {"terminated": _last(rewards)}
    return {"bootstrap_value": float(case.get("bootstrap", 0.0))}


@adapts("returns", "rewards bootstrap", "gamma")
def returns(case: Case) -> Mapping[str, Any]:
    rewards, gamma = case.tensor("rewards"), case["gamma"]
    return {
        "truncated": discounted_returns(rewards, gamma=gamma, bootstrap_value=float(case["bootstrap"])),
        "terminated": discounted_returns(rewards, gamma=gamma, terminated=_last(rewards), bootstrap_value=float(case["bootstrap"])),
    }


@adapts("gae", "rewards values bootstrap", "gamma lam")
def gae_ends(case: Case) -> Mapping[str, Any]:
    rewards, values = case.tensor("rewards"), case.tensor("values")
    how = {"gamma": case["gamma"], "gae_lambda": case["lam"], "bootstrap_value": float(case["bootstrap"])}
    terminated = generalized_advantage_estimation(rewards, values, terminated=_last(rewards), **how)
    truncated = generalized_advantage_estimation(rewards, values, **how)
    return {
        "adv_terminated": terminated[0],
        "targets_terminated": terminated[1],
        "adv_truncated": truncated[0],
        "targets_truncated": truncated[1],
    }


@adapts("gae", "rewards values", "gamma", optional_inputs="terminated bootstrap")
def gae_limits(case: Case) -> Mapping[str, Any]:
    rewards, values = case.tensor("rewards"), case.tensor("values")

    def at(gae_lambda: float) -> tuple[Tensor, Tensor]:
        how = _end(case, rewards)
        return generalized_advantage_estimation(rewards, values, gamma=case["gamma"], gae_lambda=gae_lambda, **how)

    return {
        "lam1_adv": at(1.0)[0],
        "lam1_target_equals_return": discounted_returns(rewards, gamma=case["gamma"], **_end(case, rewards)),
        "lam0_adv": at(0.0)[0],
    }


@adapts("gae", "rewards values", "gamma lam", optional_inputs="terminated bootstrap")
def gae_as_a_mixture(case: Case) -> Mapping[str, Any]:
    """The finite mixture of n-step advantages, which must be GAE."""
    rewards, values, lam = case.tensor("rewards"), case.tensor("values"), case["lam"]
    steps, how = len(rewards), {"gamma": case["gamma"], **_end(case, rewards)}
    direct, targets = generalized_advantage_estimation(rewards, values, gae_lambda=lam, **how)
    by_length = torch.stack([n_step_advantages(rewards, values, n=n, **how)[0] for n in range(1, steps + 1)])
    mixed = torch.zeros_like(direct)
    for t in range(steps):
        longest = steps - t
        weights = [(1 - lam) * lam ** (n - 1) for n in range(1, longest)] + [lam ** (longest - 1)]
        mixed[t] = sum(weight * by_length[n, t] for n, weight in enumerate(weights))
    torch.testing.assert_close(mixed, direct)
    return {"adv": direct, "targets": targets}


@adapts("gae", "rewards values episode terminated bootstrap", "gamma lam")
def gae_packed(case: Case) -> Mapping[str, Any]:
    episodes = torch.tensor(case["episode"])
    rewards = case.tensor("rewards")
    ends = torch.cat([episodes[1:] != episodes[:-1], torch.tensor([True])])
    terminated = ends & torch.tensor(case["terminated"])[episodes]
    found = generalized_advantage_estimation(
        rewards,
        case.tensor("values"),
        gamma=case["gamma"],
        gae_lambda=case["lam"],
        terminated=terminated,
        bootstrap_value=case.tensor("bootstrap"),
        episode_ids=episodes,
    )
    return {"adv": found[0], "targets": found[1]}


@adapts("sao_skip_obs_gae", "rewards action_end_values next_action_first_values", "gamma lam")
def semantic_actions(case: Case) -> Mapping[str, Any]:
    rewards = case.tensor("rewards")

    def at(gae_lambda: float, terminated: Tensor | None) -> Tensor:
        return skip_observation_generalized_advantage_estimation(
            rewards,
            case.tensor("action_end_values"),
            case.tensor("next_action_first_values"),
            gamma=case["gamma"],
            gae_lambda=gae_lambda,
            terminated=terminated,
        )[0]

    return {
        "terminated_last": at(case["lam"], _last(rewards)),
        "truncated_last": at(case["lam"], None),
        "lam0_terminated": at(0.0, _last(rewards)),
    }


@adapts("explained_variance", "returns values")
def explained(case: Case) -> Mapping[str, Any]:
    targets, values = case.tensor("returns"), case.tensor("values")
    everywhere = torch.ones_like(targets)
    return {
        "ev_population": explained_variance(values, targets, everywhere),
        "constant_value_ev": explained_variance(torch.full_like(values, float(targets.mean())), targets, everywhere),
        "uniform_returns": explained_variance(values, torch.ones_like(targets), everywhere),
    }


@adapts("vapo", "lengths", "alpha_vapo alpha_sao")
def adaptive_lambda(case: Case) -> Mapping[str, Any]:
    lengths = torch.tensor(case["lengths"])
    return {
        "vapo_raw": length_adaptive_lambda(lengths, alpha=case["alpha_vapo"], clamp=False, dtype=torch.float64),
        "vapo_clamped": length_adaptive_lambda(lengths, alpha=case["alpha_vapo"], dtype=torch.float64),
        "sao": length_adaptive_lambda(lengths, alpha=case["alpha_sao"], dtype=torch.float64),
    }


@adapts("vc_ppo", "rewards values", "gamma lam_policy lam_critic", optional_inputs="terminated bootstrap")
def decoupled(case: Case) -> Mapping[str, Any]:
    rewards, values = case.tensor("rewards"), case.tensor("values")
    how = {"gamma": case["gamma"], "gae_lambda": case["lam_policy"], **_end(case, rewards)}
    advantages, targets = generalized_advantage_estimation(rewards, values, critic_lambda=case["lam_critic"], **how)
    one_lambda = generalized_advantage_estimation(rewards, values, **how)[1]
    return {"advantages": advantages, "value_targets": targets, "wrong_targets_if_one_lambda": one_lambda}


@adapts("value_pretraining", "reward values mask", "gamma")
def monte_carlo_targets(case: Case) -> Mapping[str, Any]:
    values, mask = case.leaf("values"), torch.tensor(case["mask"]).bool()
    rewards = torch.zeros_like(values.detach())
    rewards[int(mask.nonzero()[-1])] = case["reward"]
    targets = discounted_returns(rewards, gamma=case["gamma"], terminated=_last(values), valid_mask=mask)
    loss = value_loss(values, targets, mask).loss
    return {"targets": targets, "half_mse": loss, "mse": 2 * loss, "grad_values": gradient(2 * loss, values)}


@adapts("turn_ppo", "turn_rewards turn_values tokens_per_turn", "gamma lam")
def turns(case: Case) -> Mapping[str, Any]:
    rewards, values = case.tensor("turn_rewards"), case.tensor("turn_values")
    turn_ids = torch.repeat_interleave(torch.arange(len(rewards)), torch.tensor(case["tokens_per_turn"]))
    tokens, targets = turn_generalized_advantage_estimation(
        rewards,
        values,
        turn_ids,
        torch.ones_like(turn_ids, dtype=torch.bool),
        gamma=case["gamma"],
        gae_lambda=case["lam"],
        terminated=_last(rewards),
    )
    return {"turn_adv": targets - values, "token_adv": tokens}


@adapts("vtrace", "rho rewards values bootstrap", "gamma", optional="rho_bar c_bar pg_rho_bar")
def vtrace(case: Case) -> Mapping[str, Any]:
    vs, advantages = v_trace(
        case.tensor("rho").log(),
        case.tensor("rewards"),
        case.tensor("values"),
        gamma=case["gamma"],
        rho_max=case.get("rho_bar", 1.0),
        c_max=case.get("c_bar", 1.0),
        pg_rho_max=case.get("pg_rho_bar", 1.0),
        bootstrap_value=float(case["bootstrap"]),
    )
    return {"vs": vs, "pg_advantages": advantages}


@adapts("potential_shaping", "rewards potentials", "gamma")
def shaping(case: Case) -> Mapping[str, Any]:
    rewards, potentials, gamma = case.tensor("rewards"), case.tensor("potentials"), case["gamma"]
    cut = potential_shaping(rewards, potentials[:-1], gamma=gamma, bootstrap_potential=float(potentials[-1]))
    ended = potential_shaping(rewards, potentials[:-1], gamma=gamma, terminated=_last(rewards))

    def total(shaped: Tensor) -> Tensor:
        return discounted_returns(shaped, gamma=gamma)[0]

    steps = len(rewards)
    return {
        "F": cut - rewards,
        "G": total(rewards),
        "G_shaped": total(cut),
        "G_minus_phi0_plus_gammaT_phiT": total(rewards) - potentials[0] + gamma**steps * potentials[-1],
        "G_shaped_terminal_potential_zero": total(ended),
    }


def _segments(case: Case, values: Tensor, lengths: list[int], **how: Any) -> list[list[float]]:
    rollout, mask = torch.zeros(len(lengths), dtype=torch.int64), length_mask(lengths)
    outcome = torch.full((len(lengths),), float(case["outcome"]), dtype=torch.float64)
    ends = torch.zeros_like(mask)
    ends[-1, lengths[-1] - 1] = True
    found = cross_segment_advantages(outcome, values, rollout, mask, gamma=case["gamma"], terminated=ends, **how)
    return ragged(found[0], lengths)


@adapts("compaction", "segment_values outcome", "gamma alpha")
def segments_of_a_rollout(case: Case) -> Mapping[str, Any]:
    values, _ = padded(case["segment_values"])
    lengths = [len(segment) for segment in case["segment_values"]]
    later = [sum(lengths[i + 1 :]) for i in range(len(lengths))]
    per_segment = length_adaptive_lambda(torch.tensor(lengths), alpha=case["alpha"], dtype=torch.float64)
    whole = length_adaptive_lambda(torch.tensor([sum(lengths)]), alpha=case["alpha"], dtype=torch.float64)[0]
    corrected = _segments(case, values, lengths, alpha=case["alpha"])

    def local() -> list[list[float]]:
        """Each segment as a rollout of its own."""
        parts = []
        for segment in case["segment_values"]:
            alone = tensor([segment])
            parts += _segments(case, alone, [len(segment)], alpha=case["alpha"])
        return parts

    return {
        "n_after": later,
        "lam_per_segment_length": per_segment,
        "local_adv_per_segment_length": local,
        "adv_per_segment_length": corrected,
        "lam_whole_rollout_length": whole,
        "adv_whole_rollout_length": lambda: _segments(case, values, lengths, alpha=case["alpha"], lambda_length="rollout"),
    }


@adapts("compaction", "segment_lengths outcome values", "gamma lam")
def segments_without_a_critic(case: Case) -> Mapping[str, Any]:
    case.choice("values", "", ("all zero",))
    lengths = case["segment_lengths"]
    zeros = torch.zeros(len(lengths), max(lengths), dtype=torch.float64)
    return {"adv": _segments(case, zeros, lengths, gae_lambda=case["lam"])}
