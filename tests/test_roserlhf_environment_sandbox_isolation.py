"""What a box does not see of its surroundings, and what it does not leave in them."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from sandbox_kinds import KINDS, alive, descendants

from rosellm.roserlhf.environment.sandbox import Kind, Limits, Sandbox, SandboxResult

ROOT = Path(__file__).parents[1]
CHILDREN = """
import os, time
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.closerange(0, 64)
            time.sleep(60)
        os._exit(0)
print("left")
"""
KILL = """
import contextlib, os
for number in range(2, 40000):
    if number != os.getpid():
        with contextlib.suppress(OSError):
            os.kill(number, 9)
"""


@pytest.fixture(params=KINDS)
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    return Sandbox(Limits(seconds=20), kind=request.param)


def run(sandbox: Sandbox, code: str) -> SandboxResult:
    return asyncio.run(sandbox.run(code))


def test_the_environment_of_the_parent_is_not_there(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor that of the processes around the program, which /proc would show."""
    monkeypatch.setenv("A_SECRET", "s3cret")
    looked = "import os\nprint(os.environ.get('A_SECRET'), os.path.exists('/proc/1/environ'), os.path.exists('/proc/self'))"
    assert run(sandbox, looked).output == "None False False\n"


def test_descriptors_of_the_parent_are_not_there(sandbox: Sandbox, tmp_path: Path) -> None:
    """Not even those that are marked as to be inherited."""
    secret = tmp_path / "secret"
    secret.write_text("s3cret")
    descriptor = os.open(secret, os.O_RDONLY)
    os.set_inheritable(descriptor, True)
    try:
        looked = """
import os
for n in range(3, 4096):
    try:
        text = os.pread(n, 100, 0)
    except OSError:
        continue
    print(n, text)
"""
        assert run(sandbox, looked).output == ""
    finally:
        os.close(descriptor)


def test_the_run_folder_and_the_package_are_not_there(sandbox: Sandbox) -> None:
    """Even where every user of the machine may read them."""
    with tempfile.TemporaryDirectory(prefix="roserlhf-run-", dir="/var/tmp") as folder:
        os.chmod(folder, 0o755)
        record = Path(folder, "run.toml")
        record.write_text("seed = 1")
        for hidden in (record, ROOT / "rosellm" / "roserlhf" / "errors.py", Path(sys.executable)):
            result = run(sandbox, f"import os\nprint(os.path.exists({str(hidden)!r}))")
            assert (hidden.exists(), result.output) == (True, "False\n"), hidden


def test_the_name_of_the_machine_is_not_there(sandbox: Sandbox) -> None:
    assert run(sandbox, "import os\nprint(os.uname().nodename)").output == "box\n"


def test_one_episode_does_not_see_the_scratch_of_another(sandbox: Sandbox) -> None:
    async def play() -> tuple[SandboxResult, SandboxResult]:
        async with sandbox.session() as one, sandbox.session() as other:
            await one.run("open('/tmp/mine', 'w').write('x'); open('/dev/shm/mine', 'w').write('x')")
            listed = "import os\nprint(os.listdir('/tmp'), os.listdir('/dev/shm'))"
            return await one.run(listed), await other.run(listed)

    one, other = asyncio.run(play())
    assert one.output.count("'mine'") == 2
    assert other.output == "[] []\n"


def test_scratch_and_files_are_gone_with_the_box(sandbox: Sandbox) -> None:
    async def play() -> str:
        await sandbox.run("open('left', 'w').write('x')")
        return (
            await sandbox.run("import os\nprint(sorted(os.listdir()), open('data/in.txt').read())", {"data/in.txt": "hi"})
        ).output

    assert asyncio.run(play()) == "['data'] hi\n"


def test_no_process_is_left_when_a_session_closes(sandbox: Sandbox) -> None:
    """Children that left their session, their parent and their streams die with the box, before `close` returns."""

    async def play() -> set[int]:
        before = descendants()
        async with sandbox.session() as session:
            result = await session.run(CHILDREN)
            assert result.output.count("left") == 1
            await asyncio.sleep(0.1)
            inside = descendants() - before
            assert len(inside) >= 5, "the first process, the worker, three daemons"
        return alive(inside)

    assert asyncio.run(play()) == set()


def test_no_process_is_left_by_an_exception_or_a_cancelled_cell(sandbox: Sandbox) -> None:
    async def play() -> set[int]:
        before = descendants()
        with pytest.raises(ZeroDivisionError):
            async with sandbox.session() as session:
                await session.run(CHILDREN)
                inside = descendants() - before
                1 / 0  # noqa: B018
        assert alive(inside) == set()
        cell = asyncio.ensure_future(sandbox.run(CHILDREN + "\ntime.sleep(60)"))
        await asyncio.sleep(0.5)
        inside = descendants() - before
        cell.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cell
        return alive(inside)

    assert asyncio.run(play()) == set()


@pytest.mark.parametrize("wait", [0.0, 0.005, 0.05])
def test_no_process_is_left_by_a_box_that_was_cancelled_as_it_started(sandbox: Sandbox, wait: float) -> None:
    async def play() -> None:
        cell = asyncio.ensure_future(sandbox.run("import time\ntime.sleep(60)"))
        await asyncio.sleep(wait)
        inside = descendants()
        cell.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cell
        deadline = time.monotonic() + 10
        while alive(inside - kept) and time.monotonic() < deadline:
            await asyncio.sleep(0.01)
        assert alive(inside - kept) == set()

    kept = descendants()
    asyncio.run(play())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize("kind", KINDS)
def test_no_process_outlives_the_parent(kind: Kind, number: signal.Signals) -> None:
    program = f"""
import asyncio
from rosellm.roserlhf.environment.sandbox import Sandbox
async def main():
    async with Sandbox(kind={kind!r}).session() as session:
        await session.run({CHILDREN!r})
        print("ready", flush=True)
        await session.run("while True: pass", seconds=60)
asyncio.run(main())
"""
    parent = subprocess.Popen(
        [sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    )
    assert parent.stdout is not None
    with parent, parent.stdout:
        assert parent.stdout.readline() == b"ready\n"
        inside = descendants(parent.pid)
        assert len(inside) >= 5
        parent.send_signal(number)
    deadline = time.monotonic() + 10
    while alive(inside) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert alive(inside) == set()


def test_closing_ends_a_cell_that_is_running(sandbox: Sandbox) -> None:
    async def play() -> SandboxResult:
        session = sandbox.session()
        await session.start()
        cell = asyncio.ensure_future(session.run("print('so far'); import time; time.sleep(60)"))
        await asyncio.sleep(0.3)
        await session.close()
        return await cell

    before = descendants()
    result = asyncio.run(play())
    assert (result.ending, result.output) == ("died", "so far\n")
    assert descendants() <= before


def test_a_session_that_nobody_closes_ends_with_the_loop(sandbox: Sandbox) -> None:
    async def play() -> None:
        await sandbox.session().run("x = 1")

    before = descendants()
    asyncio.run(play())
    deadline = time.monotonic() + 10
    while descendants() - before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert descendants() <= before


def test_a_hundred_programs_at_once_leave_nothing(sandbox: Sandbox) -> None:
    """Each gets its own answer; no process, descriptor or thread remains; the loop is never held up."""

    async def play() -> tuple[list[str], float]:
        longest, done = 0.0, False

        async def beat() -> None:
            nonlocal longest
            while not done:
                before = time.monotonic()
                await asyncio.sleep(0.01)
                longest = max(longest, time.monotonic() - before)

        beating = asyncio.ensure_future(beat())
        results = await asyncio.gather(*(sandbox.run(f"print({n} ** 2)", seconds=60) for n in range(100)))
        done = True
        await beating
        return [result.output for result in results], longest

    processes, descriptors = descendants(), len(os.listdir("/proc/self/fd"))
    outputs, longest = asyncio.run(play())
    assert outputs == [f"{n**2}\n" for n in range(100)]
    assert descendants() - processes == set()
    assert len(os.listdir("/proc/self/fd")) == descriptors
    assert longest < 5.0  # a hundred starts in a row, on a busy machine


def test_the_same_user_outside_is_out_of_reach(sandbox: Sandbox) -> None:
    """A process that has the very user that programs become survives their attempt to kill everything."""
    user = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
    witness = subprocess.Popen(["/bin/sleep", "60"], **user)  # type: ignore[call-overload]
    try:
        kill = """
import contextlib, os
for number in range(2, 40000):
    if number != os.getpid():
        with contextlib.suppress(OSError):
            os.kill(number, 9)
"""
        assert run(sandbox, kill + "print('done')").output == "done\n"
        assert witness.poll() is None
    finally:
        witness.kill()
        witness.wait()
