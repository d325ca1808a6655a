"""The door: a command and its scene -> acts; never raises for what the command says."""

from __future__ import annotations

from typing import Final

from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.scene import Scene
from rosellm.roserlhf.guard.shell import (
    archives,
    awk,
    builtins,
    databases,
    editors,
    filters,
    interpreters,
    manifests,
    network,
    packages,
    patches,
    processes,
    searching,
    transfer,
)
from rosellm.roserlhf.guard.shell.command import READERS
from rosellm.roserlhf.guard.shell.rescue import words_of
from rosellm.roserlhf.guard.shell.shell import Shell
from rosellm.roserlhf.guard.shell.statements import execute
from rosellm.roserlhf.guard.shell.syntax import parse

LONGEST: Final = 200_000
"""Characters that are read as shell; of what stands behind, only the words."""

for _module in (
    archives,
    awk,
    builtins,
    databases,
    editors,
    filters,
    interpreters,
    manifests,
    network,
    packages,
    patches,
    processes,
    searching,
    transfer,
):
    READERS.update(_module.READERS)


def acts_of_shell(command: str, scene: Scene) -> list[Act]:
    """Read a shell command: what it would do.

    Assumes bash. Values that only running would tell stand as `UNKNOWN`; a variable that is not known is one. Where a branch is not
    decided, both are read; a target that may be one of several gives one act each.

    Traits of acts:
        recursive: `yes`: goes down into directories. excludes, includes: patterns that are left out, or that alone are taken.
        unknown_program: `yes`: no table knows the program; the path is an argument of it. unknown_option: the option is not known.
        mode: how a file is written: `truncate`, `append`, `in place`, `attributes`, `touch`, `directory`.
        content: what is written, shortened. source: what a written file is made of. script: what edits it in place.
        stdin: `yes`: through a redirection or pipe. stream: the descriptor, if it is not standard output. run: `yes`: run, too.
        in_file: path of a file whose code says so. in_function: function that is defined, not called, in this command.
        awaited: `yes`: a later part of the command waits for what is put into the background, or ends it.
        hides: the command whose failure an `exit` act hides. disguised: how the path was hidden. path: resolved path of a program.
        interpreter: what runs a script. version, host, program, archive: of packages, addresses, links, unpacked files.

    Args:
        command: any text.
        scene: where it would run.

    Returns:
        acts in the order of the text; `via` starts with `shell`.

    Raises:
        MissingExtraError: tree-sitter or re2 is not installed.

    Example:
        >>> from rosellm.roserlhf.guard.scene import Scene
        >>> scene = Scene("/app", read=lambda language, code, scene: [])
        >>> [(act.kind, act.target, act.detail) for act in acts_of_shell("cd .. && x=tests; cat /$x/out* > a", scene)]
        [('list', '/', 'cd'), ('run', 'cat', '/tests/out*'), ('read', '/tests/out*', 'cat'), ('write', '/a', 'cat')]
    """
    command = command.encode("utf-8", "replace").decode()
    shell = Shell(scene, execute)
    source = parse(command[:LONGEST])
    shell.span = (0, len(command))
    if source is None:
        shell.act("opaque", "nested too deeply")
        words_of(shell, command)
        return shell.acts
    shell.source = source
    try:
        execute(shell, source.root)
        _end(shell)
    except RecursionError:
        shell.act("opaque", "nested too deeply")
        words_of(shell, command[:LONGEST])
    if len(command) > LONGEST:
        shell.act("opaque", "too long")
        words_of(shell, command[LONGEST:])
    return shell.acts


def _end(shell: Shell) -> None:
    """Read the traps of the command's end with what is known then; what they were seen to do is not noted again."""
    for code in shell.endings[:20]:
        before = len(shell.acts)
        shell.evaluate(code, "trap")
        known = {(act.kind, act.target, act.detail) for act in shell.acts[:before]}
        shell.acts[before:] = [act for act in shell.acts[before:] if (act.kind, act.target, act.detail) not in known]
