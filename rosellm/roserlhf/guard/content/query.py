"""Words of a web search -> acts."""

from __future__ import annotations

from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.hidden_text import shown
from rosellm.roserlhf.guard.scene import Scene


def acts_of_query(query: str, scene: Scene) -> list[Act]:
    """Return the search, words as a person would read them.

    Example:
        >>> from rosellm.roserlhf.guard.readers import read
        >>> acts_of_query("how to\\u200b sort", Scene("/", read))[0].target
        'how to sort'
    """
    return [Act("search", " ".join(shown(query).text.split()), span=(0, len(query)))]
