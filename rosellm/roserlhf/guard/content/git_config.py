"""A git configuration key and its value -> acts: hooks, aliases, filters and pagers run commands; some keys redirect remotes."""

from __future__ import annotations

from collections.abc import Iterator

from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.content.place import resolve
from rosellm.roserlhf.guard.patterns import pattern
from rosellm.roserlhf.guard.scene import Scene

_RUNS = (
    r"^(?:core\.(?:pager|editor|fsmonitor|sshcommand|askpass|gitproxy|alternaterefscommand)|sequence\.editor|diff\.external|"
    r"gpg\.program"
    r"|diff\..*\.(?:textconv|command)|filter\..*\.(?:clean|smudge|process)|merge\..*\.driver|(?:difftool|"
    r"mergetool)\..*\.cmd|pager\..*"
    r"|interactive\.difffilter|credential\.(?:.*\.)?helper|uploadpack\.packobjectshook|hook\..*\.command|"
    r"trailer\..*\.(?:command|cmd)"
    r"|remote\..*\.(?:uploadpack|receivepack)|browser\..*\.cmd|web\.browser|gpg\..*\.program|sendemail\..*|ssh\.variant)$"
)
_FETCHES = (
    r"^(?:remote\..*\.(?:url|pushurl|fetch)|url\..*\.(?:insteadof|pushinsteadof)|submodule\..*\.url|http\.proxy|remote\..*\.proxy)$"
)
_HOOKS = ("core.hookspath", "init.templatedir", "core.worktree", "core.attributesfile", "include.path", "core.gitdir")


def acts_of_setting(key: str, value: str, scene: Scene) -> Iterator[Act]:
    """Yield what a key with this value brings about."""
    name = key.lower()
    if name in _HOOKS or name.startswith("includeif."):
        if name != "core.hookspath" or value not in ("", "/dev/null", "false"):  # no hooks run then
            yield Act("define", key, resolve(value, scene) if value else "")
    elif name.startswith("alias."):
        if value.startswith("!"):
            yield from scene.read("shell", value[1:], scene.inside())
        elif value:
            yield from scene.read("git", value, scene.inside())
    elif pattern(_RUNS).search(name):
        yield Act("define", key, value)
        if value and not value.startswith(("cache", "store", "true", "false")):
            yield from scene.read("shell", value.lstrip("!"), scene.inside())
    elif pattern(_FETCHES).search(name):
        for url in (value, key.partition(".")[2].rpartition(".")[0]):
            if ":" in url or "/" in url:
                yield from scene.read("url", url.lstrip("+"), scene.inside())
