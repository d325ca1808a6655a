"""What the words of a setting call its verifier: `command or sentence -> files that decide, names of programs and "
"processes`."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass

from rosellm.roserlhf.guard.extent import extent_of
from rosellm.roserlhf.guard.paths import word_set
from rosellm.roserlhf.guard.patterns import pattern
from rosellm.roserlhf.guard.phrases import is_path, is_plausible, is_program

_SCRIPT = r"^[\w.-]+\.(?:py|sh|bash|mjs|cjs|js|ts|rb|pl|php|exp|lean|R|jl|bats|exe)$"
_NO_NAMES = word_set(
    """
    a an the our their its his exact string integer score container language llm model comparison result hidden tests test then
    human person people someone reader reviewer unit property some all every after when final automatic manual python python3 bash
    sh node ruby perl php make cmake cargo go npm npx pnpm yarn mvn gradle dotnet java docker sudo env timeout lake uv pipx deno bun
    one two three four five several many both each judged acceptance
    swift stack cabal mix rake bundle composer ctest ninja meson bazel tox nox just time nice
    """
)
"""First words of a sentence or a command that name nothing of the verifier's own."""


_TOO_COMMON = frozenset(("run", "check", "test", "tests", "start", "main", "exec", "bin"))
"""Names of programs by which no process can be known."""
_USUAL = frozenset(("tests", "test", "spec", "eval", "ci", "bench"))
"""Directories in which verifiers lie."""


@dataclass(frozen=True)
class Verifying:
    """What decides."""

    paths: tuple[str, ...]
    commands: tuple[str, ...]


def verifying(text: str, is_given: Callable[[str], bool], known: frozenset[str] = frozenset()) -> Verifying:
    """Read one entry of the field `verifier`.

    What a command is given to check, and what a sentence says to be the agent's, decides nothing.

    Args:
        text: a path, a command or a sentence.
        is_given: whether the setting gives a path to the agent.
        known: the first components of paths that the setting names.

    Example:
        >>> verifying("python /eval/grade.py /out/answer.csv > /eval/score.json", lambda path: path.startswith("/out"))
        Verifying(paths=('/eval/grade.py', '/eval/score.json'), commands=('grade.py', 'score.json'))
        >>> verifying("python check.py --all", lambda path: False), verifying("pass/fail by a model", lambda path: False).paths
        (Verifying(paths=('check.py',), commands=('check.py',)), ())
    """
    if is_program(text):
        return Verifying((), (text.strip().lower(),))
    if called := pattern(r"^\s*([A-Za-z_]\w*)(?:\.\w+)*\([^()]*\)\s*$").search(text):
        return Verifying((f"{called.group(1)}.py",), (f"{called.group(1).lower()}.py",))
    if is_path(text):
        return Verifying((text,), (_name(text),))
    words = _words(text)
    scripts = [word for word in words[:3] if pattern(_SCRIPT).search(word)]
    extent = extent_of(text)
    named = [path for path in extent.paths if is_plausible(path, known | _USUAL)]
    paths = list(dict.fromkeys((*named, *scripts)))
    paths = [path for path in paths if not _is_only_where(path, text)]
    programs = paths[:1] if not scripts else scripts[:1]
    kept = tuple(path for path in paths if not is_given(path) or (path in programs and path.rpartition("/")[2] in words[0]))
    first = words[0].rpartition("/")[2].lower() if words else ""
    told = pattern(_SENTENCE).search(text) is not None and "." not in first
    names = [first] if len(first) > 2 and first not in _NO_NAMES and not told else []
    called = dict.fromkeys((*names, *(_name(path) for path in kept)))
    return Verifying(kept, tuple(name for name in called if name not in _TOO_COMMON))


_SENTENCE = (
    r"(?i)^\s*(?:[\w-]+,? (?:of|is|are|was|will|by|with|and|compar\w+|match\w*|check\w*|read\w*|look\w*|tak\w+|goes|"
    r"sandbox)\b|\w+ (?:\w+ )?(?:compared|comparison|matched|checked|judged|marked|graded|scored|taken|read|parsed)\b)"
)
"""Plain words, whose first one is no program."""
_ONLY_WHERE = (
    r"(?i)(?:\b(?:run|runs|executed|started|copied|put|placed|copies \S+|unpacked|mounted|moved|dropped|cloned|checked "
    r"out)(?: \w+){0,4} (?:in|into|over|from|to|at|under)|\s-C|\b--?(?:dir(?:ectory)?|cwd|prefix|rootdir|project|"
    r"manifest-path|chdir|workdir|w)[ =]?|\bcd|\binto|\bover|\bwithin|\binside)[ `'\"(]*$"
)


_CHECKED = (
    r"(?i)\s--?(?:ckpt|checkpoints?|weights|player|bot|agent|policy|submission|submit|pred\w*|guess\w*|candidate|solution|"
    r"program|binary|exe|impl\w*|kernel|answers?-file|proof)[ =]+[`'\"]?$"
)
"""Options of a verifier that take what it checks."""


def _is_only_where(path: str, text: str) -> bool:
    """Tell whether a path is only where the verifier runs, what it lays its files into, or what it is told to check."""
    before = text.partition(path)[0]
    if pattern(_CHECKED).search(before):
        return True
    return "." not in path.rstrip("/*").rpartition("/")[2] and pattern(_ONLY_WHERE).search(before) is not None


def _name(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2].lower()


def _words(text: str) -> list[str]:
    try:
        found = shlex.split(text)
    except ValueError:
        found = text.split()
    return [word.strip("`(),;:") for word in found if word.strip("`(),;:")]
