"""Where model-written programs run: `code → result`, in bubblewrap, else under Landlock, else not at all."""

from __future__ import annotations

import functools
import shutil
import socket
import sys
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from types import ModuleType

from rosellm.roserlhf import checks
from rosellm.roserlhf.environment.sandbox import bubblewrap, landlock
from rosellm.roserlhf.environment.sandbox.box import STARTED_WITHIN, Box
from rosellm.roserlhf.environment.sandbox.limits import Limits
from rosellm.roserlhf.environment.sandbox.result import Kind, SandboxResult
from rosellm.roserlhf.environment.sandbox.session import SandboxSession
from rosellm.roserlhf.environment.sandbox.view import SCRATCH, View, view_of
from rosellm.roserlhf.errors import ConfigError, RecordError, SandboxError

_MECHANISMS: dict[Kind, ModuleType] = {"bubblewrap": bubblewrap, "landlock": landlock}
_WORKER = Path(__file__).with_name("worker.py")


class Sandbox:
    """A way to run programs that nobody has read: no network, a read-only root, a scratch of its own, limits on everything.

    Root first becomes an unprivileged user. Programs run in the system's Python with its standard library, see neither this
    process's files, environment and descriptors nor each other, and start with an empty folder as their working directory. What
    each mechanism stops was measured: see the page on the sandbox.

    Args:
        limits: what a program may use up.
        kind: `"bubblewrap"` or `"landlock"`; None takes the first that works here. `"bare"` is no sandbox and needs `unsafe_bare`.
        unsafe_bare: allow programs to run with the rights of this process where no sandbox works. Every result says that it was so.
        python: the interpreter of the programs; None takes the system's.

    Raises:
        SandboxError: there is no sandbox here; the message says what to install.
        ConfigError: `kind="bare"` without `unsafe_bare`.

    Example:
        >>> import asyncio
        >>> result = asyncio.run(Sandbox().run("print(6 * 7)"))
        >>> result.ending, result.output
        ('ok', '42\\n')
    """

    def __init__(
        self, limits: Limits | None = None, *, kind: Kind | None = None, unsafe_bare: bool = False, python: str | None = None
    ) -> None:
        checks.flag(unsafe_bare, "unsafe_bare")
        if kind is not None:
            checks.one_of(kind, "kind", [*_MECHANISMS, "bare"])
        if kind == "bare" and not unsafe_bare:
            fix = "it would run programs with the rights of this process"
            raise checks.fail(ConfigError, "unsafe_bare", 'be True for kind="bare"', unsafe_bare, fix=fix)
        self.limits = Limits() if limits is None else limits
        self._python = python
        self.kind: Kind = kind_here(python, kind, unsafe_bare)
        """What holds the programs; every result carries it."""

    async def run(
        self,
        code: str,
        files: Mapping[str, str | bytes] | None = None,
        *,
        stdin: str = "",
        seconds: float | None = None,
    ) -> SandboxResult:
        """Run one program in a box of its own; nothing of it is left afterwards.

        Args:
            code: Python source.
            files: what stands in its working directory, by relative path.
            stdin: what it finds on its standard input; an end of file where there is none.
            seconds: wall time it has; None means `limits.seconds`.

        Raises:
            SandboxError: the box did not start; nothing was run.
            RecordError: `code`, `stdin` or `files` are not what they should be.
        """
        async with self.session(files) as session:
            return await session.run(code, stdin=stdin, seconds=seconds, echo=False, final=True)

    def session(self, files: Mapping[str, str | bytes] | None = None, *, links: Sequence[socket.socket] = ()) -> SandboxSession:
        """Open a session: cells that keep their state between one another.

        Args:
            files: what stands in its working directory, by relative path.
            links: sockets that its programs may use under the same descriptor numbers; the caller closes them.

        Raises:
            RecordError: `files` has a path that leads elsewhere, or contents that are neither text nor bytes.
        """
        return SandboxSession(self._new_box, self.kind, self.limits, _contents(files or {}), links)

    def _new_box(self, links: Sequence[socket.socket]) -> tuple[Box, str]:
        return new_box(self.kind, self._python, self.limits, links)


def new_box(kind: Kind, python: str | None, limits: Limits, links: Sequence[socket.socket] = ()) -> tuple[Box, str]:
    """Start a box and say where its scratch is; it waits for its setup."""
    program = ["-s", "-S", "-B", "-c", _worker()]
    if kind == "bare":
        scratch = tempfile.mkdtemp(prefix="roserlhf-bare-")
        box = Box(lambda *_: [python or sys.executable, *program], bare=True, links=links)
        weakref.finalize(box, shutil.rmtree, scratch, ignore_errors=True)
        return box, scratch
    view, mechanism = _view(python), _MECHANISMS[kind]
    command = [view.python, *program]
    return Box(
        lambda rules, report: mechanism.command(command, view, limits, filter_fd=rules, info_fd=report), links=links
    ), SCRATCH


@functools.cache
def kind_here(python: str | None, kind: Kind | None, unsafe_bare: bool) -> Kind:
    """Find what works on this machine, by trying it once.

    Raises:
        SandboxError: nothing that was asked for does.
    """
    reasons = []
    for known in [known for known in _MECHANISMS if kind in (None, known)]:
        try:
            reason = new_box(known, python, Limits())[0].probe(STARTED_WITHIN)
        except SandboxError as error:
            reason = str(error)
        if reason is None:
            return known
        reasons.append(f"{known}: {reason}")
    if unsafe_bare and kind in (None, "bare"):
        return "bare"
    tried = "; ".join(reasons)
    raise SandboxError(f"no sandbox works here, so no program is run; apt-get install bubblewrap. Tried {tried}")


@functools.cache
def _worker() -> str:
    return _WORKER.read_text(encoding="utf-8")


@functools.cache
def _view(python: str | None) -> View:
    return view_of(python)


def _contents(files: Mapping[str, str | bytes]) -> dict[str, bytes]:
    contents: dict[str, bytes] = {}
    for path, content in files.items():
        place = PurePosixPath(path) if isinstance(path, str) else None
        if place is None or place.is_absolute() or ".." in place.parts or not place.parts or "\0" in path:
            raise checks.fail(RecordError, "files", "have relative paths within the working directory", f"{path!r:.80}")
        if not isinstance(content, (str, bytes)):
            raise checks.fail(RecordError, f"files[{path!r:.80}]", "be text or bytes", type(content).__name__)
        contents[str(place)] = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    return contents
