"""`shop`: the verifier is exact, prices are behind the tool, rewards are named, demonstrations go wrong in the ways they say."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rosellm.roserlhf.codec.hf import build_tokenizer, marker_codec
from rosellm.roserlhf.environment.protocol import Task
from rosellm.roserlhf.environment.runner import DirectRunner
from rosellm.roserlhf.environment.shop import FAULTS, ITEMS, LARGEST_PRICE, LARGEST_QUANTITY, Shop
from rosellm.roserlhf.trajectory import ParsedAction, ParseFailure

PROPERTY = settings(derandomize=True, max_examples=60, deadline=None)
CODEC = marker_codec(build_tokenizer(Shop.vocabulary), Shop().tools.schemas())
TASK = Shop.task_from({"wanted": [[3, "lamps"], [2, "mugs"]], "prices": {"lamps": 17, "mugs": 9}})
# 3 · 17 + 2 · 9 = 51 + 18 = 69


def play(*replies: str, task: Task = TASK) -> tuple[Shop, list[str]]:
    """Send replies through codec and tools; return the environment and what it answered."""
    shop = Shop()
    shop.start(task, seed=0)
    answers = []
    for reply in replies:
        asyncio.run(shop.step(CODEC.parse(CODEC.reply(reply)), DirectRunner(shop.tools)))
        answers.append(shop.shown)
    return shop, answers


def by_script(shop: Shop, rng: random.Random, *, faulty: bool) -> list[str]:
    """Play a demonstration to its end; return what it said."""
    script = shop.demonstrate(rng, faulty=faulty)
    said = [next(script)]
    while True:
        asyncio.run(shop.step(CODEC.parse(CODEC.reply(said[-1])), DirectRunner(shop.tools)))
        try:
            said.append(script.send(shop.shown))
        except StopIteration:
            return said


def test_the_shortest_solution_takes_four_actions() -> None:
    shop, answers = play("search(lamps)", "search(mugs)", "calculator(3*17+2*9)", "submit(69)")
    assert shop.prompt() == "What do 3 lamps and 2 mugs cost?"
    assert answers == ["17", "9", "69", "done"]
    assert (shop.finished, shop.total()) == (True, 69)
    assert shop.score() == {"correct": 1.0, "format": 0.0, "cost": 0.0}


@pytest.mark.parametrize(
    "answer",
    ["68", "690", "6 9", "69.0", "+69", "069", "69 coins", "3*17+2*9", "sixty-nine", "６９", "٦٩", "-69", "69,", "[69]", "69)"],
)
def test_only_the_exact_digits_are_correct(answer: str) -> None:
    shop = Shop()
    shop.start(TASK, seed=0)
    assert shop.submit(answer) == "done"
    assert shop.score()["correct"] == 0.0


def test_without_an_answer_nothing_is_correct() -> None:
    shop, _ = play("search(lamps)")
    assert (shop.finished, shop.score()) == (False, {"correct": 0.0, "format": 0.0, "cost": 0.0})


def test_every_component_counts_what_it_says() -> None:
    shop, answers = play(
        "submit",  # no call: format −1
        "solve(69)",  # unknown tool: format −1
        "search()",  # missing argument: format −1
        "search(boats)",  # a call that finds nothing is a call
        "search(lamps)",
        "search(mugs)",
        "calculator(3*17)",
        "calculator(51+18)",
        "submit(69)",
    )
    assert answers[:4] == [
        "not a call of the form name(argument)",
        "unknown tool; use search, calculator, submit",
        "missing item",
        "not sold",
    ]
    # six executed calls, four would do
    assert shop.score() == {"correct": 1.0, "format": -3.0, "cost": -2.0}
    assert Shop.reward_weights == {"correct": 1.0}  # the others are recorded, not trained


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("search(__class__)", "not sold"),
        ("search(lamps, mugs)", "not sold"),
        ("search(Lamps)", "not sold"),
        ("search(" + "lamps" * 50 + ")", "not sold"),
        ("calculator(__import__)", "unexpected '_'"),
        ("calculator(9**9**9)", "unexpected '*'"),
        ("calculator(1/0)", "division by zero"),
        ("calculator(7/2)", "7/2"),
        ("calculator(" + "9" * 201 + ")", "expression too long"),
        ("calculator(lamps)", "unexpected 'l'"),
    ],
)
def test_hostile_arguments_are_answered(reply: str, answer: str) -> None:
    shop, answers = play(reply)
    assert answers == [answer]
    assert shop.answer is None


def test_two_calls_in_a_reply_are_one_wrong_answer() -> None:
    shop, answers = play("submit(69);submit(70)")  # one call, whose last argument may hold anything
    assert (answers, shop.answer, shop.score()["correct"]) == (["done"], "69);submit(70", 0.0)


def test_prices_are_seen_through_the_tool_only() -> None:
    for seed in range(50):
        payload = Shop.make_task(random.Random(seed))
        shop = Shop()
        shop.start(Shop.task_from(payload), seed=0)
        counts = [str(count) for count, _ in payload["wanted"]]
        digits = [word for word in shop.prompt().split() if word.isdigit()]
        assert digits == counts


@PROPERTY
@given(st.integers(0, 2**32))
def test_a_task_is_json_within_its_bounds_and_the_total_is_the_sum(seed: int) -> None:
    payload = Shop.make_task(random.Random(seed))
    assert json.loads(json.dumps(payload)) == payload
    (n, first), (m, second) = payload["wanted"]
    assert first != second
    assert {first, second} == {*payload["prices"]} <= {*ITEMS}
    assert all(1 <= count <= LARGEST_QUANTITY for count in (n, m))
    assert all(1 <= price <= LARGEST_PRICE for price in payload["prices"].values())
    shop = Shop()
    shop.start(Shop.task_from(payload), seed=0)
    assert shop.total() == n * payload["prices"][first] + m * payload["prices"][second]
    assert by_script(shop, random.Random(seed), faulty=False)[-1] == f"submit({shop.total()})"
    assert shop.score() == {"correct": 1.0, "format": 0.0, "cost": 0.0}


def test_tasks_depend_on_the_seed_alone() -> None:
    assert Shop.make_task(random.Random(5)) == Shop.make_task(random.Random(5)) != Shop.make_task(random.Random(6))


@PROPERTY
@given(st.text(st.sampled_from("".join(map(chr, range(32, 127)))), max_size=40))
def test_any_reply_is_answered(text: str) -> None:
    for reply in (text, f"search({text})", f"calculator({text})", f"submit({text})"):
        shop, (answer,) = play(reply)
        assert answer
        assert shop.score()["correct"] == float(shop.answer == "69")
        assert CODEC.text(CODEC.reply(answer)) == answer + "<end>"  # and the answer can be shown


class Choosing(random.Random):
    """Chooses the fault it is told to, and is a random stream otherwise."""

    def __init__(self, seed: int, fault: str) -> None:
        super().__init__(seed)
        self.fault = fault

    def choice(self, seq: Any) -> Any:
        return self.fault if self.fault in seq else super().choice(seq)


def faulty(fault: str, seed: int) -> tuple[Shop, list[str]]:
    shop = Shop()
    shop.start(Shop.task_from(Shop.make_task(random.Random(seed))), seed=0)
    return shop, by_script(shop, Choosing(seed, fault), faulty=True)


def slips(n: int, m: int, p: str, q: str) -> dict[str, set[str]]:
    """For n of one item at price p and m of another at q: what each fault may ask the calculator."""
    return {
        "search skipped": {f"{n}*{p}+{m}*{p}", f"{n}*{q}+{m}*{q}"},  # the price that is known stands for both
        "wrong item": {f"{n}*{p}+{m}*{p}", f"{n}*{q}+{m}*{q}"},
        "prices exchanged": {f"{n}*{q}+{m}*{p}"},
        "counts exchanged": {f"{m}*{p}+{n}*{q}"},
        "term forgotten": {f"{n}*{p}", f"{m}*{q}"},
        "not calculated": set(),
        "wrong number submitted": {f"{n}*{p}+{m}*{q}"},
    }


@pytest.mark.parametrize("fault", FAULTS)
def test_each_kind_of_fault_goes_wrong_in_its_own_way(fault: str) -> None:
    for seed in range(40):
        shop, said = faulty(fault, seed)
        (n, first), (m, second) = shop.task.payload["wanted"]
        p, q = str(shop.task.payload["prices"][first]), str(shop.task.payload["prices"][second])
        searched = [line for line in said if line.startswith("search(")]
        right = [f"search({first})", f"search({second})"]
        kept = [line for line in searched if line in right]
        assert (len(searched), len(kept)) == {"search skipped": (1, 1), "wrong item": (2, 1)}.get(fault, (2, 2))
        assert kept == [line for line in right if line in searched]  # in the order of the question
        asked = {line.removeprefix("calculator(").removesuffix(")") for line in said if line.startswith("calculator(")}
        assert asked <= slips(n, m, p, q)[fault]
        assert len(asked) == (fault != "not calculated")
        if fault in ("not calculated", "wrong number submitted"):
            assert said[-1] in (f"submit({p})", f"submit({q})")
        assert len(said) == len(searched) + len(asked) + 1
        assert (shop.finished, shop.mistakes) == (True, 0)


def test_a_faulty_demonstration_is_right_by_luck_only() -> None:
    right = Counter({fault: sum(faulty(fault, seed)[0].score()["correct"] == 1.0 for seed in range(40)) for fault in FAULTS})
    assert all(count <= 10 for count in right.values()), right  # equal prices or counts exchanged change nothing


def test_faults_are_drawn_from_all_kinds() -> None:
    asked: set[Any] = set()

    class Spy(random.Random):
        def choice(self, seq: Any) -> Any:
            chosen = super().choice(seq)
            asked.add(chosen)
            return chosen

    for seed in range(40):
        shop = Shop()
        shop.start(TASK, seed=0)
        by_script(shop, Spy(seed), faulty=True)
    assert asked >= {*FAULTS}


def test_a_demonstration_depends_on_its_stream_alone() -> None:
    said = []
    for _ in range(2):
        shop = Shop()
        shop.start(TASK, seed=0)
        said.append(by_script(shop, random.Random(3), faulty=True))
    assert said[0] == said[1]


def test_a_reply_that_was_cut_costs_nothing() -> None:
    shop = Shop()
    shop.start(TASK, seed=0)
    cut = CODEC.parse(CODEC.reply("search(lamps)")[:-1])
    assert isinstance(cut, ParseFailure)
    asyncio.run(shop.step(cut, DirectRunner(shop.tools)))
    asyncio.run(shop.step(ParsedAction("hm"), DirectRunner(shop.tools)))
    assert shop.score()["format"] == -1.0
