"""Advantage estimation against the obvious loop over time, which is frozen here."""

from __future__ import annotations

from collections.abc import Callable

import torch
from kernels_measure import Results, entry, medians_ms
from torch import Tensor

from rosellm.roserlhf.advantages import generalized_advantage_estimation

REPEATS = 9


def masked_loop(
    rewards: Tensor, values: Tensor, terminated: Tensor, valid: Tensor, bootstrap: Tensor, gamma: float, lam: float
) -> tuple[Tensor, Tensor]:
    """The obvious estimator: backwards over time, all rows at once, masked steps carried across. Frozen; do not speed it up."""
    advantage, next_value = torch.zeros_like(bootstrap), bootstrap
    advantages = []
    for t in reversed(range(rewards.shape[-1])):
        running = 1.0 - terminated[:, t].to(rewards.dtype)
        error = rewards[:, t] + gamma * next_value * running - values[:, t]
        estimate = error + gamma * lam * running * advantage
        advantage = torch.where(valid[:, t], estimate, advantage)
        next_value = torch.where(valid[:, t], values[:, t], next_value)
        advantages.append(torch.where(valid[:, t], advantage, 0.0))
    stacked = torch.stack(advantages[::-1], dim=1)
    return stacked, torch.where(valid, stacked + values, 0.0)


def agent_rows(rows: int, steps: int) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Rows of one prompt, actions and observations of 16 to 64 tokens in turns, and padding; a reward at the last action."""
    generator = torch.Generator().manual_seed(0)
    place = torch.arange(steps)
    lengths = torch.randint(steps // 2, steps + 1, (rows, 1), generator=generator)
    widths = torch.randint(16, 65, (rows, 1), generator=generator)
    valid = place < lengths
    acts = valid & ((place // widths) % 2 == 1)
    last = acts & (place == (place * acts).amax(-1, keepdim=True))
    rewards = torch.where(last, torch.randn(rows, 1, generator=generator), 0.0)
    values = torch.rand(rows, steps, generator=generator)
    terminated = last & (torch.rand(rows, 1, generator=generator) < 0.7)
    return rewards, values, terminated, valid, acts, torch.rand(rows, generator=generator)


def gae() -> Results:
    """Advantage estimation against the loop over time, and skipping observations against not knowing of any."""
    return gae_of_size(64, 2048, 25.0) | gae_of_size(512, 4096, 12.0)


def gae_of_size(rows: int, steps: int, times_faster: float) -> Results:
    """Measure one size; where rewards come late they stand on the last token of a row, which is mostly no action."""
    rewards, values, terminated, valid, acts, bootstrap = agent_rows(rows, steps)
    gamma, lam = 1.0, 0.95
    place = torch.arange(steps)
    late = torch.where(place == (place * valid).amax(-1, keepdim=True), 1.0, 0.0)

    def ours(paid: Tensor = rewards, action_mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        return generalized_advantage_estimation(
            paid,
            values,
            gamma=gamma,
            gae_lambda=lam,
            terminated=terminated,
            valid_mask=valid,
            action_mask=action_mask,
            bootstrap_value=bootstrap,
        )

    exact = masked_loop(rewards.double(), values.double(), terminated, valid, bootstrap.double(), gamma, lam)
    error = max((mine - theirs).abs().max().item() for mine, theirs in zip(ours(), exact, strict=True))
    of_loop, of_plain = medians_ms(REPEATS, (lambda: masked_loop(rewards, values, terminated, valid, bootstrap, gamma, lam), ours))
    without, of_skip, of_moving = medians_ms(5 * REPEATS, (ours, lambda: ours(action_mask=acts), lambda: ours(late, acts)))
    size = f"{rows}x{steps}"
    return {
        f"gae_{size}_times_faster_than_loop": entry(of_loop / of_plain, at_least=times_faster),
        f"gae_{size}_ms": entry(of_plain),
        f"gae_{size}_loop_ms": entry(of_loop),
        f"gae_{size}_error": entry(error, at_most=2e-6),
        f"skip_gae_{size}_of_plain": entry(of_skip / without, at_most=2.0),
        f"skip_gae_{size}_moving_rewards_of_plain": entry(of_moving / without),
    }


BENCHMARKS: list[Callable[[], Results]] = [gae]
