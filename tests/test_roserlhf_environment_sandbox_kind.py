"""Which sandbox is used, when none is, and what its system-call filter does."""

from __future__ import annotations

import asyncio
import errno
import os
import pickle
import platform
import re
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from sandbox_kinds import KINDS, descendants

from rosellm.roserlhf.environment.sandbox import Kind, Limits, Sandbox, landlock, seccomp, view
from rosellm.roserlhf.environment.sandbox.sandbox import kind_here
from rosellm.roserlhf.errors import ConfigError, DtypeError, RangeError, SandboxError

find: Callable[[str | None, Kind | None, bool], Kind] = kind_here.__wrapped__  # as on a machine that was never asked


@pytest.fixture
def no_bubblewrap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)


@pytest.fixture
def no_landlock(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = tmp_path / "launcher.py"
    script.write_text("raise OSError(95, 'Landlock: not supported')")
    monkeypatch.setattr(landlock, "_LAUNCHER", script)


def test_the_best_that_works_is_used() -> None:
    """This machine must have one: without, everything here fails with the name of the package to install."""
    assert Sandbox().kind == KINDS[0]
    assert Sandbox(unsafe_bare=True).kind == KINDS[0]


@pytest.mark.usefixtures("no_bubblewrap", "no_landlock")
def test_without_any_nothing_runs_and_the_package_is_named() -> None:
    before = descendants()  # workers of other tests
    with pytest.raises(SandboxError, match="apt-get install bubblewrap") as caught:
        find(None, None, False)
    assert "bwrap is not installed" in str(caught.value)
    assert "Landlock: not supported" in str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)  # noqa: S301 - our own
    assert isinstance(caught.value, RuntimeError)
    assert descendants() <= before


@pytest.mark.usefixtures("no_bubblewrap")
def test_without_bubblewrap_landlock_takes_over() -> None:
    if "landlock" not in KINDS:
        with pytest.raises(SandboxError, match="apt-get install bubblewrap"):
            find(None, None, False)
    else:
        assert find(None, None, False) == "landlock"
    with pytest.raises(SandboxError, match="bwrap is not installed"):
        find(None, "bubblewrap", False)


@pytest.mark.usefixtures("no_bubblewrap", "no_landlock")
def test_bare_is_taken_only_when_it_was_allowed() -> None:
    assert find(None, None, True) == "bare"
    with pytest.raises(SandboxError):
        find(None, "landlock", True)


def test_bare_needs_the_flag_and_says_what_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match='unsafe_bare must be True for kind="bare"'):
        Sandbox(kind="bare")
    with pytest.raises(DtypeError, match="unsafe_bare"):
        Sandbox(unsafe_bare="yes")  # type: ignore[arg-type]
    with pytest.raises(RangeError, match="kind"):
        Sandbox(kind="docker")  # type: ignore[arg-type]
    monkeypatch.setenv("A_SECRET", "s3cret")

    async def play() -> list[str]:
        async with Sandbox(kind="bare", unsafe_bare=True).session() as session:
            place = await session.run("import os; os.getcwd()")
            secret = await session.run("os.environ.get('A_SECRET')")
            stopped = await session.run("while True: pass", seconds=0.3)
            assert (place.kind, stopped.kind, stopped.ending) == ("bare", "bare", "timeout")
            return [place.output, secret.output]

    before = descendants()
    place, secret = asyncio.run(play())
    assert secret == ""
    assert not os.path.exists(place.strip().strip("'"))
    assert descendants() <= before


def test_another_machine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    with pytest.raises(SandboxError, match="x86_64 only, not of riscv64"):
        find(None, None, False)


def test_an_interpreter_must_be_there_for_everyone(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="python must be an interpreter that any user may run"):
        Sandbox(python="/nowhere/python3")
    private = tmp_path / "python3"
    private.write_text("#!/bin/sh\nexit 0\n")
    private.chmod(0o700 if os.geteuid() == 0 else 0o600)
    with pytest.raises(SandboxError, match="any user"):
        view.view_of(str(private))


def test_packages_are_hidden_wherever_python_lives() -> None:
    seen = view.view_of(None)
    package = str(Path(view.__file__).resolve().parents[3])
    visible = [path for path in seen.folders if package.startswith(f"{path}/")]
    hidden = [path for path in seen.hidden if package == path or package.startswith(f"{path}/")]
    assert not visible or hidden
    for path in seen.hidden:
        assert not re.search(r"python3[.\d]*$", path), "the standard library stays"


@pytest.mark.parametrize(
    ("limits", "error"),
    [
        ({"seconds": 0}, RangeError),
        ({"seconds": float("inf")}, RangeError),
        ({"seconds": "1"}, DtypeError),
        ({"memory": 1 << 20}, RangeError),
        ({"processes": 1}, RangeError),
        ({"output": 1.5}, DtypeError),
        ({"scratch": -1}, RangeError),
        ({"cpu_seconds": True}, DtypeError),
    ],
)
def test_limits_leave_something(limits: dict[str, object], error: type[Exception]) -> None:
    with pytest.raises(error, match=next(iter(limits))):
        Limits(**limits)  # type: ignore[arg-type]


def decide(program: bytes, number: int, first_argument: int = 0, architecture: int = 0xC000003E) -> int:
    """Run a filter by hand, as the kernel does: 32-bit words, jumps counted from the next line."""
    lines = [struct.unpack_from("HBBI", program, at) for at in range(0, len(program), 8)]
    words, value, at = {0: number, 4: architecture, 16: first_argument & 0xFFFFFFFF}, 0, 0
    while True:
        code, yes, no, constant = lines[at]
        at += 1
        if code == 0x06:
            return int(constant)
        if code == 0x20:
            value = words[constant]
        else:
            at += yes if {0x15: value == constant, 0x35: value >= constant, 0x45: bool(value & constant)}[code] else no


ALLOW, KILL = 0x7FFF0000, 0x80000000


def refuses(number: int) -> int:
    return 0x00050000 | number


def test_the_filter_decides_every_call() -> None:
    """All 512 numbers, on the right machine, on another, and in the x32 numbering."""
    program = seccomp.program()
    refused = {number for number in range(512) if decide(program, number) == refuses(errno.EPERM)}
    assert len(refused) == len(seccomp.denied())
    assert {41, 101, 272, 321, 425} <= refused, "socket, ptrace, unshare, bpf, io_uring"
    assert {number for number in range(512) if decide(program, number) not in (ALLOW, refuses(errno.EPERM))} == {435}
    assert decide(program, 435) == refuses(errno.ENOSYS)
    assert {decide(program, number, architecture=0x40000003) for number in range(512)} == {KILL}
    assert {decide(program, 0x40000000 | number) for number in range(512)} == {KILL}


@pytest.mark.parametrize("flag", [0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000])
def test_clone_makes_processes_and_threads_but_no_namespaces(flag: int) -> None:
    program, fork, thread = seccomp.program(), 0x01200011, 0x003D0F00
    assert decide(program, 56, fork) == decide(program, 56, thread) == ALLOW
    assert decide(program, 56, fork | flag) == decide(program, 56, flag) == refuses(errno.EPERM)


def test_the_numbers_are_those_of_the_headers() -> None:
    header = Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")
    if not header.exists():
        pytest.skip("the kernel's headers are not installed")
    known = dict(re.findall(r"#define __NR_(\w+) (\d+)", header.read_text()))
    numbers = seccomp._DENIED
    assert {name: str(number) for name, number in numbers.items() if name in known} == {n: known[n] for n in numbers if n in known}
    assert len([name for name in numbers if name in known]) >= len(numbers) - 5  # the newest are missing in old headers
