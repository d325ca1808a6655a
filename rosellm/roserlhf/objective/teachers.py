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
from rosellm.roserlhf.objective import inputs
from rosellm.roserlhf.objective.aggregation import Aggregation, weighing
from rosellm.roserlhf.objective.divergence import TeacherRow
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
    checks.same_device(student_weight, "student_weight", mask, "action_mask")
    lesson = _Lesson(student_hidden, student_weight, named, mask, settings, shared_vocabulary)
    rows = None
    if not isinstance(weights, Tensor):
        if not callable(weights):
            raise checks.fail(DtypeError, "weights", "be a tensor or a function of TeacherStatistics", type(weights).__name__)
        rows = [lesson.normalise(name, mask) for name in named]
        weights = weights(_statistics(rows, mask))
    shares = _per_token(weights, mask, how.sequences, len(named), learn_weights)
    kl, found = lesson.weighed(shares, rows, learn_weights)
    return distillation_output(kl, found, mask, how)


def _named(teachers: Sequence[Teacher], student_tokenizer: str | None) -> dict[str, Teacher]:
    named: dict[str, Teacher] = {}
    for index, teacher in enumerate(checks.items(teachers, "teachers")):
        if not isinstance(teacher, Teacher):
            raise checks.fail(DtypeError, f"teachers[{index}]", "be a Teacher", type(teacher).__name__)
        if not isinstance(teacher.name, str):
            raise checks.fail(DtypeError, f"name of teachers[{index}]", "be a text", f"{teacher.name!r:.80}")
        if teacher.name in named:
            raise checks.fail(TeacherError, f"teachers[{index}]", "have a name of its own", f"{teacher.name!r:.80} again")
        same_tokenizer(student_tokenizer, teacher.tokenizer, f"tokenizer of teacher {teacher.name!r:.80}")
        named[teacher.name] = teacher
    if not named:
        raise checks.fail(TeacherError, "teachers", "hold at least one teacher", "none")
    return named


def _at_positions(hidden: Tensor, positions: Tensor, mask: Tensor, argument: str) -> Tensor:
    checks.floating(hidden, argument)
    if hidden.ndim != mask.ndim + 1 or hidden.shape[:-2] != mask.shape[:-1]:
        raise checks.fail(ShapeError, argument, f"have the rows of the student {tuple(mask.shape[:-1])}", tuple(hidden.shape))
    checks.integer(positions, f"positions of the {argument}")
    checks.same_shape(positions, f"positions of the {argument}", mask, "action_mask")
    checks.index(positions, f"positions of the {argument}", hidden.shape[-2], where=mask)
    if not hidden.shape[-2]:
        return hidden.new_zeros(*mask.shape, hidden.shape[-1])
    chosen = select(positions.long(), mask).clamp(0, hidden.shape[-2] - 1)
    return hidden.gather(-2, chosen.unsqueeze(-1).expand(*mask.shape, hidden.shape[-1]))


def _statistics(rows: list[TeacherRow], mask: Tensor) -> TeacherStatistics:
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
    if given == shape:
        inputs.require_one_reading(spread, "weights", mask, sequences)
    live = mask.unsqueeze(-1)
    requirement = "be at least 0 and finite wherever the mask is true"
    checks.each("weights", requirement, lambda: (spread, ~(spread.isfinite() & (spread >= 0)) & live), RangeError)
    return select(at_least_float32(spread if learn else spread.detach()), live.expand(shape))


@dataclass(frozen=True)
class _Lesson:
    """One student before its teachers, checked as far as the shapes go."""

    hidden: Tensor
    weight: Tensor
    teachers: dict[str, Teacher]
    mask: Tensor
    settings: Settings
    shared_vocabulary: int | None

    def aligned(self, name: str, taught: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return a teacher's hidden states at the student's tokens, and both embeddings over one vocabulary."""
        teacher, argument = self.teachers[name], f"hidden of teacher {name!r:.80}"
        hidden, weight_name = teacher.hidden, f"weight of teacher {name!r:.80}"
        if teacher.positions is not None:
            hidden = _at_positions(teacher.hidden, teacher.positions, self.mask, argument)
        read_head(hidden, teacher.weight, self.mask, argument, weight_name)
        checks.finite(hidden, argument, where=taught.unsqueeze(-1))
        return hidden, *shared(self.weight, teacher.weight, weight_name, self.shared_vocabulary, dim=0)

    def normalise(self, name: str, taught: Tensor) -> TeacherRow:
        """Read one teacher alone."""
        hidden, _, head = self.aligned(name, taught)
        return self.settings.teacher(hidden, head, taught)

    def weighed(self, shares: Tensor, rows: list[TeacherRow] | None, learn: bool) -> tuple[Tensor, dict[str, Partial]]:
        """Return the weighed divergence of each token and the statistics of the teachers; `rows` if they are known already."""
        fixed, each, entropy = shares.detach(), {}, Partial.nothing(shares)
        total = mass = entries = torch.zeros((), device=self.mask.device)
        for index, name in enumerate(self.teachers):
            # at weight 0 the gradient of the weight is wanted, too
            taught = self.mask if learn else self.mask & (fixed[..., index] > 0)
            hidden, own_head, head = self.aligned(name, taught)
            row = self.settings.teacher(hidden, head, taught) if rows is None else rows[index]
            found = self.settings.divergence((self.hidden, own_head), (hidden, head), row, taught)
            kl, floored, low = (part.view(self.mask.shape) for part in found)
            require_finite(kl, taught, f"student_weight and the weight of teacher {name!r:.80}")
            total = total + shares[..., index] * kl
            mass, entries = mass + fixed[..., index] * floored, entries + low
            each[f"kl/{name}"] = partial(kl, taught)
            entropy = entropy + partial(row.entropy.view(self.mask.shape), taught)
        untaught = fraction((fixed == 0).all(-1), self.mask)
        floored_statistics = floor_statistics(mass, entries, self.mask)
        return total, {**each, "teacher_entropy": entropy, "untaught_fraction": untaught, **floored_statistics}
