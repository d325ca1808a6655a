"""Copies that programs leave beside or far from a file, by their names -> the name of the file: backups, swap, compiled forms."""

from __future__ import annotations

from functools import lru_cache

from rosellm.roserlhf.guard.patterns import pattern

_AFTER = (
    r"(?:~|#|,v|\.(?:bak|bkp|backup|back|orig|original|old|prev|save[d]?|swp|swo|swn|swx|tmp|temp|copy|dist|rej|un~|undo"
    r"|part|crdownload|"
    r"rpmsave|rpmorig|rpmnew|dpkg-(?:old|dist|new|bak)|pacsave|ucf-\w+|gz|bz2|xz|zst|lz4|br|zip|7z|Z|enc|gpg|age|\d{1,3}"
    r"|\d{4}-?\d\d-?\d\d\w*))"
    r"|[-_ ](?:copy|backup|bak|old|orig|\d{8})$|\.(?:copy|backup)\d*$| \(?(?:copy|\d)\)?$"
)
_ENDS = rf"(?:{_AFTER})$"
_BETWEEN = r"(?i)[-_. ](?:copy|backup|bak|old|orig|\d{8})(\.\w{1,5})$"
_BEFORE = r"^(?:\._|\.#|#|\.~lock\.|\.~|~\$|Copy of |backup[-_ ]of[-_ ]|backup[-_]|bak[-_]|old[-_]|orig[-_])"
_CHANGED = rf"{_BEFORE}|{_ENDS}|(?:{_BETWEEN})"
"""What a name holds that is changed in any way."""
_COMPILED = {
    r"\.(?:(?:cpython|pypy)-?\w+(?:\.opt-\d)?\.)?pyc$|\.pyo$|\.(?:cpython-\w+[\w-]*\.)?so$": ".py",
    r"\.(?:olean|ilean)$": ".lean",
    r"(?:\$\w+)?\.class$": ".java",
    r"\.(?:ipynb_checkpoints|vo|glob)$": ".v",
    r"\.beam$": ".ex",
    r"\.(?:js|d\.ts)\.map$|\.js$": ".ts",
}
_COMPILED_ENDS = (".pyc", ".pyo", ".so", "lean", ".class", "checkpoints", ".vo", ".glob", ".beam", ".map", ".js")
"""What compiled forms end in, all that `_COMPILED` finds and more."""
_HINT = (
    r"(?:[~#]|,v|\.(?:\d{1,3}|pyc|pyo|so|olean|ilean|class|vo|beam|map|[a-z0-9-]{2,9}))$|(?i)copy|backup|bak[-_.]|\bold[-_.]"
    r"|orig[-_.]|[-_.]\d{8}\.|/[.#~]"
)
"""Without which a name is none of a copy."""


@lru_cache(maxsize=4096)
def is_named_as_copy(path: str) -> bool:
    """Tell whether a file may be a copy by its name; most are none."""
    name = _name_of(path)
    is_changed = name.endswith(_COMPILED_ENDS) or pattern(_CHANGED).search(name) is not None
    return is_changed and pattern(_HINT).search(path) is not None


def _name_of(path: str) -> str:
    """Return a file's name; editors write the whole path into the names of their own files."""
    return path.rpartition("/")[2].rpartition("%")[2]


def originals_of(path: str) -> list[str]:
    """Return the paths whose copy a file may be by its name, in the same directory.

    Example:
        >>> originals_of("/tmp/x/.answers.json.swp"), originals_of("/a/__pycache__/test_gate.cpython-311.pyc")
        (['/tmp/x/answers.json'], ['/a/__pycache__/test_gate.py'])
        >>> originals_of("/app/src/main.rs")
        []
    """
    folder, name = path.rpartition("/")[0], _name_of(path)
    forms: list[str] = []
    is_compiled = name.endswith(_COMPILED_ENDS)
    if not is_compiled and pattern(_CHANGED).search(name) is None:
        return forms
    if is_compiled:
        forms += [pattern(ending).sub(source, name) for ending, source in _COMPILED.items() if pattern(ending).search(name)]
    bare = str(pattern(_BEFORE).sub("", name))
    for _ in range(2):
        shorter = str(pattern(_BETWEEN).sub(r"\1", pattern(_ENDS).sub("", bare)))
        if shorter == bare:
            break
        bare = shorter
        forms.append(bare)
        if bare.startswith("."):
            forms.append(bare[1:])
    if not forms and bare != name:
        forms.append(bare)
    swapped = [one[1:] for one in forms if one.startswith(".") and name.endswith((".swp", ".swo", "~"))]
    return [f"{folder}/{one}" for one in dict.fromkeys(swapped or forms) if one and one != name]
