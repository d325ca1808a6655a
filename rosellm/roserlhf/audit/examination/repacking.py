"""Step 4: one loss, however its rows are padded, packed, ordered or cut into micro-batches.

The rows get made-up advantages and behaviour log-probabilities that differ from the current ones, so that nothing cancels and the
clipping has something to do.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from rosellm.roserlhf.audit.diagnosis import Outcome
from rosellm.roserlhf.audit.examination.subject import Episodes, Subject
from rosellm.roserlhf.audit.examination.watched import Seen, watch
from rosellm.roserlhf.batching.rows import Row, row_of
from rosellm.roserlhf.losses import step_denominator

NAME = "one loss under padding and repacking"
TOLERANCE = 1e-5
"""Of the difference, as a share of the sum of the tokens' absolute losses: float32 in another order of summation."""
ROWS = 12


@dataclass(frozen=True)
class Tokens:
    """What an objective is given, one micro-batch; tensors are `[B, T]`."""

    current: Tensor
    behaviour: Tensor
    advantages: Tensor
    loss_mask: Tensor


def off_policy_rows(episodes: Episodes, seed: int = 0) -> list[Row]:
    """Lay out episodes with made-up credit, by turn if the recipe has it so, and behaviour; every sampled token in the loss."""
    draw = random.Random(seed)
    by_turn = any(isinstance(row.advantage, tuple) for row in episodes.rows)
    rows = []
    for trajectory in [t for t in episodes.trajectories if t.sampled_tokens][:ROWS]:
        row = row_of(trajectory)
        shifted = tuple(
            min(0.0, logprob + draw.gauss(0, 0.3)) if sampled else 0.0
            for logprob, sampled in zip(row.behaviour_logprobs, row.policy_mask, strict=True)
        )
        credit = [draw.choice((-1, 1)) * draw.uniform(0.5, 2) for _ in (trajectory.actions if by_turn else [None])]
        advantage = tuple(credit) if by_turn else credit[0]
        rows.append(replace(row, behaviour_logprobs=shifted, loss_mask=row.policy_mask, excluded={}, advantage=advantage))
    return rows


def repacking(subject: Subject, episodes: Episodes) -> Outcome:
    """Compute the loss of the same tokens in many forms and name the first that differs."""
    rows = off_policy_rows(episodes)
    whole = watch(subject, rows, micro_batch_rows=len(rows), temperature=episodes.temperature)
    loss = sum(seen.loss for seen in whole)
    scale = sum(float(seen.token_loss[seen.loss_mask].abs().sum()) for seen in whole) / float(_denominator(subject, whole))
    if not scale > 0:
        return Outcome(NAME, "skipped", "no token of the sample has a loss, so nothing can differ")
    names = []
    for name, other in _forms(subject, rows, whole, episodes.temperature):
        names.append(name)
        if not abs(other - loss) <= TOLERANCE * scale:
            evidence = (
                f"loss {loss:.6g} of {len(rows)} rows in one micro-batch, {other:.6g} with {name} (mean |token loss| {scale:.3g})"
            )
            return Outcome(NAME, "failed", evidence, *_causes(name))
    forms = f"{len(names)} other forms: micro-batches, order, padding left and right" + (
        ", packed" if "packed" in names[-1] else ""
    )
    evidence = f"loss {loss:.6g} of {len(rows)} rows, the same in {forms} (allowed {TOLERANCE:g} of {scale:.3g})"
    return Outcome(NAME, "passed", evidence)


def _denominator(subject: Subject, seen: Sequence[Seen]) -> Tensor:
    return step_denominator([one.loss_mask for one in seen], subject.recipe.denominator_mode)


def _causes(name: str) -> tuple[str, str]:
    if "micro-batch" in name:
        return (
            "mean of micro-batch means: each micro-batch divides by its own count",
            "compute step_denominator once over all micro-batches of the step and divide by it",
        )
    return "padding or neighbours take part in the loss", "select by the loss mask; never average over a padded width"


def _forms(subject: Subject, rows: list[Row], whole: list[Seen], temperature: float) -> Iterator[tuple[str, float]]:
    """Every other form of the same rows, with its loss."""
    for size in (1, 3, 5):
        seen = watch(subject, rows, micro_batch_rows=size, temperature=temperature)
        yield f"micro-batches of {size}", sum(one.loss for one in seen)
    seen = watch(subject, rows[::-1], micro_batch_rows=len(rows), temperature=temperature)
    yield "the rows reversed", sum(one.loss for one in seen)
    (one,) = whole
    tokens = Tokens(one.current, one.behaviour, one.advantages, one.loss_mask)
    denominator = _denominator(subject, whole)
    for left, right in ((0, 9), (7, 0), (5, 3)):
        yield f"padding of {left} left and {right} right", _loss(subject, _padded(tokens, left, right), denominator)
    backwards = Tokens(*(tensor.flip(0) for tensor in vars(tokens).values()))
    yield "the rows of the batch flipped", _loss(subject, backwards, denominator)
    if subject.recipe.denominator_mode == "token":  # other units need to be told where a sequence ends
        packed = Tokens(*(tensor.reshape(1, -1) for tensor in vars(tokens).values()))
        yield "all rows packed into one", _loss(subject, packed, denominator)


def _padded(tokens: Tokens, left: int, right: int) -> Tokens:
    def widen(tensor: Tensor, fill: float) -> Tensor:
        return F.pad(tensor, (left, right), value=fill)

    return Tokens(
        widen(tokens.current, -7.0), widen(tokens.behaviour, -1.0), widen(tokens.advantages, 3.0), widen(tokens.loss_mask, False)
    )


def _loss(subject: Subject, tokens: Tokens, denominator: Tensor) -> float:
    current = tokens.current.clone().requires_grad_()
    output: Any = subject.recipe.objective(current, tokens.behaviour, tokens.advantages, tokens.loss_mask, denominator=denominator)
    return float(output.loss.detach())
