"""Likeness to labelled calls: by its formula, by the calls that come with the package, and by what it was fitted with."""

import importlib.util
import json
import math
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rosellm.roserlhf.guard.precedents import Precedents, builtin, likeness
from rosellm.roserlhf.guard.resemblance import Features
from rosellm.roserlhf.guard.setting import Setting
from rosellm.roserlhf.guard.verdict import Case

ROOT = Path(__file__).parents[1]
WORDS = "abcdef"
NAMES = [*(f"u:{word}" for word in WORDS), *(f"b:{one} {two}" for one in WORDS for two in WORDS), "h:a", "s:task:1"]


@pytest.fixture(scope="module")
def fitting() -> Iterator[ModuleType]:
    """`benchmarks/guard_resemblance.py`, which fits the weights."""
    spec = importlib.util.spec_from_file_location("benchmarks_guard_resemblance", ROOT / "benchmarks" / "guard_resemblance.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@st.composite
def some(draw: st.DrawFn) -> Precedents:
    """Draw labelled calls."""
    size = len(NAMES)
    squared = np.array([not name.startswith("b:") for name in NAMES])
    squared[draw(st.integers(0, len(WORDS) - 1))] = False  # too common
    calls = [sorted(row) for row in draw(st.lists(st.sets(st.sampled_from(np.flatnonzero(squared).tolist())), max_size=6))]
    numbers = st.floats(-2, 2)
    return Precedents(
        [f"call-{number}" for number in range(len(calls))],
        NAMES,
        np.array(draw(st.lists(st.floats(0.5, 8), min_size=size, max_size=size))),
        np.array(draw(st.lists(numbers, min_size=size, max_size=size))),
        draw(numbers),
        np.array(draw(st.lists(numbers, min_size=len(calls), max_size=len(calls)))),
        np.cumsum([0, *map(len, calls)]),
        np.array([place for call in calls for place in call], dtype=np.int64),
        squared,
    )


@given(some(), st.lists(st.sampled_from([*WORDS, "unknown"]), min_size=1, max_size=8), st.sets(st.sampled_from("ab")))
def test_the_score_is_the_formula(known: Precedents, tokens: list[str], heard: set[str]) -> None:
    found = known.likeness(Features(tokens, heard, {"s:task:1"}))
    names = {f"u:{one}" for one in tokens} | {f"b:{one} {two}" for one, two in pairwise(tokens)}
    if not names & set(NAMES):
        assert found is None
        return
    every = [place for place, name in enumerate(NAMES) if name in names | {f"h:{one}" for one in heard} | {"s:task:1"}]
    length = math.sqrt(sum(known.rarity[place] ** 2 for place in every))
    score = known.bias + sum(known.weights[place] * known.rarity[place] / length for place in every)
    mine = [place for place in every if known.squared[place]]
    length = math.sqrt(sum(known.rarity[place] ** 2 for place in mine))
    adds = {}
    for call, name in enumerate(known.names):
        held = known.held[known.starts[call] : known.starts[call + 1]].tolist()
        both = sum(known.rarity[place] ** 2 for place in mine if place in held)
        size = math.sqrt(sum(known.rarity[place] ** 2 for place in held))
        adds[name] = known.alphas[call] * (both / (length * size)) ** 2 if both else 0.0
    assert found is not None
    assert found.score == pytest.approx(score + sum(adds.values()), abs=1e-5)
    least = min((adds[name] for name in found.attempts), default=math.inf)
    assert all(adds[name] > 0 for name in found.attempts)
    assert all(value <= least + 1e-9 for name, value in adds.items() if name not in found.attempts and value > 0)
    assert len(found.attempts) == min(3, sum(value > 0 for value in adds.values()))


def test_a_call_of_too_few_known_words_is_like_nothing() -> None:
    setting = Setting(task="Mend the parser.", workdir="/app")
    assert likeness(Case("shell", {"command": "ls"}, (), (), setting)) is None
    said = likeness(Case("shell", {"command": "cat /eval/hidden/test_app.py; python -m pytest -q tests"}, (), (), setting))
    assert said is not None


def test_the_calls_in_the_package_are_labelled_ones_and_none_is_held_out() -> None:
    known = builtin()
    folder = ROOT / "tests" / "data" / "guard"
    ids: dict[str, set[str]] = {}
    for file in folder.glob("*.jsonl"):
        ids[file.stem] = {json.loads(line)["id"] for line in file.read_text(encoding="utf-8").splitlines() if line.strip()}
    kept_apart = {name for name in ids if name.endswith("_held_out") and name != "second_held_out"}
    assert len(kept_apart) == 7
    fitted = set().union(*(ids[name] for name in ids if name not in kept_apart))
    named = {name for name in known.names if not name.startswith("ordinary-")}
    assert named <= fitted
    assert not named & set().union(*(ids[name] - fitted for name in kept_apart))
    assert len(known.starts) == len(known.names) + 1 == len(known.alphas) + 1
    assert len(known.features) == len(known.weights) == len(known.rarity) < 2**16
    assert known.starts[-1] == len(known.held)
    steps = np.diff(known.held)
    steps[known.starts[1:-1] - 1] = 1  # from one call to the next
    assert (steps > 0).all()


def test_the_machine_separates_what_can_be_separated(fitting: ModuleType) -> None:
    products = np.array([[1.0, 0.5], [0.5, 1.0]], dtype=np.float32)
    alphas, bias = fitting.machine(products, np.array([True, False]))
    assert alphas.tolist() == pytest.approx([1.0, -1.0])  # the most: each alone would need 1 / (1 - 0.5) = 2
    assert bias == pytest.approx(0.0)


@pytest.mark.parametrize("seed", range(20))
def test_the_machine_meets_the_conditions_of_an_optimum(fitting: ModuleType, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, hacks = rng.normal(size=(30, 8)), rng.random(30) < 0.5
    products = (rows @ rows.T / 8 + 0.5 * np.eye(30)).astype(np.float32)
    alphas, bias = fitting.machine(products, hacks)
    margins, weights = np.where(hacks, 1.0, -1.0) * (products @ alphas + bias), np.abs(alphas)
    assert bias == pytest.approx(alphas.sum(), abs=1e-6)
    assert (margins[weights < 1e-6] > 0.99).all()  # what weighs nothing lies beyond the margin
    assert (margins[weights > 1 - 1e-6] < 1.01).all()  # what weighs the most lies within
    free = margins[(weights > 1e-6) & (weights < 1 - 1e-6)]
    assert free == pytest.approx(np.ones(len(free)), abs=0.01)
