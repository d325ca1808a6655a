"""Hidden states and output embeddings of two models -> KL(student || teacher) of every position, block by block.

The vocabulary is taken `width` entries at a time and the positions `chunk` at a time; one block of logits of each model is all that
ever exists. First the teacher is normalised (online, with a running maximum: Milakov and Gimelshein 2018,
https://arxiv.org/abs/1805.02867), so that its log-probabilities can be floored; then the student is normalised while the divergence
is summed. The backward pass computes both blocks again. Only the selected positions are computed.

Products of half-precision inputs are half-precision matrix products; everything between, and every sum over blocks, is float32.
Each pass is an operator of its own, so `torch.compile` takes it as one node. A teacher's embedding may stay on another device: a
block of it is copied when its turn comes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor


def _cuts(length: int, size: int) -> list[slice]:
    return [slice(start, min(start + size, length)) for start in range(0, length, size)]


def _sums(*inputs: Tensor) -> torch.dtype:
    """Return the dtype of everything that is added up."""
    dtype = torch.float32
    for given in inputs:
        dtype = torch.promote_types(dtype, given.dtype)
    return dtype


class _Side(NamedTuple):
    """One model: its hidden states at the selected positions, its output embedding, and what divides its logits."""

    left: Tensor
    weight: Tensor
    temperature: float
    sums: torch.dtype

    @classmethod
    def of(cls, hidden: Tensor, weight: Tensor, live: Tensor, temperature: float, sums: torch.dtype) -> _Side:
        return cls(hidden[live].to(torch.promote_types(hidden.dtype, weight.dtype)), weight, temperature, sums)

    def blocks(self, width: int) -> list[slice]:
        """Cut the vocabulary; nothing of it is needed where no position is selected."""
        return _cuts(self.weight.shape[0] if len(self.left) else 0, width)

    def rows(self, block: slice) -> Tensor:
        """Fetch one block of the embedding, `[width, d]`."""
        return self.weight[block].to(device=self.left.device, dtype=self.left.dtype)

    def logits(self, at: slice, rows: Tensor) -> Tensor:
        logits = torch.mm(self.left[at], rows.t()).to(self.sums)
        return logits if self.temperature == 1.0 else logits.div_(self.temperature)


class _Softmax:
    """Normalisers of many rows, fed one block of logits at a time, and sums of things weighed by the probabilities."""

    def __init__(self, rows: int, like: Tensor, sums: torch.dtype, extra: int) -> None:
        self.lowest = torch.finfo(sums).min / 4  # finite: the difference to it is never infinity minus infinity
        self.top = like.new_full((rows,), self.lowest, dtype=sums)
        self.mass = like.new_zeros(rows, dtype=sums)
        self.weighted = like.new_zeros((extra, rows), dtype=sums)

    def feed(self, at: slice, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Shift the logits in place by the new maximum; return their exponentials and how far the maximum moved (<= 0)."""
        before = self.top[at]
        top = torch.maximum(before, logits.amax(1))
        odds = logits.sub_(top[:, None]).exp()
        step = before - top
        fade = step.exp()
        self.mass[at] = self.mass[at] * fade + odds.sum(1)
        self.weighted[:, at] *= fade
        self.top[at] = top
        return odds, step

    def normaliser(self) -> Tensor:
        return self.top + self.mass.log()


def _spread(live: Tensor, count: int, values: Tensor) -> Tensor:
    """Put values of the selected positions into their places; 0 elsewhere."""
    return values.new_zeros(count).index_copy(0, live, values)


def teacher_statistics(
    hidden: Tensor, weight: Tensor, mask: Tensor, temperature: float, chunk: int, width: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the teacher's log-normaliser, entropy and largest log-probability, `[N]` each and 0 where masked."""
    with torch.autocast(hidden.device.type, enabled=False):
        live = mask.nonzero().squeeze(-1)
        side = _Side.of(hidden, weight, live, temperature, _sums(hidden, weight))
        soft = _Softmax(len(live), hidden, side.sums, 1)
        for block in side.blocks(width):
            rows = side.rows(block)
            for at in _cuts(len(live), chunk):
                logits, mass = side.logits(at, rows), soft.mass[at].clone()
                odds, step = soft.feed(at, logits)
                soft.weighted[0, at] += step.exp() * step * mass + (logits.clamp_(min=soft.lowest) * odds).sum(1)
        entropy = soft.mass.log() - soft.weighted[0] / soft.mass
        return (
            _spread(live, len(mask), soft.normaliser()),
            _spread(live, len(mask), entropy),
            _spread(live, len(mask), -soft.mass.log()),
        )


def reverse_kl(
    hidden: Tensor,
    weight: Tensor,
    teacher_hidden: Tensor,
    teacher_weight: Tensor,
    teacher_normaliser: Tensor,
    mask: Tensor,
    temperature: float,
    floor: float,
    chunk: int,
    width: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the divergence, the student's log-normaliser, and its mass on and the number of floored entries, `[N]` each."""
    with torch.autocast(hidden.device.type, enabled=False):
        live = mask.nonzero().squeeze(-1)
        sums = _sums(hidden, weight, teacher_hidden, teacher_weight)
        student = _Side.of(hidden, weight, live, temperature, sums)
        teacher = _Side.of(teacher_hidden, teacher_weight, live, temperature, sums)
        against = teacher_normaliser[live].to(sums)
        soft = _Softmax(len(live), hidden, sums, 2)
        floored_entries = soft.mass.clone()
        for rows, teacher_rows, _ in _paired_rows(student, teacher, width):
            for at in _cuts(len(live), chunk):
                expert = teacher.logits(at, teacher_rows).sub_(against[at, None])
                low = expert < floor
                logits, mass = student.logits(at, rows), soft.mass[at].clone()
                odds, step = soft.feed(at, logits)
                soft.weighted[0, at] += step.exp() * step * mass
                soft.weighted[0, at] += logits.clamp_(min=soft.lowest).sub_(expert.clamp_(min=floor)).mul_(odds).sum(1)
                soft.weighted[1, at] += odds.masked_fill_(~low, 0.0).sum(1)
                floored_entries[at] += low.sum(1)
        divergence, floored_mass = soft.weighted / soft.mass
        return (
            _spread(live, len(mask), divergence - soft.mass.log()),
            _spread(live, len(mask), soft.normaliser()),
            _spread(live, len(mask), floored_mass),
            _spread(live, len(mask), floored_entries),
        )


def _paired_rows(student: _Side, teacher: _Side, width: int) -> Iterator[tuple[Tensor, Tensor, slice]]:
    return ((student.rows(block), teacher.rows(block), block) for block in student.blocks(width))


def reverse_kl_backward(
    hidden: Tensor,
    weight: Tensor,
    teacher_hidden: Tensor,
    teacher_weight: Tensor,
    teacher_normaliser: Tensor,
    mask: Tensor,
    normaliser: Tensor,
    divergence: Tensor,
    upstream: Tensor,
    temperature: float,
    floor: float,
    chunk: int,
    width: int,
    needs_hidden: bool,
    needs_weight: bool,
) -> tuple[Tensor, Tensor]:
    """Return the gradients at the student's hidden states and embedding; an empty tensor where it is not needed.

    At a logit it is `p_v (log p_v - log E_v - KL)` times the upstream gradient over the temperature.
    """
    with torch.autocast(hidden.device.type, enabled=False):
        live = mask.nonzero().squeeze(-1)
        sums = _sums(hidden, weight, teacher_hidden, teacher_weight)
        student = _Side.of(hidden, weight, live, temperature, sums)
        teacher = _Side.of(teacher_hidden, teacher_weight, live, temperature, sums)
        own, expected, scale = normaliser[live], divergence[live], upstream[live].to(sums) / temperature
        against, lowest = teacher_normaliser[live].to(sums), torch.finfo(sums).min / 4
        at_hidden = student.left.new_zeros(student.left.shape if needs_hidden else (0, 0), dtype=sums)
        at_weight = weight.new_zeros(weight.shape if needs_weight else (0, 0))
        for rows, teacher_rows, block in _paired_rows(student, teacher, width):
            at_rows = rows.new_zeros(rows.shape if needs_weight else (0, 0), dtype=sums)
            for at in _cuts(len(live), chunk):
                expert = teacher.logits(at, teacher_rows).sub_(against[at, None]).clamp_(min=floor)
                logits = student.logits(at, rows).sub_(own[at, None])
                pull = logits.exp().mul_(scale[at, None])
                pull.mul_(logits.clamp_(min=lowest).sub_(expert).sub_(expected[at, None]))
                factor = pull.to(rows.dtype)
                if needs_hidden:
                    at_hidden[at] += torch.mm(factor, rows)
                if needs_weight:
                    at_rows += torch.mm(factor.t(), student.left[at])
            if needs_weight:
                at_weight[block] = at_rows
        if not needs_hidden:
            return hidden.new_zeros((0, 0)), at_weight
        return torch.zeros_like(hidden).index_copy(0, live, at_hidden.to(hidden.dtype)), at_weight


_STUDENT = "Tensor hidden, Tensor weight"
_PAIR = f"{_STUDENT}, Tensor teacher_hidden, Tensor teacher_weight, Tensor teacher_normaliser, Tensor mask"
_FLOORED = "float temperature, float floor, int chunk, int width"
_statistics_operator = torch.library.custom_op(
    "rosellm::teacher_statistics",
    teacher_statistics,
    mutates_args=(),
    schema=f"({_STUDENT}, Tensor mask, float temperature, int chunk, int width) -> (Tensor, Tensor, Tensor)",
)
_operator = torch.library.custom_op(
    "rosellm::reverse_kl", reverse_kl, mutates_args=(), schema=f"({_PAIR}, {_FLOORED}) -> (Tensor, Tensor, Tensor, Tensor)"
)
_backward_operator = torch.library.custom_op(
    "rosellm::reverse_kl_backward",
    reverse_kl_backward,
    mutates_args=(),
    schema=f"({_PAIR}, Tensor normaliser, Tensor divergence, Tensor upstream, {_FLOORED}, bool needs_hidden, bool needs_weight)"
    " -> (Tensor, Tensor)",
)


@_statistics_operator.register_fake
def _(hidden: Tensor, weight: Tensor, *_: Any) -> tuple[Tensor, Tensor, Tensor]:
    row = hidden.new_empty(hidden.shape[0], dtype=_sums(hidden, weight))
    return row, torch.empty_like(row), torch.empty_like(row)


@_operator.register_fake
def _(hidden: Tensor, weight: Tensor, teacher_hidden: Tensor, teacher_weight: Tensor, *_: Any) -> tuple[Tensor, ...]:
    row = hidden.new_empty(hidden.shape[0], dtype=_sums(hidden, weight, teacher_hidden, teacher_weight))
    return row, torch.empty_like(row), torch.empty_like(row), torch.empty_like(row)


@_backward_operator.register_fake
def _(hidden: Tensor, weight: Tensor, *others: Any) -> tuple[Tensor, Tensor]:
    needs_hidden, needs_weight = others[-2:]
    return hidden.new_empty(hidden.shape if needs_hidden else (0, 0)), weight.new_empty(weight.shape if needs_weight else (0, 0))


def _remember(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    *tensors, temperature, floor, chunk, width = inputs
    ctx.save_for_backward(*tensors, output[1], output[0])
    ctx.numbers = (temperature, floor, chunk, width)
    ctx.mark_non_differentiable(*output[1:])


def _backward(ctx: Any, upstream: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
    needs_hidden, needs_weight = ctx.needs_input_grad[:2]
    at_hidden, at_weight = _backward_operator(*ctx.saved_tensors, upstream, *ctx.numbers, needs_hidden, needs_weight)
    return at_hidden if needs_hidden else None, at_weight if needs_weight else None, *([None] * 8)


_operator.register_autograd(_backward, setup_context=_remember)


class Divergence(NamedTuple):
    """What one teacher gives, `[N]` each and 0 where masked; detached but for the first."""

    kl: Tensor
    """KL(student || teacher), differentiable by the student's hidden states and embedding."""
    floored_mass: Tensor
    """Probability that the student gives to entries whose teacher log-probability was raised to the floor."""
    floored_entries: Tensor
    """Number of those entries."""


class TeacherRow(NamedTuple):
    """What is known of the teacher's distribution alone, `[N]` each, detached, and 0 where masked."""

    normaliser: Tensor
    entropy: Tensor
    top_logprob: Tensor


class Blocks(NamedTuple):
    """How large a block of logits may be."""

    chunk: int
    width: int


def read_teacher(hidden: Tensor, weight: Tensor, mask: Tensor, temperature: float, blocks: Blocks) -> TeacherRow:
    """Normalise the teacher at the selected positions; `hidden` is `[N, e]`, `mask` boolean `[N]`."""
    return TeacherRow(*_statistics_operator(hidden.detach(), weight.detach(), mask, temperature, *blocks))


def diverge(
    student: tuple[Tensor, Tensor],
    teacher: tuple[Tensor, Tensor],
    row: TeacherRow,
    mask: Tensor,
    temperature: float,
    floor: float,
    blocks: Blocks,
) -> Divergence:
    """Return KL(student || teacher) at the selected positions; each side is (hidden `[N, d]`, embedding `[V, d]`)."""
    experts = (part.detach() for part in teacher)
    kl, _, mass, entries = _operator(*student, *experts, row.normaliser, mask, temperature, floor, *blocks)
    return Divergence(kl, mass, entries)
