"""Where a path leads: absolute, with home, variables, dots and known links followed; links of `/proc` are known to everybody."""

from __future__ import annotations

import posixpath
from urllib.parse import unquote

from rosellm.roserlhf.guard.act import UNKNOWN, Act
from rosellm.roserlhf.guard.following import followed
from rosellm.roserlhf.guard.hidden_text import shown
from rosellm.roserlhf.guard.patterns import pattern
from rosellm.roserlhf.guard.scene import Scene

_PROCESS = (
    r"^/proc/([^/]+)/(?:task/[^/]+/)?(mem|maps|smaps|environ|cmdline|fd|fdinfo|cwd|exe|root|stack|syscall|auxv|map_files|"
    r"stat|status|mountinfo)\b"
)
_OWN = frozenset(["self", "thread-self", "$!"])
LONGEST_PATH = 4_096
_VARIABLE = r"\$(?:\{(\w+)\}|(\w+))"


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
    if not text.isascii():
        text = shown(text).text
    if "$" in text:
        text = pattern(_VARIABLE).sub(lambda m: _value(m.group(1) or m.group(2) or "", scene), text)
    if text == "~" or text.startswith("~/"):
        text = scene.home + text[1:]
    elif text.startswith("~root/"):
        text = "/root" + text[5:]
    whole = text if text.startswith("/") else posixpath.join(scene.workdir, text or ".")
    return followed("/" + whole.lstrip("/"), scene.workdir, scene.links)


def _value(name: str, scene: Scene) -> str:
    if name == "HOME":
        return scene.home
    if name == "PWD":
        return scene.workdir
    return scene.variables.get(name, UNKNOWN)


def process_in(path: str) -> tuple[str, str] | None:
    """Return another process that a path leads into, and to what of it.

    Example:
        >>> process_in("/proc/1/environ"), process_in("/proc/self/maps")
        (('1', 'environ'), None)
    """
    found = pattern(_PROCESS).search(path) if path.startswith("/proc/") else None
    if found is None or found.group(1) in _OWN:
        return None
    return (path if found.group(1) == UNKNOWN else found.group(1)), found.group(2)


def acts_of_path(path: str, scene: Scene) -> list[Act]:
    """Return the reading of a path."""
    return [Act("read", resolve(path, scene), span=(0, len(path)))]
