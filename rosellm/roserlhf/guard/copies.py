"""Copies that earlier commands made: a simple command's words, or Python -> (copy, original) pairs of paths."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from rosellm.roserlhf.guard.act import Act, ActKind
from rosellm.roserlhf.guard.content.place import resolve
from rosellm.roserlhf.guard.patterns import pattern
from rosellm.roserlhf.guard.scene import Scene

MOST_COPIES = 64
_COPIERS = frozenset(("cp", "mv", "install", "rsync", "scp"))
_SPEAKERS = frozenset(("echo", "printf", "mkdir", "touch", "rm", "cd", "export", "ls", "find"))
"""Programs whose arguments are not what they print the content of."""
_FOLDERS = frozenset(("/", "/tmp", "/var/tmp", "/dev/shm", "/root", "/home"))
"""Directories that hold more than what is copied into them."""
_PYTHON = (
    r"\b(?:copy|copy2|copyfile|copytree|move|copy_file|copy_tree|rename|replace)\("
    r"\s*['\"]([^'\"\n]+)['\"]\s*,\s*['\"]([^'\"\n]+)['\"]"
)
TELLS = r"(?m)(?:^|[;&|(]|\bthen)\s*(?:\$ |\w+: )?(?:sudo\s+)?(?:cp|mv|install|rsync|dd|tar|unzip)\s|\b(?:copy\w*|move)\("
"""What a string that makes copies holds."""


def of_words(words: Sequence[str], scene: Scene) -> Iterator[tuple[str, str]]:
    """Yield the copies that a simple command makes.

    Example:
        >>> from rosellm.roserlhf.guard.readers import read
        >>> here = Scene("/app", read)
        >>> list(of_words(["cp", "-r", "/eval/x", "y"], here))
        [('/app/y', '/eval/x'), ('/app/y/x', '/eval/x')]
        >>> list(of_words(["base64", "/eval/x", ">", "/tmp/z"], here))
        [('/tmp/z', '/eval/x')]
    """
    words = [word for word in words if word != "sudo"]
    first, rest = (words[0].rpartition("/")[2], words[1:]) if words else ("", [])
    if first in _COPIERS:
        yield from _copied([word for word in rest if not word.startswith("-")], scene)
    elif first == "dd":
        given = dict(word.split("=", 1) for word in rest if "=" in word)
        if "if" in given and "of" in given:
            yield resolve(given["of"], scene), resolve(given["if"], scene)
    elif first in ("tar", "unzip"):
        yield from _unpacked(rest, "-C" if first == "tar" else "-d", scene)
    elif ">" in rest and first not in _SPEAKERS:
        goal = rest[rest.index(">") + 1 :][:1]
        sources = [word for word in rest[: rest.index(">")] if "/" in word and not word.startswith("-")]
        yield from ((resolve(goal[0], scene), resolve(source, scene)) for source in sources[-1:] if goal)


def of_python(text: str, scene: Scene) -> Iterator[tuple[str, str]]:
    """Yield the copies that Python makes of paths that it spells out."""
    for found in pattern(_PYTHON).finditer(text):
        yield resolve(found.group(2), scene), resolve(found.group(1), scene)


def _copied(paths: Sequence[str], scene: Scene) -> Iterator[tuple[str, str]]:
    if len(paths) < 2:
        return
    goal = resolve(paths[-1], scene)
    for source in paths[:-1]:
        original = resolve(source, scene)
        if source.endswith("/."):  # what is in it, not itself
            if not _holds_more(goal, scene):
                yield goal, original
            continue
        if len(paths) == 2 and not paths[-1].endswith(("/", ".")) and not _holds_more(goal, scene):
            yield goal, original
        yield posixpath.join(goal, posixpath.basename(original)), original


def _unpacked(words: Sequence[str], option: str, scene: Scene) -> Iterator[tuple[str, str]]:
    goal = resolve(words[words.index(option) + 1], scene) if option in words[:-1] else ""
    archives = [word for word in words if pattern(r"\.(tar|tgz|zip|whl|jar|gz|bz2|xz|zst)$").search(word)]
    if goal and archives and not _holds_more(goal, scene):
        yield goal, resolve(archives[0], scene)


def _holds_more(folder: str, scene: Scene) -> bool:
    return folder in _FOLDERS or folder == scene.home or f"{scene.workdir}/".startswith(folder.rstrip("/") + "/")


def copied_folder(act: Act, scene: Scene) -> str:
    """Return the folder of which the write of a whole folder makes a copy elsewhere; empty if there is none.

    Example:
        >>> from rosellm.roserlhf.guard.readers import read
        >>> copy = Act("write", "/tmp/all", traits={"recursive": "yes", "source": "/app/."})
        >>> copied_folder(copy, Scene("/app", read))
        '/app'
    """
    source = act.traits.get("source", "").removesuffix("/.").rstrip("/")
    inside = act.target.startswith(source + "/") or source.startswith(act.target + "/")
    return source if source.startswith("/") and source != act.target and not inside and not _holds_more(act.target, scene) else ""


def originals(act: Act, copies: Mapping[str, str]) -> Iterator[Act]:
    """Yield the reads of originals that the read of a copy amounts to."""
    if act.kind in ("read", "list", "run", "import", "link"):
        path = act.detail if act.kind == "link" else act.target
        for copy, original in copies.items():
            if path == copy or path.startswith(copy + "/"):
                kind: ActKind = "list" if act.kind == "list" else "read"
                yield replace(act, kind=kind, target=original + path[len(copy) :], traits={**act.traits, "copy": copy})
