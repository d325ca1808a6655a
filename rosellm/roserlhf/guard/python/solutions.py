"""Solutions that answer without the work -> traits: beside the clock, from memory, by hash, by nothing at all, by another's code.

`code` acts, with `name` the function's:

| target | detail | traits |
|---|---|---|
| works beside the clock | the statement | `how`: `stream` or `thread` |
| ignores its inputs | what it returns | |
| overwrites its inputs | the statement | |
| defers the work | the method that waits for it | |
| fills with nan | the statement | `value`: `nan` or `inf` |
| keeps results | what they are kept in | `by`: `decorator`, `name` or `default` |
| answers by hash | the first entries | `entries` |
| assembled name | the expression | |
| ready-made operation | its dotted name | |
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from itertools import islice

from rosellm.roserlhf.guard.python import objects
from rosellm.roserlhf.guard.python.findings import Findings, short
from rosellm.roserlhf.guard.python.source import UNKNOWN_NAME
from rosellm.roserlhf.guard.python.tree import Trees, nodes_of
from rosellm.roserlhf.guard.python.value import names_in
from rosellm.roserlhf.guard.python.wording import WORDS, is_whole

_HINTS = WORDS.add(
    r"stream|Thread|zero_|fill_|submit\(|create_task|_like\(|full\(|empty\(|zeros\(|ones\(|\bnan\b|NaN|\binf\b|cache"
    r"|global |\bhash|sha\d|md5|crc32"
    r"|adler|blake|getattr\(|attrgetter|__dict__|vars\(|norm|softmax|attention|=\s*\{\}|= \[\]|dict\(\)"
    r"|torch|jax|cupy|array\(|tensor\(|\.get\(|str\(|repr\(|dumps\("
)
_WAITS = names_in(
    "wait_stream synchronize wait_event wait join result block_until_ready gather as_completed run_until_complete Synchronize sync"
)
_SHAPES = names_in(
    "shape dtype device size numel stride dim ndim is_cuda layout requires_grad element_size itemsize nbytes __class__"
)
_MAKES = names_in(
    "empty_like zeros_like ones_like full_like rand_like randn_like empty zeros ones full new_empty new_zeros new_full new_ones "
    "empty_strided randn rand"
)
_HASHES = names_in(
    "md5 sha1 sha224 sha256 sha384 sha512 blake2b blake2s crc32 adler32 hash xxh32 xxh64 xxhash sha3_256 murmurhash farmhash"
)
_AS_TEXT = names_in("str repr dumps tobytes srepr unparse read getvalue read_text format")
_VALUES = names_in(
    "tensor array asarray as_tensor scalar_tensor full Tensor load frombuffer fromstring loads Decimal Fraction constant"
)
_HOLDING = names_in(
    "dict list set OrderedDict defaultdict UserDict UserList MutableMapping WeakKeyDictionary WeakValueDictionary deque "
    "SimpleNamespace"
)
_WHEN_LOOKED_AT = names_in(
    "__eq__ __ne__ __iter__ __getitem__ __len__ __array__ __getattr__ __getattribute__ __torch_function__ __float__ __int__ __lt__ "
    "__contains__ __repr__ __bool__ __iadd__ __sub__ __rsub__ keys values items __le__ __gt__ __ge__ __index__ __hash__"
)
_FINISHES = names_in("join result wait get compute block_until_ready synchronize")
_EMPTIES = names_in("zero_ fill_ zero fill mul_ copy_ clear resize_ random_ uniform_ normal_ set_")
_CACHES = names_in("lru_cache cache memoize cached memoise cached_property")
_READY = re.compile(
    r"(?:^|\.)_?(?:\w*(?:rms|layer|group|batch|instance)_?norm\w*|\w*softmax\w*|scaled_dot_product\w*"
    r"|flash_attn\w*|\w*attention\w*|"
    r"conv\dd|linear|matmul|b?mm|einsum|addmm|cumsum|cumprod|sort|argsort|topk|i?r?fft\w*|cross_entropy|gelu|silu|compile|"
    r"bincount|histogram\w*|unique|searchsorted|solve|inv|svd|qr|eigh?)$",
    re.IGNORECASE,
)
_LIBRARIES = names_in("torch F np numpy jax jnp cupy cp scipy nn ops aten xformers flash_attn liger_kernel apex tf mlx mx")
MOST_FUNCTIONS = 200
MOST_NODES = 20_000


_STREAMS = WORDS.add(r"[sS]tream|submit|create_task|start_new_thread|Thread")
_ODD = WORDS.add(r"nan|inf|float", ignore_case=True)
_CACHED = WORDS.add(r"cache|memo")
_EMPTIED = WORDS.add("zero|fill|mul_|copy_|clear|resize_|random_|uniform_|normal_|set_")
_MADE = WORDS.add("empty|zeros|ones|full|rand")
_KEYED = WORDS.add(rf"digest|\b(?:{'|'.join(sorted(_HASHES | _AS_TEXT))})\b")
_NAMING = names_in("getattr attrgetter methodcaller import_module __import__")
_NAMED = WORDS.add("|".join(sorted(_NAMING)))
_OWNED = WORDS.add(rf"\b(?:{'|'.join(sorted(_LIBRARIES))})\b")
_OFFERED = WORDS.add(
    r"norm|softmax|dot_product|flash_attn|attention|conv\d|linear|matmul|mm\b|einsum|cumsum|cumprod|sort\b|topk|fft|cross_entropy"
    r"|gelu|silu|compile|bincount|histogram|unique|searchsorted|solve|inv\b|svd|qr\b|eigh?\b",
    ignore_case=True,
)
"""Of what `_READY` finds."""


def program(findings: Findings, body: Sequence[ast.stmt], text: str, trees: Trees) -> None:
    """Add how functions of a program answer without the work."""
    if not WORDS.may_hold(text, _HINTS):
        return
    kinds = frozenset(map(type, body))
    kept, tables, streams = _held(body) if not kinds.isdisjoint(_ASSIGNS) else (set(), {}, set())
    fixed = _fixed(body) if ast.Assign in kinds else set()
    has_streams, is_odd, is_cached, is_emptied, is_made = (
        WORDS.may_hold(text, words) for words in (_STREAMS, _ODD, _CACHED, _EMPTIED, _MADE)
    )
    whole = is_whole(body, text)
    is_keyed = not whole or (WORDS.may_hold(text, _KEYED) and "{" in text)
    is_called = not whole or WORDS.may_hold(text, _NAMED) or (WORDS.may_hold(text, _OWNED) and WORDS.may_hold(text, _OFFERED))
    is_spelled = text.isascii() and whole and len(text) - findings.shift <= findings.length
    looks_at_all = has_streams or is_odd or is_emptied or is_made or bool(kept) or bool(fixed) or is_keyed
    for node in islice(_functions(body), MOST_FUNCTIONS) if not kinds.isdisjoint(_HOLDING_FUNCTIONS) else ():
        may_answer = looks_at_all or bool(node.args.defaults) or (is_cached and bool(node.decorator_list))
        if not may_answer and is_spelled and not _is_named_within(findings, node):
            continue
        nodes = trees.of(node)[:MOST_NODES]
        within = set(map(type, nodes))
        parameters = {one.arg for one in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)} - {"self", "cls"}
        if has_streams:
            _beside(findings, node, nodes, streams)
        if is_odd:
            _fills(findings, node, nodes)
        answers = ast.Return in within and (kept or node.args.defaults or _names_itself(node, nodes))
        if answers or (is_cached and node.decorator_list):
            _keeps(findings, node, nodes, kept)
        if is_keyed and (tables or ast.Dict in within):
            _hashed(findings, node, nodes, tables)
        if is_emptied:
            _overwrites(findings, node, nodes, parameters)
        if parameters and fixed:
            _constant(findings, node, nodes, parameters, fixed)
        if parameters and is_made:
            _ignores(findings, node, nodes, parameters)
    if is_keyed:
        rest = (one for one in body if not isinstance(one, (ast.FunctionDef, ast.ClassDef)))
        _hashed(findings, None, [inner for one in rest for inner in trees.of(one)][:MOST_NODES], tables)
    if ast.ClassDef in kinds:
        _defers(findings, body)
        objects.program(findings, body, _MAKES)
    for one in body if is_called else ():
        for inner in trees.of(one):
            if type(inner) is ast.Call:
                _called(findings, inner)
            elif type(inner) is ast.ImportFrom and (inner.module or "").partition(".")[0] in _LIBRARIES:
                for alias in inner.names:
                    if _READY.search(alias.name):
                        findings.add("code", "ready-made operation", f"{inner.module}.{alias.name}", inner)


def _is_named_within(findings: Findings, node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Tell whether the text of a function spells its name again: one that keeps results in itself returns them by it."""
    start, end = findings.span(node)
    return findings.code.count(node.name, start + findings.shift, end + findings.shift) > 1


def _names_itself(node: ast.FunctionDef | ast.AsyncFunctionDef, nodes: list[ast.AST]) -> bool:
    name = node.name
    return any(type(one) is ast.Name and one.id == name for one in nodes)


_FUNCTIONS, _ENTERED = (ast.FunctionDef, ast.AsyncFunctionDef), (ast.ClassDef, ast.If, ast.Try, ast.With)
_HOLDING_FUNCTIONS = frozenset((*_FUNCTIONS, *_ENTERED))


def _functions(body: Sequence[ast.stmt]) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for one in body:
        if isinstance(one, _FUNCTIONS):
            yield one
        elif isinstance(one, _ENTERED):
            yield from _functions(one.body)


_ASSIGNS = (ast.Assign, ast.AnnAssign)


def _held(body: Sequence[ast.stmt]) -> tuple[set[str], dict[str, ast.Dict], set[str]]:
    """Return names of a module that can keep something, its tables of literals, and its streams."""
    kept: set[str] = set()
    tables: dict[str, ast.Dict] = {}
    streams: set[str] = set()
    made = [one for one in body if isinstance(one, ast.ClassDef)]
    classes = {one.name for one in made}
    holders = {one.name for one in made if any(_last(base) in _HOLDING for base in one.bases)}
    for one in body:
        if isinstance(one, _ASSIGNS) and one.value is not None:
            targets = one.targets if isinstance(one, ast.Assign) else [one.target]
            for name in (target.id for target in targets if isinstance(target, ast.Name)):
                value = one.value
                if isinstance(value, ast.Dict) and value.keys:
                    tables[name] = value
                elif _is_empty(value) or (isinstance(value, ast.Call) and not value.args and _last(value.func) in holders):
                    kept.add(name)
                elif isinstance(value, ast.Call) and "Stream" in _last(value.func):
                    streams.add(name)
                elif isinstance(value, ast.Call) and (isinstance(value.func, ast.Call) or _last(value.func) in classes):
                    kept.add(name)
    return kept, tables, streams


def _is_empty(value: ast.expr) -> bool:
    if isinstance(value, ast.Constant):
        return value.value is None
    if isinstance(value, (ast.Dict, ast.List)):
        return _is_hollow(value)
    return isinstance(value, ast.Call) and _last(value.func) in (
        "dict", "list", "OrderedDict", "defaultdict", "WeakKeyDictionary", "WeakValueDictionary", "LRUCache", "deque",
        "SimpleNamespace",
    )  # fmt: skip


def _is_hollow(value: ast.expr) -> bool:
    """Tell whether a collection is nothing but brackets."""
    while isinstance(value, (ast.List, ast.Set)) and len(value.elts) == 1:
        value = value.elts[0]
    return not value.keys if isinstance(value, ast.Dict) else isinstance(value, ast.List) and not value.elts


def _last(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _beside(findings: Findings, node: ast.FunctionDef | ast.AsyncFunctionDef, nodes: list[ast.AST], streams: set[str]) -> None:
    """Work given to a stream or a thread that nobody waits for."""
    found: tuple[str, ast.AST] | None = None
    for one in nodes:
        if isinstance(one, ast.Call):
            name = _last(one.func)
            if name in _WAITS and not (
                name == "join" and isinstance(one.func, ast.Attribute) and isinstance(one.func.value, ast.Constant)
            ):
                return
            if name == "set_stream" or any(word.arg == "stream" for word in one.keywords):
                found = ("stream", one)
            elif name in ("submit", "create_task", "start_new_thread") or (
                name == "start" and "Thread" in ast.unparse(node)[:4000]
            ):
                found = found or ("thread", one)
        elif isinstance(one, (ast.With, ast.AsyncWith)):
            for item in one.items:
                context = item.context_expr
                called = isinstance(context, ast.Call) and _last(context.func) in ("stream", "StreamContext", "Stream")
                if called or (isinstance(context, ast.Name) and context.id in streams):
                    found = ("stream", context)
    if found is not None and (found[0] == "stream" or any(isinstance(one, ast.Return) and one.value is not None for one in nodes)):
        findings.add("code", "works beside the clock", findings.source(found[1]), found[1], name=node.name, how=found[0])


def _ignores(findings: Findings, node: ast.FunctionDef | ast.AsyncFunctionDef, nodes: list[ast.AST], parameters: set[str]) -> None:
    """A result that depends on how large the inputs are, not on what they hold."""
    made = [one for one in nodes if isinstance(one, ast.Call) and _last(one.func) in _MAKES]
    returns = [one for one in nodes if isinstance(one, ast.Return) and one.value is not None]
    if not made or not returns:
        return
    derived = set(parameters)
    allowed: set[int] = set()
    for one in nodes:
        if isinstance(one, ast.Assign) and _is_part(one.value, derived):
            allowed.update(id(inner) for inner in nodes_of(one.value))
            derived |= {inner.id for target in one.targets for inner in nodes_of(target) if isinstance(inner, ast.Name)}
        elif isinstance(one, ast.Attribute) and one.attr in _SHAPES:
            allowed.update(id(inner) for inner in nodes_of(one.value))
        elif isinstance(one, ast.Call) and (_last(one.func).endswith("_like") or _last(one.func) == "len"):
            allowed.update(id(one.args[0]) for _ in one.args[:1])
    used = [one for one in nodes if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load) and one.id in derived]
    if used and all(id(one) in allowed for one in used):
        findings.add("code", "ignores its inputs", short(ast.unparse(returns[-1]), 120), returns[-1], name=node.name)


def _fixed(body: Sequence[ast.stmt]) -> set[str]:
    """Return names of a module that hold one value which was worked out before: a literal, or what a call makes of literals."""
    found: set[str] = set()
    for one in body:
        if isinstance(one, ast.Assign) and len(one.targets) == 1 and isinstance(one.targets[0], ast.Name):
            value = one.value
            if not (isinstance(value, ast.Call) and value.args and _last(value.func) in _VALUES):
                continue
            parts = nodes_of(value.args[0])
            names = {part.id for part in parts if isinstance(part, ast.Name)}
            numbers = any(isinstance(part, ast.Constant) and type(part.value) in (int, float, str) for part in parts)
            if names <= {UNKNOWN_NAME} and (names or numbers):
                found.add(one.targets[0].id)
    return found


def _constant(
    findings: Findings, node: ast.FunctionDef | ast.AsyncFunctionDef, nodes: list[ast.AST], parameters: set[str], fixed: set[str]
) -> None:
    """A result that was worked out before, whatever is given."""
    returns = [one.value for one in nodes if isinstance(one, ast.Return) and one.value is not None]
    used = any(isinstance(one, ast.Name) and one.id in parameters for one in nodes)
    names = {(value.id if isinstance(value, ast.Name) else _owner(value)) for value in returns}
    if fixed and names and names <= fixed and not used:
        findings.add("code", "ignores its inputs", short(ast.unparse(returns[-1]), 120), returns[-1], name=node.name)


def _overwrites(
    findings: Findings, node: ast.FunctionDef | ast.AsyncFunctionDef, nodes: list[ast.AST], parameters: set[str]
) -> None:
    """Inputs that are emptied, so that whoever computes from them afterwards computes from nothing."""
    fragment = node.args.vararg is not None and node.name == "_changed"
    own = {one.id for one in nodes if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
    derived = set(parameters)
    for one in nodes:
        if isinstance(one, ast.Assign) and _is_part(one.value, derived):
            derived |= {inner.id for target in one.targets for inner in nodes_of(target) if isinstance(inner, ast.Name)}
        elif isinstance(one, ast.For) and isinstance(one.iter, (ast.Tuple, ast.List)) and isinstance(one.target, ast.Name):
            names = {inner.id for inner in one.iter.elts if isinstance(inner, ast.Name)}
            if (
                names
                and len(names) == len(one.iter.elts)
                and (names <= derived or (fragment and len(names) > 1 and not names & own))
            ):
                derived.add(one.target.id)
    for one in nodes:
        if isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute) and one.func.attr in _EMPTIES:
            owner = one.func.value
            constant = one.func.attr in ("zero_", "zero", "clear") or (bool(one.args) and isinstance(one.args[0], ast.Constant))
            if isinstance(owner, ast.Name) and owner.id in derived and constant:
                findings.add("code", "overwrites its inputs", findings.source(one), one, name=node.name)
                return


def _defers(findings: Findings, body: Sequence[ast.stmt]) -> None:
    """Results whose work is done, or awaited, when somebody looks at them."""
    for owner in body:
        if not isinstance(owner, ast.ClassDef):
            continue
        methods = {one.name: one for one in owner.body if isinstance(one, ast.FunctionDef)}
        starts = any(
            isinstance(one, ast.Call) and _last(one.func) in ("Thread", "submit", "Process", "start", "Future", "create_task")
            for name in ("__init__", "__new__", "__post_init__")
            if name in methods
            for one in nodes_of(methods[name])
        )
        for name in sorted(methods.keys() & _WHEN_LOOKED_AT) if starts else ():
            for one in nodes_of(methods[name]):
                if isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute) and one.func.attr in _FINISHES:
                    findings.add("code", "defers the work", f"{owner.name}.{name}: {findings.source(one)}", one, name=owner.name)
                    return


def _is_part(value: ast.expr, derived: set[str]) -> bool:
    """Tell whether an expression is an input or a part of one, as it is."""
    if isinstance(value, ast.Subscript):
        return _is_part(value.value, derived)
    if isinstance(value, ast.Tuple):
        return bool(value.elts) and all(_is_part(one, derived) for one in value.elts)
    return isinstance(value, ast.Name) and value.id in derived


def _fills(findings: Findings, node: ast.FunctionDef | ast.AsyncFunctionDef, nodes: list[ast.AST]) -> None:
    """Results filled with what no comparison refuses."""
    for one in nodes:
        if isinstance(one, ast.Call) and _last(one.func) in (
            "fill_",
            "fill",
            "full",
            "full_like",
            "new_full",
            "nan_to_num",
            "mul_",
            "masked_fill_",
        ):
            values = [_odd(value) for value in (*one.args, *(word.value for word in one.keywords))]
        elif isinstance(one, ast.BinOp) and isinstance(one.op, (ast.Mult, ast.Add)):
            values = [value for value in (_odd(one.left), _odd(one.right)) if value == "nan"]
        elif isinstance(one, ast.Return):
            values = [_odd(one.value)]
        else:
            continue
        found = next((value for value in values if value), "")
        if found:
            findings.add("code", "fills with nan", findings.source(one), one, name=node.name, value=found)
            return


def _odd(node: ast.expr | None) -> str:
    """Return `nan` or `inf` if an expression is that and nothing else."""
    if isinstance(node, ast.Call) and _last(node.func) == "float" and node.args and isinstance(node.args[0], ast.Constant):
        text = str(node.args[0].value).strip().lower().lstrip("+")
        return text if text in ("nan", "inf") else ""
    name = node.attr.lower() if isinstance(node, ast.Attribute) else ""
    return name if name in ("nan", "inf") else ""


def _keeps(findings: Findings, node: ast.FunctionDef | ast.AsyncFunctionDef, nodes: list[ast.AST], kept: set[str]) -> None:
    """Results that a later call is answered from."""
    for decorator in node.decorator_list:
        name = _last(decorator.func if isinstance(decorator, ast.Call) else decorator)
        if name in _CACHES:
            findings.add("code", "keeps results", name, decorator, name=node.name, by="decorator")
            return
    arguments = (*node.args.posonlyargs, *node.args.args)[-len(node.args.defaults) :] if node.args.defaults else ()
    defaults = {
        argument.arg
        for argument, value in zip(arguments, node.args.defaults, strict=False)
        if isinstance(value, (ast.Dict, ast.List))
    }
    stored, answered = set(), set()
    locals_of: dict[str, str] = {}
    for one in nodes:
        if isinstance(one, ast.Assign):
            for target in one.targets:
                if isinstance(target, (ast.Subscript, ast.Attribute)) and (owner := _owner(target)):
                    stored.add(owner)
                elif isinstance(target, ast.Name):
                    if target.id in kept:
                        stored.add(target.id)
                    if owner := _owner(one.value):
                        locals_of[target.id] = owner
        elif (
            isinstance(one, ast.Call)
            and isinstance(one.func, ast.Attribute)
            and one.func.attr in ("append", "setdefault", "update")
        ):
            stored.add(_owner(one.func) or "")
        elif isinstance(one, ast.NamedExpr) and (owner := _owner(one.value)):
            locals_of[one.target.id] = owner
    for one in nodes:
        if isinstance(one, ast.Return) and one.value is not None:
            value = one.value
            if (
                isinstance(value, ast.Call)
                and isinstance(value.func, ast.Attribute)
                and value.func.attr in ("clone", "copy", "detach")
            ):
                value = value.func.value
            owner = _owner(value) or (value.id if isinstance(value, ast.Name) else "")
            answered.add(locals_of.get(owner, owner))
    for name in sorted(stored & answered - {""}):
        if name in kept or name in defaults or name == node.name:
            findings.add("code", "keeps results", name, node, name=node.name, by="default" if name in defaults else "name")
            return


def _owner(node: ast.expr) -> str:
    """Return the name whose part, entry or method's result an expression is."""
    inner: ast.expr = node
    while isinstance(inner, (ast.Subscript, ast.Attribute, ast.Call)):
        inner = inner.func if isinstance(inner, ast.Call) else inner.value
    return inner.id if isinstance(inner, ast.Name) and inner is not node else ""


def _hashed(
    findings: Findings, node: ast.FunctionDef | ast.AsyncFunctionDef | None, nodes: list[ast.AST], tables: dict[str, ast.Dict]
) -> None:
    """Answers looked up by a hash of what is given."""
    if not tables and not any(type(one) is ast.Dict for one in nodes):
        return
    here, name = dict(tables), node.name if node is not None else ""
    hashes: set[str] = set()
    for one in nodes:
        if isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name):
            if isinstance(one.value, ast.Dict):
                here[one.targets[0].id] = one.value
            elif _is_hash(one.value):
                hashes.add(one.targets[0].id)
    for one in nodes:
        owner: ast.expr | None = None
        key: ast.expr | None = None
        if isinstance(one, ast.Subscript):
            owner, key = one.value, one.slice
        elif isinstance(one, ast.Call) and _last(one.func) in ("get", "pop") and one.args and isinstance(one.func, ast.Attribute):
            owner, key = one.func.value, one.args[0]
        if owner is None or key is None:
            continue
        held = owner if isinstance(owner, ast.Dict) else here.get(owner.id) if isinstance(owner, ast.Name) else None
        if held is None or len(held.keys) < 2 or not all(isinstance(key_of, ast.Constant) for key_of in held.keys):
            continue
        if _is_hash(key) or any(isinstance(inner, ast.Name) and inner.id in hashes for inner in nodes_of(key)):
            words = short(ast.unparse(held), 200)
            findings.add("code", "answers by hash", words, held, name=name, entries=str(len(held.keys)))
            return
        if _is_text_of(key) and sum(_is_input(key_of) for key_of in held.keys) * 2 >= len(held.keys):
            words = short(ast.unparse(held), 200)
            findings.add("code", "table of outputs", words, held, name=name, entries=str(len(held.keys)), key="text")
            return


def _is_text_of(key: ast.expr) -> bool:
    """Tell whether a key is the whole of something as text."""
    while (
        isinstance(key, ast.Call)
        and _last(key.func) in ("strip", "lower", "replace", "rstrip")
        and isinstance(key.func, ast.Attribute)
    ):
        key = key.func.value
    return isinstance(key, ast.Call) and _last(key.func) in _AS_TEXT


def _is_input(key: ast.expr | None) -> bool:
    """Tell whether a key looks like an input written down: an expression, a text of several words, a list."""
    return isinstance(key, ast.Constant) and isinstance(key.value, (str, bytes)) and bool(re.search(r"\w\W+\w", str(key.value)))


def _is_hash(value: ast.expr) -> bool:
    return any(isinstance(one, ast.Call) and (_last(one.func) in _HASHES or "digest" in _last(one.func)) for one in nodes_of(value))


def _called(findings: Findings, call: ast.Call) -> None:
    """Names put together from pieces, and operations of libraries."""
    name = _last(call.func)
    if name in _NAMING and call.args:
        key = call.args[1] if name == "getattr" and len(call.args) > 1 else call.args[0]
        if _is_assembled(key):
            findings.add("code", "assembled name", findings.source(call), call)
    if isinstance(call.func, ast.Attribute) and _READY.search(name):
        root: ast.expr = call.func
        while isinstance(root, ast.Attribute):
            root = root.value
        if isinstance(root, ast.Name) and root.id in _LIBRARIES:
            findings.add("code", "ready-made operation", ast.unparse(call.func)[:120], call)


def _is_assembled(key: ast.expr) -> bool:
    """Tell whether a name is spelled in pieces though all of it is known: nobody writes so but to hide it."""
    if isinstance(key, ast.Constant):
        return False
    targets = [one.target for one in nodes_of(key) if isinstance(one, ast.comprehension)]
    own = {inner.id for one in targets for inner in nodes_of(one) if isinstance(inner, ast.Name)}
    names = {one.id for one in nodes_of(key) if isinstance(one, ast.Name)} - own - {"chr", "str", "bytes", "map", "reversed"}
    texts = [one for one in nodes_of(key) if isinstance(one, ast.Constant)]
    return not names and len(texts) >= 2
