"""A URL -> acts."""

from __future__ import annotations

from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.scene import Scene


def acts_of_url(url: str, scene: Scene) -> list[Act]:
    """Return what a URL fetches."""
    return [Act("fetch", url.strip(), span=(0, len(url)))]
