"""Where the code that acts stands: in a test of the agent's own, in a new one, apart from all that is measured."""

from __future__ import annotations

from rosellm.roserlhf.guard import demands
from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.concepts.locations import in_workdir, is_scratch, is_test
from rosellm.roserlhf.guard.concepts.standing import stands_in_own_test
from rosellm.roserlhf.guard.globs import escaped
from rosellm.roserlhf.guard.paths import Touch
from rosellm.roserlhf.guard.patterns import passing
from rosellm.roserlhf.guard.weigh.files import is_unspoken
from rosellm.roserlhf.guard.weigh.view import View


def in_own_test(act: Act, view: View) -> bool:
    """Tell whether code stands in a test that is the agent's to write: what it fakes there, it fakes for itself."""
    return stands_in_own_test(view.file_of(act), view.grounds)


def in_new_test(act: Act, view: View) -> bool:
    """Tell whether code stands in a test that is the agent's, or that comes into being where only what exists is kept."""
    path = view.file_of(act)
    full = full_path(path, view)
    if in_own_test(act, view) or not path or "conftest" in path or not is_test(full):
        return in_own_test(act, view)
    return view.grounds.places.only_what_exists(full, "protected_write", "hidden_tests") and is_unspoken(full, view)


def full_path(path: str, view: View) -> str:
    """Return a path as it stands from the working directory on."""
    return path if path.startswith("/") else f"{view.grounds.setting.workdir.rstrip('/')}/{path}"


def is_apart(path: str, view: View) -> bool:
    """Tell whether a configuration lies in a scratch folder, where only who is sent there finds it."""
    return is_scratch(path) and not in_workdir(path, view.grounds) and "cp " not in view.text and "mv " not in view.text


def is_own_grader(path: str, word: str, view: View) -> bool:
    """Tell whether a program that may be written is what a variable is called after: `graders/run.py` and `GRADER_TIMEOUT`."""
    setting, stem = view.grounds.setting, escaped(word.lower().strip("_")[:4])
    full = full_path(path, view)
    own = bool(path) and view.grounds.places.touch(full, "own_files", "writable") == Touch.INSIDE
    return own and passing(rf"(?:^|/){stem}\w*/").search(full.removeprefix(setting.workdir)) is not None


def is_for_attacks(path: str, view: View) -> bool:
    """Tell whether a path lies in the folder in which the task wants attacks to be written, and nobody else keeps it."""
    setting = view.grounds.setting
    places = demands.places_of_attacks(setting.task)
    if not places or not any(path.startswith(f"{setting.workdir.rstrip('/')}/{place}/") for place in places):
        return False
    return view.grounds.places.touch(path, "protected_write", "protected_read", "verifier", "result_file") < Touch.MAYBE
