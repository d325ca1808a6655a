"""`summary.json`: what a finished run says about itself in a few numbers, read off the event log."""

from __future__ import annotations

import resource
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rosellm.roserlhf.trainer.session import Session
from rosellm.roserlhf.trainer.versions import versions


def summarize(session: Session) -> dict[str, Any]:
    """Collect success before and after, seconds by stage, peak memory, where the sampled tokens went, and, for the
    training steps, why episodes failed, prompts were rewritten and calls were blocked.

    Success is None where not one episode could be scored.
    """
    config = session.world.config
    rows = {(m.step, m.values["mode"]): m.values for m in session.log.metrics("evaluate")}

    def success(step: int) -> dict[str, Any]:
        sampled, greedy = rows[step, "sampled"], rows[step, "greedy"]
        modes = {"sampled": sampled, "greedy": greedy}
        apart = {name: {mode: row[name] for mode, row in modes.items()} for name in ("guard", "canary") if name in sampled}
        return {"sampled": sampled["success"], "greedy": greedy["success"], "n": sampled["n"], **apart}

    tokens: Counter[str] = Counter()
    guarded: list[Mapping[str, Any]] = []
    excluded, failures, rewrites = Counter[str](), Counter[str](), Counter[str]()
    for metrics in session.log.metrics("train"):
        counted = metrics.values["tokens"]
        tokens.update(sampled=counted["sampled"], trained=counted["trained"])
        excluded.update(counted["excluded"])
        failures.update(metrics.values.get("failures", {}))
        rewrites.update(metrics.values.get("rewrites", {}))
        guarded.append(metrics.values)
    return {
        "seed": config.seed,
        "recipe": config.recipe,
        "environment": config.environment,
        "status": "finished",
        "steps": config.steps,
        "success_before": success(0),
        "success_after": success(config.steps),
        "seconds": session.seconds_so_far(),
        "peak_rss_bytes": _peak_rss_bytes(),
        "tokens": {"sampled": tokens["sampled"], "trained": tokens["trained"], "excluded": dict(excluded)},
        "failures": dict(failures),
        "rewrites": dict(rewrites),
        **({} if session.world.guard is None else {"guard": _guard(guarded)}),
        "versions": versions(),
    }


def _guard(steps: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Add up what the guard saw in the training steps, and what its looking took of their time."""
    counts, by_rule = Counter[str](), Counter[str]()
    seconds = total = 0.0
    for values in steps:
        seen, cost = values["guard"], values["guard_cost"]
        counts.update({name: seen[name] for name in ("suspicious", "blocked", "judge_failures", "episodes_blocked")})
        by_rule.update(seen["by_rule"])
        counts["calls"] += cost["calls"]
        seconds += cost["rules"]
        total += values["seconds"]["total"]
    return {**counts, "by_rule": dict(by_rule), "rules_seconds": seconds, "share_of_time": seconds / total if total else None}


def _peak_rss_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
