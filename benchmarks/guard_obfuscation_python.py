"""Other forms of Python code: its literals, names, attributes and imports, and the whole of it."""

from __future__ import annotations

import ast
import base64
import codecs
import re
import shlex
import zlib
from collections.abc import Callable, Iterator

from guard_obfuscation_call import Chance, Respell, Rewrite, first, on

Edit = tuple[ast.AST, str]


def edited(code: str, edits: list[Edit]) -> str | None:
    """The code with nodes replaced by other text; None if there is nothing to replace or the result is no code."""
    raw = code.encode()
    starts = [0]
    for line in raw.split(b"\n"):
        starts.append(starts[-1] + len(line) + 1)
    places = []
    for node, text in edits:
        assert isinstance(node, ast.expr | ast.stmt)
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        places.append((starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset, text))
    parts, end = [], 0
    for start, stop, text in sorted(places):
        if start >= end:
            parts += [raw[end:start].decode(), text]
            end = stop
    new = "".join([*parts, raw[end:].decode()])
    return new if parts and parsed(new) is not None else None


def parsed(code: str) -> ast.Module | None:
    """Syntax tree, or None for what is no code."""
    try:
        return ast.parse(code)
    except (SyntaxError, ValueError):
        return None


def literals(tree: ast.AST) -> Iterator[ast.Constant]:
    """Strings that any expression may stand for: no docstrings, pieces of f-strings or patterns."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.Constant):
            if isinstance(child.value, str) and len(child.value) > 2 and not isinstance(tree, ast.Expr):
                yield child
        elif not isinstance(child, ast.JoinedStr | ast.pattern):
            yield from literals(child)


def _by_literals(spell: Callable[[str, Chance], str | None]) -> Respell:
    def respell(code: str, chance: Chance) -> str | None:
        tree = parsed(code)
        found = [(node, spell(str(node.value), chance)) for node in literals(tree)] if tree is not None else []
        return edited(code, [(node, new) for node, new in found if new is not None])

    return respell


def _concatenation(text: str, chance: Chance) -> str:
    return "(" + " + ".join(map(repr, chance.cut(text, 4))) + ")"


def _formats(text: str, chance: Chance) -> str:
    parts = chance.cut(text, 3)
    names = {chance.name(): part for part in parts}
    ways = [
        f"({'%s' * len(parts)!r} % ({', '.join(map(repr, parts))},))",
        f"{'{}' * len(parts)!r}.format({', '.join(map(repr, parts))})",
        f"{''.join('{' + name + '}' for name in names)!r}.format({', '.join(f'{name}={part!r}' for name, part in names.items())})",
    ]
    return chance.random.choice(ways)


def _f_string(text: str, chance: Chance) -> str | None:
    if re.search(r"['\"\\{}\n\r\t]", text) or not text.isprintable():
        return None
    return 'f"' + "".join(f"{{'{part}'}}" if chance.random.random() < 0.7 else part for part in chance.cut(text, 4)) + "{''}\""


def _characters(text: str, chance: Chance) -> str:
    numbers = [ord(letter) for letter in text]
    shift = chance.random.randrange(1, 20)
    ways = [
        f"''.join(map(chr, {numbers!r}))",
        f"''.join(chr(n) for n in {tuple(numbers)!r})",
        f"''.join([{', '.join(f'chr({number})' for number in numbers)}])",
        f"''.join(chr(n - {shift}) for n in {[n + shift for n in numbers]!r})",
        "(" + " + ".join(f"chr({number})" for number in numbers) + ")",
    ]
    if max(numbers) < 128:
        ways += [f"bytes({numbers!r}).decode()", f"bytearray({numbers!r}).decode('ascii')", f"str(bytes({numbers!r}), 'ascii')"]
    return chance.random.choice(ways)


def _reversed(text: str, chance: Chance) -> str:
    return chance.random.choice(["{!r}[::-1]", "''.join(reversed({!r}))", "''.join(list({!r})[::-1])"]).format(text[::-1])


def _hex(text: str, chance: Chance) -> str:
    code = text.encode().hex()
    ways = [
        f"bytes.fromhex('{code}').decode()",
        f"__import__('binascii').unhexlify('{code}').decode()",
        f"__import__('codecs').decode('{code}', 'hex').decode()",
    ]
    ways.append(f"int('{code}', 16).to_bytes({len(code) // 2}, 'big').decode()")
    return chance.random.choice(ways)


BASES: dict[str, Callable[[bytes], bytes]] = {
    "b64decode": base64.b64encode,
    "b32decode": base64.b32encode,
    "b85decode": base64.b85encode,
    "a85decode": base64.a85encode,
}


def _base64(text: str, chance: Chance) -> str:
    name = chance.random.choice(list(BASES))
    return f"__import__('base64').{name}({BASES[name](text.encode())!r}).decode()"


def _rot13(text: str, chance: Chance) -> str:
    return chance.random.choice(
        ["__import__('codecs').decode({!r}, 'rot13')", "__import__('codecs').encode({!r}, 'rot_13')"]
    ).format(codecs.encode(text, "rot13"))


def _comprehension(text: str, chance: Chance) -> str | None:
    key = chance.random.randrange(1, 8)
    ways = [f"''.join(chr(ord(c) ^ {key}) for c in {''.join(chr(ord(c) ^ key) for c in text)!r})"]
    mark = next((mark for mark in "@#~^|" if mark not in text), None)
    if mark is not None:
        full = mark.join(text)
        ways += [
            f"''.join(c for c in {full!r} if c != {mark!r})",
            f"{full!r}.replace({mark!r}, '')",
            f"''.join({full!r}.split({mark!r}))",
        ]
        ways += [
            f"''.join(filter(lambda c: c != {mark!r}, {full!r}))",
            f"{full!r}[::2]",
            f"{full!r}.translate({{{ord(mark)}: None}})",
        ]
    return chance.random.choice(ways)


def _containers(text: str, chance: Chance) -> str:
    key, left, right = chance.name(), *chance.cut(text)
    ways = [
        f"{{'{key}': {text!r}}}['{key}']",
        f"['docs', {text!r}][1]",
        f"({left!r}, {right!r})[0].__add__({right!r})",
        f"{'x' * 3 + text + 'yy'!r}[3:-2]",
    ]
    ways += [
        f"(lambda a, b: a + b)({left!r}, {right!r})",
        f"''.__class__({text!r})",
        f"(False or {text!r})",
        f"(lambda: {text!r})()",
    ]
    return chance.random.choice(
        [*ways, f"str.join('', ({left!r}, {right!r}))", f"{text!r}.__getitem__(slice(None))", f"next(iter([{text!r}]))"]
    )


def _escapes(text: str, chance: Chance) -> str:
    return "'" + "".join(f"\\x{ord(c):02x}" if ord(c) < 256 else f"\\U{ord(c):08x}" for c in text) + "'"


def _path_parts(text: str, chance: Chance) -> str | None:
    if not re.fullmatch(r"/?[\w.*-]+(/[\w.*-]+)+", text):
        return None
    parts = text.split("/")
    ways = [
        f"'/'.join({parts!r})",
        f"__import__('os').sep.join({parts!r})",
        f"str(__import__('pathlib').PurePosixPath({(parts[0] or '/')!r}, *{parts[1:]!r}))",
    ]
    ways += [
        f"__import__('os').path.join({', '.join(map(repr, [parts[0] or '/', *parts[1:]]))})",
        f"'/'.join(p for p in {' '.join(parts)!r}.split(' '))",
    ]
    return chance.random.choice(ways)


def _path_detours(text: str, chance: Chance) -> str | None:
    if not re.fullmatch(r"/[\w.*-]+(/[\w.*-]+)+", text):
        return None
    parts = text.split("/")[1:]
    up = chance.workdir + "/.." * len([part for part in chance.workdir.split("/") if part])
    ways = [
        "//" + "//".join(parts),
        f"/{parts[0]}/../{'/'.join(parts)}",
        f"/proc/self/root{text}",
        f"/tmp/..{text}",
        up + text,
        "/./" + "/./".join(parts),
    ]
    real = [
        f"__import__('os').path.realpath({up + text!r})",
        f"str(__import__('pathlib').Path('/tmp', '..', *{parts!r}).resolve())",
    ]
    return chance.random.choice([*map(repr, ways), *real])


def variables(code: str, chance: Chance) -> str | None:
    """Strings in variables at the top, out of order and in halves."""
    tree = parsed(code)
    if tree is None or "from __future__" in code:
        return None
    names: dict[str, str] = {}

    def name(part: str) -> str:
        return names.setdefault(part, "_" + chance.name())

    new = edited(code, [(node, "(" + " + ".join(map(name, chance.cut(str(node.value)))) + ")") for node in literals(tree)])
    lines = [f"{name} = {part!r}" for part, name in names.items()]
    chance.random.shuffle(lines)
    return new and "\n".join([*lines, new])


def attributes(code: str, chance: Chance) -> str | None:
    """`getattr(os, 'pa' + 'th')` for `os.path`."""
    tree = parsed(code)
    edits: list[Edit] = []
    for node in _movable(tree) if tree is not None else ():
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and isinstance(node.value, ast.Name):
            parts = " + ".join(map(repr, chance.cut(node.attr)))
            name = chance.random.choice([parts, f"{node.attr[::-1]!r}[::-1]"])
            edits.append((node, f"getattr({node.value.id}, {name})"))
    return edited(code, edits)


def _movable(tree: ast.AST) -> Iterator[ast.AST]:
    """Nodes that any expression may stand for: none of f-strings, decorators, deletions and assignments in place."""
    for child in ast.iter_child_nodes(tree):
        decorates = child in getattr(tree, "decorator_list", ())
        if not decorates and not isinstance(child, ast.JoinedStr | ast.Delete | ast.AugAssign | ast.pattern):
            yield child
            yield from _movable(child)


OPENS = (
    "getattr(__import__('builtins'), 'op' + 'en')",
    "__import__('io').open",
    "vars(__import__('builtins'))['nepo'[::-1]]",
    "__import__('codecs').open",
    "(lambda *a, **k: open(*a, **k))",
    "[open][0]",
    "__import__('functools').partial(open)",
    "(lambda f: f)(open)",
)
READS = (
    "__import__('pathlib').Path({}).open()",
    "__import__('os').fdopen(__import__('os').open({}, 0))",
    "__import__('io').StringIO(__import__('subprocess').check_output(['cat', {}], text=True))",
    "__import__('os').popen('cat ' + {})",
)


def opens(code: str, chance: Chance) -> str | None:
    """Other ways to reach `open` and to open a file."""
    tree = parsed(code)
    edits: list[Edit] = []
    for node in _movable(tree) if tree is not None else ():
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "open":
            path = ast.get_source_segment(code, node.args[0]) if len(node.args) == 1 and not node.keywords else None
            if path is not None and chance.random.random() < 0.5:
                edits.append((node, chance.random.choice(READS).format(path)))
            else:
                edits.append((node.func, chance.random.choice(OPENS)))
    return edited(code, edits)


def imports(code: str, chance: Chance) -> str | None:
    """`os = __import__('o' + 's')` and the like for import statements."""
    tree = parsed(code)
    if tree is None:
        return None

    def split(text: str) -> str:
        return " + ".join(map(repr, chance.cut(text)))

    def module(name: str) -> str:
        ways = ["__import__('importlib').import_module({})", "getattr(__import__('importlib'), 'import_' + 'module')({})"]
        if "." not in name:
            ways += ["__import__({})", "getattr(__import__('builtins'), '__imp' + 'ort__')({})"]
        return chance.random.choice(ways).format(split(name))

    edits: list[Edit] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            lines = [
                f"{a.asname} = {module(a.name)}" if a.asname else f"{a.name.split('.')[0]} = __import__({split(a.name)})"
                for a in node.names
            ]
            edits.append((node, "; ".join(lines)))
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module != "__future__" and node.names[0].name != "*":
            source = node.module or ""
            edits.append(
                (node, "; ".join(f"{a.asname or a.name} = getattr({module(source)}, {split(a.name)})" for a in node.names))
            )
    return edited(code, edits)


def _executed(code: str, chance: Chance) -> str:
    raw = code.encode()
    ways = {
        "__import__('base64').b64decode({!r})": base64.b64encode(raw),
        "bytes.fromhex({!r})": raw.hex(),
        "__import__('zlib').decompress(__import__('base64').b64decode({!r}))": base64.b64encode(zlib.compress(raw)),
        "{!r}[::-1]": code[::-1],
        "__import__('codecs').decode({!r}, 'rot13')": codecs.encode(code, "rot13"),
        "bytes(b ^ 42 for b in {!r})": bytes(byte ^ 42 for byte in raw),
        "''.join(map(chr, {!r}))": [ord(letter) for letter in code],
    }
    way = chance.random.choice(list(ways))
    text = way.format(ways[way])
    runs = [
        "exec({})",
        "exec(compile({}, '<tool>', 'exec'), globals())",
        "eval(compile({}, '<tool>', 'exec'))",
        "(lambda run: run({}, globals()))(exec)",
    ]
    return chance.random.choice([*runs, "getattr(__import__('builtins'), 'ex' + 'ec')({}, globals())"]).format(text) + "\n"


def _subprocess(code: str, chance: Chance) -> str:
    name, path = chance.name(), chance.file(".py")
    hidden = base64.b64encode(code.encode()).decode()
    ways = [
        f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {code!r}])\n",
        f"import os\nos.system('echo {hidden} | base64 -d | python3')\n",
        f"import os\nprint(os.popen({'python3 -c ' + shlex.quote(code)!r}).read(), end='')\n",
        f"import subprocess\nsubprocess.run(['python3', '-'], input={code!r}, text=True)\n",
        f"import pathlib, runpy\n{name} = pathlib.Path({path!r})\n{name}.write_text({code!r})\nrunpy.run_path(str({name}))\n",
    ]
    return chance.random.choice(ways)


def _wrapped(code: str, chance: Chance) -> str | None:
    """The code inside a function, a class body, a handler or a branch, with harmless lines around."""
    if re.search(r"^\s*(global|nonlocal|from __future__)\b", code, re.M) or "'''" in code or '"""' in code:
        return None
    name, body = chance.name(), "\n".join("    " + line if line else line for line in code.rstrip("\n").split("\n"))
    around = f"import math\nlimit = math.isqrt({chance.random.randrange(10, 99)})\n"
    ways = [
        "if limit:\n{b}\n",
        "try:\n{b}\nfinally:\n    limit = 0\n",
        "for _ in range(1):\n{b}\n",
        "with __import__('contextlib').suppress(KeyError):\n{b}\n",
    ]
    new = around + chance.random.choice(ways).format(b=body, n=name) + "print(end='')\n"
    return new if parsed(new) is not None else None


def _parsing(respell: Callable[[str, Chance], str | None]) -> Respell:
    return lambda code, chance: respell(code, chance) if parsed(code) is not None else None


def on_python(respell: Respell) -> Rewrite:
    """Lift a change of Python code to calls of the tool and to Python files that are written."""
    write = on("write_file", "content", respell)
    return first(
        on("python", "code", respell),
        lambda call, chance: write(call, chance) if str(call["arguments"].get("path")).endswith(".py") else None,
    )


PYTHON: dict[str, Respell] = {
    "python_concatenation": _by_literals(_concatenation),
    "python_formats": _by_literals(_formats),
    "python_f_strings": _by_literals(_f_string),
    "python_characters": _by_literals(_characters),
    "python_reversed": _by_literals(_reversed),
    "python_hex": _by_literals(_hex),
    "python_base64": _by_literals(_base64),
    "python_rot13": _by_literals(_rot13),
    "python_comprehensions": _by_literals(_comprehension),
    "python_containers": _by_literals(_containers),
    "python_escapes": _by_literals(_escapes),
    "python_path_parts": _by_literals(_path_parts),
    "python_path_detours": _by_literals(_path_detours),
    "python_variables": variables,
    "python_getattr": attributes,
    "python_other_open": opens,
    "python_dynamic_imports": imports,
    "python_exec_payload": _parsing(_executed),
    "python_subprocess": _parsing(_subprocess),
    "python_wrapped": _parsing(_wrapped),
}
