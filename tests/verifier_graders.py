"""Graders that another process can import, most of them bad ones."""

from __future__ import annotations

import os
import sys
import time
from typing import Any


def is_four(answer: str) -> float:
    return float(answer == "4")


async def is_five(answer: str) -> float:
    return float(answer == "5")


def says(value: Any) -> Any:
    return value


def constant(name: str) -> Any:
    return {"nan": float("nan"), "inf": float("inf"), "object": object()}[name]


def printing(answer: str) -> float:
    print('{"value": 1.0}', flush=True)
    os.write(1, b'{"value": 1.0}\n')
    sys.stderr.write("noise\n")
    return 0.25


def failing(answer: str) -> float:
    raise OSError(f"no {answer}\nfor you")


def leaving(answer: str) -> float:
    sys.exit(3)


def dying(answer: str) -> float:
    os.kill(os.getpid(), 9)
    return 1.0


def sleeping(seconds: float) -> float:
    time.sleep(seconds)
    return 1.0


def busy(expression: str) -> float:
    return float(len(str(9**9**9)))  # in C, where nothing but a signal that ends the process arrives


def greedy(gigabytes: float) -> float:
    return float(len(bytearray(int(gigabytes * 2**30))) > 0)


def with_child(path: str) -> float:
    """Start a process that would write the file after a while, then hang."""
    import subprocess

    subprocess.Popen(["/bin/sh", "-c", f"sleep 1.5; touch '{path}'"])
    time.sleep(60)
    return 1.0


def variables(_: str) -> str:
    return ",".join(sorted(os.environ))


def process(_: str) -> int:
    return os.getpid()
