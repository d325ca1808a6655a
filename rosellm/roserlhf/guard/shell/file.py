"""Files that a command reads or writes: acts on every place they may be, contents that are known, links followed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from rosellm.roserlhf.guard.act import UNKNOWN, Act, ActKind
from rosellm.roserlhf.guard.content.place import process_in
from rosellm.roserlhf.guard.shell.shell import Shell, either, shortened
from rosellm.roserlhf.guard.shell.value import ANYTHING, Value, known, names

_NOWHERE: Final = frozenset(["/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty", "/dev/zero", "/dev/full"])
_STDIN: Final = frozenset(["-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"])
_BORING: Final = re.compile(r"/dev/(?:null|zero|u?random|tty|stdin|stdout|stderr|full|fd/\d+)$")
_SPECIAL: Final = ("/dev/", "/proc/")
_SHEBANG: Final = re.compile(r"#!\s*(?:\S*/)?([\w+-]+)[\d.]*(?:[ \t]+(?:-S[ \t]+)?(?:\S*/)?([A-Za-z+-]+))?")
_INTERPRETERS: Final = {
    "sh": "shell", "bash": "shell", "dash": "shell", "zsh": "shell", "ksh": "shell", "python": "python", "python3": "python",
    "node": "js", "perl": "perl", "ruby": "ruby", "awk": "awk", "php": "php", "lua": "lua",
}  # fmt: skip
_EXTENSIONS: Final = {
    "py": "python",
    "pyi": "python",
    "pyw": "python",
    "sh": "shell",
    "bash": "shell",
    "zsh": "shell",
    "mjs": "js",
    "cjs": "js",
}
_START_UP: Final = frozenset([
    "gitconfig", "gdbinit", "lldbinit", "jq", "rprofile", "renviron", "rspec", "hspec",
    "busted", "pdbrc", "bazelrc", "login", "zprofile", "pam_environment",
])  # fmt: skip
_DATA: Final = names("bin dat raw img iso gz bz2 xz zst zip 7z png jpg jpeg gif bmp ico webp pdf mp3 mp4 wav ttf otf woff woff2")
"""Extensions of data that no program runs or loads as objects."""
_SMALL: Final = 256
"""Characters of data of which it pays to tell whether they are text."""
_IN_A_ROW: Final = re.compile(r"[\t\n\r -~]{12}")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f]")
_CONTENT: Final = 400
_LINES: Final = 64


def act_on(shell: Shell, kind: ActKind, text: str, detail: str, **traits: str) -> None:
    """Note an act on a path, in every directory that this may be."""
    if "\n" in text:
        for line in dict.fromkeys(text.split("\n")[:_LINES]):
            if line:
                act_on(shell, kind, line, detail, **traits)
        return
    _act_on_paths(shell, kind, text, shell.paths(text), detail, traits)


def _act_on_paths(shell: Shell, kind: ActKind, text: str, paths: Value, detail: str, traits: dict[str, str]) -> None:
    """Note an act on each of the paths that a text stands for."""
    if shell.decoded:
        disguise = next((how for payload, how in shell.decoded.items() if len(payload.strip()) > 2 and payload.strip() in text), "")
        if disguise:
            traits["disguised"] = disguise
    if shell.traits:
        traits = {**shell.traits, **traits}
    for path in paths:
        special = path.startswith(_SPECIAL)
        if special and _BORING.match(path):
            continue
        shell.acts.append(Act(kind, path, detail, shell.argument, shell.span, shell.via, traits))
        if special and (found := process_in(path)):
            shell.act("process", found[0], f"{detail} {found[1]}")


def read_path(shell: Shell, text: str, detail: str, **traits: str) -> Value:
    """Note that a path is read; return its content if it is known."""
    if text in _STDIN:
        return shell.stdin if shell.stdin is not None else ANYTHING
    paths = shell.paths(text)
    if "\n" in text:
        act_on(shell, "read", text, detail, **traits)
    else:
        _act_on_paths(shell, "read", text, paths, detail, traits)
    if not shell.state.files and not shell.scene.files:
        return ANYTHING
    if len(paths) == 1:
        content = shell.file(paths[0])
        return (content,) if content is not None else ANYTHING
    found = [shell.file(path) for path in paths]
    return either((one,) if one is not None else ANYTHING for one in found)


def write_path(
    shell: Shell,
    text: str,
    detail: str,
    mode: str,
    content: Value | None = None,
    stream: str = "",
    given: Mapping[str, str] | None = None,
) -> None:
    """Note that a path is written, with what is known of the content; code in it is read as its language."""
    if text in _NOWHERE or text == "-":
        return
    traits = {"mode": mode, **(given or {})}
    if stream == "2":
        traits["stream"] = "stderr"
    elif stream not in ("", "1", "&"):
        traits["stream"] = stream
    written = content[0] if content is not None and content != ANYTHING else None
    if written is not None:
        traits["content"] = shortened(written, _CONTENT)
        traits |= _named(text, written)
    paths = shell.paths(text)
    if "\n" in text:
        act_on(shell, "write", text, detail, **traits)
    else:
        _act_on_paths(shell, "write", text, paths, detail, traits)
    for path in paths:
        if content is None and stream == "2":
            continue
        before = shell.file(path) if mode == "append" else ""
        whole = written if before == "" else (before + written if before is not None and written is not None else written)
        shell.state.set("file", path, whole if whole is not None and len(whole) < 200_000 else None)
        if written is not None and content is not None:
            read_content(shell, path, written, known=known(content))


def _named(path: str, content: str) -> dict[str, str]:
    """Return the places and packages that a file of data names, see `content.naming`."""
    from rosellm.roserlhf.guard.content.naming import named_in

    return named_in(path, content)


def read_content(shell: Shell, path: str, content: str, *, known: bool = True) -> None:
    """Read code that is written to a file as its language; its acts carry the trait `in_file`."""
    language = language_of(path, content)
    if not language or not content.strip() or (not known and content.replace(UNKNOWN, "").strip() == ""):
        return
    if shell.state.get("read", path) == content:
        return
    shell.state.set("read", path, content)
    if language in _DATA and _is_binary(content):
        shell.note_run(content)
        return
    if language == "shell":
        before, shell.traits = shell.traits, {**shell.traits, "in_file": path}
        mark, stdin = shell.state.mark(), shell.stdin
        shell.stdin = None
        shell.state.set("var", "0", (path,))
        try:
            shell.evaluate(content, "file")
        finally:
            shell.state.back(mark)
            shell.traits, shell.stdin = before, stdin
    else:
        shell.read(language if language in ("python", "patch") else path, content, "file", in_file=path)


def _is_binary(content: str) -> bool:
    """Tell of data that are no text that no program can be spelled in them: nowhere are enough letters in a row.

    Example:
        >>> _is_binary("print(1)\\n" * 99), _is_binary("\\0\\x93a" * 99), _is_binary("\\0\\x93a" * 99 + "<?php eval(f());?>")
        (False, True, False)
    """
    return len(content) >= _SMALL and _IN_A_ROW.search(content) is None and len(_CONTROL.findall(content)) * 10 > len(content)


def language_of(path: str, content: str) -> str:
    """Return the language of a file for its reader: by its first line, else by its name; empty if it is plain data."""
    if content.startswith("#!") and (found := _SHEBANG.match(content)):
        name = found[2] if found[1] == "env" and found[2] else found[1]
        if name in _INTERPRETERS:
            return _INTERPRETERS[name]
    name = path.rpartition("/")[2]
    if "/.git/hooks/" in path or "/.husky/" in path:
        return "shell"
    stem, dot, extension = name.rpartition(".")
    if not dot:
        return name.lower() if name in ("Makefile", "makefile", "GNUmakefile", "Dockerfile", "Justfile", "justfile") else ""
    if name in (".bashrc", ".profile", ".bash_profile", ".zshrc", ".bash_aliases", ".envrc", ".zshenv", ".bash_login"):
        return "shell"
    extension = extension.lower()
    return _EXTENSIONS.get(extension, extension if stem or extension in _START_UP or extension.endswith("rc") else "")
