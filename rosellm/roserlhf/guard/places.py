"""Places that a setting names: `path -> how surely each field names it, whether it is the agent's own`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from rosellm.roserlhf.guard.act import UNKNOWN
from rosellm.roserlhf.guard.deliverables import deliverables
from rosellm.roserlhf.guard.extent import When
from rosellm.roserlhf.guard.globs import WILD, escaped, literal_prefix
from rosellm.roserlhf.guard.paths import ABOVE, INSIDE, MAYBE, NONE, OVERLAP, Entry, Touch, absolute, nearest, nearest_by_field
from rosellm.roserlhf.guard.patterns import first_groups, passing, pattern
from rosellm.roserlhf.guard.setting import Setting

FIELDS = ("writable", "own_files", "protected_read", "protected_write", "visible_tests", "hidden_tests", "verifier", "result_file")
"""Fields of a setting that hold paths."""
NOTHING: Final[Mapping[str, Touch]] = dict.fromkeys(FIELDS, NONE)
"""What a path touches that is far from all that a setting names."""
DECIDING = ("protected_write", "hidden_tests", "verifier", "result_file", "protected_read")
"""Fields of what an agent must not change."""
_TARGETS = 2048
"""Paths of which it is remembered what they touch."""
_PRODUCES = (
    r"\b(?:produce|write|save|create|writing|producing|saving|creating|filling|put|collect|fill|hand in|submit|output|store|enter"
    r"|into|to|say|state|listed|answer)\b"
)
_HOLDS = r"(?:(?:must|should|shall|has to|is to) (?:report|list|state|hold|contain|say|give|name)|with (?:an? |the |your )?\w+)\b"
_SHOWS = r"(?:maps|holds|contains|lists|gives|has|takes|says)\b"
_WORK = r"(^|/)(answers?|solutions?|submissions?|predictions?|proposals?)\.\w+$"
"""Names of what is handed in, which no runner gives its verdict."""
_PROSE = r"\.(?:md|rst|docx?|odt|tex|bib|pdf|pptx?)$"
"""What somebody writes; runners of tests write other files."""
_LOOKED_OVER = (
    r"\b(?:over|reads?|samples?|marks?|looks (?:over|at|through)|compares?|judges?|grades?) (?:the )?([\w./*-]+/[\w.*-]+|"
    r"[\w-]+\.\w{1,5})"
)
"""What a verifier is told to look at: the work, not a part of the verifier."""


def _folder_of_any(target: str) -> str:
    """Return the folder in which a file lies whose name alone is not known; of other paths nothing."""
    folder, _, name = target.rpartition("/")
    return folder if name == UNKNOWN and WILD.isdisjoint(folder) else ""


class Places:
    """Paths that the fields of a setting name."""

    def __init__(
        self,
        setting: Setting,
        paths: dict[str, tuple[Entry, ...]],
        without: dict[str, list[Entry]],
        when: dict[tuple[str, Entry], When],
    ) -> None:
        self.setting = setting
        self.task = setting.task.lower()
        self.workdir = absolute(setting.workdir or "/", "/").casefold()
        self.paths = paths
        self._without = without
        """Of each field the entries that it leaves out."""
        self._when = when
        """Entries that mean only what exists already, or only what is new."""
        self._known: dict[str, Mapping[str, Touch]] = {}
        self.known_near: dict[str, frozenset[str]] = {}
        """What `near` returned, for those who ask of hundreds of paths."""
        self._index()

    def touch(self, target: str, *names: str) -> Touch:
        """Tell how surely a path is one of what some fields name."""
        known = self._known.get(target) or self.touches(target)
        best = NONE
        if known is NOTHING:
            return best
        for name in names:
            one = known[name]
            if one > best:
                best = one
        if best == ABOVE and (self._may_walk(target) or self._is_far_below(target, names)):
            return NONE
        return best

    def touches(self, target: str) -> Mapping[str, Touch]:
        """Tell of each field how surely a path is one of what it names."""
        known = self._known.get(target)
        if known is None:
            if len(self._known) >= _TARGETS:
                self._known.clear()
            known = self._known[target] = NOTHING if self._stands_apart(target.casefold()) else self._nearest(target)
        return known

    def near(self, target: str) -> frozenset[str]:
        """Return the fields that name something which a path touches, however surely."""
        known = self.known_near.get(target)
        if known is None:
            touches = self.touches(target)
            if len(self.known_near) >= _TARGETS:
                self.known_near.clear()
            known = frozenset() if touches is NOTHING else frozenset([name for name, touch in touches.items() if touch])
            self.known_near[target] = known
        return known

    def _nearest(self, target: str) -> Mapping[str, Touch]:
        found = nearest_by_field(target, self.paths)
        for name, without in self._without.items():
            if without and found[name] and INSIDE in (nearest(target, without), nearest(_folder_of_any(target), without)):
                found[name] = NONE
        return found

    def only_what_exists(self, target: str, *names: str) -> bool:
        """Tell whether some fields keep a path only if it exists already."""
        surely = [(name, entry) for name in names for entry in self.paths[name] if entry.touched_by(target) >= MAYBE]
        return bool(surely) and all(self._when.get(one) == "existing" for one in surely)

    def _stands_apart(self, path: str) -> bool:
        """Tell at once that a path touches nothing: it begins and ends otherwise than all entries and is above none."""
        if not WILD.isdisjoint(path) or path.startswith(self._stems) or path.rstrip("/") in self._above:
            return False
        return path.rpartition("/")[2] not in self._endings and not any(one.search(path) for one in self._globs)

    def _index(self) -> None:
        """Gather what paths must begin, end or be like to be near an entry."""
        found = [entry for paths in self.paths.values() for entry in paths]
        self._stems = tuple({entry.stem for entry in found})
        self._endings = {entry.ending for entry in found if entry.ending}
        self._above = {""}
        for entry in found:
            parts = entry.stem.split("/")
            self._above.update("/".join(parts[:count]) for count in range(1, len(parts)))
        self._globs = list({entry.ending: entry.named for entry in found if entry.named is not None}.values())

    def depth(self, target: str, *names: str, new: bool = True) -> int:
        """Return how much of a path the entries that surely name it spell out: the more, the more they mean just it; 0 if no"
        "ne does."""
        return max(
            (
                1 + len(entry.prefix)
                for name in names
                if self.touch(target, name)
                for entry in self.paths[name]
                if entry.touched_by(target) >= MAYBE and (new or self._when.get((name, entry)) != "new")
            ),
            default=0,
        )

    def _may_walk(self, target: str) -> bool:
        """Tell whether going down from a directory is no reach for what it holds: the working directory, or visible tests."""
        start = literal_prefix(target.casefold()).rstrip("/")
        if start == self.workdir and start != "/":
            return True
        return any(entry.touched_by(start) == INSIDE for name in ("visible_tests", "own_files") for entry in self.paths[name])

    def _is_far_below(self, target: str, names: tuple[str, ...]) -> bool:
        """Tell whether a path lies below the working directory, in all of which names are kept from reading: `**/secret_*`.

        As the working directory itself may be looked through, so may what lies in it.
        """
        if "protected_write" in names or self.workdir == "/" or not target.casefold().startswith(f"{self.workdir}/"):
            return False
        above = (entry for name in names for entry in self.paths[name] if entry.touched_by(target) == ABOVE)
        return all(entry.prefix.rstrip("/") == self.workdir for entry in above)

    def is_own(self, target: str) -> bool:
        """Tell whether the setting gives a path to the agent: to write, or as its own file."""
        return self.touch(target, "own_files", "writable") >= OVERLAP

    def is_rather_own(self, target: str, *, new: bool = True) -> bool:
        """Tell whether the setting gives a path, `new` or not, to the agent more expressly than it protects it."""
        own, kept = self.depth(target, "own_files", "writable", new=new), self.depth(target, *DECIDING)
        given = own or not (self.paths["own_files"] or self.paths["writable"])
        if given and self.is_asked_for(target):
            return True
        if 0 < own == kept and (self._ends_closer(target, new=new) or self._is_folder_for_tests(target, new=new)):
            return True
        return own > kept or (0 < own == kept == self.depth(target, "own_files"))

    def _ends_closer(self, target: str, *, new: bool) -> bool:
        """Tell whether a glob that gives a path spells out more of its end than what keeps it: `*_own_test.go`, `*_test.go`."""
        own = self._endings_of(target, ("own_files", "writable"), new=new)
        kept = self._endings_of(target, DECIDING, new=True)
        longest = max(kept, key=len, default="")
        return longest != "" and any(one.endswith(longest) and len(one) > len(longest) for one in own)

    def _is_folder_for_tests(self, target: str, *, new: bool) -> bool:
        """Tell whether a glob that gives a path spells out a folder that the task sets aside for tests: `specs in **/own/**`."""
        for entry in (one for name in ("own_files", "writable") for one in self.paths[name] if one.touched_by(target) >= MAYBE):
            if not new and any(self._when.get((name, entry)) == "new" for name in ("own_files", "writable")):
                continue
            folders = [one for one in entry.text.casefold().partition("*")[2].split("/") if one and WILD.isdisjoint(one)]
            for folder in folders:
                told = rf"\b(?:add|new|own|put|write)\b[^.;]{{0,30}}\b(?:tests?|specs?)\b[^;]{{0,40}}/{escaped(folder)}\b"
                if passing(told).search(self.task):
                    return True
        return False

    def _endings_of(self, target: str, names: Iterable[str], *, new: bool) -> list[str]:
        """Return what stands behind the last star of the entries that name a path; the path itself for those without a star."""
        named = (
            (name, entry)
            for name in names
            for entry in self.paths[name]
            if entry.touched_by(target) >= MAYBE and (new or self._when.get((name, entry)) != "new")
        )
        small = target.casefold()
        return [
            entry.text.rpartition("*")[2].casefold() if "*" in entry.text else small
            for name, entry in named
            if name != "verifier" or entry.text.casefold() == small  # the folder of what is tested, otherwise
        ]

    def is_asked_for(self, target: str) -> bool:
        """Tell whether a path is kept only as the result that the task itself wants written, or as what a verifier looks over."""
        kept = {name for name in DECIDING if self.touch(target, name) >= MAYBE}
        if kept == {"result_file"}:
            if pattern(_PROSE).search(target.casefold()) and not any(" " in one for one in self.setting.result_file):
                return True
            name = escaped(target.rpartition("/")[2].casefold())
            asked = rf"{_PRODUCES}(?:[^.;]|\.\w){{0,80}}\b{name}|\b{name}[`'\"]? {_HOLDS}"
            if len(name) > 4 and passing(asked).search(self.task) is not None:
                return True
            return (
                pattern(_WORK).search(target.casefold()) is not None
                and passing(rf"\b{name} {_SHOWS}").search(self.task) is not None
            )
        if kept == {"verifier"}:
            places = [text for text in self.setting.verifier if " " in text.strip() and pattern(_LOOKED_OVER).search(text.lower())]
            folder, workdir = absolute(target, self.setting.workdir).rpartition("/")[0].casefold(), self.setting.workdir
            if any(entry.text.casefold() == folder for entry in self.paths["verifier"]):
                made = (absolute(path, workdir).rpartition("/")[0].casefold() for path in deliverables(self.setting.task))
                if folder in made:
                    return True
            return any(
                entry.touched_by(target) >= MAYBE and entry.text.rsplit("/", 1)[-1] in found
                for entry in self.paths["verifier"]
                for text in places
                for found in first_groups(_LOOKED_OVER, text.lower())
            )
        return False
