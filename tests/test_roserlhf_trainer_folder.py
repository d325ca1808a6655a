"""The run folder: begun whole or not at all, and never over something that is there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from loop_worlds import tiny

from rosellm.roserlhf import recipes
from rosellm.roserlhf.config import load_toml
from rosellm.roserlhf.errors import RunFolderError
from rosellm.roserlhf.store.events import EventLog
from rosellm.roserlhf.trainer.disk import write_whole
from rosellm.roserlhf.trainer.folder import make_folder
from rosellm.roserlhf.trainer.run import train
from rosellm.roserlhf.trainer.world import World


@pytest.fixture(scope="module")
def world() -> World:
    return World.build(tiny().config, "run")


def test_a_new_folder_describes_itself(tmp_path: Path, world: World) -> None:
    folder = tmp_path / "a" / "b" / "run"
    make_folder(folder, world)
    assert sorted(path.name for path in folder.iterdir()) == ["events.db", "run.toml", "tokenizer"]
    assert recipes.options_to_config(load_toml(folder / "run.toml")) == tiny().config
    assert world.codec.tokenizer_hash in (folder / "run.toml").read_text()
    with EventLog.open(folder / "events.db") as log:
        assert log.policies() == ()


def test_an_empty_folder_is_as_good_as_none(tmp_path: Path, world: World) -> None:
    make_folder(tmp_path, world)
    assert (tmp_path / "run.toml").is_file()


@pytest.mark.parametrize("what", ["file", "run", "stranger", "hidden"])
def test_what_is_there_is_never_overwritten(tmp_path: Path, world: World, what: str) -> None:
    out = tmp_path / "run"
    if what == "file":
        out.write_text("mine")
    elif what == "run":
        make_folder(out, world)
    else:
        out.mkdir()
        (out / ("notes.txt" if what == "stranger" else ".hidden")).write_text("mine")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(
        RunFolderError, match=r"out must be a new or empty folder, got .*; choose another, or go on with a run by --resume"
    ):
        train(tiny(), out=out)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_file_in_the_way_of_the_path_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(RunFolderError, match=r"out must be a folder that can be written, got .*file is not a folder"):
        train(tiny(), out=tmp_path / "file" / "run")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(RunFolderError, match="Permission denied"):
        train(tiny(), out=tmp_path / "run")


@pytest.mark.parametrize("was_there", [False, True])
@pytest.mark.parametrize("failing", ["run.toml", "events.db", "tokenizer"])
def test_whatever_fails_at_the_start_leaves_nothing_behind(
    tmp_path: Path, world: World, monkeypatch: pytest.MonkeyPatch, was_there: bool, failing: str
) -> None:
    out = tmp_path / "deep" / "run"
    if was_there:
        out.mkdir(parents=True)
    plain_open, plain_replace, plain_rename = Path.open, os.replace, Path.rename

    def full(plain: Any) -> Any:
        def maybe(path: Any, *args: Any, **options: Any) -> Any:
            if failing in Path(path).name:
                raise OSError(28, "No space left on device")
            return plain(path, *args, **options)

        return maybe

    monkeypatch.setattr(Path, "open", full(plain_open))
    monkeypatch.setattr(os, "replace", full(plain_replace))
    monkeypatch.setattr(Path, "rename", full(plain_rename))
    with pytest.raises(RunFolderError, match="No space left on device"):
        make_folder(out, world)
    monkeypatch.undo()
    assert list(tmp_path.rglob("*")) == ([out.parent, out] if was_there else [])
    make_folder(out, world)


@pytest.mark.parametrize("what", ["missing", "empty", "stranger"])
def test_only_a_run_can_be_resumed(tmp_path: Path, what: str) -> None:
    out = tmp_path / "run"
    if what != "missing":
        out.mkdir()
    if what == "stranger":
        (out / "notes.txt").write_text("mine")
    before = list(tmp_path.rglob("*"))
    with pytest.raises(RunFolderError, match=r"out must hold a run to resume, got .* without run\.toml"):
        train(tiny(), out=out, resume=True)
    assert list(tmp_path.rglob("*")) == before


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    for text in ("one", "two"):
        write_whole(tmp_path / "file", text)
    assert (tmp_path / "file").read_text() == "two"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
