"""Whole checkpoints or none: `<step>/{model.safetensors, optimizer.safetensors, state.json}`, written aside and renamed.

`state.json` is written last and holds the hashes of everything; a folder that does not match it is skipped, with the reason, in
favour of the one before. What is not finite is never saved, and no checkpoint goes before the one that replaces it is complete:
while a step is saved again, its older checkpoint waits under `.<step>.old`, where it is found if the process dies in between.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
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
from rosellm.roserlhf.trainer.disk import writing

MODEL, OPTIMIZER, STATE = "model.safetensors", "optimizer.safetensors", "state.json"
_ASIDE, _OLD = ".{}.tmp", ".{}.old"
_NAME = re.compile(r"(\d+)|\.(\d+)\.old")


@dataclass(frozen=True)
class Checkpoint:
    """What a run needs to go on after `step`."""

    step: int
    model: dict[str, Tensor]
    optimizer: dict[str, Tensor]
    state: Mapping[str, Any]
    """Plain JSON values under string names: seconds spent so far and the like."""


def save_checkpoint(folder: Path, checkpoint: Checkpoint) -> Path:
    """Write one checkpoint atomically.

    Args:
        folder: the run's `checkpoints` folder.

    Raises:
        CheckpointError: a weight or a moment of the optimizer is NaN or infinite.
        RunFolderError: the disk refuses; nothing half-written is left.
    """
    for name, tensor in {**checkpoint.model, **checkpoint.optimizer}.items():
        if not bool(tensor.isfinite().all()):
            raise CheckpointError(f"{name} must be finite to be saved, got NaN or infinity at step {checkpoint.step}")
    final, aside, old = (folder / name.format(checkpoint.step) for name in ("{}", _ASIDE, _OLD))
    with writing(final):
        try:
            _write(aside, checkpoint)
        except Exception:
            shutil.rmtree(aside, ignore_errors=True)  # the room is needed
            raise
        if final.exists():
            shutil.rmtree(old, ignore_errors=True)
            final.rename(old)
        aside.rename(final)
        _sync(folder)
    shutil.rmtree(old, ignore_errors=True)
    return final


def _write(aside: Path, checkpoint: Checkpoint) -> None:
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    save_file(checkpoint.model, aside / MODEL)
    save_file(checkpoint.optimizer, aside / OPTIMIZER)
    hashes = {name: _hash(aside / name) for name in (MODEL, OPTIMIZER)}
    hashes[STATE] = _state_hash(checkpoint.step, checkpoint.state)
    state = {"step": checkpoint.step, "sha256": hashes, "state": checkpoint.state}
    (aside / STATE).write_text(json.dumps(state, indent=1, allow_nan=False), encoding="utf-8")
    for name in (MODEL, OPTIMIZER, STATE):
        _sync(aside / name)
    _sync(aside)


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
        if _state_hash(saved["step"], saved["state"]) != saved["sha256"][STATE]:
            raise CheckpointError(f"checkpoint {path} must be as it was saved, got another {STATE}")
        return Checkpoint(int(saved["step"]), load_file(path / MODEL), load_file(path / OPTIMIZER), saved["state"])
    except FileNotFoundError as error:
        raise CheckpointError(f"checkpoint {path} must be complete, got no {Path(error.filename).name}") from error
    except OSError as error:
        raise CheckpointError(f"checkpoint {path} must be readable, got {error.strerror or error}") from error
    except (ValueError, KeyError, TypeError, RecursionError, SafetensorError) as error:
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
            return load_checkpoint(_place(folder, step))
        except CheckpointError as error:
            on_skip(f"skipped: {error}")
    if steps:
        raise CheckpointError(f"checkpoints in {folder} must hold a whole one, got {len(steps)} damaged; start the run anew")
    return None


def checkpoint_steps(folder: Path) -> list[int]:
    """Steps that have a checkpoint, in numeric order, whole or not."""
    names = {path.name for path in folder.iterdir() if path.is_dir()} if folder.is_dir() else set()
    return sorted({int(match.group(1) or match.group(2)) for name in names if (match := _NAME.fullmatch(name))})


def prune(folder: Path, keep: int, newest: int) -> None:
    """Remove all but the first and the last `keep` checkpoints up to the step `newest`, which was just saved.

    The first, of step 0, stays for good: from it every step can be replayed. What is later than `newest` is of a past that could
    not be resumed from; it is saved over when its step comes again. What a process that died left aside goes, too.
    """
    for step in [step for step in checkpoint_steps(folder) if 0 < step <= newest][:-keep]:
        aside = folder / _ASIDE.format(step)
        shutil.rmtree(aside, ignore_errors=True)
        _place(folder, step).rename(aside)  # at no moment is half of it there under its name
    for leftover in folder.glob(_ASIDE.format("*")):
        shutil.rmtree(leftover)


def _place(folder: Path, step: int) -> Path:
    final = folder / str(step)
    return final if final.exists() else folder / _OLD.format(step)


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


def _state_hash(step: int, state: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps([step, state], sort_keys=True, allow_nan=False).encode()).hexdigest()


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
