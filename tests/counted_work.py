"""How much work the interpreter does: instructions are counted, so that laws of growth do not depend on the machine's mood."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def instructions(work: Callable[[], object]) -> int:
    """Return how many instructions of Python some work takes; what C code does inside one is not seen."""
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count
