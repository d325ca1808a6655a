"""Evidence of the updates a row took part in -> one `UpdateStory` each: ratio, verdict, derivative and share of every token."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice

from rosellm.roserlhf.audit.explanation.evidence import Evidence
from rosellm.roserlhf.audit.explanation.reward_story import same
from rosellm.roserlhf.audit.explanation.update_gradient import RowGradient, UpdateGradient, differentiate
from rosellm.roserlhf.audit.explanation.verdict import Verdict, verdicts
from rosellm.roserlhf.batching.rows import Row
from rosellm.roserlhf.errors import RoseError
from rosellm.roserlhf.store.updates import Update
from rosellm.roserlhf.trainer.recipe import Recipe

_AGREE, _NEAR_ZERO = 1e-4, 1e-6
"""How far a recomputed loss may be from the recorded one: float32 sums in another order, and losses near 0."""


@dataclass(frozen=True)
class TokenUpdate:
    """One sampled token in one update."""

    position: int
    """Place in the row."""
    current_logprob: float
    """Just before the update."""
    ratio: float
    """`exp(current - behaviour)`."""
    token_loss: float | None = None
    """Before aggregation; None where the token is not in the loss, or could not be computed."""
    token_weight: float | None = None
    """`dL / d token_loss`: one over the denominator for a mean over tokens."""
    derivative: float | None = None
    """`dL / dl` with respect to its current log-probability; negative: the update makes the token more likely."""
    share: float | None = None
    """Of the sum of `|dL / dl|` over all tokens of the update."""
    verdict: Verdict | None = None
    """Clip, trust interval or gate."""


@dataclass(frozen=True)
class UpdateStory:
    """One optimizer update in which the row took part."""

    step: int
    """Training step."""
    number: int
    """Place among the updates of the step."""
    epoch: int
    """Pass over the step's rows."""
    rows: int
    """Rows of the update."""
    denominator: float
    """What its token losses were divided by."""
    loss: float
    """As recorded."""
    recomputed_loss: float | None
    """From the evidence; None if that was not possible."""
    gradient_norm: float
    """Of the weights' gradient, before clipping."""
    clip_scale: float | None
    """What gradient clipping multiplied it by; None if the bound is not known."""
    learning_rate: float
    """Of this update."""
    skipped: str | None
    """Why the weights stayed as they were; None if they moved."""
    absolute: float | None
    """Sum of `|dL / dl|` over all tokens of the update."""
    row_absolute: float | None
    """The same over the tokens of this row."""
    up: int
    """Tokens of the row that it makes more likely."""
    down: int
    """Tokens of the row that it makes less likely."""
    tokens: tuple[TokenUpdate, ...]
    """Sampled tokens of the row, in order."""

    @property
    def row_share(self) -> float | None:
        """The row's part of the update's sum of `|dL / dl|`."""
        return share_of(self.row_absolute, self.absolute)


def share_of(part: float | None, whole: float | None) -> float | None:
    """Divide; None where a number is missing or the whole is 0."""
    return None if part is None or not whole else part / whole


def update_stories(evidence: Evidence, rows: Mapping[str, Row], missing: list[str], problems: list[str]) -> tuple[UpdateStory, ...]:
    """Tell every update of the evidence; what cannot be computed is named in `missing`, what contradicts in `problems`."""
    return tuple(_story(update, evidence, rows, missing, problems) for update in evidence.updates)


def _story(update: Update, evidence: Evidence, rows: Mapping[str, Row], missing: list[str], problems: list[str]) -> UpdateStory:
    name = evidence.stored.trajectory.trajectory_id
    place = f"update {update.number} of step {update.step}"
    gradient: UpdateGradient | None = None
    if evidence.recipe is None:
        missing.append(f"verdict and derivative in {place}: they need the recipe")
    else:
        try:
            gradient = differentiate(
                update,
                rows,
                evidence.recipe.objective,
                micro_batch_rows=evidence.recipe.config.optimizer.micro_batch_rows,
                denominator_mode=evidence.recipe.denominator_mode,
            )
        except RoseError as error:
            problems.append(f"{place} cannot be differentiated: {error}")
    if gradient is not None and not same(gradient.loss, update.loss, _AGREE, _NEAR_ZERO):
        problems.append(f"the loss recorded for {place} is {update.loss:.6g}, but its evidence gives {gradient.loss:.6g}")
    mine = None if gradient is None else gradient.rows[name]
    row_absolute = None if mine is None else sum(abs(value) for value in mine.derivative.double().tolist())
    slopes = [] if mine is None else mine.derivative.tolist()
    return UpdateStory(
        step=update.step,
        number=update.number,
        epoch=update.epoch,
        rows=len(update.rows),
        denominator=update.denominator,
        loss=update.loss,
        recomputed_loss=None if gradient is None else gradient.loss,
        gradient_norm=update.gradient_norm,
        clip_scale=None if evidence.recipe is None else _clip_scale(evidence.recipe, update.gradient_norm),
        learning_rate=update.learning_rate,
        skipped=update.skipped,
        absolute=None if gradient is None else gradient.absolute,
        row_absolute=row_absolute,
        up=sum(slope < 0 for slope in slopes),
        down=sum(slope > 0 for slope in slopes),
        tokens=tuple(_tokens(update, evidence, mine, gradient)),
    )


def _tokens(update: Update, evidence: Evidence, mine: RowGradient | None, gradient: UpdateGradient | None) -> list[TokenUpdate]:
    name = evidence.stored.trajectory.trajectory_id
    logprobs = next(row.current_logprobs for row in update.rows if row.trajectory_id == name)
    if mine is None or gradient is None or evidence.recipe is None:
        return _bare_tokens(evidence, logprobs)
    judged = iter(verdicts(mine, evidence.recipe.objective, update.denominator, interval_of(evidence.recipe)))
    told = []
    columns = [column.tolist() for column in (mine.current, mine.ratio, mine.token_loss, mine.derivative)]
    for position, (current, ratio, token_loss, slope) in enumerate(zip(*columns, strict=True)):
        if not mine.row.policy_mask[position]:
            continue
        if not mine.row.loss_mask[position]:
            told.append(TokenUpdate(position, current, ratio))
            continue
        told.append(
            TokenUpdate(
                position,
                current,
                ratio,
                token_loss=token_loss,
                token_weight=None if mine.weight is None else float(mine.weight[position]),
                derivative=slope + 0.0,
                share=share_of(abs(slope), gradient.absolute),
                verdict=next(judged, None),
            )
        )
    return told


def _bare_tokens(evidence: Evidence, logprobs: array[float]) -> list[TokenUpdate]:
    """Pair the evidence with the sampled tokens where nothing could be differentiated."""
    places: list[tuple[int, float]] = []
    trajectory = evidence.stored.trajectory
    context = evidence.rollout.contexts.get(trajectory.trajectory_id)
    position = sum(len(span.token_ids) for span in context or ())
    own = trajectory.spans() if context is None else islice(trajectory.spans(), len(trajectory.prompt), None)
    for span in own:
        ids = getattr(span, "token_ids", ())
        if hasattr(span, "old_logprobs"):
            places += [(position + index, behaviour) for index, behaviour in enumerate(span.old_logprobs)]
        position += len(ids)
    return [
        TokenUpdate(place, current, math.exp(min(700.0, current - behaviour)))
        for (place, behaviour), current in zip(places, logprobs, strict=False)
    ]


def _clip_scale(recipe: Recipe, norm: float) -> float | None:
    return min(1.0, recipe.config.optimizer.gradient_clip / (norm + 1e-6)) if math.isfinite(norm) else None


def interval_of(recipe: Recipe) -> tuple[float, float] | None:
    """Return the ratios that the recipe's `clip_low` and `clip_high` allow; None if it has no such options."""
    low, high = getattr(recipe.config, "clip_low", None), getattr(recipe.config, "clip_high", None)
    return None if low is None or high is None else (1.0 - low, 1.0 + high)
