"""Exact comparison of text: what counts as equal is said by the normalisations that the caller names; by default, nothing else."""

from __future__ import annotations

import string
import unicodedata
from collections.abc import Callable, Sequence
from typing import TypeAlias

from rosellm.roserlhf.record import plain

Normalisation: TypeAlias = Callable[[str], str]
"""Text -> the form in which it is compared."""

_PUNCTUATION = str.maketrans("", "", string.punctuation)


def exact(answer: str | None, gold: str, *, normalise: Sequence[Normalisation] = ()) -> float:
    """Pay 1 if the answer is the gold one, else 0.

    An answer that is empty once normalised is never right, for a normalisation that removes everything would let nothing equal
    nothing.

    Args:
        answer: the policy's; None if it gave none, which is wrong.
        gold: the right one.
        normalise: applied to both, in this order; none by default.

    Returns:
        1.0 or 0.0.

    Raises:
        RecordError: `gold` is no text, or nothing is left of it.

    Example:
        >>> from rosellm.roserlhf.environment.verifiers import casefolded, exact, stripped
        >>> exact(" Paris ", "paris"), exact(" Paris ", "paris", normalise=(stripped, casefolded))
        (0.0, 1.0)
    """
    wanted = plain.name(_normal(plain.text(gold, "gold"), normalise), "gold")
    return float(isinstance(answer, str) and _normal(answer, normalise) == wanted)


def _normal(text: str, normalise: Sequence[Normalisation]) -> str:
    for step in normalise:
        text = step(text)
    return text


def stripped(text: str) -> str:
    """Remove white space at both ends."""
    return text.strip()


def single_spaced(text: str) -> str:
    """Turn every run of white space into one space, and remove it at both ends."""
    return " ".join(text.split())


def casefolded(text: str) -> str:
    """Ignore case."""
    return text.casefold()


def nfkc(text: str) -> str:
    """Compose characters and unify compatible ones: full-width digits, ligatures, superscripts (x² becomes x2)."""
    return unicodedata.normalize("NFKC", text)


def without_punctuation(text: str) -> str:
    """Remove ASCII punctuation; -4 and 4, 1.5 and 15 become the same, so it is for words only."""
    return text.translate(_PUNCTUATION)
