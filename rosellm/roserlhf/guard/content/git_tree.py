"""Git commands that change the working tree, refs or configuration, or run programs over them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace

from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.content.git_call import GitCall
from rosellm.roserlhf.guard.content.git_config import acts_of_setting
from rosellm.roserlhf.guard.content.git_history import of_history, shown


def of_checkout(call: GitCall) -> Iterator[Act]:
    """Yield what checkout, switch, restore and reset bring into the working tree."""
    words = call.words
    source = words.value("-s", "--source")
    new = words.has("-b", "-B", "-c", "-C", "--orphan", "--create", "--force-create")
    if words.has("--recurse-submodules"):
        yield from call.remote("submodules")
    if call.command == "restore":
        revisions, paths = [source] if source else [], [*words.plain, *words.paths]
    else:
        revisions, paths = call.divided()
        if len(revisions) > 1 and not words.divided:
            revisions, paths = revisions[:1], revisions[1:] + paths
    if revisions == ["-"]:
        revisions = ["@{-1}"]
    for expression in revisions[:1] if not words.has("--detach") else revisions:
        yield from shown(call, expression)
    from_index = not revisions and not new
    told = revisions[0] if revisions else ("HEAD" if from_index else "")
    for path in paths:
        if call.command != "reset":
            yield call.path("read", path, told)
            yield call.path("write", path, told)


def of_commit(call: GitCall) -> Iterator[Act]:
    """Yield the acts of `git commit`."""
    yield from call.messages()
    for value in call.words.values("-C", "-c", "--reuse-message", "--reedit-message"):
        yield call.revision(value, "", "names")


def of_merge(call: GitCall) -> Iterator[Act]:
    """Yield what merge, rebase, cherry-pick and revert take over."""
    for value in call.words.values("-x", "--exec"):
        yield from call.shell(value)
    for expression in (*call.words.plain, *call.words.values("--onto")):
        yield from shown(call, expression)
    if call.command != "rebase":
        yield from call.messages() if call.command == "merge" else ()


def of_apply(call: GitCall) -> Iterator[Act]:
    """Yield the patches that are applied, and their contents where they are known."""
    for path in (*call.words.plain, *call.words.paths):
        act = call.path("read", path)
        yield act
        if act.target in call.scene.files:
            yield from call.scene.read("patch", call.scene.files[act.target], call.scene.inside())
    for value in call.words.values("--directory"):
        yield call.path("write", value)


def of_tree(call: GitCall) -> Iterator[Act]:
    """Yield what is moved, removed or marked in the working tree and the index."""
    words = call.words
    paths = [*words.plain, *words.paths]
    if call.command == "mv":
        for path in paths[:-1]:
            yield call.path("delete", path)
        for path in paths[-1:]:
            yield call.path("write", path)
    elif call.command == "update-index":
        if words.has("--assume-unchanged", "--skip-worktree", "--cacheinfo", "--force-remove", "--index-info"):
            yield from (call.path("write", path.rpartition(",")[2]) for path in paths)
    elif call.command == "clean":
        if not words.has("-n", "--dry-run"):
            yield from (call.path("delete", path) for path in paths)
    else:
        cached = "yes" if words.has("--cached") else ""
        yield from (
            replace(act, traits={"cached": cached} if cached else {}) for act in (call.path("delete", path) for path in paths)
        )


def of_list(call: GitCall) -> Iterator[Act]:
    """Yield the acts of `git list`."""
    yield from (call.path("list", path) for path in (*call.words.plain, *call.words.paths))


def of_config(call: GitCall) -> Iterator[Act]:
    """Yield the acts of `git config`."""
    words = call.words
    plain = [word for word in words.plain if word not in ("set", "get", "list", "unset", "edit")]
    for value in words.values("-f", "--file"):
        yield call.path("write" if len(plain) > 1 else "read", value)
    if words.has("--global", "--system") and len(plain) > 1:
        yield call.path("write", "~/.gitconfig" if words.has("--global") else "/etc/gitconfig")
    if len(plain) > 1:
        yield from acts_of_setting(plain[0], plain[1], call.scene)


def of_worktree(call: GitCall) -> Iterator[Act]:
    """Yield the acts of `git worktree`."""
    verb, *rest = call.words.plain or ("",)
    if verb == "add":
        yield from (call.path("write", path) for path in rest[:1])
        for expression in rest[1:2]:
            yield from shown(call, expression)


def of_bisect(call: GitCall) -> Iterator[Act]:
    """Yield the acts of `git bisect`."""
    verb, *rest = call.words.plain or ("",)
    if verb == "run":
        yield from call.shell(shlex.join(call.args[call.args.index("run") + 1 :]))
    elif verb in ("start", "good", "bad", "new", "old", "skip"):
        for expression in rest:
            yield from shown(call, expression)


def of_filters(call: GitCall) -> Iterator[Act]:
    """Yield the acts of `git filters`."""
    for name, value in call.words.options:
        if name.endswith(("-filter", "--setup")):
            yield from call.shell(value)
    yield from of_history(call)


def of_tools(call: GitCall) -> Iterator[Act]:
    """Yield the acts of `git tools`."""
    yield from call.shell(call.words.value("-x", "--extcmd"))
    yield from of_history(call)


def of_ref(call: GitCall) -> Iterator[Act]:
    """Yield the acts of `git ref`."""
    for word in call.words.plain[1:2]:
        yield from shown(call, word)


def of_hash(call: GitCall) -> Iterator[Act]:
    """Yield the acts of `git hash`."""
    yield from (call.path("read", path) for path in (*call.words.plain, *call.words.paths))
