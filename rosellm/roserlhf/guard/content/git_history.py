"""Git commands that show objects: history, trees, refs, packs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rosellm.roserlhf.guard.act import Act, ActKind
from rosellm.roserlhf.guard.content.git_call import LONGEST_DETAIL, WIDE, GitCall
from rosellm.roserlhf.guard.content.revision import ends_of, is_path, scope_of

_ANYWHERE = ("version", "name", "object")


def of_history(call: GitCall) -> Iterator[Act]:
    """Yield what commands show that walk through commits or compare trees."""
    words = call.words
    if call.command == "diff" and (words.has("--no-index")):
        yield from (call.path("read", path) for path in (*words.plain, *words.paths))
        return
    yield from output(call)
    quiet = (
        words.has("--count", "--quiet") or call.command == "shortlog" or (call.command == "rev-list" and not words.has("--objects"))
    )
    shows = "names" if quiet else "content"
    sought = words.value("-S", "-G", "--grep", "--find-object", "--author")
    revisions, paths = call.divided()
    for name, value in words.options:
        if WIDE.get(name):
            patch = "yes" if words.has("-p", "-u", "--patch", "-U", "-L") else ""
            yield call.revision(f"{name}={value}" if value else "*", WIDE[name], shows, sought, patch=patch)
    beyond = _is_beyond(call, revisions)
    for expression in revisions:
        yield from shown(call, expression, shows, sought, beyond=beyond)
    if not revisions and not any(WIDE.get(name) for name, _ in words.options):
        yield call.revision("HEAD", "ancestors", shows, sought)
    told = next((end for one in revisions for end in ends_of(one)), "HEAD")
    if shows == "content" and (call.command != "log" or words.has("-p", "-u", "--patch", "-S", "-G", "-L", "-U", "--follow")):
        yield from (call.path("read", path, told) for path in paths)
    for value in words.values("-L"):
        if ":" in value:
            yield call.path("read", value.rpartition(":")[2], told)


def _is_beyond(call: GitCall, revisions: list[str]) -> bool:
    """Say whether revisions are asked for what they have more than the checkout: `x ^HEAD`, `x --not HEAD`, `diff HEAD x`."""
    bare = [one.lstrip("^") for one in revisions]
    if "--not" in call.args or any(one in ("^HEAD", "^@") for one in revisions):
        return any(scope_of(one) == "ancestors" for one in bare)
    return call.command in ("diff", "difftool", "diff-tree") and len(bare) > 1 and bare[0] in ("HEAD", "@")


def shown(call: GitCall, expression: str, shows: str = "content", sought: str = "", *, beyond: bool = False) -> Iterator[Act]:
    """Yield the revisions of an expression, and the path that it names inside one.

    Those that are asked for what they have more than the checkout have the trait `beyond`.
    """
    first = ""
    for end in ends_of(expression):
        ahead = beyond or (first != "" and scope_of(first) == "ancestors")
        first = first or end
        name, colon, path = end.partition(":")
        if end.startswith((":/", ":")) or "^{/" in end:
            name, colon, path = (
                (end, "", "") if end.startswith((":/", "HEAD^{/")) or "^{/" in end else ("HEAD", ":", end.rpartition(":")[2])
            )
        yield call.revision(name, "", shows, sought, beyond="yes" if ahead and scope_of(name) in _ANYWHERE else "")
        if colon and path:
            yield call.path("read", path, name)


def output(call: GitCall) -> Iterator[Act]:
    """Yield the acts of `git put`."""
    for value in call.words.values("--output", "-o", "--output-directory"):
        yield call.path("write", value)
    for value in call.words.values("--contents", "--ignore-revs-file"):
        yield call.path("read", value)


def of_cat(call: GitCall) -> Iterator[Act]:
    """Yield what `cat-file`, `ls-tree`, `archive` and the like show of single objects."""
    yield from output(call)
    for name, value in call.words.options:
        if WIDE.get(name) and (call.command, name) != ("describe", "--tags"):  # this only gives a commit a name
            yield call.revision(value or "*", WIDE[name])
    for value in call.words.values("--remote"):
        yield from call.remote(value)
    words = [word for word in call.words.plain if word not in ("blob", "tree", "commit", "tag", "-p")]
    if words:
        yield from shown(
            call, words[0], "names" if call.command in ("ls-tree", "describe", "name-rev", "merge-base") else "content"
        )
    kind: ActKind = "list" if call.command == "ls-tree" else "read"
    for path in (*words[1:], *call.words.paths) if call.command in ("archive", "ls-tree") else ():
        yield call.path(kind, path, words[0])
    for word in words[1:] if call.command not in ("archive", "ls-tree") else ():
        yield from shown(call, word, "names" if call.command in ("merge-base", "name-rev", "describe") else "content")


def of_grep(call: GitCall) -> Iterator[Act]:
    """Yield what `git grep` searches."""
    words = call.words
    sought = words.value("-e")
    plain = list(words.plain)
    if not sought and plain:
        sought = plain.pop(0)
    paths = list(words.paths)
    for value in words.values("-f"):
        yield call.path("read", value)
    revisions = [] if words.has("--no-index") else [word for word in plain if not is_path(word)]
    paths += [word for word in plain if word not in revisions]
    for expression in revisions:
        yield call.revision(expression, "", "content", sought)
    for path in paths or ["."]:
        act = call.path("read", path, revisions[0] if revisions else "")
        yield replace(act, traits={**act.traits, "sought": sought[:LONGEST_DETAIL]})
    for value in words.values("-O", "--open-files-in-pager"):
        yield from call.shell(value)


def of_refs(call: GitCall) -> Iterator[Act]:
    """Yield what lists of refs tell: names and hashes of what may lie ahead."""
    words = call.words
    wide = {"branch": "name", "tag": "version", "show-ref": "all", "for-each-ref": "all", "show-branch": "name", "name-rev": "all"}
    if call.command == "branch":
        if words.has("-a", "--all", "-r", "--remotes"):
            yield call.revision("*", "remote" if words.has("-r", "--remotes") else "all", "names")
        elif words.has("--contains", "--no-merged", "--merged", "--list", "-l", "-v", "-vv", "--show-current") or not words.plain:
            yield call.revision("*", "name" if not words.has("--show-current") else "ancestors", "names")
        if len(words.plain) > 1 and not words.has("-m", "-M", "-d", "-D", "--list", "-l"):
            yield from shown(call, words.plain[1])
        return
    if call.command == "tag":
        if not words.plain or words.has("-l", "--list", "--contains", "-n", "--sort", "--points-at", "--no-merged", "--merged"):
            yield call.revision("*", "version", "names")
        elif words.has("-v", "--verify"):
            yield from (call.revision(word) for word in words.plain)
        elif len(words.plain) > 1 and not words.has("-d"):
            yield from shown(call, words.plain[1])
        yield from call.messages()
        return
    yield call.revision(
        "*",
        wide.get(call.command, "all"),
        "content" if words.has("--format") and "contents" in words.value("--format") else "names",
    )
    for word in words.plain:
        if call.command == "show-branch":
            yield from shown(call, word)


def of_rev_parse(call: GitCall) -> Iterator[Act]:
    """Yield the acts of `git rev-parse`."""
    for name, value in call.words.options:
        if WIDE.get(name):
            yield call.revision(value or "*", WIDE[name], "names")
    for word in call.words.plain:
        yield from shown(call, word, "names")


def of_reflog(call: GitCall) -> Iterator[Act]:
    """Yield the acts of `git reflog`."""
    if call.words.plain[:1] not in (("delete",), ("expire",), ("drop",)):
        yield call.revision("*", "reflog", "content" if call.words.has("-p", "--patch", "-S", "-G") else "names")


def of_stash(call: GitCall) -> Iterator[Act]:
    """Yield the acts of `git stash`."""
    verb = call.words.plain[0] if call.words.plain else "push"
    if verb in ("push", "save", "create", "store", "clear", "drop"):
        yield from (call.path("write", path) for path in (*call.words.plain[1:], *call.words.paths) if verb == "push")
        return
    named = call.words.plain[1] if len(call.words.plain) > 1 else "stash@{0}"
    act = call.revision("*" if verb == "list" else named, "stash", "names" if verb == "list" else "content")
    yield replace(act, detail=f"{act.detail} {verb}")
    if verb == "show":
        yield from (call.path("read", path, named) for path in call.words.paths)


def of_everywhere(call: GitCall) -> Iterator[Act]:
    """Yield the reading of objects whatever refs say: packs, loose objects, objects that nothing reaches."""
    scope = "dangling" if call.command in ("fsck", "prune", "gc", "prune-packed", "lost-found") else "all"
    shows = "content" if call.command in ("unpack-objects", "fast-export", "pack-objects", "index-pack", "replace") else "names"
    yield call.revision("*", "notes" if call.command == "notes" else scope, shows)
    if call.command in ("verify-pack", "show-index", "index-pack", "unpack-file", "multi-pack-index"):
        yield from (call.path("read", path) for path in (*call.words.plain, *call.words.paths) if "/" in path)


def of_housekeeping(call: GitCall) -> Iterator[Act]:
    """Yield the acts of `git housekeeping`."""
    if call.command == "fsck" or call.words.has("--no-prune", "-n", "--dry-run", "-v", "--verbose"):
        yield from of_everywhere(call)
