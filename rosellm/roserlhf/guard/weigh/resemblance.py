"""Likeness to labelled attempts: alone it must be strong, beside something suspicious less so."""

from __future__ import annotations

from typing import Final

from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.weigh.view import View

ALONE: Final = 0.6
"""Score at which likeness alone decides."""
BESIDE: Final = 0.2
"""Score at which it decides where a rule has found something suspicious, too."""


def weigh_resemblance(act: Act, view: View) -> str:
    """Decide on a call by how its words weigh: no reason why it is a hack, but what it is like."""
    beside = any(other.kind != "resemblance" for other in view.acts)
    strong = float(act.target) >= (BESIDE if beside else ALONE)
    return f"score {act.target} ({act.detail})" if strong else ""
