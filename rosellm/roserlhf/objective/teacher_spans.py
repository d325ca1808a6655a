"""Which teacher teaches a sequence, and where in the teacher's own context the student's tokens stand."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

import torch
from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.errors import DtypeError, ShapeError, TeacherError


def route_weights(routes: Iterable[str], teachers: Iterable[str], *, device: torch.device | str | None = None) -> Tensor:
    r"""Give each sequence to the one teacher that its route names.

    .. math:: w_{ni} = \mathbb 1\,[\,\text{route}_n = \text{name}_i\,]

    Args:
        routes: N names, one per sequence, for example the data set that each task came from.
        teachers: M names of teachers, in the order in which the loss gets them.
        device: of the result.

    Returns:
        `[N, M]`, float32, with a single 1 in each row: the `weights` of `multi_teacher_distillation_loss`.

    Raises:
        TeacherError: a route that is no teacher's name (never a default teacher), or a name twice.

    Example:
        >>> route_weights(["math", "code", "math"], ["code", "math"])
        tensor([[0., 1.],
                [1., 0.],
                [0., 1.]])
    """
    names, wanted = _texts(teachers, "teachers"), _texts(routes, "routes")
    places = {name: index for index, name in enumerate(names)}
    if len(places) != len(names):
        raise checks.fail(TeacherError, "teachers", "have different names", names)
    for index, route in enumerate(wanted):
        if route not in places:
            near = difflib.get_close_matches(route, names, 1)
            fix = f"did you mean {near[0]!r}?" if near else None
            raise checks.fail(TeacherError, f"routes[{index}]", f"be one of the teachers {names}", f"{route!r:.80}", fix=fix)
    chosen = torch.tensor([places[route] for route in wanted], dtype=torch.int64, device=device)
    return (chosen[:, None] == torch.arange(len(names), device=device)).float()


def _texts(values: Iterable[str], argument: str) -> list[str]:
    found = checks.items(values, argument, of="names")
    if not all(isinstance(value, str) for value in found):
        raise checks.fail(DtypeError, argument, "be several names (texts)", f"{values!r:.80}")
    return found


def align_policy_spans(student_ids: Tensor, student_mask: Tensor, teacher_ids: Tensor, teacher_mask: Tensor) -> Tensor:
    r"""Find each policy token of the student in the teacher's own context.

    A teacher may see another prompt (a hint, a reference answer, its own system message), so the same tokens stand elsewhere. The
    n-th policy token of a row must be the n-th of the teacher's row: the ids are compared, because one extra space or another
    template shifts every target after it without any other sign. This compares data and waits for an accelerator; call it when
    a batch is prepared.

    All four arguments share one shift convention with the hidden states. If position t predicts token t + 1, pass `ids[:, 1:]`
    and `mask[:, 1:]`, and `hidden[:, :-1]` to the teacher.

    Args:
        student_ids: `[..., T]`, integers.
        student_mask: `[..., T]`, boolean or exactly 0/1: the policy tokens.
        teacher_ids: `[..., L]`, integers, same rows; what surrounds the policy tokens is free.
        teacher_mask: `[..., L]`, boolean or exactly 0/1: where the teacher's row repeats the policy tokens.

    Returns:
        `[..., T]`, int64: the column in the teacher's row, 0 where the student's mask is false; `Teacher.positions`.

    Raises:
        TeacherError: a row has another number of policy tokens, or another token; the first difference is named.
        ShapeError, DtypeError, MaskError, DeviceError: the arguments do not fit together.

    Example:
        >>> student, teacher = torch.tensor([[5, 8, 9]]), torch.tensor([[1, 2, 3, 8, 9]])  # prompts [5] and [1, 2, 3]
        >>> align_policy_spans(student, student > 7, teacher, teacher > 7)
        tensor([[0, 3, 4]])
    """
    own = _read(student_ids, student_mask, "student")
    other = _read(teacher_ids, teacher_mask, "teacher")
    if student_ids.shape[:-1] != teacher_ids.shape[:-1]:
        requirement = f"have the rows of student_ids {tuple(student_ids.shape[:-1])}"
        raise checks.fail(ShapeError, "teacher_ids", requirement, tuple(teacher_ids.shape))
    checks.same_device(teacher_ids, "teacher_ids", student_ids, "student_ids")
    counts = torch.stack([own.sum(-1), other.sum(-1)], -1)
    if bool((wrong := counts[..., 0] != counts[..., 1]).any()):
        row = wrong.nonzero()[0].tolist()
        here, there = counts[tuple(row)].tolist()
        raise checks.fail(TeacherError, "teacher_mask", f"select the student's {here} policy tokens in row {row}", there)
    order = other.to(torch.int8).argsort(dim=-1, descending=True, stable=True)  # columns of the policy tokens first, in order
    if not order.shape[-1]:
        return torch.zeros_like(student_ids, dtype=torch.int64)
    rank = (own.cumsum(-1) - 1).clamp(0, order.shape[-1] - 1)
    columns = order.gather(-1, rank).masked_fill(~own, 0)
    if bool((wrong := (teacher_ids.gather(-1, columns) != student_ids) & own).any()):
        place = tuple(wrong.nonzero()[0].tolist())
        at, got = columns[place].item(), teacher_ids[(*place[:-1], columns[place])].item()
        requirement = f"repeat the student's policy tokens ({student_ids[place].item()} at {list(place)})"
        fix = "render both contexts from the sampled ids, never from text"
        raise checks.fail(TeacherError, "teacher_ids", requirement, f"{got} at {[*place[:-1], at]}", fix=fix)
    return columns


def _read(ids: Tensor, mask: Tensor, side: str) -> Tensor:
    checks.integer(ids, f"{side}_ids")
    checks.at_least_rank(ids, 1, f"{side}_ids")
    chosen: Tensor = checks.mask(mask, f"{side}_mask")
    checks.same_shape(mask, f"{side}_mask", ids, f"{side}_ids")
    return chosen
