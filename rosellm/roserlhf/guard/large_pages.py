"""Memory in large pages: what the guard makes lies scattered over more small ones than a processor keeps the addresses of.

Rules, automata and weights are some 100 MB, of which each call touches a little everywhere, and a page not touched lately has
to be looked up first. Linux can hold the same memory in pages of 2 MiB, of which a few dozen do.
"""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

MOST: Final = 1 << 29
"""Bytes that are moved at most; it takes some four seconds for each GiB."""
_WANTED, _NOW = 14, 25
"""`MADV_HUGEPAGE` and `MADV_COLLAPSE` of Linux: large pages are welcome here, and to be made at once."""
_SIZE = Path("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size")
_MAPS = Path("/proc/self/maps")
_OWN = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) rw-p \S+ \S+ 0 *(\[heap\])?$", re.M)
"""Memory that is this process's alone and no file's."""


@cache
def use_large_pages() -> int:
    """Move what the process holds in memory so far into large pages, once; nothing that it can see changes.

    Returns:
        Bytes in ranges that the kernel took, at most `MOST`; 0 on other systems, on Linux before 6.1, and where the administrator
        rules it out.

    Example:
        >>> use_large_pages() >= 0
        True
    """
    if sys.platform != "linux":
        return 0
    try:
        size, maps = int(_SIZE.read_text()), _MAPS.read_text()
        madvise = ctypes.CDLL(None).madvise
    except (OSError, ValueError, AttributeError):
        return 0
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    taken = 0
    for start, end in _whole_pages(maps, size):
        length = min(end - start, MOST - taken)
        if length > 0 and madvise(start, length, _WANTED) == 0 and madvise(start, length, _NOW) == 0:
            taken += length
    return taken


def _whole_pages(maps: str, size: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges of large pages that lie in the process's own memory, those of the heap first.

    Example:
        >>> maps = "00300000-00900000 rw-p 00000000 00:00 0 \\n00a00000-00e00000 r--p 00000000 fe:00 7 /bin/sh\\n"
        >>> [(hex(start), hex(end)) for start, end in _whole_pages(maps, 1 << 21)]
        [('0x400000', '0x800000')]
    """
    for found in sorted(_OWN.finditer(maps), key=lambda one: one[3] is None):
        start, end = -(-int(found[1], 16) // size) * size, int(found[2], 16) // size * size
        if start < end:
            yield start, end
