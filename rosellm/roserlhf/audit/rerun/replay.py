"""The replay of training steps: `run folder → batches, credit, updates once more → what differs from what was recorded`.

```
checkpoint k < N → records of step k + 1 → rewards → advantages → updates → weights → … → step N
                   held against: ledger, evidence of updates, metrics, policy table, in this order
```
Nothing is sampled and no environment is asked: the records say what happened, the log which weights its rewards had. The functions
are the trainer's own (`trainer.learning`), so a replay computes what the trainer computed, or finds out what was changed since.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from rosellm.roserlhf import checks
from rosellm.roserlhf.audit.rerun.comparison import Compared, Comparison, Difference, Tolerance
from rosellm.roserlhf.audit.rerun.step import Recorded, StepRerun
from rosellm.roserlhf.errors import CheckpointError, RangeError, RunFolderError
from rosellm.roserlhf.models.causal import weights_hash
from rosellm.roserlhf.recipes import load_recipe
from rosellm.roserlhf.store.events import EventLog
from rosellm.roserlhf.trainer.checkpoint import Checkpoint, checkpoint_steps, load_checkpoint
from rosellm.roserlhf.trainer.folder import CHECKPOINTS, LOG, RUN, difference
from rosellm.roserlhf.trainer.learning import training_stepper
from rosellm.roserlhf.trainer.model import restored_model
from rosellm.roserlhf.trainer.progress import OnProgress, Progress
from rosellm.roserlhf.trainer.provenance import provenance, this_machine
from rosellm.roserlhf.trainer.recipe import Recipe
from rosellm.roserlhf.trainer.threads import single_threaded


@dataclass(frozen=True)
class Replay:
    """What a replay found."""

    folder: Path
    """The run."""
    step: int
    """The step that was asked for, the last one replayed."""
    checkpoint: int
    """Step of the checkpoint that it started from."""
    elsewhere: tuple[str, ...]
    """Why the same bits cannot be expected here, one sentence each; empty where they are."""
    quantities: tuple[Compared, ...]
    """The table, in the order of cause and effect."""
    first: Difference | None
    """The first difference beyond what is allowed; None if there is none."""

    @property
    def equal(self) -> bool:
        """Whether nothing differs beyond what is allowed."""
        return self.first is None


def replay(
    run: str | os.PathLike[str], *, step: int, recipe: Recipe | None = None, on_progress: OnProgress | None = None
) -> Replay:
    """Compute training steps of a run again from its folder alone and hold everything against what was recorded.

    It starts at the newest whole checkpoint before `step`; the one of step 0 is always kept. The run may still be going on.
    On the machine that made the run, with the same versions, every number must be equal bit for bit; elsewhere, what rounding
    explains is allowed (`Tolerance`).

    Args:
        run: run folder.
        step: training step, counted from 1; the steps between the checkpoint and it are replayed, too.
        recipe: only for a run whose credit or objective was composed in Python; else `run.toml` says it.
        on_progress: called after every step.

    Returns:
        The replay; `equal` says how it ended and `first` names what differs first.

    Raises:
        RunFolderError: no run there, a `run.toml` that was changed, or a run of an older version that recorded too little.
        RangeError: the step was not run.
        CheckpointError: there is no whole checkpoint before the step.
        StoreError: the event log is damaged.

    Example:
        >>> from rosellm.roserlhf.audit import replay
        >>> replay("runs/none", step=1)
        Traceback (most recent call last):
        ...
        rosellm.roserlhf.errors.RunFolderError: run must be a run folder, which holds run.toml, got runs/none
    """
    folder = Path(run)
    if not (folder / RUN).is_file():
        raise checks.fail(RunFolderError, "run", f"be a run folder, which holds {RUN}", folder)
    recipe = recipe or load_recipe(folder / RUN)
    with EventLog.read(folder / LOG) as log, single_threaded():
        recorded = Recorded.read(log)
        if type(step) is not int or step not in recorded.metrics:
            steps = f"steps {min(recorded.metrics)} to {max(recorded.metrics)}" if recorded.metrics else "none yet"
            raise checks.fail(RangeError, "step", "be a training step that was made", f"{step!r}; the run has made {steps}")
        device = torch.device(recipe.config.device if torch.cuda.is_available() else "cpu")
        checkpoint, damaged = _start(folder / CHECKPOINTS, step)
        _same_configuration(recipe, checkpoint)
        elsewhere = _elsewhere(log, this_machine(device), range(checkpoint.step + 1, step + 1))
        comparison = Comparison(Tolerance(bool(elsewhere), checkpoint.step))
        for one in damaged:
            comparison.differs("checkpoint", one)
        _rerun(recorded, recipe, checkpoint, step, device, comparison, on_progress or (lambda progress: None))
        return Replay(folder, step, checkpoint.step, elsewhere, comparison.table(), comparison.first)


def _rerun(
    recorded: Recorded,
    recipe: Recipe,
    checkpoint: Checkpoint,
    step: int,
    device: torch.device,
    comparison: Comparison,
    on_progress: OnProgress,
) -> None:
    model = restored_model(recipe.config, checkpoint, str(device))
    policy, name = recorded.policies.get(f"v{checkpoint.step}"), f"weights of checkpoint {checkpoint.step}"
    comparison.value("checkpoint", checkpoint.step, policy and policy.content_hash, weights_hash(checkpoint.model), name=name)
    stepper = training_stepper(recipe.config, model, checkpoint)
    try:
        steps = range(checkpoint.step + 1, step + 1)
        for done, one in enumerate(steps):
            on_progress(Progress(phase="replay", step=done, steps=len(steps)))
            StepRerun(recorded, recipe, stepper, one, comparison).run()
    finally:
        stepper.close()


def _start(folder: Path, step: int) -> tuple[Checkpoint, list[Difference]]:
    """Read the newest whole checkpoint before a step; damaged ones after it are differences, earliest first."""
    damaged: list[Difference] = []
    for before in reversed([made for made in checkpoint_steps(folder) if made < step]):
        try:
            return load_checkpoint(folder / str(before)), damaged[::-1]
        except CheckpointError as error:
            if (folder / str(before)).exists():  # else the run, which is going on, has replaced it by a newer one
                damaged.append(Difference(before, "checkpoint", "whole", str(error)))
    got = f"none; {damaged[0].recomputed}" if damaged else "none"
    raise checks.fail(CheckpointError, "run", f"hold a whole checkpoint before step {step} to be replayed", got)


def _same_configuration(recipe: Recipe, checkpoint: Checkpoint) -> None:
    different = difference(recipe.config.model_dump(), checkpoint.state["config"])
    if different:
        raise RunFolderError(f"{RUN} must be as the run was started, got {different} checkpoint {checkpoint.step} says")


def _elsewhere(log: EventLog, here: Mapping[str, str], steps: range) -> tuple[str, ...]:
    """Say in words why this machine may round otherwise than those that made the steps."""
    reasons: dict[str, None] = {}
    for there in [provenance(log, step).machine for step in steps]:
        different = [name for name in dict.fromkeys([*there, *here]) if there.get(name) != here.get(name)]
        reasons |= {f"{name} was {there.get(name)!r}, here it is {here.get(name)!r}": None for name in different}
    if here["device"] != "cpu" and not reasons:
        reasons = {f"kernels of {here['device']} do not promise the same bits twice": None}
    return tuple(reasons)
