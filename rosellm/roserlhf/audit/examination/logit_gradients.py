"""Step 5: where gradients go: exactly zero at the logits of masked tokens, not zero at those of selected ones.

The logits are a leaf here, so what reaches them is read off directly, through the trainer's own next-token shift and objective. NaN
planted at every masked place must change nothing at all: masking is selection, and 0 · NaN is not 0.
"""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from rosellm.roserlhf.audit.diagnosis import Outcome
from rosellm.roserlhf.audit.examination.repacking import off_policy_rows
from rosellm.roserlhf.audit.examination.subject import Episodes, Subject
from rosellm.roserlhf.batching.tensors import Batch, by_length, pad
from rosellm.roserlhf.losses import policy_logprobs, step_denominator

NAME = "gradients at masked and selected logits"
_FIX = "select with masked_fill or where before the operation; never multiply by a mask"


class GivenLogits(nn.Module):
    """Stands for a model whose logits are known."""

    def __init__(self, logits: Tensor) -> None:
        super().__init__()
        self.leaf = logits.detach().clone().requires_grad_()

    def forward(self, input_ids: Tensor, use_cache: bool) -> SimpleNamespace:
        """Return the logits."""
        return SimpleNamespace(logits=self.leaf)


def logit_gradients(subject: Subject, episodes: Episodes) -> Outcome:
    """Differentiate the objective down to the logits, as they are and with NaN at every masked place."""
    batch = pad(by_length(off_policy_rows(episodes)))
    mask = batch.loss_mask
    with torch.no_grad():
        logits = subject.model(batch.input_ids, use_cache=False).logits
        on_policy = policy_logprobs(GivenLogits(logits), batch.input_ids, temperature=episodes.temperature)
    gradient = _flow(subject, batch, logits, on_policy, episodes.temperature)
    counts = f"{int(mask.sum())} selected and {int((~mask).sum())} masked places"
    if (leak := _largest(gradient, ~mask)) is not None:
        row, place, value = leak
        evidence = f"gradient {value:.3g} at the masked place {place} of row {row} ({counts})"
        return Outcome(NAME, "failed", evidence, "a gradient leaks through a masked position", _FIX)
    silent = (gradient == 0) & mask
    if bool(silent.any()):
        row, place = (int(i) for i in silent.nonzero()[0])
        evidence = f"no gradient at {int(silent.sum())} selected places at ratio 1, first place {place} of row {row} ({counts})"
        cause = "selected tokens are detached, clipped at ratio 1, or the mask is applied twice"
        return Outcome(NAME, "failed", evidence, cause, "log-probabilities of the current policy must keep their graph")
    if (changed := _change_by_nan(subject, batch, on_policy)) is not None:
        return Outcome(NAME, "failed", changed, "masked positions take part: they are multiplied by 0, not left out", _FIX)
    low, high = (float(x) for x in gradient[mask].aminmax())
    evidence = f"{counts}: exactly 0 where masked, {low:.2g} to {high:.2g} where selected; NaN planted where masked changes nothing"
    return Outcome(NAME, "passed", evidence)


def _flow(subject: Subject, batch: Batch, logits: Tensor, behaviour: Tensor, temperature: float) -> Tensor:
    """Return the largest |gradient| at the logits that predict each token, `[B, T]`."""
    model = GivenLogits(logits)
    current = policy_logprobs(model, batch.input_ids, temperature=temperature)
    (gradient,) = torch.autograd.grad(_loss(subject, current, behaviour, batch.advantages, batch.loss_mask), model.leaf)
    at_token = gradient.abs().amax(-1)
    return torch.cat([torch.zeros_like(at_token[:, :1]), at_token[:, :-1]], 1)


def _loss(subject: Subject, current: Tensor, behaviour: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
    denominator = step_denominator([mask], subject.recipe.denominator_mode)
    output: Any = subject.recipe.objective(current, behaviour, advantages, mask, denominator=denominator)
    loss: Tensor = output.loss
    return loss


def _change_by_nan(subject: Subject, batch: Batch, logprobs: Tensor) -> str | None:
    """Say what NaN in everything that is masked changes: loss, or the gradient at any log-probability."""
    mask, advantages = batch.loss_mask, batch.advantages

    def flow(current: Tensor, behaviour: Tensor, advantages: Tensor) -> tuple[Tensor, Tensor]:
        leaf = current.clone().requires_grad_()
        loss = _loss(subject, leaf, behaviour, advantages, mask)
        return loss.detach(), torch.autograd.grad(loss, leaf)[0]

    loss, gradient = flow(logprobs, logprobs, advantages)
    planted_loss, planted = flow(*(tensor.masked_fill(~mask, math.nan) for tensor in (logprobs, logprobs, advantages)))
    differing = planted != gradient
    if bool(planted_loss == loss) and not bool(differing.any()):
        return None
    change = f"turns the loss {float(loss):.6g} into {float(planted_loss):.6g} and changes {int(differing.sum())} gradients"
    return f"NaN at the masked places {change}"


def _largest(gradient: Tensor, where: Tensor) -> tuple[int, int, float] | None:
    """Row, place and size of a gradient that is not exactly 0 (NaN is not), or None."""
    wrong = (gradient != 0) & where
    if not bool(wrong.any()):
        return None
    row, place = (int(i) for i in wrong.nonzero()[0])
    return row, place, float(gradient[row, place])
