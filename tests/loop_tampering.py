"""Change what a run folder says after the fact, every checksum right: the log is written anew, checkpoints get fresh hashes."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from rosellm.roserlhf.store import EventLog, LedgerEntry, Metrics, Policy, StoredTrajectory, Update
from rosellm.roserlhf.trajectory import PolicyAction, Trajectory

Item = StoredTrajectory | LedgerEntry | Policy | Metrics | Update
Change = Callable[[Any], Any]
"""Item -> the item to keep in its place; None: it is lost."""


def rewrite(folder: Path, change: Change) -> None:
    """Write the event log of a run anew, every live item as `change` leaves it."""
    old, new = folder / "events.db", folder / "new.db"
    with EventLog.read(old) as log, EventLog.create(new) as out, out.transaction():
        items: list[Item] = [*log.trajectories(), *log.ledger(), *log.policies(), *log.metrics(), *log.updates()]
        for item in items:
            kept = change(item)
            if kept is not None:
                _append(out, kept)
    for path in (*folder.glob("events.db*"), *folder.glob("new.db?*")):
        path.unlink()
    new.rename(old)


def _append(log: EventLog, item: Item) -> None:
    match item:
        case StoredTrajectory():
            log.append_trajectory(item.trajectory, step=item.step, phase=item.phase)
        case LedgerEntry():
            log.append_entries([item])
        case Policy():
            log.add_policy(item.version, step=item.step, parent=item.parent, content_hash=item.content_hash)
        case Metrics():
            log.append_metrics(item.phase, item.step, item.values)
        case Update():
            log.append_update(item)


def of_trajectory(trajectory_id: str, change: Callable[[Trajectory], Trajectory | None]) -> Change:
    """Change one record of a training step."""

    def changed(item: Any) -> Any:
        if not isinstance(item, StoredTrajectory) or item.trajectory.trajectory_id != trajectory_id:
            return item
        trajectory = change(item.trajectory)
        return None if trajectory is None else dataclasses.replace(item, trajectory=trajectory)

    return changed


def of_kind(kind: type[Any], step: int, change: Callable[[Any], Any]) -> Change:
    """Change the first item of a kind and step."""
    done: list[bool] = []

    def changed(item: Any) -> Any:
        if not isinstance(item, kind) or item.step != step or done:
            return item
        kept = change(item)
        if kept is not item:
            done.append(True)
        return kept

    return changed


def with_action(trajectory: Trajectory, index: int, change: Callable[[PolicyAction], PolicyAction]) -> Trajectory:
    """Put a changed action into a record."""
    actions = list(trajectory.actions)
    actions[index] = change(actions[index])
    return dataclasses.replace(trajectory, actions=actions)


def with_reward(trajectory: Trajectory, name: str, value: float) -> Trajectory:
    """Put another reward component into the last transition of a record."""
    *others, last = trajectory.transitions
    changed = dataclasses.replace(last, reward_components={**last.reward_components, name: value})
    return dataclasses.replace(trajectory, transitions=[*others, changed])


def with_logprob(update: Update, row: int, token: int, value: float) -> Update:
    """Put another current log-probability into the evidence of an update."""
    rows = list(update.rows)
    numbers = array("f", rows[row].current_logprobs)
    numbers[token] = value
    rows[row] = dataclasses.replace(rows[row], current_logprobs=numbers)
    return dataclasses.replace(update, rows=rows)


def flip_weight(checkpoint: Path, *, fix_hash: bool) -> None:
    """Flip the last bit of one weight of a checkpoint; `fix_hash`: and make `state.json` agree."""
    path = checkpoint / "model.safetensors"
    tensors = load_file(path)
    name = sorted(tensors)[-1]
    flat = tensors[name].view(-1).view(torch.int32)
    flat[3] ^= 1
    save_file(tensors, path)
    if fix_hash:
        state = json.loads((checkpoint / "state.json").read_text())
        state["sha256"]["model.safetensors"] = hashlib.sha256(path.read_bytes()).hexdigest()
        (checkpoint / "state.json").write_text(json.dumps(state))
