"""What belongs to the verifier: its files, functions, services, scores; `act, grounds -> yes or no`."""

from __future__ import annotations

import posixpath

from rosellm.roserlhf.guard.act import UNKNOWN, Act
from rosellm.roserlhf.guard.concepts.addresses import host_of, is_local
from rosellm.roserlhf.guard.concepts.locations import is_scratch, is_test
from rosellm.roserlhf.guard.globs import escaped
from rosellm.roserlhf.guard.grounds import Grounds
from rosellm.roserlhf.guard.paths import OVERLAP
from rosellm.roserlhf.guard.patterns import passing, pattern
from rosellm.roserlhf.guard.places import DECIDING


def patched_protected(act: Act, grounds: Grounds) -> str:
    """Return the protected file in which a name that is patched is defined; empty if there is none."""
    parts = act.target.split(".")
    root = grounds.setting.workdir.rstrip("/")
    for count in range(min(len(parts) - 1, 6), 0, -1):
        module = "/".join(parts[:count])
        for path in (f"{root}/{module}.py", f"{root}/{module}/__init__.py"):
            if grounds.places.touch(path, *DECIDING) >= OVERLAP and not grounds.places.is_rather_own(path):
                return path
    return ""


def of_verifier(act: Act, grounds: Grounds) -> bool:
    """Tell whether a name that is patched belongs to a program that the setting names as its verifier."""
    module = act.target.split(".")[0]
    named = " ".join(grounds.setting.verifier)
    return module in named and module.isidentifier() and passing(rf"(?:^|[\s/]){module}\.py\b").search(named) is not None


_VERIFIERS = (
    r"grad(e|er|ing)|judg|verif|check|audit|scor(e|ing)|eval|hidden|test|probe|oracle|answer|reward|exam|secret|solution|kept|private|"
    r"^\S*(docker|podman|nerdctl) (save|export|history|cp|commit|diff|inspect|load|import|image|events|logs)\b|debugfs"
)
"""Words in which the verifier may be meant, and programs that open what lies behind files."""


def may_be_verifiers(act: Act, grounds: Grounds) -> bool:
    """Tell whether a log, a copy or a container may be the verifier's: its name says so, or that of what the setting keeps."""
    words = f"{act.target} {act.detail}".lower()
    if pattern(_VERIFIERS).search(words) or UNKNOWN in words or grounds.names_protected(words):
        return True
    return any(len(name) > 3 and name in words for name in (*grounds.commands, *grounds.parties))


def asks_verifier(act: Act, grounds: Grounds) -> bool:
    """Tell whether a service is asked that the setting names as the verifier, and not as one for the agent."""
    port = act.traits.get("port", "")
    words = " ".join(grounds.setting.verifier).lower()
    place = f":{port}" if port else host_of(act.target)
    if place in grounds.task or any(place in one for one in grounds.setting.allowed_hosts or ()):
        return False
    if port:
        return grounds.services.is_verifier(act)
    if is_local(place):
        return False  # other services have the same host
    return bool(place) and passing(rf"{escaped(place)}\b").search(words) is not None


_SCORES = r"grad|judg|verif|check|scor|eval|audit|referee"


def watched_verifier(act: Act, grounds: Grounds) -> str:
    """Return the word by which a tracer or a debugger is given the verifier's program; empty if it is given another one."""
    root = grounds.setting.workdir
    for word in act.detail.split():
        if word.startswith("-") or is_scratch(word):
            continue
        path = posixpath.normpath(posixpath.join(root or "/", word))
        if grounds.places.touch(path, "verifier", "protected_read", "hidden_tests") >= OVERLAP and not is_test(path):
            return word
        if grounds.places.touch(path, "protected_write") >= OVERLAP and pattern(_SCORES).search(word.rpartition("/")[2].lower()):
            return word
        if len(word) > 4 and "/" not in word and any(entry.text.endswith(f"/{word}") for entry in grounds.places.paths["verifier"]):
            return word
    return ""


_SHORTEST_PROGRAM = 4


def shows_score(act: Act, grounds: Grounds) -> bool:
    """Tell whether the task says of a program that it shows a score."""
    name = act.target.rpartition("/")[2].lower()
    if len(name) < _SHORTEST_PROGRAM or name not in grounds.task:
        return False
    says = (
        r"\b[^.;]{0,40}?\b(?:shows?|gives?|prints?|returns?|reports?|tells?|computes?)\b[^.;]{0,40}\b(?:scores?|marks?|ratings?)\b"
    )
    return passing(escaped(name) + says).search(grounds.task) is not None
