"""A budget for a cost -> the multiplier that enforces it, and advantages that respect it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.errors import CheckpointError, ConfigError, RangeError, RoseError
from rosellm.roserlhf.masked import Partial, at_least_float32, partial


class LagrangeMultiplier:
    r"""Hold the price of a cost, raise it while the cost is over its budget, lower it while it is under.

    .. math::
        \max_\pi \min_{\lambda\ge 0}\ J_R - \lambda\,(J_C - d),\qquad
        \lambda \leftarrow \max\big(0,\ \lambda + \eta\,(\bar C - d)\big)

    :math:`\bar C` is the mean cost of the rollouts of a batch, d the `budget`, :math:`\eta` the `learning_rate`. At
    :math:`\bar C = d` nothing changes; a batch without a scored cost changes nothing. The multiplier is a number: no gradient flows
    through it. Update it once per batch, and take advantages and update from the same batch in a fixed order.

    Source: Altman 1999, "Constrained Markov Decision Processes"; for language models Dai et al. 2023, "Safe RLHF",
    https://arxiv.org/abs/2310.12773

    Args:
        budget: d, allowed mean cost per rollout, finite.
        learning_rate: :math:`\eta` > 0.
        initial: first value of the multiplier, ≥ 0.

    Example:
        >>> price = LagrangeMultiplier(budget=0.5, learning_rate=0.5, initial=1.0)
        >>> price.update(torch.tensor([1.0, 1.0, 0.0, 1.0]))  # 1 + 0.5 * (0.75 - 0.5)
        1.125
        >>> price.combine(torch.tensor([1.0, -1.0]), torch.tensor([0.0, 2.0]))  # A_R - 1.125 A_C
        tensor([ 1.0000, -3.2500])
    """

    def __init__(self, budget: float, learning_rate: float, initial: float = 0.0) -> None:
        checks.number_in(budget, "budget", -math.inf, math.inf, open_low=True, open_high=True)
        checks.number_in(learning_rate, "learning_rate", 0.0, math.inf, open_low=True, open_high=True)
        checks.number_in(initial, "initial", 0.0, math.inf, open_high=True)
        self.budget = float(budget)
        self.learning_rate = float(learning_rate)
        self.value = float(initial)

    def update(self, costs: Tensor | Partial, *, scored_mask: Tensor | None = None) -> float:
        """Take one dual step on the mean cost and return the new multiplier.

        Args:
            costs: `[N]` (any shape), floating point, one per rollout; or the `Partial(sum, count)` of all ranks together, so that
                every rank takes the same step.
            scored_mask: shape of `costs`, boolean or exactly 0/1; costs that were not scored are not read. None: all scored.

        Returns:
            The multiplier after the step; unchanged if nothing was scored.

        Raises:
            DtypeError, ShapeError, DeviceError, MaskError: the arguments are of the wrong kind or do not fit each other.
            NonFiniteError: NaN or infinity in a scored cost.
            RangeError: a `Partial` counts less than nothing, or the step leads to infinity; the multiplier stays as it was.
            ConfigError: `scored_mask` would be ignored, because `costs` are a `Partial`.
        """
        if isinstance(costs, Partial) and scored_mask is not None:
            fix = "count scored costs only, or give the costs themselves"
            raise checks.fail(ConfigError, "scored_mask", "be left out when costs are a Partial", "a mask", fix=fix)
        total = costs if isinstance(costs, Partial) else self._partial(costs, scored_mask)
        checks.holds_data(total.count, "costs")
        count = float(total.count)
        if not 0 <= count < math.inf:
            raise checks.fail(RangeError, "costs", "have a count of at least 0", count)
        if count > 0:
            checks.finite(total.sum, "costs")
            value = max(0.0, self.value + self.learning_rate * (float(total.sum) / count - self.budget))
            if not math.isfinite(value):
                raise checks.fail(RangeError, "costs", "leave the multiplier finite", value, fix="take a smaller learning_rate")
            self.value = value
        return self.value

    @staticmethod
    def _partial(costs: Tensor, scored_mask: Tensor | None) -> Partial:
        checks.floating(costs, "costs")
        scored = torch.ones_like(costs, dtype=torch.bool)
        if scored_mask is not None:
            checks.tensor(scored_mask, "scored_mask")
            checks.same_shape(scored_mask, "scored_mask", costs, "costs")
            scored = checks.mask(scored_mask, "scored_mask")
        checks.finite(costs, "costs", where=scored)
        return partial(costs.double(), scored)

    @torch.no_grad()
    def combine(
        self, reward_advantages: Tensor, cost_advantages: Tensor, *, scale: Literal["none", "one_plus_multiplier"] = "none"
    ) -> Tensor:
        r"""Return :math:`A_R - \lambda A_C`, or the same over :math:`1 + \lambda`.

        The division keeps the size of the update when the multiplier grows, as some implementations do (Safe RLHF among them);
        it is not part of the Lagrangian, and changes the effective learning rate.

        Args:
            reward_advantages: any shape, floating point, finite.
            cost_advantages: same shape; positive where the cost was above its baseline.
            scale: `"one_plus_multiplier"` divides.

        Returns:
            Same shape, detached; the wider dtype, float32 at least.

        Raises:
            DtypeError, ShapeError, DeviceError: the arguments are of the wrong kind or do not fit each other.
            NonFiniteError: NaN or infinity in an advantage.
            RangeError: `scale` is unknown.
        """
        checks.one_of(scale, "scale", ("none", "one_plus_multiplier"))
        checks.floating(reward_advantages, "reward_advantages")
        checks.floating(cost_advantages, "cost_advantages")
        checks.same_shape(cost_advantages, "cost_advantages", reward_advantages, "reward_advantages")
        checks.finite(reward_advantages, "reward_advantages")
        checks.finite(cost_advantages, "cost_advantages")
        combined = at_least_float32(reward_advantages) - self.value * at_least_float32(cost_advantages)
        return combined / (1.0 + self.value) if scale == "one_plus_multiplier" else combined

    def state_dict(self) -> dict[str, Any]:
        """Return what changes in training, as plain data for JSON; budget and learning rate are configuration."""
        return {"value": self.value}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state that `state_dict` returned.

        Raises:
            CheckpointError: it did not.
        """
        try:
            value = state["value"]
            checks.number_in(value, "value", 0.0, math.inf, open_high=True)
        except (RoseError, KeyError, TypeError) as error:
            raise checks.fail(CheckpointError, "state", "be what state_dict returned", f"{state!r:.80}") from error
        self.value = float(value)
