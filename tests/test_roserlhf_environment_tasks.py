"""Which tasks are trained on and which are held out, and environments found by name."""

from __future__ import annotations

import random
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from rosellm.roserlhf.environment.base import ToolEnvironment
from rosellm.roserlhf.environment.named import BUILT_IN, environment_class
from rosellm.roserlhf.environment.shop import Shop
from rosellm.roserlhf.environment.tasks import distinct, split_of, tasks
from rosellm.roserlhf.errors import ConfigError, RangeError
from rosellm.roserlhf.trainer.world import path_of

NAMES = "shop, arithmetic, kitchen, repair, bfcl, reasoning-gym:<dataset> or an import path module:Class"


class Small(ToolEnvironment):
    """`size` different tasks."""

    size = 500

    @classmethod
    def make_task(cls, rng: random.Random) -> dict[str, Any]:
        return {"n": rng.randrange(cls.size)}

    def prompt(self) -> str:
        return ""

    def score(self) -> dict[str, float | None]:
        return {"correct": 0.0}


def contents(environment: type[ToolEnvironment], split: Any, stream: str, count: int) -> set[str]:
    return {task.task_id for task in islice(tasks(environment, split, stream), count)}


def test_train_and_held_out_never_overlap_in_either_direction() -> None:
    # Small has 500 contents: 2 × 4000 draws see every one of the about 450 on the train side many times
    for environment, count in ((Shop, 1000), (Small, 4000)):
        trained = contents(environment, "train", "a", count) | contents(environment, "train", "b", count)
        held_out = contents(environment, "held_out", "a", count // 10) | contents(environment, "held_out", "b", count // 10)
        assert trained
        assert held_out
        assert not trained & held_out
    assert trained == {task.task_id for task in (Small.task_from({"n": n}) for n in range(500)) if split_of(task) == "train"}


def test_the_side_is_a_matter_of_content_alone() -> None:
    for seed in range(200):
        payload = Shop.make_task(random.Random(seed))
        again = dict(reversed(payload.items()))
        assert split_of(Shop.task_from(payload)) == split_of(Shop.task_from(again))


def test_about_a_tenth_is_held_out() -> None:
    held_out = sum(split_of(Small.task_from({"n": n})) == "held_out" for n in range(5000))
    # binomial: 500 ± 21; five deviations
    assert 395 < held_out < 605


def test_the_order_depends_on_the_stream_alone() -> None:
    def ids(stream: str) -> list[str]:
        return [task.task_id for task in islice(tasks(Shop, "train", stream), 20)]

    assert ids("0/train/1") == ids("0/train/1")
    assert not {*ids("0/train/1")} & {*ids("0/train/2")}


def test_distinct_tasks_are_the_first_of_the_stream() -> None:
    found = distinct(tasks(Shop, "held_out", "x"), 100)
    assert len({task.task_id for task in found}) == 100
    assert [task.task_id for task in found[:10]] == [task.task_id for task in islice(tasks(Shop, "held_out", "x"), 10)]
    assert distinct(tasks(Shop, "held_out", "x"), 40) == found[:40]


def test_a_small_space_of_tasks_is_found_whole_and_the_search_ends() -> None:
    everything = {task.task_id for task in (Small.task_from({"n": n}) for n in range(500)) if split_of(task) == "held_out"}
    assert 25 < len(everything) < 80
    assert {task.task_id for task in distinct(tasks(Small, "held_out", "x"), 1024)} == everything


def test_a_side_without_tasks_is_an_error_and_no_endless_search() -> None:
    class Single(Small):
        size = 1

    (only,) = {split_of(Single.task_from({"n": 0}))}
    other: Any = "train" if only == "held_out" else "held_out"
    with pytest.raises(
        RangeError, match=rf"environment must draw {other} tasks, got none in 10000 draws of Single; make_task needs"
    ):
        next(tasks(Single, other, "x"))
    assert len(distinct(tasks(Single, only, "x"), 5)) == 1


def test_environments_are_found_by_name_or_path() -> None:
    assert environment_class("shop") is Shop
    assert environment_class("rosellm.roserlhf.environment.shop:Shop") is Shop
    assert all(path_of(environment_class(name)) == name for name in (*BUILT_IN, "reasoning-gym:lcm"))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "shopp",
            f"environment must be one of {NAMES}, got 'shopp'; did you mean shop?",
        ),
        (
            "quantum",
            f"environment must be one of {NAMES}, got 'quantum'",
        ),
        (
            "",
            f"environment must be one of {NAMES}, got ''",
        ),
        (
            ":Shop",
            f"environment must be one of {NAMES}, got ':Shop'; did you mean shop?",
        ),
        (
            "rosellm:",
            f"environment must be one of {NAMES}, got 'rosellm:'",
        ),
        (
            "nowhere:Shop",
            "environment must be importable, got 'nowhere:Shop': ModuleNotFoundError: No module named 'nowhere'; "
            "call from the folder that holds it, or name that folder in PYTHONPATH",
        ),
        (
            "rosellm.roserlhf.environment.shop:Shopp",
            "environment must be importable, got 'rosellm.roserlhf.environment.shop:Shopp': "
            "AttributeError: module 'rosellm.roserlhf.environment.shop' has no attribute 'Shopp'",
        ),
        ("json:dumps", "environment must be a subclass of ToolEnvironment, got 'json:dumps'"),
        (
            "rosellm.roserlhf.environment.base:ToolEnvironment",
            "environment must define make_task, prompt, score, got 'rosellm.roserlhf.environment.base:ToolEnvironment' without",
        ),
    ],
)
def test_what_is_no_environment_is_refused_in_one_line(name: str, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        environment_class(name)
    assert str(raised.value) == message


def test_a_module_that_breaks_when_imported_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_world.py").write_text("1 / 0\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match=r"got 'broken_world:World': ZeroDivisionError: division by zero"):
        environment_class("broken_world:World")
    assert "broken_world" not in sys.modules
