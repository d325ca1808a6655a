"""Adapters: mismatch corrections and KL estimators."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from rosellm.roserlhf.losses import icepop, kl_estimate, mismatch_correction, opsm, tis

from .case import Case, adapts, gradient, logs

OPEN = 1e9


def _tokens(log_ratio: Tensor) -> tuple[Tensor, Tensor]:
    """Proximal and behaviour log-probabilities with that log-ratio."""
    return log_ratio, torch.zeros_like(log_ratio)


@adapts("tis", "rho", "C")
def truncated(case: Case) -> Mapping[str, Any]:
    rho = case.tensor("rho")
    return {"weight": tis(*_tokens(logs(rho)), torch.ones_like(rho), cap=case["C"]).weights}


@adapts("tis", "log_rho mask", "C")
def truncated_sequences(case: Case) -> Mapping[str, Any]:
    log_rho, mask = case.tensor("log_rho"), case.tensor("mask").bool()

    def at(level: Any) -> Tensor:
        return mismatch_correction(*_tokens(log_rho), mask, level=level, action="truncate", ratio_max=case["C"]).weights.amax(1)

    return {"product_truncated": at("product_sequence"), "geometric_truncated": at("geometric_sequence")}


@adapts("icepop", "rho", "alpha beta")
def interval(case: Case) -> Mapping[str, Any]:
    rho = case.tensor("rho")
    found = icepop(*_tokens(logs(rho)), torch.ones_like(rho), ratio_min=case["alpha"], ratio_max=case["beta"])
    return {"weight": found.weights, "keep": found.keep_mask}


@adapts("mis", "log_rho mask", "upper")
def masked_sequences(case: Case) -> Mapping[str, Any]:
    log_rho, mask = case.tensor("log_rho"), case.tensor("mask").bool()

    def at(level: Any, ratio_max: float) -> Any:
        return mismatch_correction(
            *_tokens(log_rho), mask, level=level, action="mask", ratio_min=0.0, ratio_max=ratio_max, bounds="closed"
        )

    kl = kl_estimate(torch.zeros_like(log_rho), log_rho, estimator="k3")  # rho - 1 - log rho
    return {
        "product": at("product_sequence", OPEN).weights.amax(1),
        "geometric": at("geometric_sequence", OPEN).weights.amax(1),
        "max_token": at("token", OPEN).weights.amax(1),
        "keep_product": at("product_sequence", case["upper"]).keep_mask.any(1),
        "keep_geometric": at("geometric_sequence", case["upper"]).keep_mask.any(1),
        "mean_k3": torch.where(mask, kl, 0.0).sum(1) / mask.sum(1),
    }


@adapts("opsm", "mean_log_old_minus_cur advantages", "delta")
def off_policy_sequences(case: Case) -> Mapping[str, Any]:
    old = case.tensor("mean_log_old_minus_cur")[:, None]
    found = opsm(torch.zeros_like(old), old, case.tensor("advantages"), torch.ones_like(old), delta=case["delta"])
    return {"keep": found.keep_mask[:, 0]}


@adapts("kl_estimators", "log_pi_minus_log_ref")
def estimators(case: Case) -> Mapping[str, Any]:
    current = case.leaf("log_pi_minus_log_ref")

    def at(name: Any) -> Tensor:
        with warnings.catch_warnings():  # which tells what the expected gradient of k1 and k3 is
            warnings.simplefilter("ignore", UserWarning)
            return kl_estimate(current, torch.zeros_like(current), estimator=name)

    return {name: at(name) for name in ("k1", "k2", "k3")} | {
        f"d{name}_dlogp": gradient(at(name), current) for name in ("k1", "k2", "k3")
    }


@adapts("kl_unbiased", "log_pi_minus_ref ratio_pi_over_old")
def importance_weighted(case: Case) -> Mapping[str, Any]:
    current = case.tensor("log_pi_minus_ref")
    k3 = kl_estimate(current, torch.zeros_like(current), estimator="k3")
    return {"k3": k3, "ratio_k3": case.tensor("ratio_pi_over_old") * k3}


@adapts("kl_regularized", "reference rewards", "beta")
def regularized_optimum(case: Case) -> Mapping[str, Any]:
    """`pi* = ref exp(r / beta) / Z`; its value is `beta log Z`, and beta times its log-ratio gives the rewards back."""
    reference, rewards, beta = case.tensor("reference"), case.tensor("rewards"), case["beta"]
    policy = (reference.log() + rewards / beta).softmax(-1)
    kl = (policy * kl_estimate(policy.log(), reference.log(), estimator="k1")).sum()
    value = policy @ rewards - beta * kl
    return {
        "policy": policy,
        "value": value,
        "implicit_reward": beta * kl_estimate(policy.log(), reference.log(), estimator="k1") + value,
    }
