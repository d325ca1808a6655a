"""Shell commands -> acts: words, variables, statements, redirections, code within code. Nothing here is ever run."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rosellm.roserlhf.guard.act import UNKNOWN, Act
from rosellm.roserlhf.guard.scene import Scene
from rosellm.roserlhf.guard.shell import acts_of_shell, plain, syntax
from rosellm.roserlhf.guard.shell import command as commands
from rosellm.roserlhf.guard.shell.plain import plain_words, tree_of
from rosellm.roserlhf.guard.shell.scan import scan
from rosellm.roserlhf.guard.shell.shell import Shell
from rosellm.roserlhf.guard.shell.statements import execute
from rosellm.roserlhf.guard.shell.syntax import _parser, parse
from rosellm.roserlhf.guard.shell.words import fields


def _read(language: str, code: str, scene: Scene) -> list[Act]:
    """Read shell as shell; of any other language only note what was handed over."""
    if language == "shell":
        return acts_of_shell(code, scene)
    return [Act("text", code, f"as {language}", via=(language,))]


def _acts(command: str, **known: dict[str, str]) -> list[Act]:
    return acts_of_shell(command, Scene("/app", _read, **known))  # type: ignore[arg-type]


def _targets(command: str, kind: str, **known: dict[str, str]) -> list[str]:
    return [act.target for act in _acts(command, **known) if act.kind == kind]


def _handed(command: str, language: str) -> list[str]:
    return [act.target for act in _acts(command) if act.detail == f"as {language}"]


@pytest.mark.parametrize(
    ("command", "read"),
    [
        # quoting
        ("cat /te''sts/x \"/te\"sts/y /te\\sts/z", ["/tests/x", "/tests/y", "/tests/z"]),
        ("c''at /tests/a; \\cat /b; 'cat' /c; /bin/cat /d", ["/tests/a", "/b", "/c", "/d"]),
        ("cat $'\\x2ftests\\057x' $'\\u002fb'", ["/tests/x", "/b"]),
        ('cat "a b" a\\ c', ["/app/a b", "/app/a c"]),
        # paths
        ("cat ../tests/./x //tests//y logs/../../z", ["/tests/x", "/tests/y", "/z"]),
        ("cat ~/x ~root/y $HOME/z", ["/root/x", "/root/y", "/root/z"]),
        ("cat /proc/self/root/tests/x", ["/tests/x"]),
        ("cat /ev\u200bal/x /\uff45val/y", ["/eval/x", "/eval/y"]),
        ("cat /t?sts/* /[t]ests/c", ["/t?sts/*", "/[t]ests/c"]),
        ("cat /te{st,xx}s/{1..2}", ["/tests/1", "/tests/2", "/texxs/1", "/texxs/2"]),
        # variables
        ("X=/tests; Y=X; cat ${!Y}/a ${X:0:3} ${X/e/a} ${X//t/d}", ["/tests/a", "/te", "/tasts", "/desds"]),
        ("f=/a/b.in; cat ${f%.in}.ans ${f##*/} ${f%/*} ${#f}", ["/a/b.ans", "/app/b.in", "/a", "/app/7"]),
        ("a=(/t e s ts); printf -v p '%s' \"${a[@]}\"; cat $p ${a[1]}", ["/tests", "/app/e"]),
        ("declare -A m; m[k]=/x; cat ${m[k]}", ["/x"]),
        ("x=a; x+=b; cat /$x ${y:-/d} ${y:=/e} $y", ["/ab", "/d", "/e", "/e"]),
        ("x='/a /b'; cat $x; cat \"$x\"", ["/a", "/b", "/a /b"]),
        ("n=3; cat /f$((n * 2 + 0x10))", ["/f22"]),
        ("read a b <<< 'cat /tests/x'; $a $b", ["/tests/x"]),
        ("for c in / t e s t s; do p+=$c; done; cat $p/x", ["/tests/x"]),
        ("s=stset/; for ((i=${#s}-1;i>=0;i--)); do r+=${s:i:1}; done; cat $r", ["/tests"]),
        # statements
        ("cd /tests && cat a; (cd /x; cat b); cat c", ["/tests/a", "/x/b", "/tests/c"]),
        ("pushd /tests >/dev/null; cat a; popd; cat b", ["/tests/a", "/app/b"]),
        ("cd /a || cd /b; cat c", ["/a/c", "/b/c"]),
        ("cd /a || exit 1; cat c", ["/a/c"]),
        ("case $(uname) in L) d=/a ;; *) d=/b ;; esac; cat $d/f", ["/a/f", "/b/f"]),
        ("if t; then d=/a; else d=/b; fi; cat $d/f", ["/a/f", "/b/f"]),
        ("for f in /x/*.in; do cat $f ${f%.in}.out; done", ["/x/*.in", "/x/*.out"]),
        ('f() { local d=$1; shift; cat "$d/$@"; }; f /tests x y', ["/tests/x", "/app/y"]),
        ("alias c='cat /tests/a'; c", ["/tests/a"]),
        ("x=1 && cat /a & cat /b", ["/a", "/b"]),
        ("cat /a |& grep x /b", ["/a", "/b"]),
        ("! cat /a; { cat /b; }; time cat /c", ["/a", "/b", "/c"]),
        # substitutions and what they fold
        ("cat $(echo /a) `echo /b` \"$(printf '/%s' c)\"", ["/a", "/b", "/c"]),
        ("cat $(tr a-z b-za <<< '/sdrsr/w')", ["/tests/x"]),
        ("cat $(rev <<< 'x/stset/')", ["/tests/x"]),
        ("echo 2f74657374732f61 | xxd -r -p | xargs cat", ["/tests/a"]),
        ("echo L3Rlc3RzL2E= | base64 -d | xargs cat", ["/tests/a"]),
        ("cat /$(echo xtestsx | cut -c2-6)/$(basename /q/a.py .py)", ["/tests/a"]),
        ('cat $(awk \'BEGIN { print "/te" "sts" }\')', ["/tests"]),
        ("cat $(echo /tXsts | sed 's/X/e/')", ["/tests"]),
        ("ls /tests | while read f; do cat /tests/$f; done", [f"/tests/{UNKNOWN}"]),
        ("sed -n 1p $(dirname /tests/a/b)/c", ["/tests/a/c"]),
        # redirections
        ("cat < /a; wc 0< /b; exec 7< /c; cat <&7", ["/a", "/b", "/c", "/c"]),
        ("cd /tests && cat < a", ["/tests/a"]),
        ("cat 2>&1 < /a | sort", ["/a"]),
        ("> /o cat /a", ["/a"]),
        ("x=$(</a)", ["/a"]),
        ("diff <(cat /a) <(sort /b)", ["/a", "/b"]),
        ("grep x <<A /b\ntext\nA\ncat /c", ["/b", "/c"]),
        ("cat <<A <<B - /d\nx\nA\ny\nB\ncat /e", ["/d", "/e"]),
        ("git commit -m \"$(cat <<'E'\nit's (one\nE\n)\"; cat /f", ["/f"]),
        # links
        ("ln -s /tests t && cd t && cat x; cd ..; cat t/y", ["/tests/x", "/tests/y"]),
        ("ln -sfn /judge/cases data/big; cat data/big/1", ["/judge/cases/1"]),
        ("mkdir d; ln -s /tests d; cat d/tests/x", ["/tests/x"]),
        ("mount --bind /golden /tmp/g; cat /tmp/g/x", ["/golden", "/golden/x"]),
        # code within code
        ("eval 'c''at /a'; eval $(echo 'cat /b')", ["/a", "/b"]),
        ("sh -c 'cat $1 $0' /a /b; bash -lc 'cat /c'", ["/b", "/a", "/c"]),
        ("echo 'cat /a' | sh; bash <<< 'cat /b'; source /dev/stdin <<< 'cat /c'", ["/a", "/b", "/c"]),
        ("echo Y2F0IC9h | base64 -d | bash", ["/a"]),
        ("bash -s <<'E'\nsh <<'F'\ncat /a\nF\nE", ["/a"]),
        ('run() { eval "$(base64 -d <<< "$1")"; }; run Y2F0IC9h', ["/a"]),
        ("sudo -u root env -i A=1 timeout -k 5 10 nice -n 5 cat /a; busybox cat /b; command cat /c", ["/a", "/b", "/c"]),
        ("a=c; b=at; $a$b /x; $(which cat) /y; $(echo cat) /z", ["/x", "/y", "/z"]),
        ("find /tests -name '*.py' -exec cat {} +", [f"/tests/{UNKNOWN}*.py"]),
        ("find / -name x -execdir sh -c 'cat ./*.py' \\;", [f"/{UNKNOWN}/*.py"]),
        ("xargs -I{} cat /t/{} <<< 'a'; parallel cat ::: /b /c", ["/t/a", "/b", "/c"]),
        ("trap 'cat /a' EXIT; coproc cat /b", ["/a", "/b"]),
    ],
)
def test_what_is_read(command: str, read: list[str]) -> None:
    assert _targets(command, "read") == read


@pytest.mark.parametrize(
    "command",
    [
        "echo cat /tests/x",
        "printf 'see /tests/x\\n'",
        "true # cat /tests/x",
        "x=/tests/x",
        "grep -c /tests/x <<< y",
        "[ /tests/x = y ]",
        "cat <<'E'\ncat /tests/x\nE",
    ],
)
def test_naming_is_not_reading(command: str) -> None:
    assert not _targets(command, "read")


def test_what_is_left_out_is_not_read() -> None:
    grep = next(
        act for act in _acts("grep -rn --include='*.rs' --exclude='hidden_*' --exclude-dir=target foo .") if act.kind == "read"
    )
    assert grep.target == "/app"
    assert grep.traits == {"recursive": "yes", "excludes": "hidden_* target", "includes": "*.rs"}
    find = next(act for act in _acts("find . -path ./tests -prune -o -name '*.py' -not -path '*/x/*' -print") if act.kind == "list")
    assert dict(find.traits) == {"recursive": "yes", "includes": "*.py", "excludes": "./tests */x/*"}


def test_an_unknown_program_may_read_whatever_looks_like_a_path() -> None:
    found = [act for act in _acts("frobnicate --level=3 --in=/tests/a src/b.py word https://x.y/z") if act.kind in ("read", "text")]
    assert [(act.target, act.traits.get("unknown_program")) for act in found] == [
        ("/tests/a", "yes"),
        ("/app/src/b.py", "yes"),
        ("https://x.y/z", None),
    ]


@pytest.mark.parametrize(
    ("command", "written", "content"),
    [
        ("echo 1.0 > /s", "/s", "1.0\n"),
        ("cd /x && echo -n a >> s", "/x/s", "a"),
        ("install -m 644 /dev/stdin /grade/score <<< '1.0'", "/grade/score", "1.0\n"),
        ("printf '%s' 7 | tee /s >/dev/null", "/s", "7"),
        ("cat > /s <<'E'\na\nE", "/s", "a\n"),
        ("{ echo a; echo b; } > /s", "/s", "a\nb\n"),
        ("exec 3> /s", "/s", ""),
    ],
)
def test_what_is_written(command: str, written: str, content: str) -> None:
    found = [act for act in _acts(command) if act.kind == "write"]
    assert [(act.target, act.traits.get("content", "")) for act in found] == [(written, content)]


def test_code_that_is_written_is_read_as_its_language_and_again_where_it_is_run() -> None:
    acts = _acts("cat > /t/run.sh <<'E'\ncat /tests/a\nE\ncd /x; bash /t/run.sh")
    read = [(act.target, act.traits.get("in_file")) for act in acts if act.kind == "read"]
    assert read == [("/tests/a", "/t/run.sh"), ("/tests/a", None)]
    assert _handed("printf 'import os\\n' > conftest.py", "python") == ["import os\n"]
    assert _handed("printf '#!/usr/bin/env python3\\nimport os\\n' > go; ./go", "python") == ["#!/usr/bin/env python3\nimport os\n"]


def test_files_of_earlier_calls_are_read_when_they_are_run() -> None:
    assert _targets("bash /t/a.sh", "read", files={"/t/a.sh": "cat /tests/x"}) == ["/tests/x"]
    assert _targets("cat h/x $D/y", "read", links={"/app/h": "/tests"}, variables={"D": "/d"}) == ["/tests/x", "/d/y"]


@pytest.mark.parametrize(
    ("command", "language", "code"),
    [
        ("python3 -c 'import x'", "python", "import x"),
        ("python3 -Bc 'import x' a", "python", "import x"),
        ("python - <<'E'\nimport x\nE", "python", "import x\n"),
        ("cat <<'E' | python3\nimport x\nE", "python", "import x\n"),
        ("perl -ne 'print' f", "perl", "print"),
        ("node -e 'a()'", "js", "a()"),
        ("ruby -e 'a'", "ruby", "a"),
        ("gdb -batch -ex 'python print(1)' x", "python", "print(1)"),
        ("git -C /x show 'HEAD:a b'", "git", "-C /x show 'HEAD:a b'"),
        ("curl -s https://x.y/z", "url", "https://x.y/z"),
        ("pip install git+https://x.y/z", "url", "https://x.y/z"),
    ],
)
def test_other_languages_go_to_their_readers(command: str, language: str, code: str) -> None:
    assert _handed(command, language) == [code]


def test_spans_and_the_way_to_an_act() -> None:
    command = "é=1; ls; bash -c 'cat /a' # ü"
    acts = {act.kind + act.target: act for act in _acts(command)}
    assert command[slice(*acts["runls"].span)] == "ls"
    assert command[slice(*acts["read/a"].span)] == "bash -c 'cat /a'"
    assert acts["read/a"].via == ("shell", "shell")
    base64 = next(act for act in _acts("echo Y2F0IC9h | base64 -d | bash") if act.kind == "read")
    assert base64.via == ("shell", "base64", "shell")
    hidden = next(act for act in _acts("cat $(echo L3Rlc3Rz | base64 -d)/x") if act.kind == "read")
    assert (hidden.target, hidden.traits["disguised"]) == ("/tests/x", "base64")


@pytest.mark.parametrize(
    ("command", "acts"),
    [
        ("pytest tests || true", [("0", "|| true", "pytest tests")]),
        ("make check; true", [("0", "; true", "make check")]),
        ("grep x f || true", []),
        ("exit 0", [("0", "exit", "")]),
        ("exit $rc", [("?", "exit", "")]),
        ("set +e", [("0", "set +e", "")]),
        ("set -euo pipefail", []),
    ],
)
def test_exits_that_read_as_success(command: str, acts: list[tuple[str, str, str]]) -> None:
    found = [(act.target, act.detail, act.traits.get("hides", "")) for act in _acts(command) if act.kind == "exit"]
    assert found == acts


def test_what_is_not_known_is_said_to_be() -> None:
    assert _targets("curl -s http://x.y | sh", "opaque") == ["sh runs what comes through a pipe"]
    assert _targets("eval $Z", "opaque") == ["shell code that is not known"]
    assert _targets("$Z a", "opaque") == [f"program {UNKNOWN}"]
    assert _targets("cat $Z /te${nope}sts/a", "read") == [UNKNOWN, f"/te{UNKNOWN}sts/a"]


def test_variables_that_programs_see_are_environment_acts() -> None:
    command = "export PYTHONPATH=/x; LD_PRELOAD=/y.so pytest; env A=1 b; FOO=1; printenv KEY; env; unset PATH"
    found = [(act.target, act.detail) for act in _acts(command) if act.kind == "environment"]
    assert found == [
        ("PYTHONPATH", "set /x"),
        ("LD_PRELOAD", "set /y.so"),
        ("A", "set 1"),
        ("KEY", "read"),
        ("*", "read"),
        ("PATH", "set "),
    ]


def test_words_of_a_command_that_the_grammar_cannot_read_are_not_lost() -> None:
    acts = _acts("if then ((; cat /tests/x '")
    assert "/tests/x" in [act.target for act in acts if act.kind == "read"]


def test_plain_words_are_those_of_the_grammar() -> None:
    chance = random.Random(3)
    bare, quoted = "abz019./:=,@%+*-", " abz019./:=,@%+*-#!{}()[]<>&|;~?^\t"

    def part() -> str:
        mark = chance.choice(["", "'", '"'])
        letters = "".join(chance.choice(quoted if mark else bare) for _ in range(chance.randint(not mark, 6)))
        return f"{mark}{letters}{mark}"

    shell = Shell(Scene("/app", lambda language, code, scene: []), execute)
    taken = 0
    for _ in range(2_000):
        words = ["".join(part() for _ in range(chance.choice([1, 1, 2]))) for _ in range(chance.randint(1, 4))]
        source = parse(" ".join([chance.choice(["grep", "./a.b", "time", "if", "export"]), *words, "; ls $x"]))
        assert source is not None
        for node in source.root.children:
            plain = plain_words(source.data[node.start_byte : node.end_byte]) if node.type == "command" else None
            if plain is not None:
                shell.source = source
                assert fields(shell, node.children) == [(word,) for word in plain]
                taken += 1
    assert taken > 500


def test_trees_of_plain_texts_are_those_of_the_grammar() -> None:
    """Long lists are one node there and nest in the grammar; the texts are those whose trees differ most easily, too."""
    chance = random.Random(5)
    firsts = ["echo", "ls", "./a.b", "X1", "true", "if", "time", "for", "export", "test", "eval", "in", "do", "select", "coproc"]
    words = ["-a", "a.py", "'a b'", '"&& x"', '"it\'s"', "in", "done", "=", "A=1", "5", "*", "'<<E'", "==", '"{a,b} #("']

    def shape(node: Any) -> tuple[Any, ...]:
        parts = [shape(one) if one.is_named else (one.type,) for one in node.children] if node.type in _SHAPED else []
        if node.type == "list" and parts[0][0] == "list":
            parts[:1] = parts[0][3]
        return node.type, node.start_byte if node.type != "program" else 0, node.end_byte, parts

    taken = 0
    for _ in range(6_000):
        text = chance.choice(["", " ", "\n"])
        for _ in range(chance.randint(1, 5)):
            first = chance.choice(firsts if not chance.randrange(20) else firsts[:5])
            text += " ".join([first, *chance.choices(words, k=chance.randint(0, 3))])
            text += chance.choice([" && ", " | ", "|", " || ", "; ", ";", "\n", "\n\n  ", " ;\n", " |\n ", ""])
        if (tree := tree_of(text)) is not None:
            scanned = scan(text)
            assert scanned is not None
            assert (scanned.text.replace("\n", ";"), scanned.documents) == (text.replace("\n", ";"), {})
            assert shape(tree) == shape(_parser().parse(text.encode()).root_node)
            taken += 1
    assert taken > 500


_SHAPED = frozenset(["program", "list", "pipeline"])


_NAMES = st.sampled_from(["f", "f", "A", "HOME", "PATH", "IFS"])
_SIMPLE_WORDS = st.sampled_from(["a.py", "src/*0.py", "b", "-n", "5", "in", "do", "done", "/tests/x.sh", "./a.b", "-", "..", "*"])
_PLAIN_WORDS = st.one_of(_SIMPLE_WORDS, st.sampled_from(["'a b'", '"x $"', "'$f'", "x:~y", "A=1", "=", "==", '"$f" ', "'\"$A\"'"]))
_SIGNS = st.sampled_from(["; ", ";", " ;\n", "\n", "\n\n ", " && ", " || ", " | "])


def _statements(one: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Return texts of one to three statements."""
    further = st.lists(st.tuples(_SIGNS, one).map("".join), max_size=2).map("".join)
    return st.tuples(one, further).map("".join)


def _with_more(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Return statements around those that are given."""
    blank = st.sampled_from(["", " ", "\n", ";"])
    printed = st.builds("$({}{}{})".format, st.sampled_from(["", " "]), _statements(inner), blank)
    words = st.one_of(_PLAIN_WORDS, _NAMES.map('"${}"'.format), printed)
    programs = st.sampled_from(["echo", "cat", "cp", "basename", "true", "pytest", "cd", "read", "bash", "sed", "./a.b", "printf"])
    command = st.builds(" ".join, st.tuples(programs, st.lists(words, max_size=3).map(" ".join)))
    into = st.sampled_from([" > ", " >", "  >> ", ">", " 2> "])
    values = st.one_of(_SIMPLE_WORDS, st.builds("${}{}".format, _NAMES, st.sampled_from(["", "/x", ".py", "-z", "b", "$A", "~"])))
    ends = st.sampled_from([";", "\n", " ;\n"])
    listed, body = st.lists(_SIMPLE_WORDS, min_size=1, max_size=3).map(" ".join), _statements(inner)
    loop = st.builds("for {} in {}{}do{}{}{}done".format, _NAMES, listed, ends, st.sampled_from([" ", "\n  "]), body, ends)
    goals = st.one_of(_SIMPLE_WORDS, st.just("/dev/tcp/h/80"))
    redirected = st.tuples(st.one_of(command, command, loop), into, goals).map("".join)
    return st.one_of(command, redirected, st.builds("{}={}".format, _NAMES, values), loop)


@given(text=_statements(st.recursive(st.just("ls src"), _with_more, max_leaves=4)), known=st.booleans())
@settings(max_examples=400)
@example(text='f=$f/x; cat "$f" "$HOME" > src/a', known=False)
@example(text='A=$f; for f in a b; do cp "$f" "$A"; A=c; done; pytest; true', known=True)
@example(text="echo $(ls; cat $(echo src/x)) b $(pwd) >> a.py", known=True)
def test_texts_read_without_the_grammar_do_what_they_do_with_it(text: str, known: bool) -> None:
    scene = Scene("/app", _read, variables={"f": "a.py", "A": "b c"}, files={"/app/a.b": "rm x"}) if known else Scene("/app", _read)
    found = acts_of_shell(text, scene)
    with patch.object(syntax, "tree_of", lambda text: None):
        assert found == acts_of_shell(text, scene)


@given(text=_statements(st.recursive(st.just("ls src"), _with_more, max_leaves=4)))
@settings(max_examples=200)
@example(text='A=$B/x; echo "$A" >> a.py | wc')
@example(text='for f in a; do cat "$f" > b; done')
def test_no_text_that_is_read_without_the_grammar_is_turned_away_before(text: str) -> None:
    found = tree_of(text) is not None
    with patch.object(plain, "_LONG", 0):
        assert (tree_of(text) is not None) == found


_COMMANDS = st.sampled_from(["ls src", "cat a $f", "A=1 make", "exec 3> b", "exec 1< a", "(cd src; pwd)", "cat <<E | wc\na\nE\n"])
_REDIRECTIONS = st.lists(st.sampled_from([" 2>/dev/null", " 2>&1", " > c", " 3>&1", " < a"]), max_size=3).map("".join)


@given(text=_statements(st.tuples(_COMMANDS, _REDIRECTIONS).map("".join)))
@settings(max_examples=200)
@example(text="exec 1< a; pwd 2>&1")
@example(text="exec 1< a 2>&1")
@example(text="(ls 2>/dev/null) > b")
def test_redirections_said_to_have_no_effect_have_none(text: str) -> None:
    scene = Scene("/app", _read)
    found = acts_of_shell(text, scene)
    with patch.object(commands, "has_effect", lambda shell, node: True):
        assert found == acts_of_shell(text, scene)


@given(text=_statements(st.recursive(st.just("ls src"), _with_more, max_leaves=4)))
@settings(max_examples=100)
def test_acts_name_the_argument_if_the_scene_does(text: str) -> None:
    scene = Scene("/app", _read)
    assert acts_of_shell(text, scene.of_argument("a")) == [replace(act, argument="a") for act in acts_of_shell(text, scene)]


@pytest.mark.parametrize(
    ("text", "taken"),
    [
        ('for f in src/*.py b; do wc -l "$f" > out/0; done', True),
        ("for f in a\ndo\n  for g in b; do ls; done\ndone && ls", True),
        ('A=$B/x; echo "$A" | wc; C=1', True),
        ("echo $(basename $(dirname src/x); pwd) y", True),
        ("ls | sort\nwc > a", True),
        ("ls | sort | wc\nwc > a", False),
        ("ls | wc > a", False),
        ("ls > a && ls", False),
        ("A=1\nls", False),
        ("A=1 && ls", False),
        ("A=1 ls", False),
        ("echo $(ls)x", False),
        ('echo x"$A"', False),
        ("echo $A", False),
        ("for f in a; do ls; done > b", False),
        ("for f in a; do ls", False),
        ("for f in a; do ls &&\ndone", False),
        ("echo $(ls", False),
        ("ls)", False),
        ("done", False),
        ("echo " + "$(echo " * 20 + "x" + ")" * 20, False),
    ],
)
def test_which_texts_are_read_without_the_grammar(text: str, taken: bool) -> None:
    assert (tree_of(text) is not None) is taken


@pytest.mark.parametrize("words", ['"$A  "', '"  $A"', '"  $A  "', '"$A"', '" $A\t$A "', '"a  "', '"  a"'])
def test_blanks_in_quotes_stay_beside_a_variable(words: str) -> None:
    said = next(act.target for act in _acts(f"A=k; printf '%s' {words}") if act.kind == "text")
    assert said == words.strip('"').replace("$A", "k")
