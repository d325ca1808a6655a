"""Where a step's numbers come from beside its records: the machine that computed them and the weights of its rewards.

Every process that works on a run enters one row of metrics under the first step that it is going to make, so that for each step the
newest row up to it tells. With it a step can be replayed from the folder alone, after the environment has changed or gone, and it
is known whether the same bits are to be expected.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from rosellm.roserlhf import __version__, checks
from rosellm.roserlhf.errors import RunFolderError
from rosellm.roserlhf.store.events import EventLog
from rosellm.roserlhf.trainer.folder import LOG, difference
from rosellm.roserlhf.trainer.versions import versions

if TYPE_CHECKING:
    from rosellm.roserlhf.trainer.world import World

PROCESS = "process"
"""Phase of the rows in which processes enter themselves; they are no measurements and stand in the event log only."""
_KERNELS = ("MKL_CBWR", "MKL_DEBUG_CPU_TYPE", "MKL_ENABLE_INSTRUCTIONS", "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA")
"""Environment variables by which the libraries below torch choose their kernels."""
_CPU = ("model name", "cpu family", "model", "stepping")


@dataclass(frozen=True)
class Provenance:
    """What one process entered."""

    machine: Mapping[str, str]
    """`this_machine` there and then."""
    reward_weights: Mapping[str, float]
    """What training maximised: the weighted sum of these components."""
    success_component: str
    """An episode succeeded when this component was at least 1."""


def this_machine(device: torch.device) -> dict[str, str]:
    """Name everything on which the last bit of a float may depend; the number of workers is not among it, the threads of one are.

    Args:
        device: where the model lives.
    """
    return {
        "system": f"{platform.system()}-{platform.machine()}",
        "processor": _processor(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "threads": str(torch.get_num_threads()),
        "matmul precision": torch.get_float32_matmul_precision(),
        "kernel settings": " ".join(f"{name}={os.environ[name]}" for name in _KERNELS if name in os.environ),
        "device": device.type if device.type == "cpu" else torch.cuda.get_device_name(device),
        **versions(),
        "rosellm": __version__,
    }


def enter(log: EventLog, world: World, machine: Mapping[str, str], first_step: int) -> None:
    """Enter this process.

    Args:
        first_step: first training step that it is going to make.

    Raises:
        RunFolderError: the environment weighs its rewards otherwise than in the steps already made.
    """
    weights, component = world.reward_weights, world.environment.success_component
    before = _newest(log, first_step)
    if before is not None:
        given = {"reward_weights": {name: weights.get(name) for name in [*weights, *before.reward_weights]}}
        recorded = {"reward_weights": before.reward_weights, "success_component": before.success_component}
        different = difference({**given, "success_component": component}, recorded)
        if different:
            raise RunFolderError(f"environment must reward as when the run was started, got {different} {LOG} says")
    values = {"machine": dict(machine), "reward_weights": weights, "success_component": component}
    log.append_metrics(PROCESS, first_step, values)


def provenance(log: EventLog, step: int) -> Provenance:
    """Return what the process that made a step entered.

    Raises:
        RunFolderError: none did: the run was made by an older version.
    """
    found = _newest(log, step)
    if found is None:
        raise checks.fail(RunFolderError, "run", f"say which machine and reward weights made step {step}", "nothing about it")
    return found


def _newest(log: EventLog, step: int) -> Provenance | None:
    rows = [row.values for row in log.metrics(PROCESS) if row.step <= step]
    return Provenance(**rows[-1]) if rows else None


def _processor() -> str:
    """Name the processor down to its stepping: a cloud's name for it stands for several."""
    cpuinfo = Path("/proc/cpuinfo")
    if not os.access(cpuinfo, os.R_OK):
        return platform.processor() or "unknown"
    first = cpuinfo.read_text(encoding="utf-8", errors="replace").partition("\n\n")[0]
    found = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in first.splitlines())}
    return ", ".join(f"{name} {found[name]}" for name in _CPU if name in found) or platform.machine()
