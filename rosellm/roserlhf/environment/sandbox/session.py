"""A worker that keeps its state: `cell → result`, one box for all cells of an episode, a new one where a cell broke it."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import secrets
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from rosellm.roserlhf import checks
from rosellm.roserlhf.environment.sandbox.box import STARTED_WITHIN, Box
from rosellm.roserlhf.environment.sandbox.limits import Limits
from rosellm.roserlhf.environment.sandbox.listening import End, Listener, discard
from rosellm.roserlhf.environment.sandbox.result import Ending, Kind, SandboxResult
from rosellm.roserlhf.errors import SandboxError
from rosellm.roserlhf.record import plain

_REPORTED: tuple[Ending, ...] = ("ok", "error", "memory")
_OUT_OF_CPU = 128 + 24  # SIGXCPU, as a shell counts it


class SandboxSession:
    """Cells of one program, run one after the other in one box; made by `Sandbox.session`, used as `async with`.

    A cell that does not return in time, writes too much or ends its process costs the box and all state; its result says so, and
    the next cell starts in a new box with the same files. A cell that raises keeps the state. Cells of one session are one
    program: a thread or child process of an earlier cell may go on beside a later one, and what it prints then is shown with it.
    """

    def __init__(
        self,
        new_box: Callable[[Sequence[socket.socket]], tuple[Box, str]],
        kind: Kind,
        limits: Limits,
        files: Mapping[str, bytes],
        links: Sequence[socket.socket] = (),
    ) -> None:
        self._new_box, self._files, self._links = new_box, files, links
        self.kind: Kind = kind
        """What holds the cells."""
        self.limits = limits
        """The bounds of every cell and of the box."""
        self._box: Box | None = None
        self._cells = 0
        self._closed = False
        self._turn = asyncio.Lock()

    async def __aenter__(self) -> Self:
        """Return the session itself; its box starts with the first cell."""
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Close it."""
        await self.close()

    async def close(self) -> None:
        """End the box with every process in it, and refuse further cells. May be called again."""
        self._closed = True
        if self._box is not None:
            self._box.kill()  # a cell that is running ends with it
        async with self._turn:
            await self._drop()

    async def start(self) -> None:
        """Start the box now, not with the first cell.

        Raises:
            SandboxError: it does not start.
        """
        async with self._turn:
            await self._started()

    async def run(
        self, code: str, *, stdin: str = "", seconds: float | None = None, echo: bool = True, final: bool = False
    ) -> SandboxResult:
        """Run one cell; calls at the same time wait for one another.

        Args:
            code: Python source.
            stdin: what the cell finds on its standard input.
            seconds: wall time it has; None means `limits.seconds`.
            echo: show the value of a last line that is an expression, as an interactive interpreter does.
            final: end it as a program ends: wait for its threads, call what it registered with `atexit`.

        Raises:
            SandboxError: the box does not start, or the session is closed; nothing was run.
            RecordError: `code` or `stdin` is no text.
            RangeError: `stdin` is longer than the largest file, or `seconds` not above 0.
        """
        plain.text(code, "code")
        plain.text(stdin, "stdin")
        checks.number_in(len(stdin.encode("utf-8", "surrogatepass")), "length of stdin", 0, self.limits.file_size)
        allowed = self.limits.seconds if seconds is None else seconds
        checks.number_in(allowed, "seconds", 0, float("inf"), open_low=True, open_high=True)
        async with self._turn:
            box = await self._started()
            self._cells += 1
            nonce = secrets.token_hex(16)
            cell = {"nonce": nonce, "code": code, "name": f"<cell {self._cells}>", "stdin": stdin, "echo": echo, "final": final}
            try:
                if self._closed:
                    raise SandboxError("the session was closed")
                return await self._watch(box, cell, allowed)
            except BaseException:
                await self._drop()
                raise

    async def _watch(self, box: Box, cell: Mapping[str, Any], seconds: float) -> SandboxResult:
        listener = Listener(box, cell["nonce"], self.limits.output)
        discard(box)
        end: End | None = None
        began = time.monotonic()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await _send(box, cell)
                end = await listener.until_end()
        spent = time.monotonic() - began
        ending = await self._ending(box, end, listener.reply)
        lost = ending not in _REPORTED
        if lost:
            await self._drop()
        output, errors = (_text(stream, self.limits.output) for stream in (listener.output, listener.errors))
        return SandboxResult(ending, output, errors, spent, self.kind, lost, listener.reply.get("value"))

    async def _ending(self, box: Box, end: End | None, reply: Mapping[str, Any]) -> Ending:
        if end is None or end == "output":
            return end or "timeout"
        if end == "gone":
            return "cpu" if await box.exit_code(within=1.0) == _OUT_OF_CPU else "died"
        return next((ending for ending in _REPORTED if ending == reply.get("ending")), "died")

    async def _started(self) -> Box:
        if self._closed:
            raise SandboxError("the session is closed")
        if self._box is None:
            self._box, scratch = self._new_box(self._links)
            try:
                await self._set_up(self._box, scratch)
            except BaseException:
                await self._drop()
                raise
        return self._box

    async def _set_up(self, box: Box, scratch: str) -> None:
        files = {path: base64.b64encode(content).decode() for path, content in self._files.items()}
        links = [link.fileno() for link in self._links]
        setup = {"limits": _resources(self.limits), "files": files, "scratch": scratch, "links": links}
        await box.identify()
        listener = Listener(box, "", self.limits.output)
        end: End | None = None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STARTED_WITHIN):
                await _send(box, {"nonce": "", **setup})
                end = await listener.until_end()
        if end != "reply":
            why = _text(listener.errors, 2000).strip().splitlines()[-1:]
            raise SandboxError(f"the {self.kind} box did not start: {why[0] if why else 'it said nothing'}")

    async def _drop(self) -> None:
        box, self._box = self._box, None
        if box is not None:
            await box.close()


async def _send(box: Box, message: Mapping[str, Any]) -> None:
    body = json.dumps(message).encode()
    with contextlib.suppress(ConnectionError):  # a box that is gone is heard by the listener
        await asyncio.get_running_loop().sock_sendall(box.control, len(body).to_bytes(4, "big") + body)


def _resources(limits: Limits) -> dict[str, int]:
    """Name the limits as the kernel does."""
    return {
        "RLIMIT_AS": limits.memory,
        "RLIMIT_CPU": limits.cpu_seconds,
        "RLIMIT_NPROC": limits.processes,
        "RLIMIT_NOFILE": limits.open_files,
        "RLIMIT_FSIZE": limits.file_size,
        "RLIMIT_CORE": 0,
        "RLIMIT_MEMLOCK": 0,
        "RLIMIT_MSGQUEUE": 0,
    }


def _text(stream: bytearray, most: int) -> str:
    return bytes(stream[:most]).decode("utf-8", "backslashreplace")
