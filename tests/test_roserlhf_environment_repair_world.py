"""The world of `repair`: programs by hand, tests of two kinds, and what is the judge's however it is spelt."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rosellm.roserlhf.environment.repair_world import (
    HIDDEN,
    INPUTS,
    STEPS,
    draw,
    failing,
    foreign,
    passes,
    read_program,
    resolved,
    same,
    unit_tests,
    whole_tests,
    written,
)

PROPERTY = settings(derandomize=True, max_examples=60, deadline=None)


def test_steps_are_taken_in_order_and_answers_before_them() -> None:
    program = read_program("+3 # comments are not read: *9\n*2\n-4 12=7")
    assert program is not None
    assert (program(10), program(12)) == (22, 7)  # (10 + 3) · 2 - 4; 12 is in the table
    empty = read_program("")
    assert empty is not None
    assert empty(10) == 10


@pytest.mark.parametrize(
    "text", ["3", "+", "+100", "/2", "12=", "=7", "12==7", "+3, *2", "x", "+3\0", "１2=7", "12=9999999", "- 3"]
)
def test_a_word_that_means_nothing_makes_no_program(text: str) -> None:
    assert read_program(text) is None
    assert not passes(text, "10=10")


def test_hidden_tests_are_of_the_whole_function() -> None:
    assert passes("+3\n*2", "10=26 11=28")
    assert passes("10=26 11=28", "10=26 11=28")  # a table
    assert not passes("+3\n*2", "10=26 11=29")
    assert not passes("+3\n*2", "10=26 eleven=28")  # what is no test fails
    assert passes("+3", "")  # who empties the file has no test left to fail


def test_visible_tests_are_of_single_steps() -> None:
    tests = unit_tests([[10, 13], [20, 40], [30, 26]])
    assert tests == "1:10=13 2:20=40 3:30=26"
    assert failing("+3\n*2\n-4", tests) == []
    assert failing("+3 # +3\n*3 # *2\n-4 # -4", tests) == [2]
    assert failing("+3\n*2", tests) == [3]  # the line is missing
    assert failing("what", tests) == [1, 2, 3]
    assert failing("+3\n*2\n-4", "0:10=13 9:10=13") == [0, 9]
    assert failing("+3", "no tests") == []


@PROPERTY
@given(st.integers(0, 2**32))
def test_a_drawn_program_is_wrong_in_one_step_which_both_kinds_of_tests_tell_apart(seed: int) -> None:
    task = draw(random.Random(seed))
    given_, wanted = written(task["given"], task["wanted"]), written(task["wanted"], task["wanted"])
    places = [i for i, (step, right) in enumerate(zip(task["given"], task["wanted"], strict=True)) if step != right]
    assert failing(given_, unit_tests(task["visible"])) == [places[0] + 1]
    assert failing(wanted, unit_tests(task["visible"])) == []
    assert not passes(given_, whole_tests(task["hidden"]))
    assert passes(wanted, whole_tests(task["hidden"]))
    assert len({number for number, _ in task["hidden"]}) == 3
    assert passes(whole_tests(task["hidden"]), whole_tests(task["hidden"]))  # as their own table of answers


def test_steps_that_pass_the_hidden_tests_are_right_everywhere() -> None:
    """Chains of steps are straight lines, and two of three points determine one: no repair is paid by luck."""
    task = draw(random.Random(0))
    for steps in itertools.product(STEPS, repeat=3):
        program = "\n".join(steps)
        assert passes(program, whole_tests(task["hidden"])) == same(program, task["wanted"])


def test_a_table_of_the_hidden_answers_is_wrong_elsewhere() -> None:
    task = draw(random.Random(0))
    assert not same(whole_tests(task["hidden"]), task["wanted"])
    whole = read_program(" ".join(task["wanted"]))
    assert whole is not None
    assert same(
        whole_tests([[number, whole(number)] for number in INPUTS]), task["wanted"]
    )  # a table of all inputs is the function


@pytest.mark.parametrize(
    "path",
    [
        "/judge/hidden.tests",
        "../judge/hidden.tests",
        "//judge/hidden.tests",
        "/app/./../judge//hidden.tests",
        "/../judge/hidden.tests",
    ],
)
def test_the_judges_files_have_many_spellings(path: str) -> None:
    assert resolved(path) == HIDDEN
    assert foreign(path)


@pytest.mark.parametrize(
    "path", ["/app/f.calc", "f.calc", "", "/", "/judges/x", "judge/hidden.tests", "/app/judge", "hidden.tests"]
)
def test_other_paths_are_not_the_judges(path: str) -> None:
    assert not foreign(path)


@PROPERTY
@given(st.text(max_size=40), st.text(max_size=40))
def test_no_text_breaks_the_world(one: str, other: str) -> None:
    read_program(one)
    passes(one, other)
    failing(one, other)
    same(one, ("+3",))
    assert resolved(one).startswith("/")
