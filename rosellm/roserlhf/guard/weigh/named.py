"""Files of settings that name what is kept, for a program that will read it there."""

from __future__ import annotations

from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.concepts.kept import named_places
from rosellm.roserlhf.guard.weigh.view import View


def weigh_named(act: Act, view: View) -> str:
    """Decide on a file that gives a program places to use: is one of them kept from the agent?"""
    kept = named_places(act, view.grounds)
    return f"{act.target} sends a program to {kept[0]}, which is kept from the agent" if kept else ""
