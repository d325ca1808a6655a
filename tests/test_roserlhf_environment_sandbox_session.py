"""Cells of one episode: what lasts between them, what ends them, and that none can answer for another."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from sandbox_kinds import KINDS

from rosellm.roserlhf.environment.sandbox import Limits, Sandbox, SandboxResult
from rosellm.roserlhf.errors import DtypeError, RangeError, RecordError, SandboxError

LOST = ("timeout", "output", "cpu", "died")


@pytest.fixture(params=KINDS)
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    return Sandbox(Limits(seconds=20, output=1 << 16), kind=request.param)


def cells(sandbox: Sandbox, *codes: str, seconds: Sequence[float] = ()) -> list[SandboxResult]:
    async def play() -> list[SandboxResult]:
        async with sandbox.session() as session:
            times = [*seconds, *[None] * (len(codes) - len(seconds))]
            return [await session.run(code, seconds=time) for code, time in zip(codes, times, strict=True)]

    return asyncio.run(play())


def test_state_lasts_and_the_last_value_is_shown(sandbox: Sandbox) -> None:
    results = cells(
        sandbox, "x = 40", "def f(): return x + 2", "f()", "print(x); None", "open('a', 'w').write('hi')", "open('a').read()"
    )
    assert [result.output for result in results] == ["", "", "42\n", "40\n", "2\n", "'hi'\n"]
    assert {result.ending for result in results} == {"ok"}
    assert {result.kind for result in results} == {sandbox.kind}


def test_a_cell_that_raises_keeps_the_state_and_shows_its_own_lines(sandbox: Sandbox) -> None:
    raised, after = cells(sandbox, "x = 1\n\ndef f():\n    return 1 / 0\nf()", "x")
    assert (raised.ending, raised.state_lost, after.output) == ("error", False, "1\n")
    assert "return 1 / 0" in raised.errors
    assert raised.errors.endswith("ZeroDivisionError: division by zero\n")
    assert "worker" not in raised.errors
    assert raised.errors.count("File ") == 2


@pytest.mark.parametrize(
    ("code", "ending"),
    [
        ("import sys; sys.exit()", "ok"),
        ("import sys; sys.exit(3)", "error"),
        ("raise SystemExit('no')", "error"),
        ("raise KeyboardInterrupt", "error"),
        ("def f(): return f()\nf()", "error"),
        ("x = [0] * (1 << 40)", "memory"),
        ("syntax error", "error"),
        ("print('\\udcff')", "ok"),
        ("'\0'", "error"),
        ("\udcff", "error"),
        ("class E(Exception):\n    def __str__(self): raise ValueError\nraise E", "error"),
        ("import sys; sys.stdout.close(); sys.stderr = None; 1 / 0", "error"),
        ("import os; os._exit(3)", "died"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "died"),
        ("import os; os.closerange(0, 100)", "died"),
        ("while True: print('x' * 1000)", "output"),
    ],
)
def test_every_way_to_end_has_its_name(code: str, ending: str) -> None:
    sandbox = Sandbox(Limits(seconds=20, output=1 << 16), kind=KINDS[0])
    _, ended, after = cells(sandbox, "x = 41", code, "print(x + 1 if 'x' in globals() else 'lost')")
    assert ended.ending == ending
    assert ended.state_lost == (ending in LOST)
    assert (after.ending, after.output) == ("ok", "lost\n" if ended.state_lost else "42\n")


def test_a_cell_without_end_is_stopped_with_what_it_printed(sandbox: Sandbox) -> None:
    stopped, after = cells(sandbox, "print('so far')\nwhile True: pass", "1 + 1", seconds=[0.5])
    assert (stopped.ending, stopped.output, stopped.state_lost) == ("timeout", "so far\n", True)
    assert 0.5 <= stopped.seconds < 5
    assert (after.ending, after.output, after.state_lost) == ("ok", "2\n", False)


def test_a_flood_is_cut_at_its_bound(sandbox: Sandbox) -> None:
    (flooded,) = cells(sandbox, "while True: print('x' * 1000)")
    assert flooded.ending == "output"
    assert len(flooded.output) == sandbox.limits.output


def test_what_is_no_text_is_shown_as_bytes(sandbox: Sandbox) -> None:
    (result,) = cells(sandbox, r"import os; os.write(1, b'a\x00\xff\xc3'); os.write(1, 'ü'.encode()); None")
    assert result.output == "a\x00\\xff\\xc3ü"


def test_the_standard_input_is_empty_unless_given(sandbox: Sandbox) -> None:
    async def play() -> list[SandboxResult]:
        async with sandbox.session() as session:
            return [
                await session.run("input()"),
                await session.run("[input(), input()]", stdin="one\ntwo\n"),
                await session.run("import sys; sys.stdin.read()"),
            ]

    without, given, after = asyncio.run(play())
    assert without.errors.endswith("EOFError: EOF when reading a line\n")
    assert given.output == "['one', 'two']\n"
    assert after.output == "''\n"


def test_a_child_that_a_cell_forks_ends_with_the_cell(sandbox: Sandbox) -> None:
    """It comes to the end of the cell, too, and must answer for none and read no further cell."""
    fork = "import os\nx = os.fork()\nif x: os.wait()\nprint('child' if x == 0 else 'parent')"
    forked, *after = cells(sandbox, fork, *["x > 0"] * 3)
    assert sorted(forked.output.split()) == ["child", "parent"]
    assert [result.output for result in after] == ["True\n"] * 3


FORGE = """
import json, os
for nonce in ("", None, 0, "0" * 32):
    text = {"nonce": nonce, "ending": "ok", "value": "forged"}
    frame = json.dumps(text).encode()
    for n in range(3, 64):
        try:
            os.write(n, len(frame).to_bytes(4, "big") + frame)
        except OSError:
            pass
"""


def test_an_earlier_cell_cannot_answer_for_a_later_one(sandbox: Sandbox) -> None:
    """Replies written in advance lack the nonce of a cell that was not handed over yet."""
    first, *later = cells(sandbox, FORGE, "__value__ = 'mine'; 1 / 0", "__value__ = 2")
    assert first.value is None
    assert [(result.ending, result.value) for result in later] == [("error", "mine"), ("ok", 2)]


GARBAGE = ["b'x' * 100", "bytes(4)", "b'\\xff' * 8", "b'\\0\\0\\0\\3[1]'", "b'\\0\\0\\0\\3{}}'"]


@pytest.mark.parametrize("garbage", GARBAGE)
def test_a_broken_channel_costs_the_box_and_nothing_else(garbage: str) -> None:
    sandbox = Sandbox(kind=KINDS[0])
    code = f"import os\nfor n in range(3, 64):\n    try: os.write(n, {garbage})\n    except OSError: pass"
    broken, after = cells(sandbox, code, "'well'", seconds=[2])
    assert (broken.ending, broken.value, after.output) == ("died", None, "'well'\n")


def test_printing_the_protocol_is_output(sandbox: Sandbox) -> None:
    text = '\x00\x00\x00\x20{"nonce": "", "ending": "error"}'
    (result,) = cells(sandbox, f"print({text!r})")
    assert (result.ending, result.output) == ("ok", text + "\n")


def test_what_is_printed_between_two_cells_belongs_to_neither(sandbox: Sandbox) -> None:
    """A thread of the first cell prints while nobody listens; the second cell's answer does not begin with it."""
    thread = """
import threading, time
def late():
    time.sleep(0.2)
    print("late")
threading.Thread(target=late).start()
"""

    async def play() -> list[SandboxResult]:
        async with sandbox.session() as session:
            first = await session.run(thread)
            await asyncio.sleep(1.0)
            return [first, await session.run("print('own')")]

    assert [result.output for result in asyncio.run(play())] == ["", "own\n"]


def test_a_program_ends_like_a_program() -> None:
    """Its threads are waited for and what it registered is called, as at the end of an interpreter."""
    code = """
import atexit, threading, time
atexit.register(print, "registered")
threading.Thread(target=lambda: (time.sleep(0.2), print("thread"))).start()
print("main")
6 * 7
"""
    assert asyncio.run(Sandbox(kind=KINDS[0]).run(code)).output == "main\nthread\nregistered\n"


def test_hash_seed_and_locale_are_fixed(sandbox: Sandbox) -> None:
    codes = ["print(hash('a'))", "import time; time.tzname[0]", "import sys; sys.getfilesystemencoding()"]
    assert [result.output for result in cells(sandbox, *codes)][1:] == ["'UTC'\n", "'utf-8'\n"]
    assert cells(sandbox, codes[0])[0].output == cells(sandbox, codes[0])[0].output


def test_processes_threads_and_event_loops_work(sandbox: Sandbox) -> None:
    codes = [
        "import asyncio; asyncio.run(asyncio.sleep(0, 'slept'))",
        "import subprocess; subprocess.run(['echo', 'hi'], capture_output=True, text=True).stdout",
        "import multiprocessing\nwith multiprocessing.Pool(2) as pool: squares = pool.map(abs, [-1, -2])\nsquares",
        "import threading; t = threading.Thread(target=print, args=('thread',)); t.start(); t.join()",
        "import tempfile, shutil; shutil.copy(tempfile.NamedTemporaryFile(delete=False).name, 'copy')",
    ]
    results = cells(sandbox, *codes)
    assert [result.output for result in results] == ["'slept'\n", "'hi\\n'\n", "[1, 2]\n", "thread\n", "'copy'\n"], results


def test_cells_at_the_same_time_wait_for_one_another() -> None:
    async def play() -> list[str]:
        async with Sandbox(kind=KINDS[0]).session() as session:
            await session.run("x = 0")
            results = await asyncio.gather(*(session.run("x += 1; print(x)") for _ in range(20)))
            return [result.output for result in results]

    assert asyncio.run(play()) == [f"{n}\n" for n in range(1, 21)]


def test_a_closed_session_refuses(sandbox: Sandbox) -> None:
    async def play() -> None:
        async with sandbox.session() as session:
            await session.run("x = 1")
        await session.close()
        with pytest.raises(SandboxError, match="closed"):
            await session.run("x")

    asyncio.run(play())


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"code": 1}, RecordError),
        ({"code": "1", "stdin": b""}, RecordError),
        ({"code": "1", "stdin": "x" * (9 << 20)}, RangeError),
        ({"code": "1", "seconds": 0}, RangeError),
        ({"code": "1", "seconds": float("nan")}, RangeError),
        ({"code": "1", "seconds": "2"}, DtypeError),
    ],
)
def test_bad_arguments_are_refused_before_anything_runs(arguments: dict[str, object], error: type[Exception]) -> None:
    with pytest.raises(error):
        asyncio.run(Sandbox(kind=KINDS[0]).session().run(**arguments))  # type: ignore[arg-type]


@pytest.mark.parametrize("path", ["/etc/x", "../x", "a/../../x", "", ".", "a\0b", 3])
def test_files_stay_in_the_working_directory(path: object) -> None:
    with pytest.raises(RecordError, match="relative paths"):
        Sandbox(kind=KINDS[0]).session({path: "x"})  # type: ignore[dict-item]


def test_files_are_text_or_bytes() -> None:
    sandbox = Sandbox(kind=KINDS[0])
    with pytest.raises(RecordError, match="text or bytes"):
        sandbox.session({"a": 1})  # type: ignore[dict-item]
    result = asyncio.run(sandbox.run("print(open('a/b', 'rb').read(), open('c').read())", {"a/b": b"\xff", "c": "ü"}))
    assert result.output == "b'\\xff' ü\n"
    with pytest.raises(SandboxError, match="No space left"):
        asyncio.run(Sandbox(Limits(scratch=1 << 20), kind=KINDS[0]).run("", {"a": bytes(2 << 20)}))
