"""Commands of a notebook: `!`, `%`, `%%`, `?`."""

from __future__ import annotations

import ast

from rosellm.roserlhf.guard.python import dynamic
from rosellm.roserlhf.guard.python.machine import Machine
from rosellm.roserlhf.guard.python.value import names_in

_SHELLS = frozenset(("bash", "sh", "script", "system", "sx", "zsh"))
_COMMANDS = names_in("pip conda mamba micromamba uv ls cat cp mv rm rmdir mkdir less more head tail man ll lf lk ldir lx")
_CODE = frozenset(("time", "timeit", "prun", "memit", "mprun", "lprun"))
_OTHER = {
    "perl": "pl",
    "ruby": "rb",
    "javascript": "js",
    "js": "js",
    "html": "html",
    "svg": "svg",
    "latex": "tex",
    "cython": "pyx",
    "R": "r",
    "sql": "sql",
}


def command(machine: Machine, sign: str, line: str, body: str, node: ast.AST | None) -> None:
    """Read one command."""
    if sign in ("!", "!!"):
        machine.nested("shell", line, node)
        return
    if sign == "?":
        machine.findings.add("read", line, "?", node, module=line)
        return
    name, _, rest = line.strip().partition(" ")
    rest = rest.strip()
    if sign == "%%" and name in _SHELLS:
        program = rest if name == "script" and rest else "bash"
        machine.nested("shell", f"{program} <<'END_OF_CELL'\n{body}\nEND_OF_CELL" if name == "script" else body, node, "%%" + name)
    elif sign == "%%" and name in ("writefile", "file"):
        path = machine.path(rest.rsplit(" ", 1)[-1].strip("\"'"))
        machine.findings.add("write", path, "%%writefile", node, mode="a" if rest.startswith("-a") else "w")
        machine.files[path] = body
    elif sign == "%%" and name in _OTHER:
        machine.nested(_OTHER[name], body, node, "%%" + name)
    elif name in _SHELLS:
        machine.nested("shell", rest, node)
    elif name in _COMMANDS:
        machine.nested("shell", f"{name} {rest}", node)
    elif name == "run":
        machine.nested("shell", f"python {rest}", node, "%run")
    elif name in ("load", "loadpy", "pycat", "pfile", "psource", "edit"):
        target = rest.rsplit(" ", 1)[-1].strip("\"'")
        machine.findings.add("read", machine.path(target), f"%{name}", node)
    elif name in ("cd", "pushd"):
        place = machine.path(rest.strip("\"'") or machine.scene.home)
        machine.change(workdir=place)
    elif name in ("env", "set_env"):
        variable, _, value = rest.replace(" ", "=", 1).partition("=")
        machine.findings.add("environment", variable or "*", f"set {value}" if value else "read", node)
    elif name in _CODE and rest and sign == "%":
        dynamic.run_text(machine, rest, node, f"%{name}")
