"""Adapters: policy objectives, their aggregation, and the value loss."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from rosellm.roserlhf.losses import (
    aggregate,
    cispo_policy_loss,
    clipped_policy_loss,
    decoupled_policy_loss,
    direct_double_sided_mask,
    gspo_policy_loss,
    gspo_token_policy_loss,
    sao_policy_loss,
    sapo_policy_loss,
    sequence_log_ratio,
    value_loss,
)

from .case import Case, UnmappedError, Within, adapts, gradient, logs, share, tensor

OPEN: Any = {"clip_low": 1 - 2.0**-52, "clip_high": 1e9}  # bounds that never act
AGGREGATIONS = {"token": "token", "seq_token_mean": "sequence_mean", "seq_sum": "sequence_sum"}


def _aggregation(case: Case, default: str) -> Any:
    return AGGREGATIONS[case.choice("aggregation", default, AGGREGATIONS)]


@adapts(
    "ppo_clip ppo_clip_higher ppo_dual_clip",
    "old_logp cur_logp advantages mask",
    "eps_low eps_high",
    optional="aggregation dual_clip",
)
def ppo(case: Case) -> Mapping[str, Any]:
    current, old, mask = case.leaf("cur_logp"), case.tensor("old_logp"), case.tensor("mask").bool()
    out = clipped_policy_loss(
        current,
        old,
        case.tensor("advantages"),
        mask,
        clip_low=case["eps_low"],
        clip_high=case["eps_high"],
        dual_clip=case.get("dual_clip", None),
        aggregation=_aggregation(case, "token"),
    )
    return {
        "ratio": torch.where(mask, (current - old).exp(), 0.0),
        "surrogate": -out.token_loss,
        "objective": out.objective,
        "loss": out.loss,
        "grad_loss_wrt_cur_logp": lambda: gradient(out.loss, current),
        # where the clip took the gradient away, as wherever the cases and public training code say that a token is clipped
        "clip_fraction": share(out.partials["clip_fraction_binding"]),
        "approx_kl_k3_mean": out.approximate_kl,
        "ratio_mean": out.mean_ratio,
    }


@adapts("ppo_clip ppo_clip_higher ppo_dual_clip", "ratio advantages", "eps_low eps_high", optional="dual_clip")
def ppo_by_ratio(case: Case) -> Mapping[str, Any]:
    ratio, advantages = case.tensor("ratio"), case.tensor("advantages")
    current = logs(ratio)
    bounds = {"clip_low": case["eps_low"], "clip_high": case["eps_high"], "dual_clip": case.get("dual_clip", None)}
    out = clipped_policy_loss(current, torch.zeros_like(current), advantages, torch.ones_like(current), **bounds)
    surrogate = -out.token_loss

    def alone(at: int) -> Any:
        one = [x[at : at + 1] for x in (current, torch.zeros_like(current), advantages, torch.ones_like(current))]
        return clipped_policy_loss(*one, **bounds)

    return {
        "surrogate": surrogate,
        "dsurrogate_dlogp": lambda: gradient(surrogate, current),
        "dsurrogate_dlogp_torch": lambda: gradient(surrogate, current),
        "dsurrogate_dratio_torch": lambda: gradient(surrogate, current) / ratio,
        "clipped": lambda: [bool(alone(i).partials["clip_fraction_binding"].mean()) for i in range(len(ratio))],
        "dual_clipped_strict": lambda: [bool(alone(i).partials["dual_clip_fraction"].mean()) for i in range(len(ratio))],
    }


@adapts("loss_aggregation", "values mask", optional="horizon")
def aggregations(case: Case) -> Mapping[str, Any]:
    values, mask = case.tensor("values"), case.tensor("mask").bool()
    rows = mask.any(1)

    def local(part: slice) -> Tensor:
        return aggregate(values[part], mask[part], aggregation="token")

    return {
        "token": aggregate(values, mask, aggregation="token"),
        "seq_token_mean": aggregate(values, mask, aggregation="sequence_mean"),
        "seq_sum": aggregate(values, mask, aggregation="sequence_sum"),
        "const_horizon": lambda: aggregate(values, mask, aggregation="horizon", horizon=float(case["horizon"])),
        # what others do instead: empty rows counted, and the mean of the token means of ranks {0} and {1, 2, ...}
        "seq_token_mean_counting_empty_rows": aggregate(values, mask, aggregation="sequence_mean") * rows.sum() / len(rows),
        "mean_of_two_local_token_means": lambda: (local(slice(0, 1)) + local(slice(1, None))) / 2,
    }


@adapts("value_loss", "values returns mask", optional="clip", optional_inputs="old_values")
def critic(case: Case) -> Mapping[str, Any]:
    values, targets, mask = case.tensor("values"), case.tensor("returns"), case.tensor("mask").bool()
    clip, old = case.get("clip", None), case.get("old_values", None)
    if clip is not None and old is None:
        raise UnmappedError("a clip without old_values")
    out = value_loss(values, targets, mask, old_values=None if clip is None else tensor(old), clip=clip)
    return {
        "per_token_max_sq": 2 * out.token_loss,
        "loss_half": out.loss,
        "loss_no_half": 2 * out.loss,
        "unclipped_half": value_loss(values, targets, mask).loss,
    }


@adapts("gspo sequence_ratio", "cur_logp old_logp mask")
def sequence_ratios(case: Case) -> Mapping[str, Any]:
    tokens = case.tensor("cur_logp"), case.tensor("old_logp"), case.tensor("mask").bool()
    total, mean = (sequence_log_ratio(*tokens, length_normalize=flag) for flag in (False, True))
    one = total.numel() == 1 and case.method == "sequence_ratio"
    total, mean = (total[0], mean[0]) if one else (total, mean)
    return {
        "sequence_ratio": mean.exp(),
        "sum_log_ratio": total,
        "product_ratio": total.exp(),
        "sum": total,
        "mean": mean,
        "exp_sum": total.exp(),
        "exp_mean": mean.exp(),
    }


@adapts("gspo", "cur_logp old_logp mask advantages", "eps_low eps_high")
def gspo(case: Case) -> Mapping[str, Any]:
    current, old, mask = case.leaf("cur_logp"), case.tensor("old_logp"), case.tensor("mask").bool()
    bounds = {"clip_low": case["eps_low"], "clip_high": case["eps_high"]}
    advantages = case.tensor("advantages")
    out = gspo_policy_loss(current, old, advantages, mask, **bounds)
    token = gspo_token_policy_loss(current, old, advantages, mask, **bounds)
    torch.testing.assert_close(token.loss, out.loss)
    torch.testing.assert_close(gradient(token.loss, current), gradient(out.loss, current))
    lengths = mask.sum(1)
    return {
        "sequence_ratio": out.sequence_ratios,
        "objective": out.objective,
        "grad_objective_wrt_cur_logp": gradient(-out.loss, current),
        "per_sequence": -out.token_loss.sum(1) / lengths,
    }


@adapts("gspo", "token_ratio advantage", "clip")
def gspo_against_grpo(case: Case) -> Mapping[str, Any]:
    case.choice("clip", "none", ("none",))
    current = logs(case.tensor("token_ratio"))
    tokens = current[None], torch.zeros_like(current)[None]
    advantage, mask = tensor([case["advantage"]]), torch.ones_like(current)[None]
    grpo = clipped_policy_loss(*tokens, advantage, mask, aggregation="sequence_mean", **OPEN)
    gspo = gspo_policy_loss(*tokens, advantage, mask, **OPEN)
    return {
        "grpo_d_dlogp": gradient(-grpo.loss, current),
        "gspo_d_dlogp": gradient(-gspo.loss, current),
    }


@adapts("gspo_token", "cur_logp old_logp advantages mask", "eps_low eps_high")
def gspo_token(case: Case) -> Mapping[str, Any]:
    current, old, mask = case.leaf("cur_logp"), case.tensor("old_logp"), case.tensor("mask").bool()
    bounds = {"clip_low": case["eps_low"], "clip_high": case["eps_high"]}
    advantages = case.tensor("advantages")
    out = gspo_token_policy_loss(current, old, advantages, mask, **bounds)

    def averaged() -> Tensor:
        mean = torch.where(mask, advantages, 0.0).sum(1) / mask.sum(1)
        return gradient(gspo_policy_loss(current, old, mean, mask, **bounds).loss, current)

    return {
        "objective": out.objective,
        "grad_loss_wrt_cur_logp": gradient(out.loss, current),
        "grad_loss_if_A_averaged_per_sequence_areal": averaged,
        "sequence_ratio": out.sequence_ratios,
    }


@adapts("sapo", "cur_logp old_logp advantages mask", "tau_pos tau_neg", optional="aggregation")
def sapo(case: Case) -> Mapping[str, Any]:
    current, old, mask = case.leaf("cur_logp"), case.tensor("old_logp"), case.tensor("mask").bool()
    advantages = case.tensor("advantages")

    def run(credit: Tensor) -> Any:
        temperatures = {"tau_positive": case["tau_pos"], "tau_negative": case["tau_neg"]}
        return sapo_policy_loss(current, old, credit, mask, aggregation=_aggregation(case, "seq_token_mean"), **temperatures)

    def gate() -> Tensor:
        """The gate is what is left of a token's gradient without the ratio; of the advantage it depends on the sign only."""
        each = advantages if advantages.ndim == current.ndim else advantages[..., None]
        sign = torch.where(each > 0, 1.0, -1.0).double().expand(current.shape)
        return gradient(-run(sign).token_loss, current) / ((current - old).exp() * sign)

    out = run(advantages)

    return {
        "gate": gate,
        "surrogate": -out.token_loss,
        "objective": out.objective,
        "grad_loss_wrt_cur_logp": gradient(out.loss, current),
        "grad_objective_wrt_cur_logp": gradient(-out.loss, current),
    }


@adapts("sapo", "ratio advantages", "tau_pos tau_neg")
def sapo_by_ratio(case: Case) -> Mapping[str, Any]:
    current = logs(case.tensor("ratio"))
    tokens = current, torch.zeros_like(current), case.tensor("advantages"), torch.ones_like(current)
    out = sapo_policy_loss(*tokens, tau_positive=case["tau_pos"], tau_negative=case["tau_neg"], aggregation="token")
    return {"surrogate": -out.token_loss, "grad": gradient(-out.token_loss, current)}


@adapts("sapo", "z z_large", "tau")
def sapo_variance_bound(case: Case) -> Mapping[str, Any]:
    """`|mean g(z) - g(mean z)| <= tau^2 / 4 Var(z)` for `g(z) = sech^2(tau z / 2)`, the gate with the ratio replaced by its log."""
    tau = case["tau"]

    def smooth(z: Tensor) -> Tensor:
        return torch.cosh(tau * z / 2).pow(-2)

    def exact(z: Tensor) -> Tensor:
        """The real gate: the gradient of the objective without ratio and advantage."""
        current = z.clone().requires_grad_()
        ones = torch.ones_like(z)
        out = sapo_policy_loss(current, torch.zeros_like(z), ones, ones, tau_positive=tau, tau_negative=tau, aggregation="token")
        return gradient(-out.token_loss, current) / z.exp()

    def sides(gate: Any, z: Tensor) -> tuple[Tensor, Tensor]:
        return (gate(z).mean() - gate(z.mean()[None])[0]).abs(), tau**2 / 4 * z.var(correction=0)

    small, large = sides(smooth, case.tensor("z")), sides(smooth, case.tensor("z_large"))

    def worst_of_random() -> Within:
        """Two searches for the tightest point come close to each other, and no search above 1."""
        generator = torch.Generator().manual_seed(0)
        worst = 0.0
        for _ in range(400):
            spread = 10.0 ** (-3.0 * torch.rand(1, generator=generator, dtype=torch.float64))
            lhs, rhs = sides(smooth, spread * torch.randn(4, generator=generator, dtype=torch.float64))
            worst = max(worst, float(lhs / rhs))
        return Within(worst - 1e-2, 1.0)

    def violation() -> dict[str, Any]:
        """The case keeps the point of the violation, an input, beside what comes of it."""
        if case.expected["violation_for_exact_gate"]["tau"] != tau:
            raise UnmappedError("another tau in violation_for_exact_gate")
        z = case.expected["violation_for_exact_gate"]["z"]
        lhs, rhs = sides(exact, tensor(z))
        return {"tau": tau, "z": z, "lhs_over_rhs": lhs / rhs}

    return {
        "lhs": small[0],
        "rhs": small[1],
        "population_variance": bool(torch.isclose(small[1], tau**2 / 4 * case.tensor("z").var(correction=0))),
        "lhs_large": large[0],
        "rhs_large": large[1],
        "max_ratio_found_random": worst_of_random,
        "violation_for_exact_gate": violation,
    }


@adapts("sao", "ratio", "eps_low eps_high")
def trusted_interval(case: Case) -> Mapping[str, Any]:
    bounds = {"clip_low": case["eps_low"], "clip_high": case["eps_high"]}
    if isinstance(case["ratio"], Mapping):
        return _activity(case["ratio"], bounds)
    ratio = case.tensor("ratio")
    trusted = direct_double_sided_mask(ratio, **bounds)
    return {"f": torch.where(trusted, ratio, 0.0), "trusted": trusted}


def _activity(ratios: Mapping[str, float], bounds: Any) -> Mapping[str, Any]:
    """Which tokens have a gradient, under PPO by the sign of the advantage and under SAO's interval."""

    def active(loss: Any, ratio: float, advantage: float) -> bool:
        current = logs(tensor([ratio]))
        out = loss(current, tensor([0.0]), tensor([advantage]), tensor([1.0]), **bounds)
        return bool(gradient(out.loss, current) != 0)

    found = {}
    for place, ratio in ratios.items():
        found[f"ppo_{place}_pos"] = active(clipped_policy_loss, ratio, 1.0)
        found[f"ppo_{place}_neg"] = active(clipped_policy_loss, ratio, -1.0)
        found[f"dis_{place}"] = active(sao_policy_loss, ratio, 1.0)
    return found


@adapts("sao", "ratio", "math coding")
def paper_intervals(case: Case) -> Mapping[str, Any]:
    ratio = case.tensor("ratio")

    def trusted(low: float, high: float) -> Tensor:
        return direct_double_sided_mask(ratio, clip_low=low, clip_high=high)

    return {"math": trusted(*case["math"]), "coding": trusted(*case["coding"])}


@adapts("sao", "cur_logp rollout_logp advantages mask", "eps_low eps_high")
def sao(case: Case) -> Mapping[str, Any]:
    current, rollout, mask = case.leaf("cur_logp"), case.tensor("rollout_logp"), case.tensor("mask").bool()
    advantages = case.tensor("advantages")
    bounds = {"clip_low": case["eps_low"], "clip_high": case["eps_high"]}
    out = sao_policy_loss(current, rollout, advantages, mask, **bounds)
    attached = sao_policy_loss(current, rollout, advantages, mask, detach_ratio=False, **bounds)
    ratio = torch.where(mask, (current - rollout).exp(), 0.0)
    kept = out.trusted_mask
    return {
        "ratio": ratio,
        "weight": torch.where(kept, ratio, 0.0),
        "objective": out.objective,
        "denominator": out.partials["objective"].count,
        "grad_objective_detached": gradient(-out.loss, current),
        "grad_objective_attached": gradient(-attached.loss, current),
        "objective_if_renormalised_over_accepted": lambda: sao_policy_loss(current, rollout, advantages, kept, **bounds).objective,
        "accepted_fraction": 1 - share(out.partials["rejected_fraction"]),
    }


@adapts("cispo", "cur_logp old_logp advantages mask", "lower upper", optional="aggregation")
def cispo(case: Case) -> Mapping[str, Any]:
    current, old, mask = case.leaf("cur_logp"), case.tensor("old_logp"), case.tensor("mask").bool()
    advantages = case.tensor("advantages")

    def weight(lower: float) -> Tensor:
        """What stands in front of A times the score function."""
        out = cispo_policy_loss(current, old, torch.ones_like(current), mask, ratio_min=lower, ratio_max=case["upper"])
        return gradient(-out.token_loss, current)

    out = cispo_policy_loss(
        current,
        old,
        advantages,
        mask,
        ratio_min=case["lower"],
        ratio_max=case["upper"],
        aggregation=_aggregation(case, "token"),
    )
    return {
        "weight": weight(case["lower"]),
        "weight_with_lower_0p8": weight(0.8),
        "objective": out.objective,
        "grad_objective_wrt_cur_logp": gradient(-out.loss, current),
    }


@adapts(
    "decoupled_ppo",
    "behavior_logp prox_logp cur_logp advantages mask",
    "eps_low eps_high",
    optional="behavior_cap cap_inclusive",
)
def decoupled_ppo(case: Case) -> Mapping[str, Any]:
    case.choice("cap_inclusive", "", (True, ""))
    current, proximal, behaviour = case.leaf("cur_logp"), case.tensor("prox_logp"), case.tensor("behavior_logp")
    advantages, mask = case.tensor("advantages"), case.tensor("mask").bool()
    bounds = {"clip_low": case["eps_low"], "clip_high": case["eps_high"]}
    limit = case.get("behavior_cap", None)

    def run(cap: float | None) -> Any:
        return decoupled_policy_loss(current, proximal, behaviour, advantages, mask, behaviour_cap=cap, **bounds)

    def capped() -> Tensor:
        """Where the policy has not moved and the advantage is 1, the surrogate is the weight."""
        ones = torch.ones_like(proximal)
        return -decoupled_policy_loss(proximal, proximal, behaviour, ones, mask, behaviour_cap=limit, **bounds).token_loss

    surrogate = -clipped_policy_loss(current, proximal, advantages, mask, **bounds).token_loss
    return {
        "behavior_weight": torch.where(mask, (proximal - behaviour).exp(), 0.0),
        "behavior_weight_capped": capped,
        "clipped_surrogate": surrogate,
        "objective_capped": run(limit).objective,
        "objective_no_cap": run(None).objective,
        "grad_objective_wrt_cur_logp_capped": gradient(-run(limit).loss, current),
    }
