"""`arithmetic`: a question in words, a calculator, one whole number to submit; made for small instruct models.

The shortest solution takes two actions, `calculator(12*37-58)` and `submit(386)`; three leave room for one intermediate result.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, ClassVar

from rosellm.roserlhf.environment.base import Script, ToolEnvironment
from rosellm.roserlhf.environment.expressions import ExpressionError, as_text, evaluate
from rosellm.roserlhf.environment.protocol import Capabilities
from rosellm.roserlhf.environment.questions import ITEMS, NAMES, TEMPLATES, draw, numbers, slips
from rosellm.roserlhf.environment.tools import tool
from rosellm.roserlhf.environment.vocabulary import DIGIT_PAIRS

NOT_CALCULATED, WRONG_SUBMITTED = "not calculated", "wrong number submitted"
ENOUGH = 2
"""Calls that suffice."""


class Arithmetic(ToolEnvironment):
    """Answer a question of one or two operations with `calculator` and `submit`.

    Rewards: `correct` 1 if the submitted text is exactly the digits of the answer, else 0; `format` −1 for each reply without an
    executable call; `cost` −1 for each tool call beyond two; `calculator` 1 if it gave a number at least once, else 0. Only
    `correct` carries a weight.
    """

    operations: ClassVar[tuple[int, ...]] = (1, 2)
    """How many operations a question may take, 1 to 3: the difficulty."""
    largest: ClassVar[int] = 99
    """Largest number in a question; the smallest is 2."""
    capabilities: ClassVar[Capabilities] = Capabilities(instant=True, snapshot=True)
    vocabulary: ClassVar[tuple[str, ...]] = (
        *dict.fromkeys(piece for template in TEMPLATES for piece in template.pieces if len(piece) > 1),
        "calculator(",
        "submit(",
        *ITEMS,
        *NAMES,
        *DIGIT_PAIRS,
    )

    @classmethod
    def make_task(cls, rng: random.Random) -> Mapping[str, Any]:
        """Draw a question and the expression that answers it."""
        question = draw(rng, operations=cls.operations, largest=cls.largest)
        return {"question": question.text, "expression": question.expression}

    def reset(self) -> None:
        """Forget that anything was calculated."""
        self.calculated = False

    def save_state(self) -> Mapping[str, Any]:
        """What `reset` forgets."""
        return {"calculated": self.calculated}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Take it back."""
        self.calculated = state["calculated"]

    def prompt(self) -> str:
        """Ask, and no more: how tools are called is the codec's to say."""
        question: str = self.task.payload["question"]
        return question

    @tool(instant=True)
    def calculator(self, expression: str) -> str:
        """Compute an expression such as 2*(3+4)."""
        try:
            result = as_text(evaluate(expression))
        except ExpressionError as mistake:
            return str(mistake)
        self.calculated = True
        return result

    @tool(instant=True)
    def submit(self, answer: str) -> str:
        """Give the final number."""
        self.answer = answer
        self.finish()
        return "done"

    def solution(self) -> str:
        """The right answer."""
        return as_text(evaluate(self.task.payload["expression"]))

    def score(self) -> dict[str, float | None]:
        """Verify the answer: exactly the digits."""
        calls = sum(result.status != "invalid" for result in self.results)
        return {
            "correct": float(self.answer == self.solution()),
            "format": -float(self.mistakes),
            "cost": -float(max(0, calls - ENOUGH)),
            "calculator": float(self.calculated),
        }

    def demonstrate(self, rng: random.Random, *, faulty: bool) -> Script:
        """Calculate, submit; a faulty one reads the question wrongly, or submits a number that the question names.

        Every fault is a slip of a reader (numbers exchanged, another operation, a step or the parentheses forgotten), so that a
        policy that cloned them errs at decisions, not in noise over all numbers.
        """
        expression = self.task.payload["expression"]
        wrong = slips(expression)
        fault = rng.choice([*wrong, NOT_CALCULATED, WRONG_SUBMITTED]) if faulty else ""
        result = rng.choice(numbers(expression))
        if fault != NOT_CALCULATED:
            found = yield f"calculator({rng.choice(wrong[fault]) if fault in wrong else expression})"
            result = result if fault == WRONG_SUBMITTED else found
        yield f"submit({result})"


class EasyArithmetic(Arithmetic):
    """Questions of one operation."""

    operations = (1,)


class HardArithmetic(Arithmetic):
    """Questions of two or three operations."""

    operations = (2, 3)
