"""One box: `command line → process tree and three channels → nothing`.

| channel | direction | what it carries |
|---|---|---|
| `control` | both | frames of length and JSON: setup, cells, how they ended |
| `output`, `errors` | from the box | what programs write; bytes, never interpreted |

All of it ends when the first process inside does: the kernel kills the others with it, and only then reports its end.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import weakref
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from rosellm.roserlhf.environment.sandbox import seccomp
from rosellm.roserlhf.errors import SandboxError

Command = Callable[[int, int], Sequence[str]]
"""Builds a command line from two descriptors: of the system-call filter, and for the report about the first process."""
STARTED_WITHIN = 60.0
"""Seconds that a box has to come up; a machine that is busy is no fault of the program."""


class Box:
    """The outside of a running box.

    Args:
        command: how to start it.
        bare: nothing holds the process but its process group.
        links: sockets that the program may use, under the same descriptor numbers.

    Raises:
        SandboxError: the command does not start.
    """

    def __init__(self, command: Command, *, bare: bool = False, links: Sequence[socket.socket] = ()) -> None:
        with ExitStack() as near, ExitStack() as far:
            try:
                self.control, inside = socket.socketpair()
                near.callback(self.control.close)
                far.callback(inside.close)
                self.control.setblocking(False)
                self.output, output = _pipe(near, far)
                self.errors, errors = _pipe(near, far)
                self._report, report = _pipe(near, far)
                rules = report if bare else _readable_bytes(seccomp.program(), far)
                self.process = subprocess.Popen(
                    command(rules, report),
                    stdin=inside.fileno(),
                    stdout=output,
                    stderr=errors,
                    pass_fds=[rules, report, *(link.fileno() for link in links)],
                    env={},
                    cwd="/",
                    start_new_session=True,
                )
            except OSError as error:
                raise SandboxError(f"the sandbox did not start: {error}") from error
            self._bare = self._known = bare
            self._first: list[int] = []  # process descriptor of the first process inside, once it is known
            self._finish = weakref.finalize(self, _end, self.process, self._first, near.pop_all())
        self._closing: asyncio.Future[None] | None = None

    async def identify(self) -> None:
        """Learn which process is the first inside; without one, the box did not come up.

        Raises:
            TimeoutError: nothing was heard of it.
        """
        text = b""
        async with asyncio.timeout(STARTED_WITHIN):
            while not self._known:
                await readable(self._report)
                part = os.read(self._report, 4096)
                text += part
                with contextlib.suppress(ValueError):
                    first = json.loads(text)["child-pid"]
                    with contextlib.suppress(ProcessLookupError):
                        self._first.append(os.pidfd_open(first))
                    self._known = True
                self._known = self._known or not part

    async def exit_code(self, within: float) -> int | None:
        """Wait for the box to end by itself; None if it does not."""
        await _gone(self.process, within)
        return self.process.poll()

    def kill(self) -> None:
        """Kill everything in the box, as far as it has come up, and wait for nothing."""
        for first in self._first:
            _kill(first)
        if self._bare:
            _kill_group(self.process)

    async def close(self) -> None:
        """Kill everything in the box and return when it is gone; goes on in the background if the caller is cancelled."""
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        try:
            await self.identify()
            self.kill()
            for first in self._first:
                await readable(first)
                await _gone(self.process, 5.0)  # which reaps it
            _kill_group(self.process)
            await _gone(self.process, STARTED_WITHIN)
        finally:
            self._finish()

    def probe(self, within: float) -> str | None:
        """Start it without a program and say what went wrong; None if nothing did. Waits, and closes the box."""
        try:
            self.control.close()
            code = self.process.wait(within)
            return None if code == 0 else said(self.errors) or f"exit code {code}"
        except subprocess.TimeoutExpired:
            return f"it did not end within {within:g} s"
        finally:
            self._finish()


def said(errors: int) -> str:
    """Read what stands in a channel, for an error message."""
    with contextlib.suppress(BlockingIOError):
        return " ".join(os.read(errors, 4096).decode("utf-8", "backslashreplace").split())[-500:]
    return ""


async def readable(descriptor: int) -> None:
    """Wait until there is something to read, or, for a process, until it has ended."""
    loop = asyncio.get_running_loop()
    ready = loop.create_future()
    loop.add_reader(descriptor, _settle, ready)
    try:
        await ready
    finally:
        loop.remove_reader(descriptor)


def _settle(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)


def _pipe(near: ExitStack, far: ExitStack) -> tuple[int, int]:
    reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    near.callback(os.close, reader)
    far.callback(os.close, writer)
    os.set_blocking(writer, True)
    return reader, writer


def _readable_bytes(content: bytes, far: ExitStack) -> int:
    """Put a few bytes where a child can read them."""
    reader, writer = os.pipe2(os.O_CLOEXEC)
    far.callback(os.close, reader)
    with open(writer, "wb") as file:
        file.write(content)
    return reader


async def _gone(process: subprocess.Popen[bytes], within: float) -> None:
    if process.poll() is not None:
        return
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:  # reaped by somebody else
        return
    try:
        async with asyncio.timeout(within):
            await readable(descriptor)
        process.poll()
    except TimeoutError:
        pass
    finally:
        os.close(descriptor)


def _kill(process_descriptor: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(process_descriptor, signal.SIGKILL)


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _end(process: subprocess.Popen[bytes], first: list[int], near: ExitStack) -> None:
    """Kill what is still there and close everything; also called when nobody did, at the latest as the interpreter exits."""
    for descriptor in first:
        _kill(descriptor)
        os.close(descriptor)
    _kill_group(process)
    process.wait()
    near.close()
