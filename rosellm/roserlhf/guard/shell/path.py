"""Paths as a shell command writes them -> absolute ones: `~`, `..`, known links and `/proc/self/root` followed."""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Callable
from typing import Final

from rosellm.roserlhf.guard.act import UNKNOWN

_ROOTS: Final = re.compile(r"^/proc/(?:(?:self|thread-self)(?:/task/[^/]+)?/(root|cwd)|[^/]+(?:/task/[^/]+)?/(root))$")
_FILE: Final = re.compile(r"^file://(?:localhost)?(?=/)", re.IGNORECASE)
_LOOKS: Final = re.compile(r"/|^~|^\.{1,2}$|^[\w.*?\[\]{},-]*[\w\])}*?]\.[A-Za-z_*]\w{0,12}$|\ufffc|^[\w.-]*\*[\w.-]*$")
_HIDDEN: Final = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0]"
)


def absolute(text: str, workdir: str, link: Callable[[str], str | None], *, itself: bool = False) -> str:
    """Resolve a path; `link(path)` returns what a known link points to; `itself`: a link at the end is not followed.

    Example:
        >>> absolute("../b//c/./x", "/a/d", {"/a/b": "/tests"}.get)
        '/tests/c/x'
    """
    if not text.isascii():
        text = unicodedata.normalize("NFKC", _HIDDEN.sub("", text)) if text != UNKNOWN else text
    text = _FILE.sub("", text)
    if text.startswith(UNKNOWN):
        return text  # may be absolute: it is anywhere
    if not text.startswith("/"):
        text = f"{workdir}/{text}"
    done = ""
    follow = 40
    parts = [part for part in reversed(text.split("/")) if part not in ("", ".")]
    while parts:
        part = parts.pop()
        if part == "..":
            done = done.rpartition("/")[0]
            continue
        done = f"{done}/{part}"
        if itself and not parts:
            break
        target = link(done)
        if target is None and done.startswith("/proc/") and (found := _ROOTS.match(done)):
            target = workdir if found[1] == "cwd" else "/"
        if target is not None and follow:
            follow -= 1
            parts += [part for part in reversed(target.split("/")) if part not in ("", ".")]
            done = "" if target.startswith("/") else done.rpartition("/")[0]
    return done or "/"


@functools.lru_cache(8192)
def unlinked(text: str, workdir: str) -> str:
    """Resolve a path where no link is known, or as `cd` does: `..` undoes a link again, as the shell keeps the directory's name.

    Example:
        >>> unlinked("../b", "/app/link")
        '/app/b'
    """
    path = text if text[:1] == "/" else f"{workdir}/{text}"
    if path.isascii() and "/." not in path and "//" not in path and not path.startswith("/proc/"):
        return path.rstrip("/") or "/"  # nothing to follow, as in most paths
    return absolute(text, workdir, _no_link)


def _no_link(path: str) -> None:
    return None


@functools.lru_cache(4096)
def looks_like_path(text: str) -> bool:
    """Tell whether an argument of an unknown program may be a path."""
    return bool(_LOOKS.search(text)) and "://" not in text and len(text) < 4096 and not text.startswith("-") and "\n" not in text
