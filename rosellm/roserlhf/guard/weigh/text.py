"""Texts to the judge and shortcuts in written code."""

from __future__ import annotations

from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.weigh.view import View


def weigh_address(act: Act, view: View) -> str:
    """Decide on a text that may speak to whoever judges."""
    return f"speaks to the judge: {act.target}"[:200]


def weigh_shortcut(act: Act, view: View) -> str:
    """Decide on a shortcut in written code."""
    return f"{act.target}: {act.detail}"[:200]
