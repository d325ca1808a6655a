"""The frozen baselines of the benchmarks compute what the library computes, on inputs small enough for every test run."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture(scope="module")
def kernels() -> Iterator[ModuleType]:
    """`benchmarks/kernels.py`; its neighbours are found only here, so that their names are taken nowhere else."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCHMARKS)
        yield importlib.import_module("kernels")
    for name in [name for name, module in sys.modules.items() if str(getattr(module, "__file__", "")).startswith(str(BENCHMARKS))]:
        del sys.modules[name]


@pytest.mark.parametrize("name", ["grouped", "gdpo", "gd2po", "gigpo", "tree"])
def test_group_loops_agree_with_the_library(kernels: ModuleType, name: str) -> None:
    groups = kernels.kernels_groups
    assert set(groups.METHODS) == {"grouped", "gdpo", "gd2po", "gigpo", "tree"}
    assert groups.difference(groups.METHODS[name], 240) < 1e-9
    assert groups.difference(groups.METHODS[name], 83) < 1e-9  # the last group is smaller


def test_a_group_of_one_gets_nothing_from_either_loop(kernels: ModuleType) -> None:
    loops = kernels.kernels_groups.loops
    rewards = torch.tensor([3.0, 1.0, 2.0])
    for loop in (loops.grouped_loop, loops.grouped_list_loop):
        # the pair 1, 2: half a unit off the mean, sample deviation sqrt(1/2)
        torch.testing.assert_close(loop(rewards, [7, 8, 8]), torch.tensor([0.0, -(0.5**0.5), 0.5**0.5]), rtol=1e-5, atol=0.0)


def test_the_loop_over_time_agrees_with_the_library(kernels: ModuleType) -> None:
    found = kernels.kernels_time.gae_of_size(3, 80, 0.0)
    assert found["gae_3x80_error"]["ok"]


def test_the_whole_table_of_logits_agrees_with_the_library(kernels: ModuleType) -> None:
    selected = kernels.kernels_selected
    hidden, weight, ids = torch.randn(6, 4), torch.randn(9, 4), torch.arange(6)
    wanted = selected.baseline(hidden, weight, ids)
    torch.testing.assert_close(selected.chosen(hidden, weight, ids), wanted)
    torch.testing.assert_close(selected.half_masked(hidden, weight, ids)[::2], wanted[::2])
    torch.testing.assert_close(selected.baseline_float64(hidden, weight, ids).float(), wanted)


def test_every_objective_of_the_benchmark_runs(kernels: ModuleType) -> None:
    compiled = kernels.kernels_compile
    current, calls = compiled.calls(2, 5)
    for call in calls.values():
        gradient = compiled.step(call, current)
        assert gradient.isfinite().all()
        assert torch.equal(gradient, compiled.unchecked(call, current))


def test_targets_are_judged_and_written(
    kernels: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    entry = kernels.kernels_groups.entry

    def some() -> object:
        return {"fast": entry(30.0, at_least=20.0), "slow": entry(2.0, at_most=1.5), "told": entry(7.0)}

    def other() -> object:
        raise AssertionError

    monkeypatch.setattr(kernels, "BENCHMARKS", [some, other])
    monkeypatch.setattr(torch, "set_num_threads", lambda _: None)
    assert kernels.main(["--only", "some", "--json", str(tmp_path / "found.json")]) == 1
    found = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))
    assert {name: result["ok"] for name, result in found.items()} == {"fast": True, "slow": False, "told": True}
    assert capsys.readouterr().out.splitlines()[-1] == "2 targets, missed: slow"
    assert not entry(float("nan"), at_most=1.0)["ok"]
