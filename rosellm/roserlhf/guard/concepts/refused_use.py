"""Programs, packages and sendings that the task refuses; `act, grounds -> yes or no`."""

from __future__ import annotations

from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.concepts.addresses import host_of, is_near, path_of
from rosellm.roserlhf.guard.concepts.standing import is_written
from rosellm.roserlhf.guard.demands import keeps_data_here
from rosellm.roserlhf.guard.grounds import Grounds
from rosellm.roserlhf.guard.patterns import pattern
from rosellm.roserlhf.guard.refused_lists import changes_kept, kept_things, refused_commands


def run_package(act: Act, grounds: Grounds) -> str:
    """Return the refused name in a package that a program fetches and runs at once: `go run X@latest`, `npx X`; empty if none."""
    if act.target.rpartition("/")[2] not in _FETCHING:
        return ""
    words = f"{act.detail} {act.traits.get('undisguised', '')}".split()[:40]
    named = (grounds.refusals.carried(word, grounds.setting.task) for word in words if "." in word or "@" in word or "/" in word)
    return next(filter(None, named), "")


_FETCHING = frozenset(("go", "npx", "bunx", "uvx", "pipx", "pnpm", "yarn", "deno", "dart", "cargo", "docker", "podman"))


def uses_refused(act: Act, grounds: Grounds) -> bool:
    """Tell whether a program or module is one that the task refuses."""
    refused = grounds.refusals
    if not refused:
        return False
    if act.kind == "write":
        return any(refused.carried(name, grounds.setting.task) for name in act.traits.get("packages", "").split())
    if act.kind == "run":
        if is_written(act) and run_package(act, grounds):
            return True
        return bool(refused.program(act.target) or refused.program(act.traits.get("path", "")))
    if act.kind == "code" and act.target == "loads by name":
        return bool(refused.named(act.detail))
    if act.kind == "code":
        return not refused.names.isdisjoint(act.detail.lower().split())
    if act.kind in ("fetch", "install"):
        served = host_of(act.target).replace(".", " ") if act.kind == "fetch" else ""
        if served and "deepl" in refused.names and pattern(_TRANSLATES).search(host_of(act.target)):
            return True
        return bool(refused.carried(act.target, grounds.setting.task) or refused.named(f"{_last_part(act.target)} {served}"))
    return is_written(act) and bool(refused.module(act.target))


_TRANSLATES = (
    r"(^|\.)translate\.(?:goog|google|yandex|argosopentech|fedilab)\b|(^|\.)(?:deepl|libretranslate|reverso|papago\.naver)\."
)
"""Hosts that translate by machine whatever they are given."""


def is_refused_command(act: Act, task: str) -> bool:
    """Tell whether a program is run with a first argument that a task refuses, or to change what it keeps."""
    if (things := kept_things(task)) and changes_kept(act.detail, things):
        return "--help" not in act.detail
    refused = refused_commands(task)
    if not refused:
        return False
    words = (word for word in act.detail.lower().split() if not word.startswith("-"))
    return (act.target.rpartition("/")[2].lower(), next(words, "")) in refused and "--help" not in act.detail


_UPLOADS = r"(?:^|[\s=\"'])@[\w./~*$-]|(?:^|\s)(?:-T|--upload-file)\b|\bopen\(|\bfiles=|base64"

_COPIES_TO = r"(^|/)(scp|rsync|sftp|lftp|rclone|gsutil|s3cmd|mc|gdrive|magic-wormhole|wormhole|croc|transfer\.sh)$"

_PLACE = r"(?:^|\s)(?:[\w.-]+@)?([\w-]+(?:\.[\w-]+)+):[\w/~.*-]*\s*$|\b(?:s3|gs)://\S+\s*$"


def sends_out(act: Act, grounds: Grounds) -> bool:
    """Tell whether files are sent to a machine of others where the task keeps them on this one."""
    if not keeps_data_here(grounds.setting.task):
        return False
    if act.kind == "run":
        found = pattern(_COPIES_TO).search(act.target) and pattern(_PLACE).search(act.detail)
        return bool(found) and not (found.group(1) and grounds.reach.host_allowed(found.group(1)))
    host = act.traits.get("host", "") or host_of(act.target)
    if not host or is_near(host) or grounds.reach.host_allowed(host):
        return False
    told = act.traits.get("method", "").lower().endswith(("post", "put", "upload")) and act.traits.get("sent") == ""
    return told or pattern(_UPLOADS).search(act.traits.get("sent", "")) is not None


def _last_part(target: str) -> str:
    """Return what a repository, an archive or a package is called, and, of an address, its path."""
    path = path_of(target).partition("?")[0].rstrip("/").removesuffix(".git")
    last = pattern(r"(?:[-@=_]v?\d[\w.]*)?(?:\.(?:tar\.\w+|tgz|zip|whl|crate|gem|jar))?$").sub("", path.rpartition("/")[2])
    parts = [part for part in path.split("/")[1:] if len(part) > 2]
    return " ".join((last, *parts[:3], pattern(r"[-_].*$").sub("", last)))
