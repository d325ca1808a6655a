"""What must stand in a text for a pattern to be found there, and readers that are not asked where it does not."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rosellm.roserlhf.guard.content import learning, silenced, spoken, unpaid
from rosellm.roserlhf.guard.content.spoken import acts_of_words
from rosellm.roserlhf.guard.hints import FirstLook
from rosellm.roserlhf.guard.needed import needed
from rosellm.roserlhf.guard.patterns import alternatives, pattern

DATA = Path(__file__).parent / "data" / "guard"


def looks() -> list[FirstLook]:
    return [spoken._look(), learning._LOOK, unpaid._GIVEN, silenced._marked()]


def known() -> list[tuple[FirstLook, int, str]]:
    return [(look, reader, one) for look in looks() for reader, words in look._needs.items() for one in words]


@pytest.fixture(scope="module")
def texts() -> list[str]:
    found: list[str] = []
    for file in sorted(DATA.glob("*.jsonl")):
        for line in file.read_text("utf-8").splitlines():
            arguments: Any = json.loads(line).get("arguments")
            found += [one for one in arguments.values() if isinstance(one, str)] if isinstance(arguments, dict) else []
    assert len(found) > 3_000
    return found


@pytest.mark.parametrize("words", dict.fromkeys(one for _, _, one in known()))
def test_every_pattern_needs_something(words: str) -> None:
    assert needed(words)


@settings(derandomize=True, max_examples=600, deadline=None)
@given(st.data())
def test_where_a_pattern_is_found_its_reader_is_asked(data: st.DataObject) -> None:
    look, reader, words = data.draw(st.sampled_from(known()))
    text = data.draw(st.from_regex(re.compile(words, re.ASCII)))
    assert not _found(words, text) or look.held(text) & reader


def test_where_a_pattern_is_found_in_a_text_that_was_seen_its_reader_is_asked(texts: list[str]) -> None:
    some = [text[:2_000] for text in texts[::40]]
    for look, reader, words in known():
        for text in some:
            assert not _found(words, text) or look.held(text) & reader, (words, text)


def _found(words: str, text: str) -> bool:
    return pattern(words).search(text) is not None


PARTS = st.recursive(
    st.sampled_from(
        ["a", "ab", "K", "be", " ", r"\b", r"\.", "^", r"\^", "$", "[ab]", r"\d", ".", "s", "(?:)", "[^b]", "é", r"[b-d]"]
    ),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=4).map("".join),
        st.lists(inner, min_size=1, max_size=3).map(lambda words: f"(?:{'|'.join(words)})"),
        st.tuples(inner, st.sampled_from(["?", "*", "+", "{2}", "{1,3}", "{0,2}", "+?", "??"])).map(
            lambda one: f"(?:{one[0]}){one[1]}"
        ),
        inner.map(lambda one: f"({one})"),
    ),
    max_leaves=8,
)


@settings(derandomize=True, max_examples=600, deadline=None)
@given(PARTS, st.booleans(), st.data())
def test_what_is_needed_stands_wherever_a_pattern_is_found(words: str, small: bool, data: st.DataObject) -> None:
    words = f"(?i){words}" if small else words
    needs = needed(words)
    if needs is None:
        return
    text = data.draw(st.one_of(st.from_regex(re.compile(words, re.ASCII)), st.text("abKsékſ ^.")))
    assert not _found(words, text) or _found(f"(?i){alternatives(needs)}", text)


class _Everybody:
    def held(self, text: str) -> int:
        return spoken._ALL


def both(monkeypatch: pytest.MonkeyPatch, text: str, is_code: bool, before: str = "") -> Iterator[list[Any]]:
    yield list(acts_of_words(text, is_code, False, before))
    with monkeypatch.context() as changed:
        changed.setattr(spoken, "_look", _Everybody)
        yield list(acts_of_words(text, is_code, False, before))


def test_readers_that_are_not_asked_would_find_nothing(monkeypatch: pytest.MonkeyPatch, texts: list[str]) -> None:
    for place, text in enumerate(texts[::7]):
        asked, all_asked = both(monkeypatch, text, bool(place % 2), texts[place] if place % 3 == 0 else "")
        assert asked == all_asked, text


@pytest.mark.parametrize("length", [19_995, 20_000, 20_005, 40_000, 60_000])
def test_words_at_the_end_of_what_readers_look_at(monkeypatch: pytest.MonkeyPatch, length: int) -> None:
    for end in ("# recalled official key for this contest", "seed\nfor s in range(9): best = p < best", "double acc -> float acc"):
        for rest in ("", "x" * 30, " x"):
            text = ("x = 1\n" * (length // 6 + 1))[: length - len(end)] + end + rest
            asked, all_asked = both(monkeypatch, text, True)
            assert asked == all_asked
