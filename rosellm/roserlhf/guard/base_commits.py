"""The base of a setting in git: `revision -> whether the setting names it`."""

from __future__ import annotations

from functools import cached_property

from rosellm.roserlhf.guard.others import strings
from rosellm.roserlhf.guard.patterns import first_groups, pattern
from rosellm.roserlhf.guard.setting import Setting

_BASE_KEY = r"^(base|start|head|checkout)(_?(commit|tag|ref|revision|sha|version))?$"
_BASE = (
    r"(?:after|beyond|past|since|later than|newer than|descend\w+ (?:from|of)|ancestors? of|up to|at|before) (?:the )?"
    r"(?:(?:base |start )?(?:tag|commit|revision|branch|ref) )[`'\"]?([\w./+-]+)"
    r"|\b(?:base|start(?:ing)?) (?:commit|revision|state|point|version),? (?:which )?(?:is |has been )?"
    r"(?:tagged|called|named|marked|labelled)(?: as| with| by)?(?: the tag)? [`'\"]?([\w./+-]+)"
    r"|\b(?:tag|branch|ref) [`'\"]?([\w./+-]+?)[`'\"]? (?:is|marks|names|points (?:at|to)) (?:the|our|your) (?:base|start)\b"
)


class BaseCommits:
    """Commits and names by which a setting calls its base, up to which history is open."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting

    @cached_property
    def _commits(self) -> frozenset[str]:
        """Commits that the setting itself names, shortened: the base."""
        words = " ".join((self.setting.task, *self.setting.project, *strings(dict(self.setting.others))))
        return frozenset(one[:7] for one in first_groups(r"\b([0-9a-f]{7,40})\b", words.lower()))

    @cached_property
    def _bases(self) -> frozenset[str]:
        """Names by which the setting itself calls the base: a tag or a branch up to which history is open."""
        others = self.setting.others.items()
        given = [text for key, value in others if pattern(_BASE_KEY).search(key.lower()) for text in strings(value)]
        words = " ".join((self.setting.task, *self.setting.protected_read, *strings(dict(self.setting.others))))
        named = [one.rstrip(".,;:") for found in pattern(_BASE).findall(words) for one in found]
        return frozenset(one for one in (*given, *named) if one and " " not in one)

    def name(self, revision: str) -> bool:
        """Tell whether a revision is a commit that the setting names, or one of its ancestors."""
        if pattern(r"([~^]\d*)+$").sub("", revision).removeprefix("refs/tags/") in self._bases:
            return True
        found = pattern(r"^([0-9a-f]{7,40})([~^]\d*)*$").search(revision.lower())
        return found is not None and found.group(1)[:7] in self._commits
