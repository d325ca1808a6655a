"""Reference cases of other values: mismatch corrections, KL estimators, distillation and preferences."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from oracles_cases import Draw, Parts, makes


@makes("tis")
def tis(draw: Draw) -> Parts:
    rho = np.exp(draw.standard_normal(6))
    return {"rho": rho}, {"C": 1}, {"weight": np.minimum(rho, 1)}


def log_rho(draw: Draw) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The first token of the second row is masked."""
    x, mask = draw.standard_normal((3, 4)) / 2, np.array([[1, 1, 1, 0], [0, 1, 1, 1], [0, 0, 1, 0]])
    total = np.where(mask > 0, x, 0).sum(1)
    return x, mask, np.exp(total), np.exp(total / mask.sum(1))


@makes("tis")
def tis_sequences(draw: Draw) -> Parts:
    x, mask, product, geometric = log_rho(draw)
    expected = {"product_truncated": np.minimum(product, 1.1), "geometric_truncated": np.minimum(geometric, 1.1)}
    return {"log_rho": x, "mask": mask}, {"C": 1.1}, expected


@makes("icepop")
def icepop(draw: Draw) -> Parts:
    """Closed at both ends, also where no logarithm of a bound comes back as that bound."""
    rho = np.concatenate([np.exp(draw.standard_normal(5)), [0.3, 3.0]])
    keep = (rho >= 0.3) & (rho <= 3)
    return {"rho": rho}, {"alpha": 0.3, "beta": 3}, {"weight": np.where(keep, rho, 0), "keep": keep}


@makes("mis")
def mis(draw: Draw) -> Parts:
    x, mask, product, geometric = log_rho(draw)
    k3 = np.where(mask > 0, np.exp(x) - 1 - x, 0).sum(1) / mask.sum(1)
    expected = {
        "product": product,
        "geometric": geometric,
        "max_token": np.where(mask > 0, np.exp(x), 0).max(1),
        "keep_product": product <= 1.05,
        "keep_geometric": geometric <= 1.05,
        "mean_k3": k3,
    }
    return {"log_rho": x, "mask": mask}, {"upper": 1.05}, expected


@makes("opsm")
def opsm(draw: Draw) -> Parts:
    x, a = np.append(draw.standard_normal(6), 0.3), np.append(draw.standard_normal(6), -1)
    return {"mean_log_old_minus_cur": x, "advantages": a}, {"delta": 0.3}, {"keep": ~((a < 0) & (x > 0.3))}


@makes("kl_estimators")
def kl(draw: Draw) -> Parts:
    x = draw.standard_normal(6)
    expected = {
        "k1": x,
        "k2": x**2 / 2,
        "k3": np.exp(-x) - 1 + x,
        "dk1_dlogp": [1] * 6,
        "dk2_dlogp": x,
        "dk3_dlogp": 1 - np.exp(-x),
    }
    return {"log_pi_minus_log_ref": x}, {}, expected


@makes("kl_unbiased")
def weighted_kl(draw: Draw) -> Parts:
    x, ratio = draw.standard_normal((2, 5))
    k3, ratio = np.exp(-x) - 1 + x, np.exp(ratio)
    return {"log_pi_minus_ref": x, "ratio_pi_over_old": ratio}, {}, {"k3": k3, "ratio_k3": ratio * k3}


@makes("kl_regularized")
def optimum(draw: Draw) -> Parts:
    reference, r, beta = draw.dirichlet(np.ones(5)), draw.standard_normal(5), 2
    tilted = reference * np.exp(r / beta)
    expected = {"policy": tilted / tilted.sum(), "value": beta * math.log(tilted.sum()), "implicit_reward": r}
    return {"reference": reference, "rewards": r}, {"beta": beta}, expected


def softmax(x: np.ndarray) -> np.ndarray:
    found: np.ndarray = np.exp(x) / np.exp(x).sum()
    return found


@makes("opd")
def opd(draw: Draw) -> Parts:
    student, teacher = draw.standard_normal((2, 5))
    p, e = softmax(student), softmax(teacher)
    gap = np.log(p / e)
    exact = p * (gap - p @ gap)
    expected = {
        "exact_reverse_kl": p @ gap,
        "grad_exact_wrt_logits": exact,
        "grad": exact,
        "sampled_k1": gap[1],
        "sampled_policy_gradient_direction": -gap[1] * (np.eye(5)[1] - p),
        "expected_policy_gradient": -exact,
        "expected_grad_if_k1_backpropagated": [0] * 5,
    }
    return {"student_logits": student, "teacher_logits": teacher, "sampled_token": 1}, {}, expected


@makes("mopd")
def mopd(draw: Draw) -> Parts:
    student, teachers, w = draw.standard_normal(5), draw.standard_normal((3, 5)), np.array([0.5, 0.2, 0.3])
    p = softmax(student)
    logs = np.log([softmax(one) for one in teachers])
    mixture = np.exp(w @ logs)
    gap = np.log(p) - w @ logs
    expected = {
        "loss": p @ gap,
        "grad_wrt_logits": p * (gap - p @ gap),
        "log_Z_geometric": math.log(mixture.sum()),
        "optimum": mixture / mixture.sum(),
        "loss_at_optimum": -math.log(mixture.sum()),
    }
    return {"student_logits": student, "teacher_logits": teachers, "weights": w}, {}, expected


def dpo(draw: Draw, n: int | None, beta: float) -> Parts:
    x = -5 * draw.random((4, n or 1))
    h = (x[0] - x[2]) - (x[1] - x[3])
    sigma = 1 / (1 + np.exp(beta * h))
    pulls = np.stack([-beta * sigma, beta * sigma], 1) / len(h)
    kept = -np.log(1 - sigma).mean()
    inputs: dict[str, Any] = dict(zip(("chosen_logp", "rejected_logp", "ref_chosen_logp", "ref_rejected_logp"), x, strict=True))
    rewards = beta * np.stack([x[0] - x[2], x[1] - x[3]], 1)
    expected = {
        "h": h,
        "loss": kept,
        "grad_wrt_chosen_rejected": pulls,
        "implicit_rewards": rewards,
        "loss_label_smoothing_0p1": 0.9 * kept - 0.1 * np.log(sigma).mean(),
        "ipo_loss": ((h - 1 / (2 * beta)) ** 2).mean(),
    }
    if n is None:
        inputs = {name: value[0] for name, value in inputs.items()}
        expected |= {name: expected[name][0] for name in ("h", "grad_wrt_chosen_rejected", "implicit_rewards")}
    return inputs, {"beta": beta}, expected


makes("dpo")(lambda draw: dpo(draw, None, 0.5))
makes("dpo")(lambda draw: dpo(draw, 3, 1))
