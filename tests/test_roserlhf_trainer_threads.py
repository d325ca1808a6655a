"""Threads of a run: torch's own stay at one, a loop that runs anywhere and ends for good."""

from __future__ import annotations

import asyncio
import os
import threading

import pytest
import torch

from rosellm.roserlhf.trainer.threads import LoopThread, single_threaded, worker_count


def test_one_worker_per_usable_core_and_one_for_an_accelerator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1, 5}, raising=False)
    assert worker_count(torch.device("cpu")) == 3
    assert worker_count(torch.device("cuda")) == 1
    monkeypatch.delattr(os, "sched_getaffinity")  # as on macOS
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    assert worker_count(torch.device("cpu")) == 4
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert worker_count(torch.device("cpu")) == 1


def test_the_callers_thread_setting_comes_back_even_after_an_error() -> None:
    before = torch.get_num_threads()
    with pytest.raises(RuntimeError, match="inside"), single_threaded():
        assert torch.get_num_threads() == 1
        raise RuntimeError("inside")
    assert torch.get_num_threads() == before


def test_work_runs_in_one_loop_and_its_errors_come_out() -> None:
    loop = LoopThread()

    async def where() -> tuple[int, int]:
        return id(asyncio.get_running_loop()), threading.get_ident()

    async def wrong() -> None:
        raise KeyError("inside")

    assert loop.run(where()) == loop.run(where())
    assert loop.run(where())[1] != threading.get_ident()
    with pytest.raises(KeyError, match="inside"):
        loop.run(wrong())
    loop.close()


def test_closing_cancels_what_still_runs() -> None:
    before = set(threading.enumerate())
    loop, started, cancelled = LoopThread(), threading.Event(), threading.Event()

    async def endless() -> None:
        started.set()
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    def call() -> None:
        with pytest.raises(asyncio.CancelledError):
            loop.run(endless())

    caller = threading.Thread(target=call)
    caller.start()
    assert started.wait(120)
    loop.close()
    caller.join(120)
    assert cancelled.is_set()
    assert set(threading.enumerate()) == before
