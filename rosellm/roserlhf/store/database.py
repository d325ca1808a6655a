"""One SQLite file: who may write it, which schema it has, and errors in one clear sentence.

```
writer  --commits-->  events.db-wal  --checkpoint-->  events.db
readers --snapshot--^ never wait for the writer, nor it for them
```

Write-ahead log with `synchronous=NORMAL`: a killed process loses nothing that was acknowledged; a power cut can lose the commits
after the last :meth:`Database.flush`, which waits until the disk has the log, but never leaves half of one. The writer holds an
exclusive lock on `events.db.lock`, itself an empty SQLite file: such a lock dies with its process and is not inherited by a fork.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import quote

from rosellm.roserlhf.errors import StoreError
from rosellm.roserlhf.store.migration import migrate

APPLICATION_ID = 0x526F7365
"""Marks the file as an event log of this package."""
SCHEMA_VERSION = 2
"""Version of the tables."""

_PAGE_SIZE = 8192
_CHECKPOINT_PAGES = 2000
_WAL_HEADER, _FRAME_HEADER = 32, 24

REPAIR = "`roserlhf doctor RUN --repair`"
"""The command that calls `store.recover`."""


class Database:
    """A connection with explicit transactions; `create`, `append` and `read` are the three ways to get one."""

    def __init__(self, path: Path, connection: sqlite3.Connection, lock: sqlite3.Connection | None) -> None:
        self.path = path
        self.writable = lock is not None
        self._connection = connection
        self._lock = lock
        self._transaction = Transaction(self)
        self._broken = False
        self.on_undo: Callable[[], None] = lambda: None
        """Called when a transaction is undone."""

    @classmethod
    def create(cls, path: Path, schema: str) -> Database:
        """Create a new file with the tables of `schema` and open it for writing."""
        if path.exists():
            raise StoreError(f"{path} must not exist yet; open it to append to it")
        with clear_errors(path, "created"):
            is_first = not lock_file(path).exists()
            try:
                lock = writer_lock(path)
                try:
                    return cls(path, _new_file(path, schema), lock)
                except BaseException:
                    lock.close()
                    raise
            except BaseException:
                if is_first:
                    lock_file(path).unlink(missing_ok=True)
                raise

    @classmethod
    def append(cls, path: Path) -> Database:
        """Open an existing file for writing."""
        _require_file(path)
        with clear_errors(path, "opened for writing"):
            lock = writer_lock(path)
            try:
                _report_torn_tail(path)
                return cls(path, _current(_connect(path, "rw"), path), lock)
            except BaseException:
                lock.close()
                raise

    @classmethod
    def read(cls, path: Path) -> Database:
        """Open an existing file for reading, beside a writer or in a folder that cannot be written."""
        _require_file(path)
        with clear_errors(path, "read"):
            _report_torn_tail(path)
            try:
                return cls(path, _current_copy(_connect(path, "ro"), path), None)
            except sqlite3.OperationalError:
                # Reading a write-ahead log needs a shared-memory file beside it, which a read-only folder refuses. Without a log
                # there is no writer, so the file can be read as it lies.
                if wal_file(path).exists():
                    raise
                return cls(path, _current_copy(_connect(path, "ro&immutable=1"), path), None)

    def close(self) -> None:
        """Close the file; a writer gives up its lock."""
        self._connection.close()
        if self._lock is not None:
            self._lock.close()

    def transaction(self) -> Transaction:
        """Make everything written inside one atomic commit; an exception undoes it all. Blocks nest: the outermost commits.

        After a write that the disk refused nothing more can be written inside the block, whoever caught the error: what is
        committed is whole.
        """
        self._require_writable()
        return self._transaction

    def _begin(self) -> None:
        self._run("BEGIN IMMEDIATE")
        self._broken = False

    def _commit(self) -> None:
        self._require_whole()
        self._run("COMMIT")

    def _undo(self) -> None:
        self.on_undo()
        if self._connection.in_transaction:
            self._run("ROLLBACK")

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[None]:
        """Let every read inside the block see the file as it is now; meanwhile the write-ahead log cannot shrink."""
        if self._connection.in_transaction:
            raise StoreError(f"{self.path} cannot be read as of one moment inside a transaction; read it after its end")
        self.rows("BEGIN")
        try:
            yield
        finally:
            self.rows("ROLLBACK")

    def write(self, sql: str, values: Sequence[Any]) -> int:
        """Run one writing statement inside a transaction and return the number of rows it touched."""
        self._require_whole()
        return self._run(sql, values).rowcount

    def write_new(self, sql: str, values: Sequence[Any]) -> bool:
        """Add one row inside a transaction; return False if a unique index has it already."""
        self._require_whole()
        try:
            self._connection.execute(sql, values)
        except sqlite3.IntegrityError:
            return False
        except _ERRORS as error:
            raise self._failed(error) from error
        return True

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run one reading statement and return its rows."""
        try:
            found: list[tuple[Any, ...]] = self._connection.execute(sql, values).fetchall()
        except _ERRORS as error:
            raise _clear(self.path, "read", error) from error
        return found

    def flush(self) -> None:
        """Wait until the disk holds the log: what was acknowledged so far survives a power cut.

        A checkpoint would write everything a second time; it comes by itself, when the log has grown.
        """
        self._require_writable()
        if self._transaction.depth:
            raise StoreError(f"{self.path} cannot be flushed inside a transaction; flush after its end")
        try:
            with contextlib.suppress(FileNotFoundError):  # nothing was written since the file was opened
                wait_for_disk(wal_file(self.path))
        except OSError as error:
            raise _clear(self.path, "flushed", error) from error

    def _run(self, sql: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        try:
            return self._connection.execute(sql, values)
        except _ERRORS as error:
            raise self._failed(error) from error

    def _failed(self, error: Exception) -> StoreError:
        self._broken = isinstance(error, sqlite3.OperationalError)
        return _clear(self.path, "written", error)

    def _require_writable(self) -> None:
        if not self.writable:
            raise StoreError(f"{self.path} was opened for reading and cannot be written")

    def _require_whole(self) -> None:
        self._require_writable()
        if self._broken or not self._connection.in_transaction:
            raise StoreError(f"{self.path} cannot be written: an earlier write of this transaction failed, and all of it is undone")


class Transaction:
    """The open transaction of a database, or the next one; one object serves them all, because an append should cost little."""

    __slots__ = ("_database", "depth")

    def __init__(self, database: Database) -> None:
        """Belong to a database."""
        self._database = database
        self.depth = 0

    def __enter__(self) -> None:
        if not self.depth:
            self._database._begin()
        self.depth += 1

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.depth -= 1
        if self.depth:
            return
        try:
            if kind is None:
                self._database._commit()
        except BaseException:
            self._database._undo()
            raise
        if kind is not None:
            self._database._undo()


_ERRORS = (sqlite3.Error, UnicodeEncodeError, OverflowError, OSError)


def _clear(path: Path, doing: str, error: Exception) -> StoreError:
    """Put what SQLite says in one sentence that names the file."""
    if isinstance(error, (UnicodeEncodeError, OverflowError)):
        return StoreError(f"{path} cannot be {doing}: a name must be valid Unicode and a number fit 64 bits ({error})")
    if isinstance(error, OSError):
        return StoreError(f"{path} cannot be {doing}: {error.strerror or error}")
    return StoreError(f"{path} cannot be {doing}: {error}{_advice(str(error))}")


@contextlib.contextmanager
def clear_errors(path: Path, doing: str) -> Iterator[None]:
    """Turn what SQLite and the disk say inside the block into one sentence each."""
    try:
        yield
    except _ERRORS as error:
        raise _clear(path, doing, error) from error


def _advice(message: str) -> str:
    if "not a database" in message or "malformed" in message:
        return f"; the file is damaged or not an event log: restore it from a copy, or {REPAIR} keeps what can be read"
    if "unable to open" in message or "readonly" in message:
        return "; check that the folder exists and that you may write in it"
    return ""


def _require_file(path: Path) -> None:
    if not path.is_file():
        raise StoreError(f"{path} must be an event log, got {'a folder' if path.is_dir() else 'no such file'}")


_sync = getattr(os, "fdatasync", os.fsync)  # data and length; the time of the last change may be lost


def wait_for_disk(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    # Closing a file drops all POSIX locks that this process holds on it, so never do this to the database itself.
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        _sync(handle)
    finally:
        os.close(handle)


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    connection = sqlite3.connect(f"file:{quote(str(path.resolve()))}?mode={mode}", uri=True, isolation_level=None)
    connection.execute("PRAGMA busy_timeout = 10000")
    return connection


def writer_lock(path: Path) -> sqlite3.Connection:
    """Become the one writer of a log, until the returned connection is closed."""
    lock = sqlite3.connect(lock_file(path), isolation_level=None, timeout=0)
    try:
        lock.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError as error:
        lock.close()
        if "locked" not in str(error):
            raise
        raise StoreError(
            f"{path} has a writer already; an event log has one at a time, read it or wait until that one closes"
        ) from error
    return lock


def _new_file(path: Path, schema: str) -> sqlite3.Connection:
    connection = _connect(path, "rwc")
    try:
        connection.execute(f"PRAGMA page_size = {_PAGE_SIZE}")
        connection.execute("PRAGMA journal_mode = WAL")
        _tune(connection)
        connection.executescript(
            f"BEGIN IMMEDIATE; {schema} PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;"
        )
    except BaseException:
        connection.close()
        for leftover in (path, wal_file(path), path.with_name(path.name + "-shm")):
            leftover.unlink(missing_ok=True)
        raise
    return connection


def _tune(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")


def _current(connection: sqlite3.Connection, path: Path) -> sqlite3.Connection:
    """Bring a file of an older schema to the present one, in one transaction."""
    try:
        older = _version(connection, path)
        _tune(connection)
        if older != SCHEMA_VERSION:
            connection.execute("BEGIN IMMEDIATE")
            migrate(connection, path)
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            connection.execute("COMMIT")
    except BaseException:
        connection.close()  # rolls back
        raise
    return connection


def _current_copy(connection: sqlite3.Connection, path: Path) -> sqlite3.Connection:
    """Read a file of an older schema through a temporary copy of the present one; the file stays as it is."""
    try:
        if _version(connection, path) == SCHEMA_VERSION:
            return connection
        note = (
            f"{path} is of an older schema and is translated for this reading; opening it for writing once translates it for good"
        )
        warnings.warn(note, RuntimeWarning, stacklevel=4)
        copy = sqlite3.connect("", isolation_level=None)  # a temporary file, gone when it is closed
        connection.backup(copy)
    except BaseException:
        connection.close()
        raise
    connection.close()
    return _current(copy, path)


def _version(connection: sqlite3.Connection, path: Path) -> int:
    """Return the schema version; refuse another program's file and a newer schema."""
    application, version = (int(connection.execute(f"PRAGMA {name}").fetchone()[0]) for name in ("application_id", "user_version"))
    if application != APPLICATION_ID:
        raise StoreError(f"{path} must be an event log, got another SQLite database")
    if not 1 <= version <= SCHEMA_VERSION:
        raise StoreError(
            f"{path} must have schema version {SCHEMA_VERSION} or an older one, got {version}; "
            "use the rosellm that wrote it, or a newer one"
        )
    return version


def lock_file(path: Path) -> Path:
    """Where the writer's lock is."""
    return path.with_name(path.name + ".lock")


def wal_file(path: Path) -> Path:
    """Where the write-ahead log is."""
    return path.with_name(path.name + "-wal")


def _report_torn_tail(path: Path) -> None:
    """Warn about a log that ends in the middle of a frame: SQLite skips that last commit without a word."""
    wal = wal_file(path)
    size = wal.stat().st_size if wal.exists() else 0
    if size <= _WAL_HEADER:
        return
    with wal.open("rb") as file:
        page = int.from_bytes(file.read(12)[8:], "big")
    if page and (size - _WAL_HEADER) % (page + _FRAME_HEADER):
        note = f"{wal} ends in the middle of a write: the unfinished commit is skipped, everything before it is kept"
        warnings.warn(note, RuntimeWarning, stacklevel=4)
