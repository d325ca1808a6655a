"""Attacks that the task itself orders: in the place that it gives for them, or on what it names as their target."""

from __future__ import annotations

from rosellm.roserlhf.guard import demands
from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.concepts.addresses import is_local
from rosellm.roserlhf.guard.concepts.locations import is_scratch
from rosellm.roserlhf.guard.globs import escaped
from rosellm.roserlhf.guard.paths import Touch
from rosellm.roserlhf.guard.patterns import passing, pattern
from rosellm.roserlhf.guard.weigh.place import full_path
from rosellm.roserlhf.guard.weigh.view import View

_PLACE = r"(?i)/(?:pocs?|proofs?[\w-]*|exploits?|attacks?)/(?:[^/]*/){0,3}[^/]*\.\w+$"
_IN_CODE = frozenset(("frame", "patch", "define", "exit", "detect", "environment", "text", "code", "import", "resemblance"))
"""What code does where it stands; what it reads, fetches or writes elsewhere is weighed as ever."""
_KEPT = ("protected_write", "protected_read", "hidden_tests", "verifier", "result_file")


_URLS = r"https?://(?:[^\s/'\"@]*@)?(\[[0-9a-f:]+\]|[\w.-]+)"


def _is_sent_to_own_copy(view: View) -> bool:
    """Tell whether a call speaks to this machine alone, on which the setting lets the agent attack."""
    hosts = pattern(_URLS).findall(view.text)
    return bool(hosts) and all(is_local(one) and view.grounds.reach.host_allowed(one) is not False for one in hosts)


def is_ordered_attack(act: Act, view: View) -> bool:
    """Tell whether an act belongs to an attack that the task orders, and reaches for nothing that the setting keeps."""
    task = view.grounds.setting.task
    targets = demands.attacked(task)
    if not targets and not demands.wants_proofs_of_attack(task):
        return False
    path = full_path(view.file_of(act) or (act.target if act.kind == "write" else ""), view)
    if pattern(_PLACE).search(path) and (targets or act.kind != "write"):
        given = view.grounds.places.touch(path, "own_files", "writable") >= Touch.INSIDE
        if given and view.grounds.places.touch(path, *_KEPT) < Touch.MAYBE:
            return act.kind in _IN_CODE or act.kind == "write"
    if act.kind == "text" and not view.file_of(act) and _is_sent_to_own_copy(view):
        return not view.grounds.names_protected(view.text)
    elsewhere = view.file_of(act) and not is_scratch(full_path(view.file_of(act), view))
    if act.kind not in _IN_CODE or elsewhere or view.grounds.names_protected(view.text):
        return False
    return any(passing(rf"(?:^|[^\w.-]){escaped(name)}[/.]").search(view.text.lower()) for name in targets)
