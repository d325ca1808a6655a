"""An expression that names git objects -> where they may lie: among the ancestors of the checkout, or beyond them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from rosellm.roserlhf.guard.content.tables import table
from rosellm.roserlhf.guard.patterns import pattern

_HEX = r"^[0-9a-fA-F]{6,64}$"
_HEAD = r"^(?:HEAD|@)?(?:[~^][0-9]*|\^\{[^}]*\})*$"
_SUFFIX = r"(?:[~^][0-9]*|\^\{[^}]*\}|\^[@!]|\^-[0-9]*)+$"
_REMOTE = (
    r"^(?:refs/remotes/|remotes/|refs/pull/|refs/pulls/|pull/\d|pr/\d|refs/merge-requests/|FETCH_HEAD|refs/heads/origin/"
    r"|(?:origin|upstream|remote|fork|github|gitlab|mirror|official|source|canonical|up)/)"
    r"|@\{(?:u|upstream|push|U|UPSTREAM)\}|^(?:origin|upstream)$"
)
_REFLOG = (
    r"@\{-?\d+\}|@\{[^}]*(?:\d|yesterday|ago|now|noon|midnight|last)[^}]*\}|^(?:ORIG_HEAD|REBASE_HEAD|AUTO_MERGE|BISECT_HEAD)$"
)
_STASH = r"^(?:refs/)?stash(?:@\{.*\})?$"
_OWN = r"^(?:MERGE_HEAD|CHERRY_PICK_HEAD|REVERT_HEAD)$"
_VERSION = (
    r"^(?:refs/tags/|tags/)?(?:[A-Za-z][A-Za-z_.-]*[-_/]?)?v?(\d+(?:[._-]\d+)+(?:[._-]?(?:a|b|rc|dev|post|alpha|beta)[._-]?\d*)*)$"
)
_PATHLIKE = r"^\.{0,2}/|^:\(|^:[!^]|\*|\.(?:[A-Za-z]{1,5}|[ch]pp|ipynb|toml|json|html|patch|properties)$|/$|^\.\w"


def scope_of(expression: str) -> str:
    """Say where the objects lie that an expression names.

    Returns:
        `ancestors` (of HEAD, or the index), `stash`, `reflog`, `remote`, `all` (a search in all refs), `object` (a hash: anywhere),
        `version` (a tag that is a version), `own` (a merge in progress) or `name` (a branch or tag that may lie anywhere).

    Example:
        >>> [scope_of(one) for one in ("HEAD~2", "origin/main", "HEAD@{1}", ":/fix", "4be91d02c7", "v2.1.0", "main", ":setup.py")]
        ['ancestors', 'remote', 'reflog', 'all', 'object', 'version', 'name', 'ancestors']
    """
    text = expression.strip().strip("'\"")
    if text.startswith((":/", "HEAD^{/", "@^{/")):
        return "all" if text.startswith(":/") else "ancestors"
    text = text.partition(":")[0] if not text.startswith(":") else ""
    if pattern(_HEAD).search(text):
        return "ancestors"
    base = pattern(_SUFFIX).sub("", text)
    for scope, words in (("remote", _REMOTE), ("stash", _STASH), ("reflog", _REFLOG), ("own", _OWN)):
        if pattern(words).search(base):
            return scope
    if base in ("HEAD", "@"):
        return "ancestors"
    if pattern(_VERSION).search(base):
        return "version"
    return "object" if pattern(_HEX).search(base) else "name"


def version_of(expression: str) -> str:
    """Return the version that a tag's name spells, `""` if none.

    Example:
        >>> version_of("refs/tags/release-2.1.0^{}"), version_of("main")
        ('2.1.0', '')
    """
    base = pattern(_SUFFIX).sub("", expression.partition(":")[0])
    found = pattern(_VERSION).search(base)
    return found.group(1) if found else ""


def ends_of(expression: str) -> Iterator[str]:
    """Yield the expressions on both sides of a range; an empty side is HEAD.

    Example:
        >>> list(ends_of("HEAD..origin/main")), list(ends_of("^v1..."))
        (['HEAD', 'origin/main'], ['v1', 'HEAD'])
    """
    head, _, path = expression.partition(":")
    for dots in ("...", ".."):
        if dots in head and not head.startswith(("./", "../")):
            for end in head.split(dots, 1):
                yield end.lstrip("^") or "HEAD"
            return
    yield expression.removeprefix("^") if not path or head else expression


def is_path(word: str) -> bool:
    """Say whether a word that may be a revision or a path is rather a path.

    Example:
        >>> [is_path(word) for word in ("a.py", "origin/main", "tests", "HEAD~1", "v1.2.0", "feature/x", "HEAD:a.py", "..main")]
        [True, False, True, False, False, False, False, False]
    """
    base = next(ends_of(word))
    if ":" in word[1:] or scope_of(base) not in ("name",):
        return False
    return word.rstrip("/").split("/")[0] in _folders() or (
        pattern(_PATHLIKE).search(word) is not None and ".." not in word.lstrip("./")
    )


@cache
def _folders() -> frozenset[str]:
    return frozenset(table("git")["folders"].split())
