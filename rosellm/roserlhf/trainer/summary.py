"""`summary.json`: what a finished run says about itself in a few numbers, read off the event log."""

from __future__ import annotations

import resource
import sys
from collections import Counter
from typing import Any

from rosellm.roserlhf.trainer.session import Session
from rosellm.roserlhf.trainer.versions import versions


def summarize(session: Session) -> dict[str, Any]:
    """Collect success before and after, seconds by stage, peak memory, where the sampled tokens went, and, for the
    training steps, why episodes failed and prompts were rewritten.

    Success is None where not one episode could be scored.
    """
    config = session.world.config
    rows = {(m.step, m.values["mode"]): m.values for m in session.log.metrics("evaluate")}

    def success(step: int) -> dict[str, Any]:
        sampled, greedy = rows[step, "sampled"], rows[step, "greedy"]
        return {"sampled": sampled["success"], "greedy": greedy["success"], "n": sampled["n"]}

    tokens: Counter[str] = Counter()
    excluded, failures, rewrites = Counter[str](), Counter[str](), Counter[str]()
    for metrics in session.log.metrics("train"):
        counted = metrics.values["tokens"]
        tokens.update(sampled=counted["sampled"], trained=counted["trained"])
        excluded.update(counted["excluded"])
        failures.update(metrics.values.get("failures", {}))
        rewrites.update(metrics.values.get("rewrites", {}))
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
        "versions": versions(),
    }


def _peak_rss_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
