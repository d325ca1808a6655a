"""Reference cases of other values: policy objectives, their aggregation, and the value loss."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from oracles_cases import Draw, Parts, average, makes, mask_of, token_weights, tokens


def clipped(ratio: np.ndarray, a: np.ndarray, low: float, high: float, dual: float | None) -> tuple[np.ndarray, np.ndarray]:
    """Surrogate and its derivative by the log-probability."""
    value, slope = np.zeros_like(ratio), np.zeros_like(ratio)
    for at in np.ndindex(ratio.shape):
        r, x = float(ratio[at]), float(a[at])
        value[at], slope[at] = min(r * x, min(max(r, 1 - low), 1 + high) * x), r * x
        if value[at] != r * x:
            slope[at] = 0
        if dual is not None and x < 0 and value[at] < dual * x:
            value[at], slope[at] = dual * x, 0
    return value, slope


def ppo(draw: Draw, how: str, dual: float | None) -> Parts:
    current, old, mask = tokens(draw)
    a = draw.standard_normal(current.shape) * 2
    ratio = np.exp(current - old)
    value, slope = clipped(ratio, a, 0.15, 0.3, dual)
    binding = mask & (((ratio > 1.3) & (a > 0)) | ((ratio < 0.85) & (a < 0)))
    objective = average(value, mask, how)
    expected = {
        "ratio": np.where(mask, ratio, 0),
        "surrogate": np.where(mask, value, 0),
        "objective": objective,
        "loss": -objective,
        "grad_loss_wrt_cur_logp": -slope * token_weights(mask, how),
        "clip_fraction": binding.sum() / mask.sum(),
        "approx_kl_k3_mean": average(ratio - 1 - (current - old), mask, "token"),
        "ratio_mean": average(ratio, mask, "token"),
    }
    parameters = {"eps_low": 0.15, "eps_high": 0.3, "aggregation": how} | ({} if dual is None else {"dual_clip": dual})
    return {"old_logp": old, "cur_logp": current, "advantages": a, "mask": mask.astype(int)}, parameters, expected


makes("ppo_clip")(lambda draw: ppo(draw, "token", None))
makes("ppo_clip")(lambda draw: ppo(draw, "seq_token_mean", None))
makes("ppo_clip_higher")(lambda draw: ppo(draw, "seq_sum", None))
makes("ppo_dual_clip")(lambda draw: ppo(draw, "token", 1.5))


@makes("ppo_clip")
def ppo_without_a_name_for_the_mean(draw: Draw) -> Parts:
    inputs, parameters, expected = ppo(draw, "token", None)
    return inputs, {name: parameters[name] for name in ("eps_low", "eps_high")}, {"loss": expected["loss"], "ratio": None}


@makes("ppo_dual_clip")
def ppo_by_ratio(draw: Draw) -> Parts:
    ratio, a = np.exp(draw.standard_normal(9)), draw.standard_normal(9)
    value, slope = clipped(ratio, a, 0.5, 0.75, 2)
    single, _ = clipped(ratio, a, 0.5, 0.75, None)
    expected = {
        "surrogate": value,
        "dsurrogate_dlogp": slope,
        "dsurrogate_dlogp_torch": slope,
        "dsurrogate_dratio_torch": slope / ratio,
        "dual_clipped_strict": (a < 0) & (single < 2 * a),
    }
    return {"ratio": ratio, "advantages": a}, {"eps_low": 0.5, "eps_high": 0.75, "dual_clip": 2}, expected


@makes("ppo_clip")
def ppo_on_its_bounds(draw: Draw) -> Parts:
    """The gradient passes on a bound; ratio and advantages of one sign each."""
    del draw
    ratio, a = np.array([0.4, 0.4, 1.7, 1.7, 0.3, 1.8]), np.array([1, -1, 1, -1, -1, 1])
    value = np.array([0.4, -0.4, 1.7, -1.7, -0.4, 1.7])
    expected = {
        "surrogate": value,
        "clipped": [0, 0, 0, 0, 1, 1],
        "dsurrogate_dlogp": [0.4, -0.4, 1.7, -1.7, 0, 0],
        "dsurrogate_dratio_torch": [1, -1, 1, -1, 0, 0],
    }
    return {"ratio": ratio, "advantages": a}, {"eps_low": 0.6, "eps_high": 0.7}, expected


@makes("loss_aggregation")
def aggregation(draw: Draw) -> Parts:
    values, mask = draw.standard_normal((4, 6)), mask_of([6, 0, 2, 5])
    expected = {
        "token": average(values, mask, "token"),
        "seq_token_mean": average(values, mask, "seq_token_mean"),
        "seq_sum": average(values, mask, "seq_sum"),
        "const_horizon": np.where(mask, values, 0).sum() / (4 * 7),  # the empty row counts
        "seq_token_mean_counting_empty_rows": average(values, mask, "seq_token_mean") * 3 / 4,
        "mean_of_two_local_token_means": (average(values[:1], mask[:1], "token") + average(values[1:], mask[1:], "token")) / 2,
    }
    return {"values": values, "mask": mask}, {"horizon": 7}, expected


@makes("loss_aggregation")
def aggregation_without_horizon(draw: Draw) -> Parts:
    inputs, _, expected = aggregation(draw)
    return inputs, {}, {"token": expected["token"], "seq_sum": expected["seq_sum"]}


def value_squares(draw: Draw, clip: float | None) -> Parts:
    values, old, target = draw.standard_normal((3, 7))
    mask = np.array([1, 1, 0, 1, 1, 0, 1])
    squares = (values - target) ** 2
    inputs = {"values": values, "returns": target, "mask": mask}
    expected: dict[str, Any] = {"unclipped_half": average(squares, mask > 0, "token") / 2}
    if clip is not None:
        squares = np.maximum(squares, (old + np.clip(values - old, -clip, clip) - target) ** 2)
        inputs["old_values"] = old
        expected["per_token_max_sq"] = np.where(mask > 0, squares, 0)
    half = average(squares, mask > 0, "token") / 2
    return inputs, {} if clip is None else {"clip": clip}, expected | {"loss_half": half, "loss_no_half": 2 * half}


makes("value_loss")(lambda draw: value_squares(draw, 0.35))
makes("value_loss")(lambda draw: value_squares(draw, 1))
makes("value_loss")(lambda draw: value_squares(draw, None))


def sequence_ratio(draw: Draw, n: int) -> Parts:
    current, old, mask = tokens(draw, n)
    total = np.where(mask, current - old, 0).sum(1)
    mean = total / mask.sum(1)
    if n == 1:
        expected: dict[str, Any] = {
            "sum": total[0],
            "mean": mean[0],
            "exp_sum": math.exp(total[0]),
            "exp_mean": math.exp(mean[0]),
        }
    else:
        expected = {"sequence_ratio": np.exp(mean), "sum_log_ratio": total, "product_ratio": np.exp(total)}
    return {"cur_logp": current, "old_logp": old, "mask": mask.astype(float)}, {}, expected


makes("gspo")(lambda draw: sequence_ratio(draw, 4))
makes("sequence_ratio")(lambda draw: sequence_ratio(draw, 1))
makes("sequence_ratio")(lambda draw: sequence_ratio(draw, 2))


@makes("gspo")
def gspo(draw: Draw) -> Parts:
    current, old, mask = tokens(draw, 6)
    a = np.array([1.5, -0.5, 1.0, -2.0, 0.0, 2.0])
    ratio = np.exp(np.where(mask, current - old, 0).sum(1) / mask.sum(1))
    value, slope = clipped(ratio, a, 0.1, 0.2, None)
    expected = {
        "sequence_ratio": ratio,
        "objective": value.mean(),
        "per_sequence": value,
        "grad_objective_wrt_cur_logp": slope[:, None] * mask / mask.sum(1, keepdims=True) / 6,
    }
    return {"cur_logp": current, "old_logp": old, "mask": mask, "advantages": a}, {"eps_low": 0.1, "eps_high": 0.2}, expected


@makes("gspo")
def gspo_weights(draw: Draw) -> Parts:
    ratio = np.exp(draw.standard_normal(5))
    mean = np.exp(np.log(ratio).mean())
    expected = {"grpo_d_dlogp": ratio * -3 / 5, "gspo_d_dlogp": np.full(5, mean * -3 / 5)}
    return {"token_ratio": ratio, "advantage": -3}, {"clip": "none"}, expected


@makes("gspo_token")
def gspo_token(draw: Draw) -> Parts:
    current, old, mask = tokens(draw, 3)
    a = draw.standard_normal(current.shape)
    n = mask.sum(1, keepdims=True)
    ratio = np.exp(np.where(mask, current - old, 0).sum(1, keepdims=True) / n)
    value, slope = clipped(np.broadcast_to(ratio, a.shape), a, 0.1, 0.3, None)
    mean = np.where(mask, a, 0).sum(1, keepdims=True) / n
    _, averaged = clipped(ratio, mean, 0.1, 0.3, None)
    expected = {
        "objective": average(value, mask, "seq_token_mean"),
        "grad_loss_wrt_cur_logp": -slope * mask / n / 3,
        "grad_loss_if_A_averaged_per_sequence_areal": -averaged * mask / n / 3,
        "sequence_ratio": ratio[:, 0],
    }
    return {"cur_logp": current, "old_logp": old, "advantages": a, "mask": mask}, {"eps_low": 0.1, "eps_high": 0.3}, expected


def soft(ratio: np.ndarray, a: np.ndarray, positive: float, negative: float) -> tuple[np.ndarray, np.ndarray]:
    """Surrogate and gate."""
    tau = np.where(a > 0, positive, negative)
    return 4 / tau / (1 + np.exp(-tau * (ratio - 1))) * a, np.cosh(tau * (ratio - 1) / 2) ** -2.0


def sapo(draw: Draw, n: int, how: str | None) -> Parts:
    current, old, mask = tokens(draw, n)
    a = draw.standard_normal(current.shape)
    a[0, 0] = 0.0  # contributes nothing, and its gate is still that of a ratio
    ratio = np.exp(current - old)
    value, gate = soft(ratio, a, 2, 3.5)
    slope = gate * ratio * a * token_weights(mask, how or "seq_token_mean")
    expected = {
        "gate": [[float(g) if m else None for g, m in zip(*rows, strict=True)] for rows in zip(gate, mask, strict=True)],
        "surrogate": np.where(mask, value, 0),
        "objective": average(value, mask, how or "seq_token_mean"),
        "grad_loss_wrt_cur_logp": -slope,
        "grad_objective_wrt_cur_logp": slope,
    }
    parameters = {"tau_pos": 2, "tau_neg": 3.5} | ({} if how is None else {"aggregation": how})
    return {"cur_logp": current, "old_logp": old, "advantages": a, "mask": mask}, parameters, expected


makes("sapo")(lambda draw: sapo(draw, 3, None))
makes("sapo")(lambda draw: sapo(draw, 3, "token"))
makes("sapo")(lambda draw: sapo(draw, 1, "seq_sum"))


@makes("sapo")
def sapo_flat_gate(draw: Draw) -> Parts:
    """One row, whose gate is written without the row's brackets."""
    ratio, a = np.exp(draw.standard_normal((1, 3))), draw.standard_normal((1, 3))
    inputs = {"cur_logp": np.log(ratio), "old_logp": np.zeros((1, 3)), "advantages": a, "mask": np.ones((1, 3))}
    return inputs, {"tau_pos": 1, "tau_neg": 2}, {"gate": soft(ratio, a, 1, 2)[1][0]}


@makes("sapo")
def sapo_by_ratio(draw: Draw) -> Parts:
    ratio, a = np.exp(draw.standard_normal(6)), draw.standard_normal(6)
    value, gate = soft(ratio, a, 0.5, 0.75)
    return {"ratio": ratio, "advantages": a}, {"tau_pos": 0.5, "tau_neg": 0.75}, {"surrogate": value, "grad": gate * ratio * a}


@makes("sapo")
def sapo_bound(draw: Draw) -> Parts:
    z, large, tau = draw.standard_normal(3) / 10, draw.standard_normal(5), 2

    def gap(x: np.ndarray, gate: Callable[[np.ndarray], np.ndarray]) -> float:
        return float(abs(gate(x).mean() - gate(x.mean())))

    def smooth(x: np.ndarray) -> np.ndarray:
        return np.cosh(tau * x / 2) ** -2.0

    pair = np.array([0.7, 0.9])
    exact = gap(pair, lambda x: np.cosh(tau * (np.exp(x) - 1) / 2) ** -2.0)
    expected = {
        "lhs": gap(z, smooth),
        "rhs": tau**2 / 4 * z.var(),
        "population_variance": True,
        "lhs_large": gap(large, smooth),
        "rhs_large": tau**2 / 4 * large.var(),
        "violation_for_exact_gate": {"tau": tau, "z": pair, "lhs_over_rhs": exact / (tau**2 / 4 * pair.var())},
        "max_ratio_found_random": 0.9998,
    }
    return {"z": z, "z_large": large}, {"tau": tau}, expected


@makes("sao")
def sao_interval(draw: Draw) -> Parts:
    ratio = np.concatenate([np.exp(draw.standard_normal(6)), [0.5, 3.0]])
    kept = (ratio > 0.5) & (ratio < 3)
    return {"ratio": ratio}, {"eps_low": 0.5, "eps_high": 2}, {"f": np.where(kept, ratio, 0), "trusted": kept}


@makes("sao")
def sao_ranges(draw: Draw) -> Parts:
    ratio = np.exp(draw.standard_normal(8))
    expected = {"math": (ratio > 0.5) & (ratio < 2), "coding": ((ratio > 0.25) & (ratio < 5)).astype(int)}
    return {"ratio": ratio}, {"math": [0.5, 1], "coding": [0.75, 4]}, expected


@makes("sao")
def sao_activity(draw: Draw) -> Parts:
    del draw
    expected: dict[str, Any] = {}
    for place, pos, neg, dis in (("low", 1, 0, 0), ("one", 1, 1, 1), ("high", 0, 1, 0)):
        expected |= {f"ppo_{place}_pos": bool(pos), f"ppo_{place}_neg": bool(neg), f"dis_{place}": bool(dis)}
    return {"ratio": {"low": 0.1, "one": 1, "high": 7}}, {"eps_low": 0.3, "eps_high": 0.4}, expected


@makes("sao")
def sao(draw: Draw) -> Parts:
    current, old, mask = tokens(draw, 2)
    a = draw.standard_normal(current.shape)
    ratio = np.exp(current - old)
    kept = mask & (ratio > 0.75) & (ratio < 1.25)
    kept[0, np.flatnonzero(mask[0])[0]] = mask[0].any()
    current[0, np.flatnonzero(mask[0])[0]] = old[0, np.flatnonzero(mask[0])[0]] + 0.01
    ratio = np.exp(current - old)
    objective = np.where(kept, ratio * a * current, 0).sum()
    expected = {
        "ratio": np.where(mask, ratio, 0),
        "weight": np.where(kept, ratio, 0),
        "objective": objective / mask.sum(),
        "denominator": int(mask.sum()),
        "grad_objective_detached": np.where(kept, ratio * a, 0) / mask.sum(),
        "grad_objective_attached": np.where(kept, ratio * a * (1 + current), 0) / mask.sum(),
        "objective_if_renormalised_over_accepted": objective / kept.sum(),
        "accepted_fraction": kept.sum() / mask.sum(),
    }
    inputs = {"cur_logp": current, "rollout_logp": old, "advantages": a, "mask": mask}
    return inputs, {"eps_low": 0.25, "eps_high": 0.25}, expected


def cispo(draw: Draw, lower: float, how: str) -> Parts:
    current, old, mask = tokens(draw, 3, spread=0.8)
    a = draw.standard_normal(current.shape)
    a[0] = 0.0
    ratio = np.exp(current - old)
    weight = np.clip(ratio, lower, 2)

    def shown(w: np.ndarray) -> list[list[float | None]]:
        return [[float(x) if m else None for x, m in zip(*rows, strict=True)] for rows in zip(w, mask, strict=True)]

    expected = {
        "weight": shown(weight),
        "weight_with_lower_0p8": shown(np.clip(ratio, 0.8, 2)),
        "objective": average(weight * a * current, mask, how),
        "grad_objective_wrt_cur_logp": weight * a * token_weights(mask, how),
    }
    inputs = {"cur_logp": current, "old_logp": old, "advantages": a, "mask": mask}
    return inputs, {"lower": lower, "upper": 2, "aggregation": how}, expected


makes("cispo")(lambda draw: cispo(draw, 0.5, "token"))
makes("cispo")(lambda draw: cispo(draw, 0, "seq_token_mean"))


def decoupled(draw: Draw, inclusive: dict[str, Any]) -> Parts:
    current, proximal, mask = tokens(draw, 2)
    behaviour = proximal + 0.8 * draw.standard_normal(proximal.shape)
    a = draw.standard_normal(current.shape)
    a[1, 1] = 0.0
    weight = np.exp(proximal - behaviour)
    capped = np.where(weight <= 1.5, weight, 0)
    value, slope = clipped(np.exp(current - proximal), a, 0.1, 0.25, None)

    def shown(w: np.ndarray) -> list[list[float | None]]:
        return [[float(x) if m else None for x, m in zip(*rows, strict=True)] for rows in zip(w, mask, strict=True)]

    expected = {
        "behavior_weight": shown(weight),
        "behavior_weight_capped": shown(capped),
        "clipped_surrogate": shown(value),
        "objective_capped": average(capped * value, mask, "token"),
        "objective_no_cap": average(weight * value, mask, "token"),
        "grad_objective_wrt_cur_logp_capped": capped * slope * mask / mask.sum(),
    }
    inputs = {"behavior_logp": behaviour, "prox_logp": proximal, "cur_logp": current, "advantages": a, "mask": mask}
    return inputs, {"eps_low": 0.1, "eps_high": 0.25, "behavior_cap": 1.5, **inclusive}, expected


makes("decoupled_ppo")(lambda draw: decoupled(draw, {}))
makes("decoupled_ppo")(lambda draw: decoupled(draw, {"cap_inclusive": True}))


@makes("decoupled_ppo")
def decoupled_without_a_cap(draw: Draw) -> Parts:
    inputs, parameters, expected = decoupled(draw, {})
    del parameters["behavior_cap"]
    return inputs, parameters, {name: expected[name] for name in ("behavior_weight", "clipped_surrogate", "objective_no_cap")}
