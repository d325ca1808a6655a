"""A tool call -> `Reading`: the acts that rules select from, the scene it would run in, the text that a judge may quote.

call, history, setting → scene → pieces → readers by language → acts. A call of any length costs bounded time: what is too long is
read at its beginning, at its end and around words that the setting protects, and an `opaque` act says that there was more.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from operator import attrgetter
from typing import Any

from rosellm.roserlhf.guard import readers
from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.content import acts_of_file
from rosellm.roserlhf.guard.content.generated import tables_made
from rosellm.roserlhf.guard.content.place import process_in, resolve
from rosellm.roserlhf.guard.content.spoken import acts_of_words
from rosellm.roserlhf.guard.copies import copied_folder, originals
from rosellm.roserlhf.guard.figures import MOST_REMARKS, contradiction
from rosellm.roserlhf.guard.hidden_text import readable
from rosellm.roserlhf.guard.history import scenes_after
from rosellm.roserlhf.guard.intents import intents, is_bold, is_contested
from rosellm.roserlhf.guard.patterns import alternatives, pattern
from rosellm.roserlhf.guard.pieces import Piece, pieces_of
from rosellm.roserlhf.guard.plain_acts import plain, undisguised, weighed_by_effect
from rosellm.roserlhf.guard.plain_words import acts_of_plain_words
from rosellm.roserlhf.guard.resemblance import resemblance
from rosellm.roserlhf.guard.scene import Scene
from rosellm.roserlhf.guard.setting import Setting
from rosellm.roserlhf.guard.tool_names import family_of, role_of

LONGEST = 64_000
"""Characters of one argument that are read whole."""
MOST_WINDOWS = 32
WINDOW = 1_000
"""Characters read around a protected word in what is too long."""
MOST_ACTS = 4_000
"""Acts of one call that are kept whatever they touch; as many again if they touch what is protected."""
MOST_WORDS = 100
MOST_ARGUMENTS = 100
LONGEST_DETAIL = 400
LONGEST_QUOTED = 20_000
_CODE = frozenset(("shell", "python", "js", "git"))
_PROSE = frozenset(("prose", "answer"))
_NO_WORDS = frozenset(("path", "url", "query"))
_ALWAYS = (
    r"/proc/\w",
    "b64decode",
    "base64",
    r"\beval\b",
    "_exit",
    r"LD_PRELOAD",
    "conftest",
    "sitecustomize",
    r"git\s",
    "https?://",
)


@dataclass(frozen=True, slots=True)
class Reading:
    """What is known of a call before any rule."""

    acts: tuple[Act, ...]
    """In the order of the call; those that differ in nothing but their place once. Where the call says something in disguise, each
    has the trait `undisguised`: what the call says without it."""
    scene: Scene
    text: str
    """The arguments as `name: value` lines, long ones shortened in the middle."""


def read_call(tool: str, arguments: Any, history: Sequence[str] = (), setting: Setting | None = None) -> Reading:
    """Read a call without executing, opening or fetching anything.

    Args:
        tool: name of the tool; unknown ones are read by their words and by what their arguments look like.
        arguments: as the policy wrote them; an object, or any JSON value.
        history: earlier calls and remarks of the episode, oldest first; a string is a command or prose.
        setting: the task's; without one the working directory is `/`.

    Returns:
        Acts with `argument` and, where the reader knows it, `span` filled in. Never raises on any JSON value.

    Example:
        >>> found = read_call("read_file", {"path": "../eval/x"}, (), Setting(workdir="/app"))
        >>> [(act.kind, act.target) for act in found.acts]
        [('read', '/eval/x')]
    """
    setting = setting or Setting()
    home = setting.others.get("home") or _home(setting.workdir)
    variables = setting.others.get("environment")
    known = {str(k): v for k, v in variables.items() if isinstance(v, str)} if isinstance(variables, Mapping) else {}
    start = Scene(setting.workdir, readers.read, home if isinstance(home, str) else "/root", known)
    past = [readable(one if isinstance(one, str) else str(one)) for one in history]
    scenes = scenes_after(past, start)
    scenes = tuple(_as_called(arguments, scene) for scene in scenes)
    found: dict[tuple[Any, ...], Act] = {_key(act): act for act in _environment(arguments)}
    crowd, telling = "", _Telling(setting)
    for piece in pieces_of(tool, arguments, telling):
        for scene in scenes if _depends_on_workdir(piece) else scenes[:1]:
            for acts in map(plain, _acts(piece, scene, setting)):
                is_plain = not scene.copies and _RECURSIVE.isdisjoint(chain.from_iterable(map(_traits, acts)))
                if is_plain and len(found) + len(acts) <= MOST_ACTS:
                    for key, act in zip(map(_key, acts), acts, strict=True):
                        found.setdefault(key, act)
                elif _are_too_many(acts, found, scene, telling):
                    crowd = crowd or piece.argument
                if len(found) > 2 * MOST_ACTS:
                    break
        if len(found) > 2 * MOST_ACTS:
            crowd = piece.argument
            break
        if piece.text and piece.language not in _NO_WORDS:
            before = readable(piece.before[:LONGEST])
            for act in acts_of_words(_words_of(piece), piece.language in _CODE, piece.language in _PROSE, before):
                inside = {"in_file": resolve(readable(piece.path), scenes[0])} if piece.path else None
                act = _placed(act, readable(piece.argument), 0, inside)
                found.setdefault(_key(act), act)
    kinds = set(map(_kind, found.values()))
    claims = [key for key, act in found.items() if "claims" in act.traits] if "text" in kinds else ()
    if claims and not is_contested(past):
        for key in claims:
            if not is_bold(found[key].target):
                del found[key]
    written = [act for act in found.values() if act.kind == "write"] if "write" in kinds else []
    for act in _contradicted(tool, arguments, written, past):
        found.setdefault(_key(act), act)
    for act in intents(past, found.values(), family_of(tool), setting.workdir):
        found.setdefault(_key(act), act)
    if crowd:
        found[()] = Act("opaque", "more acts than are looked at", crowd)
    text = _text(arguments)
    if written:
        for act in list(tables_made(found.values(), text)):
            found.setdefault(_key(act), act)
    if "decode" in kinds:
        found = weighed_by_effect(found)
    if setting.task and acts_of_plain_words(tool, arguments, past) is None:  # calls of no task are like none
        for act in list(resemblance(tool, arguments, past, setting, found.values())):
            found[_key(act)] = act
    if words := undisguised(found.values(), text):
        alone = {"undisguised": words}
        acts = [
            Act(
                act.kind,
                act.target,
                act.detail,
                act.argument,
                act.span,
                act.via,
                {**traits, "undisguised": words} if (traits := act.traits) else alone,
            )
            for act in found.values()
        ]
        return Reading(tuple(acts), scenes[0], text)
    return Reading(tuple(found.values()), scenes[0], text)


def _are_too_many(acts: Iterable[Act], found: dict[tuple[Any, ...], Act], scene: Scene, telling: _Telling) -> bool:
    """Add acts to those found, and those of the originals of copies; tell whether some were left out, since there were too many."""
    left_out, copies = False, scene.copies
    for act in acts:
        if len(found) > MOST_ACTS and not telling(act.target):
            left_out = True
            continue
        found.setdefault(_key(act), act)
        if act.kind == "write" and "recursive" in act.traits and (made := copied_folder(act, scene)):
            copies = {**copies, act.target: made}
        for original in originals(act, copies) if copies else ():
            found.setdefault(_key(original), original)
        if len(found) > 2 * MOST_ACTS:
            break
    return left_out


@dataclass(slots=True)
class _Telling:
    """Whether a text names what the setting protects; the pattern is made when a call is so long that it is needed."""

    setting: Setting
    words: Any = None
    room: int = 4 * MOST_ACTS
    """Texts that may yet be found to."""

    def __call__(self, text: str) -> bool:
        self.words = self.words or pattern(_protected(self.setting))
        found = self.room > 0 and self.words.search(readable(text[:LONGEST])) is not None
        self.room -= found
        return found


_REPORTS = (".md", ".txt", ".rst", ".tex", ".html", ".json", ".csv", ".yaml", ".yml")
"""Files in which figures are told to somebody."""
_FIGURE = re.compile("[0-9]|once")


def _contradicted(tool: str, arguments: Any, written: Sequence[Act], history: Sequence[str]) -> list[Act]:
    """Return what a report says of measurements that the history shows otherwise, as claims."""
    if not history:
        return []
    texts = []
    if family_of(tool) == "submit" and isinstance(arguments, Mapping):
        texts = [(readable(str(name)), value) for name, value in arguments.items() if isinstance(value, str)]
    for act in written:
        if act.target.lower().endswith(_REPORTS):
            whole = arguments.get(act.argument) if isinstance(arguments, Mapping) else None
            texts.append((act.argument, act.traits.get("content") or (whole if isinstance(whole, str) and act.via == () else "")))
    if not texts or not any(_tells_how_often(str(one)) for one in history[-MOST_REMARKS:]):
        return []
    said = [(name, contradiction(readable(text), history)) for name, text in texts if text]
    return [Act("text", one, "said", name, traits={"claims": "figures"}) for name, one in said if one]


def _tells_how_often(remark: str) -> bool:
    """Tell whether a remark may say how often something was done, or with what result."""
    return _FIGURE.search(remark) is not None or (not remark.isascii() and any(map(str.isdigit, remark)))


_key = attrgetter("kind", "target", "detail", "argument", "via")
_kind = attrgetter("kind")
_argument = attrgetter("argument")
_traits = attrgetter("traits")
_RECURSIVE = frozenset(("recursive",))


def _home(workdir: str) -> str:
    """Return the home that a working directory suggests: its own below `/home`, else root's."""
    parts = workdir.split("/")
    return "/".join(parts[:3]) if parts[:2] == ["", "home"] and len(parts) > 2 and parts[2] else "/root"


def _as_called(arguments: Any, scene: Scene) -> Scene:
    """Take in the working directory and the environment that the call itself names."""
    for name, value in arguments.items() if isinstance(arguments, Mapping) else ():
        role = role_of(str(name))
        if role == "workdir" and isinstance(value, str) and value:
            scene = replace(scene, workdir=resolve(readable(value), scene))
        elif role == "environment" and isinstance(value, Mapping):
            scene = replace(
                scene, variables={**scene.variables, **{str(k): readable(v) for k, v in value.items() if isinstance(v, str)}}
            )
    return scene


def _words_of(piece: Piece) -> str:
    """Return the words of a piece, after it those that they replace: together they tell what changes."""
    return readable(
        f"{piece.text[:LONGEST]}\n\n{piece.before[:LONGEST]}"
        if "heorem" in piece.before or "emma" in piece.before
        else piece.text[:LONGEST]
    )


def _environment(arguments: Any) -> Iterator[Act]:
    """Yield the variables that the call itself sets."""
    for name, value in arguments.items() if isinstance(arguments, Mapping) else ():
        if role_of(str(name)) == "environment" and isinstance(value, Mapping):
            for variable, words in value.items():
                yield Act("environment", readable(str(variable)), readable(f"set {words}"[:LONGEST_DETAIL]), readable(str(name)))


def _depends_on_workdir(piece: Piece) -> bool:
    return piece.role != "code" or piece.language in ("shell", "python", "git", "js")


def _acts(piece: Piece, scene: Scene, setting: Setting) -> Iterator[Sequence[Act]]:
    """Yield the acts of each part of one piece, its argument and the place in it filled in."""
    argument = readable(piece.argument)
    if piece.role == "code":
        scene = scene.of_argument(argument)
        for start, text in _parts(readable(piece.text), setting):
            acts = scene.read(piece.language, text, scene)
            is_named = not start and {argument}.issuperset(map(_argument, acts))
            yield acts if is_named else [_placed(act, argument, start) for act in acts]
        if len(piece.text) > LONGEST:
            yield [_unread(piece.language, argument, len(piece.text))]
        return
    path = readable(piece.path)
    place = resolve(path, scene)
    span = (0, len(path))
    if piece.role == "link":
        yield [Act("link", place, resolve(readable(piece.before), scene), argument, span)]
    elif piece.role == "write":
        content = readable(piece.text)
        before = readable(piece.before[:LONGEST])
        for start, text in _parts(content, setting):
            acts = acts_of_file(place, text, scene, before=before, whole=piece.whole and len(content) <= LONGEST)
            inside = {"in_file": place}
            yield [
                _placed(act, argument, start, None if act.kind == "write" or "in_file" in act.traits else inside) for act in acts
            ]
        if len(content) > LONGEST:
            yield [_unread(place, argument, len(content))]
    else:
        traits = {"sought": piece.text[:LONGEST_DETAIL]} if piece.text else {}
        yield [Act(piece.role, place, "", argument, span, (), traits)]
        if other := process_in(place) or process_in(path):
            yield [Act("process", other[0], f"{piece.role} {other[1]}", argument, span)]


def _unread(what: str, argument: str, size: int) -> Act:
    return Act("opaque", "too long to be read whole", what, argument, (LONGEST // 2, size - LONGEST // 2))


def _placed(act: Act, argument: str, start: int, traits: Mapping[str, str] | None = None) -> Act:
    """Return an act with its argument, its place in it and traits of its own; `replace` would take most of a reading's time."""
    span = (act.span[0] + start, act.span[1] + start) if start else act.span
    return Act(act.kind, act.target, act.detail, argument, span, act.via, {**act.traits, **traits} if traits else act.traits)


def _parts(text: str, setting: Setting) -> Iterator[tuple[int, str]]:
    """Yield (start, part) of a text: itself, or where it is too long its two ends and lines around what the setting protects."""
    if len(text) <= LONGEST:
        yield 0, text
        return
    half = LONGEST // 2
    yield 0, text[:half]
    count, last = 0, half
    for found in pattern(_protected(setting)).finditer(text, half, len(text) - half):
        if found.start() >= last:
            begin = max(last, text.rfind("\n", found.start() - WINDOW, found.start()) + 1 or found.start() - WINDOW)
            last = begin + 2 * WINDOW
            yield begin, text[begin:last]
            count += 1
            if count == MOST_WINDOWS:
                break
    yield len(text) - half, text[-half:]


def _protected(setting: Setting) -> str:
    """Return a pattern of the words that protected paths are made of, and of those that cheats need in any task."""
    paths = (*setting.protected_read, *setting.protected_write, *setting.hidden_tests, *setting.verifier, *setting.result_file)
    words = {word for path in paths if " " not in path for word in path.split("/") if len(word) > 3 and "*" not in word}
    return alternatives((*_ALWAYS, *(re.escape(word) for word in sorted(words)[:MOST_WORDS])))


def _text(arguments: Any) -> str:
    """Return the arguments as lines, each shortened in its middle."""
    items = arguments.items() if isinstance(arguments, Mapping) else [("", arguments)]
    return "\n".join(f"{readable(str(name))}: {_shortened(value)}" for name, value in list(items)[:MOST_ARGUMENTS])


def _shortened(value: Any) -> str:
    if isinstance(value, list | tuple) and all(isinstance(one, str) for one in value[:MOST_ARGUMENTS]):
        value = " ".join(value[:MOST_ARGUMENTS])
    try:
        words = value if isinstance(value, str) else str(value)
    except RecursionError:
        words = "nested too deeply to be shown"
    half = LONGEST_QUOTED // 2
    if len(words) > LONGEST_QUOTED:
        words = f"{words[:half]} […{len(words) - 2 * half}…] {words[-half:]}"
    return readable(words)
