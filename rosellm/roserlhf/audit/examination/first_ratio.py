"""Step 2: before the first update the policy is the one that sampled, so every ratio is 1.

`engine -> behaviour` and `trainer -> current` are held against each other and, to say who is wrong, against a third, slow
evaluation. At temperature 1 nobody notices a temperature that is ignored, so a second sample is drawn at another one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from rosellm.roserlhf.audit.diagnosis import Outcome
from rosellm.roserlhf.audit.examination.plain_logprobs import plain_logits, plain_logprobs
from rosellm.roserlhf.audit.examination.subject import Episodes, Subject, other_policy
from rosellm.roserlhf.audit.examination.watched import watch
from rosellm.roserlhf.batching.rows import Row, row_of

NAME = "ratio one before the first update"
TOLERANCE = 1e-3
"""Of |log ratio|: float32 in two orders of summation differs by 1e-5, the mildest of real faults by more than 1e-2."""
MICRO_BATCH = 4
_SHARE = 0.95
"""Share of the tokens that an explanation must account for."""


@dataclass(frozen=True)
class Compared:
    """One row evaluated three times; tensors are `[n]`, one entry per sampled token."""

    row: Row
    places: Tensor
    """Positions of the sampled tokens in the row."""
    current: Tensor
    behaviour: Tensor
    logits: Tensor
    """`[T, V]` of the slow evaluation."""
    temperature: float

    def plain(self, *, temperature: float | None = None, logits: Tensor | None = None) -> Tensor:
        """Slow log-probabilities, at another temperature or of another policy."""
        at = self.temperature if temperature is None else temperature
        return plain_logprobs(self.logits if logits is None else logits, self.row, temperature=at)[self.places]


def first_ratio(subject: Subject, samples: Sequence[Episodes]) -> Outcome:
    """Compare the log-probabilities that the engine recorded with those that the trainer computes from the same weights.

    Args:
        subject: whose weights sampled.
        samples: at different temperatures, not all of them 1.
    """
    compared = [one for episodes in samples for one in compare(subject, episodes)]
    gaps = [(one.current - one.behaviour).abs() for one in compared]
    worst = max(range(len(gaps)), key=lambda i: float(gaps[i].max()))
    largest, at = float(gaps[worst].max()), int(gaps[worst].argmax())
    one = compared[worst]
    place = int(one.places[at])
    where = f"at position {place}, turn {one.row.turns[place]} of {one.row.trajectory_id}"
    warmths = " and ".join(f"{episodes.temperature:g}" for episodes in samples)
    evidence = (
        f"max |log ratio| {largest:.2g} of {sum(len(gap) for gap in gaps):,} tokens at temperatures {warmths}, {where} "
        f"(allowed {TOLERANCE:g})"
    )
    if largest <= TOLERANCE:
        return Outcome(NAME, "passed", evidence)
    evidence += (
        f": behaviour {float(one.behaviour[at]):.4f}, current {float(one.current[at]):.4f}, slow {float(one.plain()[at]):.4f}"
    )
    cause, fix = _explain(subject, [one for one, gap in zip(compared, gaps, strict=True) if float(gap.max()) > TOLERANCE])
    return Outcome(NAME, "failed", evidence, cause, fix)


def compare(subject: Subject, episodes: Episodes) -> list[Compared]:
    """Evaluate the sampled tokens of all episodes, whatever their credit: none is left out because its group is uniform."""
    rows = [
        Row(**{**vars(row_of(trajectory)), "advantage": 1.0}) for trajectory in episodes.trajectories if trajectory.sampled_tokens
    ]
    found = []
    for seen in watch(subject, rows, micro_batch_rows=MICRO_BATCH, temperature=episodes.temperature):
        for index, row in enumerate(seen.rows):
            places = seen.loss_mask[index].nonzero()[:, 0]
            logits = plain_logits(subject.model, row.token_ids)
            current, behaviour = seen.current[index][places].double(), seen.behaviour[index][places].double()
            found.append(Compared(row, places, current, behaviour, logits, episodes.temperature))
    return found


def _explain(subject: Subject, compared: list[Compared]) -> tuple[str, str]:
    """Say who differs from the slow evaluation, and which fault reproduces its numbers."""
    truth = torch.cat([one.plain() for one in compared])
    current, behaviour = (torch.cat([getattr(one, name) for one in compared]) for name in ("current", "behaviour"))
    warmths = {one.temperature for one in compared}
    if not _agree(current, truth):
        untempered = torch.cat([one.plain(temperature=1.0) for one in compared])
        if warmths != {1.0} and _agree(current, untempered):
            return "the trainer ignores the sampling temperature", "divide the logits by the temperature before log_softmax"
        return (
            "the trainer's log-probabilities are not those of these weights at these tokens (a shift by one, dropout, padding)",
            "compare learner and model on one unpadded row",
        )
    if warmths != {1.0} and _agree(behaviour, torch.cat([one.plain(temperature=1.0) for one in compared])):
        return "the engine records log-probabilities before the temperature", "record those of the distribution sampled from"
    stale = [plain_logits(other_policy(subject.model), one.row.token_ids) for one in compared]
    if _agree(behaviour, torch.cat([one.plain(logits=logits) for one, logits in zip(compared, stale, strict=True)])):
        return (
            f"stale weights labelled fresh: the engine samples with what it held before {subject.version!r} was published",
            "load the weights before the version changes, and forget every cached key and value",
        )
    if all(_truncated(one) for one in compared):
        return (
            "the engine samples from a truncated distribution (top-p or top-k) that the trainer ignores",
            "sample from the whole distribution, or record the kept support and renormalise over it in the trainer",
        )
    return (
        "the engine's log-probabilities are not those of the published weights after the recorded ids "
        "(other contexts, a penalty, an old cache, another precision)",
        "compare engine and model on one request; record the distribution really sampled from",
    )


def _agree(one: Tensor, other: Tensor) -> bool:
    return float(((one - other).abs() <= TOLERANCE).double().mean()) >= _SHARE


def _truncated(one: Compared) -> bool:
    """Whether renormalising over the most probable tokens, some number of them at each place, gives the recorded numbers."""
    probabilities = torch.softmax(one.logits[one.places] / one.temperature, -1)
    kept_mass = (one.plain() - one.behaviour).exp()
    prefixes = probabilities.sort(-1, descending=True).values.cumsum(-1)
    nearest = (prefixes - kept_mass[:, None]).abs().amin(-1)
    return bool((kept_mass <= 1 + TOLERANCE).all()) and float((nearest <= TOLERANCE).double().mean()) >= _SHARE
