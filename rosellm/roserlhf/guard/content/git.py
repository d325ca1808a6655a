"""A git command -> acts: whose objects it shows, which paths it reads and writes, where it fetches, what it runs.

What matters of a revision is whether it may lead beyond the ancestors of the checkout. Traits of `revision` acts: `scope`, see
`revision.scope_of`, with two more, `dangling` (objects that no ref reaches) and `notes`; `shows`: `content` (diffs, files,
messages) or `names` (refs, hashes, counts); `version` where a tag spells one; `sought`: words looked for in history. A path that
is read out of a revision has the traits `revision` and `scope`; `fetch` acts have `remote` where only a remote's name is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.content.git_call import GitCall
from rosellm.roserlhf.guard.content.git_config import acts_of_setting
from rosellm.roserlhf.guard.content.git_history import (
    of_cat,
    of_everywhere,
    of_grep,
    of_history,
    of_housekeeping,
    of_reflog,
    of_refs,
    of_rev_parse,
    of_stash,
)
from rosellm.roserlhf.guard.content.git_remotes import of_bundle, of_clone, of_fetch, of_remote, of_submodule, of_subtree
from rosellm.roserlhf.guard.content.git_tree import (
    of_apply,
    of_bisect,
    of_checkout,
    of_commit,
    of_config,
    of_filters,
    of_hash,
    of_list,
    of_merge,
    of_ref,
    of_tools,
    of_tree,
    of_worktree,
)
from rosellm.roserlhf.guard.content.git_words import split_line, words_of
from rosellm.roserlhf.guard.content.place import resolve
from rosellm.roserlhf.guard.content.revision import is_path
from rosellm.roserlhf.guard.content.url import is_address
from rosellm.roserlhf.guard.scene import DEEPEST, Scene

MOST_WORDS = 2_000
_REDIRECT = ("GIT_DIR", "GIT_WORK_TREE", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR")
_GLOBAL_WITH_VALUE = frozenset(
    ["-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--super-prefix", "--config-env", "--attr-source"]
)


def acts_of_git_line(line: str, scene: Scene) -> list[Act]:
    """Return the acts of git with its arguments as one line of words, quoted as a shell quotes them."""
    try:
        words = split_line(line[: 50 * MOST_WORDS])
    except ValueError:
        words = line[: 50 * MOST_WORDS].split()
    return acts_of_git(words[1:] if words[:1] == ["git"] else words, scene)


def acts_of_git(args: list[str], scene: Scene) -> list[Act]:
    """Return the acts of git with these arguments (without the word `git`).

    Example:
        >>> from rosellm.roserlhf.guard.readers import read
        >>> [(a.kind, a.target, a.traits.get("scope")) for a in acts_of_git(["show", "origin/main:src/a.py"], Scene("/app", read))]
        [('revision', 'origin/main', 'remote'), ('read', '/app/src/a.py', 'remote')]
    """
    found: list[Act] = []
    rest, here, aliases = _globals(args[:MOST_WORDS], scene, found)
    if len(args) > MOST_WORDS:
        found.append(Act("opaque", "more words than are read", "git"))
    if not rest:
        return found
    command = rest[0]
    if command in aliases and scene.depth < DEEPEST:
        words = aliases[command]
        if not words.startswith("!"):
            found += acts_of_git([*words.split(), *rest[1:]], here.inside())
        return found
    call = GitCall(command, words_of(command, rest[1:]), rest[1:], here)
    found += _HANDLERS.get(command, of_other)(call)
    return found


def _globals(args: list[str], scene: Scene, found: list[Act]) -> tuple[list[str], Scene, dict[str, str]]:
    """Take the options before the subcommand; return the rest, the scene they make and the aliases they define."""
    aliases: dict[str, str] = {}
    start = scene.workdir.rstrip("/")
    found.extend(Act("read", resolve(scene.variables[name], scene), f"git {name}") for name in _REDIRECT if name in scene.variables)
    place = 0
    while place < len(args) and args[place].startswith("-"):
        name, _, value = args[place].partition("=")
        place += 1
        if name in _GLOBAL_WITH_VALUE and not value and place < len(args):
            value = args[place]
            place += 1
        if name == "-c":
            key, _, setting = value.partition("=")
            found += acts_of_setting(key, setting, scene)
            if key.lower().startswith("alias."):
                aliases[key[6:]] = setting
        elif name in ("-C", "--work-tree", "--git-dir", "--exec-path") and value:
            goal = resolve(value, scene)
            if goal != start and not goal.startswith(start + "/"):
                found.append(Act("list" if name in ("-C", "--work-tree") else "read", goal, f"git {name}"))
            if name in ("-C", "--work-tree"):
                scene = replace(scene, workdir=goal)
    return args[place:], scene, aliases


def of_nothing_new(call: GitCall) -> Iterator[Act]:
    """Yield nothing: the command deals with the agent's own tree only."""
    yield from ()


def of_other(call: GitCall) -> Iterator[Act]:
    """Yield what a command that is not known here may do: its words as revisions, addresses and paths."""
    yield call.act("run", f"git-{call.command}", " ".join(call.args))
    for word in call.words.plain:
        if is_address(word):
            yield from call.remote(word)
        elif is_path(word):
            yield call.path("read", word)


_Handler = Callable[[GitCall], Iterator[Act]]
_NAMES: dict[_Handler, str] = {
    of_history: "log show diff rev-list shortlog whatchanged format-patch range-diff diff-tree diff-index cherry "
    "blame annotate request-pull fast-export",
    of_cat: "cat-file ls-tree archive describe merge-base read-tree merge-tree tar-tree get-tar-commit-id",
    of_checkout: "checkout switch restore reset checkout-index",
    of_refs: "branch tag show-ref for-each-ref show-branch name-rev",
    of_everywhere: "unpack-objects verify-pack show-index index-pack pack-objects notes replace repack unpack-file",
    of_housekeeping: "fsck prune gc prune-packed lost-found count-objects",
    of_fetch: "fetch pull ls-remote fetch-pack push send-pack http-fetch",
    of_merge: "merge rebase cherry-pick revert",
    of_apply: "apply am",
    of_tree: "mv rm clean update-index",
    of_tools: "difftool mergetool",
    of_ref: "update-ref symbolic-ref",
    of_nothing_new: "add status init diff-files help version var stripspace maintenance rerere check-ignore",
    of_grep: "grep",
    of_rev_parse: "rev-parse",
    of_reflog: "reflog",
    of_stash: "stash",
    of_clone: "clone",
    of_remote: "remote",
    of_submodule: "submodule",
    of_commit: "commit",
    of_list: "ls-files",
    of_config: "config",
    of_worktree: "worktree",
    of_bundle: "bundle",
    of_bisect: "bisect",
    of_filters: "filter-branch",
    of_hash: "hash-object",
    of_subtree: "subtree",
}
_HANDLERS = {name: handler for handler, names in _NAMES.items() for name in names.split()}
