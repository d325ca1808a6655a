"""A run walks no heap that was there before it, and leaves the collector as it found it."""

from __future__ import annotations

import gc
import weakref

import pytest

from rosellm.roserlhf.trainer.heap import frozen_heap

pytestmark = pytest.mark.usefixtures("thawed_heap")


class Node:
    """Something that holds itself."""

    def __init__(self) -> None:
        self.me = self


def test_what_is_made_inside_is_collected_and_what_was_there_once_it_is_over() -> None:
    old = Node()
    gone = weakref.ref(old)
    with frozen_heap():
        del old
        new = weakref.ref(Node())
        gc.collect()
        assert new() is None
        assert gone() is not None
    gc.collect()
    assert gone() is None
    assert gc.get_freeze_count() == 0


def test_a_block_that_fails_thaws_what_it_froze() -> None:
    with pytest.raises(ValueError, match="stop"), frozen_heap():
        raise ValueError("stop")
    assert gc.get_freeze_count() == 0


def test_what_somebody_else_froze_stays_frozen() -> None:
    gc.freeze()
    before = gc.get_freeze_count()
    with frozen_heap(), frozen_heap():
        assert 0 < gc.get_freeze_count() <= before  # what nobody holds any more still dies
    assert 0 < gc.get_freeze_count() <= before
