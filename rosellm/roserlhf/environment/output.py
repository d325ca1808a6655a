"""What a tool returned as text that can be shown and stored: `any value → str`, cut in the middle where it is too long."""

from __future__ import annotations

from typing import Any


def text_of(answer: Any) -> str:
    """Return an answer as text: None as nothing, bytes as UTF-8, anything else as `str` says it.

    What is not Unicode (bytes that are no UTF-8, halves of surrogate pairs) is shown escaped: no tokenizer and no store takes it.

    Example:
        >>> text_of(b"caf\\xc3\\xa9 \\xff"), text_of(None), text_of("\\ud800")
        ('café \\\\xff', '', '\\\\ud800')
    """
    if isinstance(answer, (bytes, bytearray)):
        return answer.decode("utf-8", "backslashreplace")
    text = "" if answer is None else str(answer)
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


def shortened(text: str, limit: int) -> str:
    """Keep the first and the last half of `limit` bytes, whole characters only, and say in between how much is missing.

    Example:
        >>> print(shortened("0123456789" * 100, 20))
        0123456789
        [... 980 of 1000 bytes omitted ...]
        0123456789
    """
    if len(text) <= limit and (text.isascii() or len(text.encode()) <= limit):
        return text
    data = text.encode()
    head = data[: limit - limit // 2].decode("utf-8", "ignore")
    tail = data[len(data) - limit // 2 :].decode("utf-8", "ignore")
    omitted = len(data) - len(head.encode()) - len(tail.encode())
    return f"{head}\n[... {omitted} of {len(data)} bytes omitted ...]\n{tail}"
