"""Several teachers: weights, routes, aligned spans, checks, and the optimum that is known."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import oracles_distillation as oracles
import pytest
import torch
from cases_objective import DEVICE, close, counted, gradient, raises, tensor
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.errors import DtypeError, NonFiniteError, RangeError, ShapeError, TeacherError
from rosellm.roserlhf.losses import (
    Teacher,
    TeacherStatistics,
    align_policy_spans,
    distillation_advantages,
    multi_teacher_distillation_loss,
    reinforce_policy_loss,
    reverse_kl_distillation_loss,
    route_weights,
)

HEAD = torch.eye(4, dtype=torch.float64, device=DEVICE)  # hidden states are logits
STUDENT = [0.3, -0.2, 0.1, 0.6]
EXPERTS = [[0.0, 0.5, 0.1, -0.3], [0.7, -0.2, 0.0, 0.3]]
ONE = torch.ones(1, dtype=torch.bool, device=DEVICE)


def teachers(rows: list[list[float]]) -> list[Teacher]:
    return [Teacher(f"teacher {i}", tensor([row]), HEAD) for i, row in enumerate(rows)]


def setting(*shape: int, count: int = 3, vocabulary: int = 9) -> dict[str, Any]:
    """A random student and teachers with hidden states of different widths."""
    generator = torch.Generator().manual_seed(7)

    def draw(*size: int) -> Tensor:
        return torch.randn(*size, generator=generator, dtype=torch.float64).to(DEVICE)

    return {
        "student_hidden": draw(*shape, 3).requires_grad_(),
        "student_weight": draw(vocabulary, 3).requires_grad_(),
        "teachers": [Teacher("abc"[i], draw(*shape, 2 + i), draw(vocabulary, 2 + i)) for i in range(count)],
        "action_mask": draw(*shape) > -0.6,
    }


def alone(case: dict[str, Any], teacher: Teacher, **how: Any) -> Any:
    """The loss of one teacher."""
    return reverse_kl_distillation_loss(
        case["student_hidden"], case["student_weight"], teacher.hidden, teacher.weight, case["action_mask"], **how
    )


def gradients(loss: Tensor, case: dict[str, Any]) -> tuple[Tensor, ...]:
    return torch.autograd.grad(loss, [case["student_hidden"], case["student_weight"]])


# ---- weights


def test_two_fixed_weights() -> None:
    student = tensor([STUDENT], grad=True)
    out = multi_teacher_distillation_loss(student, HEAD, teachers(EXPERTS), ONE, weights=tensor([0.25, 0.75]))
    close(out.loss, 0.07068961078744168)
    close(gradient(out.loss, student), [[-0.08329633596791647, -0.04248851876551643, -0.0031346482806997576, 0.12891950301413263]])
    rows = [oracles.log_softmax(row) for row in [STUDENT, *EXPERTS]]
    for index in range(2):
        close(out.partials[f"kl/teacher {index}"].mean(), oracles.kl(rows[0], rows[1 + index]))
    close(out.teacher_entropy, (oracles.entropy(rows[1]) + oracles.entropy(rows[2])) / 2)


def test_the_best_student_is_the_geometric_mean_and_the_floor_is_minus_log_z() -> None:
    mean, log_z = oracles.geometric_mean([oracles.log_softmax(row) for row in EXPERTS], [0.25, 0.75])
    close([math.exp(x) for x in mean], [0.3483386295221738, 0.2009739062510168, 0.21127805876747874, 0.2394094054593305])
    close(-log_z, 0.03008795824409897)
    student = tensor([mean], grad=True)
    out = multi_teacher_distillation_loss(student, HEAD, teachers(EXPERTS), ONE, weights=tensor([0.25, 0.75]))
    close(out.loss, -log_z)
    close(gradient(out.loss, student), [[0.0] * 4])


@given(st.data(), st.integers(2, 4), st.integers(2, 5))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_the_loss_is_the_divergence_from_the_geometric_mean_plus_the_floor(data: st.DataObject, count: int, size: int) -> None:
    logits = st.lists(st.floats(-6, 6), min_size=size, max_size=size)
    student, rows = data.draw(logits), [data.draw(logits) for _ in range(count)]
    parts = data.draw(st.lists(st.integers(1, 9), min_size=count, max_size=count))
    weights = [part / sum(parts) for part in parts]
    head = torch.eye(size, dtype=torch.float64, device=DEVICE)
    experts = [Teacher(str(i), tensor([row]), head) for i, row in enumerate(rows)]
    out = multi_teacher_distillation_loss(tensor([student]), head, experts, ONE, weights=tensor(weights))
    mean, log_z = oracles.geometric_mean([oracles.log_softmax(row) for row in rows], weights)
    assert out.loss.item() == pytest.approx(oracles.kl(oracles.log_softmax(student), mean) - log_z, rel=1e-9, abs=1e-12)
    assert out.loss.item() >= -log_z - 1e-12 >= -2e-12


SHAPES: dict[str, Callable[[Tensor], Tensor]] = {
    "per teacher": lambda per_token: per_token[0, 0],
    "per row": lambda per_token: per_token[:, 0],
    "per token": lambda per_token: per_token,
}


@pytest.mark.parametrize("shape", SHAPES)
def test_it_is_the_weighed_sum_of_single_teachers(shape: str) -> None:
    case = setting(2, 4)
    varied = torch.rand(2, 4, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64).to(DEVICE)
    if shape != "per token":
        varied = varied[:, :1].expand(2, 4, 3)
    if shape == "per teacher":
        varied = varied[:1].expand(2, 4, 3)
    out = multi_teacher_distillation_loss(
        **case, weights=SHAPES[shape](varied), aggregation="sequence_mean", chunk=3, vocabulary_chunk=4
    )
    single = [alone(case, teacher).token_loss for teacher in case["teachers"]]
    wanted = sum(varied[..., i] * loss for i, loss in enumerate(single))
    torch.testing.assert_close(out.token_loss, wanted)
    torch.testing.assert_close(gradients(out.token_loss.sum(), case), gradients(wanted.sum(), case))


def test_one_teacher_of_weight_one_is_the_plain_loss() -> None:
    case = setting(2, 3, count=1)
    out, plain = multi_teacher_distillation_loss(**case, weights=tensor([1.0])), alone(case, case["teachers"][0])
    torch.testing.assert_close(out.loss, plain.loss)
    for name, partial in plain.partials.items():
        assert counted(out.partials[name]) == pytest.approx(counted(partial)), name


def test_weights_of_packed_sequences() -> None:
    case = setting(3, 4)
    weights = tensor([[1.0, 0.0, 0.5], [0.2, 0.3, 0.5], [0.0, 0.0, 2.0]])
    wanted = multi_teacher_distillation_loss(**case, weights=weights, aggregation="sequence_mean")
    order = [2, 0, 1]
    packed = case | {
        "student_hidden": case["student_hidden"][order].flatten(0, 1),
        "action_mask": case["action_mask"][order].flatten(),
        "teachers": [Teacher(t.name, t.hidden[order].flatten(0, 1), t.weight) for t in case["teachers"]],
    }
    boundaries = torch.tensor([0, 4, 8, 12], device=DEVICE)
    seen = multi_teacher_distillation_loss(**packed, weights=weights[order], aggregation="sequence_mean", cu_seqlens=boundaries)
    torch.testing.assert_close(seen.loss, wanted.loss)
    torch.testing.assert_close(gradients(seen.loss, case), gradients(wanted.loss, case))


def test_the_order_of_teachers_does_not_matter() -> None:
    case, weights = setting(5), tensor([0.2, 0.3, 0.5])
    wanted = multi_teacher_distillation_loss(**case, weights=weights)
    for order in itertools.permutations(range(3)):
        turned = case | {"teachers": [case["teachers"][i] for i in order]}
        torch.testing.assert_close(multi_teacher_distillation_loss(**turned, weights=weights[list(order)]).loss, wanted.loss)


def test_a_token_that_nobody_teaches_stays_in_the_denominator() -> None:
    case = setting(4)
    case["action_mask"] = torch.ones(4, dtype=torch.bool, device=DEVICE)
    weights = torch.ones(4, 3, dtype=torch.float64, device=DEVICE)
    weights[1] = 0
    out = multi_teacher_distillation_loss(**case, weights=weights)
    assert out.token_loss[1] == 0
    assert counted(out.partials["untaught_fraction"]) == (1.0, 4.0)
    torch.testing.assert_close(out.loss, out.token_loss.sum() / 4)


# ---- functions of the teachers' statistics


def test_weights_by_confidence() -> None:
    # entropies ln 2 and that of [.9, .1]; softmax of minus the entropy
    head = torch.eye(2, dtype=torch.float64, device=DEVICE)
    experts = [Teacher("unsure", tensor([[0.5, 0.5]]).log(), head), Teacher("sure", tensor([[0.9, 0.1]]).log(), head)]
    seen: list[TeacherStatistics] = []

    def confidence(statistics: TeacherStatistics) -> Tensor:
        seen.append(statistics)
        return torch.softmax(-statistics.entropy, -1)

    out = multi_teacher_distillation_loss(tensor([[0.0, 0.0]]), head, experts, ONE, weights=confidence)
    entropies = [math.log(2), -(0.9 * math.log(0.9) + 0.1 * math.log(0.1))]
    close(seen[0].entropy, [entropies])
    close(seen[0].top_logprob, [[math.log(0.5), math.log(0.9)]])
    shares = [math.exp(-h) / sum(math.exp(-x) for x in entropies) for h in entropies]
    # KL([.5, .5] || [.9, .1]) = .5 ln(.5/.9) + .5 ln(.5/.1)
    close(out.loss, shares[1] * (0.5 * math.log(0.5 / 0.9) + 0.5 * math.log(5.0)))


def test_statistics_are_detached_and_zero_where_masked() -> None:
    case = setting(2, 3)
    case["teachers"] = [Teacher(t.name, t.hidden.requires_grad_(), t.weight) for t in case["teachers"]]

    def look(statistics: TeacherStatistics) -> Tensor:
        for part in statistics:
            assert part.shape == (2, 3, 3)
            assert not part.requires_grad
            assert not part[~case["action_mask"]].any()
        return torch.softmax(statistics.top_logprob, -1)

    out = multi_teacher_distillation_loss(**case, weights=look)
    at_teacher = torch.autograd.grad(out.loss, [t.hidden for t in case["teachers"]], allow_unused=True)
    assert all(part is None for part in at_teacher)


def test_weights_are_detached_unless_they_are_to_learn() -> None:
    # d/dw_i = KL_i / tokens
    student, raw = tensor([STUDENT], grad=True), tensor([0.0, 1.0], grad=True)
    fixed = multi_teacher_distillation_loss(student, HEAD, teachers(EXPERTS), ONE, weights=raw)
    assert torch.autograd.grad(fixed.loss, raw, allow_unused=True)[0] is None
    learnt = multi_teacher_distillation_loss(student, HEAD, teachers(EXPERTS), ONE, weights=lambda _: raw, learn_weights=True)
    own = oracles.log_softmax(STUDENT)
    close(gradient(learnt.loss, raw), [oracles.kl(own, oracles.log_softmax(row)) for row in EXPERTS])
    close(learnt.loss.detach(), fixed.loss.item())


# ---- routes


def test_a_route_gives_each_row_its_teacher_and_reads_no_other() -> None:
    case = setting(2, 3, count=2)
    for index, row in ((0, 1), (1, 0)):
        case["teachers"][index].hidden[row] = math.nan  # teacher a never saw row 1, teacher b never row 0
    out = multi_teacher_distillation_loss(**case, weights=route_weights(["a", "b"], ["a", "b"], device=DEVICE).double())
    for index, teacher in enumerate(case["teachers"]):
        part = {name: case[name][index : index + 1] for name in ("student_hidden", "action_mask")}
        own = alone(case | part, Teacher("x", teacher.hidden[index : index + 1], teacher.weight))
        torch.testing.assert_close(out.token_loss[index : index + 1], own.token_loss)
        assert counted(out.partials[f"kl/{teacher.name}"]) == pytest.approx(counted(own.partials["kl"]))
    assert all(part.isfinite().all() for part in gradients(out.loss, case))


def test_an_unknown_route_is_an_error() -> None:
    with pytest.raises(
        TeacherError, match=r"routes\[1\] must be one of the teachers \['code', 'math'\], got 'maths'; did you mean 'math'"
    ):
        route_weights(["code", "maths"], ["code", "math"])
    with pytest.raises(TeacherError, match="teachers must have different names"):
        route_weights(["a"], ["a", "a"])
    with pytest.raises(DtypeError, match="routes must be a sequence of names"):
        route_weights("code", ["code"])
    assert route_weights([], ["a", "b"]).shape == (0, 2)


# ---- another prompt


def test_spans_are_aligned_by_their_tokens() -> None:
    student = torch.tensor([[1, 8, 9, 2, 7], [1, 1, 5, 0, 0]], device=DEVICE)
    student_mask = torch.tensor([[0, 1, 1, 0, 1], [0, 0, 1, 0, 0]], device=DEVICE)
    teacher = torch.tensor([[3, 3, 3, 8, 9, 2, 7, 0], [4, 5, 0, 0, 0, 0, 0, 0]], device=DEVICE)
    teacher_mask = torch.tensor([[0, 0, 0, 1, 1, 0, 1, 0], [0, 1, 0, 0, 0, 0, 0, 0]], device=DEVICE)
    assert align_policy_spans(student, student_mask, teacher, teacher_mask).tolist() == [[0, 3, 4, 0, 6], [0, 0, 1, 0, 0]]
    flat = align_policy_spans(student[0], student_mask[0].bool(), teacher[0], teacher_mask[0].bool())
    assert flat.tolist() == [0, 3, 4, 0, 6]


@given(st.data())
@settings(max_examples=60, deadline=None, derandomize=True)
def test_alignment_against_the_loop(data: st.DataObject) -> None:
    tokens = data.draw(st.lists(st.integers(0, 9), min_size=0, max_size=5))

    def context() -> tuple[list[int], list[int]]:
        ids, mask = [], []
        for token in [*tokens, None]:
            other = data.draw(st.lists(st.integers(0, 9), max_size=3))
            ids += other + ([] if token is None else [token])
            mask += [0] * len(other) + ([] if token is None else [1])
        return [*ids, 0], [*mask, 0]

    (own, own_mask), (other, other_mask) = context(), context()
    seen = align_policy_spans(*(torch.tensor([part]) for part in (own, own_mask, other, other_mask)))
    assert seen.tolist() == [oracles.aligned_columns(own, own_mask, other, other_mask)]


def test_R62_another_token_is_an_error_that_names_the_first_difference() -> None:
    student, teacher = torch.tensor([[1, 2], [8, 9]]), torch.tensor([[1, 2, 0], [0, 8, 7]])
    mask = torch.tensor([[True, True], [True, True]])
    teacher_mask = torch.tensor([[True, True, False], [False, True, True]])
    match = r"teacher_ids must repeat the student's policy tokens \(9 at \[1, 1\]\), got 7 at \[1, 2\]"
    with pytest.raises(TeacherError, match=match):
        align_policy_spans(student, mask, teacher, teacher_mask)
    teacher_mask[0, 1] = False
    with pytest.raises(TeacherError, match=r"teacher_mask must select the student's 2 policy tokens in row \[0\], got 1"):
        align_policy_spans(student, mask, teacher, teacher_mask)
    with pytest.raises(ShapeError, match="teacher_ids must have the rows of student_ids"):
        align_policy_spans(student, mask, teacher[:1], teacher_mask[:1])
    with pytest.raises(DtypeError, match="teacher_ids"):
        align_policy_spans(student, mask, teacher.float(), teacher_mask)


def test_a_teacher_with_its_own_prompt() -> None:
    # the same hidden states, moved behind a longer prompt, give the same loss
    case = setting(2, 3, count=1)
    mask, plain = case["action_mask"], case["teachers"][0]
    wanted = alone(case, plain)
    moved = torch.full((2, 5, plain.hidden.shape[-1]), math.nan, dtype=torch.float64, device=DEVICE)
    moved[:, 2:] = plain.hidden
    ids = torch.arange(6, device=DEVICE).view(2, 3)
    longer = torch.cat([torch.full((2, 2), 99, device=DEVICE), ids], 1)
    longer_mask = torch.cat([torch.zeros(2, 2, dtype=torch.bool, device=DEVICE), mask], 1)
    positions = align_policy_spans(ids, mask, longer, longer_mask)
    case["teachers"] = [Teacher("a", moved, plain.weight, positions)]
    out = multi_teacher_distillation_loss(**case, weights=tensor([1.0]))
    torch.testing.assert_close(out.loss, wanted.loss)
    torch.testing.assert_close(gradients(out.loss, case), gradients(wanted.loss, case))
    case["teachers"] = [Teacher("a", moved, plain.weight, positions + 5)]
    with raises(RangeError, r"positions of the hidden of teacher 'a' must be in \[0, 5\)"):
        multi_teacher_distillation_loss(**case, weights=tensor([1.0]))


# ---- masks, samples, graphs


@pytest.mark.parametrize("filler", [math.nan, math.inf])
def test_masked_positions_may_hold_anything(filler: float) -> None:
    case, weights = setting(3, 4), torch.rand(3, 4, 3, dtype=torch.float64, device=DEVICE)
    wanted = multi_teacher_distillation_loss(**case, weights=weights)
    outside = ~case["action_mask"][..., None]
    spoilt = case | {
        "student_hidden": case["student_hidden"].detach().masked_fill(outside, filler).requires_grad_(),
        "teachers": [Teacher(t.name, t.hidden.masked_fill(outside, filler), t.weight) for t in case["teachers"]],
    }
    seen = multi_teacher_distillation_loss(**spoilt, weights=weights.masked_fill(outside, filler))
    torch.testing.assert_close(seen.loss, wanted.loss)
    torch.testing.assert_close(gradients(seen.loss, spoilt), gradients(wanted.loss, case))
    by_confidence = [
        multi_teacher_distillation_loss(**one, weights=lambda s: torch.softmax(-s.entropy, -1)).loss for one in (case, spoilt)
    ]
    torch.testing.assert_close(*by_confidence)


def test_the_mixed_samples_have_the_exact_gradient_in_expectation() -> None:
    # sum_i w_i log E_i is the teacher of the sampled form, for weights that sum to 1
    student, weights = tensor([STUDENT], grad=True), [0.25, 0.75]
    exact = torch.autograd.grad(
        multi_teacher_distillation_loss(student, HEAD, teachers(EXPERTS), ONE, weights=tensor(weights)).loss, student
    )[0]
    mixed = tensor(weights) @ torch.log_softmax(tensor(EXPERTS), -1)
    expected = torch.zeros_like(student)
    for token, odds in enumerate(torch.softmax(student.detach()[0], -1)):
        own = torch.log_softmax(student, -1)[:, token]
        credit = distillation_advantages(own, mixed[token : token + 1], ONE).advantages
        expected += odds * torch.autograd.grad(reinforce_policy_loss(own, credit, ONE).loss, student)[0]
    torch.testing.assert_close(expected, exact, rtol=0, atol=1e-12)


def test_an_empty_micro_batch_is_a_zero_in_the_graph() -> None:
    case = setting(3)
    case["action_mask"] = torch.zeros(3, dtype=torch.bool, device=DEVICE)
    out = multi_teacher_distillation_loss(**case, weights=tensor([0.2, 0.3, 0.5]), denominator=4.0)
    assert out.loss == 0
    assert not any(part.any() for part in gradients(out.loss, case))


@pytest.fixture
def _clean() -> Iterator[None]:
    torch.compiler.reset()
    yield
    checks._deferred.clear()


@pytest.mark.usefixtures("_clean")
def test_it_is_one_graph() -> None:
    case, weights = setting(2, 3, count=2), tensor([0.5, 0.5])

    def loss(hidden: Tensor) -> Tensor:
        return multi_teacher_distillation_loss(**(case | {"student_hidden": hidden}), weights=weights).loss

    compiled = torch.compile(loss, fullgraph=True, backend="eager")(case["student_hidden"])
    torch.testing.assert_close(compiled, loss(case["student_hidden"]))


# ---- bad input


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        ({"teachers": []}, TeacherError, "teachers must hold at least one teacher"),
        ({"teachers": ["a"]}, DtypeError, r"teachers\[0\] must be a Teacher"),
        ({"weights": [0.5, 0.5]}, DtypeError, "weights must be a tensor or a function"),
        ({"weights": tensor([0.5, 0.5])}, ShapeError, "weights must have one entry for each of the 3 teachers"),
        ({"weights": tensor([0.5, -0.5, 1.0])}, RangeError, "weights must be at least 0"),
        ({"weights": tensor([0.5, math.nan, 1.0])}, RangeError, "weights must be at least 0"),
        ({"weights": lambda s: s.entropy[..., :2]}, ShapeError, "weights must have one entry"),
        ({"learn_weights": 1}, DtypeError, "learn_weights"),
        ({"student_tokenizer": "x"}, TeacherError, "tokenizer of teacher 'a' must be given together with student_tokenizer"),
    ],
)
def test_bad_input_is_named(change: dict[str, Any], error: type[Exception], match: str) -> None:
    with raises(error, match):
        multi_teacher_distillation_loss(**(setting(4) | {"weights": tensor([0.2, 0.3, 0.5])} | change))


def test_teachers_are_checked_by_name() -> None:
    case, weights = setting(4, count=2), tensor([0.5, 0.5])
    first, second = case["teachers"]

    def run(*teachers: Teacher, **how: Any) -> None:
        multi_teacher_distillation_loss(**(case | {"teachers": teachers}), weights=weights, **how)

    with raises(TeacherError, r"teachers\[1\] must have a name of its own, got 'a' again"):
        run(first, first)
    with raises(TeacherError, "weight of teacher 'b' must have the student's vocabulary of 9, got 8"):
        run(first, Teacher("b", second.hidden, second.weight[:8]))
    run(first, Teacher("b", second.hidden, second.weight[:8]), shared_vocabulary=8)
    tokenized = [Teacher(t.name, t.hidden, t.weight, tokenizer=h) for t, h in zip(case["teachers"], ("x", "y"), strict=True)]
    with raises(TeacherError, "tokenizer of teacher 'b' must be the student's tokenizer 'x', got 'y'"):
        run(*tokenized, student_tokenizer="x")
    with raises(NonFiniteError, "hidden of teacher 'b' must be finite"):
        run(first, Teacher("b", second.hidden * math.nan, second.weight))
    with raises(ShapeError, "hidden of teacher 'b' must have one row for each token"):
        run(first, Teacher("b", second.hidden[:2], second.weight))
    with raises(ShapeError, r"hidden of teacher 'b' must have the rows of the student"):
        run(first, Teacher("b", second.hidden[None], second.weight, torch.zeros(4, dtype=torch.int64, device=DEVICE)))
