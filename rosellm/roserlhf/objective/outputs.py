"""What a policy loss returns: the scalar to minimise, the token losses it is made of, and addable statistics.

Every output has `loss`, `objective`, `token_loss` and `partials`. The other scalar fields are the means of the partials of the same
name *in this call*, for one look at one batch; across micro-batches and ranks, add the partials and divide once (`metrics`),
because a mean of means weighs wrongly. Statistics are over live tokens (or sequences) with equal weight, whatever the aggregation
of the loss. A statistic that counted nothing is NaN as a mean and 0 of 0 as a partial. Everything but `loss` and `token_loss` is
detached.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from rosellm.roserlhf.masked import Partial, fraction, select
from rosellm.roserlhf.objective.aggregation import Weighing, reduce


@dataclass(frozen=True)
class PolicyLossOutput:
    """Output of `clipped_policy_loss`."""

    loss: Tensor
    """0-d, minus the objective; call `backward` on it."""
    objective: Tensor
    """0-d, detached: what is maximised. With a denominator it is this micro-batch's share of the step's objective."""
    approximate_kl: Tensor
    """0-d: mean of `rho - 1 - log rho`, the k3 estimate of KL(old || current); never negative."""
    clip_fraction: Tensor
    """0-d: share of tokens whose ratio is strictly outside the interval, whatever the sign of the advantage."""
    mean_ratio: Tensor
    """0-d: mean importance ratio; 1 before the first update."""
    token_loss: Tensor
    """Shape of the tokens, differentiable: loss of each token before aggregation, 0 where masked."""
    partials: dict[str, Partial]
    """Addable statistics by name; `objective` counts in the unit of the aggregation."""


@dataclass(frozen=True)
class ReinforcePolicyLossOutput:
    """Output of `reinforce_policy_loss`; there is no clip, and without old log-probabilities the diagnostics are NaN."""

    loss: Tensor
    """0-d, minus the objective."""
    objective: Tensor
    """0-d, detached."""
    approximate_kl: Tensor
    """0-d: as in `PolicyLossOutput`."""
    mean_ratio: Tensor
    """0-d: as in `PolicyLossOutput`."""
    token_loss: Tensor
    """Shape of the tokens, differentiable, 0 where masked."""
    partials: dict[str, Partial]
    """Addable statistics by name."""


@dataclass(frozen=True)
class SaoPolicyLossOutput:
    """Output of `sao_policy_loss`."""

    loss: Tensor
    """0-d, minus the objective."""
    objective: Tensor
    """0-d, detached."""
    approximate_kl: Tensor
    """0-d: over all live tokens, rejected ones included."""
    rejected_fraction: Tensor
    """0-d: share of live tokens outside the open interval; they stay in the denominator and contribute nothing."""
    mean_ratio: Tensor
    """0-d: over all live tokens, rejected ones included."""
    trusted_mask: Tensor
    """Boolean, shape of the tokens: live and strictly inside the interval."""
    token_loss: Tensor
    """Shape of the tokens, differentiable, 0 where masked or rejected."""
    partials: dict[str, Partial]
    """Addable statistics by name; rejections are also counted by side, below and above the interval."""


@dataclass(frozen=True)
class GspoPolicyLossOutput:
    """Output of `gspo_policy_loss` and `gspo_token_policy_loss`; statistics count sequences with a live token."""

    loss: Tensor
    """0-d, minus the objective."""
    objective: Tensor
    """0-d, detached."""
    sequence_ratio_divergence: Tensor
    """0-d: mean of `s - 1 - log s` over sequences; never negative."""
    sequence_clip_fraction: Tensor
    """0-d: share of sequences whose ratio is strictly outside the interval, whatever the sign of the advantage."""
    mean_sequence_ratio: Tensor
    """0-d: mean geometric-mean ratio."""
    sequence_ratios: Tensor
    """Detached, one per sequence (see the function for the shape); NaN for a sequence without a live token."""
    token_loss: Tensor
    """Shape of the tokens, differentiable: each token carries its sequence's (or its own) loss, 0 where masked."""
    partials: dict[str, Partial]
    """Addable statistics by name."""


@dataclass(frozen=True)
class SapoPolicyLossOutput:
    """Output of `sapo_policy_loss`."""

    loss: Tensor
    """0-d, minus the objective; its value depends on the temperatures even where the gradient does not."""
    objective: Tensor
    """0-d, detached."""
    approximate_kl: Tensor
    """0-d: as in `PolicyLossOutput`."""
    mean_ratio: Tensor
    """0-d: as in `PolicyLossOutput`."""
    mean_gradient_gate: Tensor
    """0-d: mean of `4 p (1 - p)`, 1 at ratio 1."""
    mean_gradient_weight: Tensor
    """0-d: mean of gate times ratio, what multiplies the advantage in a token's gradient; 0 where the log-ratio was clamped."""
    token_loss: Tensor
    """Shape of the tokens, differentiable, 0 where masked."""
    partials: dict[str, Partial]
    """Addable statistics by name."""


@dataclass(frozen=True)
class CispoPolicyLossOutput:
    """Output of `cispo_policy_loss`."""

    loss: Tensor
    """0-d, minus the objective."""
    objective: Tensor
    """0-d, detached."""
    approximate_kl: Tensor
    """0-d: as in `PolicyLossOutput`."""
    clip_fraction: Tensor
    """0-d: share of tokens whose ratio is strictly outside the bounds; they keep a gradient, with the weight of the bound."""
    mean_ratio: Tensor
    """0-d: mean importance ratio, before the clip."""
    mean_weight: Tensor
    """0-d: mean clipped ratio, what multiplies the advantage in a token's gradient."""
    token_loss: Tensor
    """Shape of the tokens, differentiable, 0 where masked."""
    partials: dict[str, Partial]
    """Addable statistics by name; clipped tokens are also counted by side, below and above the bounds."""


@dataclass(frozen=True)
class TotalVariationPolicyLossOutput:
    """Output of `total_variation_policy_loss`."""

    loss: Tensor
    """0-d, minus the objective."""
    objective: Tensor
    """0-d, detached."""
    approximate_kl: Tensor
    """0-d: over all live tokens, dropped ones included."""
    rejected_fraction: Tensor
    """0-d: share of live tokens that moved beyond the bound of their sign; they stay in the denominator."""
    mean_probability_change: Tensor
    """0-d: mean absolute change of the probability of what was sampled."""
    mean_ratio: Tensor
    """0-d: over all live tokens, dropped ones included; before `ratio_max`."""
    trusted_mask: Tensor
    """Boolean, shape of the tokens: live and not dropped."""
    token_loss: Tensor
    """Shape of the tokens, differentiable, 0 where masked."""
    partials: dict[str, Partial]
    """Addable statistics by name."""


@dataclass(frozen=True)
class DecoupledPolicyLossOutput:
    """Output of `decoupled_policy_loss`."""

    loss: Tensor
    """0-d, minus the objective."""
    objective: Tensor
    """0-d, detached."""
    approximate_kl: Tensor
    """0-d: k3 estimate of KL(proximal || current), weighed by the behaviour policy that sampled."""
    clip_fraction: Tensor
    """0-d: share of tokens whose ratio of current to proximal is strictly outside the interval."""
    mean_ratio: Tensor
    """0-d: mean ratio of current to proximal; 1 before the first update."""
    mean_behaviour_weight: Tensor
    """0-d: mean behaviour weight as it was applied, after the cap; its partial `mean_behaviour_ratio` is before it."""
    behaviour_cap_fraction: Tensor
    """0-d: share of tokens whose behaviour weight is strictly above the cap."""
    token_loss: Tensor
    """Shape of the tokens, differentiable, 0 where masked."""
    partials: dict[str, Partial]
    """Addable statistics by name."""


@dataclass(frozen=True)
class ValueLossOutput:
    """Output of `value_loss`; keep its partials apart from those of a policy loss, which also has an `objective`."""

    loss: Tensor
    """0-d, half the squared error."""
    objective: Tensor
    """0-d, detached: minus the loss."""
    clip_fraction: Tensor
    """0-d: share of tokens whose clipped error is strictly the larger one, partial `value_clip_fraction`; NaN without a clip."""
    explained_variance: Tensor
    """0-d: of this call; over several, `merged_explained_variance` of the merged partials."""
    token_loss: Tensor
    """Shape of the tokens, differentiable, 0 where masked."""
    partials: dict[str, Partial]
    """Addable statistics by name, sums of squares in float64."""


@dataclass(frozen=True)
class Core:
    """The part that every output shares."""

    loss: Tensor
    objective: Tensor
    token_loss: Tensor
    partials: dict[str, Partial]

    def mean(self, name: str) -> Tensor:
        """Return the mean of one partial in this call."""
        return self.partials[name].mean()


def finish(token_objective: Tensor, mask: Tensor, how: Weighing, statistics: dict[str, Partial]) -> Core:
    """Turn the objective of each token into a loss and put the statistics of the call together."""
    token_loss = select(-token_objective, mask)
    reduced = reduce(token_loss, mask, how)
    partials = {
        "objective": Partial(-reduced.partial.sum, reduced.partial.count),
        **statistics,
        "empty_batch_fraction": fraction(~mask.any(), mask.new_ones(())),
    }
    return Core(reduced.mean, -reduced.mean.detach(), token_loss, partials)
