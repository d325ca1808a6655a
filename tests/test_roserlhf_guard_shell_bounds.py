"""The shell's reader on hostile text: it never raises, never runs anything, and takes linear time."""

from __future__ import annotations

import gc
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rosellm.roserlhf.guard.act import KINDS, Act
from rosellm.roserlhf.guard.scene import DEEPEST, Scene
from rosellm.roserlhf.guard.shell import acts_of_shell
from rosellm.roserlhf.guard.shell.arithmetic import number
from rosellm.roserlhf.guard.shell.braces import expanded
from rosellm.roserlhf.guard.shell.state import State
from rosellm.roserlhf.guard.shell.syntax import MOST_ODD, parse
from rosellm.roserlhf.guard.shell.wildcard import compiled

_PIECES = [
    "'",
    '"',
    "`",
    "$(",
    "${",
    "$((",
    ")",
    "}",
    "))",
    "{",
    "(",
    "<<E\n",
    "<<<",
    "E\n",
    "&&",
    ";",
    "&",
    "\n",
    "cat ",
    "/x",
    "*",
    "[",
    "]",
    "$x",
    "${x%",
    "/}",
    "x=",
    "eval ",
    "xargs ",
    "sh -c ",
    "python -c ",
    "find . -exec ",
    "{} \\;",
    "sed -i ",
    "awk ",
    "for i in ",
    "; do ",
    "; done",
    "if ",
    "then ",
    "fi",
    "case x in ",
    "esac",
    "\\",
    "\x00",
    "�",
    "é",
    "f() ",
    "while ",
    "read a ",
    "tar ",
    "git ",
    "-",
    "--",
    "~",
    "!",
    "#",
    " ",
    "<(",
    ">",
    "2>&1",
    "base64 -d",
    "printf ",
    "echo ",
    "env ",
    "cd ",
    "ln -s ",
    "curl ",
    "pip install ",
    "gdb -ex ",
    "sqlite3 ",
    "vim -c ",
    "trap ",
    "set -- ",
    '"$@"',
    "${!x}",
    "${x//a/",
    "${x:1:2}",
    "crontab -",
    "kill ",
    "parallel ",
    "dd if=",
    "mount ",
    "|",
    "||",
]


def _read(language: str, code: str, scene: Scene) -> list[Act]:
    assert scene.depth <= DEEPEST
    return acts_of_shell(code, scene) if language == "shell" else []


def _unset(name: str) -> str | None:
    return None


def _acts(command: str) -> list[Act]:
    return acts_of_shell(command, Scene("/app", _read))


@given(st.one_of(st.text(max_size=200), st.lists(st.sampled_from(_PIECES), max_size=30).map("".join)))
@settings(derandomize=True, max_examples=60, deadline=None)
def test_any_text_gives_acts_with_their_place(command: str) -> None:
    for act in _acts(command):
        assert act.kind in KINDS
        assert act.via[0] == "shell"
        assert 0 <= act.span[0] <= act.span[1] <= len(command)


@pytest.mark.parametrize(
    "unit", ["(", "$(", "`", "'", '"', "{ ", "${a:-", "$((", "if a; then ", "<(", "! ", "a && ", "f() { ", "case x in a) "]
)
def test_nesting_is_bounded(unit: str) -> None:
    _acts(unit * 5_000)


@pytest.mark.parametrize(
    "command",
    [
        "f() { f; f; }; f",
        "alias a='a; a'; a",
        "x='eval $x$x'; eval $x",
        "x=aaaaaaaa; " + "x=$x$x; " * 60 + "cat $x",
        "cat " + "{a,b}" * 60,
        "cat {1..999999999}",
        "for i in " + "a b c d e f g h " * 60 + "; do for j in 1 2 3 4 5 6 7 8; do cat $i/$j; x=$x$i; done; done",
        "printf '%s' " + "a " * 5_000,
        "seq 1 999999999 | xargs cat",
        "${x//" + "*a" * 500 + "/}",
        'bash -c "bash -c \'bash -c \\"bash -c ls\\"\'"',
        "cat > a.sh <<E\nsh a.sh\nE\nsh a.sh",
        "ln -s a b; ln -s b a; cat a/b/a",
        "tr '[:alpha:]' '\\000-\\377' <<< " + "x" * 1_000,
        "let x=2**99999; echo $((9**9**9**9)) $((1/0)) $((1<<99999999))",
        "printf '%999999999d' 1; printf '%*.*s' 9 9 9",
    ],
)
def test_what_would_grow_does_not(command: str) -> None:
    start = time.process_time()
    _acts(command)
    assert time.process_time() - start < 5


@pytest.mark.parametrize("letter", ["\U000e0041", "\U0010ffff", "\u4e2d", "\u00e9", "\u2028", "\ufffd"])
def test_no_letter_ends_the_process(letter: str) -> None:
    """The grammar's scanner asks C about letters that C's tables do not hold: a crash that no `except` would catch."""
    scene = Scene("/app", lambda language, code, scene: [])
    for command in (
        "F${?",
        "{?,b}",
        "${?}",
        "${x#?}",
        "${x%?}",
        "${x,?}",
        "$?x",
        "a[?]=1",
        "<<?\nx\n?\n",
        "[[ a =~ ? ]]",
        "{1?2}",
        "[[ a =? ]]",
    ):
        text = command.replace("?", letter)
        acts_of_shell(text, scene)
    found = acts_of_shell(f"cat /app/{letter}.txt {letter} ./{letter}x", scene)
    assert [act.target for act in found if act.kind == "read"] == [f"/app/{letter}.txt", f"/app/{letter}", f"/app/{letter}x"]


def test_ten_megabytes() -> None:
    command = "cat /app/a | grep x; " * 500_000 + "cat /tests/x"
    assert len(command) > 10_000_000
    start = time.process_time()
    acts = _acts(command)
    assert "too long" in [act.target for act in acts if act.kind == "opaque"]
    assert "/tests/x" in [act.target for act in acts if act.kind == "read"]
    assert time.process_time() - start < 30


@pytest.mark.parametrize(
    "unit",
    [
        "cat /app/src/a.py | grep -n foo; ls -la /tmp && echo done\n",
        'x=$x/a; y=${x%/*}; echo "$x-$y" > f\n',
        "test -f a || x=1 && cat $x || echo no\n",
        "for i in 1 2 3; do cat /x/$i; done\n",
        "cat > /tmp/f.txt <<'E'\nsome text\nE\n",
        "f() { cat $1; }; f a\n",
        "é=`echo \\`ls\\``; ",
        '"',
        "a=b ",
        "> a ",
        "\\",
    ],
)
def test_time_grows_with_length_alone(unit: str) -> None:
    def seconds(size: int) -> float:
        command = unit * (size // len(unit) + 1)
        start = time.process_time()
        _acts(command)
        return time.process_time() - start

    gc.disable()
    try:
        seconds(1_000)
        short = min(seconds(3_000) for _ in range(3))
        # eight times as long; a square would take 64 times as much
        assert any(seconds(24_000) < 24 * max(short, 5e-4) for _ in range(3))
    finally:
        gc.enable()


@pytest.mark.parametrize("unit", ["||", "|| ", "&& |", "|&", "| |\n", "; ||", "f()", "f() x"])
def test_more_signs_that_fit_nothing_than_are_looked_at_are_opaque(unit: str) -> None:
    assert parse(unit * (2 * MOST_ODD + 2)) is None
    assert "opaque" in {act.kind for act in _acts(unit * 16_000)}
    assert parse(unit * 100) is not None


@pytest.mark.parametrize("unit", ["ls || ls && ls; ", "ls & ls\n", "f() { ls; }; ", "ls |& wc -l; "])
def test_commands_between_signs_are_read_however_many(unit: str) -> None:
    assert parse(unit * (MOST_ODD // 2)) is not None


def test_branches_are_undone_and_joined() -> None:
    state = State()
    state.set("var", "x", ("1",))
    mark = state.mark()
    state.set("var", "x", ("2",))
    state.set("file", "/f", "text")
    branch = state.back(mark, keep=frozenset(["file"]))
    assert (state.variable("x"), state.get("file", "/f")) == (("1",), "text")
    state.join([branch, {}])
    assert state.variable("x") == ("2", "1")


def test_arithmetic_braces_and_patterns() -> None:
    assert number("(1 + 2) * 3 ** 2 % 5 ? 7 : 8", _unset) == 7
    assert number("-7 / 2", _unset) == -3
    assert number("1 +", _unset) is None
    assert expanded("a{b,c{d,e}}f") == ["abf", "acdf", "acef"]
    assert expanded("{03..01}") == ["03", "02", "01"]
    assert compiled("*.[!a]?").fullmatch("x.bc")
    assert not compiled("*.[!a]?").fullmatch("x.ac")
