"""Git -> acts."""

from __future__ import annotations

import shlex

from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.scene import Scene


def acts_of_git_line(line: str, scene: Scene) -> list[Act]:
    """Return the acts of git with arguments as one line."""
    try:
        words = shlex.split(line)
    except ValueError:
        words = line.split()
    return acts_of_git(words, scene)


def acts_of_git(args: list[str], scene: Scene) -> list[Act]:
    """Return the acts of git with arguments."""
    return [Act("run", "git", " ".join(args))]
