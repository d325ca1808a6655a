"""run.toml, summary.json and what should not be there."""

from __future__ import annotations

from collections import Counter
from typing import Any

from rosellm.roserlhf.audit.diagnosis import Outcome
from rosellm.roserlhf.audit.inspection.run_files import METRICS, RunFiles
from rosellm.roserlhf.config import fields_of
from rosellm.roserlhf.errors import CheckpointError
from rosellm.roserlhf.trainer.checkpoint import load_checkpoint
from rosellm.roserlhf.trainer.folder import CHECKPOINTS, RUN, SUMMARY, difference

CONFIGURATION, SUMMARIZED, LEFTOVERS = "configuration", "summary", "leftovers"


def configuration(run: RunFiles) -> Outcome:
    """run.toml can be read, says everything, and is what the checkpoints remember."""
    config, options = run.config, run.written_options
    unsaid = [key for key, _ in fields_of(type(config)) if not _said(options, key)]
    if unsaid:
        evidence = f"{RUN} leaves {len(unsaid)} options to defaults, first {unsaid[0]}"
        fix = "restore the file: the run wrote every option, so that a change of defaults cannot change what it means"
        return Outcome(CONFIGURATION, "failed", evidence, "the file was edited", fix)
    for step in run.checkpoint_steps:
        try:
            remembered = load_checkpoint(run.checkpoint(step)).state["config"]
        except CheckpointError:
            continue  # which is for the check of the checkpoints to say
        if different := difference(config.model_dump(), remembered):
            evidence = f"{RUN} has {different} checkpoint {step} says"
            return Outcome(CONFIGURATION, "failed", evidence, "the file was edited after the run began", "put the value back")
    count = len(dict(fields_of(type(config))))
    return Outcome(
        CONFIGURATION, "passed", f"{count} options, all of them written down: recipe {config.recipe}, seed {config.seed}"
    )


def _said(options: Any, key: str) -> bool:
    for part in key.split("."):
        if not isinstance(options, dict) or part not in options:
            return False
        options = options[part]
    return True


def summary(run: RunFiles) -> Outcome:
    """summary.json repeats what configuration and metrics say."""
    found = run.summary
    if found is None:
        fix = "roserlhf train --resume with this folder goes on"
        return Outcome(SUMMARIZED, "info", f"there is no {SUMMARY}: the run is not finished, or it still runs", fix=fix)
    for name, wanted in _expected(run).items():
        if found.get(name) != wanted:
            evidence = f"{name} is {_short(found.get(name))}, the run says {_short(wanted)}"
            fix = f"{METRICS} and {RUN} are the source; do not use the numbers of {SUMMARY}"
            return Outcome(SUMMARIZED, "failed", evidence, "the file was edited, or belongs to another run", fix)
    after = found["success_after"]
    return Outcome(SUMMARIZED, "passed", f"finished after {run.config.steps} steps, success {after['sampled']} of {after['n']}")


def _short(value: object) -> str:
    return f"{value!r:.120}"


def _expected(run: RunFiles) -> dict[str, Any]:
    config = run.config
    counted, excluded = Counter[str](), Counter[str]()
    for row in run.metrics:
        if row.phase == "train":
            tokens: Any = row.values["tokens"]
            counted.update(sampled=tokens["sampled"], trained=tokens["trained"])
            excluded.update(tokens["excluded"])
    measured = {(row.step, row.values["mode"]): row.values for row in run.metrics if row.phase == "evaluate"}

    def success(step: int) -> dict[str, Any]:
        sampled, greedy = measured[step, "sampled"], measured[step, "greedy"]
        return {"sampled": sampled["success"], "greedy": greedy["success"], "n": sampled["n"]}

    return {
        "status": "finished",
        "seed": config.seed,
        "recipe": config.recipe,
        "environment": config.environment,
        "steps": config.steps,
        "success_before": success(0),
        "success_after": success(config.steps),
        "tokens": {"sampled": counted["sampled"], "trained": counted["trained"], "excluded": dict(excluded)},
    }


def leftovers(run: RunFiles) -> Outcome:
    """Nothing half-written lies about."""
    folders = [run.folder, run.folder / CHECKPOINTS]
    found = [path for folder in folders if folder.is_dir() for path in folder.iterdir() if path.name.startswith(".")]
    if not found:
        return Outcome(LEFTOVERS, "passed", "no temporary file")
    names = ", ".join(sorted(str(path.relative_to(run.folder)) for path in found)[:5])
    fix = "harmless: they can be removed unless the run is going on"
    return Outcome(LEFTOVERS, "info", f"{len(found)} temporary files: {names}", "a process was killed while it wrote", fix)
