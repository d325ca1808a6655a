"""What an agent did before a call -> the scene of the call: where it stands, what it exported, linked and wrote.

A string of the history is a command or a sentence about one. Only what reads as a whole command counts: "cd into the folder" moves
nobody. What does more than change the scene is not looked at here: it was judged when it was a call.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from rosellm.roserlhf.guard import copies
from rosellm.roserlhf.guard.content.place import resolve
from rosellm.roserlhf.guard.hidden_text import readable
from rosellm.roserlhf.guard.patterns import pattern
from rosellm.roserlhf.guard.scene import Scene

MOST_STRINGS = 64
"""Last strings of a history that are looked at."""
LONGEST_STRING = 8_000
MOST_CHARACTERS = 32_000
MOST_FILES = 64
_TELLS = (
    r"(?m)(?:^|[;&|(]|\bthen)\s*(?:\$ |\w+: )?(?:cd|pushd|export|ln)\s"
    r"|chdir\(|^\s*\w+=\S|^\s*(?:\w+[:>] *)?\w+\s*(?::\s*\w+\s*)?= *[\w.({\[]*['\"]"
    r"|>\s*\S|\btee\s|^\s*(?:write_file|wrote|created|saved)\b"
)
_PREFIX = r"^\s*(?:\$ |(?:shell|bash|terminal|run|cmd|sh|command|execute_bash|python|ipython)\s*[:>]\s*)"
_NAME = r"^[A-Za-z_]\w*$"
_HEREDOC = r"<<-?\s*(['\"]?)([A-Za-z_]\w*)['\"]?"
_BREAK = r"\\n([^'\"\\]|$)"
"""A line break that stands as two letters in what tells of a file, but not in a string of its code."""
_CHDIR = r"\bchdir\(\s*[rbuf]?(['\"])([^'\"\n]+)['\"]\s*\)"
_NAMED = r"(?m)^\s*([A-Za-z_]\w*)\s*(?::\s*\w+\s*)?=\s*([^=\n][^\n]{0,300}['\")\]])\s*(?:#.*)?$"
"""A Python variable and what it is bound to, if that ends like a text, a call or a list."""
_WRITE_FILE = r"(?s)^\s*(?:write_file|wrote|created|saved)[\s:(]+['\"]?([\w./~-]+)['\"]?\s*(?:[:,\n]|<<|<-|->|=)\s*(.+)$"


@dataclass
class _Past:
    """The scene as it grows."""

    scene: Scene
    fleeting: str = ""
    """Directory that a `cd` inside of a longer command went to, if no later one went elsewhere; shells that start anew with each
    call forget it."""
    variables: dict[str, str] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    copies: dict[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

    def now(self) -> Scene:
        """Return the scene with all that was found, seen from where the last `cd` led."""
        start = self.scene
        copies, names = (self.copies, self.names) if self.copies or self.names else (start.copies, start.names)
        variables = {**start.variables, **self.variables} if start.variables else self.variables
        return Scene(start.workdir, start.read, start.home, variables, self.links, self.files, copies, names, start.depth)

    def copied(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Remember copies; one of a copy is one of the original."""
        for copy, original in pairs:
            if copy != original and len(self.copies) < copies.MOST_COPIES:
                self.copies[copy] = self.copies.get(original, original)


def scenes_after(history: Sequence[str], scene: Scene) -> tuple[Scene, ...]:
    """Return the scenes in which a call may run after a history: one, or two where a `cd` may or may not have lasted.

    Example:
        >>> from rosellm.roserlhf.guard.readers import read
        >>> before = ["ls", "cd into the sources", "cd src", "ln -s /eval/hidden h", "cd /tmp && make"]
        >>> [(one.workdir, dict(one.links)) for one in scenes_after(before, Scene("/app", read))]
        [('/app/src', {'/app/src/h': '/eval/hidden'}), ('/tmp', {'/app/src/h': '/eval/hidden'})]
    """
    told = telling(history)
    if not told and not (scene.variables or scene.links or scene.files):
        return (scene,)
    past = _Past(scene)
    for text in told:
        _remember(pattern(_PREFIX).sub("", text), past)
    now = past.now()
    return (now,) if past.fleeting in ("", now.workdir) else (now, now.in_directory(past.fleeting))


def telling(history: Sequence[str]) -> tuple[str, ...]:
    """Return the strings of a history that a scene may depend on, oldest first: where these are equal, so are the scenes.

    Example:
        >>> telling(["ls", "cd src", "the sources are in src"])
        ('cd src',)
    """
    short = len(history) <= MOST_STRINGS and sum(map(len, history)) <= LONGEST_STRING
    return tuple(filter(None, map(_telling, history if short else _last(history))))


@lru_cache(maxsize=8192)
def _telling(text: str) -> str:
    """Return a string as it can be read if a scene may depend on it, else nothing."""
    seen = readable(text)
    return seen if pattern(_TELLS).search(seen) or pattern(copies.TELLS).search(seen) else ""


def _last(history: Sequence[str]) -> list[str]:
    """Return the last strings of a history, oldest first, as many as fit."""
    kept: list[str] = []
    budget = MOST_CHARACTERS
    for text in reversed(history[-MOST_STRINGS:]):
        kept.append(readable(text[: min(budget, LONGEST_STRING)]))
        budget -= len(kept[-1])
        if budget <= 0:
            break
    return kept[::-1]


def _remember(text: str, past: _Past) -> None:
    """Follow what one string of the history changes."""
    written = pattern(_WRITE_FILE).search(text)
    if written:
        content = written.group(2)
        _keep(past, written.group(1), content if "\n" in content else pattern(_BREAK).sub(r"\n\1", content))
        return
    for found in pattern(_CHDIR).finditer(text):
        past.scene = past.scene.in_directory(resolve(found.group(2), past.now()))
    for found in pattern(_NAMED).finditer(text):
        past.names[found.group(1)] = found.group(2)
    if "(" in text:
        past.copied(copies.of_python(text, past.now()))
    commands = list(_commands(text))
    alone = all(words[:1] in (["cd"], ["export"], ["pushd"]) for words, _ in commands)
    here = past.fleeting or past.scene.workdir
    for words, body in commands:
        here = _follow(words, body, past, here, alone)


def _follow(words: list[str], body: str | None, past: _Past, here: str, alone: bool) -> str:
    """Follow one simple command; return the directory after it."""
    scene = past.now().in_directory(here)
    first = words[0] if words else ""
    while words and "=" in words[0] and pattern(_NAME).search(words[0].partition("=")[0]):
        name, _, value = words[0].partition("=")
        if len(words) == 1:
            past.variables[name] = _filled(value, scene)
        words = words[1:]
        first = words[0] if words else ""
    if first in ("cd", "pushd"):
        rest = [word for word in words[1:] if word not in ("-P", "-L", "--")]
        if len(rest) <= 1:
            goal = resolve(rest[0] if rest else "~", scene) if rest != ["-"] else past.scene.workdir
            if alone:
                past.scene, past.fleeting = past.scene.in_directory(goal), ""
            else:
                past.fleeting = goal
            return goal
    elif first == "export" and len(words) > 1 and all(pattern(_NAME).search(word.partition("=")[0]) for word in words[1:]):
        for word in words[1:]:
            if "=" in word:
                past.variables[word.partition("=")[0]] = _filled(word.partition("=")[2], scene)
    elif first == "ln":
        _link(words[1:], past, scene)
    else:
        past.copied(copies.of_words(words, scene))
    if body is not None or ">" in words or ">>" in words:
        _write(words, body, past, scene)
    return here


def _link(words: list[str], past: _Past, scene: Scene) -> None:
    paths = [word for word in words if not word.startswith("-")]
    if not 1 <= len(paths) <= 2 or len(paths) == len(words) == 0:
        return
    target = resolve(paths[0], scene)
    name = paths[1] if len(paths) == 2 else paths[0].rstrip("/").rpartition("/")[2]
    if name.endswith("/") or name in (".", ".."):
        name = name.rstrip("/") + "/" + paths[0].rstrip("/").rpartition("/")[2]
    place = resolve(name, scene)
    if place != target and not target.startswith(place.rstrip("/") + "/"):
        past.links[place] = target


def _write(words: list[str], body: str | None, past: _Past, scene: Scene) -> None:
    """Keep what `cat > file <<EOF` or `echo words > file` wrote."""
    for mark in (">", ">>"):
        if mark in words and words.index(mark) + 1 < len(words):
            goal = words[words.index(mark) + 1]
            text = body if body is not None else _printed(words[: words.index(mark)])
            if text is not None:
                _keep(past, goal, text, scene, mark == ">>")
            return
    if body is not None and words[:1] == ["tee"]:
        for goal in words[1:]:
            if not goal.startswith("-"):
                _keep(past, goal, body, scene)


def _printed(words: list[str]) -> str | None:
    """Return what `echo` or `printf` prints.

    Example:
        >>> _printed(["echo", "-n", "cat /a"]), _printed(["printf", "%s\\\\n", "ls", "pwd"]), _printed(["cat", "a"])
        ('cat /a', 'ls\\npwd\\n', None)
    """
    if words[:1] not in (["echo"], ["printf"]):
        return None
    rest = words[1:]
    while rest and pattern(r"^-[neE]+$|^--$").search(rest[0]):
        rest = rest[1:]
    if words[0] == "echo":
        return " ".join(rest) + ("" if pattern(r"^-\w*n").search(" ".join(words[1:2])) else "\n")
    form = (rest[0] if rest else "").replace("\\n", "\n")
    if form.count("%s") == 1 and len(rest) > 1:
        return "".join(form.replace("%s", one) for one in rest[1:])
    return form if len(rest) <= 1 else form + " " + " ".join(rest[1:])


def _keep(past: _Past, path: str, content: str, scene: Scene | None = None, more: bool = False) -> None:
    place = resolve(path, scene or past.now())
    if len(past.files) < MOST_FILES:
        past.files[place] = (past.files.get(place, "") if more else "") + content


def _filled(value: str, scene: Scene) -> str:
    if "$" not in value and "~" not in value:
        return value
    return resolve(value, scene.in_directory("/")) if value.startswith(("/", "$", "~")) else value


def _commands(text: str) -> Iterator[tuple[list[str], str | None]]:
    """Yield (words, body of its heredoc) of the simple commands of a string; what does not read as words is left out."""
    lines = text.split("\n")
    place = 0
    while place < len(lines):
        line = lines[place]
        place += 1
        body = None
        found = pattern(_HEREDOC).search(line) if "<<" in line else None
        if found:
            end = place
            while end < len(lines) and lines[end].strip() != found.group(2):
                end += 1
            body = "\n".join(lines[place:end]) + "\n"
            line, place = line[: found.start()] + line[found.end() :], end + 1
        for words in _words(line):
            yield words, body


def _words(line: str) -> Iterator[list[str]]:
    try:
        reader = shlex.shlex(line, posix=True, punctuation_chars=";&|()>")
        reader.whitespace_split = True
        tokens = list(reader)
    except ValueError:
        return
    words: list[str] = []
    for token in tokens:
        if token and all(letter in ";&|()" for letter in token):
            if words:
                yield words
            words = []
        else:
            words.append(token)
    if words:
        yield words
