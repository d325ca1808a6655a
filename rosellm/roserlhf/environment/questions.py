"""Questions in words with whole-number answers: `template + numbers → text and the expression that answers it`, no model in sight.

The order in which a question names its numbers is often not the order in which they are computed with; that is what there is to
learn once the arithmetic itself is left to a calculator.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from string import Formatter

from rosellm.roserlhf import checks
from rosellm.roserlhf.environment.expressions import evaluate
from rosellm.roserlhf.errors import RangeError

ITEMS = ("nails", "books", "mugs", "pens", "eggs", "tiles", "coins", "seats")
NAMES = ("Ann", "Ben", "Eva", "Tom")
_NUMBER, _OPERATOR, _FIRST_OPERATION = re.compile(r"\d+"), re.compile(r"[-+*/]"), re.compile(r"\d+[-+*/]\d+")


@dataclass(frozen=True)
class Template:
    """One way to ask: slots `{a}`…`{d}` are numbers, `{item}` and `{name}` words."""

    text: str
    expression: str

    @property
    def operations(self) -> int:
        """Operations that the answer takes."""
        return len(_OPERATOR.findall(self.expression))

    @property
    def pieces(self) -> list[str]:
        """The text between the slots."""
        return [piece for piece, *_ in Formatter().parse(self.text) if piece]


TEMPLATES = tuple(
    Template(text, expression)
    for text, expression in (
        ("What is {a} times {b}?", "{a}*{b}"),
        ("Take {a} from {b}.", "{b}-{a}"),
        ("{a} boxes hold {b} {item} each. How many {item}?", "{a}*{b}"),
        ("{name} has {a} {item} and {b} more than {name2}. How many has {name2}?", "{a}-{b}"),
        ("{a} {item} are shared by {b} people. How many does each get?", "{a}/{b}"),
        ("What is {a} plus {b}, times {c}?", "({a}+{b})*{c}"),
        ("What is {a} plus {b} times {c}?", "{a}+{b}*{c}"),
        ("Take {a} times {b} from {c}.", "{c}-{a}*{b}"),
        ("{a} boxes hold {b} {item} each. {c} are lost. How many are left?", "{a}*{b}-{c}"),
        ("{name} has {a} {item}, buys {b} and gives away {c}. How many are left?", "{a}+{b}-{c}"),
        ("{name} pays {a} {item} at {b} cents each with {c} cents. What is the change?", "{c}-{a}*{b}"),
        ("{name} gets {a} cents a day and spends {b}. What is left after {c} days?", "({a}-{b})*{c}"),
        ("{a} {item} and {b} more go into {c} equal boxes. How many in each?", "({a}+{b})/{c}"),
        ("Of {a} {item}, {b} break. The rest fill {c} equal boxes. How many in each?", "({a}-{b})/{c}"),
        ("{a} rows of {b} seats and {c} rows of {d} seats. How many seats?", "{a}*{b}+{c}*{d}"),
        ("{name} buys {a} {item} at {b} cents and sells them all at {c} cents. {d} cents go to {name2}. What is left?",
         "{a}*({c}-{b})-{d}"),
        ("{a} boxes of {b} {item} and {c} loose ones are shared by {d} people. How many does each get?", "({a}*{b}+{c})/{d}"),
        ("{name} has {a} boxes of {b} {item}, {name2} has {c} of {d}. How many more has {name}?", "{a}*{b}-{c}*{d}"),
    )
)  # fmt: skip


@dataclass(frozen=True)
class Question:
    """A question and what answers it."""

    text: str
    expression: str


def draw(rng: random.Random, *, operations: Sequence[int], largest: int) -> Question:
    """Draw a question whose answer is a whole number above 0 that the question does not name itself.

    Args:
        rng: all chance.
        operations: how many operations a question may take; of 1, 2, 3.
        largest: largest number in a question, at least 10; the smallest is 2.

    Raises:
        RangeError: one of them is out of range.

    Example:
        >>> draw(random.Random(0), operations=(2,), largest=99)
        Question(text='Tom gets 99 cents a day and spends 55. What is left after 7 days?', expression='(99-55)*7')
    """
    known = {template.operations for template in TEMPLATES}
    if not operations or not known.issuperset(operations):
        raise checks.fail(RangeError, "operations", f"be of {', '.join(map(str, sorted(known)))}", operations)
    checks.number_in(largest, "largest", 10, math.inf)
    template = rng.choice([template for template in TEMPLATES if template.operations in operations])
    while True:
        slots = {slot: rng.randint(2, largest) for slot in "abcd"}
        expression = template.expression.format(**slots)
        value = evaluate(expression)
        if value.denominator == 1 and value > 0 and str(value) not in numbers(expression):
            name, other = rng.sample(NAMES, 2)
            return Question(template.text.format(**slots, item=rng.choice(ITEMS), name=name, name2=other), expression)


def numbers(expression: str) -> list[str]:
    """List the numbers of an expression in order."""
    return _NUMBER.findall(expression)


def slips(expression: str) -> dict[str, list[str]]:
    """List what a hasty reader might compute instead, by kind of slip; every one of them has another value.

    Example:
        >>> slips("2*9-5")["numbers exchanged"], slips("2*9-5")["step forgotten"]
        (['5*9-2', '2*5-9'], ['2*9'])
    """
    named, right = numbers(expression), evaluate(expression)
    found: dict[str, list[str]] = {
        "numbers exchanged": [
            _with_numbers(expression, _exchanged(named, i, j)) for i in range(len(named)) for j in range(i + 1, len(named))
        ],
        "wrong operation": [
            expression[: place.start()] + other + expression[place.end() :]
            for place in _OPERATOR.finditer(expression)
            for other in "+-*"
            if other != place.group()
        ],
        "step forgotten": [first.group() for first in _FIRST_OPERATION.finditer(expression)],
        "parentheses forgotten": [expression.replace("(", "").replace(")", "")],
    }
    wrong = {kind: [other for other in others if evaluate(other) != right] for kind, others in found.items()}
    return {kind: others for kind, others in wrong.items() if others}


def _exchanged(named: Sequence[str], i: int, j: int) -> list[str]:
    changed = list(named)
    changed[i], changed[j] = changed[j], changed[i]
    return changed


def _with_numbers(expression: str, named: Sequence[str]) -> str:
    left = iter(named)
    return _NUMBER.sub(lambda _: next(left), expression)
