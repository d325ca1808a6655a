"""A checksum for the footer of a Parquet file, which has none: `data | footer -> data | "RoSe" + CRC-32 | footer`.

Pages have checksums, but pyarrow parses the footer first, and a flipped bit in it can end the process. Between data and footer a
Parquet file may hold anything, and readers find the footer from the end, so to them the file is what it was.
"""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import BinaryIO

from rosellm.roserlhf.errors import StoreError

_MARK = struct.Struct("<4sI")
_END = struct.Struct("<I4s")
_MAGIC, _LARGEST = b"PAR1", 2**30


def protect_footer(path: Path) -> None:
    """Put the checksum in front of the footer of a file that was just written."""
    with path.open("r+b") as file:
        footer = _footer(path, file)
        file.seek(-len(footer) - _END.size, 2)
        file.write(_MARK.pack(b"RoSe", zlib.crc32(footer)) + footer + _END.pack(len(footer), _MAGIC))


def check_footer(path: Path) -> None:
    """Require the footer to be what was written.

    Raises:
        StoreError: the file is no Parquet, of another program, or its footer was damaged.
    """
    with path.open("rb") as file:
        footer = _footer(path, file)
        file.seek(max(0, file.seek(0, 2) - len(footer) - _END.size - _MARK.size))
        found = file.read(_MARK.size)
    mark, checksum = _MARK.unpack(found) if len(found) == _MARK.size else (b"", 0)
    if mark != b"RoSe":
        raise StoreError(f"{path} must be a file of an export, got Parquet of another program, or a damaged file")
    if checksum != zlib.crc32(footer):
        raise StoreError(f"{path} is damaged: its footer does not match its checksum")


def _footer(path: Path, file: BinaryIO) -> bytes:
    size = file.seek(0, 2)
    file.seek(max(0, size - _END.size))
    end = file.read(_END.size)
    length, magic = _END.unpack(end) if len(end) == _END.size else (0, b"")
    if magic != _MAGIC or not 0 < length <= min(_LARGEST, size - _END.size):
        raise StoreError(f"{path} must be a Parquet file, got {size} bytes that are none; it may have been cut")
    file.seek(size - _END.size - length)
    return file.read(length)
