"""Versions of Python and of the packages below a run, read from their metadata: nothing is imported."""

from __future__ import annotations

import importlib.metadata
import platform

_VERSIONED = ("rosellm", "torch", "transformers", "tokenizers", "numpy", "safetensors")


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that decide the numbers."""
    found = {"python": platform.python_version()}
    for name in _VERSIONED:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found
