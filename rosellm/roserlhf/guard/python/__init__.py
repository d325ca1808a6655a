"""Python -> acts: the program is parsed and read with an abstract interpreter; nothing of it runs.

Traits that acts carry (a trait that does not apply is absent; flags are `yes`):

| trait | of | meaning |
|---|---|---|
| where | all | part of the program: `import` (module level), `main` (under `__name__ == "__main__"` or in a function `main`), \
`child` (after fork), `atexit`, `signal`, `background` (threads, timers), `hook`, \
`test NAME`, `function NAME`; code inside this code has its own, and this one's as `outer` |
| file | all | path of the file that the program writes the code to in which this was found |
| guess | read, write, fetch | the function is not known: an argument looks like a path or address |
| mode | write | how the file was opened |
| from | write, opaque | paths that the written data was read from, joined by spaces |
| replaces, by | write | what was replaced in text that was read, and by what; joined by ` | ` |
| stat | list | a path is only probed: does it exist, how large is it |
| recursive, glob | list | folders below, too; the target is a pattern |
| moved | delete | the path is renamed |
| database, sql | read, write | the file is a database; the statement that writes to it |
| module | read | dotted name of the module, or of what in it, whose source is read; the target's folder is unknown |
| use | environment | `copy`: all variables are handed on to a child |
| child | environment | it is set for a child only |
| own | process, frame | it is the program's own process, child or function |
| depth, root | frame | how far up the stack, if it is said; module that the frame or function was reached by |
| hook | patch, define | something that is called from now on; the test runner's |
| value | patch | what it is replaced by: `function`, `class`, `object`, `name`, `constant` |
| always | patch | what the replacement returns whatever it is given: `true`, `none`, `0` |
| calls | patch | dotted name of the original that the replacement goes on to call |
| restores | patch | the original is put back |
| mock | patch | by `mock.patch` or `monkeypatch`, which undo it |
| object, data, unknown | patch | an attribute of a result of a call, of data that was read, of something that is not known |
| owner, bases | define | the class, and what it derives from |
| function | exit | function or statement that leaves |
| source | opaque | what gave the code that only running would tell |
| method, split | fetch | function; split of a data set |
| name, parameters | code | the function that takes the shortcut, its inputs; more in `shortcuts.function`, `solutions` |
"""

from __future__ import annotations

import ast
import gc
import re
from dataclasses import replace

from rosellm.roserlhf.guard.act import UNKNOWN, Act
from rosellm.roserlhf.guard.content.cases import acts_of_cases
from rosellm.roserlhf.guard.content.file import acts_of_python_text
from rosellm.roserlhf.guard.content.kept import acts_of_kept
from rosellm.roserlhf.guard.content.substituted import filled, patch_of, spelled
from rosellm.roserlhf.guard.python import calling, expressions, learning, notebook, shortcuts, solutions, source, statements, words
from rosellm.roserlhf.guard.python.findings import Findings, short
from rosellm.roserlhf.guard.python.machine import FUEL, Machine
from rosellm.roserlhf.guard.python.tree import Trees
from rosellm.roserlhf.guard.python.value import Scope
from rosellm.roserlhf.guard.scene import Scene

_PATH = re.compile(r"(?<![\w/.])(?:~|\.{0,2})/[\w.@+\-*]+(?:/[\w.@+\-*]+)*")


def acts_of_python(code: str, scene: Scene) -> list[Act]:
    """Return what a piece of Python would do.

    Args:
        code: any text; what does not parse becomes `opaque` acts, with the paths in it as reads.
        scene: where it would run.

    Returns:
        Acts in the order in which they would happen; functions that nobody calls come last.

    Example:
        >>> found = acts_of_python("p = '/'.join(['', 'etc', 'key']); print(open(p).read())", Scene("/app", lambda *_: []))
        >>> [(act.kind, act.target, act.detail) for act in found if act.kind == "read"]
        [('read', '/etc/key', 'open')]
    """
    collects = gc.isenabled()
    gc.disable()  # the tree is freed once it is read: a collector would walk its thousands of nodes over and over to free none
    try:
        return _acts(code, scene)
    finally:
        if collects:
            gc.enable()


def _acts(code: str, scene: Scene) -> list[Act]:
    parsed = source.read(code)
    machine = Machine(
        scene, Findings(parsed.text, parsed.shift, len(code), argument=scene.argument), Scope({}), FUEL + len(parsed.text)
    )
    if scene.names:
        _remember(machine, parsed.text)
    for magic in parsed.magics:
        notebook.command(machine, magic.sign, magic.line, magic.body, None)
    for text, span, why in parsed.lost:
        _lost(machine, text, span, why)
    statements.block(machine, parsed.body)
    _rest(machine)
    trees = Trees()
    solutions.program(machine.findings, parsed.body, parsed.text, trees)
    learning.program(machine.findings, parsed.body, parsed.text, trees)
    words.add(machine.findings, parsed.text)
    folded = machine.findings.folded()
    words.add_folded(machine.findings, folded)
    words.add_code(machine.findings, machine.findings.respelled(folded), None)
    shortcuts.again(machine, parsed.body)
    _written(machine)
    _forget(machine)
    return [
        *machine.findings.acts,
        *[_in_text(act, parsed.shift, scene.argument) for act in (*acts_of_cases(parsed.text), *acts_of_kept(parsed.text))],
    ]


def _forget(machine: Machine) -> None:
    """Take functions out of the scopes that they hold: else they keep each other, and trees, until garbage is collected."""
    machine.scope.names.clear()
    for made, _ in machine.waiting:
        made.scope.names.clear()


def _in_text(act: Act, shift: int, argument: str) -> Act:
    """Return an act of the text as it was given."""
    span = max(0, act.span[0] - shift), max(0, act.span[1] - shift)
    return Act(act.kind, act.target, act.detail, argument, span, ("python",), {"where": "import", **act.traits})


def _remember(machine: Machine, code: str) -> None:
    """Bind the variables of earlier code that this code speaks of; what was done to make them was judged then."""
    outer, machine.findings = machine.findings, Findings("")
    for name, bound in machine.scene.names.items():
        if name in code:
            try:
                value = source.parse(bound)[0]
            except (*source.FAILURES, IndexError):
                continue
            if isinstance(value, ast.Expr):
                machine.assign(name, expressions.evaluate(machine, value.value))
    machine.findings = outer


def _lost(machine: Machine, text: str, span: tuple[int, int], why: str) -> None:
    """Note text that is not read, and the paths in it."""
    machine.findings.at("opaque", why, short(text.strip(), 160), span)
    for found in list(dict.fromkeys(_PATH.findall(text[: source.LONGEST * 10])))[:50]:
        machine.findings.at("read", machine.path(found), "?", span)


def _rest(machine: Machine) -> None:
    """Read the functions that nobody called."""
    for made, where in machine.waiting:
        if id(made.node) in machine.visited:
            continue
        machine.findings.where = where
        machine.calls = 0
        if made.owner is None:
            calling.run(machine, made, [], {})
        else:
            own = calling.instance(machine, made.owner, [], {})
            if id(made.node) not in machine.visited:
                calling.run(machine, made, [own], {})
    machine.findings.where = "import"


def _written(machine: Machine) -> None:
    """Read the files that the program writes whole by their names, and what it changes in others as a patch of them."""
    changed = {
        path: patch_of(path, map(_filled, new), _INSIDE) for path, new in machine.changes.items() if not path.startswith(UNKNOWN)
    }
    kept = []
    for path, content in machine.files.items():
        around = content.startswith(UNKNOWN) or content.endswith(UNKNOWN)  # what was there stands before or after it
        if around and not path.startswith(UNKNOWN):
            kept.append(("patch", path, patch_of(path, [("", content.strip(UNKNOWN + "\n"))])))
        else:
            kept.append((path, path, content))
    for language, path, content in [*kept, *(("patch", path, content) for path, content in changed.items())][:32]:
        if len(content.strip(UNKNOWN + " \n")) > 3:
            scene = replace(machine.scene, variables={**machine.scene.variables, "__file__": path})
            machine.nested(language, content, None, "file", scene=scene, **({} if language == "patch" else {"file": path}))
            if path.endswith(".py") and language != "patch":
                machine.findings.adopt(acts_of_python_text(content), None, "file", file=path)


_INSIDE = " def _changed(*given):"
"""What stands deeper inside of a file is read as the body of a function."""


def _filled(edit: tuple[str, str]) -> tuple[str, str]:
    """Put what a pattern finds into what comes in its place, as far as the pattern spells it."""
    old, new = edit
    return (spelled(old), filled(new, old)) if "\\" in new else edit
