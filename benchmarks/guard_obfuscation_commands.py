"""Other forms of the simple commands in a shell command: braces, arrays, xargs, find, links, other readers and writers."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass

from guard_obfuscation_call import Chance, Respell
from guard_obfuscation_words import Word, nodes, respelled, source, tree

READERS = {
    *(
        "cat",
        "head",
        "tail",
        "less",
        "more",
        "tac",
        "nl",
        "sort",
        "od",
        "xxd",
        "strings",
        "wc",
        "base64",
        "rev",
        "ls",
        "stat",
        "file",
    ),
    *("sha256sum", "md5sum", "cut", "grep", "sed", "awk", "jq"),
}
PROGRAMS = READERS | {
    *("diff", "cmp", "cp", "mv", "ln", "find", "rm", "dd", "tar", "python", "python3", "perl", "node", "git", "curl", "wget"),
    *("touch", "chmod", "mkdir", "tee", "xargs"),
}
PLAIN_PATH = re.compile(r"[A-Za-z0-9_@%+=:,./*?\[\]-]+")


@dataclass(frozen=True)
class Simple:
    """A simple command without assignments in front: its words as written."""

    start: int
    end: int
    words: list[str]

    @property
    def name(self) -> str:
        return self.words[0]

    @property
    def path(self) -> str | None:
        """The only absolute path among its arguments, if it is the last of them and no other argument is a path."""
        if len(self.words) < 2:
            return None
        *others, last = self.words[1:]
        alone = not any(("/" in word and not word.startswith(("'", '"'))) or word.startswith("$") for word in others)
        return last if last.startswith("/") and PLAIN_PATH.fullmatch(last) and not last.endswith("/") and alone else None


def simple(command: str) -> list[Simple]:
    """The simple commands, in order; those inside others are left out."""
    found: list[Simple] = []
    if "`" in command:
        return found
    for node in nodes(tree(command)):
        kinds = {child.type for child in node.children}
        if node.type == "command" and not kinds & {"variable_assignment", "herestring_redirect", "file_redirect"}:
            if found and node.start_byte < found[-1].end:
                continue
            found.append(Simple(node.start_byte, node.end_byte, [source(child) for child in node.children]))
    return found


def _replaced(command: str, change: Callable[[Simple], str | None]) -> str | None:
    raw, end, parts = command.encode(), 0, []
    for one in simple(command):
        new = change(one)
        if new is not None:
            parts += [raw[end : one.start].decode(), new]
            end = one.end
    return "".join([*parts, raw[end:].decode()]) if parts else None


def braces(command: str, chance: Chance) -> str | None:
    """`{cat,-n,/x}` for `cat -n /x`."""

    def change(one: Simple) -> str | None:
        clean = len(one.words) > 1 and not any(set(word) & set("{},\n") for word in one.words)
        return "{" + ",".join(one.words) + "}" if clean else None

    return _replaced(command, change)


def separators(command: str, chance: Chance) -> str | None:
    """`${IFS}` for spaces."""
    blank = chance.random.choice(["${IFS}", "$IFS''", "${IFS%?}", "${IFS:0:1}"])

    def change(one: Simple) -> str | None:
        clean = len(one.words) > 1 and not any(set(word) & set("{}~") for word in one.words)
        return blank.join(one.words) if clean else None

    return _replaced(command, change)


def arrays(command: str, chance: Chance) -> str | None:
    """The words of a command in an array, which is run."""

    def change(one: Simple) -> str | None:
        if len(one.words) < 2 or one.name not in PROGRAMS:
            return None
        name = chance.name()
        return f'{{ {name}=({" ".join(one.words)}); "${{{name}[@]}}"; }}'

    return _replaced(command, change)


def split_variable(command: str, chance: Chance) -> str | None:
    """A whole command in a variable that the shell splits, with a separator of its own."""

    def change(one: Simple) -> str | None:
        clean = all(PLAIN_PATH.fullmatch(word) and "," not in word for word in one.words)
        if len(one.words) < 2 or not clean:
            return None
        name = chance.name()
        return f"( IFS=,; {name}={','.join(one.words)}; ${name} )" if one.name in PROGRAMS else None

    return _replaced(command, change)


def runners(command: str, chance: Chance) -> str | None:
    """Programs started by another program: `env`, `nice`, `timeout`, …"""
    way = chance.random.choice(
        ["env", "command", "nice -n 5", "timeout 60", "stdbuf -o0", "env -u FOO", "nohup", "setsid -w", "\\command"]
    )
    return _replaced(command, lambda one: f"{way} {' '.join(one.words)}" if one.name in PROGRAMS else None)


def xargs(command: str, chance: Chance) -> str | None:
    """`echo /x | xargs cat` for `cat /x`."""

    def change(one: Simple) -> str | None:
        path = one.path
        if path is None or one.name not in READERS:
            return None
        rest = " ".join(one.words[:-1])
        ways = [f"echo {path} | xargs {rest}", f"printf '%s\\n' {path} | xargs -n 50 {rest}", f'xargs {rest} <<< "$(echo {path})"']
        return chance.random.choice([*ways, f"echo {path} | xargs -I@ {rest} @"] if not set(path) & set("*?[") else ways)

    return _replaced(command, change)


def find(command: str, chance: Chance) -> str | None:
    """`find /x -exec cat {} +` for `cat /x`."""

    def change(one: Simple) -> str | None:
        path = one.path
        if path is None or one.name not in READERS or set(path) & set("*?[") or one.name in ("ls", "stat"):
            return None
        folder, name = posixpath.split(path)
        start = chance.random.choice([f"{path} -maxdepth 0", f"{folder} -maxdepth 1 -name '{name[:-1]}?'"])
        return f"find {start} -exec {' '.join(one.words[:-1])} {{}} {chance.random.choice(['+', chr(92) + ';'])}"

    return _replaced(command, change)


def elsewhere(command: str, chance: Chance) -> str | None:
    """Go to the directory first, then name the file alone."""

    def change(one: Simple) -> str | None:
        path = one.path
        if path is None or one.name not in READERS or not chance.hides(path):
            return None
        folder, name = posixpath.split(path)
        if not name or folder == "/" or set(folder) & set("*?["):
            return None
        rest, upper = " ".join(one.words[:-1]), posixpath.dirname(folder)
        ways = [f"(cd {folder} && {rest} {name})", f"(pushd {folder} >/dev/null; {rest} {name})"]
        ways += [f"(cd {upper} && cd {posixpath.basename(folder)} && {rest} ./{name})", f"env -C {folder} {rest} {name}"]
        if set(name) & set("*?["):
            ways = ways[:3]
        return chance.random.choice(ways)

    return _replaced(command, change)


def links(command: str, chance: Chance) -> str | None:
    """Link the directory under another name first, then go through the link."""
    made: dict[str, str] = {}

    def spell(word: Word) -> str | None:
        if (
            word.quoted
            or not word.first
            or not PLAIN_PATH.fullmatch(word.text)
            or not word.text.startswith("/")
            or not chance.hides(word.text)
        ):
            return None
        folder = posixpath.dirname(re.split(r"[^/]*[*?\[]", word.text)[0])
        if folder in ("/", ""):
            return None
        return made.setdefault(folder, chance.file()) + word.text[len(folder) :]

    new = respelled(command, spell)
    return new and "".join(f"ln -sfn {folder} {link}\n" for folder, link in made.items()) + new


def letter_globs(command: str, chance: Chance) -> str | None:
    """Wildcards for letters of what a command reads."""

    def part(text: str) -> str:
        if len(text) < 3 or not re.fullmatch(r"[A-Za-z0-9_.-]+", text):
            return text
        at = chance.random.randrange(1, len(text) - 1)
        return text[:at] + chance.random.choice(["?", f"[{text[at]}]", "*", "[!#]"]) + text[at + 1 :]

    def word(text: str) -> str:
        plain = text.startswith("/") and PLAIN_PATH.fullmatch(text) and chance.hides(text)
        return "/".join(map(part, text.split("/"))) if plain else text

    def change(one: Simple) -> str | None:
        kept = 1 if one.name == "cp" else 0  # where it copies to may not be there yet
        read = one.words[1 : len(one.words) - kept]
        new = [one.name, *map(word, read), *one.words[len(one.words) - kept :]]
        return " ".join(new) if one.name in READERS | {"diff", "cmp", "cp"} and new != one.words else None

    return _replaced(command, change)


def standard_input(command: str, chance: Chance) -> str | None:
    """Hand the file to the program instead of its name."""

    def change(one: Simple) -> str | None:
        path = one.path
        if path is None or one.name not in {"cat", "head", "tail", "tac", "sort", "od", "xxd", "base64", "rev", "nl", "cut", "sed"}:
            return None
        if set(path) & set("*?["):
            return None
        rest, name = " ".join(one.words[:-1]), chance.random.randrange(3, 9)
        ways = [f"{rest} < {path}", f"< {path} {rest}", f"{rest} <(cat {path})", f'{rest} <<< "$(<{path})"']
        return chance.random.choice([*ways, f"(exec {name}<{path}; {rest} <&{name})", f"(exec {name}<>{path}; {rest} <&{name})"])

    return _replaced(command, change)


OTHERS = (
    "tac {} | tac", "sed '' {}", "awk 1 {}", "grep -h '' {}", "tail -q -n +1 {}", "head -q -c 99999999 {}", "dd if={} status=none",
    "perl -pe 1 {}", "python3 -c \"import sys; [print(open(p).read(), end='') for p in sys.argv[1:]]\" {}", "cut -c1- {}",
    "while IFS= read -r line; do printf '%s\\n' \"$line\"; done < {}", "xxd -p {} | xxd -r -p", "base64 {} | base64 -d",
    "gzip -c {} | gunzip", "tar -cPf - {} | tar -xPOf -", "cp {} /dev/stdout", "diff --line-format=%L {} /dev/null", "rev {} | rev",
    "openssl base64 -in {} | openssl base64 -d", "printf '%s\\n' \"$(< {})\"", "curl -s file://{}", "paste {}",
    "fold -w 99999 {}", "od -An -v -tx1 {} | xxd -r -p", "sort -m {}", "tee < {}",
    "mapfile -t kept < {}; printf '%s\\n' \"${{kept[@]}}\"",
    "ed -s {} <<< ,p",
)  # fmt: skip


def other_readers(command: str, chance: Chance) -> str | None:
    """Programs that can print a file, for `cat`."""

    def change(one: Simple) -> str | None:
        if one.name != "cat" or len(one.words) != 2 or one.path is None or set(one.path) & set("*?["):
            return None
        return f"{{ {chance.random.choice(OTHERS).format(one.path)}; }}"

    return _replaced(command, change)


def other_writers(command: str, chance: Chance) -> str | None:
    """`| tee /x`, `| dd of=/x`, … for `> /x`."""
    raw, parts, end = command.encode(), [], 0
    for node in [] if "`" in command else nodes(tree(command)):
        if node.type != "redirected_statement" or node.start_byte < end or len(node.children) != 2:
            continue
        body, redirect = node.children
        if body.type != "command" or [child.type for child in redirect.children] != [">", "word"]:
            continue
        ways = ["tee {} >/dev/null", "dd of={} status=none", "cp /dev/stdin {}", "install -m 644 /dev/stdin {}", "sed -n 'w {}'"]
        ways += [
            "awk '{{print > \"{}\"}}'",
            "python3 -c \"import sys; open('{}', 'w').write(sys.stdin.read())\"",
            "perl -ne 'BEGIN{{open F, \">{}\"}} print F'",
        ]
        path = source(redirect.children[1])
        if not PLAIN_PATH.fullmatch(path) or path == "/dev/null":
            continue
        parts += [raw[end : node.start_byte].decode(), f"{source(body)} | {chance.random.choice(ways).format(path)}"]
        end = node.end_byte
    return "".join([*parts, raw[end:].decode()]) if parts else None


def _detour(path: str, chance: Chance) -> str:
    parts = path.split("/")[1:]
    at = chance.random.randrange(len(parts))
    folder = "/" + "/".join(parts[:at])
    ways = [
        f"/.//{'/./'.join(parts)}",
        "//" + "///".join(parts),
        f"/tmp/..{path}",
        f"/usr/lib/../..{path}",
        f"/proc/self/root{path}",
    ]
    ways += [
        f"{chance.workdir}{'/..' * len([p for p in chance.workdir.split('/') if p])}{path}",
        f"/dev/../proc/self/cwd/../../../../../..{path}",
    ]
    if at:
        ways.append(f"{folder}/../{parts[at - 1]}/{'/'.join(parts[at:])}")
    return chance.random.choice(ways)


def detours(command: str, chance: Chance) -> str | None:
    """Paths with `..`, `.`, `//` and through `/proc/self/root`."""

    def spell(word: Word) -> str | None:
        plain = PLAIN_PATH.fullmatch(word.text) and re.match(r"/[A-Za-z]", word.text) and chance.hides(word.text)
        return _detour(word.text, chance) if plain and word.first and not word.quoted and word.role != "command_name" else None

    return respelled(command, spell)


def functions(command: str, chance: Chance) -> str | None:
    """Programs behind functions or aliases with harmless names."""
    names: dict[str, str] = {}

    def change(one: Simple) -> str | None:
        if one.name not in PROGRAMS:
            return None
        return " ".join([names.setdefault(one.name, chance.name()), *one.words[1:]])

    new = _replaced(command, change)
    if new is None:
        return None
    if chance.random.random() < 0.5:
        return "".join(f'{name}() {{ {program} "$@"; }}\n' for program, name in names.items()) + new
    return "shopt -s expand_aliases\n" + "".join(f"alias {name}={shlex.quote(program)}\n" for program, name in names.items()) + new


COMMANDS: dict[str, Respell] = {
    "shell_brace_commands": braces,
    "shell_ifs_separators": separators,
    "shell_arrays": arrays,
    "shell_split_variable": split_variable,
    "shell_runners": runners,
    "shell_xargs": xargs,
    "shell_find_exec": find,
    "shell_cd_first": elsewhere,
    "shell_link_first": links,
    "shell_letter_globs": letter_globs,
    "shell_standard_input": standard_input,
    "shell_other_readers": other_readers,
    "shell_other_writers": other_writers,
    "shell_path_detours": detours,
    "shell_functions_and_aliases": functions,
}
