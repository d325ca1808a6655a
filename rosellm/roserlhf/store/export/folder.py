"""The folder of an export: `one file per table, each whole -> a manifest that counts them`.

```
OUT/trajectories.parquet     the records
OUT/tables/ledger.parquet    the other tables of the log: scores, ledger, policies, metrics, updates
OUT/export-parquet.json      the manifest, written last: without it the folder is not a whole export
```
Another format has files of its own beside these (`trajectories.jsonl`, ...).
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rosellm.roserlhf import __version__
from rosellm.roserlhf.errors import StoreError
from rosellm.roserlhf.store.tables import LEDGER, METRICS, POLICIES, SCORES, TRAJECTORIES, UPDATES

EXPORT_SCHEMA = 1
"""Version of the columns of an export."""
WRITTEN_BY = f"rosellm {__version__}"
OTHERS = (SCORES, LEDGER, POLICIES, METRICS, UPDATES)
"""Tables that stand beside the records."""


@dataclass(frozen=True, slots=True)
class Counts:
    """What was exported or imported."""

    rows: Mapping[str, int]
    """Rows of the log by table."""
    tokens: int
    """Tokens in the rows of the records."""
    lost: Mapping[str, int]
    """Rows that the manifest counts and the files do not hold (a torn last line), by table; empty if none."""


def file_of(folder: Path, table: str, suffix: str) -> Path:
    """Name the file of a table."""
    return folder / f"{table}.{suffix}" if table == TRAJECTORIES.name else folder / "tables" / f"{table}.{suffix}"


def manifest_of(folder: Path, suffix: str) -> Path:
    """Name the manifest of a format."""
    return folder / f"export-{suffix}.json"


@contextlib.contextmanager
def new_export(folder: Path, suffix: str, *, overwrite: bool) -> Iterator[Path]:
    """Give a folder to write files into; they take their places when the block has ended well.

    Raises:
        StoreError: an export of this format is there and `overwrite` is False, or the folder cannot be written.
    """
    places = [file_of(folder, table.name, suffix) for table in (*OTHERS, TRAJECTORIES)] + [manifest_of(folder, suffix)]
    taken = [place for place in places if place.exists()]
    if taken and not overwrite:
        raise StoreError(f"{taken[0]} must not exist yet; name another folder, or ask to overwrite")
    made = next((parent for parent in reversed((folder, *folder.parents)) if not parent.exists()), None)
    with _clear_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(prefix=".export-", dir=folder))
        try:
            (aside / "tables").mkdir()
            yield aside
            _publish(aside, folder, places)
        except BaseException:
            shutil.rmtree(made or aside, ignore_errors=True)
            raise
        shutil.rmtree(aside)


def _publish(aside: Path, folder: Path, places: list[Path]) -> None:
    for place in places:
        sync(aside / place.relative_to(folder))
    (folder / "tables").mkdir(exist_ok=True)
    for place in reversed(places):  # the old manifest goes first and the new one comes last: there is never one over mixed files
        place.unlink(missing_ok=True)
    for place in places:
        os.replace(aside / place.relative_to(folder), place)
    sync(folder / "tables")
    sync(folder)


def sync(path: Path) -> None:
    """Wait until the disk holds a file, or the names in a folder."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_manifest(folder: Path, suffix: str, rows: Mapping[str, int], filters: Mapping[str, Any]) -> None:
    """Write what the export holds."""
    about = {"schema": EXPORT_SCHEMA, "written_by": WRITTEN_BY, "format": suffix, "filters": dict(filters), "rows": dict(rows)}
    manifest_of(folder, suffix).write_text(json.dumps(about, indent=1) + "\n", encoding="ascii")


def read_manifest(folder: Path, suffix: str) -> Mapping[str, int]:
    """Read the rows of every table.

    Raises:
        StoreError: there is no whole export of this format here, or one of a newer schema.
    """
    path = manifest_of(folder, suffix)
    try:
        about = json.loads(path.read_text(encoding="ascii"))
        rows, schema = {table.name: about["rows"][table.name] for table in (TRAJECTORIES, *OTHERS)}, about["schema"]
    except FileNotFoundError:
        raise StoreError(f"{folder} must hold a whole export, got no {path.name}") from None
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise StoreError(f"{path} must say what the export holds, got a file that does not: {error!r:.200}") from error
    require_schema(schema, path)
    if not all(type(count) is int for count in rows.values()):
        raise StoreError(f"{path} must count rows, got {rows}")
    return rows


def require_schema(schema: object, path: Path) -> None:
    """Refuse an export of a newer schema."""
    if type(schema) is not int or not 1 <= schema <= EXPORT_SCHEMA:
        raise StoreError(f"{path} must have an export schema in [1, {EXPORT_SCHEMA}], got {schema!r:.80}; upgrade rosellm")


@contextlib.contextmanager
def _clear_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(f"an export cannot be written to {folder}: {error.strerror or error}") from error
