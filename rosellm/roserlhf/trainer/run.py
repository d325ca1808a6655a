"""A whole run: `warm start → evaluate → train, step by step → evaluate → summary and report`, killed and resumed at any moment.

```
run folder        what a resumed process takes from it
run.toml          the configuration (checked to be the same)
checkpoints/k     weights, optimizer, seconds; everything after step k is superseded in the log and made again, to the same numbers
events.db         records, ledger, policy table, metrics of the steps up to k
summary.json      the run is finished
```
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rosellm.roserlhf.batching.tensors import Batch
from rosellm.roserlhf.checks import fail
from rosellm.roserlhf.config import build
from rosellm.roserlhf.environment.base import ToolEnvironment
from rosellm.roserlhf.errors import CheckpointError, RoseError, RunFolderError
from rosellm.roserlhf.learner.step import Stepper
from rosellm.roserlhf.models.causal import export_model, weights, weights_hash
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
from rosellm.roserlhf.trainer.disk import write_whole, writing
from rosellm.roserlhf.trainer.folder import (
    CHECKPOINTS,
    LOG,
    REPORT,
    RUN,
    SUMMARY,
    check_folder,
    difference,
    equip,
    make_folder,
)
from rosellm.roserlhf.trainer.heap import frozen_heap
from rosellm.roserlhf.trainer.learning import new_stepper, training_stepper
from rosellm.roserlhf.trainer.model import ARITHMETIC, arithmetic, check_window, load_checkpoint_into, new_engine
from rosellm.roserlhf.trainer.progress import OnProgress, Progress
from rosellm.roserlhf.trainer.provenance import enter, this_machine
from rosellm.roserlhf.trainer.recipe import Recipe
from rosellm.roserlhf.trainer.session import Session
from rosellm.roserlhf.trainer.step import train_step
from rosellm.roserlhf.trainer.success import success_row
from rosellm.roserlhf.trainer.summary import summarize
from rosellm.roserlhf.trainer.threads import single_threaded
from rosellm.roserlhf.trainer.warm_start import warm_start
from rosellm.roserlhf.trainer.world import TOKENIZER, World, path_of


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
        environment: class of one's own, instead of the configured name; its import path is what `run.toml` records.
        out: run folder; a new run must not find anything there.
        resume: go on with the run in `out`. A finished run is returned as it is.
        on_progress: called after every step.
        should_stop: asked after every step; True saves a checkpoint and returns an interrupted run.

    Returns:
        The run.

    Raises:
        RunFolderError: the folder is taken, missing, not writable or belongs to another configuration.
        CheckpointError: a resumed run has no whole checkpoint left, or one that is not of this run.
        RoseError: whatever else is wrong with configuration or environment.
    """
    folder = Path(out)
    if resume and (folder / SUMMARY).is_file():
        return _finished(folder)
    if environment is not None:
        recipe = dataclasses.replace(recipe, config=recipe.config.model_copy(update={"environment": path_of(environment)}))
    config = recipe.config
    begun = folder if resume else None
    world = World.build(config, f"{config.environment}-{config.recipe}-{config.seed}", environment, run_folder=begun)
    world.check()
    model = world.new_model()
    check_window(config, model)
    if resume:
        check_folder(folder, config)
        equip(folder, world)
    else:
        make_folder(folder, world)
    with EventLog.open(folder / LOG) as log, single_threaded(), frozen_heap():
        engine = new_engine(config, model, "initial")
        session = Session(world, folder, log, model, engine, on_progress or (lambda progress: None))
        try:
            return _Loop(session, recipe, should_stop or (lambda: False)).run()
        except Exception as error:
            with contextlib.suppress(RunFolderError):  # a full disk is what stopped it, perhaps
                session.tell(Progress(phase="failed", step=0, steps=config.steps, message=f"stopped: {error}"))
            raise
        finally:
            session.close()


def _finished(folder: Path) -> Run:
    """Return a finished run; a process that died between summary and report left the report to be made."""
    summary, report = folder / SUMMARY, folder / REPORT
    if not report.is_file() or report.stat().st_mtime_ns < summary.stat().st_mtime_ns:
        write_report(folder)
    try:
        return Run(folder, "finished", json.loads(summary.read_text(encoding="utf-8")))
    except (ValueError, RecursionError) as error:
        fix = "remove it, and the run goes on from its last checkpoint"
        raise fail(RunFolderError, str(summary), "hold what the run came to", f"no JSON: {error}", fix=fix) from error


class _Loop:
    """The stages of one run, each able to find out that it is done already."""

    def __init__(self, session: Session, recipe: Recipe, should_stop: Callable[[], bool]) -> None:
        self._session, self._recipe, self._config, self._should_stop = session, recipe, recipe.config, should_stop
        self._checkpoints = session.folder / CHECKPOINTS
        options = self._config.evaluate
        self._held_out = session.world.held_out(max(options.tasks, options.during_tasks))

    def run(self) -> Run:
        interrupted = Run(self._session.folder, "interrupted", None)
        found = newest_checkpoint(self._checkpoints, lambda why: self._tell("resume", 0, message=why))
        if found is None:
            self._session.log.supersede(0)
        else:
            self._restore(found)
        start = found.step if found else 0
        enter(self._session.log, self._session.world, this_machine(self._session.model.device), start + 1)
        self._session.rewrite_metrics()
        if not self._warm_start(found):
            return interrupted
        self._session.publish(f"v{start}", step=start, parent=None, keep=f"v{start}" not in self._policies())
        self._evaluate(0)
        if not self._train(start, found):
            return interrupted
        self._evaluate(self._config.steps)
        return self._finish()

    def _restore(self, found: Checkpoint) -> None:
        session = self._session
        recorded = self._policies().get(f"v{found.step}")
        if recorded != weights_hash(found.model) and not (found.step == 0 and recorded is None):  # v0 is entered after checkpoint 0
            raise CheckpointError(f"checkpoint {found.step} must hold weights that the event log beside it knows, got others")
        saved = build(type(self._config), found.state["config"]).model_dump()  # older checkpoints lack newer sections
        different = difference(self._config.model_dump(), saved)
        if different:
            raise RunFolderError(f"{RUN} must be as the run was started, got {different} checkpoint {found.step} says")
        self._require_measured(found.step)
        session.world.check_tokenizer(found)
        load_checkpoint_into(session.model, found)
        session.seconds.update(found.state["seconds"])
        session.log.supersede(found.step + 1)
        prune(self._checkpoints, self._config.keep_checkpoints, newest=found.step)
        self._tell("resume", found.step, message=f"resumed from checkpoint {found.step}")

    def _require_measured(self, step: int) -> None:
        """Require what cannot be measured again, because the weights that it was measured with are gone."""
        log = self._session.log
        made = {("train", m.step) for m in log.metrics("train")} | {(m.values["mode"], m.step) for m in log.metrics("evaluate")}
        wanted = [("train", k + 1) for k in range(step)] + ([("sampled", 0), ("greedy", 0)] if step else [])
        missing = [f"{what} of step {k}" for what, k in wanted if (what, k) not in made]
        if missing:
            got = f"no metrics of: {', '.join(missing[:3])}"
            fix = "restore it from a copy; what is left can be read, and its steps replayed"
            raise fail(RunFolderError, LOG, f"hold what was measured up to checkpoint {step} to be resumed", got, fix=fix)

    def _policies(self) -> dict[str, str | None]:
        """Weight hashes by version."""
        return {policy.version: policy.content_hash for policy in self._session.log.policies()}

    def _warm_start(self, found: Checkpoint | None) -> bool:
        session, options = self._session, self._config.warm_start
        done = 0 if found is None else int(found.state["cloning_steps"])
        if found is not None and found.state["warm_start_finished"]:
            return True
        stepper = new_stepper(self._config, session.model, learning_rate=options.learning_rate, weight_decay=0.0)
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
        stepper = training_stepper(config, self._session.model, found)
        try:
            self._evaluate_during(start)  # a process may have died between a step's checkpoint and its evaluation
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
                self._evaluate_during(step)
            return True
        finally:
            stepper.close()

    def _save(self, step: int, stepper: Stepper[Batch], *, cloning_steps: int = 0, warm_start_finished: bool = True) -> None:
        state = {
            "seconds": self._session.seconds_so_far(),
            "cloning_steps": cloning_steps,
            "warm_start_finished": warm_start_finished,
            "config": self._config.model_dump(),
            TOKENIZER: self._session.world.codec.tokenizer_hash,
            ARITHMETIC: arithmetic(self._session.model),
        }
        self._session.log.flush()
        checkpoint = Checkpoint(step, weights(self._session.model), optimizer_tensors(stepper.optimizer), state)
        save_checkpoint(self._checkpoints, checkpoint)
        prune(self._checkpoints, self._config.keep_checkpoints, newest=step)

    def _evaluate_during(self, step: int) -> None:
        every = self._config.evaluate.every
        if every and step % every == 0 and 0 < step < self._config.steps:
            self._evaluate(step, self._config.evaluate.during_tasks)

    def _evaluate(self, step: int, count: int | None = None) -> None:
        """Measure success on held-out tasks, sampled and greedy, unless the log holds it already."""
        session = self._session
        held_out = self._held_out[: count or self._config.evaluate.tasks]
        known = {(m.step, m.values["mode"]) for m in session.log.metrics("evaluate")}
        modes: Sequence[tuple[str, float]] = (("sampled", self._config.collect.temperature), ("greedy", 0.0))
        for done, (mode, temperature) in enumerate(modes):
            if (step, mode) in known:
                continue
            self._tell("evaluate", done, steps=len(modes))
            with session.timed("evaluate"):
                planned = session.world.plan(held_out, purpose=f"evaluate-{mode}", step=step)
                played = session.play(planned, temperature=temperature)
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
        self._tell(
            "train",
            step,
            success=values["success"],
            reward=values["reward"]["total"],
            kl=values["approximate_kl"],
            tokens_per_second=values["tokens_per_second"],
            seconds_left=left,
            message="\n".join(f"step {step}: no update, {why}" for why in values["updates"]["skipped"]),
        )

    def _tell(self, phase: str, step: int, *, steps: int | None = None, message: str = "", **numbers: float | None) -> None:
        total = self._config.steps if steps is None else steps
        self._session.tell(Progress(phase=phase, step=step, steps=total, message=message, **numbers))

    def _finish(self) -> Run:
        session, folder = self._session, self._session.folder
        with writing(folder / "model"):
            export_model(session.model, folder / "model")
            session.world.tokenizer.save_pretrained(folder / "model")
        summary = summarize(session)
        write_whole(folder / SUMMARY, json.dumps(summary, indent=2, allow_nan=False) + "\n")
        write_report(folder)
        self._tell("done", self._config.steps)
        return Run(folder, "finished", summary)
