"""Git commands that speak to other repositories."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.content.git_call import GitCall
from rosellm.roserlhf.guard.content.git_config import acts_of_setting
from rosellm.roserlhf.guard.content.git_history import of_history
from rosellm.roserlhf.guard.content.place import resolve
from rosellm.roserlhf.guard.content.url import is_address


def of_fetch(call: GitCall) -> Iterator[Act]:
    """Yield what comes from, or goes to, another repository."""
    words = call.words
    if call.command == "ls-remote" and words.has("--get-url"):
        return
    yield from call.shell(words.value("--upload-pack", "--exec", "-u", "--receive-pack"))
    plain = words.plain
    for name in plain[:1] if not words.has("--multiple") else plain:
        yield from call.remote(name)
    if not plain:
        yield from call.remote("*" if words.has("--all") else "origin")
    if call.command in ("push", "send-pack"):
        return
    shows = "names" if call.command == "ls-remote" else "content"
    for spec in plain[1:] or ["*"]:
        source = spec.lstrip("+").partition(":")[0]
        yield call.revision(source, "remote", shows)


def of_clone(call: GitCall) -> Iterator[Act]:
    """Yield the acts of `git clone`."""
    words = call.words
    yield from call.shell(words.value("--upload-pack", "-u"))
    for value in words.values("-c", "--config"):
        yield from acts_of_setting(value.partition("=")[0], value.partition("=")[2], call.scene)
    for value in words.values("--reference", "--reference-if-able", "--template"):
        yield call.path("read", value)
    if not words.plain:
        return
    source = words.plain[0]
    if is_address(source) and not source.startswith("file:"):
        yield from call.remote(source)
    else:
        yield call.path("read", source.removeprefix("file://"))
    local = "" if is_address(source) and not source.startswith("file:") else resolve(source.removeprefix("file://"), call.scene)
    yield call.revision(words.value("-b", "--branch", "--revision") or "*", "remote", **{"from": local})
    if len(words.plain) > 1:
        yield call.path("write", words.plain[1])


def of_remote(call: GitCall) -> Iterator[Act]:
    """Yield the acts of `git remote`."""
    verb, *rest = call.words.plain or ("",)
    if verb in ("add", "set-url"):
        for word in rest:
            if is_address(word):
                yield from call.remote(word)
        if call.words.has("-f"):
            yield call.revision("*", "remote")
    elif verb in ("update", "show"):
        yield from call.remote(rest[0] if rest else "*")
        yield call.revision("*", "remote", "names")
    elif verb == "set-branches":
        yield call.revision("*", "remote", "names")


def of_submodule(call: GitCall) -> Iterator[Act]:
    """Yield the acts of `git submodule`."""
    verb, *rest = call.words.plain or ("",)
    if verb == "foreach":
        yield from call.shell(" ".join(rest))
    elif verb in ("add", "set-url"):
        for word in rest:
            if is_address(word):
                yield from call.remote(word)
    elif verb in ("update", "init", "sync") and (verb == "update"):
        yield from call.remote("submodules")


def of_subtree(call: GitCall) -> Iterator[Act]:
    """Yield the acts of `git subtree`."""
    for word in call.words.plain[1:]:
        if is_address(word):
            yield from call.remote(word)
        else:
            yield call.revision(word, "", "content")


def of_bundle(call: GitCall) -> Iterator[Act]:
    """Yield the acts of `git bundle`."""
    verb, *rest = call.words.plain or ("",)
    for path in rest[:1]:
        yield call.path("write" if verb == "create" else "read", path)
    if verb == "create":
        yield from of_history(replace(call, words=replace(call.words, plain=tuple(rest[1:]))))
    else:
        yield call.revision("*", "remote", "content" if verb == "unbundle" else "names")
