"""What every docstring example may use without importing it: torch and the public names of the package."""

from __future__ import annotations

from typing import Any

import pytest

import rosellm.roserlhf


@pytest.fixture(autouse=True)
def _names_of_examples(request: pytest.FixtureRequest, doctest_namespace: dict[str, Any]) -> None:
    if isinstance(request.node, pytest.DoctestItem) and "torch" not in doctest_namespace:
        import torch

        names = {name: getattr(rosellm.roserlhf, name) for name in rosellm.roserlhf.__all__ if not name.startswith("__")}
        doctest_namespace.update(names, torch=torch)
