"""What a call of a library does, by the table -> acts."""

from __future__ import annotations

import ast
import functools
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rosellm.roserlhf.guard.act import UNKNOWN, Act, ActKind
from rosellm.roserlhf.guard.python import leaving, names, places
from rosellm.roserlhf.guard.python.apis import Api
from rosellm.roserlhf.guard.python.findings import short as short
from rosellm.roserlhf.guard.python.fold import NOTHING
from rosellm.roserlhf.guard.python.machine import Machine
from rosellm.roserlhf.guard.python.value import (
    FROM_FILES,
    LONGEST_NAME,
    STAR,
    Choice,
    Closure,
    Contents,
    File,
    Klass,
    Partial,
    Place,
    Thing,
    names_in,
    options,
    paths,
    sources,
    text,
    texts,
)

if TYPE_CHECKING:
    from rosellm.roserlhf.guard.python.calling import Call

URL = re.compile(r"^(?:https?|ftps?|git|ssh|wss?|s3|gs|hf)(?:\+\w+)?://", re.IGNORECASE)
_WRITES = re.compile(
    r"(?:^|_|\.)(?:write|save|dump|export|store|append|touch|put|set|add|update|replace|rewrite|render_to|to)(?:_|[A-Z]|$)"
)
_LOOKS_LIKE_PATH = re.compile(
    r"^(?:[~.]{0,2}/)?[\w.@+\-]+(?:/[\w.@+\-*?\[\]\ufffc]+)+/?$|^/$|^[\w\-]+\.(?:csv|tsv|json|jsonl|parquet|txt|npy|npz|pt|"
    r"pth|pkl|pickle|yaml|yml|toml|db|sqlite|ipynb|xml|feather|h5|py|log|out|ans|in)$"
)
_HARMLESS = re.compile(
    r"^(?:logging|logger|log|re|argparse|unittest|warnings|math|datetime|collections|typing|dataclasses|enum|textwrap|"
    r"string|hashlib|"
    r"print|matplotlib|seaborn|rich|tqdm|click|sympy|itertools|functools|random|time|struct|decimal|fractions|statistics|colorama|"
    r"str|int|input|len|isinstance|issubclass|hasattr|type|repr|super|property|staticmethod|classmethod|object|ValueError|"
    r"RuntimeError|"
    r"Exception|KeyError|TypeError|FileNotFoundError|AssertionError|NotImplementedError|OSError|IOError|hash|id|mock)(?:\.|\(|$)"
)
_HARMLESS_METHODS = names_in(
    "format add_argument startswith endswith append extend info debug warning error critical exception print log "
    "match search sub split findall fullmatch compile replace join assertEqual assertTrue assertIn assertRaises "
    "set_title set_xlabel plot insert pop get setdefault count index strip remove discard add isin contains groupby "
    "sort_values drop rename set_index fillna merge"
)


def of(call: Call, api: Api) -> Any:
    """Add the acts of a call that the table knows; return its value."""
    return _KINDS[api.kind](call, api)


def _targets(call: Call, api: Api) -> list[Any]:
    return [call.argument(place.position, place.keyword) for place in api.places]


LONGEST_PATH = 1000
"""Characters of a text that may be meant as a path."""


def is_data(value: Any) -> bool:
    """Tell text that is meant as data from text that is meant as a path."""
    return type(value) is str and ("\n" in value or len(value) > LONGEST_PATH)


_NO_PATHS = frozenset((Contents, File, dict, bool, int, float))


def reads(call: Call, value: Any, detail: str, kind: ActKind = "read", **traits: str) -> list[str]:
    """Add reads, or other acts on paths; addresses are fetched. Return the paths."""
    machine, found = call.machine, []
    for one in value.options if type(value) is Choice else (value,):
        kind_of = type(one)
        if kind_of in _NO_PATHS or (kind_of is str and ("\n" in one or len(one) > LONGEST_PATH)):
            continue
        for path in (one,) if kind_of is str else paths(one):
            if "://" in path and URL.match(path):
                machine.nested("url", path, call.node)
            else:
                full = machine.path(path)
                on_path(machine, kind, full, detail, call.node, **traits)
                found.append(full)
    return found


def on_path(machine: Machine, kind: ActKind, path: str, detail: str, node: ast.AST | None, **traits: str) -> None:
    """Add an act on a path, and what that path says of other processes."""
    machine.findings.add(kind, path, detail, node, **traits)
    if path.startswith("/proc/") and kind in ("read", "write"):
        who = path.split("/")[2]
        if who.isdigit() or UNKNOWN in who or who in ("*", "parent", "1") or "*" in who:
            machine.findings.add("process", path, detail, node)


_WRITING, _MODES = frozenset("wax+"), frozenset("rwabxt+:gz2|")
"""Letters of a mode in which a file is written, and of any mode."""


def _read(call: Call, api: Api) -> Any:
    targets = _targets(call, api)
    mode = text(call.argument(1, "mode", "r")) if call.name not in ("fileinput.input",) else "r"
    found: list[str] = []
    for target in targets:
        if len(mode) <= 4 and not _WRITING.isdisjoint(mode) and _MODES.issuperset(mode) and "joblib" not in call.name:
            found += reads(call, target, call.name, "write", mode=mode)
            if "+" not in mode:
                continue
        found += reads(call, target, call.name)
    if call.name == "importlib.util.spec_from_file_location":
        for path in found:
            call.machine.findings.add("import", path, call.name, call.node)
    if call.name.startswith("fileinput.") and call.keywords.get("inplace") is True:
        reads(call, targets[0], call.name, "write", mode="inplace")
    known = tuple(dict.fromkeys([*found, *sources(*targets, *call.arguments)]))
    return Contents(known or (UNKNOWN,), name=call.name)


def _write(call: Call, api: Api) -> Any:
    traits = origin(call.owner, *call.arguments, *call.keywords.values())
    for target in _targets(call, api):
        if target is not None:
            reads(call, target, call.name, "write", **traits)
    return Thing(f"{call.name}()", call.argument(api.places[0].position, api.places[0].keyword))


def origin(*values: Any) -> dict[str, str]:
    """Return the traits that say where written data comes from, and what was replaced in it."""
    traits = {}
    read = sources(*values)
    if read:
        traits["from"] = " ".join(read)
    edits = [edit for value in values for one in options(value) if type(one) is Contents for edit in one.edits]
    if edits:
        traits["replaces"] = short(" | ".join(old for old, _ in edits[:8]))
        traits["by"] = short(" | ".join(new for _, new in edits[:8]))
    return traits


def replacements(content: Any) -> list[tuple[str, str]]:
    """Return what was put in the place of other words in data that was read, as pairs of what goes and what comes."""
    return [edit for one in options(content) if type(one) is Contents for edit in one.edits]


def _delete(call: Call, api: Api) -> Any:
    for target in _targets(call, api):
        reads(call, target, call.name, "delete")
    return None


def _stat(call: Call, api: Api) -> Any:
    for target in _targets(call, api):
        reads(call, target, call.name, "list", stat="yes")
    return NOTHING


def _list(call: Call, api: Api) -> Any:
    for target in _targets(call, api):
        reads(call, target, call.name, "list")
    return Contents((UNKNOWN,))


def _copy(call: Call, api: Api) -> Any:
    source, target = _targets(call, api)
    found = reads(call, source, call.name)
    written = reads(call, target, call.name, "write", **({"from": " ".join(found)} if found else {}))
    return written[0] if written else NOTHING


def _move(call: Call, api: Api) -> Any:
    source, target = _targets(call, api)
    if call.owner is not None and target is None:
        source, target = call.owner, call.argument(0)
    found = reads(call, source, call.name, "delete", moved="yes")
    reads(call, target, call.name, "write", **({"from": " ".join(found)} if found else {}))
    for path in found:
        content = call.machine.files.pop(path, None)
        for new in call.machine.paths(target) if content is not None else ():
            call.machine.files[new] = content or ""
    return target


def link(call: Call, target: Any, to: Any) -> None:
    """Add the act of making a link; later paths follow it."""
    machine = call.machine
    for place in machine.paths(target):
        for source in texts(to):
            machine.findings.add("link", place, machine.path(source), call.node)
            if UNKNOWN not in place + source:
                machine.set_link(place, machine.path(source))


def _link(call: Call, api: Api) -> Any:
    target, to = _targets(call, api)
    link(call, target, to)
    return None


def _database(call: Call, api: Api) -> Any:
    target = _targets(call, api)[0]
    found = []
    for one in texts(target) if target is not None else ():
        if one == ":memory:" or one.endswith("://"):
            continue
        if "://" in one and not one.startswith(("sqlite", "duckdb", "file")):
            call.machine.findings.add("fetch", one, call.name, call.node)
        else:
            found += reads(call, one.partition("?")[0].removeprefix("file:"), call.name, "read", database="yes")
    return Thing("database", found[0] if found else None)


def command(value: Any) -> list[str]:
    """Return the command lines that an argument of a subprocess may be."""
    found = []
    for one in options(value):
        if type(one) in (list, tuple):
            words = [_word(part) for part in one[:256]]
            found.append(" ".join(words))
        elif type(one) in (str, bytes, Place):
            found.append(text(one))
    return found


def _word(value: Any) -> str:
    word = text(value)
    return word if word == UNKNOWN or STAR in word else shlex.quote(word)


def _shell(call: Call, api: Api) -> Any:
    place = api.places[0]
    value = call.argument(place.position, place.keyword)
    last = call.name.rpartition(".")[2]
    rest = call.arguments[place.position + 1 :]
    if last == "create_subprocess_exec":
        value = call.arguments
    elif last.startswith(("execl", "spawnl")):  # what the program is told to be called does not matter
        value = [value, *(one for one in rest[1:] if type(one) is not dict)]
    elif last.startswith(("execv", "spawnv", "posix_spawn")):
        words = rest[0] if rest and type(rest[0]) in (list, tuple) else [UNKNOWN, UNKNOWN]
        value = [value, *words[1:]]
    elif last in ("run_process", "spawn") and type(call.argument(1)) in (list, tuple):
        value = [value, *call.argument(1)]
    return shell(call, value)


def shell(call: Call, value: Any) -> Any:
    """Read a command that is started."""
    machine = call.machine
    scene = machine.scene
    for where in machine.paths(call.keywords["cwd"])[:1] if call.keywords.get("cwd") is not None else ():
        scene = replace(scene, workdir=where)
    given = call.keywords.get("env")
    if type(given) is dict:
        scene = replace(scene, variables={**scene.variables, **{k: text(v) for k, v in given.items() if type(k) is str}})
        for name, held in given.items():
            if type(name) is str:
                machine.findings.add("environment", name, f"set {short(text(held))}", call.node, child="yes")
    lines = command(value)
    acts: list[Act] = []
    for line in lines:
        given = call.keywords.get("input")
        if type(given) in (str, bytes):
            line = f"{line} <<'END_OF_INPUT'\n{text(given)}\nEND_OF_INPUT"
        acts += machine.nested("shell", line, call.node, scene=scene)
    if not lines and value is not None:
        machine.findings.add("opaque", "command that only running would tell", call.name, call.node, **origin(value))
    if call.name.endswith("Popen"):
        return Thing("subprocess.Popen()")
    read = tuple(dict.fromkeys(act.target for act in acts if act.kind in ("read", "list")))[:8]
    return Contents(read or (UNKNOWN,), name=call.name)


def address(value: Any) -> list[str]:
    """Return the addresses that an argument may be: URLs, or host and port."""
    found = []
    for one in options(value):
        if type(one) in (tuple, list) and one:
            found.append(":".join(text(part) for part in one[:2]))
        elif type(one) is Thing and type(one.subject) is str:
            found.append(one.subject)
        elif type(one) in (str, bytes):
            found.append(text(one))
        elif one is not None:
            found.append(UNKNOWN)
    return found


_SENT = ("data", "json", "params", "cookies", "headers", "auth", "content", "body")


def _said(call: Call) -> tuple[str, str]:
    """Return how a request is made and what goes with it."""
    verb = call.name.rpartition(".")[2]
    method = text(call.argument(0)) if verb == "request" else verb if verb in ("post", "put", "patch", "delete") else call.name
    given = [*call.arguments[1:3], *(call.keywords[key] for key in _SENT if key in call.keywords)]
    sent = " ".join(words for one in given if (words := _spelled(one)))
    return method, short(sent, 2_000)


def _spelled(value: Any) -> str:
    """Write what a request carries as `name=value` pairs."""
    if type(value) is dict:
        return "&".join(f"{text(key)}={_spelled(one)}" for key, one in list(value.items())[:40])
    if type(value) in (list, tuple):
        return " ".join(_spelled(one) for one in value[:40])
    return text(value) if value is not None else ""


def _fetch(call: Call, api: Api) -> Any:
    place = api.places[0]
    value = call.argument(place.position, place.keyword)
    found = address(value)
    for one in found:
        if one.lower().startswith("file:"):
            reads(call, one, call.name)
        elif "://" in one:
            method, sent = _said(call)
            call.machine.nested("url", one, call.node, method=method, sent=sent)
        else:
            call.machine.findings.add("fetch", one, call.name, call.node)
    return Thing(f"{call.name}()", found[0] if found else None)


def _search(call: Call, api: Api) -> Any:
    for one in texts(call.argument(api.places[0].position, api.places[0].keyword, "")):
        call.machine.nested("query", one, call.node)
    return Thing(f"{call.name}()")


def _source(call: Call, api: Api) -> Any:
    value = call.argument(api.places[0].position, api.places[0].keyword)
    found = []
    for one in options(value):
        while type(one) is Thing and type(one.subject) is Thing:
            one = one.subject
        if type(one) is Thing and type(one.subject) is str and one.subject.startswith(("/", UNKNOWN)):
            found += reads(call, one.subject, call.name)
        elif type(one) is Contents:
            found += one.paths
        elif (type(one) is Thing and one.name) or type(one) is str:
            name = one.name if type(one) is Thing else text(one)
            if call.name in _NAME_FILES and name.partition("(")[0] in call.machine.modules:
                found.append(places.of_module(name, names.library(name)))  # says where it lies, and opens nothing
                continue
            found.append(read_module(call.machine, name, call.name, call.node))
        elif type(one) in (Closure, Klass):
            continue
        elif one is not None:
            call.machine.findings.add("read", f"{UNKNOWN}.py", call.name, call.node, module=UNKNOWN)
            found.append(UNKNOWN)
    if found and call.name in _GIVE_PATHS:
        return Place(found[0].rpartition("/")[0] if call.name.endswith("files") else found[0])
    return Contents(tuple(found), name=call.name) if found else NOTHING


_NAME_FILES = frozenset(("inspect.getfile", "inspect.getsourcefile"))
_GIVE_PATHS = frozenset(
    (
        "inspect.getfile",
        "inspect.getsourcefile",
        "importlib.resources.files",
        "importlib_resources.files",
        "pkg_resources.resource_filename",
    )
)


def read_module(machine: Machine, name: str, detail: str, node: ast.AST | None) -> str:
    """Add the read of a module's source; `name` may go on into the module."""
    name = name.partition("(")[0].partition("[")[0]
    module = name
    while "." in module and module not in machine.modules:
        module = module.rpartition(".")[0]
    module = module if module in machine.modules else name
    path = places.of_module(module, names.library(module))
    machine.findings.add("read", path, detail, node, module=name)
    return path


def _plain(kind: ActKind) -> Callable[[Call, Api], Any]:
    def add(call: Call, api: Api) -> Any:
        value = call.argument(api.places[0].position, api.places[0].keyword)
        target = call.name if value is None else _described(call, value)
        traits = {}
        if kind == "process" and type(value) is Thing:
            if value.name == "os.getpid()" or value.subject == "self":
                traits["own"] = "yes"
            about = value.name if api.places[0].position >= 0 and value.name else UNKNOWN
            target = text(value.subject) if type(value.subject) is str else about
            if traits and call.name in ("os.kill", "os.killpg", "signal.raise_signal"):
                leaving.add(call.machine, "?", call.name, call.node)
        call.machine.findings.add(kind, target, call.name, call.node, **traits)
        if kind == "schedule":
            background(call, value)
        return Thing(f"{call.name}()", value.subject if type(value) is Thing else None)

    return add


def _described(call: Call, value: Any) -> str:
    match value:
        case str() | bytes() | int():
            return text(value)
        case Thing():
            return value.name or UNKNOWN
        case Closure():
            return getattr(value.node, "name", "lambda")
    return UNKNOWN


def _frame(call: Call, _: Api) -> Any:
    about = call.argument(0)
    traits = {"depth": str(about)} if type(about) is int else {}
    call.machine.findings.add("frame", call.name, call.name, call.node, **traits)
    call.machine.guards.append(call.name)
    return Thing(f"{call.name}()")


def _hook(call: Call, api: Api) -> Any:
    value = call.argument(api.places[0].position, api.places[0].keyword)
    detail = "None" if value is None else _described(call, value)
    call.machine.findings.add("patch", call.name, detail, call.node, hook="yes")
    later(call, value, call.name.partition(".")[0] if call.name in ("atexit.register", "signal.signal") else "hook")
    return value


def later(call: Call, value: Any, where: str, arguments: Sequence[Any] = ()) -> None:
    """Read a function where it will be called from."""
    from rosellm.roserlhf.guard.python import calling

    with call.machine.inside(where):
        if type(value) is Closure and id(value.node) not in call.machine.visited:
            calling.run(call.machine, value, list(arguments), {})
        elif type(value) in (Thing, Partial) and where in ("atexit", "signal"):
            calling.call(call.machine, value, call.arguments[1:], {}, call.node)


def _exit(call: Call, api: Api) -> Any:
    return leaving.call(call, api)


def background(call: Call, function: Any) -> None:
    """Read what a thread, a timer or a child process runs."""
    given = call.keywords.get("args", call.argument(2) if call.name.endswith("Timer") else ())
    if call.name.endswith((".submit", "create_task", "start_new_thread")):
        given = call.arguments[1:]
    later(call, function, "child" if call.name.endswith("Process") else "background", given if type(given) in (list, tuple) else ())


def _decode(call: Call, _: Api) -> Any:
    call.machine.findings.add("decode", short(text(call.argument(0))), call.name, call.node)
    return Thing(f"{call.name}()", None)


def _detect(call: Call, _: Api) -> Any:
    call.machine.guards.append(call.name)
    return Thing(f"{call.name}()")


def _skip(call: Call, _: Api) -> Any:
    call.machine.findings.add("code", "skips test", call.name, call.node)
    return NOTHING


def _opened(call: Call, api: Api) -> Any:
    found = reads(call, _targets(call, api)[0], call.name)
    return Thing(f"{call.name}()", found[0] if found else None)


_KINDS: dict[str, Callable[[Call, Api], Any]] = {
    "read": _read,
    "write": _write,
    "delete": _delete,
    "stat": _stat,
    "list": _list,
    "copy": _copy,
    "move": _move,
    "link": _link,
    "database": _database,
    "opened": _opened,
    "shell": _shell,
    "fetch": _fetch,
    "search": _search,
    "source": _source,
    "frame": _frame,
    "process": _plain("process"),
    "schedule": _plain("schedule"),
    "hook": _hook,
    "exit": _exit,
    "decode": _decode,
    "skip": _skip,
    "detect": _detect,
}


def guess(call: Call) -> Any:
    """Read a call of something that is not known: addresses are fetched, what looks like a path is read, or written by its name."""
    name = call.name
    owner = call.owner
    values = [*call.arguments, *call.keywords.values()] if call.keywords else call.arguments
    kinds = set(map(type, values))
    read = () if FROM_FILES.isdisjoint(kinds) and type(owner) not in FROM_FILES else sources(*values, owner)
    found: list[str] = []
    if not _SPEAKING.isdisjoint(kinds) and not (_is_harmless if len(name) <= LONGEST_NAME else _match_harmless)(name):
        for value in values[:12]:
            kind = type(value)
            if kind in _TOLD:
                found += _guessed(call, value, name)
            elif kind is Choice:
                for one in value.options:
                    found += _guessed(call, one, name)
        if Closure in kinds and (owner is None or type(owner) is Thing):
            _callbacks(call, values)
    if found:
        return Contents(tuple(dict.fromkeys((*read, *found)))[:8], (), name)
    if read:
        return Contents(read, (), name)
    subject = owner.subject if type(owner) is Thing else None
    if subject is None and values and type(values[0]) in (str, Place) and not is_data(values[0]):
        subject = text(values[0])
    return Thing(f"{name}()" if name and len(name) < 120 else "?()", subject)


def _match_harmless(name: str) -> bool:
    """Tell whether a function, by its dotted name, neither reads nor writes files; a class that is got by climbing may be any."""
    if name.rpartition(".")[2] in _HARMLESS_METHODS:
        return True
    return _HARMLESS.match(name) is not None and "__subclasses__" not in name


_is_harmless = functools.lru_cache(2_048)(_match_harmless)
"""The same; it remembers the names of most programs."""


_TOLD = frozenset((str, bytes, Place))
"""Kinds of values that may be a path or an address."""
_SPEAKING = _TOLD | {Choice, Closure}
"""Kinds of values that tell what a call of something that is not known does."""


def _guessed(call: Call, value: Any, name: str) -> list[str]:
    if type(value) not in _TOLD or is_data(value):
        return []
    words = text(value)
    if "://" in words and URL.match(words):
        call.machine.nested("url", words, call.node, guess="yes")
        return []
    if type(value) is Place or words.startswith(("sqlite://", "file://")) or (len(words) < 512 and _LOOKS_LIKE_PATH.match(words)):
        kind: ActKind = "write" if _WRITES.search(name.rpartition(".")[2]) else "read"
        if not words.startswith(("application/", "text/", "image/")):
            return reads(call, value, name or "?", kind, guess="yes")
    return []


def _callbacks(call: Call, values: list[Any]) -> None:
    """Read functions that a library is handed, once."""
    for value in values[:12]:
        if type(value) is Closure and id(value.node) not in call.machine.visited:
            from rosellm.roserlhf.guard.python import calling

            calling.run(call.machine, value, [], {})


def chosen(value: Any) -> Any:
    """Return the first option of a value."""
    return value.options[0] if type(value) is Choice else value
