"""What has to do with the project under work itself: copies, packages, addresses; `act or path, grounds -> yes or no`."""

from __future__ import annotations

import posixpath

from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.concepts.addresses import path_of
from rosellm.roserlhf.guard.concepts.locations import in_workdir, is_scratch
from rosellm.roserlhf.guard.grounds import Grounds
from rosellm.roserlhf.guard.patterns import pattern


def has_project_part(path: str, grounds: Grounds) -> bool:
    """Tell whether a component of a path is the project's name, a version and an ending aside."""
    if not grounds.project.may_be_in(path):
        return False
    for part in path.split("/"):
        if part and grounds.project.may_begin(part) and grounds.project.is_name(pattern(_AFTER_NAME).sub("", part)):
            return True
    return False


_AFTER_NAME = r"([-@_=](?:v?\d|\*|latest)[\w.*\[\]-]*|\.(whl|crate|tgz|gem|jar|git|egg-info|dist-info|py|js|rs))+$"
"""A version and an ending."""

CACHES = (
    r"/\.npm(/|$)|/_cacache|/\.cache/(pip|uv|pypoetry|yarn|go-build)|/\.cargo/(registry|git)|/go/pkg/mod|/\.m2(/|$)|"
    r"/\.gem(/|$)|/conda/pkgs|/\.nuget(/|$)|/\.ivy2|/\.pnpm-store"
)
"""Where package managers keep what they have fetched."""

_INSTALLED = r"/node_modules(/|$)|/(site|dist)-packages(/|$)|/vendor/bundle/"


def is_project_copy(path: str, grounds: Grounds) -> bool:
    """Tell whether a path leads to a copy of the project other than the one that the agent works on."""
    if not has_project_part(path, grounds):
        return False
    if in_workdir(path, grounds):
        part = path.casefold().removeprefix(grounds.workdir)
        return pattern(_INSTALLED).search(part) is not None and has_project_part(part, grounds)
    return (
        not grounds.places.is_own(path)
        or (pattern(CACHES).search(path.lower()) is not None and "snapshot" not in path.lower())
        or (
            is_scratch(path)
            and pattern(r"\.(whl|crate|tgz|gem|jar|zip)$|\.tar\.|site-packages|node_modules").search(path) is not None
        )
    )


def project_address(act: Act, grounds: Grounds) -> bool:
    """Tell whether an address is one of the project itself."""
    text = path_of(act.target)
    if grounds.reach.place_allowed(text):
        return False
    return any(source in text for source in grounds.project.sources) or grounds.project.are_in(text)


def project_package(act: Act, grounds: Grounds) -> bool:
    """Tell whether a package is the project itself."""
    return grounds.project.is_name(posixpath.basename(act.target)) or grounds.project.is_name(act.target)


def may_be_beyond(act: Act, grounds: Grounds) -> bool:
    """Tell whether a revision may lie beyond: all may but versions that the setting's own limit leaves open."""
    version = act.traits.get("version", "")
    return grounds.keeps_history and (
        not version or "beyond" in act.traits or grounds.limit is None or grounds.limit.is_beyond(version)
    )


def fetched_project(act: Act, grounds: Grounds) -> str:
    """Return the package of a manifest that is the project itself; empty if none is."""
    names = act.traits.get("packages", "").split()
    return next((name for name in names if grounds.project.is_name(name) or grounds.project.is_name(name.rpartition("/")[2])), "")


def looked_up(act: Act, grounds: Grounds) -> str:
    """Say why a search, a fetch or a package looks for what the task closes to look-ups."""
    if act.kind == "search":
        return grounds.lookup.asked(act.target)
    if act.kind == "install":
        return "" if grounds.reach.package_allowed(act.target) else grounds.lookup.packaged(act.target)
    if act.kind == "run":
        return grounds.lookup.names_work(act.detail)
    return grounds.lookup.fetched(act.target)
