"""Hooks, patches, exits, start-up files, variables, schedules: does it change what a test or a verifier finds?"""

from __future__ import annotations

from rosellm.roserlhf.guard import demands
from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.paths import Touch
from rosellm.roserlhf.guard.patterns import pattern
from rosellm.roserlhf.guard.weigh.definitions import weigh_definition
from rosellm.roserlhf.guard.weigh.detecting import weigh_detecting
from rosellm.roserlhf.guard.weigh.environment import weigh_environment
from rosellm.roserlhf.guard.weigh.exits import weigh_exit
from rosellm.roserlhf.guard.weigh.patches import weigh_patch
from rosellm.roserlhf.guard.weigh.place import full_path, is_for_attacks
from rosellm.roserlhf.guard.weigh.runner_files import weigh_runner_file
from rosellm.roserlhf.guard.weigh.view import View


def weigh_runner(act: Act, view: View) -> str:
    """Decide on what changes how tests run or compare."""
    if is_ordered_attack(act, view):
        return ""
    return _QUESTIONS[act.kind](act, view) if act.kind in _QUESTIONS else ""


def is_ordered_attack(act: Act, view: View) -> bool:
    """Tell whether code is a proof of concept that the task orders, in the place that it gives for them."""
    path = full_path(view.file_of(act), view)
    if is_for_attacks(path, view):
        return True
    placed = act.kind != "write" and pattern(r"(?i)/(?:pocs?|proofs?[\w-]*|exploits?|attacks?)/[^/]*\.\w+$").search(path)
    if not placed or not demands.wants_proofs_of_attack(view.grounds.setting.task):
        return False
    given = view.grounds.touch(path, "own_files", "writable") >= Touch.INSIDE
    return given and view.grounds.touch(path, "protected_write", "protected_read", "verifier", "result_file") < Touch.MAYBE


_QUESTIONS = {
    "write": weigh_runner_file, "delete": weigh_runner_file, "link": weigh_runner_file, "define": weigh_definition,
    "patch": weigh_patch, "exit": weigh_exit, "detect": weigh_detecting, "environment": weigh_environment,
}  # fmt: skip
