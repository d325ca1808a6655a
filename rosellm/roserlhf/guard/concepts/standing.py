"""Where an act stands: in a file that others run, in a test of the agent's own; `act, grounds -> yes or no`."""

from __future__ import annotations

from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.concepts.locations import is_test
from rosellm.roserlhf.guard.grounds import Grounds
from rosellm.roserlhf.guard.paths import ABOVE, word_set
from rosellm.roserlhf.guard.patterns import pattern


def is_written(act: Act) -> bool:
    """Tell whether an act stands in code that goes to a file, and so runs when others run it."""
    return "in_file" in act.traits or "file" in act.traits or act.argument.partition(".")[0].partition("[")[0] in _CONTENTS


_CONTENTS = word_set(
    """
    content contents patch diff files file_text new_str new_string text body code_edit edits replacement new_content
    source cell
    """
)


def stands_in_own_test(path: str, grounds: Grounds) -> bool:
    """Tell whether a file is a test that is the agent's to write: what code fakes there, it fakes for itself."""
    if not path or pattern(r"conftest\.py$|(^|/)(sitecustomize|usercustomize)").search(path):
        return False
    full = path if path.startswith("/") else f"{grounds.setting.workdir.rstrip('/')}/{path}"
    if not is_test(full):
        return False
    if pattern(_FOR_ALL_TESTS).search(full):
        return grounds.places.is_own(full)
    return grounds.places.touch(full, "protected_write", "hidden_tests") <= ABOVE or grounds.places.is_own(full)


_FOR_ALL_TESTS = (
    r"(?i)(^|/)((rails|spec|test)_helper\.\w+|(jest|vitest|mocha|test|global)[._-]?setup\.\w+|setupTests\.\w+|TestCase\.php|"
    r"bootstrap\.php|testutil_main\w*\.\w+)$"
    r"|/spec/support/|/test/support/"
)
"""Files that are loaded with every test."""


def in_own_test(act: Act, grounds: Grounds) -> bool:
    """Tell whether an act stands in a test that is the agent's to write."""
    return stands_in_own_test(act.traits.get("in_file") or act.traits.get("file", ""), grounds)
