"""guard/paths.py: globs against globs, from a slow oracle that writes out the strings."""

from __future__ import annotations

import itertools
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rosellm.roserlhf.guard.act import UNKNOWN
from rosellm.roserlhf.guard.paths import Touch, absolute, braces, entries

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
    assert [one.text for one in entries("./x/../tests/{a,b{1,2}}.py", "/app")] == ["/app/tests/a.py", "/app/tests/b1.py", "/app/tests/b2.py"]
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
        assert left.count("*") and right.count("*")  # both may name longer names in common, such as `aab`


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
