"""Names and code made at run time: `getattr`, `__import__`, `exec`, `setattr`, mocks, classes by `type`."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rosellm.roserlhf.guard.act import UNKNOWN
from rosellm.roserlhf.guard.python import (
    assigning,
    attributes,
    definitions,
    effects,
    expressions,
    names,
    places,
    source,
    statements,
    words,
)
from rosellm.roserlhf.guard.python.findings import Findings, short
from rosellm.roserlhf.guard.python.fold import NOTHING
from rosellm.roserlhf.guard.python.machine import Machine
from rosellm.roserlhf.guard.python.value import Choice, Contents, File, Instance, Klass, Partial, Thing, options, spread, text

if TYPE_CHECKING:
    from rosellm.roserlhf.guard.python.calling import Call

DEEPEST_TEXT = 5
"""Code in strings in code that is followed."""


def _getattr(call: Call) -> Any:
    owner, name = call.argument(0), call.argument(1)
    if isinstance(call.node, ast.Call) and len(call.node.args) == 2 and type(name) is str:
        call.machine.findings.fold(call.node.args[1], name)
        if name.isidentifier():
            call.machine.findings.disguised[id(call.node)] = (call.node, name)
    return spread(
        lambda one, key: (
            attributes.get(call.machine, one, text(key), call.node) if type(key) is str and UNKNOWN not in key else NOTHING
        ),
        owner,
        name,
    )


def _setattr(call: Call) -> Any:
    owner, name, value = call.argument(0), text(call.argument(1)), call.argument(2)
    assigning.set_attribute(call.machine, owner, name, value, call.node)
    return None


def _delattr(call: Call) -> Any:
    owner = call.argument(0)
    if type(owner) is Thing and owner.name:
        call.machine.findings.add("patch", names.canonical(f"{owner.name}.{text(call.argument(1))}"), "deleted", call.node)
    return None


def imported(machine: Machine, name: str, how: str, node: ast.AST | None) -> Any:
    """Add an import; a module that was written before is read."""
    machine.findings.add("import", name, how, node)
    machine.modules.add(name)
    if not names.library(name) and UNKNOWN not in name:
        for folder in machine.folders[:8]:
            place = f"{folder}/{name.replace('.', '/')}"
            machine.findings.add("read", f"{place}.py", "import", node, module=name)
            if "." not in name:  # it may be a package
                machine.findings.add("read", f"{place}/__init__.py", "import", node, module=name)
        if not machine.scene.files:
            return Thing(names.canonical(name))
        place = name.replace(".", "/")
        folders = machine.scene.variables.get("PYTHONPATH", "").split(":")[:8]
        bases = [machine.path(place), *(f"{folder}/{place}" for folder in (*folders, *machine.folders[:8]) if folder)]
        ending = f"/{place}.py"
        elsewhere = [path for path in machine.scene.files if path.endswith(ending)]  # by whatever path it is found
        for path in dict.fromkeys([*(base + end for base in bases for end in (".py", "/__init__.py")), *elsewhere]):
            code = machine.scene.files.get(path)
            if code is not None and path not in machine.modules:
                machine.modules.add(path)
                machine.nested("python", code, node, "import", file=path)
    return Thing(names.canonical(name))


def _import(call: Call) -> Any:
    found: list[Any] = []
    for one in options(call.argument(0, "name")):
        name = text(one) if type(one) in (str, bytes) else UNKNOWN
        package = text(call.argument(1, "package", "")) if name.startswith(".") and call.name.endswith("import_module") else ""
        full = (package + name if package else name).lstrip(".")
        made = imported(call.machine, full, call.name, call.node)
        if call.name == "__import__" and "." in full and not call.argument(3, "fromlist"):
            made = Thing(names.canonical(full.partition(".")[0]))
        found.append(made if name != UNKNOWN else NOTHING)
    return found[0] if len(found) == 1 else Choice(tuple(found))


def _vars(call: Call) -> Any:
    if not call.arguments:
        return Thing("locals()")
    owner = call.argument(0)
    if type(owner) is Thing:
        return Thing(f"{owner.name}.__dict__", owner)
    return owner.names if type(owner) in (Instance, Klass) else NOTHING


def _namespace(call: Call) -> Any:
    return Thing(f"{call.name}()")


def apply_getter(call: Call, getter: Thing) -> Any:
    """Call what `operator.attrgetter` and its like return."""
    from rosellm.roserlhf.guard.python import calling

    value = call.argument(0)
    for name in getter.subject[:1] if type(getter.subject) is list else ():
        if getter.name == "operator.methodcaller()":
            method = attributes.get(call.machine, value, name, call.node)
            return calling.call(call.machine, method, list(getter.subject[1:]), {}, call.node)
        for part in name.split("."):
            value = (
                attributes.get(call.machine, value, part, call.node)
                if "item" not in getter.name
                else attributes.item(call.machine, value, part, call.node)
            )
    return value


def _attrgetter(call: Call) -> Any:
    return Partial(Thing("operator.get", Thing(f"{call.name}()", [text(one) for one in call.arguments])), [], {})


def run_text(machine: Machine, code: str, node: ast.AST | None, disguise: str, expression: bool = False) -> Any:
    """Read code in a string where it would run: it shares the names of the program."""
    if machine.calls >= DEEPEST_TEXT or machine.scene.depth + machine.calls >= 10:
        machine.findings.add("opaque", "code inside code, too deep", disguise, node)
        return NOTHING
    outer = machine.findings
    parsed = source.read(code)
    machine.findings = Findings(parsed.text, parsed.shift, len(code), outer.where)
    machine.calls += 1
    value: Any = NOTHING
    try:
        for lost, _, why in parsed.lost:
            machine.findings.add("opaque", f"{why}: {short(lost, 120)}", disguise)
        if expression and len(parsed.body) == 1 and isinstance(parsed.body[0], ast.Expr):
            value = expressions.evaluate(machine, parsed.body[0].value)
        else:
            statements.block(machine, parsed.body)
        words.add(machine.findings, parsed.text)
        words.add_code(outer, machine.findings.respelled(machine.findings.folded()) or code, node)
    finally:
        machine.calls -= 1
        inner, machine.findings = machine.findings, outer
    outer.adopt(inner.acts, node, disguise)
    return value


def _exec(call: Call) -> Any:
    found: list[Any] = []
    for one in options(call.argument(0, "source")):
        code = one.subject if type(one) is Thing and one.name == "code" else one
        if type(code) in (str, bytes):
            body = text(code)
            if UNKNOWN in body and len(body.replace(UNKNOWN, "").strip()) < 3:
                _opaque(call, NOTHING)
            elif call.machine.spend(4 + len(body) // 8) or call.node not in call.machine.executed:
                call.machine.executed.add(call.node)
                found.append(run_text(call.machine, body, call.node, call.name, call.name == "eval"))
        elif type(code) is Contents:
            for path in code.paths:
                call.machine.findings.add("run", path, call.name, call.node)
            _opaque(call, code)
        elif type(code) is not ast.AST:
            _opaque(call, code)
    return found[0] if len(found) == 1 else NOTHING


def _opaque(call: Call, code: Any) -> None:
    name = code.name if type(code) is Thing else "file" if type(code) in (Contents, File) else ""
    traits = {"source": name} if name else {}
    call.machine.findings.add(
        "opaque", f"{call.name} of what only running would tell", name, call.node, **traits, **effects.origin(code)
    )


def _compile(call: Call) -> Any:
    value = call.argument(0, "source")
    return value if type(value) in (Contents, Choice) else Thing("code", value)


def _run_path(call: Call) -> Any:
    for path in effects.reads(call, call.argument(0, "path_name"), call.name):
        call.machine.findings.add("run", path, call.name, call.node)
        code = call.machine.files.get(path, call.machine.scene.files.get(path))
        if code is not None:
            call.machine.nested("python", code, call.node, "file", file=path)
    return NOTHING


def _run_module(call: Call) -> Any:
    return imported(call.machine, text(call.argument(0)), call.name, call.node)


def _type(call: Call) -> Any:
    if len(call.arguments) != 3:
        owner = call.argument(0)
        return (
            owner.klass
            if type(owner) is Instance
            else Thing(f"{owner.name}.__class__")
            if type(owner) is Thing and owner.name
            else Thing("object.__class__", type(owner).__name__)
        )
    held = call.argument(2)
    bases = list(call.argument(1)) if type(call.argument(1)) in (tuple, list) else []
    made = Klass(text(call.argument(0)), dict(held) if type(held) is dict else {}, bases)
    for name, value in made.names.items():
        if type(name) is str:
            definitions.special(call.machine, made.name, name, value, call.node)
    return made


def _patched(call: Call) -> Any:
    """`mock.patch("a.b", value)`, `monkeypatch.setattr("a.b", value)`, `mocker.patch`."""
    target = call.argument(0, "target")
    value = call.argument(1, "new", call.keywords.get("return_value", call.keywords.get("side_effect", Thing("Mock"))))
    if type(target) in (Thing, Instance, Klass) and (len(call.arguments) > 1 or call.name.endswith("object")):
        name, value = text(call.argument(1, "attribute")), call.argument(2, "new", call.keywords.get("return_value", Thing("Mock")))
        if type(target) is Thing:
            assigning.patch(call.machine, names.canonical(f"{target.name}.{name}"), value, call.node, mock="yes")
        return Thing("mock")
    if type(target) is str:
        assigning.patch(call.machine, names.canonical(target), value, call.node, mock="yes")
    return Thing("mock")


def _patched_dict(call: Call) -> Any:
    target = call.argument(0)
    name = target.name if type(target) is Thing else text(target)
    values = call.argument(1, "values")
    for key, value in (values if type(values) is dict else {}).items():
        if name == "os.environ":
            assigning.set_variable(call.machine, text(key), value, call.node)
        else:
            assigning.patch(call.machine, f"{name}[{text(key)!r}]", value, call.node, mock="yes")
    return Thing("mock")


def _set_env(call: Call) -> Any:
    assigning.set_variable(
        call.machine, text(call.argument(0)), call.argument(1), call.node, "set" if call.name.endswith("setenv") else "unset"
    )
    return None


def _set_item(call: Call) -> Any:
    assigning.set_element(call.machine, call.argument(0), call.argument(1), call.argument(2), call.node)
    return None


def _find_spec(call: Call) -> Any:
    name = text(call.argument(0, "name"))
    call.machine.findings.add("import", name, call.name, call.node)
    return Thing(f"{call.name}()", places.of_module(name, names.library(name)))


def _spec_module(call: Call) -> Any:
    value = call.argument(0)
    if type(value) is Contents:
        return Contents(value.paths, name="module")
    return Thing("module", value.subject if type(value) is Thing else None)


def _help(call: Call) -> Any:
    value = call.argument(0)
    if type(value) is Thing and value.name:
        call.machine.findings.add("import", value.name, "help", call.node)
    return NOTHING


def _all(names_of: str, handler: Callable[[Call], Any]) -> dict[str, Callable[[Call], Any]]:
    return dict.fromkeys(names_of.split(), handler)


HANDLERS: dict[str, Callable[[Call], Any]] = {
    **_all("getattr object.__getattribute__ type.__getattribute__ inspect.getattr_static", _getattr),
    **_all("setattr object.__setattr__ type.__setattr__ super().__setattr__", _setattr),
    **_all("__import__ importlib.import_module pytest.importorskip pydoc.locate pkgutil.resolve_name", _import),
    **_all("globals locals", _namespace),
    **_all("exec eval execfile IPython.embed", _exec),
    **_all("code.InteractiveInterpreter().runcode code.InteractiveInterpreter().runsource", _exec),
    **_all("code.InteractiveConsole().push code.InteractiveConsole().runcode code.InteractiveConsole().runsource", _exec),
    **_all("timeit.timeit timeit.repeat cProfile.run profile.run code.interact get_ipython().run_cell get_ipython().ex", _exec),
    **_all("operator.attrgetter operator.itemgetter operator.methodcaller", _attrgetter),
    **_all("mock.patch mock.patch.object mocker.patch mocker.patch.object monkeypatch.setattr monkeypatch.delattr", _patched),
    **_all("mock.patch.dict mocker.patch.dict monkeypatch.setitem", _patched_dict),
    **_all("monkeypatch.setenv monkeypatch.delenv", _set_env),
    **_all("importlib.util.module_from_spec", _spec_module),
    "importlib.util.find_spec": _find_spec,
    "operator.setitem": _set_item,
    "delattr": _delattr,
    "vars": _vars,
    "compile": _compile,
    "runpy.run_path": _run_path,
    "runpy.run_module": _run_module,
    "type": _type,
    "help": _help,
    "operator.get": lambda call: apply_getter(call, call.owner.subject),
}

METHODS: dict[str, Callable[[Call], Any]] = {
    "__getattribute__": lambda call: attributes.get(call.machine, call.owner, text(call.argument(0)), call.node),
    "__import__": _import,
    "__setitem__": lambda call: assigning.set_element(call.machine, call.owner, call.argument(0), call.argument(1), call.node),
    "__getitem__": lambda call: attributes.item(call.machine, call.owner, call.argument(0), call.node),
}
