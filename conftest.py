"""What every doctest may use without importing it: torch and the public names of the package."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import rosellm.roserlhf


@pytest.fixture(autouse=True, scope="session")
def _doctest_names(doctest_namespace: dict[str, Any]) -> None:
    doctest_namespace["torch"] = torch
    doctest_namespace.update({name: getattr(rosellm.roserlhf, name) for name in rosellm.roserlhf.__all__})
