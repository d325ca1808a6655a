"""Memory is moved into large pages where the system has them, and nothing else is touched."""

from __future__ import annotations

from pathlib import Path

import pytest

from rosellm.roserlhf.guard import large_pages
from rosellm.roserlhf.guard.large_pages import MOST, use_large_pages

SIZE = 1 << 21
MAPS = """\
00400000-00600000 r-xp 00000000 fe:00 26723                      /usr/bin/python3
00800000-00c00000 rw-p 00003000 fe:00 26723                      /usr/bin/python3
7f0000000000-7f0000500000 rw-p 00000000 00:00 0
7f0000700000-7f0000900000 rw-p 00000000 00:00 0
7f0000a00000-7f0000e00000 rw-s 00000000 00:00 0
55db9f300000-55db9f900000 rw-p 00000000 00:00 0                          [heap]
7ffc00000000-7ffc00400000 rw-p 00000000 00:00 0                          [stack]
"""


def test_only_whole_pages_of_the_own_memory_are_moved_the_heap_first() -> None:
    found = list(large_pages._whole_pages(MAPS, SIZE))
    assert found == [(0x55DB9F400000, 0x55DB9F800000), (0x7F0000000000, 0x7F0000400000)]


@pytest.mark.parametrize("missing", ["_SIZE", "_MAPS"])
def test_without_large_pages_nothing_happens(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    monkeypatch.setattr(large_pages, missing, Path("/nowhere/at/all"))
    use_large_pages.cache_clear()
    assert use_large_pages() == 0
    use_large_pages.cache_clear()


def test_what_is_moved_is_bounded_and_stays_what_it_was() -> None:
    held = [bytes([number % 256]) * 4096 for number in range(2_000)]
    use_large_pages.cache_clear()
    assert 0 <= use_large_pages() <= MOST
    assert all(one == bytes([number % 256]) * 4096 for number, one in enumerate(held))
