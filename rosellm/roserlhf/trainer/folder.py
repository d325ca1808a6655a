"""The run folder as the trainer makes it: `run.toml` first, for with it there is a run that can be resumed; the rest follows."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from rosellm.roserlhf.codec.chat import ChatCodec
from rosellm.roserlhf.config import build, dump_toml, load_toml
from rosellm.roserlhf.errors import CheckpointError, RunFolderError, StoreError
from rosellm.roserlhf.store.events import EventLog
from rosellm.roserlhf.trainer.checkpoint import checkpoint_steps
from rosellm.roserlhf.trainer.config import TrainConfig
from rosellm.roserlhf.trainer.disk import write_whole, writing
from rosellm.roserlhf.trainer.guarding import FOLDER, kept_rules
from rosellm.roserlhf.trainer.place import require_free
from rosellm.roserlhf.trainer.versions import versions

if TYPE_CHECKING:
    from rosellm.roserlhf.trainer.world import World

RUN, LOG, CHECKPOINTS, SUMMARY, REPORT = "run.toml", "events.db", "checkpoints", "summary.json", "report.html"


def make_folder(folder: Path, world: World) -> None:
    """Begin a new run; whatever fails, nothing is left behind.

    Raises:
        RunFolderError: something is there already, or the folder cannot be written.
    """
    require_free(folder)
    with _clear_errors(folder):
        made = next((parent for parent in reversed((folder, *folder.parents)) if not parent.exists()), None)
        about = {"rosellm": versions()["rosellm"], "torch": torch.__version__, "tokenizer": world.codec.tokenizer_hash}
        if isinstance(world.codec, ChatCodec):
            about["calls"] = world.codec.calls.name  # what `auto` became
        try:
            folder.mkdir(parents=True, exist_ok=True)
            write_whole(folder / RUN, dump_toml(world.config, about=about))
            equip(folder, world)
        except Exception:
            for path in [made] if made else list(folder.iterdir()):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            raise


def check_folder(folder: Path, config: TrainConfig) -> None:
    """Require that a folder holds the run that this configuration began.

    Raises:
        RunFolderError: no run, or one of another configuration; the message names the first difference.
        CheckpointError: there are checkpoints, but the event log is gone.
    """
    path = folder / RUN
    if not path.is_file():
        raise RunFolderError(f"out must hold a run to resume, got {folder} without {RUN}")
    options = load_toml(path)
    if options.get("recipe") == config.recipe:  # else the options are of another kind
        options = build(type(config), options).model_dump()
    different = difference(config.model_dump(), options)
    if different:
        raise RunFolderError(f"recipe must be the one the run was started with, got {different} {path} says")
    if not (folder / LOG).is_file() and checkpoint_steps(folder / CHECKPOINTS):
        raise CheckpointError(f"run {folder} must hold its event log to be resumed, got no {LOG}")


def equip(folder: Path, world: World) -> None:
    """Put event log, tokenizer and further rule files in their places if they are not there yet, each whole or not at all."""
    aside = folder / ".new"
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir()
    if not (folder / LOG).exists():
        EventLog.create(aside / LOG).close()
        os.replace(aside / LOG, folder / LOG)
    if not (folder / "tokenizer").exists():
        with writing(folder / "tokenizer"):
            world.tokenizer.save_pretrained(aside / "tokenizer")
        (aside / "tokenizer").rename(folder / "tokenizer")
    if world.config.guard.rules and not (folder / FOLDER).exists():
        (aside / FOLDER).mkdir()
        for name, text in kept_rules(world.config.guard):
            (aside / FOLDER / name).write_text(text, encoding="utf-8")
        (aside / FOLDER).rename(folder / FOLDER)
    shutil.rmtree(aside)


@contextlib.contextmanager
def _clear_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, StoreError) as error:
        raise RunFolderError(f"out must be a folder that can be written, got {folder}: {error}") from error


def difference(given: Mapping[str, Any], saved: Mapping[str, Any], prefix: str = "") -> str | None:
    """Say in words where two nested mappings first differ."""
    for name in given:
        one, other = given.get(name), saved.get(name)
        if isinstance(one, Mapping) and isinstance(other, Mapping):
            below = difference(one, other, f"{prefix}{name}.")
            if below:
                return below
        elif one != other:
            return f"{prefix}{name} = {one!r} where {other!r} is what"
    return None
