"""Language -> its reader: the one place that knows them all, so that no reader imports another.

A reader is imported when its language is first met. What no reader knows is read as words and paths.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import lru_cache

from rosellm.roserlhf import errors
from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.hidden_text import readable
from rosellm.roserlhf.guard.scene import DEEPEST, Scene

LONGEST = 200_000
"""Characters of one piece of code that a reader is given; callers cut longer ones with `part`."""
Reader = Callable[[str, Scene], list[Act]]

_DOORS = {
    "shell": (".shell", "acts_of_shell"),
    "python": (".python", "acts_of_python"),
    "git": (".content", "acts_of_git_line"),
    "patch": (".content", "acts_of_patch"),
    "path": (".content", "acts_of_path"),
    "url": (".content", "acts_of_url"),
    "query": (".content", "acts_of_query"),
    "prose": (".content", "acts_of_prose"),
    "answer": (".content", "acts_of_answer"),
    "comment": (".content", "acts_of_comment"),
}
_ALIASES = {
    **dict.fromkeys(("sh", "bash", "zsh", "dash", "ksh", "ash"), "shell"),
    **dict.fromkeys(("py", "py3", "pyw", "pyi", "python3", "ipython"), "python"),
    **dict.fromkeys(("diff", "udiff"), "patch"),
    **dict.fromkeys(("text", "message"), "prose"),
}


def read(language: str, code: str, scene: Scene) -> list[Act]:
    """Return the acts of code in a language, each with that language first in `via`.

    Args:
        language: one that `Scene.read` names, or an extension, or the absolute path of a file, which chooses one by its name.
        code: any text; lone surrogates and text beyond `LONGEST` are not read, and an `opaque` act says so.
        scene: where it would run.
    """
    if scene.depth > DEEPEST:
        return [Act("opaque", "languages nested too deep", language)]
    name = _ALIASES.get(language.lower(), language)
    found: list[Act] = []
    if len(code) > LONGEST:
        found.append(Act("opaque", "too long to be read whole", language))
        code = code[: LONGEST // 2] + "\n" + code[-LONGEST // 2 :]
    elif name == "shell":
        return _reader(name)(readable(code), scene)  # which says in `via` that it is shell
    found += _reader(name)(readable(code), scene)
    label = name.rpartition("/")[2].rpartition(".")[2].lower() if "/" in name else name
    way, argument = (label,), scene.argument
    return [
        act
        if act.via and act.via[0] == label
        else Act(act.kind, act.target, act.detail, argument or act.argument, act.span, way + act.via, act.traits)
        for act in found
    ]


@lru_cache(maxsize=1_024)
def _reader(language: str) -> Reader:
    if language not in _DOORS:
        from rosellm.roserlhf.guard.content import acts_of_source

        return lambda code, scene: acts_of_source(language, code, scene)
    module, name = _DOORS[language]
    try:
        reader: Reader = getattr(importlib.import_module(module, __package__), name)
    except ModuleNotFoundError as error:
        raise errors.missing_extra(error) from error
    return reader
