"""What every docstring example may use without importing it, and what keeps sixteen thousand tests quick."""

from __future__ import annotations

import gc
import signal
from collections.abc import Iterator
from typing import Any

import pytest

import rosellm.roserlhf

LONGEST = (
    *("trainer_resume", "trainer_kills", "engine_parity", "environment_example", "trainer_pretrained", "guard_content_hints"),
    *("guard_run", "recipes_runs", "trainer_environments", "trainer_command", "audit_replay", "trainer_run", "store_kills"),
)
"""Files of tests that take tens of seconds, the longest first."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest files: with one of them as the last, one process would wait for the other."""
    places = {f"test_roserlhf_{name}.py": place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path.name, len(places)))


@pytest.fixture(autouse=True, scope="session")
def _interrupts_arrive() -> Iterator[None]:
    """Undo what a shell does to a job in the background, for this process and its children: to ignore Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(autouse=True, scope="session")
def _frozen_heap() -> Iterator[None]:
    """Keep the collector from walking all modules and all tests, as every training run in this process would make it do."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture
def thawed_heap() -> Iterator[None]:
    """Leave nothing frozen, as in a process of a user."""
    gc.unfreeze()
    yield
    gc.freeze()


@pytest.fixture(autouse=True)
def _names_of_examples(request: pytest.FixtureRequest, doctest_namespace: dict[str, Any]) -> None:
    if not isinstance(request.node, pytest.DoctestItem):
        return
    request.getfixturevalue("thawed_heap")
    if "torch" not in doctest_namespace:
        import torch

        names = {name: getattr(rosellm.roserlhf, name) for name in rosellm.roserlhf.__all__ if not name.startswith("__")}
        doctest_namespace.update(names, torch=torch)
