"""What runs inside the process of `boxed_math`: `answer, gold -> equal or not`, by `math-verify`."""

from __future__ import annotations

import functools
import importlib
from typing import Any

from rosellm.roserlhf import checks
from rosellm.roserlhf.errors import VerifierError

_library: Any = importlib.import_module("math_verify")


def same(answer: str | None, gold: str) -> float:
    """Compare two formulas, on the main thread, where `math-verify` must be; 1.0 or 0.0, and 0.0 for no answer.

    Raises:
        VerifierError: the gold one cannot be read.
    """
    wanted = _gold(gold)
    given = [] if answer is None else _read(answer)
    return float(bool(given) and _library.verify(wanted, given, timeout_seconds=None, raise_on_error=True))


@functools.lru_cache(maxsize=4096)
def _gold(gold: str) -> Any:
    """Read the right answer, whatever was answered: one that nothing can equal would make every answer wrong."""
    wanted = _read(gold)
    is_formula = any(not isinstance(reading, str) for reading in wanted)
    if not is_formula or not _library.verify(wanted, wanted, timeout_seconds=None, raise_on_error=True):
        raise checks.fail(VerifierError, "gold", "be mathematics that can be read", repr(gold))
    return wanted


def _read(formula: str) -> Any:
    config = _library.LatexExtractionConfig(boxed_match_priority=0)
    # parsing is limited from outside: its own limit would return "nothing found", which is no answer but a failure
    return _library.parse(rf"\boxed{{{formula}}}", extraction_config=[config], parsing_timeout=None)


same("1", "1")  # loads the parser now: the start of the process does not count as the time of the first answer
