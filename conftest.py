"""What every docstring example may use without importing it: torch and the public names of the package."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import pytest

import rosellm.roserlhf


@pytest.fixture(autouse=True, scope="session")
def _interrupts_arrive() -> Iterator[None]:
    """Undo what a shell does to a job in the background, for this process and its children: to ignore Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(autouse=True)
def _names_of_examples(request: pytest.FixtureRequest, doctest_namespace: dict[str, Any]) -> None:
    if isinstance(request.node, pytest.DoctestItem) and "torch" not in doctest_namespace:
        import torch

        names = {name: getattr(rosellm.roserlhf, name) for name in rosellm.roserlhf.__all__ if not name.startswith("__")}
        doctest_namespace.update(names, torch=torch)
