"""The tables of an event log: `values -> row with a checksum -> the same values`.

Every row has two columns of its own: `superseded`, 1 once its step was run again, and `checksum`, the CRC-32 of its table, its
number and its values. Where a row is superseded the checksum's bits are inverted (it turns negative), so a mark that was damaged
shows, too. Rows are only ever added, or marked superseded; their numbers go up by one.

A record's bytes stand in a table of their own, so that scanning the columns does not touch them; the row of the same number in
`trajectories` holds their SHA-256. A name that is no valid Unicode (lone surrogates) is stored as a blob of its bytes; names are
data, never paths or SQL.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from rosellm.roserlhf.store.encoding import pack
from rosellm.roserlhf.trajectory import Trajectory


@dataclass(frozen=True, slots=True)
class Table:
    """One table and the statements that concern it."""

    name: str
    """Its name."""
    columns: tuple[str, ...]
    """What its rows hold, `row`, `superseded` and `checksum` aside."""
    schema: str
    """Creates it."""
    insertion: str
    """Adds a row: its number, `superseded`, `columns` and a checksum."""
    selection: str
    """The list of what identifies and fills a row: row, superseded, checksum, and the columns."""
    seed: int
    """What the checksums of its rows start from, so that a row passes in its own table only."""


def _table(name: str, **types: str) -> Table:
    columns = ", ".join(types)
    kinds = ", ".join(f"{column} {kind}" for column, kind in types.items())
    flags = "superseded INTEGER NOT NULL DEFAULT 0, checksum INTEGER NOT NULL"
    return Table(
        name,
        tuple(types),
        f"CREATE TABLE {name} (row INTEGER PRIMARY KEY, {kinds}, {flags});",
        f"INSERT INTO {name} (row, superseded, {columns}, checksum) VALUES (?, ?, {'?, ' * len(types)}?)",
        ", ".join(f"{name}.{column}" for column in ("row", "superseded", "checksum", *types)),
        zlib.crc32(name.encode()),
    )


_NAME, _COUNT = "TEXT NOT NULL", "INTEGER NOT NULL"
TRAJECTORIES = _table(
    "trajectories",
    trajectory_id=_NAME,
    task_id=_NAME,
    group_id="TEXT",
    phase=_NAME,
    step=_COUNT,
    tokens=_COUNT,
    version="TEXT",
    versions="BLOB",
    rewards="BLOB NOT NULL",
    unscored=_COUNT,
    ending="TEXT",
    digest="BLOB NOT NULL",
)
SCORES = _table("scores", trajectory_id=_NAME, turn=_COUNT, scorer_hash=_NAME, components="BLOB NOT NULL")
LEDGER = _table("ledger", attempt_id=_NAME, state=_NAME, step=_COUNT, reason="TEXT", sampled="INTEGER", rest="BLOB NOT NULL")
POLICIES = _table("policies", version=_NAME, step=_COUNT, parent="TEXT", content_hash="TEXT")
METRICS = _table("metrics", phase=_NAME, step=_COUNT, content="BLOB NOT NULL")
UPDATES = _table("updates", step=_COUNT, number=_COUNT, content="BLOB NOT NULL")

TABLES = (TRAJECTORIES, SCORES, LEDGER, POLICIES, METRICS, UPDATES)
"""All tables but `records`."""

_INDEXES = """
CREATE UNIQUE INDEX live_trajectory ON trajectories (trajectory_id, phase) WHERE superseded = 0;
CREATE INDEX trajectory_step ON trajectories (step, phase);
CREATE INDEX trajectory_version ON trajectories (version);
CREATE INDEX mixed_trajectory ON trajectories (row) WHERE versions IS NOT NULL;
CREATE INDEX score_trajectory ON scores (trajectory_id);
CREATE UNIQUE INDEX launched_attempt ON ledger (attempt_id) WHERE state = 'launched' AND superseded = 0;
CREATE INDEX ledger_step ON ledger (step);
CREATE UNIQUE INDEX live_policy ON policies (version) WHERE superseded = 0;
CREATE UNIQUE INDEX live_update ON updates (step, number) WHERE superseded = 0;
"""
INSERT_RECORD = "INSERT INTO records (row, record) VALUES (?, ?)"
_RECORDS = "\nCREATE TABLE records (row INTEGER PRIMARY KEY, record BLOB NOT NULL);"
SCHEMA = "\n".join(table.schema for table in TABLES) + _RECORDS + _INDEXES
"""The statements that make an empty log."""


def stored(table: Table, row: int, values: Sequence[Any], *, superseded: bool = False) -> tuple[Any, ...]:
    """Return what `Table.insertion` adds: row number, mark, values as they are stored, checksum."""
    for value in values:
        if isinstance(value, str) and not value.isascii():
            values = tuple(map(stored_name, values))
            break
    check = checksum(table, row, values)
    return (row, int(superseded), *values, ~check if superseded else check)


def checksum(table: Table, row: int, values: Sequence[Any]) -> int:
    """Compute the CRC-32 of a live row: of its table, its number and its values as they are stored."""
    return zlib.crc32(pack((row, *values)), table.seed)


def is_intact(table: Table, row: int, superseded: Any, found: Any, values: Sequence[Any]) -> bool:
    """Whether a row is what was written."""
    wanted = checksum(table, row, values)
    return superseded in (0, 1) and bool(found == (~wanted if superseded else wanted))


def trajectory_columns(trajectory: Trajectory, *, phase: str, step: int, record: bytes) -> tuple[Any, ...]:
    """Fill the columns of `TRAJECTORIES` from a record and its bytes at rest."""
    versions = trajectory.behavior_policy_versions
    return (
        trajectory.trajectory_id,
        trajectory.task_id,
        trajectory.group_id,
        phase,
        step,
        trajectory.sampled_tokens,
        versions[0] if versions else None,
        pack(versions) if len(versions) > 1 else None,
        pack(trajectory.reward_totals()),
        int(trajectory.is_unscored),
        trajectory.ending,
        sha256(record).digest(),
    )


def stored_name(value: Any) -> Any:
    """Return a name as it is stored, a blob if it is no valid Unicode; anything else stays what it is."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return value.encode("utf-8", "surrogatepass")
    return value


def name(stored: Any) -> Any:
    """Return a name as it was before it was stored; None stays None."""
    return stored.decode("utf-8", "surrogatepass") if isinstance(stored, bytes) else stored
