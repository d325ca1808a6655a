"""Derived files, made once per machine and kept: `key -> folder`, whole or absent, whoever else makes the same at the same time.

The folder is `$ROSELLM_CACHE`, else `$XDG_CACHE_HOME/rosellm`, else `~/.cache/rosellm`. An entry is written under a temporary name,
flushed and renamed; its manifest, part of what is renamed, lists the size of every file, so that an entry that lost a part since is
made again instead of used. One process makes an entry, the others wait for it; a lock ends with the process that held it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from rosellm.roserlhf.errors import ModelError

MANIFEST = "manifest.json"


def cache_folder() -> Path:
    """Tell where derived files are kept."""
    own = os.environ.get("ROSELLM_CACHE")
    if own:
        return Path(own).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base and Path(base).is_absolute() else Path.home() / ".cache") / "rosellm"


def cached(kind: str, key: str, make: Callable[[Path], None]) -> Path:
    """Return the folder of an entry, made first if it is not there whole.

    Args:
        kind: what sort of thing it is: a folder of the cache.
        key: names everything that the content depends on.
        make: writes the content into an empty folder.

    Raises:
        ModelError: the cache cannot be written.
    """
    shelf = cache_folder() / kind
    entry = shelf / key
    if _whole(entry):
        return entry
    try:
        shelf.mkdir(parents=True, exist_ok=True)
        with _locked(shelf / f".{key}.lock"):
            if not _whole(entry):
                _make(shelf, entry, make)
    except OSError as error:
        why = f"{error.strerror or error}"
        raise ModelError(f"cache must be writable, got {shelf}: {why}; set ROSELLM_CACHE to a folder that is") from error
    return entry


def _make(shelf: Path, entry: Path, make: Callable[[Path], None]) -> None:
    for left in shelf.glob(f".{entry.name}.*.tmp"):  # of processes that died; the lock says that none of them is at work
        shutil.rmtree(left, ignore_errors=True)
    aside = Path(tempfile.mkdtemp(dir=shelf, prefix=f".{entry.name}.", suffix=".tmp"))
    try:
        make(aside)
        sizes = {path.name: path.stat().st_size for path in sorted(aside.iterdir())}
        (aside / MANIFEST).write_text(json.dumps(sizes, indent=1), encoding="utf-8")
        for path in (*aside.iterdir(), aside):
            _sync(path)
        shutil.rmtree(entry, ignore_errors=True)
        aside.rename(entry)
        _sync(shelf)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _whole(entry: Path) -> bool:
    """Tell whether every file that was made is there at its full size."""
    try:
        sizes = json.loads((entry / MANIFEST).read_text(encoding="utf-8"))
        return all((entry / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError, AttributeError):
        return False


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
