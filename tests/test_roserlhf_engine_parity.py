"""SmolLM2, sampled by the engine and read again by the learner: one policy, to 1e-4 in log-probability."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from pretrained_models import smollm2

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture(scope="module")
def parity() -> Iterator[ModuleType]:
    """`benchmarks/parity.py`, which makes the published table."""
    before = torch.get_num_threads()
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCHMARKS)
        torch.set_num_threads(1)
        yield importlib.import_module("parity")
    torch.set_num_threads(before)
    del sys.modules["parity"]


def compared(parity: ModuleType, name: str, **sizes: int) -> dict[str, dict[str, Any]]:
    (condition,) = [one for one in parity.CONDITIONS if one.name == name]
    found: dict[str, dict[str, Any]] = parity.measure(smollm2(), condition, **sizes)
    return found


def test_64_episodes_have_the_log_probabilities_that_they_were_sampled_with(parity: ModuleType) -> None:
    found = compared(parity, "float32, T = 0.7, top-k 50, top-p 0.95", episodes=64, turn_tokens=4)
    (row,) = found.values()
    assert row["tokens"] > 400
    assert row["max"] < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("index", range(10))
def test_every_condition_of_the_published_table(parity: ModuleType, index: int) -> None:
    assert len(parity.CONDITIONS) == 10
    found = compared(parity, parity.CONDITIONS[index].name, episodes=64, turn_tokens=24)
    for name, row in found.items():
        assert row["ok"], (name, row)
        assert row["median"] < 0.1, (name, row)  # coarse weights are the same policy roughly
