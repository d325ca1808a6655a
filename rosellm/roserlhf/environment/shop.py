"""`shop`: "What do 3 lamps and 2 mugs cost?" Prices exist only behind a tool, and the answer is verified exactly.

The shortest solution takes four actions: two searches, one calculation, one submission.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, ClassVar

from rosellm.roserlhf.environment.base import Script, ToolEnvironment
from rosellm.roserlhf.environment.expressions import ExpressionError, as_text, evaluate
from rosellm.roserlhf.environment.protocol import Capabilities
from rosellm.roserlhf.environment.tools import tool
from rosellm.roserlhf.environment.vocabulary import DIGIT_PAIRS

ITEMS = (
    "lamps", "mugs", "chairs", "books", "pens", "bags", "cups", "hats", "keys", "maps",
    "nails", "pots", "rugs", "socks", "toys", "vases", "boots", "coats", "desks", "forks",
)  # fmt: skip
FAULTS = (
    "search skipped",
    "wrong item",
    "prices exchanged",
    "counts exchanged",
    "term forgotten",
    "not calculated",
    "wrong number submitted",
)
LARGEST_QUANTITY, LARGEST_PRICE, ITEMS_PER_TASK = 9, 99, 2


class Shop(ToolEnvironment):
    """Price a small shopping list with `search`, `calculator` and `submit`.

    Rewards: `correct` 1 if the submitted number is the exact total, else 0; `format` −1 for each reply without an executable call;
    `cost` −1 for each tool call beyond the four that suffice. Only `correct` carries a weight.
    """

    capabilities: ClassVar[Capabilities] = Capabilities(instant=True, snapshot=True)
    vocabulary: ClassVar[tuple[str, ...]] = (
        "What do ",
        " and ",
        " cost?",
        "search(",
        "calculator(",
        "submit(",
        *ITEMS,
        *DIGIT_PAIRS,
    )

    @staticmethod
    def make_task(rng: random.Random) -> dict[str, Any]:
        """Draw two different items, how many of each are wanted, and their prices; this shop sells nothing else."""
        items = rng.sample(ITEMS, ITEMS_PER_TASK)
        wanted = [[rng.randint(1, LARGEST_QUANTITY), item] for item in items]
        return {"wanted": wanted, "prices": {item: rng.randint(1, LARGEST_PRICE) for item in items}}

    def save_state(self) -> Mapping[str, Any]:
        """Nothing: a shop does not change."""
        return {}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Take back nothing."""

    def prompt(self) -> str:
        """Ask for the total."""
        return "What do " + " and ".join(f"{count} {item}" for count, item in self.task.payload["wanted"]) + " cost?"

    @tool(instant=True)
    def search(self, item: str) -> str:
        """Look up the price of one item."""
        prices: Mapping[str, int] = self.task.payload["prices"]
        return str(prices[item]) if item in prices else "not sold"

    @tool(instant=True)
    def calculator(self, expression: str) -> str:
        """Evaluate an arithmetic expression exactly."""
        try:
            return as_text(evaluate(expression))
        except ExpressionError as mistake:
            return str(mistake)

    @tool(instant=True)
    def submit(self, answer: str) -> str:
        """Give the final answer and end the episode."""
        self.answer = answer
        self.finish()
        return "done"

    def total(self) -> int:
        """The right answer."""
        return sum(count * self.task.payload["prices"][item] for count, item in self.task.payload["wanted"])

    def score(self) -> dict[str, float | None]:
        """Verify the answer: exactly the digits of the total."""
        enough = len(self.task.payload["wanted"]) + 2
        calls = sum(result.status != "invalid" for result in self.results)
        return {
            "correct": float(self.answer == str(self.total())),
            "format": -float(self.mistakes),
            "cost": -float(max(0, calls - enough)),
        }

    def demonstrate(self, rng: random.Random, *, faulty: bool) -> Script:
        """Search, search, calculate, submit; a faulty one mixes something up, in one of seven ways.

        Every fault is a slip that a clerk could make with the numbers at hand (a price taken over from the other item, counts
        exchanged, a term forgotten), so that a policy that cloned them errs at decisions, not in noise over all numbers.
        """
        fault = rng.choice(FAULTS) if faulty else ""
        place = rng.randrange(ITEMS_PER_TASK)
        counts, items = zip(*self.task.payload["wanted"], strict=True)
        prices: list[str | None] = []
        for i, item in enumerate(items):
            if fault == "search skipped" and i == place:
                prices.append(None)
                continue
            other = rng.choice([sold for sold in ITEMS if sold not in items])
            found = yield f"search({other if fault == 'wrong item' and i == place else item})"
            prices.append(found if found.isdigit() else None)
        known = next((price for price in prices if price is not None), "1")
        used = [known if price is None else price for price in prices]
        if fault == "prices exchanged":
            used.reverse()
        if fault == "counts exchanged":
            counts = counts[::-1]
        terms = [f"{count}*{price}" for count, price in zip(counts, used, strict=True)]
        if fault == "term forgotten":
            del terms[place]
        total = used[place]
        if fault != "not calculated":
            calculated = yield f"calculator({'+'.join(terms)})"
            total = used[place] if fault == "wrong number submitted" else calculated
        yield f"submit({total})"
