"""Several teachers, each with its own prompt -> one weighed reverse KL, one teacher at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Unpack

import torch
from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.errors import DtypeError, RangeError, ShapeError, TeacherError
from rosellm.roserlhf.masked import Partial, at_least_float32, fraction, partial, select
from rosellm.roserlhf.objective.aggregation import Aggregation, weighing
from rosellm.roserlhf.objective.layout import Layout, Sequences
from rosellm.roserlhf.objective.reverse_kl import (
    DistillationLossOutput,
    Settings,
    distillation_output,
    floor_statistics,
    read_head,
    require_finite,
    token_mask,
)
from rosellm.roserlhf.objective.vocabulary import same_tokenizer, shared


@dataclass(frozen=True)
class Teacher:
    """A teacher: cached hidden states and the head that turns them into logits. No gradient ever reaches it."""

    name: str
    """Unique; routes and statistics use it."""
    hidden: Tensor
    """`[..., T, e]`, position for position with the student; with `positions` it has its own length, `[..., L, e]`."""
    weight: Tensor
    """`[V, e]`; may stay on another device or be a memory map, it is read block by block."""
    positions: Tensor | None = None
    """`[..., T]`, integers: which of its own positions belongs to each token of the student; from `align_policy_spans`."""
    tokenizer: str | None = None
    """Fingerprint of its tokenizer, compared with `student_tokenizer`."""


class TeacherStatistics(NamedTuple):
    """What a weighing function may look at: detached, `[..., T, M]` in the order of the teachers, 0 where masked."""

    entropy: Tensor
    """Entropy of each teacher's distribution, in nats."""
    top_logprob: Tensor
    """Log-probability of each teacher's likeliest token."""


TeacherWeights = Tensor | Callable[[TeacherStatistics], Tensor]
"""Non-negative weights of M teachers: `[M]`, one row per row or packed sequence, one per token, or a function that makes them."""


def multi_teacher_distillation_loss(
    student_hidden: Tensor,
    student_weight: Tensor,
    teachers: Sequence[Teacher],
    action_mask: Tensor,
    *,
    weights: TeacherWeights,
    learn_weights: bool = False,
    temperature: float = 1.0,
    teacher_floor: float = -100.0,
    shared_vocabulary: int | None = None,
    student_tokenizer: str | None = None,
    chunk: int = 256,
    vocabulary_chunk: int = 4096,
    aggregation: Aggregation = "token",
    denominator: float | Tensor | None = None,
    **layout: Unpack[Layout],
) -> DistillationLossOutput:
    r"""Pull the student towards several teachers at once.

    .. math::
        L = \frac1D \sum_t m_t\, \omega_t \sum_i w_{ti}\, \mathrm{KL}(\pi \,\|\, E_i), \qquad
        \sum_i w_i\, \mathrm{KL}(\pi \,\|\, E_i) = \mathrm{KL}\Big(\pi \,\Big\|\, \tfrac1Z \prod_i E_i^{w_i}\Big) - \log Z

    The identity holds for weights that sum to 1: the best student is the normalised weighted *geometric* mean of the teachers, and
    the loss cannot fall below -log Z, which is above 0 wherever teachers disagree. Other sums scale the loss and are allowed; a
    token whose weights are all 0 is taught by nobody, contributes 0, stays in the denominator and is counted
    (`untaught_fraction`).

    Weights are fixed (`[M]`), routed (`route_weights`), given per token, or a function of the teachers' statistics: for confidence,
    `lambda s: torch.softmax(-s.entropy, -1)`. Weights are detached unless `learn_weights`: the gradient at a weight is that
    teacher's divergence, so minimising it moves weight to the teacher that the student already agrees with, and weights that are
    not normalised to 0. Learn them on another signal, or with that in mind.

    Teachers are computed one after the other, each with one block of its head at a time, and only at the tokens where its weight is
    not 0: what stands elsewhere is not read. Everything else is as in `reverse_kl_distillation_loss`.

    Source: multi-teacher on-policy distillation in MiMo-V2-Flash, https://arxiv.org/abs/2601.02780

    Args:
        student_hidden: `[..., T, d]`, floating point; differentiable.
        student_weight: `[V, d]`; differentiable.
        teachers: M of them, with different names.
        action_mask: `[..., T]`, boolean or exactly 0/1. Masked positions may hold anything.
        weights: non-negative; `[M]`, `[..., M]` per row (where rows are sequences), `[S, M]` per packed sequence, `[..., T, M]`
            per token, or a function from `TeacherStatistics` to one of these.
        learn_weights: True lets the gradient reach the weights.
        temperature: above 0; divides the logits of all models.
        teacher_floor: lowest log-probability that a teacher may give, below 0; where it acts is counted.
        shared_vocabulary: n: only the first n entries of all vocabularies count and are normalised anew.
        student_tokenizer: fingerprint; given by all (student and teachers) or by none.
        chunk: positions per block.
        vocabulary_chunk: vocabulary entries per block.
        aggregation: how tokens are weighed; see `aggregate`.
        denominator: of the whole optimizer step, from `step_denominator`; default: this call's own.
        layout: which tokens are one sequence (default: a row) and one rollout, and the horizon; see `Layout`.

    Returns:
        `DistillationLossOutput`; `kl` is the weighed sum, `partials["kl/<name>"]` each teacher's own divergence where it teaches.

    Raises:
        TeacherError: no teacher, a name twice, another vocabulary or tokenizer.
        RangeError: a negative weight, or another number out of range.
        MaskError, NonFiniteError, ShapeError, DtypeError, DeviceError: as in `reverse_kl_distillation_loss`.

    Example:
        >>> head, hidden = torch.eye(2), torch.zeros(1, 1, 2)  # the student: [1/2, 1/2]
        >>> one = Teacher("one", torch.tensor([[[0.8, 0.2]]]).log(), head)
        >>> two = Teacher("two", torch.tensor([[[0.2, 0.8]]]).log(), head)
        >>> out = multi_teacher_distillation_loss(hidden, head, [one, two], torch.ones(1, 1), weights=torch.tensor([0.5, 0.5]))
        >>> out.loss  # the student is at the optimum: -log Z = -ln(2 sqrt(0.8 * 0.2)) = -ln 0.8
        tensor(0.2231)
    """
    mask = token_mask(action_mask, student_hidden, "student_hidden")
    checks.flag(learn_weights, "learn_weights")
    settings = Settings.read(temperature, teacher_floor, chunk, vocabulary_chunk)
    how = weighing(mask, aggregation, denominator, layout)
    read_head(student_hidden, student_weight, mask, "student_hidden", "student_weight")
    checks.finite(student_hidden, "student_hidden", where=mask.unsqueeze(-1))
    named = _named(teachers, student_tokenizer)
    if isinstance(weights, Tensor):
        shares = _per_token(weights, mask, how.sequences, len(named), learn_weights)
    elif callable(weights):
        statistics = _statistics(named, mask, settings, shared_vocabulary, student_weight)
        shares = _per_token(weights(statistics), mask, how.sequences, len(named), learn_weights)
    else:
        raise checks.fail(DtypeError, "weights", "be a tensor or a function of TeacherStatistics", type(weights).__name__)
    student = (student_hidden, student_weight)
    kl, found = _weighed(student, named, shares, mask, settings, shared_vocabulary, learn_weights)
    return distillation_output(kl, found, mask, how)


def _named(teachers: Sequence[Teacher], student_tokenizer: str | None) -> dict[str, Teacher]:
    named: dict[str, Teacher] = {}
    for index, teacher in enumerate(checks.items(teachers, "teachers")):
        if not isinstance(teacher, Teacher):
            raise checks.fail(DtypeError, f"teachers[{index}]", "be a Teacher", type(teacher).__name__)
        if teacher.name in named:
            raise checks.fail(TeacherError, f"teachers[{index}]", "have a name of its own", f"{teacher.name!r:.80} again")
        same_tokenizer(student_tokenizer, teacher.tokenizer, f"tokenizer of teacher {teacher.name!r:.80}")
        named[teacher.name] = teacher
    if not named:
        raise checks.fail(TeacherError, "teachers", "hold at least one teacher", "none")
    return named


def _aligned(teacher: Teacher, student_weight: Tensor, mask: Tensor, count: int | None) -> tuple[Tensor, Tensor, Tensor]:
    """Return the teacher's hidden states at the student's tokens and both embeddings over one vocabulary."""
    argument, hidden = f"hidden of teacher {teacher.name!r:.80}", teacher.hidden
    if teacher.positions is not None:
        hidden = _at_positions(teacher.hidden, teacher.positions, mask, argument)
    weight_name = f"weight of teacher {teacher.name!r:.80}"
    read_head(hidden, teacher.weight, mask, argument, weight_name)
    return hidden, *shared(student_weight, teacher.weight, weight_name, count, dim=0)


def _at_positions(hidden: Tensor, positions: Tensor, mask: Tensor, argument: str) -> Tensor:
    checks.floating(hidden, argument)
    if hidden.ndim != mask.ndim + 1 or hidden.shape[:-2] != mask.shape[:-1]:
        raise checks.fail(ShapeError, argument, f"have the rows of the student {tuple(mask.shape[:-1])}", tuple(hidden.shape))
    checks.same_shape(positions, f"positions of the {argument}", mask, "action_mask")
    checks.index(positions, f"positions of the {argument}", hidden.shape[-2], where=mask)
    chosen = select(positions.long(), mask).clamp(0, hidden.shape[-2] - 1)
    return hidden.gather(-2, chosen.unsqueeze(-1).expand(*mask.shape, hidden.shape[-1]))


def _statistics(
    named: dict[str, Teacher], mask: Tensor, settings: Settings, count: int | None, student_weight: Tensor
) -> TeacherStatistics:
    rows = []
    for teacher in named.values():
        hidden, _, weight = _aligned(teacher, student_weight, mask, count)
        checks.finite(hidden, f"hidden of teacher {teacher.name!r:.80}", where=mask.unsqueeze(-1))
        rows.append(settings.teacher(hidden, weight, mask))
    shape = (*mask.shape, len(rows))
    return TeacherStatistics(
        torch.stack([row.entropy for row in rows], -1).view(shape), torch.stack([row.top_logprob for row in rows], -1).view(shape)
    )


def _per_token(weights: Tensor, mask: Tensor, sequences: Sequences, count: int, learn: bool) -> Tensor:
    """Check the weights and spread them to one row per token, `[..., T, M]`; 0 where masked."""
    checks.floating(weights, "weights")
    checks.same_device(weights, "weights", mask, "action_mask")
    given, shape = tuple(weights.shape), (*mask.shape, count)
    if given in (shape, (count,)):
        spread = weights.expand(shape)
    elif sequences.ids is None and given == (*mask.shape[:-1], count):
        spread = weights.unsqueeze(-2).expand(shape)
    elif sequences.ids is not None and given == (sequences.count, count):
        of = sequences.of(mask)
        spread = torch.stack([of.spread(column) for column in weights.unbind(-1)], -1)
    else:
        units = "per row, " if sequences.ids is None else "per packed sequence (with num_sequences or cu_seqlens), "
        requirement = f"have one entry for each of the {count} teachers: ({count},), one row of them {units}or per token {shape}"
        raise checks.fail(ShapeError, "weights", requirement, given)
    live = mask.unsqueeze(-1)
    requirement = "be at least 0 and finite wherever the mask is true"
    checks.each("weights", requirement, lambda: (spread, ~(spread.isfinite() & (spread >= 0)) & live), RangeError)
    return select(at_least_float32(spread if learn else spread.detach()), live.expand(shape))


def _weighed(
    student: tuple[Tensor, Tensor],
    named: dict[str, Teacher],
    shares: Tensor,
    mask: Tensor,
    settings: Settings,
    count: int | None,
    learn: bool,
) -> tuple[Tensor, dict[str, Partial]]:
    """Return the weighed divergence of each token and the statistics of the teachers."""
    hidden, weight = student
    fixed, each, entropy = shares.detach(), {}, Partial.nothing(shares)
    total = mass = entries = torch.zeros((), device=mask.device)
    for index, teacher in enumerate(named.values()):
        taught = mask if learn else mask & (fixed[..., index] > 0)  # at weight 0 the gradient of the weight is wanted, too
        expert, own_head, head = _aligned(teacher, weight, mask, count)
        checks.finite(expert, f"hidden of teacher {teacher.name!r:.80}", where=taught.unsqueeze(-1))
        row = settings.teacher(expert, head, taught)
        found = settings.divergence((hidden, own_head), (expert, head), row, taught)
        kl, floored, low = (part.view(mask.shape) for part in found)
        require_finite(kl, taught, f"student_weight and the weight of teacher {teacher.name!r:.80}")
        total = total + shares[..., index] * kl
        mass, entries = mass + fixed[..., index] * floored, entries + low
        each[f"kl/{teacher.name}"] = partial(kl, taught)
        entropy = entropy + partial(row.entropy.view(mask.shape), taught)
    untaught = fraction((fixed == 0).all(-1), mask)
    return total, {**each, "teacher_entropy": entropy, "untaught_fraction": untaught, **floor_statistics(mass, entries, mask)}
