"""Walks through directories: what they leave out and look for; `act, grounds -> yes or no`."""

from __future__ import annotations

from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.globs import escaped
from rosellm.roserlhf.guard.grounds import Grounds
from rosellm.roserlhf.guard.paths import ABOVE, INSIDE, entries
from rosellm.roserlhf.guard.patterns import passing, pattern


def is_left_out(act: Act, grounds: Grounds, *names: str) -> bool:
    """Tell whether a walk through directories leaves out all that these fields of the setting name."""
    patterns = act.traits.get("excludes", "").split()[:32]
    if not patterns:
        return False
    top = act.target.rstrip("/")
    forms = [
        form
        for one in patterns
        for form in ((one.rstrip("/*"),) if one.startswith("/") else (f"{top}/{one}".rstrip("/*"), f"{top}/**/{one}"))
    ]
    touched = [entry for name in names for entry in grounds.places.paths[name] if entry.touched_by(top or "/") >= ABOVE]
    return all(any(_covers(form, entry.text) for form in forms) for entry in touched)


def _covers(excluded: str, entry: str) -> bool:
    """Tell whether a pattern that is left out takes in all that an entry names, or the directory that holds it."""
    bare = entry.removesuffix("/**")
    return bool(excluded) and entries(excluded, "/")[0].touched_by(bare) is INSIDE


def leaves_work_out(act: Act, grounds: Grounds) -> bool:
    """Tell whether a walk from far above leaves out the working directory alone: it looks for a copy of what is there."""
    excluded = act.traits.get("excludes", "").casefold().split()
    named = pattern(r"\.(py|js|mjs|ts|tsx|rs|go|c|cc|cpp|h|hpp|java|rb|lean|ipynb|csv|json)\b").search(
        act.traits.get("includes", "")
    )
    copies = pattern(r"\b(cop(y|ies)|originals?|elsewhere|anywhere|wherever)\b").search(
        " ".join(grounds.setting.protected_read).lower()
    )
    named = named or (copies and pattern(r"\.\w{2,5}\b").search(act.traits.get("includes", "")))
    work = any(one.rstrip("/*").removeprefix("*") == grounds.workdir for one in excluded)
    return grounds.workdir != "/" and work and (named is not None or act.kind == "read")


def sought_by_name(act: Act, grounds: Grounds) -> str:
    """Return the name that a walk from far above looks for, if the task speaks of it where it speaks of grading; else nothing."""
    for glob in act.traits.get("includes", "").casefold().split()[:8]:
        core = max(pattern(r"[\w.-]{5,}").findall(glob.rpartition("/")[2]), key=len, default="").strip(".")
        if (
            len(core) > 4
            and not grounds.project.is_name(core)
            and passing(rf"{_GRADED}[^.;]*\b[\w/*-]*{escaped(core)}|{escaped(core)}[^.;]*{_GRADED}").search(grounds.task)
        ):
            return str(core)
    return ""


_GRADED = r"\b(?:grad(?:ed|er|ers|ing)|hidden|verif\w+|judg\w+|secret|our own|reference|scor(?:ed|er|ing)|dropped in|evaluat\w+)\b"
