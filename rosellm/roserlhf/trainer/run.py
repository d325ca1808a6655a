"""A whole run: `warm start → evaluate → train, step by step → evaluate → summary and report`, killed and resumed at any moment.

```
run folder        what a resumed process takes from it
run.toml          the configuration (checked to be the same)
checkpoints/k     weights, optimizer, seconds; everything after step k is superseded in the log and made again, to the same numbers
events.db         records, ledger, policy table, metrics of the steps up to k
```
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import resource
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from rosellm.roserlhf.batching.tensors import Batch
from rosellm.roserlhf.config import dump_toml, load_toml
from rosellm.roserlhf.engine.local import LocalEngine
from rosellm.roserlhf.environment.base import ToolEnvironment
from rosellm.roserlhf.errors import CheckpointError, RoseError, RunFolderError, StoreError
from rosellm.roserlhf.learner.step import Stepper
from rosellm.roserlhf.models.causal import export_model, load_weights, weights
from rosellm.roserlhf.report.page import write_report
from rosellm.roserlhf.store.events import EventLog
from rosellm.roserlhf.trainer.checkpoint import (
    Checkpoint,
    load_optimizer,
    newest_checkpoint,
    optimizer_tensors,
    prune,
    save_checkpoint,
)
from rosellm.roserlhf.trainer.evaluate import success_row
from rosellm.roserlhf.trainer.progress import OnProgress, Progress
from rosellm.roserlhf.trainer.recipe import Recipe
from rosellm.roserlhf.trainer.session import Session
from rosellm.roserlhf.trainer.step import train_step
from rosellm.roserlhf.trainer.threads import single_threaded, worker_count
from rosellm.roserlhf.trainer.warm_start import warm_start
from rosellm.roserlhf.trainer.world import World

_VERSIONED = ("rosellm", "torch", "transformers", "tokenizers", "numpy", "safetensors")


@dataclass(frozen=True)
class Run:
    """What `train` leaves behind."""

    folder: Path
    """The run folder: log, checkpoints, metrics, and, once finished, `summary.json` and `report.html`."""
    status: Literal["finished", "interrupted"]
    summary: dict[str, Any] | None
    """The content of `summary.json`; None if the run was interrupted."""


def train(
    recipe: Recipe,
    *,
    environment: type[ToolEnvironment] | None = None,
    out: str | os.PathLike[str],
    resume: bool = False,
    on_progress: OnProgress | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> Run:
    """Train a small model on an environment, or go on with a run that was stopped or killed.

    Args:
        recipe: algorithm and configuration, e.g. `recipes.grpo(seed=1)`.
        environment: class of one's own, instead of the configured name. A resumed run must be given the same one.
        out: run folder; a new run must not find anything there.
        resume: go on with the run in `out`. A finished run is returned as it is.
        on_progress: called after every step.
        should_stop: asked after every step; True saves a checkpoint and returns an interrupted run.

    Returns:
        The run.

    Raises:
        RunFolderError: the folder is taken, missing, not writable or belongs to another configuration.
        CheckpointError: a resumed run has no whole checkpoint left.
        RoseError: whatever else is wrong with configuration or environment.
    """
    folder = Path(out)
    summary = folder / "summary.json"
    if resume and summary.is_file():
        return Run(folder, "finished", json.loads(summary.read_text(encoding="utf-8")))
    config = recipe.config
    world = World.build(config, f"{config.environment}-{config.recipe}-{config.seed}", environment)
    model = world.new_model()
    if resume:
        _check_same(folder, recipe)
    else:
        _make_folder(folder, recipe, world)
    with EventLog.open(folder / "events.db") as log, single_threaded():
        engine = LocalEngine(model, version="initial", threads=worker_count(model.device))
        session = Session(world, folder, log, model, engine, on_progress or (lambda progress: None))
        try:
            return _Loop(session, recipe, should_stop or (lambda: False)).run()
        except RoseError as error:
            session.tell(Progress(phase="failed", step=0, steps=config.steps, message=f"stopped: {error}"))
            raise
        finally:
            session.close()


class _Loop:
    """The stages of one run, each able to find out that it is done already."""

    def __init__(self, session: Session, recipe: Recipe, should_stop: Callable[[], bool]) -> None:
        self._session, self._recipe, self._config, self._should_stop = session, recipe, recipe.config, should_stop
        self._checkpoints = session.folder / "checkpoints"

    def run(self) -> Run:
        found = newest_checkpoint(self._checkpoints, lambda why: self._tell("resume", 0, message=why))
        if found is None:
            self._session.log.supersede(0)
        else:
            self._restore(found)
        self._session.rewrite_metrics()
        if not self._warm_start(found):
            return Run(self._session.folder, "interrupted", None)
        start = found.step if found else 0
        self._session.publish(f"v{start}", step=start, parent=None)
        self._evaluate(0)
        if not self._train(start, found):
            return Run(self._session.folder, "interrupted", None)
        self._evaluate(self._config.steps)
        return self._finish()

    def _restore(self, found: Checkpoint) -> None:
        session = self._session
        load_weights(session.model, found.model)
        session.seconds.update(found.state["seconds"])
        session.log.supersede(found.step + 1)
        self._tell("resume", found.step, message=f"resumed from checkpoint {found.step}")

    def _warm_start(self, found: Checkpoint | None) -> bool:
        session, options = self._session, self._config.warm_start
        done = 0 if found is None else int(found.state["cloning_steps"])
        if found is not None and found.state["warm_start_finished"]:
            return True
        stepper: Stepper[Batch] = self._stepper(options.learning_rate, weight_decay=0.0)
        if found is not None:
            load_optimizer(stepper.optimizer, found.optimizer)

        def save(steps: int, finished: bool) -> None:
            self._save(0, stepper, cloning_steps=steps, warm_start_finished=finished)

        try:
            with session.timed("warm_start"):
                return warm_start(session, stepper, done=done, save=save, should_stop=self._should_stop)
        finally:
            stepper.close()

    def _train(self, start: int, found: Checkpoint | None) -> bool:
        config = self._config
        stepper: Stepper[Batch] = self._stepper(config.optimizer.learning_rate, config.optimizer.weight_decay)
        if start and found is not None:
            load_optimizer(stepper.optimizer, found.optimizer)
        try:
            for step in range(start + 1, config.steps + 1):
                try:
                    values = train_step(self._session, self._recipe, stepper, step)
                except RoseError as error:
                    raise type(error)(f"step {step}: {error}") from error
                self._report_step(step, values)
                stopped = self._should_stop() and step < config.steps
                if stopped or step % config.checkpoint_every == 0 or step == config.steps:
                    self._save(step, stepper)
                if stopped:
                    return False
                if config.evaluate.every and step % config.evaluate.every == 0 and step < config.steps:
                    self._evaluate(step, config.evaluate.during_tasks)
            return True
        finally:
            stepper.close()

    def _stepper(self, learning_rate: float, weight_decay: float) -> Stepper[Batch]:
        clip = self._config.optimizer.gradient_clip
        return Stepper(
            self._session.model,
            learning_rate=learning_rate,
            weight_decay=weight_decay,
            gradient_clip=clip,
            workers=worker_count(self._session.model.device),
        )

    def _save(self, step: int, stepper: Stepper[Batch], *, cloning_steps: int = 0, warm_start_finished: bool = True) -> None:
        state = {
            "seconds": self._session.seconds_so_far(),
            "cloning_steps": cloning_steps,
            "warm_start_finished": warm_start_finished,
        }
        self._session.log.flush()
        checkpoint = Checkpoint(step, weights(self._session.model), optimizer_tensors(stepper.optimizer), state)
        save_checkpoint(self._checkpoints, checkpoint)
        prune(self._checkpoints, self._config.keep_checkpoints)

    def _evaluate(self, step: int, count: int | None = None) -> None:
        """Measure success on held-out tasks, sampled and greedy, unless the log holds it already."""
        session = self._session
        held_out = session.world.held_out(count or self._config.evaluate.tasks)
        known = {(m.step, m.values["mode"]) for m in session.log.metrics("evaluate")}
        modes: Sequence[tuple[str, float]] = (("sampled", self._config.collect.temperature), ("greedy", 0.0))
        for done, (mode, temperature) in enumerate(modes):
            if (step, mode) in known:
                continue
            self._tell("evaluate", done, steps=len(modes))
            with session.timed("evaluate"):
                planned = session.world.plan(held_out, purpose=f"evaluate-{mode}", step=step)
                played = session.run(session.world.play(session.engine, planned, temperature=temperature))
            row = {"mode": mode, **success_row(session.world, played)}
            with session.log.transaction():
                for trajectory in played:
                    session.log.append_trajectory(trajectory, step=step, phase=f"evaluate-{mode}")
                session.record_metrics("evaluate", step, row)
            success = "unscored" if row["success"] is None else f"{row['success']:.3f}"
            self._tell(
                "evaluate", done + 1, steps=len(modes), message=f"step {step}: held-out success {mode} {success} ({row['n']})"
            )

    def _report_step(self, step: int, values: dict[str, Any]) -> None:
        so_far = self._session.seconds_so_far()
        per_step = (so_far["rollout"] + so_far["learn"]) / step
        left = per_step * (self._config.steps - step) + so_far["evaluate"]
        problems = [f"step {step}: no update, {why}" for why in values["updates"]["skipped"]]
        if values["updates"]["made"] == 0 and not problems:
            problems.append(f"step {step}: no update, every group was uniform or unscored")
        self._tell(
            "train",
            step,
            success=values["success"],
            reward=values["reward"]["total"],
            kl=values["approximate_kl"],
            tokens_per_second=values["tokens_per_second"],
            seconds_left=left,
            message="\n".join(problems),
        )

    def _tell(self, phase: str, step: int, *, steps: int | None = None, message: str = "", **numbers: float | None) -> None:
        total = self._config.steps if steps is None else steps
        self._session.tell(Progress(phase=phase, step=step, steps=total, message=message, **numbers))

    def _finish(self) -> Run:
        session, folder = self._session, self._session.folder
        export_model(session.model, folder / "model")
        session.world.tokenizer.save_pretrained(folder / "model")
        summary = _summary(session, self._recipe)
        _write(folder / "summary.json", json.dumps(summary, indent=2, allow_nan=False) + "\n")
        write_report(folder)
        self._tell("done", self._config.steps)
        return Run(folder, "finished", summary)


def _summary(session: Session, recipe: Recipe) -> dict[str, Any]:
    config = recipe.config
    rows = {(m.step, m.values["mode"]): m.values for m in session.log.metrics("evaluate")}

    def success(step: int) -> dict[str, Any]:
        sampled, greedy = rows[step, "sampled"], rows[step, "greedy"]
        return {"sampled": sampled["success"], "greedy": greedy["success"], "n": sampled["n"]}

    tokens: Counter[str] = Counter()
    excluded: Counter[str] = Counter()
    for metrics in session.log.metrics("train"):
        counted = metrics.values["tokens"]
        tokens.update(sampled=counted["sampled"], trained=counted["trained"])
        excluded.update(counted["excluded"])
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
        "versions": versions(),
    }


def versions() -> dict[str, str]:
    """Versions of Python, platform and the packages that decide the numbers."""
    found = {"python": platform.python_version()}
    for name in _VERSIONED:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def _peak_rss_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _make_folder(folder: Path, recipe: Recipe, world: World) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RunFolderError(f"out must be a new or empty folder, got {folder}; resume it or choose another")
    about = {"rosellm": versions()["rosellm"], "torch": torch.__version__, "tokenizer": world.codec.tokenizer_hash}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        EventLog.create(folder / "events.db").close()
        world.tokenizer.save_pretrained(folder / "tokenizer")
        _write(folder / "run.toml", dump_toml(recipe.config, about=about))  # last: with it, there is a run
    except (OSError, StoreError) as error:
        raise RunFolderError(f"out must be a folder that can be written, got {folder}: {error}") from error


def _check_same(folder: Path, recipe: Recipe) -> None:
    path = folder / "run.toml"
    if not path.is_file():
        raise RunFolderError(f"out must hold a run to resume, got {folder} without run.toml")
    if load_toml(path) != recipe.config.model_dump(exclude_none=True):
        raise RunFolderError(f"recipe must be the one the run was started with, got another than {path}")
    if not (folder / "events.db").is_file():
        raise CheckpointError(f"run {folder} must hold its event log to be resumed, got no events.db")


def _write(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    aside = path.with_name(f".{path.name}.tmp")
    with aside.open("w", encoding="utf-8") as handle:
        handle.write(text)
        handle.flush()
        os.fsync(handle.fileno())
    os.replace(aside, path)
