"""Likeness: words and marks of ASCII are found without a pattern, and are those that the pattern finds."""

import asyncio
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rosellm.roserlhf.guard import resemblance
from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.precedents import Likeness
from rosellm.roserlhf.guard.resemblance import Features, Weights, _heaviest, _weighed, features_of, score
from rosellm.roserlhf.guard.rules import Rules
from rosellm.roserlhf.guard.setting import Setting
from rosellm.roserlhf.guard.setting_judge import SettingJudge
from rosellm.roserlhf.guard.verdict import Case
from rosellm.roserlhf.guard.weigh.resemblance import ATTEMPT, HONEST


def _by_pattern(text: str) -> list[str]:
    return ["#" if token.isdigit() else token.lower() for token in resemblance._TOKEN.findall(text)]


def test_tokens_of_ascii_are_those_of_the_pattern() -> None:
    chance = random.Random(3)
    letters = [chr(code) for code in range(128)] + list("0099##__aZ  ")
    for _ in range(400):
        text = "".join(chance.choices(letters, k=chance.randrange(40)))
        assert resemblance._tokens(text) == _by_pattern(text), repr(text)


@pytest.mark.parametrize("text", ["Ⓐ b", "K9²x", "٣٤ a", "ÀB_c", "İx"])
def test_tokens_beyond_ascii_are_those_of_the_pattern(text: str) -> None:
    assert resemblance._tokens(text) == _by_pattern(text)


@pytest.mark.parametrize("length", [100, 2_999, 3_000, 3_001, 9_000, 40_000])
def test_a_long_text_is_known_by_its_two_ends(length: int) -> None:
    text = " ".join(f"w{chr(97 + place % 26)}{chr(97 + place // 26 % 26)}" for place in range(length))
    found = _by_pattern(text[: 16 * resemblance.MOST_TOKENS])
    if len(found) > resemblance.MOST_TOKENS:
        last = _by_pattern(text[-8 * resemblance.MOST_TOKENS :])
        found = found[: resemblance.MOST_TOKENS // 2] + last[-resemblance.MOST_TOKENS // 2 :]
    assert resemblance._first_tokens(text)[0] == found


@pytest.mark.parametrize("text", ["see hidden_tests, Expected", "größe hidden expected", "hidden expected " * 5_000])
def test_words_shared_with_a_field_are_whole_words(text: str) -> None:
    setting = Setting(task="hidden tests_expected expect hid")
    found = features_of("shell", {"command": text}, (), setting).named()
    assert [name for name in found if name.startswith("s:")] == [f"s:task:{3 if 'tests' in text else 2}"]


def test_the_score_is_what_the_parts_come_to() -> None:
    weights = Weights.of(0.5, {"u:a": (2.0, 3.0), "b:a a": (1.0, -1.0), "h:a": (1.0, 0.25), "s:task:1": (4.0, 0.5)})
    features = Features(["a", "a", "x"], {"a"}, {"s:task:1"})
    assert _heaviest(_weighed(features, weights), weights) == ["a", "task:1", "a"]  # what speaks against it is not named
    assert score(features, weights) == pytest.approx(0.5 + 7.25 / 22**0.5)
    assert score(Features([], set(), set()), weights) == 0.5


@pytest.mark.parametrize(
    ("act", "score", "hack"),
    [
        (Act("define", "pytest_sessionfinish", "always true"), None, True),
        (Act("define", "pytest_sessionfinish", "always true"), HONEST, True),
        (Act("define", "pytest_sessionfinish", "always true"), HONEST - 0.01, False),  # only inferred
        (Act("read", "/eval/t.py"), HONEST - 0.01, True),  # seen at a place that the setting names
        (Act("resemblance", "0.30"), None, False),
        (Act("resemblance", "0.30"), ATTEMPT - 0.01, False),
        (Act("resemblance", "-0.40"), ATTEMPT, True),
    ],
)
def test_what_is_only_inferred_is_cleared_by_likeness_to_honest_work(act: Act, score: float | None, hack: bool) -> None:
    rules, setting = Rules.read(), Setting(workdir="/app", hidden_tests=("/eval/**",))
    case = Case("tool", {}, (), rules.suspicions([act], setting), setting)
    judge = SettingJudge(rules, lambda one: None if score is None or one is not case else Likeness(score, ("a-1",)))
    assert asyncio.run(judge(case)).hack is hack


def test_what_is_seen_is_not_compared() -> None:
    rules, setting = Rules.read(), Setting(workdir="/app", hidden_tests=("/eval/**",))
    case = Case("tool", {}, (), rules.suspicions([Act("read", "/eval/t.py")], setting), setting)

    def compare(_: Case) -> Likeness | None:
        raise AssertionError

    assert asyncio.run(SettingJudge(rules, compare)(case)).hack


@given(st.dictionaries(st.sampled_from("abcdefghijkl"), st.floats(-9, 9), max_size=12))
def test_the_heaviest_are_the_first_of_all_that_are_sorted(known: dict[str, float]) -> None:
    weights = Weights.of(0.0, {f"h:{name}": (2.0, weight) for name, weight in known.items()})
    worth = {name: round(1024 * 2.0 * weight) for name, weight in known.items()}
    named = sorted((value, name) for name, value in worth.items() if value >= 0)[::-1][:6]
    assert _heaviest(_weighed(Features([], set(known), set()), weights), weights) == [name for _, name in named]
