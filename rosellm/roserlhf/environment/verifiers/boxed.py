r"""Mathematics in `\boxed{…}`: which box counts, and whether it holds what the gold answer says (by `math-verify`)."""

from __future__ import annotations

import importlib.util
import math
import re

from rosellm.roserlhf import checks
from rosellm.roserlhf.environment.verifiers.contract import Grade, checked
from rosellm.roserlhf.environment.verifiers.worker import Workers
from rosellm.roserlhf.errors import MissingExtraError, RangeError
from rosellm.roserlhf.record import plain

LONGEST = 300
"""Characters of an answer; a longer one is wrong unread, for nonsense of this length keeps `math-verify` busy for seconds."""
_OPENING = re.compile(r"\\boxed\s*\{")
_WORD = re.compile(r"\s*(?:\\text\s*\{)?\s*[A-Za-z]{2,}\s*\}?\s*")
_BLANK = r"(?:[\s~$]|\\[ ,;:$]|\\q?quad(?![A-Za-z])|\{\s*\})"
_TWO_NUMBERS = re.compile(rf"[0-9]{_BLANK}+[0-9]|(?<![A-Za-z}}\]^_\s])\{{[0-9.]+\}}\s*\{{[0-9]")
"""Side by side with a blank of LaTeX between them, or as two groups in braces that no command takes as its arguments."""
_workers = Workers("rosellm.roserlhf.environment.verifiers.boxed_process:same")


def boxed(text: str | None) -> str | None:
    r"""Return what stands in the last `\boxed{…}` of a reply, braces balanced; None if there is none.

    Args:
        text: the reply; None if there was none.

    Example:
        >>> from rosellm.roserlhf.environment.verifiers import boxed
        >>> boxed(r"first \boxed{1}, no: \boxed{\frac{1}{2}}."), boxed("1/2"), boxed(r"\boxed{1")
        ('\\frac{1}{2}', None, None)
    """
    openings = list(_OPENING.finditer(text or ""))
    if text is None or not openings:
        return None
    start, depth = openings[-1].end(), 1
    for place in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        if depth == 0:
            return text[start:place]
    return None


def boxed_math(reply: str | None, gold: str, *, seconds: float = 5.0) -> Grade:
    r"""Pay 1 if the last `\boxed{…}` of a reply is mathematically what the gold answer is, else 0.

    `math-verify` decides, in a process of its own with a time limit: an answer such as `9^{9^{9^{9}}}` can keep it busy for ever.
    A box is demanded, since elsewhere it takes the first of several numbers. Wrong unread are: no box, an empty or unbalanced one,
    more than 300 characters, and two numbers with only a blank of LaTeX between (it would add them: `4 5` and `4\,5` would be 9).
    As `math-verify` has it, `4\%` equals both 4 and 0.04, `x=4` equals 4, and letters are symbols whose order does not matter.

    Args:
        reply: the policy's whole reply; None if it gave none.
        gold: the right answer in LaTeX, with or without a box.
        seconds: time limit.

    Returns:
        1.0 or 0.0.

    Raises:
        VerifierError: no answer in time, a crash, or a gold answer that cannot be read: unscored.
        RangeError: the gold answer is a word, whose letters would be symbols in any order (`exact` compares words), or two numbers
            with only a blank between.
        MissingExtraError: `math-verify` is not installed; the message says how to.

    Example:
        >>> from rosellm.roserlhf.environment.verifiers import boxed_math
        >>> boxed_math(r"so it is \boxed{\frac{2}{4}}", "0.5"), boxed_math("so it is 1/2", "0.5")
        (1.0, 0.0)
    """
    checks.number_in(seconds, "seconds", 0, math.inf, open_low=True, open_high=True)
    right = boxed(plain.name(gold, "gold")) or gold
    if _WORD.fullmatch(right):
        fix = "exact(boxed(reply), gold) compares words; write a product as x*y"
        raise checks.fail(RangeError, "gold", "be mathematics", repr(gold), fix=fix)
    if _TWO_NUMBERS.search(right):
        raise checks.fail(RangeError, "gold", "be one formula", repr(gold), fix="write 12345 or 12,345, not 12\\,345")
    if importlib.util.find_spec("math_verify") is None:
        raise MissingExtraError("this needs math-verify, which is not installed; pip install 'rosellm[env]'", name="math_verify")
    answer = boxed(reply)
    if answer is not None and (not answer.strip() or len(answer) > LONGEST or _TWO_NUMBERS.search(answer)):
        answer = None
    return checked(_workers.call(answer, right, seconds=seconds), "boxed_math")
