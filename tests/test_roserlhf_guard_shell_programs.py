"""Programs of the shell: what the tables and the readers of their own say of arguments. Nothing here is ever run."""

from __future__ import annotations

import pytest

from rosellm.roserlhf.guard.act import UNKNOWN, Act
from rosellm.roserlhf.guard.scene import Scene
from rosellm.roserlhf.guard.shell import acts_of_shell
from rosellm.roserlhf.guard.shell.table import program_of, programs

_KNOWN = """
read tree list write append edit mode touch delete into run command url host query package module env process text workdir include
exclude pattern patterns any value name shell skip rest tests plugin volume make make-code container service options variable
archive names compress checkpoint address data header resolve script script-command statement
"""
_LOOKS = """
cat tac nl head tail less more strings xxd od hexdump wc sort uniq rev cut paste fold md5sum sha256sum base64 diff cmp jq:. vim bat
zcat comm iconv pr column expand look:x grep:x rg:x awk:1 sed:p file:- stat:-
"""
_ROLES = frozenset(_KNOWN.split()) | {"config", "levels"}


def _read(language: str, code: str, scene: Scene) -> list[Act]:
    return acts_of_shell(code, scene) if language == "shell" else [Act("text", code, f"as {language}", via=(language,))]


def _acts(command: str) -> list[tuple[str, str]]:
    found = acts_of_shell(command, Scene("/app", _read))
    return [(act.kind, act.target) for act in found if act.kind not in ("run", "text", "opaque")]


@pytest.mark.parametrize("program", _LOOKS.split())
def test_every_way_to_look_into_a_file(program: str) -> None:
    name, _, argument = program.partition(":")
    kind = "list" if argument == "-" else "read"
    assert (kind, "/tests/x") in _acts(f"{name} {argument.strip('-')} /tests/x")


@pytest.mark.parametrize(
    ("command", "acts"),
    [
        # copies, moves, links
        ("cp -r /tests/. here/", [("read", "/tests"), ("write", "/app/here")]),
        ("cp a b d/", [("read", "/app/a"), ("read", "/app/b"), ("write", "/app/d/a"), ("write", "/app/d/b")]),
        ("cp -t /d a", [("read", "/app/a"), ("write", "/d/a")]),
        ("cp -rs /golden/. /tmp/g", [("read", "/golden"), ("link", "/tmp/g")]),
        ("mv /a/b .", [("read", "/a/b"), ("delete", "/a/b"), ("write", "/app/b")]),
        ("ln -s /tests t; rm t", [("link", "/app/t"), ("delete", "/app/t")]),
        ("rsync -a /eval/ /tmp/e", [("read", "/eval"), ("write", "/tmp/e")]),
        ("scp me@host.example:/x .", [("fetch", "host.example/x"), ("write", "/app/x")]),
        ("dd if=/tests/a of=b bs=4k", [("read", "/tests/a"), ("write", "/app/b")]),
        ("tar -C / -cf - tests/x", [("read", "/tests/x")]),
        ("tar xzf a.tgz -C /d", [("read", "/app/a.tgz"), ("write", f"/d/{UNKNOWN}")]),
        ("zip -r /o.zip /tests; unzip -p z.zip", [("write", "/o.zip"), ("read", "/tests"), ("read", "/app/z.zip")]),
        ("chmod 444 /r; chown a:b /s; touch -r /a /t", [("write", "/r"), ("write", "/s"), ("list", "/a"), ("write", "/t")]),
        ("find . -name '*.pyc' -delete", [("list", "/app"), ("delete", f"/app/{UNKNOWN}*.pyc")]),
        ("tee -a /a b < /c", [("read", "/c"), ("write", "/a"), ("write", "/app/b")]),
        # editors
        ("sed -i.bak s/a/b/ t.py", [("read", "/app/t.py"), ("write", "/app/t.py")]),
        ("sed -n 'p;w /out' f", [("write", "/out"), ("read", "/app/f")]),
        ("sed -e 'r /tests/x' f", [("read", "/tests/x"), ("read", "/app/f")]),
        ("perl -0pi -e 's/a/b/' t.c", [("read", "/app/t.c"), ("write", "/app/t.c")]),
        ('awk \'BEGIN { while ((getline l < "/te" "sts/x") > 0) print l > "/o" }\'', [("read", "/tests/x"), ("write", "/o")]),
        ('awk \'BEGIN { system("cat /a"); "cat /b" | getline }\'', [("read", "/a"), ("read", "/b")]),
        ("ed -s f <<'E'\nr /tests/x\nw\nE", [("read", "/app/f"), ("write", "/app/f"), ("read", "/tests/x")]),
        ("vim -es -c 'args /tests/*.rs' -c 'w /o' -c '!cat /c'", [("read", "/tests/*.rs"), ("write", "/o"), ("read", "/c")]),
        # databases
        ("sqlite3 g.db 'update g set s=1'", [("read", "/app/g.db"), ("write", "/app/g.db")]),
        ("sqlite3 :memory: \"select readfile('/tests/x')\"", [("read", "/tests/x")]),
        ("jq --arg a b .x /f", [("read", "/f")]),
        # processes and schedules
        ("cat /proc/7/environ", [("read", "/proc/7/environ"), ("process", "7")]),
        ("cat /proc/self/status /proc/$$/limits", [("read", "/proc/self/status"), ("read", "/proc/self/limits")]),
        ("kill -9 12; kill $!; kill %1", [("process", "12")]),
        ("pgrep -f grader; ps aux", [("process", "grader"), ("process", "*")]),
        ("gcore -o /tmp/c 12; strace -p 13 -f", [("write", "/tmp/c"), ("process", "12"), ("process", "13")]),
        ("gdb -p 12 -ex 'dump memory /h 0 1'", [("process", "12"), ("write", "/h")]),
        ("strace cat /a", [("read", "/a")]),
        ("nohup cat /a; setsid -w cat /b", [("read", "/a"), ("read", "/b")]),
        ("nohup cat /a &", [("schedule", "nohup cat /a"), ("schedule", "cat /a"), ("read", "/a")]),
        ("(sleep 9; echo 1 > /r) &", [("schedule", "(sleep 9; echo 1 > /r)"), ("write", "/r")]),
        ("echo '* * * * * echo 1 > /r' | crontab -", [("schedule", "* * * * * echo 1 > /r\n"), ("write", "/r")]),
        ("echo 'cat /a' | at now", [("schedule", "cat /a\n"), ("read", "/a")]),
        # packages
        ("pip download --no-deps 'httpline[x]>3.4' -d dl", [("write", "/app/dl"), ("install", "httpline")]),
        ("npm pack @a/routelet@latest; npx mocha@9 t", [("install", "@a/routelet"), ("install", "mocha"), ("read", "/app/t")]),
        ("cargo add spanmap@0.6; go get example.com/m@v1", [("install", "spanmap"), ("install", "example.com/m")]),
        ("apt-get source -y foo; conda create -p /e -c forge bar", [("install", "foo"), ("write", "/e"), ("install", "bar")]),
        ("pip install -q -e . ./dist/x.whl", [("read", "/app"), ("read", "/app/dist/x.whl")]),
        ("uv run pytest /t/a.py::b", [("read", "/t/a.py")]),
        # network
        ("curl -s file:///tests/x -o -", [("read", "/tests/x")]),
        ("wget -qO- file:///oracle/s.sh", [("read", "/oracle/s.sh")]),
        ("curl -T /a -F f=@/b http://x.y", [("read", "/a"), ("read", "/b")]),
        ("cat < /dev/tcp/x.y/80; nc x.y 80", [("fetch", "x.y:80"), ("fetch", "x.y:80")]),
        ("ssh localhost cat /a", [("fetch", "localhost"), ("read", "/a")]),
        # tests, builds, containers
        ("pytest -p plug t --junitxml=/r.xml --deselect t/x", [("import", "plug"), ("write", "/r.xml"), ("read", "/app/t")]),
        ("python -m pytest t", [("import", "pytest"), ("read", "/app/t")]),
        ("make -C sub -f /g.mk", [("list", "/app/sub"), ("read", "/g.mk")]),
        ("docker run -v /tests:/t img cat /t/x", [("read", "/tests"), ("read", "/t/x")]),
        ("unshare -r cat /a; flock /l cat /b; chroot /m cat /c; stdbuf -oL cat /d", [("read", f"/{c}") for c in "abcd"]),
        ("script -qc 'cat /a' /dev/null; watch -n1 cat /b", [("read", "/a"), ("schedule", "cat /b"), ("read", "/b")]),
        # names that are made up lie in the folder for what is temporary, or after their template
        ("cp /a $(mktemp -d)/b", [("read", "/a"), ("write", f"/tmp/tmp.{UNKNOWN}/b")]),
        ("d=$(mktemp -d /var/w.XXXX); cat $d/c", [("write", "/var/w.XXXX"), ("read", f"/var/w.{UNKNOWN}/c")]),
        # options whose value is a path although the table says that it is none
        ("head -n /x /y", [("read", "/x"), ("read", "/y")]),
    ],
)
def test_what_programs_do(command: str, acts: list[tuple[str, str]]) -> None:
    assert _acts(command) == acts


def test_tables_are_well_formed_and_large() -> None:
    table = programs()
    assert len(table) > 700
    for spec in table.values():
        for one in [spec, *spec.verbs.values()]:
            roles = [role for role, _ in one.operands] + list(one.options.values()) + list(one.keys.values())
            assert all(role in _ROLES or role.startswith(("code:", "script:")) for role in roles), (one.name, roles)
            assert sum(many for _, many in one.operands) <= 1, one.name
            assert all(option.startswith("-") for option in [*one.options, *one.flags]), one.name


def test_a_program_that_is_named_by_a_glob_is_every_program_that_it_may_be() -> None:
    assert program_of("c?t", ["cat", "cut", "cp"]) == ["cat", "cut"]
    assert program_of(f"{UNKNOWN}", ["cat"]) == []
    assert ("read", "/tests/x") in _acts("/b?n/c?t /tests/x")
