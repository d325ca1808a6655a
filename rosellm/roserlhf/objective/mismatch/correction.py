"""Token weights, what they do to advantages and masks, and how two of them combine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.errors import DtypeError, MaskError
from rosellm.roserlhf.masked import Partial, fraction, named, partial, select
from rosellm.roserlhf.objective import inputs
from rosellm.roserlhf.objective.layout import Sequences


@dataclass(frozen=True)
class MismatchCorrection:
    """Weights of tokens, detached; made by `mismatch_correction` and its presets, combined with `*`."""

    weights: Tensor
    """Shape of the tokens, float32 at least: 0 where masked or rejected."""
    keep_mask: Tensor
    """Boolean, shape of the tokens: live and not rejected."""
    partials: dict[str, Partial]
    """Addable statistics. Over live tokens: `weight`, `squared_weight`, `kept_fraction`. Over the units of the level, with its name
    in front: the ratio (`token_ratio`), its chi-square divergence E[rho^2] - 1 from the behaviour policy (`token_chi_square`), the
    shares that the bounds act on (`token_below_fraction`, `token_above_fraction`) and the share that the overflow bound acts on
    (`token_log_ratio_clamped_fraction`)."""
    action_mask: Tensor
    """Boolean, shape of the tokens: the live ones."""
    sequences: Sequences
    """Which tokens are one sequence."""

    def apply(self, advantages: Tensor, action_mask: Tensor, denominator: Literal["all", "kept"] = "all") -> tuple[Tensor, Tensor]:
        r"""Multiply advantages by the weights; give what comes back to a policy loss, with the same layout.

        With `all` rejected tokens stay in the denominator with an advantage of 0, so the size of an update falls with what is
        rejected (SAO, slime, AReaL). With `kept` they leave mask and denominator (verl's rejection sampling): count the *returned*
        mask in `step_denominator`; a sequence ratio such as GSPO's is then one over kept tokens. To take rejected members out of
        group baselines as well, give `kept_sequences` to the credit function before this. `gspo_policy_loss` takes one number per
        sequence: use `gspo_token_policy_loss`.

        Args:
            advantages: one per token, per row (`[...]` or `[..., 1]`, where rows are sequences) or per packed sequence; detached.
            action_mask: shape of the tokens, boolean or exactly 0/1; true only at tokens that were corrected.
            denominator: `all` or `kept`.

        Returns:
            Advantages per token and the boolean mask.

        Raises:
            MaskError: the mask is not 0/1, or true where the correction has no weight.
            NonFiniteError, RangeError, ShapeError, DtypeError, DeviceError: the arguments do not fit the corrected tokens.

        Example:
            >>> correction = icepop(torch.tensor([[-1.0, -1.0]]), torch.tensor([[-1.0, -9.0]]), torch.ones(1, 2))
            >>> correction.apply(torch.tensor([2.0]), torch.ones(1, 2), "kept")
            (tensor([[2., 0.]]), tensor([[ True, False]]))
        """
        mask: Tensor = checks.mask(action_mask, "action_mask")
        checks.same_shape(action_mask, "action_mask", self.weights, "the corrected tokens")
        checks.one_of(denominator, "denominator", ("all", "kept"))
        requirement = "be true only where the mask of the correction is"
        checks.each("action_mask", requirement, lambda: (mask, mask & ~self.action_mask), MaskError)
        credit = inputs.token_advantages(advantages, "advantages", mask, self.sequences)
        return credit * select(self.weights, mask), mask if denominator == "all" else mask & self.keep_mask

    def kept_sequences(self) -> Tensor:
        """Tell which sequences have a kept token: boolean, one per row or per packed sequence."""
        return self.sequences.of(self.action_mask).sum(self.keep_mask.long()) > 0

    def __mul__(self, other: MismatchCorrection) -> MismatchCorrection:
        """Apply both: weights multiply, what one rejects is rejected. Of two statistics with one name the left one is reported."""
        if not isinstance(other, MismatchCorrection):
            fix = "weigh the advantages by a number instead"
            raise checks.fail(DtypeError, "the right correction", "be a MismatchCorrection", type(other).__name__, fix=fix)
        checks.same_shape(other.weights, "the right correction", self.weights, "the left one")
        self.sequences.require_same(other.sequences, "the right correction")
        requirement = "have the action mask of the left one"
        differs = self.action_mask ^ other.action_mask
        checks.each("the right correction", requirement, lambda: (other.action_mask, differs), MaskError)
        return correction(
            self.weights * other.weights,
            self.keep_mask & other.keep_mask,
            {**other.partials, **self.partials},
            self.action_mask,
            self.sequences,
        )


def effective_sample_size(partials: dict[str, Partial]) -> Tensor:
    r"""Count the equally weighted tokens that the live ones are worth for a mean, from partials of any number of calls.

    .. math:: n_{\text{eff}} = \frac{\left(\sum_t w_t\right)^2}{\sum_t w_t^2}

    Divided by the number of live tokens (the count of either partial) it is 1 without mismatch. It is 0 where all are rejected.

    Source: Kish 1965, "Survey Sampling", Wiley; in print only, https://en.wikipedia.org/wiki/Effective_sample_size retells it.

    Args:
        partials: of a correction, added over micro-batches and ranks (`metrics.merge`, `metrics.over_ranks`).

    Returns:
        0-d, the dtype of the partials, on their device; nothing is read on the host.

    Raises:
        ArgumentError: these are not partials of a correction.

    Example:
        >>> tokens = torch.tensor([[0.0, 0.0]])
        >>> effective_sample_size(tis(tokens, torch.tensor([[0.0, 50.0]]), torch.ones(1, 2)).partials)
        tensor(1.)
    """
    total, squares = (one.sum for one in named(partials, ("weight", "squared_weight"), "a correction"))
    return total.square() / squares.masked_fill(squares == 0, 1.0)


def correction(
    weights: Tensor, keep_mask: Tensor, partials: dict[str, Partial], mask: Tensor, sequences: Sequences
) -> MismatchCorrection:
    """Put weights and their statistics together; the statistics of the level are given."""
    of_tokens = {
        "weight": partial(weights, mask),
        "squared_weight": partial(weights.square(), mask),
        "kept_fraction": fraction(keep_mask, mask),
    }
    return MismatchCorrection(weights, keep_mask, {**partials, **of_tokens}, mask, sequences)
