"""Student and teacher distributions at the student's own positions -> exact KL(student || teacher) as a loss.

From hidden states, block by block (`reverse_kl_distillation_loss`), or from whole logits where those fit
(`logits_distillation_loss`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Unpack

import torch
from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.errors import NonFiniteError, ShapeError
from rosellm.roserlhf.masked import Partial, at_least_float32, fraction, partial
from rosellm.roserlhf.objective import inputs
from rosellm.roserlhf.objective.aggregation import Aggregation, Weighing, weighing
from rosellm.roserlhf.objective.divergence import Blocks, Divergence, TeacherRow, diverge, read_teacher
from rosellm.roserlhf.objective.layout import Layout
from rosellm.roserlhf.objective.outputs import finish
from rosellm.roserlhf.objective.vocabulary import same_tokenizer, shared


@dataclass(frozen=True)
class DistillationLossOutput:
    """Output of the exact distillation losses."""

    loss: Tensor
    """0-d: the weighed divergence; call `backward` on it."""
    objective: Tensor
    """0-d, detached: minus the loss."""
    kl: Tensor
    """0-d: mean divergence of the live tokens, whatever the aggregation."""
    teacher_entropy: Tensor
    """0-d: mean entropy of the teacher in nats; a large divergence at a small one is a mode the student misses."""
    teacher_floored_fraction: Tensor
    """0-d: share of live tokens at which some log-probability was raised to the floor."""
    token_loss: Tensor
    """Shape of the tokens, differentiable: divergence of each token before aggregation, 0 where masked."""
    partials: dict[str, Partial]
    """Addable statistics by name; `teacher_floored_mass` is the student's probability on floored entries."""


def reverse_kl_distillation_loss(
    student_hidden: Tensor,
    student_weight: Tensor,
    teacher_hidden: Tensor,
    teacher_weight: Tensor,
    action_mask: Tensor,
    *,
    temperature: float = 1.0,
    teacher_floor: float = -100.0,
    shared_vocabulary: int | None = None,
    student_tokenizer: str | None = None,
    teacher_tokenizer: str | None = None,
    chunk: int = 256,
    vocabulary_chunk: int = 4096,
    aggregation: Aggregation = "token",
    denominator: float | Tensor | None = None,
    **layout: Unpack[Layout],
) -> DistillationLossOutput:
    r"""Pull the student's whole next-token distribution towards the teacher's, from hidden states, without holding the logits.

    .. math::
        L = \frac{1}{D}\sum_t m_t w_t\, \mathrm{KL}_t,\qquad
        \mathrm{KL}_t = \sum_v \pi_v\,(\log \pi_v - \log E_v),\qquad
        \frac{\partial\, \mathrm{KL}_t}{\partial z_v} = \pi_v\,(\log\pi_v - \log E_v - \mathrm{KL}_t)

    The reverse divergence, KL(student || teacher): it seeks a mode of the teacher. Positions are those the student visited, which
    makes it on-policy; how it came there gets no gradient (that part is `distillation_advantages` with a discount above 0). Unlike
    the sampled form it has no sampling noise: the expected gradient of that form is this one.

    Logits are `hidden @ weight.T`. A bias is one more column of the weight and a 1 behind every hidden state; a logit scale
    multiplies the hidden states; a head with a soft-cap needs `logits_distillation_loss`. Position `t` of the hidden states
    predicts token `t`: for a causal model pass `hidden[:, :-1]` and `mask[:, 1:]`. At most `chunk` x `vocabulary_chunk` logits of
    each model exist at once, forward and backward; both are computed again in the backward pass. The result does not depend on
    either number beyond rounding. Masked positions are not computed; to find the others waits once for the device. The teacher is
    never differentiated, and its weight may stay on another device (or be a memory map): it is copied block by block.

    A teacher that rules a token out makes the divergence infinite. Teacher log-probabilities below `teacher_floor` are raised to it
    and counted; -100 lies below the smallest probability that float32 can hold.

    Source: Agarwal et al. 2023 (GKD), https://arxiv.org/abs/2306.13649; Gu et al. 2023 (MiniLLM), https://arxiv.org/abs/2306.08543

    Args:
        student_hidden: `[..., T, d]`, floating point, the input of the output embedding; differentiable.
        student_weight: `[V, d]`; differentiable.
        teacher_hidden: `[..., T, e]`, at the same tokens (`align_policy_spans` where the teacher saw another prompt).
        teacher_weight: `[V, e]`.
        action_mask: `[..., T]`, boolean or exactly 0/1. Masked positions may hold anything.
        temperature: above 0; divides the logits of both models. There is no factor temperature².
        teacher_floor: lowest log-probability that a teacher may give, below 0.
        shared_vocabulary: n: only the first n entries of both vocabularies count and are normalised anew. For embeddings padded to
            different sizes.
        student_tokenizer, teacher_tokenizer: fingerprints, compared if given: sizes say nothing about the meaning of ids.
        chunk: positions per block.
        vocabulary_chunk: vocabulary entries per block.
        aggregation: how tokens are weighed; see `aggregate`.
        denominator: of the whole optimizer step, from `step_denominator`; default: this call's own.
        layout: which tokens are one sequence (default: a row) and one rollout, and the horizon; see `Layout`.

    Returns:
        `DistillationLossOutput`, float32 or float64.

    Raises:
        TeacherError: the vocabularies or tokenizers differ.
        MaskError: the mask is not 0/1, or empty without a denominator (`empty mask`).
        NonFiniteError: NaN or infinity at a live position.
        RangeError, ShapeError, DtypeError, DeviceError: a number is out of range, or the tensors do not fit together.

    Example:
        >>> student, teacher = torch.tensor([[0.9, 0.1]]).log(), torch.tensor([[0.5, 0.5]]).log()
        >>> head = torch.eye(2)  # so that hidden states are logits: 0.9 ln(0.9 / 0.5) + 0.1 ln(0.1 / 0.5)
        >>> reverse_kl_distillation_loss(student, head, teacher, head, torch.tensor([True])).loss
        tensor(0.3681)
    """
    mask = token_mask(action_mask, student_hidden, "student_hidden")
    settings = Settings.read(temperature, teacher_floor, chunk, vocabulary_chunk)
    how = weighing(mask, aggregation, denominator, layout)
    same_tokenizer(student_tokenizer, teacher_tokenizer, "teacher_tokenizer")
    read_head(student_hidden, student_weight, mask, "student_hidden", "student_weight")
    read_head(teacher_hidden, teacher_weight, mask, "teacher_hidden", "teacher_weight")
    checks.same_device(student_weight, "student_weight", mask, "action_mask")
    student, teacher = shared(student_weight, teacher_weight, "teacher_weight", shared_vocabulary, dim=0)
    for hidden, name in ((student_hidden, "student_hidden"), (teacher_hidden, "teacher_hidden")):
        checks.finite(hidden, name, where=mask.unsqueeze(-1))
    row = settings.teacher(teacher_hidden, teacher, mask)
    found = settings.divergence((student_hidden, student), (teacher_hidden, teacher), row, mask)
    require_finite(found.kl.view(mask.shape), mask, "student_weight and teacher_weight")
    floored = floor_statistics(found.floored_mass.view(mask.shape), found.floored_entries.view(mask.shape), mask)
    statistics = {"teacher_entropy": partial(row.entropy.view(mask.shape), mask), **floored}
    return distillation_output(found.kl.view(mask.shape), statistics, mask, how)


def logits_distillation_loss(
    student_logits: Tensor,
    teacher_logits: Tensor,
    action_mask: Tensor,
    *,
    direction: Literal["reverse", "forward"] = "reverse",
    temperature: float = 1.0,
    floor: float = -100.0,
    shared_vocabulary: int | None = None,
    student_tokenizer: str | None = None,
    teacher_tokenizer: str | None = None,
    aggregation: Aggregation = "token",
    denominator: float | Tensor | None = None,
    **layout: Unpack[Layout],
) -> DistillationLossOutput:
    r"""Pull the student towards the teacher from whole logits, by the reverse or the forward divergence.

    .. math::
        \text{reverse: } \sum_v \pi_v (\log\pi_v - \log E_v), \qquad \text{forward: } \sum_v E_v (\log E_v - \log\pi_v)

    The gradients at a logit are `π_v (log π_v - log E_v - KL)` and `π_v - E_v`. Reverse seeks a mode of the teacher and is the
    on-policy default; forward covers all of it. Several arrays of the size of the logits are held; from hidden states
    `reverse_kl_distillation_loss` gives the reverse numbers in blocks.

    The second distribution of the direction (reverse: the teacher, forward: the student) is raised to `floor` and counted where it
    lies below; in the forward direction such entries of the student get no gradient, and only entries of probability 0 are raised.

    Source: Agarwal et al. 2023 (GKD), https://arxiv.org/abs/2306.13649

    Args:
        student_logits: `[..., T, V]`, floating point; differentiable. Minus infinity is probability 0.
        teacher_logits: `[..., T, V]`; detached.
        action_mask: `[..., T]`, boolean or exactly 0/1. Masked positions may hold anything.
        direction: `reverse`, KL(student || teacher), or `forward`, KL(teacher || student).
        temperature: above 0; divides both logits. There is no factor temperature².
        floor: lowest log-probability of the second distribution, below 0.
        shared_vocabulary, student_tokenizer, teacher_tokenizer: as in `reverse_kl_distillation_loss`.
        aggregation: how tokens are weighed; see `aggregate`.
        denominator: of the whole optimizer step, from `step_denominator`; default: this call's own.
        layout: which tokens are one sequence (default: a row) and one rollout, and the horizon; see `Layout`.

    Returns:
        `DistillationLossOutput`; the floored statistics are of the floored side, the mass of the other one.

    Raises:
        TeacherError: the vocabularies or tokenizers differ.
        MaskError: the mask is not 0/1, or empty without a denominator (`empty mask`).
        NonFiniteError: NaN or plus infinity at a live position.
        RangeError, ShapeError, DtypeError, DeviceError: a number is out of range, or the tensors do not fit together.

    Example:
        >>> student, teacher = torch.tensor([[0.9, 0.1]]).log(), torch.tensor([[0.5, 0.5]]).log()
        >>> logits_distillation_loss(student, teacher, torch.tensor([True])).loss
        tensor(0.3681)
        >>> logits_distillation_loss(student, teacher, torch.tensor([True]), direction="forward").loss
        tensor(0.5108)
    """
    mask = token_mask(action_mask, student_logits, "student_logits")
    checks.one_of(direction, "direction", ("reverse", "forward"))
    settings = Settings.read(temperature, floor, 1, 1, floor_name="floor")
    how = weighing(mask, aggregation, denominator, layout)
    same_tokenizer(student_tokenizer, teacher_tokenizer, "teacher_tokenizer")
    _same_tokens(teacher_logits, mask, "teacher_logits")
    student, teacher = shared(student_logits, teacher_logits.detach(), "teacher_logits", shared_vocabulary, dim=-1)
    log_student, log_teacher = (_logprobs(logits, mask, settings.temperature) for logits in (student, teacher))
    first, second = (log_student, log_teacher) if direction == "reverse" else (log_teacher, log_student)
    low = second.detach() < floor if direction == "reverse" else second.detach() == -torch.inf
    odds = first.exp()
    kl = (odds * (first.clamp(min=torch.finfo(first.dtype).min / 4) - second.masked_fill(low, floor))).sum(-1)
    require_finite(kl, mask, "student_logits and teacher_logits")
    entropy = -(log_teacher.exp() * log_teacher.clamp(min=torch.finfo(first.dtype).min / 4)).sum(-1)
    floored = floor_statistics((odds.detach() * low).sum(-1), low.sum(-1), mask)
    return distillation_output(kl, {"teacher_entropy": partial(entropy, mask), **floored}, mask, how)


def _logprobs(logits: Tensor, mask: Tensor, temperature: float) -> Tensor:
    kept = at_least_float32(logits).masked_fill(~mask.unsqueeze(-1), 0.0)
    return torch.log_softmax(kept / temperature, dim=-1)


@dataclass(frozen=True)
class Settings:
    """The numbers of a distillation, checked."""

    temperature: float
    floor: float
    blocks: Blocks

    @classmethod
    def read(cls, temperature: float, floor: float, chunk: int, width: int, *, floor_name: str = "teacher_floor") -> Settings:
        """Check the arguments."""
        inputs.temperature(temperature, "temperature")
        checks.number_in(floor, floor_name, -torch.finfo(torch.float32).max / 8, 0.0, open_high=True)
        checks.count(chunk, "chunk", at_least=1)
        checks.count(width, "vocabulary_chunk", at_least=1)
        return cls(float(temperature), float(floor), Blocks(chunk, width))

    def teacher(self, hidden: Tensor, weight: Tensor, mask: Tensor) -> TeacherRow:
        """Normalise a teacher; `hidden` is `[..., T, e]`, results are flat."""
        return read_teacher(hidden.flatten(0, -2), weight, mask.flatten(), self.temperature, self.blocks)

    def divergence(
        self, student: tuple[Tensor, Tensor], teacher: tuple[Tensor, Tensor], row: TeacherRow, mask: Tensor
    ) -> Divergence:
        """Return KL(student || teacher), flat; each side is (hidden, embedding)."""
        left, right = ((hidden.flatten(0, -2), weight) for hidden, weight in (student, teacher))
        return diverge(left, right, row, mask.flatten(), self.temperature, self.floor, self.blocks)


def token_mask(action_mask: Tensor, per_token: Tensor, argument: str) -> Tensor:
    """Check a tensor with one row of features per token, `[..., T, d]`, and its mask `[..., T]`; return the mask as boolean."""
    checks.floating(per_token, argument)
    checks.at_least_rank(per_token, 2, argument)
    mask: Tensor = checks.mask(action_mask, "action_mask")
    expected = tuple(per_token.shape[:-1])
    if tuple(mask.shape) != expected:
        raise checks.fail(
            ShapeError, "action_mask", f"have the shape of {argument} without its last dimension {expected}", tuple(mask.shape)
        )
    checks.same_device(mask, "action_mask", per_token, argument)
    return mask


def _same_tokens(per_token: Tensor, mask: Tensor, argument: str) -> None:
    checks.floating(per_token, argument)
    if per_token.ndim != mask.ndim + 1 or per_token.shape[:-1] != mask.shape:
        raise checks.fail(ShapeError, argument, f"have one row for each token {tuple(mask.shape)}", tuple(per_token.shape))
    checks.same_device(per_token, argument, mask, "action_mask")


def read_head(hidden: Tensor, weight: Tensor, mask: Tensor, hidden_name: str, weight_name: str) -> None:
    """Check hidden states `[..., T, d]` at the tokens of the mask and the embedding `[V, d]` that belongs to them."""
    _same_tokens(hidden, mask, hidden_name)
    for value, name in ((hidden, hidden_name), (weight, weight_name)):
        inputs.whole(value, name)
    checks.floating(weight, weight_name)
    if weight.ndim != 2 or weight.shape[1] != hidden.shape[-1]:
        raise checks.fail(ShapeError, weight_name, f"have shape [V, {hidden.shape[-1]}] to fit {hidden_name}", tuple(weight.shape))


def require_finite(kl: Tensor, mask: Tensor, arguments: str) -> None:
    """Refuse a divergence that is not a number: what made it so is too large to be searched before."""
    checks.each(
        arguments, "give a finite divergence wherever the mask is true", lambda: (kl, ~kl.isfinite() & mask), NonFiniteError
    )


def floor_statistics(mass: Tensor, entries: Tensor, mask: Tensor) -> dict[str, Partial]:
    """Say how often the floor acted, and how much probability met it."""
    return {
        "teacher_floored_fraction": fraction(entries > 0, mask),
        "teacher_floored_mass": partial(mass, mask),
    }


def distillation_output(kl: Tensor, statistics: dict[str, Partial], mask: Tensor, how: Weighing) -> DistillationLossOutput:
    """Weigh the divergence of each token into a loss; the statistics are those of the teachers and of the floor."""
    core = finish(-kl, mask, how, {"kl": partial(kl, mask), **statistics})
    return DistillationLossOutput(
        loss=core.loss,
        objective=core.objective,
        kl=core.mean("kl"),
        teacher_entropy=core.mean("teacher_entropy"),
        teacher_floored_fraction=core.mean("teacher_floored_fraction"),
        token_loss=core.token_loss,
        partials=core.partials,
    )
