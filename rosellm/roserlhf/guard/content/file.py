"""A file and its content -> acts."""

from __future__ import annotations

from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.scene import Scene


def acts_of_file(path: str, content: str, scene: Scene, *, before: str = "", whole: bool = True) -> list[Act]:
    """Return the write and what the content does."""
    extension = path.rpartition("/")[2].rpartition(".")[2]
    found = [Act("write", path, span=(0, len(content)))]
    if extension == "py":
        found += scene.read("python", content, scene.inside())
    return found


def acts_of_source(language: str, code: str, scene: Scene) -> list[Act]:
    """Return the acts of code in a language without a reader of its own."""
    return []
