"""One cell, watched from outside: `box → bytes of its two streams, its reply`, never more than a bound, never blocking.

What the streams carry is text for the one who wrote the cell and is not interpreted. A reply counts only with the nonce of this
cell, which nothing in the box knows before the cell is handed over; so no earlier cell can have answered for it.
"""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import dataclass, field
from typing import Any, Literal

from rosellm.roserlhf.environment.sandbox.box import Box

_LONGEST_REPLY = 4 << 20
"""Bytes of all that the box may send over its channel during one cell."""
_CHUNK = 1 << 16
End = Literal["reply", "output", "gone", "garbled"]


@dataclass
class Listener:
    """Collects one cell's streams and reply."""

    box: Box
    nonce: str
    most: int
    """Bytes of both streams together after which no more is wanted."""
    output: bytearray = field(default_factory=bytearray)
    errors: bytearray = field(default_factory=bytearray)
    reply: dict[str, Any] = field(default_factory=dict)
    _control: bytearray = field(default_factory=bytearray)
    _taken: int = 0

    async def until_end(self) -> End:
        """Listen until the reply is there, too much was written, or the box is gone or sends no frames."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[End] = loop.create_future()

        def settle(end: End) -> None:
            if not ended.done():
                ended.set_result(end)

        def hear(descriptor: int, into: bytearray) -> None:
            if not self._take(descriptor, into):
                loop.remove_reader(descriptor)
            if len(self.output) + len(self.errors) > self.most:
                settle("output")

        def hear_control() -> None:
            if not self._take(self.box.control.fileno(), self._control):
                settle("gone")
            elif not self._frames():
                settle("garbled")
            elif self.reply:
                settle("reply")

        streams = {self.box.output: self.output, self.box.errors: self.errors}
        loop.add_reader(self.box.control.fileno(), hear_control)
        for descriptor, into in streams.items():
            loop.add_reader(descriptor, hear, descriptor, into)
        try:
            return await ended
        finally:
            loop.remove_reader(self.box.control.fileno())
            for descriptor, into in streams.items():
                loop.remove_reader(descriptor)
                self._drain(descriptor, into)

    def _drain(self, descriptor: int, into: bytearray) -> None:
        """Take what was written before the end and has not been read yet."""
        while len(self.output) + len(self.errors) <= self.most:
            before = len(into)
            if not self._take(descriptor, into) or len(into) == before:
                return

    def _take(self, descriptor: int, into: bytearray) -> bool:
        """Read once; False at the end of the channel."""
        try:
            part = os.read(descriptor, _CHUNK)
        except BlockingIOError:
            return True
        except ConnectionError:
            return False
        into += part
        return bool(part)

    def _frames(self) -> bool:
        """Take the frames that are complete; False if they are none that the interpreter in the box would send."""
        while len(self._control) >= 4:
            size = int.from_bytes(self._control[:4], "big")
            if self._taken + size > _LONGEST_REPLY:
                return False
            if len(self._control) < 4 + size:
                return True
            body = bytes(self._control[4 : 4 + size])
            del self._control[: 4 + size]
            self._taken += 4 + size
            try:
                message = json.loads(body)
            except (ValueError, RecursionError):
                return False
            if not isinstance(message, dict):
                return False
            if message.get("nonce") == self.nonce:
                self.reply = message
        return True


def discard(box: Box) -> None:
    """Drop what was written between two cells: it belongs to neither."""
    for descriptor in (box.output, box.errors):
        for _ in range(16):  # a pipe is never longer, a program that keeps on writing is
            try:
                if not os.read(descriptor, _CHUNK):
                    break
            except BlockingIOError:
                break
