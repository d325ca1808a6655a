"""Is a teacher defined over the student's tokens? Sizes and fingerprints are compared before anything is computed."""

from __future__ import annotations

from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.errors import TeacherError


def shared(student: Tensor, teacher: Tensor, argument: str, count: int | None, *, dim: int) -> tuple[Tensor, Tensor]:
    """Require two vocabularies of one size along `dim`, or keep the first `count` entries of both."""
    sizes = (student.shape[dim], teacher.shape[dim])
    if not min(sizes):
        raise checks.fail(
            TeacherError, argument, "hold at least one vocabulary entry, as the student's", f"{sizes[1]} and {sizes[0]}"
        )
    if count is not None:
        checks.count(count, "shared_vocabulary", at_least=1)
        if count > min(sizes):
            requirement = f"be at most {min(sizes)}, the smaller vocabulary (student {sizes[0]}, teacher {sizes[1]})"
            raise checks.fail(TeacherError, "shared_vocabulary", requirement, count)
        return student.narrow(dim, 0, count), teacher.narrow(dim, 0, count)
    if sizes[0] != sizes[1]:
        fix = f"pass shared_vocabulary={min(sizes)} if the tokenizers agree on these ids and the rest is padding"
        raise checks.fail(TeacherError, argument, f"have the student's vocabulary of {sizes[0]}", sizes[1], fix=fix)
    return student, teacher


def same_tokenizer(student: str | None, teacher: str | None, argument: str) -> None:
    """Require equal fingerprints where both sides give one; one alone is an error, because it was meant to be compared."""
    for value, name in ((student, "student_tokenizer"), (teacher, argument)):
        if value is not None and not isinstance(value, str):
            raise checks.fail(TeacherError, name, "be a fingerprint (text) or None", f"{value!r:.80}")
    if (student is None) != (teacher is None):
        missing, given = ("student_tokenizer", argument) if student is None else (argument, "student_tokenizer")
        raise checks.fail(TeacherError, missing, f"be given together with {given}", None)
    if student != teacher:
        fix = "ids of another tokenizer mean other text, even where the sizes are equal"
        raise checks.fail(TeacherError, argument, f"be the student's tokenizer {student!r:.80}", f"{teacher!r:.80}", fix=fix)
