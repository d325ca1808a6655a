"""Comparison of numbers, computed exactly: what cannot be read as one finite number never pays."""

from __future__ import annotations

import math
import re
from fractions import Fraction

from rosellm.roserlhf import checks
from rosellm.roserlhf.errors import RangeError

LONGEST = 100
"""Characters of a number; one of a thousand digits is no answer that a person would write."""
_PLAIN = r"[0-9]+"
_FORM = r"(?P<sign>[+-]?)(?P<whole>{whole})?(?:\.(?P<part>[0-9]*))?(?:[eE](?P<exponent>[+-]?[0-9]{{1,3}}))?"
_RATIO = re.compile(r"([+-]?[0-9]+)/([0-9]+)")


def numeric(
    answer: str | float | None,
    gold: str | float | Fraction,
    *,
    absolute: float = 0.0,
    relative: float = 0.0,
    thousands: str = "",
) -> float:
    r"""Pay 1 if the answer is a number close enough to the gold one, else 0.

    .. math:: |a - g| \le \max(\text{absolute},\ \text{relative} \cdot |g|)

    Numbers are compared as exact fractions, floats as the decimals that they print as, so that 0.1 is 0.1 with no tolerance. `nan`,
    `inf`, words, units, several numbers, expressions and anything that `read_number` cannot read are wrong.

    Args:
        answer: the policy's, as text or as a number; None if it gave none.
        gold: the right one.
        absolute: distance that counts as equal.
        relative: share of the gold number that counts as equal; of no use where that is 0.
        thousands: mark that may separate groups of three digits, as in `1,234,567`; by default none may, and `1,5` is no number.

    Returns:
        1.0 or 0.0.

    Raises:
        RangeError: `gold` is no finite number, a tolerance negative or not finite, or `thousands` no comma, blank, `_` or `'`.

    Example:
        >>> from rosellm.roserlhf.environment.verifiers import numeric
        >>> numeric("1/3", "0.333", absolute=0.001), numeric("nan", 3), numeric("3", 3.0)
        (1.0, 0.0, 1.0)
        >>> numeric("1,234", 1234), numeric("1,234", 1234, thousands=",")
        (0.0, 1.0)
    """
    for name, tolerance in (("absolute", absolute), ("relative", relative)):
        checks.number_in(tolerance, name, 0, math.inf, open_high=True)
    wanted = _value(gold, thousands)
    if wanted is None:
        raise checks.fail(RangeError, "gold", "be a finite number", f"{gold!r:.80}")
    given = _value(answer, thousands)
    if given is None:
        return 0.0
    return float(abs(given - wanted) <= max(_exactly(absolute), _exactly(relative) * abs(wanted)))


def read_number(text: str, *, thousands: str = "") -> Fraction | None:
    """Read text that is one number and nothing else, blanks at both ends apart; None if it is not.

    ```
    number = [+|-] digits [. [digits]] [e [+|-] 1 to 3 digits]  |  [+|-] . digits …  |  [+|-] digits / digits
    ```
    ASCII digits only, at most 100 characters. With `thousands`, the digits before the point may stand in groups of three.

    Example:
        >>> from rosellm.roserlhf.environment.verifiers import read_number
        >>> read_number(" -2.50 "), read_number("1e3"), read_number("2 apples"), read_number("1/0")
        (Fraction(-5, 2), Fraction(1000, 1), None, None)
    """
    if thousands not in ("", ",", " ", "_", "'"):
        raise checks.fail(RangeError, "thousands", "be empty or one of , blank _ '", repr(thousands))
    text = text.strip(" \t\n\r")
    if len(text) > LONGEST:
        return None
    if ratio := _RATIO.fullmatch(text):
        return Fraction(int(ratio[1]), int(ratio[2])) if int(ratio[2]) else None
    grouped = rf"{_PLAIN}|[0-9]{{1,3}}(?:{re.escape(thousands)}[0-9]{{3}})+" if thousands else _PLAIN
    match = re.fullmatch(_FORM.format(whole=grouped), text)
    if match is None or not (match["whole"] or match["part"]):
        return None
    whole, part = (match["whole"] or "0").replace(thousands, "") if thousands else match["whole"] or "0", match["part"] or ""
    value = Fraction(int(whole + part), 10 ** len(part)) * Fraction(10) ** int(match["exponent"] or 0)
    return -value if match["sign"] == "-" else value


def _value(value: object, thousands: str) -> Fraction | None:
    if isinstance(value, str):
        return read_number(value, thousands=thousands)
    if isinstance(value, bool) or not isinstance(value, (int, float, Fraction)):
        return None
    return None if isinstance(value, float) and not math.isfinite(value) else _exactly(value)


def _exactly(value: float | Fraction) -> Fraction:
    """Take a float as the decimal that it prints as."""
    return Fraction(repr(value)) if isinstance(value, float) else Fraction(value)
