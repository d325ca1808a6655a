"""What kind of place a path is: in the working directory, scratch, the system's, a test; `path, grounds -> yes or no`."""

from __future__ import annotations

from functools import lru_cache

from rosellm.roserlhf.guard.act import UNKNOWN, Act
from rosellm.roserlhf.guard.grounds import Grounds
from rosellm.roserlhf.guard.patterns import pattern

_SYSTEM = (
    r"^/(usr|lib|lib64|bin|sbin|etc|dev|sys|run|proc|var/lib/(apt|dpkg)|var/cache|opt/(conda|venv)|root/\.(cache|config|"
    r"local/lib))(/|$)"
    r"|/site-packages(/|$)|/dist-packages(/|$)|/node_modules(/|$)"
)

_SCRATCH = r"^/(tmp|var/tmp|dev/(null|stdout|stderr|stdin|tty|fd|shm|urandom|zero))(/|$)"

_TEST = (
    r"(^|/)(tests?|specs?|__tests__|testing|testsuite|t)/|(^|/)(test_[^/]*|[^/]*_tests?|conftest|[^/]*[._-](test|"
    r"spec)s?)\.[a-z]{1,4}$"
    r"|(^|/)test[^/]*\.(py|js|mjs|ts|go|rs|c|cpp|java|rb|sh)$"
)


def in_workdir(path: str, grounds: Grounds) -> bool:
    """Tell whether a path lies in the working directory."""
    small = path.casefold()
    return grounds.workdir != "/" and (small == grounds.workdir or small.startswith(grounds.workdir.rstrip("/") + "/"))


@lru_cache(maxsize=4096)
def is_scratch(path: str) -> bool:
    """Tell whether a path is for things that nobody keeps: `/tmp`, `/dev/null`."""
    return pattern(_SCRATCH).search(path) is not None


@lru_cache(maxsize=4096)
def is_system(path: str) -> bool:
    """Tell whether a path belongs to the system or to an installed library."""
    return pattern(_SYSTEM).search(path) is not None


@lru_cache(maxsize=4096)
def is_test(path: str) -> bool:
    """Tell whether a path looks like one of a test."""
    return pattern(_TEST).search(path.casefold()) is not None


def paths_of(act: Act, workdir: str = "") -> tuple[str, ...]:
    """Return the paths that an act is about.

    Those of a link are both; a module is looked for from the working directory; a walk through directories that takes certain
    names alone is about those names below.
    """
    if act.kind == "link":
        return (act.target, act.detail)
    if act.kind == "run":
        return (act.traits.get("path", act.target),)
    if act.kind == "import" and workdir and "." in act.target.strip(".") and not act.target.startswith(("/", UNKNOWN)):
        return (f"{workdir.rstrip('/')}/{act.target.strip('.').replace('.', '/')}.py",)
    if act.traits and act.traits.get("recursive") == "yes" and act.traits.get("includes"):
        top = act.target.rstrip("/")
        return tuple(
            one if one.startswith("/") else f"{top}/**/{one.lstrip('*/') if '/' in one else one}"
            for one in act.traits["includes"].split()[:8]
        )
    return (act.target,)


def foreign(act: Act, grounds: Grounds) -> bool:
    """Tell whether an absolute path is neither in the working directory nor scratch, the system's or the agent's own."""
    path = act.target
    return path.startswith("/") and not (
        in_workdir(path, grounds) or is_scratch(path) or is_system(path) or grounds.places.is_own(path)
    )
