"""Hooks, patches, exits, start-up files, variables, schedules: does it change what a test or a verifier finds?"""

from __future__ import annotations

from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.patterns import pattern
from rosellm.roserlhf.guard.weigh.files import weigh_writing
from rosellm.roserlhf.guard.weigh.view import View


def weigh_runner(act: Act, view: View) -> str:
    """Decide on what changes how tests run or compare."""
    if act.kind in ("write", "delete", "link"):
        return weigh_writing(act, view)
    if act.kind == "schedule":
        return weigh_writing(act, view)
    if act.kind == "detect":
        return f"behaves otherwise under {act.target}" if pattern(r"test|mocha|jest|grad|verif|bench").search(act.target.lower()) else ""
    return f"{act.kind} {act.target} {act.detail}"[:200]
