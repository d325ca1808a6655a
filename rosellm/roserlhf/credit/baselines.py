"""Baselines without a group: the mean of a task's last rewards, for single rollouts, and the best constant, for teaching."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.credit.identifiers import integer_ids
from rosellm.roserlhf.credit.members import Ids, read_scored
from rosellm.roserlhf.errors import CheckpointError, DtypeError, NonFiniteError, RangeError, ShapeError
from rosellm.roserlhf.masked import at_least_float32


class RunningMeanBaseline:
    r"""Subtract from a reward the mean of the last rewards of its task, for one rollout per task at a time.

    .. math:: A_i = R_i - \frac1m \sum_{k=1}^{m} R_{i-k},\qquad m = \min(\text{window}, \text{rewards of the task so far})

    The reward that is judged is never part of its own baseline. The first reward of a task is measured against `initial`, a
    convention. *The order of the rows is the order of time*, across calls, too: sort a batch by the order in which its rollouts
    finished, or in any fixed order, before. The baseline lags behind the policy by up to `window` rollouts of the task.

    In the paper's ablation (window 8) this is weaker than a trained critic; it is here to be compared with.

    Source: Hou et al. 2026, "Single-Rollout Asynchronous Optimization", ablation of the critic, https://arxiv.org/abs/2607.07508

    Args:
        window: how many rewards of a task count, ≥ 1.
        initial: baseline of a task that has no reward yet.

    Example:
        >>> baseline = RunningMeanBaseline(window=2)
        >>> baseline.advantages(torch.tensor([1.0, 0.0, 0.0, 1.0]), ["shop-1"] * 4)  # minus 0, 1, (1 + 0) / 2, (0 + 0) / 2
        tensor([ 1.0000, -1.0000, -0.5000,  1.0000])
        >>> baseline.state_dict()
        {'rewards': [['shop-1', [0.0, 1.0]]]}
    """

    def __init__(self, window: int = 8, initial: float = 0.0) -> None:
        checks.count(window, "window", at_least=1)
        checks.number_in(initial, "initial", -math.inf, math.inf, open_low=True, open_high=True)
        self.window = window
        self.initial = float(initial)
        self._rewards: dict[str | int, deque[float]] = {}

    def baseline(self, task_id: str | int | np.integer[Any]) -> float:
        """Return what the next reward of the task will be measured against."""
        last = self._rewards.get(_task_key(task_id))
        return _mean(last) if last else self.initial

    def advantages(self, rewards: Tensor, task_ids: Ids, *, scored_mask: Tensor | None = None) -> Tensor:
        """Measure the rewards in their order and remember them.

        Args:
            rewards: `[N]`, floating point, in the order of time.
            task_ids: `[N]`, strings or integers (a state dict must hold them): list, tuple, array or integer tensor.
            scored_mask: `[N]`, boolean or exactly 0/1; a row that is not scored has advantage 0 and is not remembered. Use it as
                row mask of the loss, too.

        Returns:
            `[N]`, detached; float32, or float64 for float64 `rewards`.

        Raises:
            DtypeError, ShapeError, DeviceError, MaskError: the arguments are of the wrong kind or do not fit each other.
            NonFiniteError: NaN or infinity in a scored reward. Nothing is remembered then.
        """
        checks.floating(rewards, "rewards")
        if rewards.ndim != 1:
            raise checks.fail(ShapeError, "rewards", "have 1 dimension, one reward per row", f"shape {tuple(rewards.shape)}")
        checks.holds_data(rewards, "rewards")
        tasks = _task_keys(task_ids, len(rewards))
        mask = read_scored(scored_mask, rewards)
        scored = [True] * len(rewards) if mask is None else mask.tolist()
        values = rewards.detach().tolist()
        for value, counts in zip(values, scored, strict=True):
            if counts and not math.isfinite(value):
                raise checks.fail(NonFiniteError, "rewards", "be finite wherever a row is scored", value)
        found = [self._next(task, value) if counts else 0.0 for task, value, counts in zip(tasks, values, scored, strict=True)]
        return torch.tensor(found, dtype=at_least_float32(rewards).dtype, device=rewards.device)

    def _next(self, task: str | int, reward: float) -> float:
        last = self._rewards.setdefault(task, deque(maxlen=self.window))
        before = _mean(last) if last else self.initial
        last.append(reward)
        return reward - before

    def state_dict(self) -> dict[str, Any]:
        """Return the remembered rewards as plain data for JSON: pairs, for an object's keys would turn integers into strings."""
        return {"rewards": [[task, list(last)] for task, last in self._rewards.items()]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Replace what is remembered; of more than `window` rewards the last ones are kept.

        Raises:
            CheckpointError: the state was not written by `state_dict`.
        """
        try:
            remembered = self._remembered(state)
        except (ValueError, TypeError, KeyError, OverflowError) as error:
            raise checks.fail(CheckpointError, "state", "be what state_dict returned", f"{state!r:.80}") from error
        self._rewards = remembered

    def _remembered(self, state: Mapping[str, Any]) -> dict[str | int, deque[float]]:
        found: dict[str | int, deque[float]] = {}
        for task, rewards in state["rewards"]:
            numbers = [float(reward) for reward in rewards if type(reward) in (int, float)]
            if len(numbers) < len(rewards) or not all(map(math.isfinite, numbers)) or _task_key(task) in found:
                raise ValueError(task)
            found[_task_key(task)] = deque(numbers, maxlen=self.window)
        return found


def _mean(rewards: deque[float]) -> float:
    try:
        return math.fsum(rewards) / len(rewards)
    except OverflowError:
        return math.fsum(reward / len(rewards) for reward in rewards)


def _task_keys(task_ids: Ids, count: int) -> list[str | int]:
    integer_ids(task_ids, "task_ids", count)  # for its checks
    return [_task_key(task) for task in (task_ids.tolist() if isinstance(task_ids, (Tensor, np.ndarray)) else task_ids)]


def _task_key(task_id: object) -> str | int:
    """Return an id that survives JSON."""
    if isinstance(task_id, np.generic):
        task_id = task_id.item()
    if isinstance(task_id, bool) or not isinstance(task_id, (str, int)):
        raise checks.fail(DtypeError, "task_ids", "be strings or integers", f"{task_id!r:.80} ({type(task_id).__name__})")
    return task_id


@torch.no_grad()
def variance_optimal_baseline(rewards: Tensor, squared_score_norms: Tensor, *, weights: Tensor | None = None) -> Tensor:
    r"""Return the constant that makes the variance of the policy gradient smallest; it is not the mean reward.

    .. math:: b^* = \frac{\mathbb E\,[\,\lVert\nabla\log\pi(a)\rVert^2 R(a)\,]}{\mathbb E\,[\,\lVert\nabla\log\pi(a)\rVert^2\,]}

    The minimum over b of the trace of the covariance of :math:`(R-b)\,\nabla\log\pi`. Any constant leaves the gradient's mean as it
    is; one estimated from the same samples does not. It needs the norm of every sample's gradient, which training does not have:
    the function is for teaching and for small exact problems.

    Source: Greensmith, Bartlett and Baxter 2004, "Variance Reduction Techniques for Gradient Estimates in Reinforcement Learning",
    https://www.jmlr.org/papers/v5/greensmith04a.html

    Args:
        rewards: `[N]`, floating point, finite.
        squared_score_norms: `[N]`, floating point, ≥ 0: squared norm of the gradient of each sample's log-probability.
        weights: `[N]`, floating point, ≥ 0: probabilities of an enumeration; None: samples, all alike.

    Returns:
        0-d, detached; float32, or float64 for float64 `rewards`.

    Raises:
        DtypeError, ShapeError, DeviceError: the arguments are of the wrong kind or do not fit each other.
        NonFiniteError: a reward is NaN or infinite.
        RangeError: a norm or weight is negative or not finite, or all of their products are 0: then every constant is as good.

    Example:
        >>> p = torch.tensor([0.5, 0.5])  # two arms: the score of arm a is e_a - p, of squared norm 1/2
        >>> variance_optimal_baseline(torch.tensor([0.0, 1.0]), torch.tensor([0.5, 0.5]), weights=p)
        tensor(0.5000)
    """
    checks.floating(rewards, "rewards")
    checks.finite(rewards, "rewards")
    shares = _not_negative(squared_score_norms, "squared_score_norms", rewards)
    if weights is not None:
        shares = shares * _not_negative(weights, "weights", rewards)
    total = shares.sum()
    checks.each(
        "squared_score_norms", "be positive somewhere, where its weight is positive, too", lambda: (total, total <= 0), RangeError
    )
    return ((shares * rewards).sum() / total).to(at_least_float32(rewards).dtype)


def _not_negative(values: Tensor, argument: str, rewards: Tensor) -> Tensor:
    checks.floating(values, argument)
    checks.same_shape(values, argument, rewards, "rewards")
    checks.each(argument, "be finite and at least 0", lambda: (values, ~(values.isfinite() & (values >= 0))), RangeError)
    return values.double()
