"""Cache rows and who owns them: blocks of rows that are computed together, sessions that keep theirs, the oldest given up first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rosellm.roserlhf.engine.cache import Cache
from rosellm.roserlhf.engine.protocol import Request


@dataclass(eq=False)
class Row:
    """A cache row and the ids whose keys and values it holds."""

    block: Block
    index: int
    """Its place in the block."""
    ids: tuple[int, ...] = ()
    session: str = ""
    """Whose row it is; empty if it is lent for one request."""


class Block:
    """Rows that share a cache, and so a thread: what a batch is cut from."""

    def __init__(self, cache: Cache, rows: int) -> None:
        self.cache = cache
        self.rows = [Row(self, index) for index in range(rows)]
        """In the order of their places."""

    def bring_forward(self, chosen: Sequence[Row]) -> None:
        """Move rows to the front, so that a forward pass reads them in place; the others make room for them."""
        wanted = {row.index for row in chosen}
        self.cache.reserve(max(wanted) + 1, self.cache.positions)
        holes = [index for index in range(len(chosen)) if index not in wanted]
        moved = [index for index in wanted if index >= len(chosen)]
        if not holes:
            return
        pairs = list(zip(holes, sorted(moved), strict=True))
        for hole, index in pairs:
            self.rows[hole], self.rows[index] = self.rows[index], self.rows[hole]
            self.rows[hole].index, self.rows[index].index = hole, index
        self.cache.exchange(pairs, self.cache.positions)


class Rows:
    """All rows of an engine.

    Args:
        new_cache: makes the cache of one block.
        count: rows in all.
        block: rows of a block.
    """

    def __init__(self, new_cache: Callable[[], Cache], count: int, block: int) -> None:
        self._blocks = [Block(new_cache(), min(block, count - start)) for start in range(0, count, block)]
        self.forget()

    def forget(self) -> None:
        """Give every row back, the first ones next to be taken, as if none had been used; the memory stays."""
        for block in self._blocks:
            block.rows = [Row(block, index) for index in range(len(block.rows))]
        self._free = [row for block in self._blocks for row in block.rows][::-1]
        self._sessions: OrderedDict[str, Row] = OrderedDict()

    def assign(self, requests: Sequence[Request]) -> list[Row]:
        """Give every request a row: its session's own, a free one, or that of the session unused for longest.

        A session has one row; further requests of it in the same wave are served like requests without a session.
        """
        for request in requests:
            if request.session in self._sessions:
                self._sessions.move_to_end(request.session)
        rows, served = [], set()
        for request in requests:
            session = "" if request.session in served else request.session
            served.add(session)
            row = self._sessions.get(session)
            if row is None:
                row = self._free.pop() if self._free else self._sessions.popitem(last=False)[1]
                row.ids, row.session = (), session
                if session:
                    self._sessions[session] = row
            known = len(row.ids)
            if known >= len(request.prompt_ids) or request.prompt_ids[:known] != row.ids:
                row.ids = ()
            rows.append(row)
        return rows

    def keep(self, row: Row, ids: tuple[int, ...]) -> None:
        """Note what a row holds after a wave; one that was only lent is free again."""
        row.ids = ids
        if not row.session:
            self._free.append(row)
