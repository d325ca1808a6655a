"""What the setting keeps from the agent otherwise than by a path alone; `act or path, grounds -> what`."""

from __future__ import annotations

import posixpath

from rosellm.roserlhf.guard import shadows
from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.concepts.addresses import host_of, is_near, path_of
from rosellm.roserlhf.guard.concepts.locations import foreign, in_workdir, paths_of
from rosellm.roserlhf.guard.grounds import Grounds
from rosellm.roserlhf.guard.paths import NAME, OVERLAP
from rosellm.roserlhf.guard.patterns import pattern


def kept_by_words(act: Act, grounds: Grounds) -> bool:
    """Tell whether words of the setting, not its paths, keep from the agent what an act is about."""
    if act.kind == "fetch":
        return grounds.kept_by_words(path_of(act.target).partition("?")[0].partition("/")[2])
    return foreign(act, grounds) and any(grounds.kept_by_words(path) for path in paths_of(act))


def kept_relation(act: Act, grounds: Grounds) -> str:
    """Return the table that is kept from the agent and that statements or a client of a database reach; empty if none."""
    client = pattern(r"^(psql|pgcli|mysql|mariadb|pg_dump|pg_dumpall)$").search(posixpath.basename(act.target)) is not None
    if "statements" in act.traits:
        return grounds.relations.reached("sql", act.traits["statements"])
    found = pattern(r"(?:^|\s)(?:-U ?|--username[ =]|-u ?|--user[ =])(\w+)").search(act.detail) if client else None
    if found and found.group(1).lower() in grounds.relations.unread:
        return str(found.group(1))
    return grounds.relations.reached(posixpath.basename(act.target), act.detail)


def keeps_expectations(act: Act, grounds: Grounds) -> bool:
    """Tell whether what tests expect must stay as it is, and a command is no verifier and names more than the agent's own tests."""
    command = f"{posixpath.basename(act.target)} {act.detail}".strip().casefold()
    if any(command == one.strip().casefold() for one in grounds.setting.verifier):
        return False
    kept = " ".join((*grounds.setting.protected_write, *grounds.setting.hidden_tests)).lower()
    if pattern(r"snap|golden|expect|fixture|cassette|tests?\b|spec\b|approved|baseline").search(kept) is None and not (
        grounds.gates.tests or grounds.gates.weakening
    ):
        return False
    named = [word for word in act.detail.split() if "/" in word and not word.startswith("-")]
    places = [word if word.startswith("/") else posixpath.normpath(f"{grounds.setting.workdir}/{word}") for word in named]
    return not places or not all(grounds.places.is_rather_own(place) for place in places)


def listens(act: Act, grounds: Grounds) -> bool:
    """Tell whether what goes over the network may be what others keep from the agent."""
    kept = " ".join(grounds.setting.protected_read).lower()
    spoken = pattern(r"\b(quer(y|ies)|traffic|requests?|packets?|connections?|sockets?|messages?)\b").search(kept)
    return spoken is not None or grounds.names_protected(act.detail)


def named_places(act: Act, grounds: Grounds) -> list[str]:
    """Return the places kept from the agent that a file of settings gives a program to use."""
    found = []
    for path in act.traits.get("places", "").split():
        kept = grounds.places.touch(path, "protected_read", "hidden_tests")
        if kept >= OVERLAP and not grounds.places.is_own(path) and grounds.places.touch(path, "visible_tests") < OVERLAP:
            found.append(path)
    return found


def kept_in_service(act: Act, grounds: Grounds) -> str:
    """Return why a request to a service that may be asked reaches what is kept there; empty if it does not."""
    host = act.traits.get("host") or host_of(act.target)
    near = is_near(host) or (bool(host) and "." not in host)
    return grounds.services.reached(act, near=near) if near or grounds.reach.host_allowed(host) else ""


_BUILDS = (
    r"/(?:build|target|out|dist|obj|classes|_build|\.gradle|\.dart_tool|derived_?data|__pycache__|\.cache|intermediates"
    r"|\.next|ebin)/"
)
"""Folders into which builds put what they make of sources."""


def built_from_kept(path: str, grounds: Grounds) -> str:
    """Return the closed folder from whose sources a build made a file, by a folder of its very name below one of builds."""
    small = path.casefold()
    closed = [one for one in grounds.closed_folders if one.rpartition("/")[2] in small]
    found = pattern(_BUILDS).search(small) if closed and in_workdir(path, grounds) else None
    if found is None:
        return ""
    below = set(small[found.end() :].split("/")[:-1])
    return next((one for one in closed if one.rpartition("/")[2] in below), "")


def shadow_of_kept(path: str, grounds: Grounds) -> str:
    """Return the kept path whose backup, swap file or compiled form a file is by its name; empty if it is none."""
    kept = ("protected_read", "hidden_tests")
    if not (grounds.places.paths["protected_read"] or grounds.places.paths["hidden_tests"]):
        return ""
    if (closed := built_from_kept(path, grounds)) and not grounds.places.is_own(path):
        return closed
    if not shadows.is_named_as_copy(path) or grounds.places.is_own(path):
        return ""
    found = (one for one in shadows.originals_of(path) if grounds.places.touch(one, *kept) >= NAME)
    return next(found, "")


def kept_address(act: Act, grounds: Grounds) -> str:
    """Return the path of an address if the setting keeps it from the agent as it keeps files."""
    rest = path_of(act.target).partition("?")[0]
    path = posixpath.normpath("/" + rest.partition("/")[2])
    kept = path != "/" and any(entry.touched_by(path) >= OVERLAP for entry in grounds.kept_services)
    return path if kept else ""
