"""Slow oracles of distillation and preferences: obvious loops over plain Python floats. Nothing here is shared with the package."""

from __future__ import annotations

import math

Row = list[float]


def log_softmax(logits: Row) -> Row:
    top = max(logits)
    normaliser = top + math.log(sum(math.exp(z - top) for z in logits))
    return [z - normaliser for z in logits]


def logits(hidden: Row, weight: list[Row], temperature: float = 1.0) -> Row:
    return [sum(h * w for h, w in zip(hidden, row, strict=True)) / temperature for row in weight]


def kl(first: Row, second: Row) -> float:
    """KL(first || second) of two rows of log-probabilities."""
    return sum(math.exp(p) * (p - q) for p, q in zip(first, second, strict=True))


def reverse_kl_slopes(student: Row, teacher: Row) -> Row:
    """Derivative of KL(student || teacher) by the student's logits; both are rows of log-probabilities."""
    divergence = kl(student, teacher)
    return [math.exp(p) * (p - q - divergence) for p, q in zip(student, teacher, strict=True)]


def entropy(logprobs: Row) -> float:
    return -sum(math.exp(p) * p for p in logprobs)


def geometric_mean(teachers: list[Row], weights: Row) -> tuple[Row, float]:
    """Log-probabilities of the normalised weighted geometric mean, and log Z."""
    mixed = [sum(w * row[v] for w, row in zip(weights, teachers, strict=True)) for v in range(len(teachers[0]))]
    log_z = math.log(sum(math.exp(x) for x in mixed))
    return [x - log_z for x in mixed], log_z


def aligned_columns(student_ids: list[int], student_mask: list[int], teacher_ids: list[int], teacher_mask: list[int]) -> list[int]:
    """Column of each policy token in the teacher's row; 0 where the student's mask is 0."""
    columns = [at for at, live in enumerate(teacher_mask) if live]
    found, rank = [], 0
    for token, live in zip(student_ids, student_mask, strict=True):
        if live:
            assert teacher_ids[columns[rank]] == token
        found.append(columns[rank] if live else 0)
        rank += live
    return found


def dpo(margin: float, smoothing: float) -> tuple[float, float]:
    """Loss of a pair by its margin `beta h`, and the derivative by the margin."""

    def log_sigmoid(x: float) -> float:
        return -math.log1p(math.exp(-x)) if x > 0 else x - math.log1p(math.exp(x))

    loss = -(1 - smoothing) * log_sigmoid(margin) - smoothing * log_sigmoid(-margin)
    return loss, -(1 - smoothing) * math.exp(log_sigmoid(-margin)) + smoothing * math.exp(log_sigmoid(margin))
