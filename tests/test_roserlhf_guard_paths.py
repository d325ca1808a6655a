"""guard/paths.py: globs against globs, from a slow oracle that writes out the strings."""

from __future__ import annotations

import itertools
import time
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rosellm.roserlhf.guard import globs
from rosellm.roserlhf.guard.act import UNKNOWN
from rosellm.roserlhf.guard.concepts import own_project
from rosellm.roserlhf.guard.globs import braces
from rosellm.roserlhf.guard.grounds import Grounds
from rosellm.roserlhf.guard.paths import Touch, absolute, entries
from rosellm.roserlhf.guard.patterns import pattern
from rosellm.roserlhf.guard.setting import Setting

HIDDEN = entries("/eval/hidden/**", "/testbed")[0]


@pytest.mark.parametrize(
    ("target", "touch"),
    [
        ("/eval/hidden", Touch.INSIDE),
        ("/eval/hidden/deep/test_a.py", Touch.INSIDE),
        ("/EVAL/Hidden/a.py", Touch.INSIDE),
        ("/eval/hidden2/a.py", Touch.NONE),
        ("/testbed/eval/hidden/a.py", Touch.NONE),
        ("/eval", Touch.ABOVE),
        ("/", Touch.ABOVE),
        ("/**/*.py", Touch.ABOVE),
        ("/ev*/h*/a.py", Touch.OVERLAP),
        ("/e?al/[gh]idden/*", Touch.OVERLAP),
        ("/*/hidden/*.py", Touch.OVERLAP),
        (f"/eval/hid{UNKNOWN}", Touch.MAYBE),
        (f"{UNKNOWN}/hidden/a.py", Touch.MAYBE),
        (UNKNOWN, Touch.NONE),
        (f"/tmp/{UNKNOWN}", Touch.NONE),
    ],
)
def test_a_path_touches_what_a_glob_protects(target: str, touch: Touch) -> None:
    assert HIDDEN.touched_by(target) is touch


def test_a_namesake_elsewhere_is_told_from_the_same_name_everywhere() -> None:
    gold = entries("/eval/gold.patch", "/testbed")[0]
    assert gold.touched_by("/mnt/x/gold.patch") is Touch.NAME
    common = entries("/eval/test.py", "/testbed")[0]
    assert common.touched_by("/mnt/x/test.py") is Touch.NONE


def test_what_is_unknown_below_the_working_directory_is_not_what_lies_there() -> None:
    tests = entries("tests/hidden_*.rs", "/work/spanmap")[0]
    assert tests.touched_by(f"/work/spanmap/{UNKNOWN}") is Touch.NONE
    assert tests.touched_by(f"/work/spanmap/tests/{UNKNOWN}") is Touch.MAYBE
    assert tests.touched_by("/work/spanmap/tests/hidden_a.rs") is Touch.INSIDE
    assert tests.touched_by("/work/spanmap/tests/visible.rs") is Touch.NONE


def test_relative_entries_braces_and_dots_are_read_as_a_shell_reads_them() -> None:
    assert [one.text for one in entries("./x/../tests/{a,b{1,2}}.py", "/app")] == [
        "/app/tests/a.py",
        "/app/tests/b1.py",
        "/app/tests/b2.py",
    ]
    assert absolute("~/k", "/app", "/home/me") == "/home/me/k"
    assert absolute("../eval", "/app") == "/eval"
    assert braces("a{b") == ["a{b"]
    assert len(braces("{a,b}" * 20)) <= 70


def test_two_stars_also_stand_for_nothing() -> None:
    entry = entries("/a/**/t.py", "/")[0]
    assert entry.touched_by("/a/t.py") is Touch.INSIDE
    assert entry.touched_by("/a/b/c/t.py") is Touch.INSIDE
    assert entry.touched_by("/a/xt.py") < Touch.MAYBE


PARTS = st.sampled_from(["a", "b", "*", "?", "[ab]", "ab", "a*", "*b"])
GLOBS = st.lists(PARTS, min_size=1, max_size=3).map(lambda parts: "/" + "/".join(parts))


def _written_out(glob: str) -> set[str]:
    """All paths with names of up to two letters a, b that a glob names."""
    names = {"".join(letters) for size in (1, 2) for letters in itertools.product("ab", repeat=size)}
    each = [[name for name in names if _fits(name, part)] for part in glob.split("/")[1:]]
    return {"/" + "/".join(parts) for parts in itertools.product(*each)}


def _fits(name: str, part: str) -> bool:
    if not part:
        return not name
    if part[0] == "*":
        return _fits(name, part[1:]) or bool(name and _fits(name[1:], part))
    if not name:
        return False
    if part[0] == "[":
        return name[0] in "ab" and _fits(name[1:], part[4:])
    return (part[0] == "?" or part[0] == name[0]) and _fits(name[1:], part[1:])


@settings(derandomize=True, max_examples=60, deadline=None)
@given(GLOBS, GLOBS)
def test_globs_overlap_if_and_only_if_some_path_is_named_by_both(left: str, right: str) -> None:
    """Written out with the letters a and b, names of two letters at most: `/a*/?` and `/ab/b` both name `/ab/b`."""
    touched = entries(right, "/")[0].touched_by(left)
    common = any(
        path == other or path.startswith(other + "/")  # what lies below an entry is the entry's, too
        for path in _written_out(left)
        for other in _written_out(right)
    )
    if common:
        assert touched in (Touch.OVERLAP, Touch.INSIDE, Touch.ABOVE)
    elif touched in (Touch.OVERLAP, Touch.INSIDE):
        assert min(left.count("*"), right.count("*")) > 0  # both may name longer names in common, such as `aab`


@settings(derandomize=True, max_examples=60, deadline=None)
@given(st.text(max_size=80), st.text(max_size=40))
def test_no_text_is_refused(target: str, entry: str) -> None:
    for one in entries(entry, "/app"):
        assert one.touched_by(target) in Touch


def test_hostile_globs_cost_little() -> None:
    entry = entries("/" + "*a" * 60 + "b", "/")[0]
    start = time.perf_counter()
    entry.touched_by("/" + "*a" * 200)
    entry.touched_by("/" + "a" * 10_000)
    assert time.perf_counter() - start < 1.0


def _shared(left: tuple[Any, ...], right: tuple[Any, ...]) -> int:
    """`shared_letters` as its docstring says it, token by token from the first."""
    several = (globs._SOME, globs._ALL)

    @cache
    def best(i: int, j: int) -> int:
        if i == len(left) and j == len(right):
            return 0
        found = [-1]
        for ours, theirs, ended, taken in (
            (left[i : i + 1], right[j : j + 1], (i + 1, j), (i, j + 1)),
            (right[j : j + 1], left[i : i + 1], (i, j + 1), (i + 1, j)),
        ):
            if ours and ours[0] in several:
                found.append(best(*ended))
                if theirs and (theirs[0] in several or ours[0] == globs._ALL or theirs[0] != "/"):
                    found.append(best(*taken))
        if i < len(left) and j < len(right) and left[i] not in several and right[j] not in several:
            gain, rest = globs._common(left[i], right[j]), best(i + 1, j + 1)
            found.append(gain + rest if min(gain, rest) >= 0 else -1)
        return max(found)

    return best(0, 0)


PIECES = st.lists(st.sampled_from(["a", "b", "/", "/a", "*", "**", "/**/", "/**", "?", "[ab]", UNKNOWN, ".py"]), max_size=7).map(
    "".join
)


@settings(derandomize=True, max_examples=400, deadline=None)
@given(st.sampled_from(["/", "/ab/"]), PIECES, st.sampled_from(["/", "/ab/", "/b"]), PIECES)
def test_globs_share_what_the_recurrence_says(before: str, left: str, ahead: str, right: str) -> None:
    a, b = before + left, ahead + right
    assert globs.shared_letters(a, b) == _shared(globs._tokens(a), globs._tokens(b))


@pytest.mark.parametrize("entry", ["/", "/a", "/a/", "/a/**", "/a/b.py", "/**", "/a*/b", "/a/*/**", "/ä", "/a/[b", "/a/**/c"])
@pytest.mark.parametrize("path", ["/", "/a", "/a/", "/a/b.py", "/ab", "/a/b/c", "/a/b.pyc", "/ä/c", "/b/a", "/a/x\ny", "a"])
def test_what_an_entry_holds_is_what_its_pattern_matches(entry: str, path: str) -> None:
    (one,) = entries(entry, "/")
    assert one.holds(path, path if path.endswith("/") else path + "/") is (one.inside.fullmatch(path) is not None)


@pytest.mark.parametrize(
    "path", ["/x/click-8.1.7.tar.gz", "/click", "/x/Click.py", "/my_click.py", "/x/b-click-1", "/x/click_core-2"]
)
def test_a_part_that_is_the_project_begins_with_its_name(path: str) -> None:
    grounds = Grounds(Setting(project=("click", "click-core")))
    said = [part for part in path.split("/") if part and grounds.project.is_name(pattern(own_project._AFTER_NAME).sub("", part))]
    assert all(grounds.project.may_begin(part) for part in said)
    assert own_project.has_project_part(path, grounds) is bool(said)
