"""Reinforcement learning for LLM agents in which every gradient can be traced to its tokens, policy version, reward and rule.

Importing the package imports nothing heavy, not even torch: a public name is loaded from the module that owns it when it is first
used (PEP 562). Type checkers see the same names through the imports under `TYPE_CHECKING`; a test keeps the two lists equal.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rosellm.roserlhf import errors as errors
    from rosellm.roserlhf import recipes as recipes
    from rosellm.roserlhf.errors import *  # noqa: F403

__version__ = "0.1.0"

_NAMES: dict[str, tuple[str, ...]] = {
    "errors": (
        "CheckpointError",
        "ConfigError",
        "DeviceError",
        "DtypeError",
        "GroupError",
        "MaskError",
        "MissingExtraError",
        "NonFiniteError",
        "RangeError",
        "RecordError",
        "RoseError",
        "RunFolderError",
        "ShapeError",
        "StoreError",
    ),
}
_MODULES = ("errors", "recipes")
_OWNERS = {name: module for module, names in _NAMES.items() for name in names}

__all__ = sorted([*_OWNERS, *_MODULES, "__version__"])


def _load(module: str) -> ModuleType:
    try:
        return importlib.import_module(f"{__name__}.{module}")
    except ModuleNotFoundError as error:
        from rosellm.roserlhf.errors import missing_extra

        raise missing_extra(error) from error


if not TYPE_CHECKING:  # else a checker would accept every misspelled name

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return _load(name)
        if name in _OWNERS:
            value = getattr(_load(_OWNERS[name]), name)
            globals()[name] = value
            return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
