"""Exact distillation: hand arithmetic, oracle, gradients, blocks, memory, masks, bad input."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from typing import Any

import oracles_distillation as oracles
import pytest
import torch
from cases_objective import DEVICE, close, counted, gradient, raises, tensor
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from rosellm.roserlhf import checks
from rosellm.roserlhf.errors import DtypeError, MaskError, NonFiniteError, RangeError, ShapeError, TeacherError
from rosellm.roserlhf.losses import (
    DistillationLossOutput,
    aggregate,
    logits_distillation_loss,
    reverse_kl_distillation_loss,
)
from rosellm.roserlhf.objective import divergence

STUDENT, TEACHER = [0.3, -0.2, 0.1, 0.6], [-0.1, 0.4, 0.2, 0.0]


def setting(*shape: int, d: int = 3, e: int = 4, vocabulary: int = 11, dtype: torch.dtype = torch.float64) -> dict[str, Any]:
    """Random student and teacher over tokens of a shape."""
    generator = torch.Generator().manual_seed(5)

    def draw(*size: int) -> Tensor:
        return torch.randn(*size, generator=generator, dtype=torch.float64).to(DEVICE, dtype)

    return {
        "student_hidden": draw(*shape, d).requires_grad_(),
        "student_weight": draw(vocabulary, d).requires_grad_(),
        "teacher_hidden": draw(*shape, e),
        "teacher_weight": draw(vocabulary, e),
        "action_mask": (draw(*shape) > -0.7),
    }


def gradients(loss: Tensor, case: dict[str, Any]) -> tuple[Tensor, ...]:
    return torch.autograd.grad(loss, [case["student_hidden"], case["student_weight"]])


def dense(case: dict[str, Any], **how: Any) -> DistillationLossOutput:
    """The same numbers from whole logits."""
    student, teacher = (case[f"{side}_hidden"] @ case[f"{side}_weight"].t() for side in ("student", "teacher"))
    return logits_distillation_loss(student, teacher, case["action_mask"], **how)


# ---- values


def test_R63_each_direction_has_its_name() -> None:
    # KL(student || teacher) = .9 ln(.9/.5) + .1 ln(.1/.5) = 0.52901 - 0.16094 = 0.36806
    # KL(teacher || student) = .5 ln(.5/.9) + .5 ln(.5/.1) = -0.29389 + 0.80472 = 0.51083
    student, teacher = tensor([[0.9, 0.1]]).log(), tensor([[0.5, 0.5]]).log()
    live, head = tensor([True]), torch.eye(2, dtype=torch.float64, device=DEVICE)
    close(logits_distillation_loss(student, teacher, live, direction="reverse").loss, 0.3680642071684971)
    close(logits_distillation_loss(student, teacher, live, direction="forward").loss, 0.5108256237659907)
    close(reverse_kl_distillation_loss(student, head, teacher, head, live).loss, 0.3680642071684971)


def test_reference_numbers_and_gradient() -> None:
    # gradient at a logit: pi_v (log pi_v - log E_v - KL)
    student, teacher = tensor([STUDENT], grad=True), tensor([TEACHER])
    wanted = [[0.05233993367048661, -0.12891948232146566, -0.06558539269937991, 0.14216494137672675]]
    out = logits_distillation_loss(student, teacher, tensor([True]))
    close(out.loss, 0.10395398838168168)
    close(gradient(out.loss, student), wanted)
    head = torch.eye(4, dtype=torch.float64, device=DEVICE)
    out = reverse_kl_distillation_loss(student, head, teacher, head, tensor([True]), vocabulary_chunk=3)
    close(out.loss, 0.10395398838168168)
    close(gradient(out.loss, student), wanted)


def test_an_offset_of_the_logits_changes_nothing() -> None:
    student = tensor([STUDENT], grad=True)
    out = logits_distillation_loss(student, student.detach() + 3.0, tensor([True]))
    close(out.loss, 0.0)
    close(gradient(out.loss, student), [[0.0] * 4])


def test_forward_gradient_is_student_minus_teacher() -> None:
    # d/dz of -sum_v E_v log pi_v = pi - E
    student = tensor([[0.9, 0.1]]).log().requires_grad_()
    out = logits_distillation_loss(student, tensor([[0.5, 0.5]]).log(), tensor([True]), direction="forward")
    close(gradient(out.loss, student), [[0.4, -0.4]])


@pytest.mark.parametrize("temperature", [1.0, 0.7, 2.0])
def test_against_the_loop(temperature: float) -> None:
    case = setting(2, 3)
    out = reverse_kl_distillation_loss(**case, temperature=temperature, chunk=2, vocabulary_chunk=4)
    rows = {name: part.detach().flatten(0, -2).tolist() for name, part in case.items() if name.endswith("hidden")}
    live = case["action_mask"].flatten().tolist()
    found, entropies, slopes = [], [], []
    for index in range(6):
        student, teacher = (
            oracles.log_softmax(oracles.logits(rows[f"{side}_hidden"][index], case[f"{side}_weight"].tolist(), temperature))
            for side in ("student", "teacher")
        )
        found.append(oracles.kl(student, teacher) if live[index] else 0.0)
        entropies.append(oracles.entropy(teacher))
        at_logits = [slope / temperature * live[index] for slope in oracles.reverse_kl_slopes(student, teacher)]
        columns = list(zip(*case["student_weight"].tolist(), strict=True))
        slopes.append([sum(a * w for a, w in zip(at_logits, column, strict=True)) for column in columns])
    close(out.token_loss.detach().flatten(), found)
    close(out.loss, sum(found) / sum(live))
    close(out.teacher_entropy, sum(h for h, m in zip(entropies, live, strict=True) if m) / sum(live))
    torch.testing.assert_close(gradients(out.token_loss.sum(), case)[0].flatten(0, 1), tensor(slopes))


@given(
    st.lists(st.floats(-30, 30), min_size=2, max_size=6),
    st.lists(st.floats(-30, 30), min_size=6, max_size=6),
    st.integers(1, 7),
)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_a_divergence_is_not_negative_and_zero_only_at_the_teacher(first: list[float], second: list[float], width: int) -> None:
    size = len(first)
    head = torch.eye(size, dtype=torch.float64, device=DEVICE)
    student, teacher, live = tensor([first]), tensor([second[:size]]), tensor([True])
    out = reverse_kl_distillation_loss(student, head, teacher, head, live, vocabulary_chunk=width)
    wanted = oracles.kl(oracles.log_softmax(first), oracles.log_softmax(second[:size]))
    assert out.loss.item() == pytest.approx(wanted, rel=1e-9, abs=1e-12)
    assert out.loss >= -1e-12
    same = reverse_kl_distillation_loss(student, head, student + 1.0, head, live, vocabulary_chunk=width)
    assert abs(same.loss.item()) < 1e-12


# ---- gradients


def test_gradcheck() -> None:
    case = setting(3, d=2, e=2, vocabulary=5)

    def loss(hidden: Tensor, weight: Tensor) -> Tensor:
        parts = case | {"student_hidden": hidden, "student_weight": weight}
        return reverse_kl_distillation_loss(**parts, temperature=1.3, chunk=2, vocabulary_chunk=2, denominator=3.0).token_loss

    assert torch.autograd.gradcheck(loss, (case["student_hidden"], case["student_weight"]))


@pytest.mark.parametrize("aggregation", ["token", "sequence_mean", "sequence_sum"])
def test_blocks_give_what_whole_logits_give(aggregation: Any) -> None:
    case = setting(3, 4)
    out, whole = reverse_kl_distillation_loss(**case, aggregation=aggregation), dense(case, aggregation=aggregation)
    torch.testing.assert_close(out.loss, whole.loss)
    for one, other in zip(gradients(out.loss, case), gradients(whole.loss, case), strict=True):
        torch.testing.assert_close(one, other)
    for name, partial in whole.partials.items():
        assert counted(out.partials[name]) == pytest.approx(counted(partial)), name
    torch.testing.assert_close(out.loss, aggregate(out.token_loss, case["action_mask"], aggregation=aggregation))


@pytest.mark.parametrize("chunk", [1, 3, 64])
@pytest.mark.parametrize("width", [1, 5, 256])
def test_the_size_of_blocks_does_not_matter(chunk: int, width: int) -> None:
    case = setting(37, d=8, e=8, vocabulary=97, dtype=torch.float32)
    one = reverse_kl_distillation_loss(**case)
    other = reverse_kl_distillation_loss(**case, chunk=chunk, vocabulary_chunk=width)
    torch.testing.assert_close(one.token_loss, other.token_loss, rtol=1e-6, atol=1e-6)
    for first, second in zip(gradients(one.loss, case), gradients(other.loss, case), strict=True):
        torch.testing.assert_close(first, second, rtol=1e-6, atol=1e-6)


def test_only_what_needs_a_gradient_gets_one() -> None:
    case = setting(5)
    case["student_weight"].requires_grad_(False)
    case["teacher_hidden"].requires_grad_()
    case["teacher_weight"].requires_grad_()
    loss = reverse_kl_distillation_loss(**case).loss
    loss.backward()
    assert case["student_hidden"].grad is not None
    assert case["teacher_hidden"].grad is None
    assert case["teacher_weight"].grad is None
    whole = dense(case).loss
    assert torch.autograd.grad(whole, case["teacher_hidden"], allow_unused=True)[0] is None


def test_a_frozen_trunk_leaves_the_gradient_of_the_head() -> None:
    case = setting(5)
    case["student_hidden"].requires_grad_(False)
    out, whole = reverse_kl_distillation_loss(**case, vocabulary_chunk=3), dense(case)
    one, other = (torch.autograd.grad(each.loss, case["student_weight"])[0] for each in (out, whole))
    torch.testing.assert_close(one, other)


def test_a_bias_is_one_more_column() -> None:
    case, bias = setting(4), tensor([0.1 * v for v in range(11)], grad=True)
    student = case["student_hidden"] @ case["student_weight"].t() + bias
    teacher = case["teacher_hidden"] @ case["teacher_weight"].t()
    whole = logits_distillation_loss(student, teacher, case["action_mask"]).loss
    folded = case | {
        "student_hidden": torch.cat([case["student_hidden"], torch.ones_like(case["student_hidden"][:, :1])], -1),
        "student_weight": torch.cat([case["student_weight"], bias[:, None]], -1),
    }
    loss = reverse_kl_distillation_loss(**folded).loss
    torch.testing.assert_close(loss, whole)
    close(gradient(loss, bias), gradient(whole, bias))


# ---- memory


class Sizes(TorchDispatchMode):
    """Remembers the largest number of elements that any operation returned."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.largest = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for part in out if isinstance(out, (tuple, list)) else [out]:
            if isinstance(part, Tensor):
                self.largest = max(self.largest, part.numel())
        return out


def test_no_array_of_positions_by_vocabulary_ever_exists() -> None:
    # 96 positions x 640 entries would be 61 440 numbers; hidden states and weights are smaller, a block has 8 x 64 = 512
    case = setting(96, d=4, e=4, vocabulary=640, dtype=torch.float32)
    hidden, weight, teacher, head = (case[n].detach() for n in list(case)[:4])
    mask = torch.ones(96, dtype=torch.bool, device=DEVICE)
    with Sizes() as sizes:
        row = divergence.teacher_statistics(teacher, head, mask, 1.0, 8, 64)
        kl, own, *_ = divergence.reverse_kl(hidden, weight, teacher, head, row[0], mask, 1.0, -100.0, 8, 64)
        divergence.reverse_kl_backward(
            hidden, weight, teacher, head, row[0], mask, own, kl, torch.ones_like(kl), 1.0, -100.0, 8, 64, True, True
        )
    assert sizes.largest == weight.numel() == 640 * 4  # the gradient of the weight


def test_the_graph_keeps_nothing_of_that_size() -> None:
    case, kept = setting(96, d=4, e=4, vocabulary=640, dtype=torch.float32), []

    def keep(saved: Tensor) -> Tensor:
        kept.append(saved.numel())
        return saved

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda saved: saved):
        reverse_kl_distillation_loss(**case)
    assert max(kept) == 640 * 4


def test_positions_that_are_masked_are_not_computed() -> None:
    case = setting(64, d=4, e=4, vocabulary=64, dtype=torch.float32)
    hidden, weight, teacher, head = (case[n].detach() for n in list(case)[:4])
    mask = torch.zeros(64, dtype=torch.bool, device=DEVICE)
    mask[:4] = True
    with Sizes() as sizes:
        row = divergence.teacher_statistics(teacher, head, mask, 1.0, 64, 64)
        divergence.reverse_kl(hidden, weight, teacher, head, row[0], mask, 1.0, -100.0, 64, 64)
    assert sizes.largest == 4 * 64


# ---- masks and layout


@pytest.mark.parametrize("filler", [math.nan, math.inf, 1e30])
def test_masked_positions_may_hold_anything(filler: float) -> None:
    case = setting(3, 4)
    wanted = reverse_kl_distillation_loss(**case)
    spoilt = dict(case)
    for name in ("student_hidden", "teacher_hidden"):
        spoilt[name] = case[name].detach().masked_fill(~case["action_mask"][..., None], filler)
    spoilt["student_hidden"].requires_grad_()
    for seen in (reverse_kl_distillation_loss(**spoilt), dense(spoilt)):
        torch.testing.assert_close(seen.loss, wanted.loss)
        assert not seen.token_loss[~case["action_mask"]].any()
    seen = reverse_kl_distillation_loss(**spoilt)
    torch.testing.assert_close(gradients(seen.loss, spoilt), gradients(wanted.loss, case))
    at_logits = (case["student_hidden"] @ case["student_weight"].t()).detach()
    at_logits = at_logits.masked_fill(~case["action_mask"][..., None], filler).requires_grad_()
    loss = logits_distillation_loss(at_logits, spoilt["teacher_hidden"] @ case["teacher_weight"].t(), case["action_mask"]).loss
    slopes = torch.autograd.grad(loss, at_logits)[0]
    assert slopes.isfinite().all()
    assert not slopes[~case["action_mask"]].any()


@pytest.mark.parametrize("aggregation", ["token", "sequence_mean", "sequence_sum"])
def test_packing_and_order_change_nothing(aggregation: Any) -> None:
    case = setting(3, 4)
    wanted = reverse_kl_distillation_loss(**case, aggregation=aggregation)
    order = torch.tensor([2, 0, 1], device=DEVICE)
    per_token = ("student_hidden", "teacher_hidden", "action_mask")
    packed = case | {name: case[name][order].flatten(0, 1) for name in per_token}
    boundaries = torch.tensor([0, 4, 8, 12], device=DEVICE)
    seen = reverse_kl_distillation_loss(**packed, aggregation=aggregation, cu_seqlens=boundaries)
    torch.testing.assert_close(seen.loss, wanted.loss)
    for one, other in zip(gradients(seen.loss, case), gradients(wanted.loss, case), strict=True):
        torch.testing.assert_close(one, other)


def test_micro_batches_add_up() -> None:
    case = setting(4, 3)
    denominator = float(case["action_mask"].sum())
    wanted = gradients(reverse_kl_distillation_loss(**case).loss, case)
    total = [torch.zeros_like(part) for part in wanted]
    for rows in (slice(0, 1), slice(1, 4)):
        part = case | {name: case[name][rows] for name in ("student_hidden", "teacher_hidden", "action_mask")}
        loss = reverse_kl_distillation_loss(**part, denominator=denominator).loss
        for sum_, grad in zip(total, gradients(loss, case), strict=True):
            sum_ += grad
    torch.testing.assert_close(tuple(total), wanted)


def test_an_empty_micro_batch_is_a_zero_in_the_graph() -> None:
    case = setting(3)
    case["action_mask"] = torch.zeros(3, dtype=torch.bool, device=DEVICE)
    out = reverse_kl_distillation_loss(**case, denominator=5.0)
    assert out.loss == 0
    assert not any(part.any() for part in gradients(out.loss, case))
    assert out.kl.isnan()
    with raises(MaskError, "empty mask"):
        reverse_kl_distillation_loss(**case)


# ---- numbers at the edge


def test_a_teacher_that_rules_a_token_out_is_floored_and_counted() -> None:
    # student [1/2, 1/2], teacher [1, 0]: 1/2 (ln 1/2 - 0) + 1/2 (ln 1/2 + 100) = 50 - ln 2
    student, teacher = tensor([[0.0, 0.0]], grad=True), tensor([[0.0, -math.inf]])
    out = logits_distillation_loss(student, teacher, tensor([True]))
    close(out.loss, 50 - math.log(2))
    # pi_v (log pi_v - log E_v - KL) = 1/2 (-ln 2 - 0 - 50 + ln 2) = -25: the token that the teacher allows becomes likelier
    close(gradient(out.loss, student), [[-25.0, 25.0]])
    assert out.teacher_floored_fraction == 1
    assert counted(out.partials["teacher_floored_mass"]) == (0.5, 1.0)
    # from hidden states: a logit of -300 lies below the floor, too
    head = tensor([[0.0], [-300.0]])
    hidden = tensor([[1.0]])
    floored = reverse_kl_distillation_loss(hidden, torch.zeros_like(head).requires_grad_(), hidden, head, tensor([True]))
    close(floored.loss, 50 - math.log(2))
    assert floored.teacher_floored_fraction == 1
    close(floored.partials["teacher_floored_mass"].mean(), 0.5)
    lower = reverse_kl_distillation_loss(hidden, torch.zeros_like(head), hidden, head, tensor([True]), teacher_floor=-1e4)
    close(lower.loss, 150 - math.log(2))
    assert lower.teacher_floored_fraction == 0


def test_a_student_that_rules_a_token_out() -> None:
    # reverse: 0 ln 0 = 0, so KL([1, 0] || [1/2, 1/2]) = ln 2; forward: 1/2 (ln 1/2 - 0) + 1/2 (ln 1/2 + 100)
    student, teacher = tensor([[0.0, -math.inf]], grad=True), tensor([[0.0, 0.0]])
    out = logits_distillation_loss(student, teacher, tensor([True]))
    close(out.loss, math.log(2))
    close(gradient(out.loss, student), [[0.0, 0.0]])
    forward = logits_distillation_loss(student, teacher, tensor([True]), direction="forward")
    close(forward.loss, 50 - math.log(2))
    assert forward.teacher_floored_fraction == 1
    assert all(math.isfinite(x) for x in gradient(forward.loss, student)[0])


def test_extreme_logits_stay_finite() -> None:
    head = torch.eye(3, device=DEVICE)
    student = torch.tensor([[1e4, -1e4, 0.0]], device=DEVICE, requires_grad=True)
    out = reverse_kl_distillation_loss(student, head, -student.detach(), head, tensor([True]), vocabulary_chunk=1)
    assert out.loss == 100  # the student's only token lies at the floor
    assert torch.autograd.grad(out.loss, student)[0].isfinite().all()


def test_half_precision_is_summed_in_float32() -> None:
    case = setting(8, d=8, e=8, vocabulary=50, dtype=torch.bfloat16)
    out = reverse_kl_distillation_loss(**case)
    assert out.loss.dtype == torch.float32
    exact = {name: part if part.dtype == torch.bool else part.detach().double() for name, part in case.items()}
    assert out.loss.item() == pytest.approx(reverse_kl_distillation_loss(**exact).loss.item(), rel=0.03)
    assert [part.dtype for part in gradients(out.loss, case)] == [torch.bfloat16] * 2
    with torch.autocast(DEVICE.type, dtype=torch.bfloat16):
        single = {name: part if part.dtype == torch.bool else part.detach().float() for name, part in case.items()}
        kept = reverse_kl_distillation_loss(**single).loss
    torch.testing.assert_close(kept, reverse_kl_distillation_loss(**single).loss)


# ---- vocabularies and tokenizers


def test_R62_another_width_is_an_error_or_the_shared_ids() -> None:
    case = setting(4, vocabulary=6)
    equal = torch.cat([case["student_weight"].detach(), 3 * torch.ones(2, 3, dtype=torch.float64, device=DEVICE)])
    wider = case | {"teacher_hidden": case["student_hidden"].detach(), "teacher_weight": equal}
    with raises(TeacherError, r"teacher_weight must have the student's vocabulary of 6, got 8; pass shared_vocabulary=6 if"):
        reverse_kl_distillation_loss(**wider)
    close(reverse_kl_distillation_loss(**wider, shared_vocabulary=6).loss.detach(), 0.0)
    with raises(TeacherError, r"teacher_logits must have the student's vocabulary of 6, got 8"):
        dense(wider)
    close(dense(wider, shared_vocabulary=6).loss.detach(), 0.0)
    part = reverse_kl_distillation_loss(**case, shared_vocabulary=4)
    cut = case | {name: case[name][:4] for name in ("student_weight", "teacher_weight")}
    torch.testing.assert_close(part.loss, reverse_kl_distillation_loss(**cut).loss)
    assert gradients(part.loss, case)[1].shape == (6, 3)
    with raises(TeacherError, r"shared_vocabulary must be at most 6, the smaller vocabulary \(student 6, teacher 8\), got 7"):
        reverse_kl_distillation_loss(**wider, shared_vocabulary=7)


def test_R62_another_tokenizer_of_equal_width_is_refused() -> None:
    case = setting(4)
    reverse_kl_distillation_loss(**case, student_tokenizer="sha256:a", teacher_tokenizer="sha256:a")
    with raises(TeacherError, "teacher_tokenizer must be the student's tokenizer 'sha256:a', got 'sha256:b'"):
        reverse_kl_distillation_loss(**case, student_tokenizer="sha256:a", teacher_tokenizer="sha256:b")
    with raises(TeacherError, "teacher_tokenizer must be given together with student_tokenizer, got None"):
        reverse_kl_distillation_loss(**case, student_tokenizer="sha256:a")


# ---- bad input


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        ({"temperature": 0.0}, RangeError, "temperature"),
        ({"teacher_floor": 0.0}, RangeError, "teacher_floor"),
        ({"teacher_floor": -math.inf}, RangeError, "teacher_floor"),
        ({"chunk": 0}, RangeError, "chunk"),
        ({"vocabulary_chunk": 1.5}, DtypeError, "vocabulary_chunk"),
        ({"action_mask": torch.ones(3, device=DEVICE)}, ShapeError, "action_mask must have the shape of student_hidden"),
        ({"teacher_hidden": torch.ones(3, 4, device=DEVICE)}, ShapeError, "teacher_hidden must have one row for each token"),
        ({"student_weight": torch.ones(11, 2, device=DEVICE)}, ShapeError, r"student_weight must have shape \[V, 3\]"),
        ({"student_hidden": torch.ones(4, 3, dtype=torch.int64, device=DEVICE)}, DtypeError, "student_hidden"),
        ({"teacher_hidden": torch.full((4, 4), math.nan, device=DEVICE)}, NonFiniteError, "teacher_hidden must be finite"),
        ({"teacher_weight": torch.full((11, 4), math.nan, device=DEVICE)}, NonFiniteError, "give a finite divergence"),
        ({"aggregation": "mean"}, RangeError, "aggregation"),
    ],
)
def test_bad_input_is_named(change: dict[str, Any], error: type[Exception], match: str) -> None:
    with raises(error, match):
        reverse_kl_distillation_loss(**(setting(4) | change))


def test_logits_form_names_bad_input() -> None:
    student = tensor([STUDENT])
    with raises(RangeError, "direction must be one of 'reverse', 'forward'"):
        logits_distillation_loss(student, student, tensor([True]), direction="both")  # type: ignore[arg-type]
    with raises(RangeError, "floor"):
        logits_distillation_loss(student, student, tensor([True]), floor=1.0)
    with raises(NonFiniteError, "give a finite divergence"):
        logits_distillation_loss(student * math.nan, student, tensor([True]))


# ---- graphs and devices


@pytest.fixture
def _clean() -> Iterator[None]:
    torch.compiler.reset()
    yield
    checks._deferred.clear()


def test_a_distributed_head_is_refused() -> None:
    case = setting(4)
    case["teacher_weight"].full_tensor = lambda: case["teacher_weight"]  # what tells a DTensor from a tensor
    with raises(DtypeError, "teacher_weight must be a whole, local tensor, got a DTensor; .* pass teacher_weight.full_tensor()"):
        reverse_kl_distillation_loss(**case)


def test_the_operators_keep_what_they_promise() -> None:
    case = setting(4, d=2, e=2, vocabulary=5)
    hidden, weight, teacher, head, mask = case.values()
    row = divergence.read_teacher(teacher, head, mask, 1.0, divergence.Blocks(2, 3))
    for operator, arguments in (
        (divergence._statistics_operator, (teacher, head, mask, 1.0, 2, 3)),
        (divergence._operator, (hidden, weight, teacher, head, row.normaliser, mask, 1.0, -100.0, 2, 3)),
    ):
        torch.library.opcheck(operator, arguments, test_utils=("test_schema", "test_autograd_registration", "test_faketensor"))


def test_a_second_derivative_is_an_error_and_not_a_silent_zero() -> None:
    case = setting(4)
    slope = torch.autograd.grad(reverse_kl_distillation_loss(**case).loss, case["student_hidden"], create_graph=True)[0]
    with pytest.raises(RuntimeError, match="no autograd formula"):
        torch.autograd.grad(slope.sum(), case["student_hidden"])


def test_it_runs_in_inference_mode() -> None:
    case = setting(4)
    with torch.inference_mode():
        seen = reverse_kl_distillation_loss(**case).loss
    torch.testing.assert_close(seen, reverse_kl_distillation_loss(**case).loss.detach())


@pytest.mark.usefixtures("_clean")
def test_it_is_one_graph() -> None:
    case = setting(3, 4)

    def loss(hidden: Tensor) -> Tensor:
        return reverse_kl_distillation_loss(**(case | {"student_hidden": hidden}), aggregation="sequence_mean").loss

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")(case["student_hidden"])
    wanted = loss(case["student_hidden"])
    torch.testing.assert_close(compiled, wanted)
    torch.testing.assert_close(gradients(compiled, case), gradients(wanted, case))


@pytest.mark.usefixtures("_clean")
def test_nothing_is_read_on_the_host() -> None:
    case = {name: part.detach().to("meta") for name, part in setting(3, 4).items()}
    case["student_hidden"].requires_grad_()
    out = reverse_kl_distillation_loss(**case, denominator=torch.tensor(3, device="meta"))
    torch.autograd.grad(out.loss, case["student_hidden"])
    assert checks._deferred
    dense(case)
