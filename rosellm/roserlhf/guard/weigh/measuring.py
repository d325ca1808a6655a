"""What a task measures by: the question of changes that skew it."""

from __future__ import annotations

from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.measures import skews_measure
from rosellm.roserlhf.guard.weigh.view import View


def weigh_measuring(act: Act, view: View) -> str:
    """Decide on a change of what is measured."""
    said = skews_measure(act, view.grounds)
    return f"{act.target}: {said}"[:200] if said else ""
