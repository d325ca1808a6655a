"""`arithmetic`: questions have one exact answer, slips have another, two calls suffice, and nothing but the digits is paid."""

from __future__ import annotations

import asyncio
import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rosellm.roserlhf.codec.hf import build_tokenizer, marker_codec
from rosellm.roserlhf.environment.arithmetic import Arithmetic, HardArithmetic
from rosellm.roserlhf.environment.expressions import evaluate
from rosellm.roserlhf.environment.questions import TEMPLATES, draw, slips
from rosellm.roserlhf.environment.runner import DirectRunner
from rosellm.roserlhf.errors import RangeError

PROPERTY = settings(derandomize=True, max_examples=60, deadline=None)
TOKENIZER = build_tokenizer(Arithmetic.vocabulary)
CODEC = marker_codec(TOKENIZER, Arithmetic().tools.schemas())
TASK = Arithmetic.task_from({"question": "Take 9 times 4 from 50.", "expression": "50-9*4"})
# 50 − 9 · 4 = 50 − 36 = 14


def started(environment: type[Arithmetic] = Arithmetic, seed: int | None = None) -> Arithmetic:
    instance = environment()
    instance.start(TASK if seed is None else environment.task_from(environment.make_task(random.Random(seed))), seed=0)
    return instance


def say(instance: Arithmetic, reply: str) -> str:
    asyncio.run(instance.step(CODEC.parse(CODEC.reply(reply)), DirectRunner(instance.tools)))
    return instance.shown


def by_script(instance: Arithmetic, rng: random.Random, *, faulty: bool) -> list[str]:
    script = instance.demonstrate(rng, faulty=faulty)
    said = [next(script)]
    while True:
        shown = say(instance, said[-1])
        try:
            said.append(script.send(shown))
        except StopIteration:
            return said


def test_the_shortest_solution_takes_two_actions() -> None:
    instance = started()
    assert [say(instance, reply) for reply in ("calculator(50-9*4)", "submit(14)")] == ["14", "done"]
    assert instance.score() == {"correct": 1.0, "format": 0.0, "cost": 0.0, "calculator": 1.0}


def test_three_actions_leave_room_for_one_intermediate_result() -> None:
    instance = started()
    assert [say(instance, reply) for reply in ("calculator(9*4)", "calculator(50-36)", "submit(14)")] == ["36", "14", "done"]
    assert instance.score() == {"correct": 1.0, "format": 0.0, "cost": -1.0, "calculator": 1.0}


@pytest.mark.parametrize("answer", ["15", "14.0", "014", "+14", "-14", "1 4", "28/2", "50-9*4", "14 coins", "١٤", "nan", "[14]"])
def test_only_the_exact_digits_are_correct(answer: str) -> None:
    instance = started()
    assert instance.submit(answer) == "done"
    assert instance.finished
    assert instance.score()["correct"] == 0.0


def test_a_calculation_that_failed_is_no_use_of_the_calculator() -> None:
    instance = started()
    assert say(instance, "calculator(9**9)") == "unexpected '*'"
    assert instance.score() == {"correct": 0.0, "format": 0.0, "cost": 0.0, "calculator": 0.0}


@PROPERTY
@given(st.integers(0, 2**32), st.sampled_from([Arithmetic, HardArithmetic]))
def test_every_question_has_a_whole_answer_that_it_does_not_name(seed: int, environment: type[Arithmetic]) -> None:
    instance = started(environment, seed)
    question, expression = instance.task.payload["question"], instance.task.payload["expression"]
    value = evaluate(expression)
    named = re.findall(r"\d+", question)
    assert value.denominator == 1
    assert value > 0
    assert sorted(named) == sorted(re.findall(r"\d+", expression))
    assert str(value) not in named
    assert all(2 <= int(number) <= environment.largest for number in named)
    assert len(re.findall(r"[-+*/]", expression)) in environment.operations
    assert "{" not in question


@PROPERTY
@given(st.integers(0, 2**32), st.sampled_from([Arithmetic, HardArithmetic]))
def test_a_demonstration_is_right_and_a_faulty_one_is_wrong(seed: int, environment: type[Arithmetic]) -> None:
    right, wrong = started(environment, seed), started(environment, seed)
    said = by_script(right, random.Random(seed), faulty=False)
    assert said == [f"calculator({right.task.payload['expression']})", f"submit({right.solution()})"]
    assert right.score() == {"correct": 1.0, "format": 0.0, "cost": 0.0, "calculator": 1.0}
    said = by_script(wrong, random.Random(seed), faulty=True)
    assert len(said) <= 2
    assert (wrong.score()["correct"], wrong.mistakes, wrong.finished) == (0.0, 0, True)


def test_slips_by_kind() -> None:
    # (7 − 3) · 5 = 20
    assert slips("(7-3)*5") == {
        "numbers exchanged": ["(3-7)*5", "(5-3)*7", "(7-5)*3"],  # −20, 14, 6
        "wrong operation": ["(7+3)*5", "(7*3)*5", "(7-3)+5", "(7-3)-5"],
        "step forgotten": ["7-3"],
        "parentheses forgotten": ["7-3*5"],
    }
    assert slips("6*7") == {"wrong operation": ["6+7", "6-7"]}  # exchanging the numbers changes nothing


def test_prompts_are_short_and_in_the_vocabulary() -> None:
    longest = 0
    for seed in range(200):
        for environment in (Arithmetic, HardArithmetic):
            question = environment.make_task(random.Random(seed))["question"]
            ids = CODEC.reply(question)
            assert CODEC.reply_text(ids) == question
            longest = max(longest, len(ids))
            assert len(re.findall(r"\d|\w+|[^\w\s]", question)) <= 40  # a digit a token, as small models read numbers
    assert longest <= 20
    assert {operations for template in TEMPLATES for operations in [template.operations]} == {1, 2, 3}


def test_difficulty_is_a_matter_of_two_attributes() -> None:
    class Easy(Arithmetic):
        operations = (1,)
        largest = 20

    expressions = [Easy.make_task(random.Random(seed))["expression"] for seed in range(100)]
    assert all(re.fullmatch(r"\d+[-+*/]\d+", expression) for expression in expressions)
    assert all(int(number) <= 20 for expression in expressions for number in re.findall(r"\d+", expression))
    with pytest.raises(RangeError, match=r"operations must be of 1, 2, 3, got \(4,\)"):
        draw(random.Random(0), operations=(4,), largest=99)
    with pytest.raises(RangeError, match=r"largest must be in \[10, inf\), got 2"):
        draw(random.Random(0), operations=(1,), largest=2)
