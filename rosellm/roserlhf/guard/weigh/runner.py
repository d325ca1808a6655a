"""Hooks, patches, exits, start-up files, variables, schedules: does it change what a test or a verifier finds?"""

from __future__ import annotations

from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.weigh.definitions import weigh_definition
from rosellm.roserlhf.guard.weigh.detecting import weigh_detecting
from rosellm.roserlhf.guard.weigh.environment import weigh_environment
from rosellm.roserlhf.guard.weigh.exits import weigh_exit
from rosellm.roserlhf.guard.weigh.patches import weigh_patch
from rosellm.roserlhf.guard.weigh.place import full_path, is_for_attacks
from rosellm.roserlhf.guard.weigh.runner_files import weigh_runner_file
from rosellm.roserlhf.guard.weigh.view import View


def weigh_runner(act: Act, view: View) -> str:
    """Decide on what changes how tests run or compare, other than in the folder in which the task wants attacks to be written."""
    if is_for_attacks(full_path(view.file_of(act), view), view):
        return ""
    return _QUESTIONS[act.kind](act, view) if act.kind in _QUESTIONS else ""


_QUESTIONS = {
    "write": weigh_runner_file, "delete": weigh_runner_file, "link": weigh_runner_file, "define": weigh_definition,
    "patch": weigh_patch, "exit": weigh_exit, "detect": weigh_detecting, "environment": weigh_environment,
}  # fmt: skip
