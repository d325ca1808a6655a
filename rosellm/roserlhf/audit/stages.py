"""Checks in an order: `stages + what is examined -> Outcomes`, each stage resting on earlier ones.

A stage that rests on one that failed is skipped and says so: it could only repeat the fault under another name. So each fault is
named once, where it first shows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from rosellm.roserlhf.audit.diagnosis import Outcome

_S = TypeVar("_S")


@dataclass(frozen=True)
class Stage(Generic[_S]):
    """One check."""

    name: str
    rests_on: tuple[str, ...]
    """Names of earlier stages without which this one means nothing."""
    examine: Callable[[_S], Outcome]
    """What is examined -> what was found."""


def in_order(stages: Sequence[Stage[_S]], examined: _S, on_begin: Callable[[int, str], None]) -> Iterator[Outcome]:
    """Run the stages one after the other and yield what each found.

    Args:
        stages: in an order in which each comes after those it rests on.
        examined: handed to each.
        on_begin: told (number from 1, name) before a stage begins.
    """
    blocked: dict[str, str] = {}
    for number, stage in enumerate(stages, start=1):
        on_begin(number, stage.name)
        why = next((f"rests on {name!r}, which {blocked[name]}" for name in stage.rests_on if name in blocked), None)
        outcome = _examined(stage, examined) if why is None else Outcome(stage.name, "skipped", why)
        if outcome.verdict in ("failed", "skipped"):
            blocked[stage.name] = "failed" if outcome.verdict == "failed" else "was skipped"
        yield outcome


def _examined(stage: Stage[_S], examined: _S) -> Outcome:
    try:
        return stage.examine(examined)
    except Exception as error:  # noqa: BLE001 - whatever the examined code or file makes of it is what was found
        evidence = " ".join(f"{type(error).__name__}: {error}".split())
        return Outcome(stage.name, "failed", evidence, "what was examined raised an error instead of an answer", "see its message")
