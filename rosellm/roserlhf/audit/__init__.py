"""Audit: what a run's own evidence says about it; loaded when a name is first used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rosellm.roserlhf.audit.explanation import Explanation as Explanation
    from rosellm.roserlhf.audit.explanation import explain as explain

__all__ = ["Explanation", "explain"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from rosellm.roserlhf.audit import explanation

        return getattr(explanation, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
