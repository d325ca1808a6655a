"""A function in a process of its own: `JSON in -> JSON out`, with a time limit that holds whatever the function does.

```
caller ── [seconds, arguments] ──> child: function(*arguments)
       <── {"value": …} | {"error": …} ──
       no line in time: the child and everything it started are killed, the next call starts another
```
The child is kept between calls, since importing what it needs can take seconds. It sees nothing of its caller but the import path;
what it prints is lost; it ends when its caller does.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Mapping
from typing import Any

from rosellm.roserlhf import checks
from rosellm.roserlhf.errors import VerifierError

START_SECONDS = 120.0
"""Time for a child to import what it needs, on a busy machine."""
MEMORY = 4 * 2**30
"""Bytes of address space of a child."""
_KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR")
_MAIN = """\
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from rosellm.roserlhf.environment.verifiers.worker_process import serve
serve(sys.argv[2], int(sys.argv[3]))
"""


class WorkerTimeout(VerifierError):
    """The function gave no answer in time; its process was killed."""


class WorkerCrash(VerifierError):
    """The process of the function died."""


class Worker:
    """One child process that runs one function, a call at a time; it is started by the first call and again after a kill.

    Args:
        target: import path `module:function` of a function of JSON values, plain or `async`, that returns one.
        environ: environment variables of the child; by default those that name places and the language, no others.
        memory: bytes of address space.
    """

    def __init__(self, target: str, *, environ: Mapping[str, str] | None = None, memory: int = MEMORY) -> None:
        self._target, self._memory = target, memory
        self._environ = {name: os.environ[name] for name in _KEPT if name in os.environ} if environ is None else dict(environ)
        self._child: subprocess.Popen[bytes] | None = None
        self._end: weakref.finalize[..., Any] | None = None

    def call(self, *arguments: Any, seconds: float) -> Any:
        """Call the function.

        Raises:
            WorkerTimeout: no answer within `seconds`; the time that the child needs to start is not counted.
            WorkerCrash: its process died.
            VerifierError: the function raised.
        """
        child = self._running()
        try:
            self._send(child, [seconds, arguments])
            answer = self._receive(child, seconds)
        except BaseException:  # also an interrupt: what is still to come would answer the next call
            self.close()
            raise
        if "error" in answer:
            raise checks.fail(VerifierError, self._target, "answer", answer["error"])
        return answer["value"]

    def close(self) -> None:
        """Kill the child and what it started."""
        if self._end is not None:
            self._end()
        self._child = self._end = None

    def _running(self) -> subprocess.Popen[bytes]:
        if self._child is not None and self._child.poll() is None:
            return self._child
        self.close()
        command = [sys.executable, "-c", _MAIN, json.dumps(sys.path), self._target, str(self._memory)]
        child = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=self._environ,
            start_new_session=True,
            bufsize=0,
        )
        self._child, self._end = child, weakref.finalize(self, _kill, child, os.getpid())
        try:
            started = self._receive(child, START_SECONDS)
        except BaseException:
            self.close()
            raise
        if "error" in started:
            self.close()
            raise checks.fail(VerifierError, self._target, "be importable in a process of its own", started["error"])
        return child

    def _send(self, child: subprocess.Popen[bytes], question: Any) -> None:
        assert child.stdin is not None
        try:
            child.stdin.write(json.dumps(question).encode("ascii") + b"\n")
        except BrokenPipeError as error:
            raise self._crash(child) from error

    def _receive(self, child: subprocess.Popen[bytes], seconds: float) -> dict[str, Any]:
        assert child.stdout is not None
        until, line, pipe = time.monotonic() + seconds, b"", child.stdout.fileno()
        poll = select.poll()
        poll.register(pipe, select.POLLIN)
        while not line.endswith(b"\n"):
            if not poll.poll(max(0.0, until - time.monotonic()) * 1000):
                raise checks.fail(WorkerTimeout, self._target, f"answer within {seconds:g} s", "none")
            part = os.read(pipe, 65536)
            if not part:
                raise self._crash(child)
            line += part
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _crash(self, child: subprocess.Popen[bytes]) -> WorkerCrash:
        code = child.wait()
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"exit code {code}"
        error = checks.fail(WorkerCrash, self._target, "answer", f"a process that died ({name})")
        assert isinstance(error, WorkerCrash)
        return error


def _kill(child: subprocess.Popen[bytes], owner: int) -> None:
    if os.getpid() != owner:  # a fork of the caller: the child is not its own
        return
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)  # which is the group of whatever it started, too
    child.wait()
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            pipe.close()


class Workers:
    """A few children that run the same function, for callers in several threads.

    Args:
        target: as in `Worker`.
        at_most: children at a time; further callers wait for one, which does not count as their time.
    """

    def __init__(self, target: str, *, at_most: int = 2) -> None:
        self._target, self._at_most = target, at_most
        self._forget()

    def call(self, *arguments: Any, seconds: float) -> Any:
        """Call the function, as in `Worker.call`."""
        if os.getpid() != self._owner:
            self._forget()
        with self._places:
            try:
                worker = self._idle.pop()
            except IndexError:
                worker = Worker(self._target)
            try:
                return worker.call(*arguments, seconds=seconds)
            finally:
                self._idle.append(worker)

    def close(self) -> None:
        """Kill the children that are idle."""
        while self._idle:
            self._idle.pop().close()

    def _forget(self) -> None:
        self._owner, self._places = os.getpid(), threading.BoundedSemaphore(self._at_most)
        self._idle: list[Worker] = []
