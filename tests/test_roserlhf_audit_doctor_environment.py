"""The doctor of environments: a sound one passes, and whatever is wrong with another is found under its name."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from rosellm.roserlhf.audit.diagnosis import Outcome
from rosellm.roserlhf.audit.environment import checks
from rosellm.roserlhf.audit.environment.answers import hostile_answers
from rosellm.roserlhf.audit.environment.order import CHECKS, examine_environment
from rosellm.roserlhf.audit.environment.subject import Subject
from rosellm.roserlhf.audit.stages import in_order
from rosellm.roserlhf.cli import main
from rosellm.roserlhf.errors import ConfigError, RangeError

OWN = "doctored_environments"


PLAYING = (checks.EMPTY, checks.RANDOM, checks.REPLIES, checks.ARGUMENTS)


def examined(name: str, *, seconds: float = 60.0, without: Collection[str] = ()) -> dict[str, Outcome]:
    path = name if ":" in name else f"{OWN}:{name}"
    stages = [stage for stage in CHECKS if stage.name not in without]
    with Subject(path, seconds) as subject:
        subject.describe()
        return {outcome.name: outcome for outcome in in_order(stages, subject, lambda number, name: None)}


def bad(outcomes: dict[str, Outcome]) -> dict[str, str]:
    return {name: outcome.verdict for name, outcome in outcomes.items() if outcome.verdict not in ("passed", "skipped", "info")}


def test_a_sound_environment_passes_every_check() -> None:
    outcomes = examined("Sum")
    assert {name: outcome.verdict for name, outcome in outcomes.items()} == dict.fromkeys(
        (stage.name for stage in CHECKS), "passed"
    )
    assert outcomes[checks.DECLARED].evidence == (
        "Sum-1: deterministic, snapshot, replayable; trains correct × 1; success is correct ≥ 1"
    )
    assert outcomes[checks.SNAPSHOT].evidence == "12 episodes went on in another instance as in their own"  # 4 tasks, 3 turns each


def test_the_shop_passes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--env", "shop"]) == 0
    assert capsys.readouterr().out.endswith("\n13 passed\n")


FAULTS: dict[str, dict[str, tuple[str, str]]] = {
    "Wordy": {checks.SNAPSHOT: ("failed", "restored in another instance: turn 1 differs")},
    "Evaluates": {checks.ARGUMENTS: ("failed", "an import as submit(answer) on task 0: it made a file")},
    "Shells": {checks.ARGUMENTS: ("failed", "as find(where) on task 0: it made a file")},
    "Hangs": {checks.ARGUMENTS: ("failed", "a power that never ends as submit(answer) on task 0: no answer within 2 s")},
    "Dies": {checks.ARGUMENTS: ("failed", "20 kB of digits as submit(answer) on task 0: a process that died (SIGABRT)")},
    "RaisesOnNul": {checks.ARGUMENTS: ("failed", "NUL as submit(answer) on task 0: step raised ValueError: embedded null byte")},
    "PaysForNan": {checks.ARGUMENTS: ("failed", "nan as submit(answer) on task 0: correct is 1")},
    "PaysForMentions": {checks.ARGUMENTS: ("failed", "every number up to 999 as submit(answer) on task 0: correct is 1")},
    "PaysForYes": {checks.ARGUMENTS: ("failed", "True as decide(yes) on task 0: correct is 1")},
    "Coin": {},
    "Prints": {checks.OUTPUT: ("failed", "the demonstration printed 'starting ")},
    "Warns": {checks.OUTPUT: ("warning", "wrote 'deprecated\\n' to standard error")},
    "GlobalRandom": {checks.RNG: ("failed", "the demonstration changed the global state of random (")},
    "SeedsNumpy": {checks.RNG: ("failed", "changed the global state of numpy.random (")},
    "Unsteady": {checks.TASKS: ("failed", "task 0 of 32 is another when it is drawn again from the same rng")},
    "Hashes": {checks.TASKS: ("failed", "in a second process, whose hashes of strings differ")},
    "WrongGold": {checks.GOLD: ("failed", "12 of 12 demonstrations without a fault were not paid")},
    "Fickle": {checks.SCORE: ("failed", "a second score() says something else")},
    "ScoresNan": {checks.SCORE: ("failed", "style must be a finite number, got nan")},
    "Misnames": {checks.SCORE: ("failed", "score must name style, got correct")},
    "Abstains": {checks.ARGUMENTS: ("warning", "were unscored; the first: blanks as submit(answer) on task 0: correct is None")},
    "Clocked": {checks.REPLAY: ("failed", "the demonstration on task 0, played again: turn 0 differs")},
    "Unordered": {checks.REPLAY: ("failed", "played in a second process, whose hashes of strings differ: the start differs")},
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_what_is_wrong_is_found_and_nothing_else(name: str) -> None:
    needed = (checks.ARGUMENTS,) if FAULTS[name].keys() <= {checks.ARGUMENTS, checks.SCORE} else ()
    outcomes = examined(name, seconds=2.0 if name in ("Hangs", "Evaluates") else 60.0, without={*PLAYING} - {*needed})
    assert bad(outcomes) == {check: verdict for check, (verdict, _) in FAULTS[name].items()}
    for check, (_, evidence) in FAULTS[name].items():
        assert evidence in outcomes[check].evidence
        assert outcomes[check].cause


def test_no_task_can_be_drawn() -> None:
    outcomes = examined("NoJson", without=PLAYING)
    assert "RecordError: payload['a'] must be a JSON value" in outcomes[checks.TASKS].evidence
    assert outcomes[checks.GOLD].verdict == outcomes[checks.SPLITS].verdict == "failed"
    one = examined("OneTask", without=PLAYING)[checks.SPLITS]
    assert (one.verdict, "none in 10000 draws of OneTask" in one.evidence) == ("failed", True)


def test_a_solution_is_gold_where_nothing_is_demonstrated() -> None:
    outcomes = examined("Solved", without=PLAYING)
    assert (bad(outcomes), outcomes[checks.GOLD].verdict) == ({}, "passed")


def test_what_could_not_be_checked_is_said() -> None:
    assert examined("NoGold", without=PLAYING)[checks.GOLD].verdict == "skipped"
    locked = examined("Locked", without=PLAYING[:3])[checks.ARGUMENTS]
    assert (locked.verdict, locked.evidence.partition("; ")[2]) == (
        "passed",
        "not executed, since they are irreversible and nothing confirms them: send",
    )
    assert examined("Honest", without=PLAYING)[checks.REPLAY].verdict == "info"


def test_what_importing_does_is_told_apart_from_what_episodes_do() -> None:
    outcomes = examined("doctored_import:Importing", without=PLAYING)
    assert (outcomes[checks.RNG].verdict, outcomes[checks.RNG].evidence) == (
        "warning",
        "importing it changed the global state of random; no episode did",
    )
    assert outcomes[checks.OUTPUT].evidence == "importing it printed 'hello\\n' (2 times in all)"  # once in each process


def test_all_that_was_asked_for_is_played(tmp_path: Path) -> None:
    texts = {answer.text for answer in hostile_answers(str(tmp_path / "canary"))}
    assert {"9**9**9**9", "\x00", "nan", "inf", "None", '{"correct": 1}', "\ud800", "9" * 20_000} <= texts
    assert any("__import__('os')" in text and str(tmp_path) in text for text in texts)


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("shpo", "did you mean shop?"),
        ("no_such_module:Class", "environment must be importable"),
        (f"{OWN}:raised_at_import", "subclass"),
    ],
)
def test_what_is_no_environment_is_a_wrong_call(name: str, complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ConfigError, match=r"^environment must "):
        list(examine_environment(name))
    assert main(["doctor", "--env", name]) == 2
    assert complaint in capsys.readouterr().err


def test_the_command_prints_verdicts_and_writes_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = tmp_path / "found.json"
    assert main(["doctor", "--env", f"{OWN}:PaysForNan", "--json", str(found)]) == 1
    printed = capsys.readouterr().out
    assert "hostile arguments: failed" in printed
    assert "likely cause: the verifier pays for an answer that is not right" in printed
    assert "12 passed, 1 failed" in printed
    outcomes: list[dict[str, Any]] = json.loads(found.read_text())["outcomes"]
    assert [outcome["name"] for outcome in outcomes] == [stage.name for stage in CHECKS]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--env", "shop", "--repair"], "--repair must come with RUN, got --env"),
        (["--env", "shop", "--seconds", "0"], "--seconds must be a number above 0, got 0"),
        (["--env", "shop", "--seconds", "soon"], "--seconds must be a number above 0, got soon"),
        (["run", "--seconds", "3"], "--seconds must come with --env, got RUN"),
        (["--batch", "file.npz", "run"], "arguments must be options only, got run"),
        (["--json", "found.json"], "arguments must be RUN, got none"),
    ],
)
def test_a_wrong_call_is_2(arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", *arguments]) == 2
    assert complaint in capsys.readouterr().err


def test_a_time_limit_is_above_0() -> None:
    with pytest.raises(RangeError, match="seconds must be in"):
        list(examine_environment("shop", seconds=0))


def test_the_file_that_tells_an_execution_names_no_number() -> None:
    """Its path stands in hostile answers: a digit of chance there would be the right answer of some task, on some days."""
    for _ in range(20):
        with Subject("arithmetic", seconds=60.0) as subject:
            own = subject.canary.relative_to(tempfile.gettempdir())
            assert not any(letter.isdigit() for letter in str(own))
            assert subject.canary.parent.stat().st_mode & 0o777 == 0o700
