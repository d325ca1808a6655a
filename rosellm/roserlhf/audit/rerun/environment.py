"""Stored episodes against their environment: `run folder → which episodes → their actions once more → what differs first`."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rosellm.roserlhf import checks
from rosellm.roserlhf.audit.rerun.comparison import Difference
from rosellm.roserlhf.audit.rerun.episode import EpisodeRerun
from rosellm.roserlhf.audit.rerun.guard import deciding_again
from rosellm.roserlhf.audit.rerun.tasks import MOST_DRAWS, StoredTasks
from rosellm.roserlhf.batching.rollout import Rollout, rollouts_of
from rosellm.roserlhf.environment.base import ToolEnvironment
from rosellm.roserlhf.errors import ConfigError, RangeError, RunFolderError
from rosellm.roserlhf.recipes import load_recipe
from rosellm.roserlhf.store.events import EventLog
from rosellm.roserlhf.store.rows import TrajectorySummary
from rosellm.roserlhf.trainer.folder import LOG, RUN
from rosellm.roserlhf.trainer.progress import OnProgress, Progress
from rosellm.roserlhf.trainer.world import World
from rosellm.roserlhf.trajectory import Trajectory

DEMONSTRATION = "demonstration"
SAMPLE = 32
"""Episodes that are played again if nothing else is asked for."""


@dataclass(frozen=True)
class EnvironmentReplay:
    """What a replay of stored episodes found."""

    folder: Path
    """The run."""
    environment: str
    """Name of the environment."""
    episodes: int
    """Episodes that were played again."""
    stored: int
    """Records in the log."""
    compared: Mapping[str, int]
    """Values that were compared, by quantity."""
    incomparable: Mapping[str, int]
    """What could not be compared, by reason: neither equal nor different."""
    differences: tuple[Difference, ...] = field(default=())
    """The first difference of each episode that has one."""

    @property
    def first(self) -> Difference | None:
        """The first difference of all."""
        return self.differences[0] if self.differences else None

    @property
    def equal(self) -> bool:
        """Whether nothing differs, as far as it could be compared."""
        return not self.differences


def replay_environment(
    run: str | os.PathLike[str],
    *,
    trajectory_id: str | None = None,
    step: int | None = None,
    every: bool = False,
    environment: type[ToolEnvironment] | None = None,
    on_progress: OnProgress | None = None,
) -> EnvironmentReplay:
    """Execute the recorded actions of stored episodes once more and hold every answer of the environment against the record.

    Held against each other are, turn by turn: tool results, the ids of what the policy was shown, rewards, the ending and the hash
    of the state; in a run behind a guard what it decided about each call, too. Tool results that the harness wrote are taken from
    the record. Tasks are drawn again from the run's seeds.

    Args:
        run: run folder; the run may still be going on.
        trajectory_id: only the episode of this record.
        step: only the episodes of this training step.
        every: all episodes; by default 32, spread evenly over the log.
        environment: overrules the configured one, as in `train`.
        on_progress: called before every episode.

    Raises:
        RunFolderError: no run there.
        ConfigError: the environment cannot be found, or does not promise to be replayable.
        RangeError: no such record or step, or more than one choice at once.
        StoreError: the event log is damaged.

    Example:
        >>> from rosellm.roserlhf.audit import replay_environment
        >>> replay_environment("runs/none")
        Traceback (most recent call last):
        ...
        rosellm.roserlhf.errors.RunFolderError: run must be a run folder, which holds run.toml, got runs/none
    """
    folder = Path(run)
    if not (folder / RUN).is_file():
        raise checks.fail(RunFolderError, "run", f"be a run folder, which holds {RUN}", folder)
    if sum((trajectory_id is not None, step is not None, every)) > 1:
        got = f"trajectory_id={trajectory_id!r}, step={step!r}, every={every!r}"
        raise checks.fail(RangeError, "episodes", "be chosen in one way", got)
    config = load_recipe(folder / RUN).config
    world = World.build(config, folder.name, environment, run_folder=folder)
    _require_replayable(world.environment)
    with EventLog.read(folder / LOG) as log:
        summaries = list(log.summaries())
        chosen = _chosen(summaries, trajectory_id, step, every)
        stored = list(_stored(log, chosen))
    found = asyncio.run(_rerun(world, stored, on_progress or (lambda progress: None)))
    return EnvironmentReplay(folder, config.environment, len(stored), len(summaries), *found)


def _require_replayable(kind: type[ToolEnvironment]) -> None:
    if not kind.capabilities.replayable:
        why = f"{kind.__name__}, whose capabilities say replayable=False: the same actions may lead to something else"
        raise checks.fail(ConfigError, "environment", "promise that its episodes can be replayed", why)


@dataclass(frozen=True)
class _Stored:
    phase: str
    step: int
    rollout: Rollout


def _chosen(
    summaries: Sequence[TrajectorySummary], trajectory_id: str | None, step: int | None, every: bool
) -> Sequence[TrajectorySummary]:
    if trajectory_id is not None:
        found = [one for one in summaries if one.trajectory_id == trajectory_id]
        if not found:
            raise checks.fail(RangeError, "trajectory_id", f"name one of the {len(summaries):,} records", repr(trajectory_id))
        return found
    if step is not None:
        found = [one for one in summaries if one.step == step and one.phase == "train"]
        if not found:
            steps = sorted({one.step for one in summaries if one.phase == "train"})
            made = f"steps {steps[0]} to {steps[-1]}" if steps else "none yet"
            raise checks.fail(RangeError, "step", "be a training step that was made", f"{step!r}; the run has made {made}")
        return found
    if every or len(summaries) <= SAMPLE:
        return summaries
    return [summaries[place * len(summaries) // SAMPLE] for place in range(SAMPLE)]


def _stored(log: EventLog, chosen: Sequence[TrajectorySummary]) -> Iterator[_Stored]:
    """Read the whole episodes that the chosen records belong to."""
    wanted = {(one.phase, one.trajectory_id) for one in chosen}
    for phase, step in dict.fromkeys((one.phase, one.step) for one in chosen):
        records = [one.trajectory for one in log.trajectories(phase=phase, step=step)]
        for rollout in rollouts_of(records):
            if any((phase, record.trajectory_id) in wanted for record in rollout.records):
                yield _Stored(phase, step, rollout)


async def _rerun(
    world: World, stored: Sequence[_Stored], tell: OnProgress
) -> tuple[Mapping[str, int], Mapping[str, int], tuple[Difference, ...]]:
    compared, incomparable, differences = Counter[str](), Counter[str](), list[Difference]()
    tasks = StoredTasks(world, [(one.phase, one.step, one.rollout.task_id) for one in stored])
    for done, one in enumerate(stored):
        tell(Progress(phase="replay", step=done, steps=len(stored)))
        root = one.rollout.root
        if (reason := _unplayable(one.rollout)) is not None:
            incomparable[reason] += 1
            continue
        found = _other_environment(world, root, one.step) or await _played(world, tasks, one, compared, incomparable)
        if found is not None:
            differences.append(found)
    return compared, incomparable, tuple(differences)


def _unplayable(rollout: Rollout) -> str | None:
    kinds = [record.parent.kind for record in rollout.records if record.parent is not None]
    odd = next((kind for kind in kinds if kind != "rewrite"), None)
    return None if odd is None else f"an episode with a {odd}"


def _other_environment(world: World, root: Trajectory, step: int) -> Difference | None:
    now = world.facts.environment_version
    if root.environment_version == now:
        return None
    return Difference(step, "environment version", root.environment_version, now, trajectory_id=root.trajectory_id)


async def _played(
    world: World, tasks: StoredTasks, one: _Stored, compared: Counter[str], incomparable: Counter[str]
) -> Difference | None:
    """Play one episode again; demonstrations were not guarded."""
    root = one.rollout.root
    task = tasks.find(one.phase, one.step, one.rollout.task_id)
    if task is None:
        missing = f"not among {MOST_DRAWS:,} draws of its stream"
        return Difference(one.step, "task", root.task_id, missing, trajectory_id=root.trajectory_id)
    codec = world.codec if root.tokenizer_hash == world.codec.tokenizer_hash else None
    rerun = EpisodeRerun(world.environment(), codec, world.limits)
    if one.phase != DEMONSTRATION:
        rerun.canary = world.environment.is_canary(task.payload)
        if world.guard is not None:
            deterministic = world.config.guard.judge == "setting"
            rerun.guard, rerun.judge = deciding_again(world.guard, deterministic=deterministic, taken=rerun.incomparable)
    found = await rerun.run(one.rollout, task, one.step)
    compared.update(rerun.compared)
    incomparable.update(rerun.incomparable)
    return found
