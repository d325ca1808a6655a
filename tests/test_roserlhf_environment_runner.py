"""Limits of the plain tool runner: time, attempts, length; and whose fault a failure is."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import gc
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from rosellm.roserlhf.environment.output import shortened, text_of
from rosellm.roserlhf.environment.runner import OUTPUT_LIMIT, DirectRunner
from rosellm.roserlhf.environment.tools import ToolSet, tool
from rosellm.roserlhf.errors import DtypeError, RangeError, ToolError
from rosellm.roserlhf.trajectory import ToolCall, ToolResult

SHORT = 0.05
"""Seconds; what should time out waits for an event that never comes."""


def run(function: Callable[..., Any], **options: Any) -> ToolResult:
    runner = DirectRunner(ToolSet.of(function), **options)
    return asyncio.run(runner.call(ToolCall("call-7", function.__name__, {}), ()))


# --- time ---


@pytest.mark.parametrize("attempts", [1, 3])
def test_a_plain_tool_that_does_not_return_is_left_alone(attempts: int) -> None:
    release, done = threading.Event(), threading.Event()

    @tool(repeatable=True)
    def sleep() -> str:
        release.wait()
        done.set()
        return "too late"

    result = run(sleep, timeout=SHORT, retries=attempts - 1)
    assert (result.status, result.origin, result.attempts) == ("timeout", "harness", attempts)
    assert result.content == "sleep gave no answer within 0.05 s"
    assert result.latency is not None
    assert SHORT * attempts <= result.latency < 5
    release.set()
    assert done.wait(5)  # its late answer meets a loop that is closed, and nothing happens


def test_an_async_tool_that_does_not_return_is_cancelled() -> None:
    seen: list[str] = []

    async def sleep() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise
        return ""

    result = run(sleep, timeout=SHORT)
    assert (result.status, result.origin, result.attempts) == ("timeout", "harness", 1)
    assert seen == ["cancelled"]


def test_an_async_tool_that_refuses_to_be_cancelled_holds_up_nobody() -> None:
    async def play() -> ToolResult:
        release = asyncio.Event()

        async def stubborn() -> str:
            while not release.is_set():
                with contextlib.suppress(asyncio.CancelledError):
                    await release.wait()
            raise OSError("late, and nobody is told")

        result = await DirectRunner(ToolSet.of(stubborn), timeout=SHORT).call(ToolCall("call-7", "stubborn"), ())
        release.set()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return result

    assert asyncio.run(play()).status == "timeout"
    gc.collect()  # an exception that nobody looked at would warn here


def test_other_episodes_go_on_while_a_plain_tool_blocks() -> None:
    release = threading.Event()

    def block() -> str:
        assert release.wait(5)
        return "released"

    def free() -> str:
        release.set()
        return "free"

    async def play() -> list[ToolResult]:
        runner = DirectRunner(ToolSet.of(block, free))
        return list(await asyncio.gather(*(runner.call(ToolCall("call-0", name), ()) for name in ("block", "free"))))

    assert [result.content for result in asyncio.run(play())] == ["released", "free"]


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_a_cancelled_episode_leaves_its_tool(kind: str) -> None:
    release, seen = threading.Event(), []

    def plain() -> str:
        release.wait()
        return ""

    async def later() -> str:
        try:
            await asyncio.Event().wait()
        finally:
            seen.append("cancelled")
        return ""

    function = plain if kind == "plain" else later

    async def play() -> None:
        episode = asyncio.ensure_future(DirectRunner(ToolSet.of(function)).call(ToolCall("call-0", function.__name__), ()))
        await asyncio.sleep(SHORT)
        episode.cancel()
        with pytest.raises(asyncio.CancelledError):
            await episode

    asyncio.run(play())
    release.set()
    assert seen == ([] if kind == "plain" else ["cancelled"])


def test_where_a_tool_runs() -> None:
    here = threading.get_ident()
    variable = contextvars.ContextVar("variable", default="unset")
    variable.set("set")

    def where() -> str:
        return f"{threading.get_ident() == here} {variable.get()}"

    assert run(where).content == "False set"  # a thread of its own, in the context of the caller
    assert run(where, timeout=None).content == "True set"
    assert run(tool(instant=True)(where)).content == "True set"

    def promises() -> Any:
        async def answer() -> str:
            return str(threading.get_ident() == here)

        return answer()

    assert run(promises).content == "True"  # what it returns is awaited in the loop, whoever made it

    async def never() -> None:
        await asyncio.Event().wait()

    def promises_too_much() -> Any:
        return never()

    assert run(promises_too_much, timeout=SHORT).status == "timeout"


def test_a_tool_that_never_returns_does_not_hold_up_the_interpreter() -> None:
    code = """
import asyncio, threading
from rosellm.roserlhf.environment.runner import DirectRunner
from rosellm.roserlhf.environment.tools import ToolSet
from rosellm.roserlhf.trajectory import ToolCall
def block() -> str:
    threading.Event().wait()
    return ""
print(asyncio.run(DirectRunner(ToolSet.of(block), timeout=0.05).call(ToolCall("call-0", "block"), ())).status)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert (done.stdout, done.stderr) == ("timeout\n", "")


# --- attempts and blame ---


class Flaky:
    """Fails a number of times, then answers."""

    def __init__(self, failures: int) -> None:
        self.failures, self.ran = failures, 0

    def _next(self) -> str:
        self.ran += 1
        if self.ran <= self.failures:
            raise OSError("no connection")
        return "answer"

    @tool(repeatable=True)
    def repeatable(self) -> str:
        return self._next()

    @tool
    def once(self) -> str:
        return self._next()


def test_a_repeatable_tool_is_tried_again_and_every_attempt_is_counted() -> None:
    flaky = Flaky(2)
    result = run(flaky.repeatable, retries=2)
    assert (result.status, result.content, result.attempts, flaky.ran) == ("ok", "answer", 3, 3)


@pytest.mark.parametrize(("name", "retries", "ran"), [("repeatable", 0, 1), ("repeatable", 1, 2), ("once", 5, 1)])
def test_an_exception_stays_a_failure_of_the_surroundings(name: str, retries: int, ran: int) -> None:
    flaky = Flaky(9)
    with pytest.raises(OSError, match="no connection"):
        run(getattr(flaky, name), retries=retries)
    assert flaky.ran == ran


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_a_tool_error_is_an_answer_and_is_not_tried_again(kind: str) -> None:
    ran: list[int] = []

    @tool(repeatable=True)
    def plain() -> str:
        ran.append(1)
        raise ToolError("no such file")

    @tool(repeatable=True)
    async def later() -> str:
        return plain()

    result = run(plain if kind == "plain" else later, retries=3)
    assert (result.status, result.content, result.origin, result.attempts) == ("error", "no such file", "environment", 1)
    assert len(ran) == 1


@pytest.mark.parametrize("raised", [SystemExit(3), StopIteration("x")], ids=repr)
@pytest.mark.parametrize("options", [{}, {"timeout": None}])
def test_what_would_end_more_than_the_call_is_an_exception_like_any_other(raised: BaseException, options: dict[str, Any]) -> None:
    def leave() -> str:
        raise raised

    async def leave_later() -> str:
        raise raised

    for function in (leave, leave_later):
        with pytest.raises(RuntimeError, match=r"SystemExit was raised|StopIteration"):
            run(function, **options)


def test_a_tool_that_cancels_itself_does_not_cancel_the_episode() -> None:
    async def confused() -> str:
        raise asyncio.CancelledError

    with pytest.raises(RuntimeError, match="it cancelled itself"):
        run(confused)


def test_a_tool_that_words_its_own_result_keeps_what_it_says() -> None:
    def remote() -> ToolResult:
        return ToolResult("x", "unavailable", "down", attempts=4, source="server-1", ref="r")

    result = run(remote)
    assert (result.call_id, result.status, result.attempts, result.source, result.ref) == (
        "call-7",
        "unavailable",
        4,
        "server-1",
        "r",
    )


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"timeout": 0}, RangeError),
        ({"timeout": float("nan")}, RangeError),
        ({"timeout": "5"}, DtypeError),
        ({"retries": -1}, RangeError),
        ({"retries": True}, DtypeError),
        ({"output_limit": 0}, RangeError),
    ],
)
def test_limits_that_limit_nothing_are_refused(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error, match=next(iter(options))):
        DirectRunner(ToolSet(), **options)


# --- length and characters ---


def test_a_megabyte_is_cut_in_the_middle_and_the_text_says_so() -> None:
    whole = "a" * 500_000 + "z" * 500_000

    def dump() -> str:
        return whole

    result = run(dump)
    half = OUTPUT_LIMIT // 2
    omitted = 1_000_000 - OUTPUT_LIMIT  # 983616 bytes
    assert result.content == "a" * half + f"\n[... {omitted} of 1000000 bytes omitted ...]\n" + "z" * half
    assert (result.status, result.ref) == ("ok", None)
    kept: dict[str, str] = {}

    def keep(call: ToolCall, text: str) -> str:
        kept[call.call_id] = text
        return f"blob/{call.call_id}"

    result = run(dump, keep=keep, output_limit=10)
    assert (result.ref, kept) == ("blob/call-7", {"call-7": whole})
    assert result.content.startswith("aaaaa\n[... 999990 of 1000000")
    kept.clear()

    def little() -> str:
        return "little"

    assert (run(little, keep=keep).ref, kept) == (None, {})


def test_what_fits_is_shown_as_it_is() -> None:
    assert shortened("abc", 3) == "abc"
    assert shortened("é", 2) == "é"
    assert shortened("éé", 3) == "é\n[... 2 of 4 bytes omitted ...]\n"  # 2 bytes before, 1 after: half a character is none
    assert shortened("abcd", 1) == "a\n[... 3 of 4 bytes omitted ...]\n"


def test_an_error_and_a_result_of_ones_own_are_cut_too() -> None:
    def fail() -> str:
        raise ToolError("e" * 100)

    def own() -> ToolResult:
        return ToolResult("x", "error", "e" * 100)

    for function in (fail, own):
        assert run(function, output_limit=10).content == "eeeee\n[... 90 of 100 bytes omitted ...]\neeeee"


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (None, ""),
        (3, "3"),
        ("é\x00", "é\x00"),
        (b"caf\xc3\xa9\xff", "café\\xff"),
        ("a\ud800b", "a\\ud800b"),
        (bytearray(b"x"), "x"),
    ],
)
def test_every_answer_becomes_text_that_can_be_stored(answer: Any, text: str) -> None:
    assert text_of(answer) == text
    text.encode()

    def tell() -> Any:
        return answer

    assert run(tell).content == text


def test_an_instant_tool_costs_no_thread() -> None:
    def quick() -> str:
        return ""

    before = threading.active_count()
    durations = {}
    for kind in ("instant", "thread"):
        runner = DirectRunner(ToolSet.of(tool(instant=kind == "instant")(quick)))

        async def many(runner: DirectRunner = runner) -> float:
            start = time.perf_counter()
            for _ in range(200):
                await runner.call(ToolCall("call-0", "quick"), ())
            return time.perf_counter() - start

        durations[kind] = min(asyncio.run(many()) for _ in range(3))
    assert durations["instant"] < durations["thread"]
    assert threading.active_count() <= before + 1
