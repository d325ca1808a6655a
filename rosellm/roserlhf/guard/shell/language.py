"""Code and scripts of any language that a program runs, and programs of which nothing is known."""

from __future__ import annotations

from typing import Final

from rosellm.roserlhf.guard.act import UNKNOWN
from rosellm.roserlhf.guard.shell.file import act_on, language_of, read_content
from rosellm.roserlhf.guard.shell.packed import unpacked
from rosellm.roserlhf.guard.shell.path import looks_like_path
from rosellm.roserlhf.guard.shell.shell import Shell
from rosellm.roserlhf.guard.shell.value import ANYTHING, NOTHING, Value, joined

_PACKING: Final = frozenset(["perl", "ruby", "php", "js"])
_LITERAL: Final = 4_000
"""Characters of a literal that the readers of these languages take; a longer one that was packed is read as a command."""


def unknown_program(shell: Shell, called: str, arguments: list[str]) -> Value:
    """Read a program that no table knows: whatever looks like a path may be read by it."""
    for argument in arguments:
        option, equals, value = argument.partition("=")
        text = value if equals and option.lstrip("-").replace("-", "").replace("_", "").isalnum() else argument
        text = text.removeprefix("@")
        if "://" in text:
            shell.read("url", text)
        elif looks_like_path(text):
            act_on(shell, "read", text, called, unknown_program="yes")
    return ANYTHING


def run_file(shell: Shell, path: str, content: str, arguments: list[str], language: str = "") -> Value:
    """Read a file that was written before and is run now."""
    language = language or language_of(path, content) or "shell"
    if language != "shell":
        read_content(shell, path, content)
        return ANYTHING
    return run_shell(shell, content, arguments, "file", called=path)


def run_shell(shell: Shell, code: str, arguments: list[str], *disguise: str, new: bool = True, called: str = "bash") -> Value:
    """Read shell code with its own arguments, in a new shell or in this one."""
    before, name = shell.state.get("args", ""), shell.state.get("var", "0", ("bash",))
    shell.state.set("args", "", [(one,) for one in arguments])
    shell.state.set("var", "0", (called,))
    try:
        return shell.evaluate(code, *disguise, new=new)
    finally:
        shell.state.set("args", "", before or [])
        shell.state.set("var", "0", name)


def script(shell: Shell, name: str, words: list[str], language: str) -> Value:
    """Read a script that an interpreter runs, with its arguments."""
    path = shell.path(words[0])
    shell.act("run", words[0], " ".join(words[1:])[:600], path=path, interpreter=name)
    content = shell.file(path)
    if content is None:
        if path.startswith("/dev/fd/"):
            shell.act("opaque", f"{name} runs what a substitution prints")
        for word in words[1:]:
            unknown_program(shell, name, [word])
        return ANYTHING
    if language == "shell":
        return run_file(shell, path, content, words[1:], "shell" if language_of(path, content) != "python" else "")
    shell.read(language, content, *(shell.disguise_of(content) or ("file",)), in_file=path)
    return ANYTHING


def code_from_stdin(shell: Shell, name: str, language: str) -> Value:
    """Read code that an interpreter takes from its standard input."""
    printed: list[Value] = []
    for code in shell.stdin or ():
        if UNKNOWN in code and not code.replace(UNKNOWN, "").strip():
            shell.act("opaque", f"{name} runs what comes through a pipe")
            return ANYTHING
        printed.append(printed_by(shell, language, code, *shell.disguise_of(code)))
    return joined(printed or [NOTHING])


def printed_by(shell: Shell, language: str, code: str, *disguise: str) -> Value:
    """Read code of another language; return what it prints: `text` acts of `print`, else payloads that it decodes."""
    texts: list[str] = []
    if language in _PACKING:
        folded = unpacked(code)
        code, texts = folded.code, folded.printed
        for how, hidden in folded.hidden:
            shell.note_decoded(how, hidden)
            if len(hidden) > _LITERAL:
                shell.evaluate(hidden, how, new=True)
    found = shell.read(language, code, *disguise)
    texts = texts or [act.target for act in found if act.kind == "text" and act.detail == "print"]
    if not texts and any(word in code for word in ("print", "write", "puts", "echo", "say", "console.log")):
        texts = [act.target for act in found if act.kind == "decode" and act.detail != "respelled"]
    return ("\n".join(texts) + "\n",) if texts else ANYTHING
