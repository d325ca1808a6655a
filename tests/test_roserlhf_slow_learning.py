"""The main job: with nothing but its defaults, `shop` is learnt from half-failing demonstrations, whatever the seed."""

from __future__ import annotations

from pathlib import Path

import pytest
from loop_worlds import lines

from rosellm.roserlhf import recipes
from rosellm.roserlhf.store.events import EventLog
from rosellm.roserlhf.store.ledger import Ledger
from rosellm.roserlhf.trainer.run import train


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_shop_reaches_its_level(tmp_path: Path, seed: int) -> None:
    run = train(recipes.grpo(seed=seed), out=tmp_path / "run")
    assert run.summary is not None
    before, after = run.summary["success_before"], run.summary["success_after"]
    assert after["n"] >= 1000
    assert before["sampled"] <= 0.50  # cloning alone does not solve it
    assert after["sampled"] >= 0.95
    assert after["greedy"] >= 0.95
    assert run.summary["peak_rss_bytes"] < 2 * 2**30
    steps = [line for line in lines(run.folder) if line["phase"] == "train"]
    assert all(line["max_abs_log_ratio_before_update"] < 1e-4 for line in steps if line["updates"]["made"])
    with EventLog.read(run.folder / "events.db") as log:
        Ledger(log.ledger()).balance(recorded=log.sampled_tokens(phase="train"))
