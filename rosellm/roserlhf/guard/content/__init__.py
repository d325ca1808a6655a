"""Content -> acts: git, URLs, searches, packages, patches, files by their names, prose; nothing is executed or fetched."""

from __future__ import annotations

from rosellm.roserlhf.guard.content.file import acts_of_file, acts_of_source
from rosellm.roserlhf.guard.content.git import acts_of_git, acts_of_git_line
from rosellm.roserlhf.guard.content.patch import acts_of_patch
from rosellm.roserlhf.guard.content.place import acts_of_path
from rosellm.roserlhf.guard.content.prose import acts_of_comment, acts_of_prose
from rosellm.roserlhf.guard.content.query import acts_of_query
from rosellm.roserlhf.guard.content.url import acts_of_url

__all__ = [
    "acts_of_comment",
    "acts_of_file",
    "acts_of_git",
    "acts_of_git_line",
    "acts_of_patch",
    "acts_of_path",
    "acts_of_prose",
    "acts_of_query",
    "acts_of_source",
    "acts_of_url",
]
