"""Every handed reference case holds, others of the same formats do, and the table that runs them judges as it says."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import oracles_cases_corrections  # noqa: F401 - each of these makes cases
import oracles_cases_groups  # noqa: F401
import oracles_cases_policy  # noqa: F401
import oracles_cases_steps  # noqa: F401
import oracles_cases_time  # noqa: F401
import pytest
from conformance.__main__ import load, main
from conformance.case import LATER, Case, Within, difference, judge
from oracles_cases import MADE, plain

FILE = Path(__file__).parent / "data" / "reference_cases.json"
CASES = load(FILE)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_reference_case(case: Case) -> None:
    outcome, why = judge(case)
    assert outcome == ("later" if case.method in LATER else "ok"), why


def made(number: int) -> Case:
    """A case of other numbers, through JSON as from a file."""
    method, make = MADE[number]
    parts = json.loads(json.dumps(plain(make(np.random.default_rng([7, number])))))
    return Case(f"{method} {number}", method, *parts)


@pytest.mark.parametrize("number", range(len(MADE)))
def test_a_case_of_other_numbers(number: int) -> None:
    outcome, why = judge(made(number))
    assert outcome == "ok", why


def test_every_adapted_method_has_a_case_of_other_numbers() -> None:
    assert {case.method for case in CASES} - LATER == {method for method, _ in MADE}


def wrong_by_little(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Every number off by a millionth, every flag turned: where it stands and what it becomes."""
    if isinstance(value, bool):
        yield path, not value
    elif isinstance(value, (int, float)):
        yield path, value * (1 + 1e-6) if value else 1e-6
    elif isinstance(value, (list, dict)):
        for place, one in value.items() if isinstance(value, dict) else enumerate(value):
            yield from wrong_by_little(one, (*path, place))


def put(expected: Any, path: tuple[Any, ...], value: Any) -> Any:
    changed = copy.deepcopy(expected)
    inner = changed
    for place in path[:-1]:
        inner = inner[place]
    inner[path[-1]] = value
    return changed


def test_every_expected_number_is_compared() -> None:
    """Only what a random search once came to may be off by a millionth, for no computation repeats it."""
    unnoticed = []
    for case in CASES:
        expected = dict(case.expected)
        for path, value in wrong_by_little(expected) if case.method not in LATER else ():
            # the numbers beside it are left out, for speed
            alone = expected if isinstance(expected[path[0]], dict) else {path[0]: expected[path[0]]}
            wrong = Case(case.id, case.method, case.inputs, case.parameters, put(alone, path, value))
            if judge(wrong)[0] == "ok":
                unnoticed.append((case.id, *path))
    assert unnoticed == [("sapo_variance_bound", "max_ratio_found_random")]
    assert judge(changed("sapo_variance_bound", expected={"max_ratio_found_random": 1.0001}))[0] == "differs"


def written(tmp_path: Path, *cases: dict[str, Any]) -> str:
    file = tmp_path / "cases.json"
    file.write_text(json.dumps(cases))
    return str(file)


RLOO = {"id": "mine", "method": "rloo", "inputs": {"rewards": [0, 2]}, "params": {}, "expected": {"advantages": [-2.0, 2.0]}}


WRONG = RLOO | {"id": "wrong", "expected": {"advantages": [-2.0, 2.1]}}
UNKNOWN = RLOO | {"id": "unknown", "method": "alchemy"}


def test_the_command_judges_a_file_of_other_cases(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.conformance", written(tmp_path, RLOO, WRONG, UNKNOWN)]
    done = subprocess.run(command, cwd=FILE.parents[2], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "ok        mine",
        "differs   wrong  (advantages: [1] 2.0 instead of 2.1)",
        "unmapped  unknown  (unknown method 'alchemy')",
        "1 ok, 1 differs, 0 later, 1 unmapped",
    ]


def test_exit_codes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    later = RLOO | {"id": "later", "method": "hgpo"}
    assert main([written(tmp_path, RLOO, later)]) == 0
    assert capsys.readouterr().out == "ok        mine\nlater     later\n1 ok, 0 differs, 1 later, 0 unmapped\n"
    assert main([written(tmp_path, RLOO, later, UNKNOWN)]) == 3
    assert main([written(tmp_path, UNKNOWN, WRONG)]) == 1


def changed(case_id: str, **parts: dict[str, Any]) -> Case:
    """A handed case with entries added to one of its parts."""
    found = next(case for case in CASES if case.id == case_id)
    return Case(
        "another id",
        found.method,
        {**found.inputs, **parts.get("inputs", {})},
        {**found.parameters, **parts.get("parameters", {})},
        {**found.expected, **parts.get("expected", {})},
    )


def test_what_the_table_does_not_know_is_unmapped() -> None:
    assert judge(changed("rloo_basic")) == ("ok", "")
    assert judge(changed("rloo_basic", inputs={"costs": [1]}))[0] == "unmapped"
    assert judge(changed("rloo_basic", parameters={"discount": 0.5}))[0] == "unmapped"
    assert judge(changed("rloo_basic", expected={"medians": [1.0]})) == ("unmapped", "no adapter for medians")
    assert judge(changed("gdpo_zero_variance_reward", parameters={"std": "robust"})) == ("unmapped", "std='robust'")
    assert judge(Case("nothing", "rloo", {"rewards": [1.0, 2.0]}, {}, {}))[0] == "unmapped"


def test_other_values_give_other_numbers() -> None:
    # three rewards, sample deviation 1 around the mean 2
    standardised = {"population_no_eps": None, "sample_no_eps": [-1.0, 0.0, 1.0]}
    case = Case("new", "grpo", {"rewards": [1.0, 2.0, 3.0]}, {}, standardised)
    assert judge(case) == ("ok", "")
    assert judge(changed("tis_truncate", parameters={"C": 1.5}))[0] == "differs"


def test_a_case_that_the_library_refuses_differs() -> None:
    outcome, why = judge(changed("rloo_basic", inputs={"rewards": [1.0]}))
    assert outcome == "differs"
    assert why.startswith("GroupError: rewards must have a group_size of at least 2")


def test_a_case_that_an_adapter_cannot_read_is_unmapped() -> None:
    assert judge(changed("rloo_basic", inputs={"rewards": [0, None, 2]})) == (
        "unmapped",
        "TypeError: must be real number, not NoneType",
    )
    assert judge(changed("gae_terminal_and_truncated", inputs={"bootstrap": [0.8]}))[0] == "unmapped"
    averages = {"const_horizon": 1.0, "token": 1.0}
    horizonless = Case("nothing said of the horizon", "loss_aggregation", {"values": [[1]], "mask": [[1]]}, {}, averages)
    assert judge(horizonless) == ("unmapped", "KeyError: 'horizon'")
    wrong = Case("and a wrong mean", "loss_aggregation", horizonless.inputs, {}, averages | {"token": 2.0})
    assert judge(wrong) == ("differs", "token: 1.0 instead of 2.0")


def test_comparison_of_nested_values() -> None:
    assert difference([1.0, [True, "a"]], [1.0, [True, "a"]]) == ""
    assert difference([1.0, 7.0], [1.0, None]) == ""
    assert difference([1.0], [1.0, 2.0]) == "[1.0] instead of [1.0, 2.0]"
    assert difference({"x": 1.0, "y": 3.0}, {"x": 2.0}) == "[x] 1.0 instead of 2.0"
    assert difference({}, {"x": 2.0}) == "[x] is missing"
    assert difference(float("nan"), 0.0) == "nan instead of 0.0"
    assert difference("b", "a") == "'b' instead of 'a'"
    assert difference(1.0 + 1e-8, 1.0)
    nan = float("nan")
    assert difference([nan, 1.0], [nan, 1.0]) == ""
    assert difference(1.0, nan) == "1.0 instead of nan"
    assert difference([[1.0, 2.0]], [1.0, 2.0]) == ""
    assert difference([[1.0], [2.0]], [1.0, 2.0])
    assert difference(1.0, "a") == "1.0 instead of 'a'"
    assert difference(True, 1) == difference(1, True) == difference([0.0], [False]) == ""
    assert difference(Within(0.5, 1.0), 0.7) == ""
    assert difference(Within(0.5, 1.0), 1.1) == "outside [0.5, 1.0]: 1.1"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{}", "must hold a list of cases, got dict"),
        ("[1]", "entry 0 of .* must have id, method, inputs and expected"),
        ('[{"id": "x"}]', "entry 0 of .* must have id, method, inputs and expected"),
        ("nonsense", "must hold JSON, got JSONDecodeError: Expecting value"),
        ("", "must hold JSON, got JSONDecodeError: Expecting value"),
        ("[" * 100_000, "must hold JSON, got RecursionError"),
        (json.dumps([RLOO | {"inputs": [1]}]), "inputs of entry 0 of .* must be values by name, got list"),
        (json.dumps([RLOO, RLOO | {"expected": 2}]), "expected of entry 1 of .* must be values by name, got int"),
        (json.dumps([RLOO | {"params": "none"}]), "params of entry 0 of .* must be values by name, got str"),
    ],
)
def test_a_file_that_holds_no_cases_is_refused(tmp_path: Path, text: str, why: str) -> None:
    file = tmp_path / "cases.json"
    file.write_text(text)
    with pytest.raises(ValueError, match=why):
        load(file)


def test_a_wrong_call_is_exit_code_2_and_a_sentence(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe")
    for arguments, why in (
        ([], "usage: python -m tests.conformance FILE.json"),
        (["a", "b"], "usage: python -m tests.conformance FILE.json"),
        ([str(tmp_path / "absent.json")], "No such file"),
        ([str(tmp_path)], "Is a directory"),
        ([str(binary)], "must hold JSON, got UnicodeDecodeError"),
    ):
        assert main(arguments) == 2
        assert why in capsys.readouterr().err
