"""Environment and processes: `env`, `kill`, `ps`, tracers, debuggers, and what is put off or into the background."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from rosellm.roserlhf.guard.act import UNKNOWN
from rosellm.roserlhf.guard.shell import command as commands
from rosellm.roserlhf.guard.shell.file import read_path, write_path
from rosellm.roserlhf.guard.shell.language import unknown_program
from rosellm.roserlhf.guard.shell.program import Arguments, apply
from rosellm.roserlhf.guard.shell.shell import Shell, shortened
from rosellm.roserlhf.guard.shell.table import programs
from rosellm.roserlhf.guard.shell.value import ANYTHING, NOTHING, Value

_OWN: Final = frozenset(["$!", "self", "0", ""])
_GDB_RUNS: Final = re.compile(r"^\s*(?:shell|!|make|pipe)\s*(.+)$", re.DOTALL)
_GDB_PYTHON: Final = re.compile(r"^\s*(?:python|py|pi|python-interactive|script)\s+(.+)$", re.DOTALL)
_GDB_READS: Final = re.compile(r"^\s*(?:source|file|exec-file|symbol-file|core-file|core|restore|add-symbol-file)\s+(\S+)")
_GDB_WRITES: Final = re.compile(
    r"^\s*(?:dump (?:binary |ihex |srec )?(?:memory |value )?|generate-core-file|gcore|set logging file|tee )\s*(\S+)"
)
_GDB_ATTACHES: Final = re.compile(r"^\s*attach\s+(\S+)")


def _env(shell: Shell, argv: list[str]) -> Value:
    """`env [NAME=VALUE]... [COMMAND]`; alone it prints the environment."""
    words = argv[1:]
    mark = shell.state.mark()
    cleared = False
    while words:
        word = words[0]
        if word in ("-u", "--unset", "-C", "--chdir", "-S", "--split-string"):
            value = words[1] if len(words) > 1 else ""
            words = words[2:]
            if word in ("-C", "--chdir"):
                shell.state.set("cwd", "", shell.paths(value))
            elif word in ("-S", "--split-string"):
                words = value.split() + words
            continue
        if word.startswith("-S") and len(word) > 2:
            words = [*word[2:].split(), *words[1:]]
            continue
        if word.startswith("-"):
            cleared = cleared or word in ("-i", "-", "--ignore-environment")
            words = words[1:]
            continue
        name, equals, value = word.partition("=")
        if not equals or not name.replace("_", "a").isalnum():
            break
        shell.act("environment", name, f"set {shortened(value)}")
        shell.state.set("var", name, (value,))
        words = words[1:]
    try:
        if words:
            return commands.dispatch(shell, words)
    finally:
        shell.state.back(mark, keep=frozenset(["file", "link"]))
    if not cleared:
        shell.act("environment", "*", "read")
    return ANYTHING


def _printenv(shell: Shell, argv: list[str]) -> Value:
    wanted = [word for word in argv[1:] if not word.startswith("-")]
    for name in wanted or ["*"]:
        shell.act("environment", name, "read")
    return shell.state.variable(wanted[0]) if len(wanted) == 1 else ANYTHING


def _kill(shell: Shell, argv: list[str]) -> Value:
    """`kill`, `pkill`, `killall`: other processes, not this command's own."""
    name = argv[0].rpartition("/")[2]
    words = argv[1:]
    asks = "-0" in words or "-l" in words
    while words and words[0].startswith("-"):
        words = words[2:] if words[0] in ("-s", "-n", "-u", "-t", "-g", "-P", "--signal", "-U") else words[1:]
    for word in words:
        if word.strip() not in _OWN and not word.startswith("%") and not asks:
            shell.act("process", word.strip(), name)
    return NOTHING


def _ps(shell: Shell, argv: list[str]) -> Value:
    """`ps`, `pgrep`, `top`, `lsof`: processes are looked at."""
    name = argv[0].rpartition("/")[2]
    arguments = Arguments(programs()[name], argv[1:])
    for file in arguments.values("write"):
        write_path(shell, file, name, "truncate")
    wanted = arguments.values("process") + (arguments.operands if name not in ("ps", "top", "htop", "lsof") else [])
    wanted = [word for word in wanted if word not in _OWN]
    if wanted or not arguments.values("process"):
        shell.act("process", " ".join(wanted) or "*", shortened(f"{name} {' '.join(argv[1:])}".strip()))
    if name in ("fuser", "lsof"):
        unknown_program(shell, name, arguments.operands)
    return ANYTHING


def _tracer(shell: Shell, argv: list[str]) -> Value:
    """`strace`, `ltrace`, `perf trace`: with `-p` another process, else the command behind."""
    name = argv[0].rpartition("/")[2]
    arguments = Arguments(programs()["strace"], argv[1:])
    for option, role, value in arguments.valued:
        if role == "process":
            shell.act("process", value, name)
        else:
            apply(shell, role, value, name, {}, option)
    return commands.dispatch(shell, arguments.rest) if arguments.rest else ANYTHING


def _debugger(shell: Shell, argv: list[str]) -> Value:
    """`gdb -ex COMMAND`, `gdb -p PID`, `lldb -o`."""
    name = argv[0].rpartition("/")[2]
    arguments = Arguments(programs()["gdb"], argv[1:])
    scripts = arguments.values("script-command")
    for option, role, value in arguments.valued:
        if role == "script":
            scripts += [
                line for text in read_path(shell, value, f"{name} {option}") for line in text.split("\n") if line != UNKNOWN
            ]
        elif role != "script-command":
            apply(shell, role, value, name, {}, option)
    for word in arguments.operands:
        if word.isdigit() and "program" not in arguments.flags:
            shell.act("process", word, name)
        elif "program" not in arguments.flags or word == arguments.operands[0]:
            read_path(shell, word, name)
    if shell.stdin is not None:
        scripts += [line for line in shell.lines_of(shell.stdin) if line != UNKNOWN]
    for line in scripts[:500]:
        _debugger_command(shell, name, line)
    return ANYTHING


def _debugger_command(shell: Shell, name: str, line: str) -> None:
    if (found := _GDB_PYTHON.match(line)) is not None:
        shell.read("python", found[1], name)
    elif (found := _GDB_RUNS.match(line)) is not None:
        shell.evaluate(found[1], name, new=True)
    elif (found := _GDB_READS.match(line)) is not None:
        read_path(shell, found[1], name)
    elif (found := _GDB_WRITES.match(line)) is not None:
        write_path(shell, found[1], name, "truncate")
    elif (found := _GDB_ATTACHES.match(line)) is not None:
        shell.act("process", found[1], f"{name} attach")


def _later(shell: Shell, argv: list[str]) -> Value:
    """`nohup`, `setsid`, `daemonize`: a command that outlives this one."""
    name = argv[0].rpartition("/")[2]
    arguments = Arguments(programs()["nohup"], argv[1:])
    if shell.beside or name in ("daemonize", "start-stop-daemon") or {"-f", "--fork"} & set(argv[1:3]):
        shell.act("schedule", shortened(" ".join(arguments.rest)), name)
    return commands.dispatch(shell, arguments.rest) if arguments.rest else NOTHING


def _watch(shell: Shell, argv: list[str]) -> Value:
    """`watch`, `entr`: a command again and again."""
    name = argv[0].rpartition("/")[2]
    arguments = Arguments(programs()["watch"], argv[1:])
    shell.act("schedule", shortened(" ".join(arguments.rest)), name)
    if name == "watch":
        return shell.evaluate(" ".join(arguments.rest), new=True)
    return commands.dispatch(shell, arguments.rest) if arguments.rest else NOTHING


def _at(shell: Shell, argv: list[str]) -> Value:
    """`at`, `batch`: commands of the input, or of a file, at another time."""
    codes = list(shell.stdin or ())
    if "-f" in argv[:-1]:
        codes += list(read_path(shell, argv[argv.index("-f") + 1], "at"))
    for code in codes or [UNKNOWN]:
        shell.act("schedule", shortened(code), "at")
        if code != UNKNOWN:
            shell.evaluate(code, "at", new=True)
    return NOTHING


def _crontab(shell: Shell, argv: list[str]) -> Value:
    words = [word for at, word in enumerate(argv[1:]) if not word.startswith("-") or word == "-"]
    if "-l" in argv:
        shell.act("list", "/var/spool/cron", "crontab -l")
        return ANYTHING
    texts = [text for word in words for text in read_path(shell, word, "crontab")] or list(shell.stdin or ())
    for text in texts or [UNKNOWN]:
        shell.act("schedule", shortened(text), "cron")
        for line in text.split("\n")[:100]:
            if (found := re.match(r"\s*(?:@\w+|(?:\S+\s+){5})\s*(\S.*)", line)) is not None and not line.lstrip().startswith("#"):
                shell.evaluate(found[1], "cron", new=True)
    return NOTHING


def _systemd_run(shell: Shell, argv: list[str]) -> Value:
    words = argv[1:]
    while words and words[0].startswith("-"):
        words = words[2:] if words[0] in ("-p", "-u", "-E", "-t") else words[1:]
    shell.act("schedule", shortened(" ".join(words)), "systemd-run")
    return commands.dispatch(shell, words) if words else NOTHING


def _script(shell: Shell, argv: list[str]) -> Value:
    """`script -c COMMAND FILE`."""
    arguments = Arguments(programs()["script"], argv[1:])
    for command in arguments.values("shell"):
        shell.evaluate(command, new=True)
    for file in arguments.operands[:1]:
        write_path(shell, file, "script", "truncate")
    return ANYTHING


def _expect(shell: Shell, argv: list[str]) -> Value:
    """`expect -c SCRIPT`, `screen -dmS NAME COMMAND`, `tmux new -d COMMAND`: commands in terminals of their own."""
    name = argv[0].rpartition("/")[2]
    words = argv[1:]
    if name == "expect":
        for code in [words[at + 1] for at, word in enumerate(words[:-1]) if word == "-c"] + list(shell.stdin or ()):
            for found in re.finditer(r"(?m)(?:spawn|exec|system)\s+([^\n;\]]+)", code):
                shell.evaluate(found[1], "expect", new=True)
        return ANYTHING
    shell.act("schedule", shortened(" ".join(words)), name)
    for at, word in enumerate(words):
        if " " in word or (at and name == "screen" and words[at - 1] in ("-S", "-dmS", "-dm") and word != words[at - 1]):
            shell.evaluate(word, name, new=True)
    if name == "screen" and len(words) > 2:
        commands.dispatch(shell, words[2:] if words[0].startswith("-d") and "S" in words[0] else words[1:])
    return NOTHING


READERS: Final[dict[str, Callable[[Shell, list[str]], Value]]] = {
    "env": _env,
    "genv": _env,
    "printenv": _printenv,
    **dict.fromkeys(["kill", "pkill", "killall", "skill", "xkill", "renice"], _kill),
    **dict.fromkeys(
        ["ps", "pgrep", "pidof", "top", "htop", "lsof", "pstree", "pmap", "pwdx", "fuser", "pstack", "gcore", "py-spy", "reptyr"],
        _ps,
    ),
    **dict.fromkeys(["strace", "ltrace", "dtruss", "bpftrace", "truss", "uftrace"], _tracer),
    **dict.fromkeys(["gdb", "lldb", "rr", "cgdb"], _debugger),
    **dict.fromkeys(["nohup", "setsid", "daemonize", "start-stop-daemon"], _later),
    **dict.fromkeys(["watch", "entr", "watchexec", "nodemon"], _watch),
    **dict.fromkeys(["at", "batch"], _at),
    "crontab": _crontab,
    "systemd-run": _systemd_run,
    "script": _script,
    **dict.fromkeys(["expect", "screen", "tmux", "dtach"], _expect),
}
