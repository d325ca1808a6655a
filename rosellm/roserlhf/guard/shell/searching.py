"""`find`, `xargs`, `parallel`: what they come across, and what they run on it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from rosellm.roserlhf.guard.act import UNKNOWN
from rosellm.roserlhf.guard.shell import command as commands
from rosellm.roserlhf.guard.shell.file import act_on, read_path, write_path
from rosellm.roserlhf.guard.shell.shell import Shell, either
from rosellm.roserlhf.guard.shell.value import ANYTHING, NOTHING, Value, names, one_of

_NAMES: Final = names("""-name -iname -path -ipath -wholename -iwholename -regex -iregex -lname -ilname""")
_VALUES: Final = names(
    """-type -xtype -maxdepth -mindepth -size -mtime -mmin -atime -amin -ctime -cmin -perm -user -group -uid -gid -links -inum
    -printf -fstype -regextype -used -context -newermt -threads"""
)
_FILES: Final = frozenset(["-newer", "-anewer", "-cnewer", "-samefile", "-newermm"])
_OUTPUTS: Final = frozenset(["-fprint", "-fprint0", "-fls", "-fprintf"])
_RUNS: Final = frozenset(["-exec", "-execdir", "-ok", "-okdir"])
_XARGS_VALUES: Final = names("""-n -L -P -s -d -E -a -I -i --max-args --max-lines --max-procs --max-chars --delimiter --arg-file""")
_MOST_WORDS: Final = 64


def _find(shell: Shell, argv: list[str]) -> Value:
    """`find ROOT... EXPRESSION`: names are listed below the roots; what matches is read, deleted or handed to a command."""
    words = argv[1:]
    while words and words[0] in ("-H", "-L", "-P"):
        words = words[1:]
    roots: list[str] = []
    while words and not words[0].startswith(("-", "(", "!", ",")):
        roots.append(words[0])
        words = words[1:]
    expression = _Expression(words)
    traits = {"recursive": "yes"} if expression.depth != "0" else {}
    if expression.names:
        traits["includes"] = " ".join(expression.names)
    if expression.excluded:
        traits["excludes"] = " ".join(expression.excluded)
    for root in roots or ["."]:
        act_on(shell, "list", root, argv[0], **traits)
    for file in expression.files:
        act_on(shell, "list", file, f"{argv[0]} -newer")
    for file in expression.outputs:
        write_path(shell, file, argv[0], "truncate")
    found = [place for root in roots or ["."] for place in _found_below(root, expression)]
    if expression.deletes:
        for place in found:
            act_on(shell, "delete", place, f"{argv[0]} -delete", **traits)
    printed: list[Value] = []
    for inside, run in expression.runs:
        printed.append(_run_on(shell, run, found, inside=inside, traits=traits))
    return either(printed) if printed else one_of(f"{place}\n" for place in found)


class _Expression:
    """The tests and actions of a `find`."""

    def __init__(self, words: list[str]) -> None:
        self.names: list[str] = []
        self.excluded: list[str] = []
        self.files: list[str] = []
        self.outputs: list[str] = []
        self.runs: list[tuple[bool, list[str]]] = []
        self.deletes = False
        self.depth = ""
        self._read(words)

    def _read(self, words: list[str]) -> None:
        group: list[str] = []
        since = 0  # names that were added since the last action or the last alternative outside of brackets
        depth = 0
        at, negated = 0, False
        while at < len(words):
            word = words[at]
            following = words[at + 1] if at + 1 < len(words) else ""
            at += 1
            if word in ("!", "-not"):
                negated = True
                continue
            if word in _NAMES:
                (self.excluded if negated else group).append(following)
                at += 1
            elif word in _RUNS:
                stop = next((i for i in range(at, len(words)) if words[i] in (";", "+")), len(words))
                self.runs.append((word in ("-execdir", "-okdir"), words[at:stop]))
                at = stop + 1
            elif word == "-prune":
                if not any(one in _RUNS or one == "-print" for one in words[at : at + 1]):
                    self.excluded += self.names[since:] + group
                    del self.names[since:]
                    group = []
            elif word in ("(", "\\(", ")", "\\)"):
                depth += 1 if word.endswith("(") else -1
            elif word in ("-o", "-or"):
                self.names += group
                group = []
                since = len(self.names) if depth <= 0 else since
            elif word == "-delete":
                self.deletes = True
            elif word in _FILES:
                self.files.append(following)
                at += 1
            elif word in _OUTPUTS:
                self.outputs.append(following)
                at += 2 if word == "-fprintf" else 1
            elif word in _VALUES:
                self.depth = following if word == "-maxdepth" else self.depth
                at += 1
            if word not in ("(", "\\("):
                negated = False
        self.names += group


def _found_below(root: str, expression: _Expression) -> list[str]:
    """Return globs of what is found below a root; `UNKNOWN` stands for any directories."""
    if expression.depth == "0":
        return [root]
    base = root.rstrip("/")
    if not expression.names:
        return [f"{base}/{UNKNOWN}"]
    return [
        f"{base}/{UNKNOWN}{name}"
        if "/" not in name
        else f"{name}"
        if name.startswith("/")
        else name
        if name.startswith(f"{base}/")
        else f"{base}/{UNKNOWN}{name.lstrip('*')}"
        for name in expression.names
    ]


def _run_on(shell: Shell, run: list[str], found: list[str], *, inside: bool, traits: dict[str, str]) -> Value:
    """Read a command with `{}` standing for what was found."""
    printed: list[Value] = []
    before, shell.traits = shell.traits, {**shell.traits, **{k: v for k, v in traits.items() if k == "excludes"}}
    mark = shell.state.mark()
    for place in found[:_MOST_WORDS]:
        if inside:
            directory, unknown, name = place.rpartition(UNKNOWN)
            shell.state.set("cwd", "", shell.paths(directory + unknown or "."))
            place = f"./{name.rpartition('/')[2]}"
        words = [word.replace("{}", place) for word in run]
        if words and shell.again():
            printed.append(commands.dispatch(shell, words))
        if inside:
            shell.leave(mark)
    shell.traits = before
    return either(printed) if printed else NOTHING


def _xargs(shell: Shell, argv: list[str]) -> Value:
    """`... | xargs COMMAND`: the words of the input are arguments."""
    words = argv[1:]
    replace = ""
    stdin = shell.stdin
    delimiter = ""
    while words and words[0].startswith("-"):
        word, words = words[0], words[1:]
        name, _, glued = word.partition("=") if word.startswith("--") else (word[:2], "", word[2:])
        if name in ("-i", "-I", "--replace"):
            replace = glued or (words.pop(0) if name == "-I" and words else "{}")
        elif name in ("-a", "--arg-file"):
            file = glued or (words.pop(0) if words else "")
            stdin = read_path(shell, file, "xargs")
        elif name in ("-d", "--delimiter"):
            delimiter = glued or (words.pop(0) if words else "")
        elif name in _XARGS_VALUES and not glued and words:
            words.pop(0)
    return run_with(shell, words or ["echo"], _arguments(shell, stdin, delimiter, replace), replace)


def _arguments(shell: Shell, stdin: Value | None, delimiter: str, replace: str) -> list[str]:
    if stdin is None:
        return [UNKNOWN]
    if delimiter and delimiter not in ("\\n", "\n", "\\0"):
        found = [one.strip() for text in stdin for one in text.split(delimiter)]
    else:
        found = shell.lines_of(stdin) if replace or delimiter else [_plain(word) for word in shell.words_of(stdin)]
    return found or [UNKNOWN]


def _plain(word: str) -> str:
    return word[1:-1] if len(word) > 1 and word[0] == word[-1] and word[0] in "'\"" else word


def run_with(shell: Shell, words: list[str], arguments: list[str], replace: str) -> Value:
    """Read a command that gets further arguments, at its end or in the place of `replace`."""
    stdin, shell.stdin = shell.stdin, None
    try:
        if not replace:
            return commands.dispatch(shell, [*words, *arguments[: commands.MOST_WORDS]])
        filled = [[word.replace(replace, argument) for word in words] for argument in arguments[:_MOST_WORDS]]
        printed = [commands.dispatch(shell, one) for one in filled if shell.again()]
        return either(printed) if printed else ANYTHING
    finally:
        shell.stdin = stdin


def _parallel(shell: Shell, argv: list[str]) -> Value:
    """GNU parallel: a command, `:::` and arguments, or the lines of the input."""
    words = argv[1:]
    while words and words[0].startswith("-"):
        words = (
            words[2:] if re.fullmatch(r"-[jnNLaSP]|--(jobs|arg-file|colsep|delay|timeout|joblog|results)", words[0]) else words[1:]
        )
    arguments: list[str] = []
    if ":::" in words:
        at = words.index(":::")
        words, arguments = words[:at], [word for word in words[at + 1 :] if word != ":::"]
    elif "::::" in words:
        at = words.index("::::")
        arguments = [line for file in words[at + 1 :] for line in shell.lines_of(read_path(shell, file, "parallel"))]
        words = words[:at]
    else:
        arguments = shell.lines_of(shell.stdin) if shell.stdin is not None else [UNKNOWN]
    if not words:
        return either(shell.evaluate(one, new=True) for one in arguments[:_MOST_WORDS]) if arguments else NOTHING
    code = " ".join(words)
    places = re.compile(r"\{(?:|\.|/|//|/\.)\}")
    printed = []
    for argument in arguments[:_MOST_WORDS]:
        if shell.again():
            filled = places.sub(argument.replace("\\", "\\\\"), code) if places.search(code) else f"{code} {argument}"
            printed.append(shell.evaluate(filled, new=True))
    return either(printed) if printed else ANYTHING


READERS: Final[dict[str, Callable[[Shell, list[str]], Value]]] = {
    "find": _find, "gfind": _find, "xargs": _xargs, "gxargs": _xargs, "parallel": _parallel,
}  # fmt: skip
