"""Audit: is what a run recorded what it computed; names are loaded when they are first used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rosellm.roserlhf.audit.rerun import Replay as Replay
    from rosellm.roserlhf.audit.rerun import replay as replay

_OWNERS = {"Replay": "rerun", "replay": "rerun"}

__all__ = ["Replay", "replay"]


if not TYPE_CHECKING:  # else a checker would accept every misspelled name

    def __getattr__(name: str) -> Any:
        if name in _OWNERS:
            return getattr(importlib.import_module(f"{__name__}.{_OWNERS[name]}"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
