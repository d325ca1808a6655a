"""Functions whose meaning a table cannot hold: built-in ones, `os`, `pathlib`, environment, dynamic attributes."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rosellm.roserlhf.guard.act import UNKNOWN
from rosellm.roserlhf.guard.python import assigning, attributes, calling, dynamic, effects, expressions, fold
from rosellm.roserlhf.guard.python.fold import NOTHING
from rosellm.roserlhf.guard.python.value import (
    STAR,
    Choice,
    Closure,
    Contents,
    File,
    Partial,
    Place,
    Thing,
    choice,
    known,
    options,
    sources,
    spread,
    sure,
    text,
)

if TYPE_CHECKING:
    from rosellm.roserlhf.guard.python.calling import Call

LONGEST_FILE = 1 << 16


def _open(call: Call) -> Any:
    """`open` and its like."""
    target = call.argument(0, "file")
    mode = text(call.argument(1, "mode", "r"))
    made: list[Any] = []
    for one in options(target):
        if type(one) is int or (type(one) is Thing and one.name == "os.open()"):
            made.append(File(text(one.subject), True) if type(one) is Thing and type(one.subject) is str else NOTHING)
            continue
        if type(one) is Contents:
            effects.reads(call, UNKNOWN, call.name, "write" if set(mode) & set("wax") else "read", **effects.origin(one))
            made.append(File(UNKNOWN))
            continue
        writes = bool(set(mode) & set("wax+")) or UNKNOWN in mode
        for path in effects.reads(call, one, call.name, "write", mode=mode) if writes else ():
            _opened(call, path, mode)
            made.append(File(path, True))
        if not writes or "+" in mode or UNKNOWN in mode:
            made += [File(path, writes) for path in effects.reads(call, one, call.name)]
    return choice(made) if made else NOTHING


def _opened(call: Call, path: str, mode: str) -> None:
    machine = call.machine
    if machine.dead or (path in machine.files and "a" in mode):
        return
    machine.files[path] = "" if "w" in mode or "x" in mode else machine.scene.files.get(path, UNKNOWN + "\n")


def write(call: Call, path: str, content: Any, detail: str) -> None:
    """Note what is written to a file."""
    machine = call.machine
    traits = effects.origin(content)
    if traits:
        machine.findings.add("write", path, detail, call.node, **traits)
    if not machine.dead:
        piece = "\n".join(map(text, content)) if type(content) in (list, tuple) else text(content)
        machine.files[path] = (machine.files.get(path, "") + piece)[:LONGEST_FILE]


def file_method(call: Call) -> Any:
    """A method of an open file."""
    file = call.owner
    match call.name:
        case "read" | "readline" | "readall" | "readinto" | "read1" | "getvalue":
            return attributes.contents(call.machine, file)
        case "readlines":
            return [attributes.contents(call.machine, file)]
        case "write" | "writelines":
            write(call, file.path, call.argument(0), "write")
            return NOTHING
        case "truncate":
            call.machine.findings.add("delete", file.path, "truncate", call.node)
        case "__enter__" | "detach" | "reconfigure":
            return file
        case "fileno":
            return Thing("fileno()", file.path)
    return NOTHING


def place_method(call: Call) -> Any:
    """A method of a `pathlib` path."""
    machine, path, name = call.machine, call.owner.text, call.name
    call.name = f"pathlib.Path.{name}"
    match name:
        case "open":
            call.arguments = [call.owner, *call.arguments]
            return _open(call)
        case "read_text" | "read_bytes":
            found = effects.reads(call, call.owner, call.name)
            return attributes.contents(machine, File(found[0])) if found else NOTHING
        case "write_text" | "write_bytes":
            content = call.argument(0, "data")
            for one in effects.reads(call, call.owner, call.name, "write", **effects.origin(content)):
                machine.files.pop(one, None)
                write(call, one, content, call.name)
            return NOTHING
        case "unlink" | "rmdir":
            effects.reads(call, call.owner, call.name, "delete")
        case "touch" | "mkdir" | "chmod" | "lchmod":
            effects.reads(call, call.owner, call.name, "write")
        case "rename" | "replace" | "move" | "move_into":
            found = effects.reads(call, call.owner, call.name, "delete", moved="yes")
            effects.reads(call, call.argument(0, "target"), call.name, "write", **{"from": " ".join(found)})
            for new in machine.paths(call.argument(0, "target"))[:1]:
                if found and found[0] in machine.files and not machine.dead:
                    machine.files[new] = machine.files.pop(found[0])
            return call.argument(0, "target")
        case "copy" | "copy_into":
            found = effects.reads(call, call.owner, call.name)
            effects.reads(call, call.argument(0, "target"), call.name, "write", **{"from": " ".join(found)})
        case "symlink_to" | "hardlink_to" | "link_to":
            effects.link(call, call.owner, call.argument(0, "target"))
        case "exists" | "is_file" | "is_dir" | "stat" | "lstat" | "is_symlink" | "samefile" | "owner" | "group":
            effects.reads(call, call.owner, call.name, "list", stat="yes")
        case "readlink":
            effects.reads(call, call.owner, call.name, "list", stat="yes")
            return Place(UNKNOWN)
        case "iterdir":
            effects.reads(call, call.owner, call.name, "list")
            return [Place(posixpath.join(path, STAR))]
        case "glob" | "rglob":
            return _globbed(call, text(call.argument(0, "pattern")), name == "rglob")
        case "walk":
            effects.reads(call, call.owner, call.name, "list", recursive="yes")
            return [(Place(posixpath.join(path, STAR * 2)), [STAR], [STAR])]
        case _:
            return _place_value(call, path, name)
    return NOTHING


def _globbed(call: Call, pattern: str, deep: bool) -> Any:
    full = posixpath.join(call.owner.text, STAR * 2 if deep else "", pattern.replace("*", STAR))
    effects.reads(call, Place(full), call.name, "list", glob="yes")
    return [Place(full)]


def _place_value(call: Call, path: str, name: str) -> Any:
    first = text(call.argument(0)) if call.arguments else ""
    match name:
        case "joinpath" | "__truediv__":
            return Place(posixpath.join(path, *(text(one) for one in call.arguments)))
        case "resolve" | "absolute" | "expanduser":
            return Place(call.machine.path(path))
        case "with_suffix":
            return Place(posixpath.splitext(path)[0] + first)
        case "with_name":
            return Place(posixpath.join(posixpath.dirname(path), first))
        case "with_stem":
            return Place(posixpath.join(posixpath.dirname(path), first + posixpath.splitext(path)[1]))
        case "as_posix" | "__str__" | "__fspath__":
            return path
        case "as_uri":
            return "file://" + call.machine.path(path)
        case "relative_to":
            return Place(path.removeprefix(first).lstrip("/") or ".")
    return NOTHING


def contents_method(call: Call) -> Any:
    """A method of what was read from a file, or of a value that was computed from it."""
    owner, name = call.owner, call.name
    full = f"{owner.name}().{name}"
    if name in ("replace", "sub") and len(call.arguments) >= 2:
        edit = (text(call.argument(0)), text(call.argument(1)))
        return Contents(owner.paths, (*owner.edits, edit)[:16], owner.name)
    from rosellm.roserlhf.guard.python import apis

    api = apis.table().find(full) or apis.table().methods.get(name)
    if api is not None:
        call.name = full if owner.name else name
        effects.of(call, api)
        return owner
    handler = METHODS.get(name)
    if handler is not None and name in ("execute", "executescript", "executemany", "exec_module", "load_module"):
        return handler(call)
    for one in (*call.arguments, *call.keywords.values()):
        if type(one) is Closure and id(one.node) not in call.machine.visited:
            calling.run(call.machine, one, [owner], {})
    read = sources(owner, *call.arguments, *call.keywords.values())
    return Contents(read or owner.paths, owner.edits, owner.name)


def collection_method(call: Call) -> Any:
    """A method that changes a list, dictionary or set; None if it is none."""
    owner, name, first = call.owner, call.name, call.argument(0)
    if call.machine.dead:
        return None
    match owner, name:
        case list(), "append" if len(owner) < fold.LARGEST:
            owner.append(first)
        case list(), "extend":
            owner.extend(expressions.iterate(call.machine, first)[: fold.LARGEST - len(owner)])
        case list(), "insert" if len(call.arguments) == 2:
            owner.insert(first if type(first) is int else 0, call.argument(1))
        case list(), "pop":
            return owner.pop(first if type(first) is int and -len(owner) <= first < len(owner) else -1) if owner else NOTHING
        case list(), "reverse":
            owner.reverse()
        case list(), "sort":
            if known(owner):
                owner[:] = fold.call("sorted", [owner], {}) if type(fold.call("sorted", [owner], {})) is list else owner
        case dict(), "update" if type(first) is dict:
            owner.update(first)
        case dict(), "setdefault" if known(first) and type(first) not in (list, dict):
            return owner.setdefault(first, call.argument(1))
        case dict(), "pop" if known(first) and type(first) not in (list, dict):
            return owner.pop(first, call.argument(1, default=NOTHING))
        case dict(), "get" if type(first) is not Choice and not known(first):
            return choice([*list(owner.values())[:6], call.argument(1)])
        case _:
            return None
    return NOTHING


# Built-in functions


def _iterable(call: Call) -> list[Any]:
    return expressions.iterate(call.machine, call.argument(0), call.node) if call.arguments else []


def _sequence(call: Call) -> Any:
    value = call.argument(0)
    if type(value) is Thing and value.name == "os.environ":
        call.machine.findings.add("environment", "*", "read", call.node, use="copy")
    if type(value) is dict and call.name == "dict":
        return {**value, **call.keywords}
    if call.name == "dict":
        pairs = [one for one in _iterable(call) if type(one) in (tuple, list) and len(one) == 2 and known(one[0])]
        return {**{one[0]: one[1] for one in pairs if type(one[0]) not in (list, dict)}, **call.keywords}
    found = _iterable(call)
    return tuple(found) if call.name == "tuple" else found


def _mapped(call: Call) -> Any:
    lists = [expressions.iterate(call.machine, one, call.node) for one in call.arguments[1:]]
    found = []
    for count, each in enumerate(zip(*lists, strict=False)):
        if count and not call.machine.spend():
            break
        found.append(calling.call(call.machine, call.argument(0), list(each), {}, call.node))
    return found


def _filtered(call: Call) -> Any:
    found = expressions.iterate(call.machine, call.argument(1), call.node)
    kept = []
    for count, one in enumerate(found):
        if count and not call.machine.spend():
            break
        test = True if call.argument(0) is None else calling.call(call.machine, call.argument(0), [one], {}, call.node)
        if not sure(test) or test:
            kept.append(one)
    return kept


def _zipped(call: Call) -> Any:
    lists = [expressions.iterate(call.machine, one, call.node) for one in call.arguments]
    return list(zip(*lists, strict=False)) if lists else []


def _enumerated(call: Call) -> Any:
    start = call.argument(1, "start", 0)
    return list(enumerate(_iterable(call), start if type(start) is int else 0))


def _reversed(call: Call) -> Any:
    return list(reversed(_iterable(call)))


def _next(call: Call) -> Any:
    found = _iterable(call)
    return choice(found[:4]) if found else call.argument(1, default=NOTHING)


def _reduce(call: Call) -> Any:
    values = expressions.iterate(call.machine, call.argument(1), call.node)
    if len(call.arguments) > 2:
        values = [call.argument(2), *values]
    if not values:
        return NOTHING
    found = values[0]
    for one in values[1:]:
        if not call.machine.spend():
            return NOTHING
        found = calling.call(call.machine, call.argument(0), [found, one], {}, call.node)
    return found


def _partial(call: Call) -> Any:
    return Partial(call.argument(0), call.arguments[1:], call.keywords)


def _print(call: Call) -> Any:
    for value in call.arguments:
        if type(value) is Thing and value.name == "os.environ":
            call.machine.findings.add("environment", "*", "read", call.node)
    target = call.keywords.get("file")
    for one in options(target):
        if type(one) is File:
            write(call, one.path, " ".join(map(text, call.arguments)) + "\n", "print")
    return None


# The system


def _joined(call: Call) -> Any:
    return spread(lambda *parts: posixpath.join(*map(text, parts)) if parts else "", *call.arguments)


def _absolute(call: Call) -> Any:
    return spread(lambda one: one if type(one) is Contents else call.machine.path(text(one)), call.argument(0, "path", ""))


def _expanded(call: Call) -> Any:
    machine = call.machine

    def expand(value: Any) -> Any:
        words = text(value)
        for name, held in machine.scene.variables.items():
            words = words.replace("${" + name + "}", held)
            if name.isalnum() or "_" in name:
                words = words.replace("$" + name, held)
        return machine.path(words) if words.startswith("~") else words.replace("$HOME", machine.scene.home)

    return spread(expand, call.argument(0, "path", ""))


def _place(call: Call) -> Any:
    return spread(lambda *parts: Place(posixpath.join(*(text(one) for one in parts)) if parts else "."), *call.arguments)


def _os_open(call: Call) -> Any:
    flags = call.argument(1, "flags", 0)
    writes = type(flags) is not int or flags & 3
    found = effects.reads(call, call.argument(0, "path"), call.name, "write", mode="os.open") if writes else []
    if type(flags) is not int or flags & 3 != 1:
        found += effects.reads(call, call.argument(0, "path"), call.name)
    return Thing("os.open()", found[0] if found else None)


def _os_read(call: Call) -> Any:
    found = call.argument(0)
    return Contents((found.subject,)) if type(found) is Thing and type(found.subject) is str else NOTHING


def _os_write(call: Call) -> Any:
    found = call.argument(0)
    if type(found) is Thing and type(found.subject) is str:
        write(call, found.subject, call.argument(1), "os.write")
    return NOTHING


def _listed(call: Call) -> Any:
    value = call.argument(0, "path", ".")
    found: list[Any] = []
    for one in options(value):
        effects.reads(call, one, call.name, "list")
        base = text(one)
        found.append(STAR if call.name == "os.listdir" else Thing("os.DirEntry", posixpath.join(base, STAR)))
    return found


def _walked(call: Call) -> Any:
    value = call.argument(0, "top", ".")
    found = []
    for one in options(value):
        effects.reads(call, one, call.name, "list", recursive="yes")
        found.append((posixpath.join(text(one), STAR * 2), [STAR], [STAR]))
    return found


def _glob(call: Call) -> Any:
    root = call.keywords.get("root_dir")
    found: list[Any] = []
    for one in options(call.argument(0, "pathname")):
        pattern = (posixpath.join(text(root), text(one)) if root is not None else text(one)).replace("*", STAR)
        effects.reads(call, Place(pattern), call.name, "list", glob="yes")
        found.append(pattern)
    return found


def _change_directory(call: Call) -> Any:
    for place in call.machine.paths(call.argument(0, "path"))[:1]:
        if UNKNOWN not in place:
            call.machine.change(workdir=place)
    return None


def _get_variable(call: Call) -> Any:
    name = text(call.argument(0, "key"))
    return attributes.variable(call.machine, name, call.node, call.argument(1, "default"))


def _pop_variable(call: Call) -> Any:
    assigning.set_variable(call.machine, text(call.argument(0)), "", call.node, "unset")
    return UNKNOWN


def _set_variable(call: Call) -> Any:
    assigning.set_variable(call.machine, text(call.argument(0)), call.argument(1), call.node)
    return call.argument(1)


def _update_variables(call: Call) -> Any:
    given = call.argument(0)
    for name, value in {**(given if type(given) is dict else {}), **call.keywords}.items():
        assigning.set_variable(call.machine, text(name), value, call.node)
    return None


def _all_variables(call: Call) -> Any:
    copy = {"use": "copy"} if call.name.endswith("copy") else {}
    call.machine.findings.add("environment", "*", "read", call.node, **copy)
    return dict(call.machine.scene.variables) if copy else Thing("os.environ.items()")


def _pid(call: Call) -> Any:
    return Thing("os.getpid()", "self")


def _psutil(call: Call) -> Any:
    about = call.argument(0, "pid")
    mine = about is None or (type(about) is Thing and about.name == "os.getpid()")
    return Thing("psutil.Process()", "self" if mine else "parent" if type(about) is Thing and "ppid" in about.name else None)


def _fork(call: Call) -> Any:
    call.machine.findings.add("schedule", "fork", call.name, call.node)
    return Thing("os.fork()", "self")


def _library_of_c(call: Call) -> Any:
    value = call.argument(0)
    if type(value) is str and "/" in value:
        effects.reads(call, value, call.name)
    return Thing("ctypes.CDLL()")


def _dumped(call: Call) -> Any:
    """`json.dump` and its like: an object into a file."""
    target, content = call.argument(1, "fp" if call.name.startswith("json") else "stream"), call.argument(0)
    for one in options(target):
        if type(one) is File:
            words = json.dumps(content) if known(content) and call.name.startswith("json") and _jsonable(content) else content
            write(call, one.path, words, call.name)
        elif type(one) in (str, Place):
            effects.reads(call, one, call.name, "write", **effects.origin(content))
    return NOTHING


def _jsonable(value: Any) -> bool:
    try:
        json.dumps(value)
    except fold.ERRORS:
        return False
    return True


def _loaded(call: Call) -> Any:
    """`json.load` and its like: an open file into an object."""
    value = call.argument(0)
    if type(value) in (str, Place):
        found = effects.reads(call, value, call.name)
        return Contents(tuple(found) or (UNKNOWN,))
    if call.name.startswith(("pickle", "marshal", "dill", "cloudpickle")):
        call.machine.findings.add("decode", effects.short(" ".join(sources(value)) or UNKNOWN), call.name, call.node)
    if type(value) is File:
        held = attributes.contents(call.machine, value)
        return (
            fold.call("json.loads", [held], {})
            if type(held) is str and call.name == "json.load"
            else held
            if type(held) is Contents
            else NOTHING
        )
    return Contents(sources(value)) if sources(value) else NOTHING


def _substituted(call: Call) -> Any:
    subject = call.argument(2, "string")
    if type(subject) is Contents:
        return Contents(subject.paths, (*subject.edits, (text(call.argument(0)), text(call.argument(1))))[:16], subject.name)
    return UNKNOWN if type(subject) is str else NOTHING


def _execute(call: Call) -> Any:
    """SQL: what it writes, and the files that it names."""
    owner = call.owner
    if not (
        type(owner) is Thing and (owner.name.startswith(("database", "duckdb", "pandasql", "polars")) or owner.name.startswith("?"))
    ):
        return effects.guess(call)
    words = text(call.argument(0))
    for path in _QUOTED.findall(words[:4096]):
        effects.reads(call, path, "sql")
    if type(owner.subject) is str and _SQL_WRITES.match(words):
        call.machine.findings.add("write", owner.subject, "sql", call.node, sql=effects.short(words, 160))
    return Contents((owner.subject,)) if type(owner.subject) is str else NOTHING


_QUOTED = re.compile(r"""['"]((?:[\w.\-]*/)[^'"\s]{1,400}|[\w\-]+\.(?:csv|parquet|json|db|sqlite))['"]""")
_SQL_WRITES = re.compile(r"\s*(?:insert|update|delete|drop|create|replace|alter|truncate|attach|vacuum)\b", re.IGNORECASE)


def _duck(call: Call) -> Any:
    call.owner = Thing("duckdb")
    return _execute(call)


def _request(call: Call) -> Any:
    """`HTTPConnection.request(method, path)`."""
    host = call.owner.subject if type(call.owner) is Thing else None
    path = text(call.argument(1, "url", ""))
    full = path if "://" in path or type(host) is not str else f"https://{host}/{path.lstrip('/')}"
    if "://" in full:
        call.machine.nested("url", full, call.node, method=call.name)
    return Thing(f"{call.name}()", full)


def _hub(call: Call) -> Any:
    """Models and data sets of the Hugging Face hub."""
    name = text(call.argument(0, "repo_id" if "hub" in call.name else "path"))
    files = call.keywords.get("data_files", call.keywords.get("data_dir"))
    if files is not None:
        for one in files.values() if type(files) is dict else [files]:
            effects.reads(call, one, call.name)
        return Contents(tuple(call.machine.paths(files)) if type(files) is not dict else (UNKNOWN,))
    if name.startswith((".", "/", "~")):
        return Contents(tuple(effects.reads(call, name, call.name)))
    kind = "datasets/" if "dataset" in call.name or call.keywords.get("repo_type") == "dataset" else ""
    inner = text(call.argument(1, "filename", "")) if "hf_hub" in call.name else ""
    rest = f"/resolve/main/{inner}" if inner else ""
    call.machine.nested("url", f"https://huggingface.co/{kind}{name}{rest}", call.node, split=text(call.keywords.get("split", "")))
    return Contents((f"https://huggingface.co/{kind}{name}",))


def _kaggle(call: Call) -> Any:
    call.machine.nested("url", f"https://www.kaggle.com/{text(call.argument(0, 'dataset'))}", call.node, method=call.name)
    return NOTHING


def _pip(call: Call) -> Any:
    return effects.shell(call, ["pip", *(call.argument(0) if type(call.argument(0)) is list else [UNKNOWN])])


def _clone(call: Call) -> Any:
    call.machine.nested("git", f"clone {text(call.argument(0, 'url'))} {text(call.argument(1, 'to_path', ''))}", call.node)
    return NOTHING


GIT = ("git.Repo().git.", "git.Git().", "git.cmd.Git().")
"""What commands of GitPython begin with."""


def git(call: Call) -> Any:
    """`git.Repo().git.VERB(...)` of GitPython."""
    verb = call.name.rpartition(".")[2].replace("_", "-")
    words = [] if verb == "execute" else [verb]
    for one in call.arguments:
        words += [text(x) for x in one] if type(one) in (list, tuple) else [text(one)]
    words += [f"--{key.replace('_', '-')}" + ("" if value is True else f"={text(value)}") for key, value in call.keywords.items()]
    call.machine.nested("git", " ".join(words[1:] if words[:1] == ["git"] else words), call.node)
    return Contents((UNKNOWN,), name="git")


def _modules_in(call: Call) -> Any:
    """`pkgutil.iter_modules(paths)`."""
    found = []
    places = call.argument(0, "path")
    for one in places if type(places) in (list, tuple) else [places]:
        if one is not None:
            effects.reads(call, one, call.name, "list")
            found.append(Thing("pkgutil.ModuleInfo", posixpath.join(text(one), STAR)))
    return found or Thing(f"{call.name}()")


def _spec_of(call: Call) -> Any:
    """`finder.find_spec(name)`."""
    about = call.owner.subject if type(call.owner) is Thing else None
    return Thing("spec", about)


def _executed(call: Call) -> Any:
    """`spec.loader.exec_module(module)`."""
    about = call.owner.subject if type(call.owner) is Thing else None
    for path in [*(effects.reads(call, about, call.name) if type(about) is str else []), *sources(call.owner)]:
        call.machine.findings.add("import", path, call.name, call.node)
    return NOTHING


def _buffer(call: Call) -> Any:
    value = call.argument(0)
    return Contents(sources(value), name=call.name)


def _magic(call: Call) -> Any:
    from rosellm.roserlhf.guard.python import notebook

    kind = text(call.argument(0))
    sign = "%%" if call.name.endswith("cell_magic") else "%"
    line = f"{kind} {text(call.argument(1, default=''))}" if "run_" in call.name else kind
    notebook.command(call.machine, sign, line, text(call.argument(2, default="")), call.node)
    return NOTHING


def _suffix(names: str, handler: Callable[[Call], Any]) -> dict[str, Callable[[Call], Any]]:
    return dict.fromkeys(names.split(), handler)


HANDLERS: dict[str, Callable[[Call], Any]] = {
    **_suffix("open codecs.open io.open os.fdopen tempfile.NamedTemporaryFile io.TextIOWrapper io.BufferedReader", _open),
    **_suffix(
        "list tuple set frozenset dict iter collections.OrderedDict collections.deque itertools.cycle collections.defaultdict",
        _sequence,
    ),
    **_suffix("map itertools.starmap itertools.imap pool.map", _mapped),
    **_suffix("print", _print),
    **_suffix("os.path.join posixpath.join", _joined),
    **_suffix("os.path.abspath os.path.realpath os.path.normcase os.path.expanduser", _absolute),
    **_suffix("os.path.expandvars string.Template", _expanded),
    **_suffix("pathlib.Path anyio.Path py.path.local upath.UPath", _place),
    **_suffix("os.listdir os.scandir", _listed),
    **_suffix("os.walk os.fwalk", _walked),
    **_suffix("glob.glob glob.glob0 glob.glob1", _glob),
    **_suffix("os.environ.get os.getenv os.getenvb os.environ.setdefault", _get_variable),
    **_suffix("os.environ.pop os.unsetenv os.environ.__delitem__", _pop_variable),
    **_suffix("os.putenv os.environ.__setitem__", _set_variable),
    **_suffix("os.environ.copy os.environ.items os.environ.values os.environ.keys", _all_variables),
    **_suffix(
        "json.dump pickle.dump yaml.dump yaml.safe_dump toml.dump marshal.dump dill.dump tomli_w.dump plistlib.dump", _dumped
    ),
    **_suffix(
        "json.load pickle.load yaml.load yaml.safe_load tomllib.load tomli.load marshal.load csv.reader csv.DictReader", _loaded
    ),
    **_suffix("yaml.full_load yaml.unsafe_load csv.writer csv.DictWriter orjson.loads ujson.load simplejson.load", _loaded),
    **_suffix("re.sub re.subn regex.sub", _substituted),
    **_suffix("duckdb.sql duckdb.query duckdb.execute polars.sql", _duck),
    **_suffix("http.client.HTTPSConnection().request http.client.HTTPConnection().request", _request),
    **_suffix(
        "datasets.load_dataset huggingface_hub.hf_hub_download huggingface_hub.snapshot_download datasets.load_dataset_builder",
        _hub,
    ),
    **_suffix("evaluate.load transformers.AutoModel.from_pretrained transformers.AutoTokenizer.from_pretrained", _hub),
    **_suffix(
        "kaggle.api.dataset_download_files kaggle.api.competition_download_files kaggle.api.competition_download_file", _kaggle
    ),
    **_suffix("kagglehub.dataset_download kagglehub.competition_download kaggle.api.dataset_download_file", _kaggle),
    **_suffix("pip.main pip._internal.main pip._internal.cli.main.main pip.__main__.main", _pip),
    **_suffix("git.Repo.clone_from git.Repo.clone dulwich.porcelain.clone pygit2.clone_repository", _clone),
    **_suffix("get_ipython().run_line_magic get_ipython().run_cell_magic get_ipython().magic", _magic),
    **_suffix(
        "ctypes.CDLL ctypes.PyDLL ctypes.cdll.LoadLibrary ctypes.pydll.LoadLibrary ctypes.windll.LoadLibrary cffi.FFI().dlopen",
        _library_of_c,
    ),
    **_suffix("os.fork os.forkpty pty.fork", _fork),
    **_suffix("io.BytesIO io.StringIO io.BufferedRandom", _buffer),
    **_suffix("pkgutil.iter_modules pkgutil.walk_packages", _modules_in),
    "inspect.getmodule": lambda call: call.argument(0),
    "filter": _filtered,
    "zip": _zipped,
    "itertools.zip_longest": _zipped,
    "enumerate": _enumerated,
    "reversed": _reversed,
    "next": _next,
    "functools.reduce": _reduce,
    "functools.partial": _partial,
    "os.getcwd": lambda call: call.machine.scene.workdir,
    "pathlib.Path.cwd": lambda call: Place(call.machine.scene.workdir),
    "pathlib.Path.home": lambda call: Place(call.machine.scene.home),
    "tempfile.gettempdir": lambda call: "/tmp",
    "os.open": _os_open,
    "os.read": _os_read,
    "os.pread": _os_read,
    "os.write": _os_write,
    "os.pwrite": _os_write,
    "os.chdir": _change_directory,
    "os.fchdir": _change_directory,
    "os.environ.update": _update_variables,
    "os.getpid": _pid,
    "psutil.Process": _psutil,
    **dynamic.HANDLERS,
}
"""Functions, by canonical name."""

METHODS: dict[str, Callable[[Call], Any]] = {
    "execute": _execute,
    "executemany": _execute,
    "executescript": _execute,
    "find_spec": _spec_of,
    "exec_module": _executed,
    "load_module": _executed,
    **dynamic.METHODS,
}
"""Methods, whatever they are called on."""
