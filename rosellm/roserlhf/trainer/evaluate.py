"""Measure a policy on held-out tasks: success, pass@k, and how many groups would carry a signal; none of it decides anything."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rosellm.roserlhf import checks
from rosellm.roserlhf.batching.credit import group_signal, total_reward
from rosellm.roserlhf.batching.rollout import rollouts_of
from rosellm.roserlhf.config import build, load_toml
from rosellm.roserlhf.engine.local import LocalEngine
from rosellm.roserlhf.environment.base import ToolEnvironment
from rosellm.roserlhf.environment.protocol import Task
from rosellm.roserlhf.errors import CheckpointError, DtypeError, RunFolderError
from rosellm.roserlhf.trainer.attempts import is_canary
from rosellm.roserlhf.trainer.checkpoint import Checkpoint, load_checkpoint, newest_checkpoint
from rosellm.roserlhf.trainer.config import TrainConfig
from rosellm.roserlhf.trainer.folder import CHECKPOINTS, RUN
from rosellm.roserlhf.trainer.model import load_checkpoint_into, new_engine
from rosellm.roserlhf.trainer.success import succeeded, success_row
from rosellm.roserlhf.trainer.threads import LoopThread, single_threaded
from rosellm.roserlhf.trainer.world import World
from rosellm.roserlhf.trajectory import Trajectory

_EPISODES_AT_ONCE = 512
_Z95 = 1.959963984540054


def pass_at_k(samples: int, successes: int, k: int) -> float:
    r"""Estimate without bias the chance that one of k samples succeeds.

    .. math:: \text{pass@}k = 1 - \binom{n-c}{k} \Big/ \binom{n}{k}

    Source: Chen et al. 2021, Eq. 1, https://arxiv.org/abs/2107.03374

    Args:
        samples: n, episodes sampled for the task.
        successes: c of them succeeded.
        k: at most n.

    Raises:
        RangeError: k is not in [1, n] or c not in [0, n].
        DtypeError: a count is no integer.

    Example:
        >>> pass_at_k(4, 1, 2)
        0.5
    """
    for name, value, low, high in (("samples", samples, 1, math.inf), ("k", k, 1, samples), ("successes", successes, 0, samples)):
        _count(value, name, low, high)
    return 1.0 - math.comb(samples - successes, k) / math.comb(samples, k)


def _count(value: int, name: str, low: int, high: float) -> None:
    if not isinstance(value, int):
        raise checks.fail(DtypeError, name, "be an integer", repr(value))
    checks.number_in(value, name, low, high)


def evaluate_run(
    folder: Path,
    *,
    tasks: int = 1024,
    samples: int = 8,
    temperature: float = 1.0,
    seed: int = 0,
    environment: type[ToolEnvironment] | None = None,
) -> dict[str, Any]:
    """Evaluate a run's newest checkpoint, or the checkpoint whose folder is given, on the run's held-out tasks.

    Args:
        folder: a run folder or one of its `checkpoints/<step>`.
        tasks: held-out tasks; fewer are used if the environment has no more.
        samples: sampled episodes per task.
        temperature: of the sampled episodes.
        seed: of the sampling.
        environment: overrules the configured one, as in `train`.

    Returns:
        `{"step", "tasks", "samples", "temperature", "sampled": {"n", "unscored", "success", "low", "high"}, "greedy": {…},
        "pass_at_k": {k: {"value", "low", "high"}}, "groups": {"total", "all_fail", "all_pass", "mixed", "unscored"},
        "skipped": [why a newer checkpoint could not be used, …]}`; the interval of pass@k is normal over tasks.

    Raises:
        RunFolderError: no run there.
        CheckpointError: no whole checkpoint, or one of another model.
        RangeError, DtypeError: an argument out of range.
    """
    for name, value in (("tasks", tasks), ("samples", samples)):
        _count(value, name, 1, math.inf)
    checks.number_in(temperature, "temperature", 0, math.inf, open_low=True, open_high=True)
    run_folder, checkpoint, skipped = find_checkpoint(folder)
    options = load_toml(run_folder / RUN)
    config = build(TrainConfig, {name: options[name] for name in TrainConfig.model_fields if name in options})
    world = World.build(config, f"{run_folder.name}-eval-{seed}", environment, run_folder=run_folder)
    loop = LoopThread()
    try:
        with single_threaded():
            return {**loop.run(_measure(world, checkpoint, tasks, samples, temperature, seed)), "skipped": skipped}
    finally:
        loop.close()


def find_checkpoint(folder: Path) -> tuple[Path, Checkpoint, list[str]]:
    """Find what a run folder or one of its `checkpoints/<step>` means: run folder, checkpoint, why newer ones were skipped.

    Raises:
        RunFolderError: no run there.
        CheckpointError: no whole checkpoint.
    """
    if (folder / RUN).is_file():
        skipped: list[str] = []
        newest = newest_checkpoint(folder / CHECKPOINTS, skipped.append)
        if newest is None:
            raise CheckpointError(f"run {folder} must have a checkpoint to be evaluated, got none yet")
        return folder, newest, skipped
    run_folder = folder.resolve().parent.parent
    if folder.is_dir() and folder.name.isdigit() and (run_folder / RUN).is_file():
        return run_folder, load_checkpoint(folder), []
    raise RunFolderError(f"a run folder or one of its checkpoints/<step> must be given, got {folder}")


async def _measure(world: World, checkpoint: Checkpoint, count: int, samples: int, temperature: float, seed: int) -> dict[str, Any]:
    model = world.new_model()
    world.check_tokenizer(checkpoint)
    load_checkpoint_into(model, checkpoint)
    held_out = world.held_out(count)
    engine = new_engine(world.config, model, f"v{checkpoint.step}")
    try:
        greedy, sampled = await _play(world, engine, held_out, checkpoint.step, samples, temperature, seed)
    finally:
        engine.close()
    rollouts = [rollout for rollout in rollouts_of(sampled) if not is_canary(rollout)]
    rewards = [total_reward(rollout, world.reward_weights) for rollout in rollouts]
    signal = group_signal(rollouts, rewards, [succeeded(rollout, world.environment.success_component) for rollout in rollouts])
    return {
        "step": checkpoint.step,
        "tasks": len(held_out),
        "samples": samples,
        "temperature": temperature,
        "sampled": success_row(world, sampled),
        "greedy": success_row(world, greedy),
        "pass_at_k": _pass_table(world, sampled, samples),
        "groups": {name: getattr(signal, name) for name in ("total", "all_fail", "all_pass", "mixed", "unscored")},
    }


async def _play(
    world: World, engine: LocalEngine, held_out: Sequence[Task], step: int, samples: int, temperature: float, seed: int
) -> tuple[list[Trajectory], list[Trajectory]]:
    """Play every task once greedily and `samples` times sampled."""
    greedy = await world.play(engine, world.plan(held_out, purpose=f"eval-{seed}-greedy", step=step), temperature=0.0)
    sampled: list[Trajectory] = []
    at_once = max(1, _EPISODES_AT_ONCE // samples)
    for start in range(0, len(held_out), at_once):
        part = held_out[start : start + at_once]
        planned = world.plan(part, purpose=f"eval-{seed}-sampled", step=step, members=samples)
        sampled += await world.play(engine, planned, temperature=temperature)
    return greedy, sampled


def _pass_table(world: World, sampled: Sequence[Trajectory], samples: int) -> dict[int, dict[str, float]]:
    by_task: dict[str, list[bool]] = {}
    for rollout in rollouts_of(sampled):
        if is_canary(rollout):
            continue
        done = succeeded(rollout, world.environment.success_component)
        if done is not None:
            by_task.setdefault(rollout.task_id, []).append(done)
    whole = [outcomes for outcomes in by_task.values() if len(outcomes) == samples]
    table = {}
    for k in (2**i for i in range(samples.bit_length())):
        values = [pass_at_k(samples, sum(outcomes), k) for outcomes in whole]
        if len(values) < 2:
            continue
        mean = sum(values) / len(values)
        spread = math.sqrt(sum((v - mean) ** 2 for v in values) / (len(values) - 1) / len(values))
        table[k] = {"value": mean, "low": max(0.0, mean - _Z95 * spread), "high": min(1.0, mean + _Z95 * spread)}
    return table
