"""Runs inside the box: `setup → ready, (cell → its ending)*`. Standard library only; Python 3.8 or later.

File descriptor 0 arrives as a socket to the other side and is moved away, so that programs find an empty standard input. Frames
are a length of four bytes and JSON. A cell shares this process, so nothing that is reported from here is proof of anything.
"""

from __future__ import annotations

import ast
import atexit
import base64
import builtins
import contextlib
import io
import json
import linecache
import os
import resource
import sys
import threading
import traceback
from typing import Any

LONGEST_FRAME = 256 << 20


def receive(control: int) -> dict[str, Any] | None:
    """Read one frame; None when the other side is gone."""
    header = _exactly(control, 4)
    size = int.from_bytes(header, "big")
    body = _exactly(control, size) if header and size <= LONGEST_FRAME else b""
    return json.loads(body) if body else None


def send(control: int, message: dict[str, Any]) -> None:
    """Write one frame."""
    body = json.dumps(message).encode()
    rest = memoryview(len(body).to_bytes(4, "big") + body)
    while rest:
        rest = rest[os.write(control, rest) :]


def _exactly(control: int, size: int) -> bytes:
    parts = []
    while size and (part := os.read(control, min(size, 1 << 20))):
        parts.append(part)
        size -= len(part)
    return b"" if size else b"".join(parts)


def prepare(setup: dict[str, Any], control: int) -> None:
    """Close what was inherited, write the files, then set the limits, none of which can be raised again."""
    kept = sorted([control, *setup["links"]])
    for low, high in zip([2, *kept], [*kept, 1 << 16]):  # noqa: B905 - not in Python 3.8
        os.closerange(low + 1, high)
    os.chdir(setup["scratch"])
    for path, content in setup["files"].items():
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        with open(path, "wb") as file:
            file.write(base64.b64decode(content))
    for name, bound in setup["limits"].items():
        number = getattr(resource, name)
        hard = bound + (name == "RLIMIT_CPU")  # the soft one gives the signal that tells processor time from other deaths
        allowed = resource.getrlimit(number)[1]
        if allowed != resource.RLIM_INFINITY:
            bound, hard = min(bound, allowed), min(hard, allowed)
        resource.setrlimit(number, (bound, hard))


def run_cell(cell: dict[str, Any], names: dict[str, Any], streams: tuple[int, int]) -> str:
    """Run one cell and say how it ended; whatever it raises is shown on its standard error."""
    own = os.getpid()
    _open_streams(cell["stdin"], streams)
    try:
        _execute(cell["code"], names, cell["name"], cell["echo"])
        if cell["final"]:
            _finish()
        ending = "ok"
    except SystemExit as stop:
        ending = "ok" if stop.code in (None, 0) else "error"
        if not (stop.code is None or isinstance(stop.code, int)):
            print(stop.code, file=sys.stderr)
    except BaseException as error:  # noqa: BLE001 - all of them are the cell's
        ending = "memory" if isinstance(error, MemoryError) else "error"
        _show(error)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # the cell may have closed or replaced it
            stream.flush()
    if os.getpid() != own:
        os._exit(0)  # a child that the cell forked and that came to the end of the cell
    return ending


def _open_streams(stdin: str, streams: tuple[int, int]) -> None:
    """Give every cell standard streams that work, whatever the last one did to them."""
    if stdin:
        source = os.open(".stdin", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        os.unlink(".stdin")
        with open(source, "wb", closefd=False) as file:
            file.write(stdin.encode("utf-8", "surrogatepass"))
        os.lseek(source, 0, os.SEEK_SET)
    else:
        source = os.open(os.devnull, os.O_RDONLY)
    for number, target in ((source, 0), (streams[0], 1), (streams[1], 2)):
        os.dup2(number, target)
    os.close(source)
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)), "utf-8", "surrogateescape")
    sys.stdout, sys.stderr = (
        io.TextIOWrapper(io.BufferedWriter(io.FileIO(number, "w", closefd=False)), "utf-8", "backslashreplace", line_buffering=True)
        for number in (1, 2)
    )


def _execute(code: str, names: dict[str, Any], name: str, echo: bool) -> None:
    linecache.cache[name] = (len(code), None, code.splitlines(True), name)
    tree = ast.parse(code, name)
    last = tree.body[-1] if echo and tree.body else None
    if isinstance(last, ast.Expr):
        tree.body.pop()
    exec(compile(tree, name, "exec"), names)  # noqa: S102 - this is what the box is for
    if isinstance(last, ast.Expr):
        value = eval(compile(ast.Expression(last.value), name, "eval"), names)  # noqa: S307 - so is this
        if value is not None:
            print(repr(value))


def _finish() -> None:
    """Do what the interpreter does at the end of a program: wait for threads, call what was registered."""
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    atexit._run_exitfuncs()


def _show(error: BaseException) -> None:
    """Print a traceback without the frames of this file."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file_name__:
        trace = trace.tb_next
    try:
        traceback.print_exception(type(error), error, trace)
    except BaseException:  # noqa: BLE001 - its own text may fail, or memory is short
        os.write(2, type(error).__name__.encode("utf-8", "backslashreplace") + b"\n")


__file_name__ = run_cell.__code__.co_filename


def main() -> None:
    """Serve cells until the other side is gone."""
    control = os.dup(0)
    setup = receive(control)
    if setup is None:
        return
    prepare(setup, control)
    output, errors = os.dup(1), os.dup(2)
    send(control, {"nonce": setup["nonce"], "ending": "ok"})
    names: dict[str, Any] = {"__name__": "__main__", "__builtins__": builtins}
    while (cell := receive(control)) is not None:
        ending = run_cell(cell, names, (output, errors))
        value = names.pop("__value__", None)
        try:
            send(control, {"nonce": cell["nonce"], "ending": ending, "value": value})
        except (TypeError, ValueError, RecursionError):
            send(control, {"nonce": cell["nonce"], "ending": ending, "value": None})
    os._exit(0)  # without waiting for the threads of a cell


if __name__ == "__main__":
    main()
