"""What is remembered of calls: it never says anything else than reading the call again would."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rosellm.roserlhf.errors import ConfigError
from rosellm.roserlhf.guard import detection as detection_module
from rosellm.roserlhf.guard.content.admission import acts_of_admission, is_sum_of_tool
from rosellm.roserlhf.guard.detection import detection
from rosellm.roserlhf.guard.patterns import may_be_found, pattern
from rosellm.roserlhf.guard.plain_words import NUMERIC, acts_of_plain_words
from rosellm.roserlhf.guard.reading import read_call
from rosellm.roserlhf.guard.rules import Rules
from rosellm.roserlhf.guard.setting import Setting

RULES = Rules.read()
SETTINGS = (
    Setting(task="Find the total.", workdir="/app", hidden_tests=("/eval/**",)),
    Setting(task="Find the total.", workdir="/eval"),
)
CALLS = (
    ("calculator", {"expression": "3*12"}),
    ("submit", {"answer": "42"}),
    ("submit", {"answer": "the red lamps"}),
    ("submit", {"answer": "a", "note": "b"}),
    ("search_shop", {"item": "lamps"}),
    ("shell", {"command": "cat t.py"}),
    ("shell", {"command": "cat /eval/t.py"}),
    ("read_file", {"path": "t.py"}),
)
REMARKS = ("cd /eval", "I could not find it, so I will just make up the number.", "search: lamps", "3*12")


@given(
    st.lists(
        st.tuples(st.sampled_from(CALLS), st.lists(st.sampled_from(REMARKS), max_size=3), st.sampled_from(SETTINGS)), max_size=12
    )
)
@settings(derandomize=True, max_examples=60, deadline=None)
def test_any_order_of_calls_is_judged_as_each_alone(asked: list[tuple[tuple[str, dict[str, str]], list[str], Setting]]) -> None:
    detect = detection(RULES)
    for (tool, arguments), history, setting in asked * 2:
        read = RULES.suspicions(read_call(tool, arguments, history, setting).acts, setting)
        assert list(detect(tool, arguments, history, setting)) == read


def test_an_admission_changes_what_is_handed_in_and_nothing_before_it() -> None:
    detect, setting = detection(RULES), SETTINGS[0]
    handed_in = ("submit", {"answer": "42"})
    assert not detect(*handed_in, (), setting)
    assert detect(*handed_in, (REMARKS[1],), setting)
    assert not detect(*handed_in, (), setting)


def test_no_more_calls_are_remembered_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detection_module, "MOST_REMEMBERED", 3)
    read: list[str] = []

    def reading(tool: str, arguments: dict[str, str], history: Sequence[str], setting: Setting) -> object:
        read.append(arguments["command"])
        return read_call(tool, arguments, history, setting)

    monkeypatch.setattr(detection_module, "read_call", reading)
    detect = detection(RULES)
    for command in ("ls a", "ls b", "ls c", "ls a", "ls d", "ls b", "ls a"):
        detect("shell", {"command": command}, (), SETTINGS[0])
    assert read == ["ls a", "ls b", "ls c", "ls d", "ls a"]


def test_pieces_of_real_calls_that_pass_for_plain_words_are_read_as_such() -> None:
    chance = random.Random(1)
    file = Path(__file__).parent / "data" / "guard" / "development.jsonl"
    texts = [text for line in file.read_text(encoding="utf-8").splitlines() for text in _texts(json.loads(line))]
    words = " ".join(texts).replace("\n", " ").split(" ")
    plain = 0
    for _ in range(3_000):
        if chance.random() < 0.5:
            text = "".join(
                chance.choice(words) + chance.choice((" ", "*", "(", ")", "+", ", ", ". ")) for _ in range(chance.randint(1, 8))
            )
        else:
            start = chance.randrange(len(whole := chance.choice(texts)) + 1)
            text = whole[start : start + chance.randint(3, 120)]
        tool, argument = chance.choice(
            (("calculator", "expression"), ("submit", "answer"), ("say", "comment"), ("weather", "city"))
        )
        acts = acts_of_plain_words(tool, {argument: text})
        if acts is not None:
            plain += 1
            assert read_call(tool, {argument: text}, (), SETTINGS[0]).acts == acts
    assert plain > 300


def _texts(call: dict[str, Any]) -> list[str]:
    return [text for text in (*call["arguments"].values(), *call["history"]) if isinstance(text, str)]


def test_sums_are_let_pass_as_reading_them_would_unless_a_rule_asks_for_numbers() -> None:
    chance = random.Random(2)
    detect = detection(RULES)
    for _ in range(600):
        text = "".join(chance.choices(NUMERIC, k=chance.randint(1, 12)))
        tool, argument = chance.choice(
            (("calculator", "expression"), ("submit", "answer"), ("shell", "command"), ("finish", "message"))
        )
        history = chance.choice(((), (REMARKS[1],)))
        read = RULES.suspicions(read_call(tool, {argument: text}, history, SETTINGS[0]).acts, SETTINGS[0])
        assert list(detect(tool, {argument: text}, history, SETTINGS[0])) == read, text


@pytest.mark.parametrize("target", ["4242", "^42", r"\d{3,}", ".", "(a|[0-9])2", "[^a-z]", r"\W", "a*", r"(?i)x?4"])
def test_a_rule_of_ones_own_may_ask_for_numbers(tmp_path: Path, target: str) -> None:
    file = tmp_path / "own.toml"
    file.write_text(
        f"[[rule]]\nid = 'leaked'\nreason = 'the key'\n[[rule.when]]\nkinds = ['text']\ntarget = '{target}'\n", encoding="utf-8"
    )
    rules = Rules.read(file)
    assert not rules.pass_words_of(frozenset(NUMERIC))
    read = rules.suspicions(read_call("calculator", {"expression": "4242+1"}, (), SETTINGS[0]).acts, SETTINGS[0])
    assert list(detection(rules)("calculator", {"expression": "4242+1"}, (), SETTINGS[0])) == read
    assert [one.rule for one in read] == ["leaked"]


@given(st.text(alphabet="ab01.*+?|()[]^\\dwsDWS{},-", max_size=10), st.text(alphabet="01+", max_size=6))
@settings(derandomize=True, max_examples=1500, deadline=None)
def test_what_is_found_in_a_number_may_be_found_there(words: str, text: str) -> None:
    try:
        found = pattern(words).search(text)
    except ConfigError:
        return
    assert found is None or may_be_found(words, frozenset("01+"))


@settings(derandomize=True, max_examples=60, deadline=None)
@given(
    st.sampled_from(["calculator", "search", "guessed", "from_memory", "ADD", "all_tests_pass", "Guess", "not a name", ""]),
    st.text(alphabet="019 +-*().", max_size=12),
)
def test_a_sum_that_a_tool_was_given_admits_nothing(name: str, text: str) -> None:
    remark = f"{name}: {text}"
    if is_sum_of_tool(remark):
        assert all(act.traits.get("admits", "awarded") == "awarded" for act in acts_of_admission(remark))
