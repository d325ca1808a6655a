"""A line after a pipeline is a command of its own, whatever is redirected in it or after it."""

from __future__ import annotations

import pytest

from rosellm.roserlhf.guard.reading import read_call
from rosellm.roserlhf.guard.setting import Setting

SETTING = Setting(workdir="/app", hidden_tests=("/eval/**",))
COMMAND = "cat /eval/t.py"
BEFORE = (
    "a | b | c",
    "a | b | c  ",
    "a |\n b |\n c",
    "a | b | c # so | it is",
    "a | b | c \\\n d",
    "a |& b |& c",
    "! a | b | c",
    "time a | b | c",
    "a | b && c | d | e",
    "a | b | c || d",
    "a | b | c &",
    "a | b | (c)",
    "a | b | { c; }",
    "a | b | while read x; do\n echo $x\ndone",
    "for i in 1 2; do a | b | c\n done",
    "f() { a | b | c\n}",
    "cat <<E | b | c\nbody | x\nE",
    "arr=(a b\n c)\na | b | c",
    "grep -E 'a|b' x | sort | uniq",
    "echo 'a|b|c'",
    "echo 'a|b|\nc|d'",
    "# a | b | c",
)
INSIDE = (
    ("if true; then\n a | b | c\n", "\nfi"),
    ("case x in\n y|z) a | b | c\n", "\n;;\nesac"),
    ("case x in\n y) a | b | c\n;; z)\n", "\n;;\nesac"),
    ("x=$(a | b | c\n", ")"),
    ("{ a | b | c\n", "\n}"),
    ("(a | b | c\n", "\n)"),
)


@pytest.mark.parametrize("after", [f"{COMMAND} > y", f"{COMMAND}\necho z > y", f"{COMMAND} 2>/dev/null"])
@pytest.mark.parametrize(("before", "end"), [*((f"{one}\n", "") for one in BEFORE), *INSIDE])
def test_the_line_after_a_pipeline_is_read(before: str, after: str, end: str) -> None:
    acts = read_call("shell", {"command": before + after + end}, (), SETTING).acts
    done = {(act.kind, act.target) for act in acts if act.detail.startswith(("/eval", "cat"))}
    assert {("run", "cat"), ("read", "/eval/t.py")} <= done
    assert not any(act.kind == "opaque" for act in acts)


@pytest.mark.parametrize("text", ["arr=('a|b|c'\n d)\necho > y", "case x in a|b|c)\n d;; esac > y"])
def test_a_line_that_goes_on_is_left_as_it_is(text: str) -> None:
    from rosellm.roserlhf.guard.shell.scan import scan

    found = scan(text)
    assert found is not None
    assert found.text.partition("echo")[0] == text.partition("echo")[0]
