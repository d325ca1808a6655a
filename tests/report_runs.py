"""Synthetic run folders for the tests of the report: plausible numbers from a keyed stream, every file optional."""

from __future__ import annotations

import itertools
import json
import math
import random
from pathlib import Path
from typing import Any

Metrics = dict[str, Any]
CONFIG = """recipe = "grpo"
seed = 7

[objective]
clip_low = 0.2

[optimizer]
learning_rate = 7e-4
"""


def warm_start_row(step: int) -> Metrics:
    """One row of the warm start; success is measured every 25 steps."""
    measured = step % 25 == 24
    success = round(0.4 * (1 - math.exp(-step / 60)), 4) if measured else None
    return {
        "phase": "warm_start",
        "step": step,
        "loss": 3 * math.exp(-step / 40) + 0.35,
        "seconds": 0.22,
        "success": success,
        "n": 128 if measured else None,
    }


def train_row(step: int, steps: int, draw: random.Random) -> Metrics:
    """One row of training on 64 groups of 8."""
    success = round(512 * min(0.985, 0.42 + 0.56 * (1 - math.exp(-4 * step / steps)) + draw.gauss(0, 0.015))) / 512
    all_pass = round(64 * success**4)
    all_fail = min(64 - all_pass, round(64 * (1 - success) ** 3))
    mixed = 64 - all_pass - all_fail
    sampled = round(512 * (22 + draw.gauss(0, 0.4)))
    trained = sampled * mixed // 64
    edges = [round(0.5 + 0.05 * index, 2) for index in range(21)]
    spread = 0.004 + 0.05 * step / steps
    counts = [
        round(trained * math.exp(-((0.5 * (low + high) - 1) ** 2) / (2 * spread))) // 9 for low, high in itertools.pairwise(edges)
    ]
    truncated = round(30 * (1 - success))
    return {
        "phase": "train",
        "step": step,
        "version": f"v{step}",
        "rollouts": 512,
        "success": success,
        "reward": {
            "total": success + 0.1 - 0.02,
            "std": math.sqrt(success * (1 - success)),
            "correct": success,
            "format": 0.1,
            "cost": -0.02 - 0.01 * draw.random(),
        },
        "groups": {"total": 64, "all_fail": all_fail, "all_pass": all_pass, "mixed": mixed, "unscored": 0},
        "zero_variance_share": (all_pass + all_fail) / 64,
        "loss": draw.gauss(-0.003, 0.004),
        "gradient_norm": 0.4 + 0.2 * draw.random(),
        "learning_rate": 7e-4 * (1 - 0.9 * step / steps),
        "approximate_kl": 0.004 + 0.003 * draw.random(),
        "clip_fraction": 0.05 + 0.02 * draw.random(),
        "clip_fraction_positive": 0.02 + 0.01 * draw.random(),
        "clip_fraction_negative": 0.03 + 0.01 * draw.random(),
        "mean_ratio": 1 + draw.gauss(0, 0.002),
        "max_abs_log_ratio_before_update": 2e-6 + 1e-6 * draw.random(),
        "saturated_tokens": 0,
        "ratio_histogram": {"edges": edges, "counts": counts},
        "tokens": {"sampled": sampled, "trained": trained, "excluded": {"group without signal": sampled - trained}},
        "response_tokens": {"mean": sampled / 512, "max": 48},
        "turns": {"mean": 3.6 + 0.4 * success},
        "ended": {"terminated": 512 - truncated, "truncated": truncated, "failed": 0},
        "seconds": {"rollout": 0.55 + 0.1 * draw.random(), "learn": 0.8, "evaluate": 0.3 if step % 10 == 0 else 0.0, "total": 1.7},
        "tokens_per_second": 15000 + 1000 * draw.random(),
    }


def evaluation_rows(step: int, success: float) -> list[Metrics]:
    """Two held-out evaluations with given intervals."""
    return [
        {
            "phase": "evaluate",
            "step": step,
            "mode": mode,
            "n": 1024,
            "success": share,
            "low": max(0.0, share - 0.03),
            "high": min(1.0, share + 0.03),
        }
        for mode, share in (("sampled", success), ("greedy", min(1.0, success + 0.02)))
    ]


def metrics(steps: int = 20, warm_steps: int = 50, seed: int = 7) -> list[Metrics]:
    """All rows of a run."""
    draw = random.Random(seed)
    rows = [warm_start_row(step) for step in range(warm_steps)]
    for step in range(steps):
        if step % 10 == 0:
            rows += evaluation_rows(step, min(0.97, 0.41 + 0.56 * (1 - math.exp(-4 * step / steps))))
        rows.append(train_row(step, steps, draw))
    return rows + (evaluation_rows(steps, 0.974) if steps else [])


def summary(rows: list[Metrics]) -> Metrics:
    """The summary that belongs to the rows."""
    train = [row for row in rows if row["phase"] == "train"]
    return {
        "seed": 7,
        "recipe": "grpo",
        "status": "finished",
        "success_before": {"sampled": 0.412, "greedy": 0.447, "n": 1024},
        "success_after": {"sampled": 0.974, "greedy": 0.983, "n": 1024},
        "seconds": {"total": 231.5, "warm_start": 52.4, "rollout": 61.0, "learn": 84.2, "evaluate": 28.8},
        "peak_rss_bytes": 1_310_000_000,
        "tokens": {
            "sampled": sum(row["tokens"]["sampled"] for row in train),
            "trained": sum(row["tokens"]["trained"] for row in train),
            "excluded": {"group without signal": sum(row["tokens"]["sampled"] - row["tokens"]["trained"] for row in train)},
        },
        "versions": {"rosellm": "0.1.0", "torch": "2.13.0", "python": "3.11.9"},
    }


def write_run(folder: Path, rows: list[Metrics], *, with_summary: bool = True, config: str | None = CONFIG) -> Path:
    """Write a run folder and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    if with_summary:
        (folder / "summary.json").write_text(json.dumps(summary(rows)), encoding="utf-8")
    if config is not None:
        (folder / "run.toml").write_text(config, encoding="utf-8")
    return folder
