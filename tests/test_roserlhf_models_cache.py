"""The cache of derived files: made once, whole or absent, whoever else is at it, and wherever the user wants it."""

from __future__ import annotations

import multiprocessing
import os
import threading
from pathlib import Path

import pytest

from rosellm.roserlhf.errors import ModelError
from rosellm.roserlhf.models.cache import MANIFEST, cache_folder, cached


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep the cache in a folder of the test."""
    monkeypatch.setenv("ROSELLM_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def write(folder: Path) -> None:
    """Make an entry of two files."""
    (folder / "one").write_text("1" * 1000)
    (folder / "two").write_text("2")


def refuse(folder: Path) -> None:
    """Stand for a maker that must not be called."""
    raise AssertionError(folder)


def test_the_users_word_comes_first_then_xdg_then_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cache: Path) -> None:
    assert cache_folder() == cache
    monkeypatch.delenv("ROSELLM_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "rosellm"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # the standard: to be ignored
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "rosellm"


def test_an_entry_is_made_once() -> None:
    entry = cached("kind", "key", write)
    assert {path.name for path in entry.iterdir()} == {"one", "two", MANIFEST}
    assert cached("kind", "key", refuse) == entry
    assert cached("kind", "other", write) != entry


@pytest.mark.parametrize("damage", ["shorter", "missing", "no manifest", "torn manifest"])
def test_an_entry_that_lost_a_part_is_made_again(damage: str) -> None:
    entry = cached("kind", "key", write)
    path = entry / (MANIFEST if "manifest" in damage else "one")
    if damage in ("missing", "no manifest"):
        path.unlink()
    else:
        path.write_text(path.read_text()[:-1])
    cached("kind", "key", write)
    assert (entry / "one").read_text() == "1" * 1000
    cached("kind", "key", refuse)


def test_what_fails_leaves_nothing_and_what_died_is_cleared_away(cache: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "one").write_text("half")
        raise ModelError("no")

    with pytest.raises(ModelError, match=r"^no$"):
        cached("kind", "key", fail)
    assert [path.name for path in (cache / "kind").iterdir()] == [".key.lock"]
    (cache / "kind" / ".key.killed.tmp").mkdir()  # as a process that was killed leaves it
    (cache / "kind" / ".other.at-work.tmp").mkdir()
    cached("kind", "key", write)
    assert {path.name for path in (cache / "kind").iterdir()} == {".key.lock", "key", ".other.at-work.tmp"}


def test_threads_that_want_the_same_make_it_once() -> None:
    made = []

    def make(folder: Path) -> None:
        made.append(folder)
        write(folder)

    threads = [threading.Thread(target=cached, args=("kind", "key", make)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1


def _make_and_count(counts: str) -> None:
    def make(folder: Path) -> None:
        (Path(counts) / str(os.getpid())).touch()
        write(folder)

    cached("kind", "key", make)


def test_processes_that_want_the_same_make_it_once(tmp_path: Path) -> None:
    counts = tmp_path / "counts"
    counts.mkdir()
    context = multiprocessing.get_context("forkserver")
    processes = [context.Process(target=_make_and_count, args=(str(counts),)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert len(list(counts.iterdir())) == 1
    cached("kind", "key", refuse)


def test_a_cache_that_cannot_be_written_says_what_to_do(cache: Path) -> None:
    cache.write_text("a file")
    with pytest.raises(ModelError, match=r"cache must be writable, got .*cache/kind.*; set ROSELLM_CACHE"):
        cached("kind", "key", write)
