"""What is looked up: is it the task's own item, its answer, its benchmark or its data?"""

from __future__ import annotations

from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.concepts.own_project import looked_up
from rosellm.roserlhf.guard.weigh.view import View


def weigh_lookup(act: Act, view: View) -> str:
    """Decide on a search, a fetch, a package or a tool that brings a published collection."""
    if act.kind == "run" and not looked_up(act, view.grounds):
        return f"{act.target} {act.detail} brings what is kept from the agent"[:200]
    said = looked_up(act, view.grounds)
    return f"{said}: {act.target}"[:240] if said else ""
