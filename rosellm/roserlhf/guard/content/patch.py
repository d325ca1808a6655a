"""A patch -> acts."""

from __future__ import annotations

from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.content.place import resolve
from rosellm.roserlhf.guard.scene import Scene


def acts_of_patch(patch: str, scene: Scene) -> list[Act]:
    """Return the writes of a patch."""
    return [Act("write", resolve(line[6:].strip(), scene)) for line in patch.splitlines() if line.startswith("+++ b/")]
