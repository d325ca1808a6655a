"""Every handed reference case holds, and the table that runs them judges as it says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conformance.__main__ import load
from conformance.case import LATER, Case, difference, judge

FILE = Path(__file__).parent / "data" / "reference_cases.json"
CASES = load(FILE)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_reference_case(case: Case) -> None:
    outcome, why = judge(case)
    assert outcome == ("later" if case.method in LATER else "ok"), why


def run(tmp_path: Path, *cases: dict[str, Any]) -> tuple[int, list[str]]:
    file = tmp_path / "cases.json"
    file.write_text(json.dumps(cases))
    done = subprocess.run(
        [sys.executable, "-m", "tests.conformance", str(file)], cwd=FILE.parents[2], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout.splitlines()


RLOO = {"id": "mine", "method": "rloo", "inputs": {"rewards": [0, 2]}, "params": {}, "expected": {"advantages": [-2.0, 2.0]}}


def test_the_command_judges_a_file_of_other_cases(tmp_path: Path) -> None:
    wrong = RLOO | {"id": "wrong", "expected": {"advantages": [-2.0, 2.1]}}
    unknown = RLOO | {"id": "unknown", "method": "alchemy"}
    later = RLOO | {"id": "later", "method": "hgpo"}
    assert run(tmp_path, RLOO, later) == (0, ["ok        mine", "later     later", "1 ok, 0 differs, 1 later, 0 unmapped"])
    code, lines = run(tmp_path, RLOO, wrong, unknown)
    assert code == 1
    assert lines[1] == "differs   wrong  (advantages: [1] 2.0 instead of 2.1)"
    assert lines[2] == "unmapped  unknown  (unknown method 'alchemy')"
    assert run(tmp_path, RLOO, unknown)[0] == 3


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


def test_comparison_of_nested_values() -> None:
    assert difference([1.0, [True, "a"]], [1.0, [True, "a"]]) == ""
    assert difference([1.0, 7.0], [1.0, None]) == ""
    assert difference([1.0], [1.0, 2.0]) == "[1.0] instead of [1.0, 2.0]"
    assert difference({"x": 1.0, "y": 3.0}, {"x": 2.0}) == "[x] 1.0 instead of 2.0"
    assert difference({}, {"x": 2.0}) == "[x] is missing"
    assert difference(float("nan"), 0.0) == "nan instead of 0.0"
    assert difference("b", "a") == "'b' instead of 'a'"
    assert difference(1.0 + 1e-8, 1.0)


@pytest.mark.parametrize("text", ["{}", "[1]", '[{"id": "x"}]', "nonsense"])
def test_a_file_that_holds_no_cases_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "cases.json"
    file.write_text(text)
    with pytest.raises(ValueError, match=r"must hold a list of cases|must have id, method|Expecting value"):
        load(file)
