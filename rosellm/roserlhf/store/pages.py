"""A damaged SQLite file, page by page: `pages of the file and its write-ahead log -> rows`, without SQLite.

SQLite finds a row by way of other pages, and gives up where one of them is damaged. Here every page is looked at by itself, as the
documented file format has it (https://www.sqlite.org/fileformat2.html): leaves of tables hold rows, large rows go on in a chain of
overflow pages. What is found may be anything; whoever reads it checks the checksums.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_LEAF = 0x0D
_WAL_HEADER, _FRAME_HEADER = 32, 24
_INTEGER_BYTES = (0, 1, 2, 3, 4, 6, 8)
PAGE_SIZES = (8192, 4096, 65536, 32768, 16384, 2048, 1024, 512)
"""Sizes a page can have, those of event logs first."""

_BROKEN = (IndexError, ValueError, struct.error, UnicodeDecodeError)


@dataclass(frozen=True, slots=True)
class Cell:
    """One row where it stands; its values are read when they are asked for."""

    row: int
    """Its number."""
    columns: int
    """How many values it has."""
    values: Callable[[], Sequence[Any] | None]
    """Reads them; None if that cannot be done."""


class Pages:
    """All page images of a file and its write-ahead log, for one page size."""

    def __init__(self, database: bytes, log: bytes, size: int) -> None:
        """Find the images; of the log, those that were committed."""
        self.size = size
        self._file = [database[start : start + size] for start in range(0, len(database) - size + 1, size)]
        self._logged = list(_committed(log, size))
        self._newest = dict(self._logged)

    def cells(self) -> Iterator[Cell]:
        """Walk all rows of all table leaves, older images of a page before newer ones."""
        for number, page in enumerate(self._file, 1):
            yield from self._cells(page, 100 if number == 1 else 0)
        for number, page in self._logged:
            yield from self._cells(page, 100 if number == 1 else 0)

    def _cells(self, page: bytes, start: int) -> Iterator[Cell]:
        if page[start] != _LEAF:
            return
        for i in range(int.from_bytes(page[start + 3 : start + 5], "big")):
            with contextlib.suppress(*_BROKEN):
                place = start + 8 + 2 * i
                if place + 2 > self.size:
                    return
                yield self._cell(page, int.from_bytes(page[place : place + 2], "big"))

    def _cell(self, page: bytes, at: int) -> Cell:
        length, at = _varint(page, at)
        row, at = _varint(page, at)
        local = self._local(length)
        head, rest = page[at : at + local], page[at + local : at + local + 4]
        types = _types(head)
        chain = int.from_bytes(rest, "big") if local < length else 0
        return Cell(row, len(types), lambda: self._values(types, length, head, chain))

    def _local(self, length: int) -> int:
        """How many bytes of a row stand in its leaf."""
        most, least = self.size - 35, (self.size - 12) * 32 // 255 - 23
        if length <= most:
            return length
        wanted = least + (length - least) % (self.size - 4)
        return wanted if wanted <= most else least

    def _values(self, types: Sequence[int], length: int, head: bytes, chain: int) -> Sequence[Any] | None:
        for page_of in (self._newest_page, self._file_page):
            with contextlib.suppress(*_BROKEN):
                payload = head + self._overflow(chain, length - len(head), page_of)
                if len(payload) == length:
                    return _decoded(types, payload)
        return None

    def _overflow(self, number: int, wanted: int, page_of: Callable[[int], bytes]) -> bytes:
        parts = []
        while wanted > 0:
            page = page_of(number)
            number, part = int.from_bytes(page[:4], "big"), page[4 : 4 + wanted]
            parts.append(part)
            wanted -= len(part)
        return b"".join(parts)

    def _newest_page(self, number: int) -> bytes:
        return self._newest.get(number) or self._file_page(number)

    def _file_page(self, number: int) -> bytes:
        if number < 1:
            raise IndexError("no such page")
        return self._file[number - 1]


def page_size(database: bytes, log: bytes) -> int | None:
    """Read the size of a page from the file's header, or that of its log; None if both are damaged."""
    named = int.from_bytes(database[16:18], "big") if database[:16] == b"SQLite format 3\0" else 0
    logged = int.from_bytes(log[8:12], "big") if log[:3] == b"\x37\x7f\x06" else 0
    for size in (named, 65536 if named == 1 else 0, logged):
        if size in PAGE_SIZES:
            return size
    return None


def contents(path: Path) -> bytes:
    """Read a whole file; one that is not there is empty."""
    with contextlib.suppress(FileNotFoundError):
        return path.read_bytes()
    return b""


def _committed(log: bytes, size: int) -> Iterator[tuple[int, bytes]]:
    """Walk the log's page images up to the last commit; what follows belongs to a transaction that never ended."""
    frames = []
    salt = log[16:24] if log[:3] == b"\x37\x7f\x06" else log[_WAL_HEADER + 8 : _WAL_HEADER + 16]
    end = 0
    for start in range(_WAL_HEADER, len(log) - _FRAME_HEADER - size + 1, _FRAME_HEADER + size):
        number, pages_after = struct.unpack_from(">II", log, start)
        if log[start + 8 : start + 16] != salt:
            continue
        body = start + _FRAME_HEADER
        frames.append((number, log[body : body + size]))
        end = len(frames) if pages_after else end
    yield from frames[:end]


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for i in range(8):
        byte = data[at + i]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + i + 1
    value = value << 8 | data[at + 8]
    return value - (1 << 64) if value >= 1 << 63 else value, at + 9


def _types(head: bytes) -> list[int]:
    size, at = _varint(head, 0)
    types = []
    while at < size:
        kind, at = _varint(head, at)
        types.append(kind)
    return types


def _decoded(types: Sequence[int], payload: bytes) -> list[Any]:
    at, _ = _varint(payload, 0)
    values: list[Any] = []
    for kind in types:
        value, at = _value(kind, payload, at)
        values.append(value)
    return values


def _value(kind: int, payload: bytes, at: int) -> tuple[Any, int]:
    if kind in (0, 8, 9):
        return {0: None, 8: 0, 9: 1}[kind], at
    if kind == 7:
        return struct.unpack_from(">d", payload, at)[0], at + 8
    if kind in (10, 11) or kind < 0:
        raise ValueError("a reserved type")
    end = at + (_INTEGER_BYTES[kind] if kind < 7 else (kind - 12) // 2)
    data = payload[at:end]
    if len(data) != end - at:
        raise ValueError("cut")
    if kind < 7:
        return int.from_bytes(data, "big", signed=True), end
    return (data.decode() if kind % 2 else data), end
