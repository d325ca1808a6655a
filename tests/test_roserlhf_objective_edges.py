"""Objectives at their edges: nothing to compute, ambiguous shapes, options without effect, numbers that change in one graph."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from rosellm.roserlhf import losses
from rosellm.roserlhf.errors import ArgumentError, DtypeError, ModelError, RangeError, ShapeError, TeacherError
from rosellm.roserlhf.losses import KeptSupport, Teacher

ZEROS, ONES, CREDIT = torch.zeros(2, 3), torch.ones(2, 3), torch.tensor([1.0, -1.0])
NO_IDS = torch.zeros(0, dtype=torch.int64)

# ---- nothing to compute


@pytest.mark.parametrize("layout", [{"sequence_ids": NO_IDS}, {"position_ids": NO_IDS}, {"cu_seqlens": torch.tensor([0])}], ids=str)
@pytest.mark.parametrize("aggregation", ["token", "sequence_mean", "sequence_sum"])
def test_an_empty_packed_micro_batch_has_no_sequence_and_no_advantage(layout: Any, aggregation: Any) -> None:
    how: Any = {"clip_low": 0.2, "clip_high": 0.2, "aggregation": aggregation, "denominator": 4.0}
    for objective in (losses.gspo_policy_loss, losses.gspo_token_policy_loss):
        nothing = torch.zeros(0, requires_grad=True)
        out = objective(nothing, torch.zeros(0), torch.zeros(0), torch.zeros(0), **how, **layout)
        out.loss.backward()
        assert out.loss == 0.0
        assert nothing.grad is not None
    losses.gspo_policy_loss(nothing, torch.zeros(0), torch.zeros(0), torch.zeros(0), **how, sequence_ids=NO_IDS, num_sequences=0)
    one_per_mask: Any = {name: [ids] for name, ids in layout.items()}
    assert losses.step_denominator([torch.zeros(0)], aggregation, **one_per_mask) == 0


@pytest.mark.parametrize("frozen", [True, False])
def test_a_support_of_positions_that_are_not_computed(frozen: bool) -> None:
    hidden, head = torch.randn(2, 3, requires_grad=True), torch.randn(4, 3, requires_grad=not frozen)
    kept = KeptSupport.of([[0, 1], [2]])
    found = losses.selected_logprobs(hidden, head, torch.tensor([0, 2]), support=kept, mask=torch.zeros(2))
    found.sum().backward()
    assert found.tolist() == [0.0, 0.0]
    assert hidden.grad is not None
    assert hidden.grad.eq(0).all()
    assert losses.selected_logprobs(hidden[:0], head, NO_IDS, support=KeptSupport.of([])).shape == (0,)


def test_no_vocabulary_is_an_error_and_not_a_divergence_of_zero() -> None:
    nothing, mask = torch.zeros(1, 2, 0), torch.ones(1, 2)
    with pytest.raises(ShapeError, match=r"logits must hold at least one vocabulary entry, got \(1, 2, 0\)"):
        losses.exact_kl(nothing, nothing)
    with pytest.raises(TeacherError, match="teacher_logits must hold at least one vocabulary entry"):
        losses.logits_distillation_loss(nothing, nothing, mask)
    with pytest.raises(TeacherError, match="teacher_weight must hold at least one vocabulary entry"):
        losses.reverse_kl_distillation_loss(torch.zeros(1, 2, 3), torch.zeros(0, 3), torch.zeros(1, 2, 3), torch.zeros(0, 3), mask)


def test_a_teacher_without_a_position_teaches_an_empty_micro_batch() -> None:
    hidden, head = torch.zeros(1, 2, 3), torch.zeros(4, 3)
    teacher = Teacher("one", torch.zeros(1, 0, 3), head, positions=torch.zeros(1, 2, dtype=torch.int64))
    how: Any = {"weights": torch.ones(1), "denominator": 1}
    assert losses.multi_teacher_distillation_loss(hidden, head, [teacher], torch.zeros(1, 2), **how).loss == 0.0


# ---- what could mean two things


def test_as_many_sequences_as_tokens() -> None:
    # sequences [], [a], [b, c]: per token the credit is [1, 2, 3], per sequence [2, 3, 3]
    tokens, credit, cuts = torch.zeros(3), torch.tensor([1.0, 2.0, 3.0]), torch.tensor([0, 0, 1, 3])
    with pytest.raises(
        ShapeError, match=r"advantages must say the same read per token and per sequence, .* 3 each, got the value 1"
    ):
        losses.clipped_policy_loss(tokens, tokens, credit, torch.ones(3), cu_seqlens=cuts)
    uniform = losses.clipped_policy_loss(tokens, tokens, torch.ones(3), torch.ones(3), cu_seqlens=cuts)
    assert uniform.token_loss.tolist() == [-1.0, -1.0, -1.0]
    for one_row, wanted in ((credit[None], [-1.0, -2.0, -3.0]), (credit, [-2.0, -3.0, -3.0])):
        out = losses.clipped_policy_loss(tokens[None], tokens[None], one_row, torch.ones(1, 3), cu_seqlens=cuts)
        assert out.token_loss.tolist() == [wanted]
    single = losses.clipped_policy_loss(tokens, tokens, credit, torch.ones(3), cu_seqlens=torch.arange(4))
    assert single.token_loss.tolist() == [-1.0, -2.0, -3.0]
    hidden, head = torch.zeros(3, 2), torch.eye(2)
    pair = [Teacher("one", hidden, head), Teacher("two", hidden, head)]
    shares = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    with pytest.raises(ShapeError, match="weights must say the same read per token and per sequence"):
        losses.multi_teacher_distillation_loss(hidden, head, pair, torch.ones(3), weights=shares, cu_seqlens=cuts)


def test_a_negative_position_is_padding_and_no_sequence() -> None:
    # [pad, pad, a, b], [c, d, e, pad]: two sequences; 6 / 2 with a horizon of 1
    positions = torch.tensor([[-1, -1, 0, 1], [0, 1, 2, -1]])
    mask = torch.tensor([[0, 0, 1, 1], [1, 1, 1, 0]])
    values = torch.tensor([[9.0, 9.0, 1.0, 1.0], [1.0, 1.0, 2.0, 9.0]])
    for extra in ({}, {"num_sequences": 2}):
        found = losses.aggregate(values, mask, aggregation="horizon", horizon=1.0, position_ids=positions, **extra)  # type: ignore[arg-type]
        assert found == 3.0
    assert losses.step_denominator([mask], "horizon", position_ids=[positions]) == 2


def test_corrections_of_different_layouts_do_not_combine() -> None:
    tokens, ones, cuts = torch.zeros(3), torch.ones(3), torch.tensor([0, 1, 3])
    plain, packed = losses.tis(tokens, tokens, ones), losses.tis(tokens, tokens, ones, cu_seqlens=cuts)
    for left, right in ((plain, packed), (packed, plain), (packed, losses.tis(tokens, tokens, ones, cu_seqlens=cuts + cuts.eq(1)))):
        with pytest.raises(ShapeError, match="the right correction must have the sequences of the left one"):
            left * right
    with pytest.raises(DtypeError, match="the right correction must be a MismatchCorrection, got float"):
        plain * 2.0  # type: ignore[operator]


# ---- options that nothing reads


def test_rollouts_belong_to_their_aggregation() -> None:
    rollouts = torch.tensor([0, 1])
    with pytest.raises(RangeError, match=r'rollout_ids must be given only for aggregation="rollout", got aggregation=\'token\''):
        losses.clipped_policy_loss(ZEROS, ZEROS, CREDIT, ONES, rollout_ids=rollouts)
    with pytest.raises(RangeError, match=r'rollout_ids must be given only for mode="rollout", got mode=\'token\''):
        losses.step_denominator([ONES], "token", rollout_ids=[rollouts])


@pytest.mark.parametrize(
    ("call", "option"),
    [
        (lambda **how: losses.sao_reasoning(ZEROS, ZEROS, CREDIT, ONES, **how), "clip_low"),
        (lambda **how: losses.sao_coding(ZEROS, ZEROS, CREDIT, ONES, **how), "clip_high"),
        (lambda **how: losses.tis(ZEROS, ZEROS, ONES, **how), "level"),
        (lambda **how: losses.tis(ZEROS, ZEROS, ONES, **how), "ratio_min"),
        (lambda **how: losses.icepop(ZEROS, ZEROS, ONES, **how), "weight"),
        (lambda **how: losses.mis(ZEROS, ZEROS, ONES, **how), "action"),
    ],
)
def test_a_preset_takes_no_option_of_what_it_presets(call: Callable[..., Any], option: str) -> None:
    with pytest.raises(ArgumentError, match=f"{option} must be one of the keyword arguments sequence_ids, "):
        call(**{option: 0.5})


# ---- numbers that are none


@pytest.mark.parametrize("dtype", [torch.uint16, torch.uint32, torch.uint64], ids=str)
def test_integers_that_torch_stores_but_does_not_compare(dtype: torch.dtype) -> None:
    ids = torch.tensor([[0, 1, 2], [0, 1, 2]]).to(dtype)
    rule = rf"must have a dtype that torch computes with, got {dtype}; convert it by \.long\(\)"
    with pytest.raises(DtypeError, match=f"target_ids {rule}"):
        losses.gather_token_logprobs(torch.zeros(2, 3, 4), ids)
    with pytest.raises(DtypeError, match=f"sequence_ids {rule}"):
        losses.aggregate(ZEROS, ONES, aggregation="token", sequence_ids=ids)
    with pytest.raises(DtypeError, match=f"position_ids {rule}"):
        losses.aggregate(ZEROS, ONES, aggregation="token", position_ids=ids)


@pytest.mark.parametrize("wrong", [torch.tensor(1j), torch.tensor(True), torch.tensor(3).to(torch.uint16)], ids=str)
def test_a_denominator_is_a_real_number(wrong: Tensor) -> None:
    pairs = torch.zeros(2)
    for call in (
        lambda: losses.clipped_policy_loss(ZEROS, ZEROS, CREDIT, ONES, denominator=wrong),
        lambda: losses.dpo_loss(pairs, pairs, pairs, pairs, denominator=wrong),
    ):
        with pytest.raises(DtypeError, match="denominator must be a tensor of real numbers"):
            call()


def test_a_denominator_gets_no_gradient() -> None:
    current, pairs = torch.zeros(2, 3, requires_grad=True), torch.zeros(2, requires_grad=True)
    one, each = torch.tensor(3.0, requires_grad=True), torch.full((2, 3), 3.0, requires_grad=True)
    rollout: Any = {"aggregation": "rollout", "denominator": each}
    for loss in (
        losses.clipped_policy_loss(current, ZEROS, CREDIT, ONES, denominator=one).loss,
        losses.clipped_policy_loss(current, ZEROS, CREDIT, ONES, **rollout).loss,
        losses.dpo_loss(pairs, pairs.detach(), pairs.detach(), pairs.detach(), denominator=one).loss,
    ):
        loss.backward()
    assert one.grad is None
    assert each.grad is None


HIDDEN, HEAD = torch.zeros(1, 2, 3), torch.zeros(4, 3)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: KeptSupport.of([[1.5]]), DtypeError, r"kept\[0\] must be integers"),  # type: ignore[list-item]
        (lambda: KeptSupport.of([None, 7]), DtypeError, r"kept\[1\] must be integers"),  # type: ignore[list-item]
        (lambda: KeptSupport.of(None), DtypeError, "kept must be a sequence of lists of ids"),  # type: ignore[arg-type]
        (lambda: losses.route_weights(None, ["a"]), DtypeError, "routes must be a sequence of names"),  # type: ignore[arg-type]
        (
            lambda: losses.align_policy_spans(torch.ones(1).long(), [1], torch.ones(1).long(), torch.ones(1)),  # type: ignore[arg-type]
            DtypeError,
            "student_mask must be a torch.Tensor, got list",
        ),
        (lambda: _teach(Teacher(["x"], HIDDEN, HEAD)), DtypeError, r"name of teachers\[0\] must be a text"),  # type: ignore[arg-type]
        (
            lambda: _teach(Teacher("x", HIDDEN, HEAD, positions=[[0, 1]])),  # type: ignore[arg-type]
            DtypeError,
            "positions of the hidden of teacher 'x' must be a torch.Tensor, got list",
        ),
        (lambda: _policy(mask=[[1, 1]]), DtypeError, "mask must be a torch.Tensor, got list"),
        (lambda: _policy(attention_mask=[[1, 1]]), DtypeError, "attention_mask must be a torch.Tensor, got list"),
        (lambda: _policy(), ModelError, r"model must return an output with the tensor \.logits, got NoneType"),
        (lambda: losses.effective_sample_size({}), ArgumentError, "partials must be those of a correction, .* none named weight"),
        (lambda: losses.merged_explained_variance({}), ArgumentError, "partials must be those of value_loss"),
        (lambda: losses.log_linear_proximal(ZEROS, ZEROS, 0, 2**70, 2**71), RangeError, "proximal_versions must fit into 64 bits"),
        (
            lambda: losses.selected_logprobs(HIDDEN, HEAD, NO_IDS.new_zeros(1, 2), chunk=2**70),
            RangeError,
            r"chunk must be below 2\*\*63",
        ),
    ],
)
def test_bad_input_is_named(call: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def _teach(teacher: Teacher) -> Any:
    return losses.multi_teacher_distillation_loss(HIDDEN, HEAD, [teacher], torch.ones(1, 2), weights=torch.ones(1))


def _policy(**how: Any) -> Tensor:
    return losses.policy_logprobs(None, torch.zeros(1, 2, dtype=torch.int64), temperature=1.0, **how)  # type: ignore[arg-type]


def test_a_support_may_be_listed_in_arrays_and_tensors() -> None:
    support = KeptSupport.of([np.array([3, 5]), torch.tensor([5]), None, []])  # type: ignore[list-item]
    assert support.ids.tolist() == [3, 5, 5]
    assert support.offsets.tolist() == [0, 2, 3, 3, 3]


# ---- extremes


OBJECTIVES: dict[str, Callable[..., Any]] = {
    "clipped": lambda c, o, a, m, **how: losses.clipped_policy_loss(c, o, a, m, **how),
    "decoupled": lambda c, o, a, m, **how: losses.decoupled_policy_loss(c, o, o, a, m, clip_low=0.2, clip_high=0.2, **how),
    "total_variation": lambda c, o, a, m, **how: losses.total_variation_policy_loss(c, o, a, m, **how),
    "gspo": lambda c, o, a, m, **how: losses.gspo_policy_loss(c, o, a, m, clip_low=0.2, clip_high=0.2, **how),
    "sapo": lambda c, o, a, m, **how: losses.sapo_policy_loss(c, o, a, m, **how),
    "sao": lambda c, o, a, m, **how: losses.sao_policy_loss(c, o, a, m, clip_low=0.2, clip_high=0.2, detach_ratio=False, **how),
}


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("credit", [1.0, 0.0])
def test_without_a_bound_a_saturated_ratio_still_has_the_gradient_zero(name: str, credit: float) -> None:
    # exp(500) is infinite in float32; clipped, gated or rejected its gradient is 0 and not 0 times infinity
    current = torch.full((1, 2), -0.1, requires_grad=True)
    out = OBJECTIVES[name](current, torch.full((1, 2), -500.0), torch.tensor([credit]), torch.ones(1, 2), max_log_ratio=math.inf)
    assert out.loss.isfinite()
    assert torch.autograd.grad(out.loss, current)[0].tolist() == [[0.0, 0.0]]
    assert out.partials["log_ratio_clamped_fraction"].mean() == 1.0


def test_dpo_is_exact_in_float64_at_large_margins() -> None:
    margins, zeros = torch.tensor([-25.0, -21.0, 21.0, 25.0], dtype=torch.float64), torch.zeros(4, dtype=torch.float64)
    wanted = [max(-x, 0.0) + math.log1p(math.exp(-abs(x))) for x in margins.tolist()]
    found = losses.dpo_loss(margins, zeros, zeros, zeros, beta=1.0).pair_loss
    torch.testing.assert_close(found, torch.tensor(wanted, dtype=torch.float64), rtol=1e-14, atol=0.0)


# ---- hyperparameters that change between the calls of one graph

NOW, THEN = torch.linspace(-1.0, 0.5, 6).view(2, 3), torch.linspace(0.2, -1.0, 6).view(2, 3)
CHANGING: dict[str, Callable[[float], Tensor]] = {
    "clipped": lambda x: losses.clipped_policy_loss(NOW, THEN, CREDIT, ONES, clip_low=x, clip_high=2 * x, dual_clip=1 + x).loss,
    "cispo": lambda x: losses.cispo_policy_loss(NOW, THEN, CREDIT, ONES, ratio_max=1 + x, ratio_min=x).loss,
    "sapo": lambda x: losses.sapo_policy_loss(NOW, THEN, CREDIT, ONES, tau_positive=x, max_log_ratio=10 * x).loss,
    "packed": lambda x: (
        losses.gspo_policy_loss(
            NOW.view(6), THEN.view(6), CREDIT, ONES.view(6), clip_low=x, clip_high=x, cu_seqlens=torch.tensor([0, 2, 6])
        ).loss
    ),
    "value": lambda x: losses.value_loss(NOW, CREDIT, ONES, old_values=THEN, clip=x, denominator=10 * x).loss,
    "mismatch": lambda x: losses.mismatch_correction(
        NOW, THEN, ONES, level="geometric_sequence", action="truncate", ratio_min=x, ratio_max=1 + x
    ).weights.sum(),
}


@pytest.mark.parametrize("name", CHANGING)
def test_hyperparameters_may_change_between_calls_of_one_graph(name: str) -> None:
    torch.compiler.reset()
    compiled = torch.compile(CHANGING[name], fullgraph=True, backend="eager")
    for value in (0.2, 0.3, 0.45):
        torch.testing.assert_close(compiled(value), CHANGING[name](value))
