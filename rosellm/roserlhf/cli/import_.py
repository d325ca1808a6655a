"""`roserlhf import`: an export -> a new event log, equal to the exported one in every read."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

from rosellm.roserlhf.cli.export import described
from rosellm.roserlhf.cli.options import Flag, option_help, parse
from rosellm.roserlhf.config import Config
from rosellm.roserlhf.errors import ConfigError, StoreError
from rosellm.roserlhf.store.export.folder import manifest_of

FLAGS = {
    "out": Flag("run folder to make, or the events.db itself", "RUN"),
    "help": Flag("this list"),
}
FORMATS = ("parquet", "jsonl")


def run(argv: Sequence[str]) -> int:
    """Import as the command line says; return the exit code."""
    parsed = parse(argv, Config, flags=FLAGS, operands=("FILE_OR_FOLDER",))
    if "help" in parsed.flags:
        print(f"usage: roserlhf import FILE_OR_FOLDER --out RUN\n\n{option_help(Config, FLAGS)}", end="")
        return 0
    if "out" not in parsed.flags:
        raise ConfigError("--out must be given: the run folder to make, or the events.db itself")
    source, out = Path(parsed.operands[0]), Path(parsed.flags["out"])
    path = out if out.suffix == ".db" else out / "events.db"
    if format_of(source) == "parquet":
        from rosellm.roserlhf.store.export.parquet import import_parquet as read
    else:
        from rosellm.roserlhf.store.export.lines import import_jsonl as read
    with warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("always")
        counts = read(source, path)
    for note in noted:
        print(f"roserlhf: warning: {note.message}", file=sys.stderr)
    for table, count in counts.lost.items():
        print(f"roserlhf: warning: {count:,} rows of {table} are lost: the export once held them", file=sys.stderr)
    print(f"{path}: {described(counts)}")
    return 0


def format_of(source: Path) -> str:
    """Tell an export's format by its manifest, or a file's by its suffix.

    Raises:
        StoreError: there is no export, or one of each format.
    """
    if not source.exists():
        raise StoreError(f"{source} must be an export, got no such file or folder")
    if source.is_dir():
        found = [name for name in FORMATS if manifest_of(source, name).is_file()]
    else:
        found = [name for name in FORMATS if source.suffix == f".{name}"]
    if len(found) != 1:
        kinds = "one of each format; name the file of the records" if found else "neither"
        raise StoreError(f"{source} must be the folder of a Parquet or JSON lines export, or its file of records, got {kinds}")
    return found[0]
