"""Programs that may be run only so often: have they been run as often already?"""

from __future__ import annotations

from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.rations import rations, runs_before
from rosellm.roserlhf.guard.weigh.view import View


def weigh_rationed(act: Act, view: View) -> str:
    """Decide on a run: those before it, and a loop, count."""
    name = act.target.rpartition("/")[2]
    most, before = rations(view.grounds.setting.task)[name], runs_before(name, view.history)
    if "--help" in act.detail or (before < most and "loop" not in act.traits):
        return ""
    return f"{name} may be run {most} time{'s' * (most > 1)}, and has been run {before}"
