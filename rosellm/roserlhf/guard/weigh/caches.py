"""Whose place in a cache of packages is a path?"""

from __future__ import annotations

from rosellm.roserlhf.guard.concepts.own_project import CACHES
from rosellm.roserlhf.guard.globs import WILD
from rosellm.roserlhf.guard.grounds import Grounds
from rosellm.roserlhf.guard.patterns import pattern

_GROUPS = (
    r"^(?:repository|registry|src|cache|index|git|db|checkouts|download|caches|modules-2|files-2\.1|mod|pkgs|com|org|io|net|dev|de|"
    r"edu|gov|github\.com|gitlab\.com|golang\.org|gopkg\.in|index\.crates\.io-\w+|github\.com-\w+|wheels|http|http-v2|archive-v0|"
    r"wheels-v\d|simple-v\d+|_cacache|index-v5|content-v2|sha512|tmp|v\d+|\w{1,3})$"
)
"""Folders of caches that hold many packages."""


def is_of_others(path: str, grounds: Grounds) -> bool:
    """Tell whether a path of a cache is the place of one package that is not the project: `~/.m2/repository/org/junit`."""
    cache = pattern(CACHES).search(path.lower())
    if cache is None:
        return False
    below = path.lower()[cache.end() :]
    parts = [part for part in below.strip("/").split("/") if part and not pattern(_GROUPS).search(part)]
    if not parts or not WILD.isdisjoint(parts[0]) or pattern(r"^[0-9a-f]{6,}$").search(parts[0]):
        return False
    own = {word for name in grounds.project.names for word in pattern(r"[a-z0-9]{3,}").findall(name)}
    return own.isdisjoint(pattern(r"[a-z0-9]{3,}").findall(below))
