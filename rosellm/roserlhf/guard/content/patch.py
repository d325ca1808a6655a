"""A patch -> acts: which files it writes, deletes, moves, and what its added lines do.

Unified diffs, with or without git's headers, and the `*** Begin Patch` form. Traits of the `write` act of a file: `file` (`new`,
`existing`, `moved`); `removes_assertion`, `removes_test`, `adds_skip`, `weakens`,
`changes_assertion` (how many), `mode` (a new file mode), `link`
(it becomes a symbolic link).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.content.changes import traits_of_change
from rosellm.roserlhf.guard.content.file import HUNK, acts_of_content
from rosellm.roserlhf.guard.content.fragment import HEADING
from rosellm.roserlhf.guard.content.place import resolve
from rosellm.roserlhf.guard.patterns import pattern
from rosellm.roserlhf.guard.scene import Scene

MOST_FILES = 500
_IN_FUNCTION = r"^@@ [^@]*@@ *((?:async +)?(?:def|class) [^#]*:)\s*$"
_IN_HUNK = frozenset(("+", " ", ""))
"""How lines of a hunk begin that stand in the file as it will be."""
_BEGIN = ("*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: ")


@dataclass
class _Change:
    """What a patch does to one file."""

    path: str
    verb: str = "existing"
    """`existing`, `new`, `deleted` or `moved`."""
    other: str = ""
    """Where it was moved from, or what is copied."""
    added: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    around: list[str] = field(default_factory=list)
    """Lines of the file as it will be, as far as the patch shows them."""
    mode: str = ""
    start: int = 0
    end: int = 0


def acts_of_patch(patch: str, scene: Scene) -> list[Act]:
    """Return the writes of a patch and what the lines that it adds do.

    Example:
        >>> from rosellm.roserlhf.guard.readers import read
        >>> text = "--- a/tests/t.py\\n+++ b/tests/t.py\\n@@ -1,2 +1,1 @@\\n def test_a():\\n-    assert f() == 1\\n"
        >>> [(a.kind, a.target, dict(a.traits)) for a in acts_of_patch(text, Scene("/app", read))]
        [('write', '/app/tests/t.py', {'file': 'existing', 'removes_assertion': '1'})]
    """
    found: list[Act] = []
    for count, change in enumerate(_changes(patch)):
        if count >= MOST_FILES:
            found.append(Act("opaque", "more files than are read", "patch"))
            break
        found += _acts(change, scene)
    return found


def _acts(change: _Change, scene: Scene) -> Iterator[Act]:
    place, span = resolve(change.path, scene), (change.start, change.end)
    if change.other:
        yield Act("delete" if change.verb == "moved" else "read", resolve(change.other, scene), "patch", span=span)
    if change.verb == "deleted":
        yield Act("delete", place, "patch", span=span)
        return
    added = "\n".join(change.added)
    traits = {"file": change.verb} | traits_of_change("\n".join(change.removed), added)
    if change.mode == "120000":
        goal = resolve((change.added or ["?"])[0], replace(scene, workdir=place.rpartition("/")[0] or "/"))
        yield Act("link", place, goal, span=span)
        return
    if change.mode:
        traits["mode"] = change.mode
    yield Act("write", place, "patch", span=span, traits=traits)
    if added.strip():
        code = added if change.verb == "new" else "\n".join(change.around)
        for act in acts_of_content(place, code, scene, added=added):
            inside = act.traits if act.kind == "write" else {"in_file": place, **act.traits}
            yield Act(act.kind, act.target, act.detail, act.argument, span, act.via, inside)


def _changes(patch: str) -> Iterator[_Change]:
    """Yield the files of a patch in order; lines that belong to none are left out."""
    now: _Change | None = None
    in_hunk = False
    lines = patch.split("\n")
    if "\r" in patch:
        lines = [line.rstrip("\r") for line in lines]
    start = number = 0
    while number < len(lines):
        line, begin = lines[number], start
        sign = line[:1]
        start += len(line) + 1
        number += 1
        if in_hunk and now is not None and (sign in _IN_HUNK or (sign == "-" and not line.startswith("--- "))):
            words = line[1:]
            (now.removed if sign == "-" else now.around).append(words)
            if sign == "+":
                now.added.append(words)
            continue
        after = lines[number] if sign == "-" and number < len(lines) and line.startswith("--- ") else ""
        pair = after.startswith("+++ ")
        if pair or (sign == "+" and not in_hunk and line.startswith("+++ ")):
            if pair:
                start += len(after) + 1
                number += 1
            old, new = (_name(line[4:]), _name(after[4:])) if pair else ("", _name(line[4:]))
            path = new if new != "/dev/null" else old
            if now is None or now.around or path != now.path:
                if now is not None:
                    yield _until(now, begin)
                now = _Change(path, start=begin)
            now.verb = "deleted" if new == "/dev/null" else "new" if old == "/dev/null" else now.verb
            in_hunk = False
        elif (sign == "d" or sign == "*") and line.startswith(("diff --git ", *_BEGIN[:3])):
            if now is not None:
                yield _until(now, begin)
            now, in_hunk = _begun(line, begin), line.startswith("*** ")
        elif now is not None:
            in_hunk = _line(now, line, in_hunk)
    if now is not None:
        yield _until(now, len(patch))


def _until(change: _Change, end: int) -> _Change:
    change.end = end
    return change


def _begun(line: str, start: int) -> _Change:
    if line.startswith("diff --git "):
        rest = line[11:]
        half = rest.find(" b/")
        return _Change(_name(rest[half + 1 :] if half >= 0 else rest.rpartition(" ")[2]), start=start)
    verb = "new" if "Add" in line[:12] else "deleted" if "Delete" in line[:14] else "existing"
    return _Change(line.partition(": ")[2].strip(), verb, start=start)


def _line(now: _Change, line: str, in_hunk: bool) -> bool:
    """Take one line of a file's part that is no plain line of a hunk; say whether a hunk goes on."""
    if line.startswith("@@"):
        now.around.append(HUNK[:-1])
        names = ("def " in line or "class " in line) and now.path.endswith((".py", ".pyi"))
        found = pattern(_IN_FUNCTION).search(line) if names else None
        if found:
            now.around.append(HEADING + found.group(1))
        return True
    if in_hunk and line.startswith("-"):
        now.removed.append(line[1:])
    elif line.startswith("*** Move to: "):
        now.other, now.path, now.verb = now.path, line.partition(": ")[2].strip(), "moved"
    elif line.startswith("*** End"):
        return False
    elif line.startswith(("rename to ", "copy to ")):
        now.path, now.verb = line.partition(" to ")[2].strip(), "moved" if line.startswith("rename") else "new"
    elif line.startswith(("rename from ", "copy from ")):
        now.other = line.partition(" from ")[2].strip()
    elif line.startswith(("new file mode ", "new mode ")):
        now.mode = line.rpartition(" ")[2]
        now.verb = "new" if line.startswith("new file") else now.verb
        now.mode = "" if now.mode in ("100644", "100664") else now.mode
    elif line.startswith("deleted file mode"):
        now.verb = "deleted"
    return in_hunk and not line.startswith(("Index: ", "diff "))


def _name(text: str) -> str:
    """Return the path of a `---` or `+++` line, without its prefix and its date."""
    name = text.partition("\t")[0].strip().strip('"')
    return name[2:] if name[:2] in ("a/", "b/", "i/", "w/", "c/", "o/") else name
