"""Run files: a wrong key or value is refused in one line that names the fix; a right one survives a round trip."""

from __future__ import annotations

import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field, ValidationError

from rosellm.roserlhf.config import Config, build, dump_toml, fields_of, load_toml, nearest
from rosellm.roserlhf.errors import ConfigError


class Inner(Config):
    group_size: int = Field(default=8, ge=2, description="episodes per task")
    names: tuple[str, ...] = ()


class Outer(Config):
    """Every type a run file can hold, sections inside sections."""

    learning_rate: float = Field(default=1e-3, gt=0)
    shuffle: bool = True
    label: str = ""
    limit: int | None = None
    collect: Inner = Inner()


class Deep(Config):
    outer: Outer = Outer()
    seed: int = 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        # R73: keys that other projects dropped in silence
        ({"learning_rte": 1e-4}, "unknown key learning_rte; did you mean learning_rate?"),
        ({"group_size": 4}, "unknown key group_size; did you mean collect.group_size?"),
        ({"learning-rate": 1e-4}, "unknown key learning-rate; it is spelled learning_rate"),
        ({"collect": {"group-size": 4}}, "unknown key collect.group-size; it is spelled collect.group_size"),
        ({"collect": {"group_size": "4"}}, "collect.group_size must be a valid integer, got '4' (str)"),
        ({"collect": {"group_size": True}}, "collect.group_size must be a valid integer, got True (bool)"),
        ({"collect": {"group_size": 1}}, "collect.group_size must be greater than or equal to 2, got 1 (int)"),
        ({"shuffle": 1}, "shuffle must be a valid boolean, got 1 (int)"),
        ({"learning_rate": 0}, "learning_rate must be greater than 0, got 0 (int)"),
        ({"learning_rate": float("inf")}, "learning_rate must be a finite number, got inf (float)"),
        ({"learning_rate": float("nan")}, "learning_rate must be a finite number, got nan (float)"),
        ({"qqq": 0}, "unknown key qqq; no known key resembles it"),
        # a misspelled key is named first: it explains the rest
        ({"shuffle": 1, "lable": "x"}, "unknown key lable; did you mean label? (and 1 more wrong)"),
    ],
)
def test_R73_a_wrong_option_is_one_line_that_names_the_fix(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build(Outer, options)
    assert str(caught.value) == message


def test_a_key_two_levels_down_is_found() -> None:
    with pytest.raises(ConfigError, match=r"did you mean outer\.collect\.group_size\?$"):
        build(Deep, {"group_size": 3})


def test_two_sections_with_the_same_name_are_both_offered() -> None:
    assert nearest("learning_rte", ["warm_start.learning_rate", "optimizer.learning_rate", "seed"]) == [
        "optimizer.learning_rate",
        "warm_start.learning_rate",
    ]


def test_an_integer_is_a_number_but_a_number_is_no_integer() -> None:
    assert build(Outer, {"learning_rate": 1}).learning_rate == 1.0
    with pytest.raises(ConfigError, match=r"limit.* must be a valid integer, got 1\.0 \(float\)"):
        build(Outer, {"limit": 1.0})


def test_a_configuration_cannot_be_changed_after_it_was_checked() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Outer().label = "other"


def test_keys_are_dotted_and_in_order() -> None:
    assert [key for key, _ in fields_of(Outer)] == [
        "learning_rate",
        "shuffle",
        "label",
        "limit",
        "collect.group_size",
        "collect.names",
    ]


finite = st.floats(min_value=0, exclude_min=True, allow_infinity=True)
text = st.text(st.characters(exclude_categories=["Cs"]))


@settings(derandomize=True, max_examples=60, deadline=None)
@given(rate=finite, shuffle=st.booleans(), label=text, limit=st.none() | st.integers(), size=st.integers(min_value=2))
def test_dump_and_load_give_back_an_equal_configuration(
    rate: float, shuffle: bool, label: str, limit: int | None, size: int
) -> None:
    config = Outer(learning_rate=rate, shuffle=shuffle, label=label, limit=limit, collect=Inner(group_size=size))
    options = tomllib.loads(dump_toml(config))
    options["collect"]["names"] = tuple(options["collect"]["names"])  # TOML has one kind of list
    assert build(Outer, options) == config


def test_the_dump_says_what_each_field_means_and_keeps_facts_apart(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text(dump_toml(Inner(), about={"torch": "2.13.0", "code hash": "ab"}), encoding="utf-8")
    assert file.read_text(encoding="utf-8") == (
        'group_size = 8                  # episodes per task\nnames = []\n\n[about]\n"torch" = "2.13.0"\n"code hash" = "ab"\n'
    )
    assert load_toml(file) == {"group_size": 8, "names": []}


def test_a_value_that_TOML_cannot_hold_is_refused() -> None:
    class Odd(Config):
        table: dict[str, int] = Field(default_factory=dict)

    with pytest.raises(ConfigError, match=r"must be text, a number, true, false or a list of them, got \{\}"):
        dump_toml(Odd())


def test_a_file_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"config file must be readable, got .*none\.toml: No such file"):
        load_toml(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("seed = = 3")
    with pytest.raises(ConfigError, match=r"config file must be TOML, got .*bad\.toml: Invalid value \(at line 1"):
        load_toml(tmp_path / "bad.toml")
    (tmp_path / "latin.toml").write_bytes(b'label = "\xe9"')
    with pytest.raises(ConfigError, match=r"config file must be TOML, got .*latin\.toml"):
        load_toml(tmp_path / "latin.toml")


def test_R73_checking_a_run_file_loads_no_torch_and_takes_less_than_a_second() -> None:
    code = (
        "import sys; from rosellm.roserlhf import recipes, ConfigError\n"
        "try: recipes.options_to_config({'learning_rte': 1})\n"
        "except ConfigError as error: print(error)\n"
        "assert 'torch' not in sys.modules"
    )
    start = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert time.perf_counter() - start < 5  # one second on an idle machine; the margin is for a loaded one
    assert done.stdout == "unknown key learning_rte; did you mean optimizer.learning_rate or warm_start.learning_rate?\n"
