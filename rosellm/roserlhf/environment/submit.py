"""The tool `submit`: the final answer, which ends the episode."""

from __future__ import annotations

from typing import Protocol

from rosellm.roserlhf.environment.tools import tool


class TakesAnswer(Protocol):
    """An environment whose episode ends with an answer, as every `ToolEnvironment` can."""

    answer: str | None

    def finish(self) -> None:
        """End the episode after this call."""
        ...


@tool(instant=True)
def submit(self: TakesAnswer, answer: str) -> str:
    """Give the final answer and end the episode.

    Args:
        answer: the answer alone, without explanation.
    """
    self.answer = answer
    self.finish()
    return "done"
