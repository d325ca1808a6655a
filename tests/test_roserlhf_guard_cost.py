"""`benchmarks/guard.py` measures what it says, and holds it against its targets."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture(scope="module")
def cost() -> Iterator[ModuleType]:
    """`benchmarks/guard.py`; its name and those of its neighbours are taken nowhere else."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCHMARKS)
        yield importlib.import_module("guard")
    for name in [name for name, module in sys.modules.items() if str(getattr(module, "__file__", "")).startswith(str(BENCHMARKS))]:
        del sys.modules[name]


def test_dense_calls_have_ten_kilobytes(cost: ModuleType) -> None:
    for tool, arguments, _, _ in cost.long_calls():
        longest = max(map(len, arguments.values()))
        assert 9_990 <= longest < 12_000, tool


def test_every_number_is_told_and_a_target_that_is_missed_is_the_exit_code(
    cost: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = cost.corpus_calls("development")[:5]
    monkeypatch.setattr(cost, "corpus_calls", lambda name: few)
    monkeypatch.setattr(cost, "long_calls", lambda: iter(few))
    out = tmp_path / "cost.json"
    for target, code in ((1e9, 0), (0.0, 1)):
        monkeypatch.setattr(cost, "TARGETS", {("ordinary", "median_ms"): target})
        assert cost.main(["--repeat", "1", "--steps", "0", "--json", str(out)]) == code
        rows = json.loads(out.read_text(encoding="utf-8"))
        assert rows["ordinary_median_ms"]["ok"] is (code == 0)
        assert rows["10_kB_p99_ms"] == {"value": rows["10_kB_p99_ms"]["value"], "target": None, "better": None, "ok": True}
        assert all(row["value"] >= 0 for row in rows.values())
