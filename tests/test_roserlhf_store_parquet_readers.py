"""Other programs read an export without our code, and count what we count; a long one is read in little memory."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from export_logs import episode

from rosellm.roserlhf.store import EventLog
from rosellm.roserlhf.store.export.parquet import export_parquet

Found = dict[int, tuple[float, float]]
"""By step: mean of the scored sums of rewards, mean behaviour log-probability of the sampled tokens."""


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Export two steps of two records each, one of them unscored."""
    folder = tmp_path_factory.mktemp("run")
    with EventLog.create(folder / "events.db") as log:
        for step, member, reward in ((0, 0, 1.0), (0, 1, None), (1, 0, 0.5), (1, 1, -2.0)):
            log.append_trajectory(episode(f"run/{step}/shop/{member}/0", step=step, reward=reward), step=step, phase="train")
        export_parquet(log, folder / "trajectories")
    return folder


def ours(folder: Path) -> Found:
    """Count from the records themselves."""
    found: Found = {}
    with EventLog.read(folder / "events.db") as log:
        for step in (0, 1):
            records = [stored.trajectory for stored in log.trajectories(step=step)]
            totals = [record.reward_totals() for record in records]
            rewards = [sum(total.values()) for total in totals if None not in total.values()]  # type: ignore[arg-type]
            logprobs = [value for record in records for action in record.actions for value in action.old_logprobs]
            found[step] = (float(np.mean(rewards)), float(np.mean(logprobs)))
    return found


def by_duckdb(path: Path) -> Found:
    """One query each, over the file as it lies."""
    duckdb = pytest.importorskip("duckdb")
    rewards = duckdb.sql(f"SELECT step, avg(reward_sum) FROM '{path}' GROUP BY step").fetchall()
    tokens = f"SELECT step, unnest(policy_mask) AS sampled, unnest(behaviour_logprobs) AS logprob FROM '{path}'"
    logprobs = duckdb.sql(f"SELECT step, avg(logprob) FROM ({tokens}) WHERE sampled GROUP BY step").fetchall()
    return {step: (reward, dict(logprobs)[step]) for step, reward in rewards}


def by_pandas(path: Path) -> Found:
    """Columns as numpy arrays of one row each."""
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_parquet(path)
    tokens = frame[["step", "policy_mask", "behaviour_logprobs"]].explode(["policy_mask", "behaviour_logprobs"])
    sampled = tokens.policy_mask.astype(bool)
    logprobs = tokens[sampled].behaviour_logprobs.astype(float).groupby(tokens[sampled].step).mean()
    return {int(step): (float(reward), float(logprobs[step])) for step, reward in frame.groupby("step").reward_sum.mean().items()}


def by_polars(path: Path) -> Found:
    """Lazily, so that only the columns that are named are read."""
    polars = pytest.importorskip("polars")
    rows = polars.scan_parquet(path)
    rewards = rows.group_by("step").agg(polars.col("reward_sum").mean())
    tokens = rows.select("step", "policy_mask", "behaviour_logprobs").explode("policy_mask", "behaviour_logprobs")
    logprobs = tokens.filter(polars.col("policy_mask")).group_by("step").agg(polars.col("behaviour_logprobs").mean())
    return {step: (reward, logprob) for step, reward, logprob in rewards.join(logprobs, on="step").collect().rows()}


def by_datasets(path: Path) -> Found:
    """As a data set, offline."""
    datasets = pytest.importorskip("datasets")
    rows = datasets.Dataset.from_parquet(str(path), cache_dir=str(path.parent / "cache"))
    assert rows.features["token_ids"].feature.dtype == "int64"
    found: Found = {}
    for step in (0, 1):
        chosen = [row for row in rows if row["step"] == step]
        rewards = [row["reward_sum"] for row in chosen if row["reward_sum"] is not None]
        pairs = [pair for row in chosen for pair in zip(row["policy_mask"], row["behaviour_logprobs"], strict=True)]
        found[step] = (float(np.mean(rewards)), float(np.mean([logprob for sampled, logprob in pairs if sampled])))
    return found


@pytest.mark.parametrize("count", [by_duckdb, by_pandas, by_polars, by_datasets])
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning")
def test_another_program_counts_what_we_count(
    exported: Path, count: Callable[[Path], Found], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    wanted = ours(exported)
    # step 0: 0.75 + 1.0, the other is unscored; step 1: (0.75 + 0.5 + 0.75 − 2.0) / 2; every record (0.5 + 0.25 + 1 + 0.125) / 5
    assert wanted == {0: (1.75, -0.375), 1: (0.0, -0.375)}
    found = count(exported / "trajectories" / "trajectories.parquet")
    assert {step: pytest.approx(means) for step, means in wanted.items()} == found


def test_the_glob_of_a_run_folder_finds_records_only(exported: Path) -> None:
    assert [path.name for path in (exported / "trajectories").glob("*.parquet")] == ["trajectories.parquet"]


@pytest.mark.slow
def test_scanning_two_hundred_million_tokens_takes_little_memory(tmp_path: Path) -> None:
    benchmarks = Path(__file__).parents[1] / "benchmarks"
    script = f"""
import json, sys
from pathlib import Path
sys.path[:0] = [{str(benchmarks.parent)!r}, {str(benchmarks)!r}]
import store_export
print(json.dumps(store_export.measure_scan(100_000, Path({str(tmp_path)!r}))))
"""
    ran = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert json.loads(ran.stdout.splitlines()[-1])["scan_peak_mb"] < 600
