"""Checkpoints that are whole or not there, written aside and renamed.

Each is a folder `<step>/{model.safetensors, optimizer.safetensors, state.json}`.
`state.json` is written last and holds the hashes of the other two; a folder that does not match it is skipped, with the reason, in
favour of the one before. Weights that are not finite are never saved, and an old checkpoint goes only after a newer one is
complete.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from rosellm.roserlhf.errors import CheckpointError

MODEL, OPTIMIZER, STATE = "model.safetensors", "optimizer.safetensors", "state.json"


@dataclass(frozen=True)
class Checkpoint:
    """What a run needs to go on after `step`."""

    step: int
    model: dict[str, Tensor]
    optimizer: dict[str, Tensor]
    state: Mapping[str, Any]
    """Plain JSON values: seconds spent so far and the like."""


def save_checkpoint(folder: Path, checkpoint: Checkpoint) -> Path:
    """Write one checkpoint atomically.

    Args:
        folder: the run's `checkpoints` folder.

    Raises:
        CheckpointError: a weight is NaN or infinite.
        OSError: the disk refuses; nothing half-written is left under the final name.
    """
    for name, tensor in checkpoint.model.items():
        if not bool(tensor.isfinite().all()):
            raise CheckpointError(f"{name} must be finite to be saved, got NaN or infinity at step {checkpoint.step}")
    final, aside = folder / str(checkpoint.step), folder / f".{checkpoint.step}.tmp"
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    save_file(checkpoint.model, aside / MODEL)
    save_file(checkpoint.optimizer, aside / OPTIMIZER)
    hashes = {name: _hash(aside / name) for name in (MODEL, OPTIMIZER)}
    state = {"step": checkpoint.step, "sha256": hashes, "state": checkpoint.state}
    (aside / STATE).write_text(json.dumps(state, indent=1, allow_nan=False), encoding="utf-8")
    for name in (MODEL, OPTIMIZER, STATE):
        _sync(aside / name)
    _sync(aside)
    if final.exists():
        shutil.rmtree(final)
    aside.rename(final)
    _sync(folder)
    return final


def load_checkpoint(path: Path) -> Checkpoint:
    """Read one checkpoint and hold it against its hashes.

    Raises:
        CheckpointError: a file is missing, damaged, or not the one that was saved.
    """
    try:
        saved = json.loads((path / STATE).read_text(encoding="utf-8"))
        for name in (MODEL, OPTIMIZER):
            if _hash(path / name) != saved["sha256"][name]:
                raise CheckpointError(f"checkpoint {path} must be as it was saved, got another {name}")
        return Checkpoint(int(saved["step"]), load_file(path / MODEL), load_file(path / OPTIMIZER), saved["state"])
    except FileNotFoundError as error:
        raise CheckpointError(f"checkpoint {path} must be complete, got no {Path(error.filename).name}") from error
    except (ValueError, KeyError, TypeError, SafetensorError) as error:
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(f"checkpoint {path} must be readable, got {type(error).__name__} in it") from error


def newest_checkpoint(folder: Path, on_skip: Callable[[str], None]) -> Checkpoint | None:
    """Read the newest whole checkpoint; None if the folder holds none at all.

    Args:
        folder: the run's `checkpoints` folder.
        on_skip: is told of each newer one that cannot be used, and why.

    Raises:
        CheckpointError: there are checkpoints, and none of them is whole.
    """
    steps = checkpoint_steps(folder)
    for step in reversed(steps):
        try:
            return load_checkpoint(folder / str(step))
        except CheckpointError as error:
            on_skip(f"skipped: {error}")
    if steps:
        raise CheckpointError(f"checkpoints in {folder} must hold a whole one, got {len(steps)} damaged; start the run anew")
    return None


def checkpoint_steps(folder: Path) -> list[int]:
    """Steps that have a folder of their own, in numeric order, whole or not."""
    return sorted(int(path.name) for path in folder.iterdir() if path.name.isdigit()) if folder.is_dir() else []


def prune(folder: Path, keep: int) -> None:
    """Remove all but the newest `keep` checkpoints."""
    for step in checkpoint_steps(folder)[:-keep]:
        shutil.rmtree(folder / str(step))


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Flatten an optimizer's state, tensor by tensor, under `parameter index.name`."""
    state = optimizer.state_dict()["state"]
    return {f"{i}.{name}": value.detach().cpu().contiguous() for i, values in state.items() for name, value in values.items()}


def load_optimizer(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Put back what `optimizer_tensors` took."""
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        index, _, name = key.partition(".")
        state.setdefault(int(index), {})[name] = value
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
