"""Where a path leads: absolute, with home, variables, dots and known links followed; links of `/proc` are known to everybody."""

from __future__ import annotations

import posixpath
from urllib.parse import unquote

from rosellm.roserlhf.guard.act import UNKNOWN, Act
from rosellm.roserlhf.guard.hidden_text import shown
from rosellm.roserlhf.guard.patterns import pattern
from rosellm.roserlhf.guard.scene import Scene

LONGEST_PATH = 4_096
MOST_LINKS = 16
_VARIABLE = r"\$(?:\{(\w+)\}|(\w+))"
_PROC = r"^/proc/(?:self|thread-self|\d+)(?:/task/\d+)?/(root|cwd)(?:/|$)"


def resolve(path: str, scene: Scene) -> str:
    """Return the place that a path means, as a shell's glob where it is one.

    Example:
        >>> from rosellm.roserlhf.guard.readers import read
        >>> here = Scene("/app", read, links={"/tmp/h": "/eval/hidden"})
        >>> [resolve(path, here) for path in ("src/../x", "~/.ssh", "/tmp/h/t.py", "/proc/self/root/eval", "file:///a%62")]
        ['/app/x', '/root/.ssh', '/eval/hidden/t.py', '/eval', '/ab']
    """
    text = path.strip()[:LONGEST_PATH].replace("\x00", "")
    if text.startswith("file:"):
        text = unquote(text[5:].removeprefix("//").removeprefix("localhost"))
    elif "%2" in text or "%5" in text or "%6" in text or "%7" in text:
        text = unquote(text)
    text = shown(text).text
    if "$" in text:
        text = pattern(_VARIABLE).sub(lambda m: _value(m.group(1) or m.group(2) or "", scene), text)
    if text == "~" or text.startswith("~/"):
        text = scene.home + text[1:]
    elif text.startswith("~root/"):
        text = "/root" + text[5:]
    joined = posixpath.join(scene.workdir, text or ".")
    if ".." in joined and (scene.links or joined.startswith("/proc/")):
        joined = _stepwise(joined, scene)
    return _followed(posixpath.normpath(joined), scene)


def _stepwise(path: str, scene: Scene) -> str:
    """Follow each link before the `..` behind it: that leads up from where the link points."""
    done = "/"
    for part in path.split("/")[:256]:
        done = posixpath.dirname(_followed(done, scene)) if part == ".." else posixpath.join(done, part) if part else done
    return done


def _value(name: str, scene: Scene) -> str:
    if name == "HOME":
        return scene.home
    if name == "PWD":
        return scene.workdir
    return scene.variables.get(name, UNKNOWN)


def _followed(place: str, scene: Scene) -> str:
    """Follow the links that are known, at most `MOST_LINKS` of them."""
    place = "/" + place.lstrip("/")
    for _ in range(MOST_LINKS):
        found = pattern(_PROC).search(place) if place.startswith("/proc/") else None
        if found:
            start = "/" if found.group(1) == "root" else scene.workdir
            place = posixpath.normpath(posixpath.join(start, place[found.end() :].lstrip("/")))
            continue
        for link in scene.links:
            if place == link or place.startswith(link.rstrip("/") + "/"):
                place = posixpath.normpath(posixpath.join(scene.links[link], place[len(link) :].lstrip("/")))
                break
        else:
            return place
    return place


def acts_of_path(path: str, scene: Scene) -> list[Act]:
    """Return the reading of a path."""
    return [Act("read", resolve(path, scene), span=(0, len(path)))]
