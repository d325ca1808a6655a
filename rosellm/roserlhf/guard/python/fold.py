"""Constant folding, bounded: operators, methods of constants, and functions of the standard library that only compute."""

from __future__ import annotations

import ast
import base64
import binascii
import bz2
import codecs
import html
import itertools
import json
import lzma
import operator
import posixpath
import quopri
import re
import string
import textwrap
import unicodedata
import urllib.parse
import warnings
import zlib
from collections.abc import Callable, Mapping
from typing import Any

from rosellm.roserlhf.guard.act import UNKNOWN
from rosellm.roserlhf.guard.python.value import Contents, Place, Thing, is_key, known, names_in, sure, text

LARGEST = 1 << 16
"""Characters, bytes or elements of a folded constant."""
LARGEST_INTEGER = 1 << 64
MOST_BITS = 8 * LARGEST
"""Of an integer that holds a text."""
ERRORS = (
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    AttributeError,
    MemoryError,
    RecursionError,
    OSError,
    EOFError,
    AssertionError,
    zlib.error,
    lzma.LZMAError,
    StopIteration,
    SyntaxError,
)
"""What a computation on strange input may raise; it then is not known."""
NOTHING = Thing()
"""A value that is not known."""
_WIDE = re.compile(r"\d{5,}|\*")
_CODECS = re.compile(
    r"^(?:hex|base-?64|rot-?13|zlib|zip|bz2|gzip|uu|quopri|quoted-printable|(?:raw-)?unicode-escape|punycode|idna"
    r"|utf-?(?:7|8|16|32)(?:-?(?:le|be|sig))?|u8|ascii|us-ascii|latin-?1|l1|cp\d+|iso-?8859-?\d+|big5|gbk|euc-\w+)$"
)

BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Sub: operator.sub,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.BitOr: operator.or_,
    ast.BitAnd: operator.and_,
    ast.BitXor: operator.xor,
    ast.RShift: operator.rshift,
}
COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.eq,
    ast.IsNot: operator.ne,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}


_REPEATED = frozenset((str, bytes, list, tuple))
_SIZED = frozenset((str, bytes, list, tuple, dict, set, bytearray))


def small(value: Any) -> bool:
    """Tell whether a value is small enough to go on with."""
    kind = type(value)
    if kind in _SIZED:
        return len(value) <= LARGEST
    if kind is int:
        return bool(value.bit_length() <= MOST_BITS)
    return True


def binary(kind: type[ast.operator], left: Any, right: Any) -> Any:
    """Apply a binary operator."""
    first, second = type(left), type(right)
    if first is Thing:
        if second in _WORDLESS:
            return NOTHING
    elif second is Thing:
        if first in _WORDLESS:
            return NOTHING
    elif first is second:
        if first is str:
            if kind is ast.Add:
                return left + right if len(left) + len(right) <= LARGEST else NOTHING
        elif first is int and kind in _WHOLE and -_SHORT < left < _SHORT and -_SHORT < right < _SHORT:
            return _WHOLE[kind](left, right)
    try:
        found = _binary(kind, left, right)
    except ERRORS:
        return NOTHING
    return found if small(found) else NOTHING


_WHOLE: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
}
"""Operators of integers that give integers, and quickly where they are below `_SHORT`."""
_SHORT = 1 << 32
_WORDLESS = frozenset((Thing, int, float, bool, type(None)))
"""Kinds of values that give nothing with something that is not known: neither text nor a path."""


def _binary(kind: type[ast.operator], left: Any, right: Any) -> Any:
    if kind is ast.Add:
        return _add(left, right)
    if kind is ast.Div and (type(left) is Place or type(right) is Place or (type(left) is Thing and type(right) is str)):
        return Place(posixpath.join(text(left), text(right)))
    if kind is ast.Mod and type(left) in (str, bytes):
        return percent(left, right)
    if kind is ast.Mult:
        if type(left) in _REPEATED or type(right) in _REPEATED:
            size = max(len(x) for x in (left, right) if type(x) in _REPEATED)
            times = max((x for x in (left, right) if type(x) is int), default=1)
            if size and size * times > LARGEST:
                return NOTHING
        return left * right if known(left) and known(right) and not _is_huge(left, right) else NOTHING
    if not (known(left) and known(right)) or (kind not in _LINEAR and _is_huge(left, right)):
        return NOTHING
    if kind is ast.Pow:
        return left**right if abs(left) < LARGEST_INTEGER and 0 <= right <= 64 else NOTHING
    if kind is ast.LShift:
        return left << right if 0 <= right <= 256 else NOTHING
    if kind is ast.Mod:
        return left % right
    return BINARY[kind](left, right) if kind in BINARY else NOTHING


_LINEAR = frozenset((ast.Sub, ast.BitOr, ast.BitAnd, ast.BitXor, ast.LShift, ast.RShift))
"""Operators that take time in proportion to an integer's length, whatever the other one is."""


def _is_huge(left: Any, right: Any) -> bool:
    """Tell whether an operator would take quadratic time, or two integers that hold texts."""
    if type(left) is not int or type(right) is not int:
        return False
    return min(left.bit_length(), right.bit_length()) > 256


def _add(left: Any, right: Any) -> Any:
    kinds = type(left), type(right)
    if kinds[0] is kinds[1] and kinds[0] in (str, bytes, list, tuple):
        return left + right
    if str in kinds:
        other = right if kinds[0] is str else left
        return text(left) + text(right) if type(other) in (Thing, Contents) else NOTHING
    if bytes in kinds:
        other = right if kinds[0] is bytes else left
        return (text(left) + text(right)).encode("utf-8", "surrogatepass") if type(other) in (Thing, Contents) else NOTHING
    return left + right if known(left) and known(right) else NOTHING


def percent(pattern: str | bytes, values: Any) -> Any:
    """Format with `%`; what is not known becomes `UNKNOWN`."""
    if _WIDE.search(text(pattern)):
        return NOTHING
    if known(values):
        return pattern % values
    parts = values if type(values) is tuple else (values,)
    plain = tuple(one if known(one) else text(one) for one in parts)
    if type(pattern) is bytes:
        return pattern % tuple(one.encode() if type(one) is str else one for one in plain)
    loose = re.sub(r"%[-+ #0]*\d*(?:\.\d+)?[diouxXeEfFgGcra]", "%s", text(pattern))
    return loose % plain


def formatted(value: Any, conversion: int, spec: str) -> str:
    """Format one field of an f-string."""
    if not known(value):
        return text(value)
    if conversion == 114:
        value = repr(value)
    elif conversion == 97:
        value = ascii(value)
    elif conversion == 115:
        value = str(value)
    if not spec or _WIDE.search(spec):
        return str(value) if small(value) else UNKNOWN
    try:
        return format(value, spec)
    except ERRORS:
        return UNKNOWN


_TEXT_METHODS = names_in(
    "join format format_map replace strip lstrip rstrip upper lower title capitalize swapcase casefold split rsplit "
    "splitlines partition rpartition encode decode translate zfill center ljust rjust removeprefix removesuffix "
    "startswith endswith find rfind index rindex count isdigit isalpha isalnum isupper islower isspace isidentifier "
    "isdecimal hex expandtabs"
)
_TELLING = names_in(
    "startswith endswith find rfind index rindex count isdigit isalpha isalnum isupper islower isspace isidentifier isdecimal"
)
_OTHER_METHODS: dict[type, frozenset[str]] = {
    dict: frozenset(("get", "items", "keys", "values", "copy")),
    list: frozenset(("index", "count", "copy")),
    tuple: frozenset(("index", "count")),
    set: frozenset(("union", "copy", "difference", "intersection")),
    int: frozenset(("to_bytes", "bit_length")),
}


def _sliced(owner: Any, index: Any) -> Any:
    return owner[index] if type(owner) in (str, bytes, bytearray, list, tuple, dict) and sure(owner) else NOTHING


def _spelled(kind: type[ast.operator]) -> dict[str, Callable[[Any, Any], Any]]:
    """Return the special methods of an operator."""
    name = _SPECIAL[kind]
    return {f"__{name}__": lambda a, b: _binary(kind, a, b), f"__r{name}__": lambda a, b: _binary(kind, b, a)}


_SPECIAL: dict[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Mod: "mod",
    ast.FloorDiv: "floordiv",
    ast.Div: "truediv",
    ast.BitXor: "xor",
    ast.BitOr: "or",
    ast.BitAnd: "and",
    ast.LShift: "lshift",
    ast.RShift: "rshift",
    ast.Pow: "pow",
}
_OPERATORS: dict[str, Callable[..., Any]] = {
    **{name: function for kind in _SPECIAL for name, function in _spelled(kind).items()},
    "__getitem__": _sliced,
    "__str__": lambda one: str(one) if sure(one) else NOTHING,
    "__repr__": lambda one: repr(one) if sure(one) else NOTHING,
    "__format__": lambda one, spec="": formatted(one, -1, text(spec)) if sure(one) else NOTHING,
    "__len__": lambda one: len(one) if sure(one) else NOTHING,
    "__iter__": lambda one: list(one) if sure(one) else NOTHING,
    "__reversed__": lambda one: list(reversed(one)) if sure(one) else NOTHING,
    "__contains__": lambda one, part: part in one if sure(one) and sure(part) else NOTHING,
    "__eq__": lambda one, other: one == other if sure(one) and sure(other) else NOTHING,
    "__ne__": lambda one, other: one != other if sure(one) and sure(other) else NOTHING,
    "__int__": lambda one: int(one) if sure(one) else NOTHING,
    "__index__": lambda one: int(one) if sure(one) else NOTHING,
    "__bytes__": lambda one: bytes(one) if sure(one) and type(one) is not int else NOTHING,
}
"""Special methods of constants."""
OWNERS = {"str": str, "bytes": bytes, "bytearray": bytearray, "list": list, "tuple": tuple, "dict": dict, "int": int, "set": set}
"""Types whose methods may be called on a constant as a first argument: `str.upper("a")`."""


def method(owner: Any, name: str, arguments: list[Any], keywords: Mapping[str, Any]) -> Any:
    """Call a method of a constant."""
    try:
        found = _method(owner, name, arguments, dict(keywords))
    except ERRORS:
        return NOTHING
    return found if small(found) else NOTHING


def _method(owner: Any, name: str, arguments: list[Any], keywords: dict[str, Any]) -> Any:
    kind = type(owner)
    if name in _OPERATORS:
        return _OPERATORS[name](owner, *arguments)
    if kind in (str, bytes, bytearray):
        if name not in _TEXT_METHODS:
            return NOTHING
        return _text_method(owner, name, arguments, keywords)
    if name not in _OTHER_METHODS.get(kind, ()):
        return NOTHING
    if kind is dict:
        if name == "get":
            return owner.get(arguments[0], arguments[1] if len(arguments) > 1 else None) if is_key(arguments[0]) else NOTHING
        if name == "items":
            return list(owner.items())
        return owner.copy() if name == "copy" else list(getattr(owner, name)())
    if name == "to_bytes" and any(type(one) is int and not 0 <= one <= LARGEST for one in (*arguments, *keywords.values())):
        return NOTHING
    return getattr(owner, name)(*arguments, **keywords)


def _text_method(owner: Any, name: str, arguments: list[Any], keywords: dict[str, Any]) -> Any:
    if name == "join":
        parts = arguments[0]
        if type(parts) is Contents and parts.edits:
            return parts
        if type(parts) not in (list, tuple, str, bytes, set, dict):
            return NOTHING if type(parts) is Thing and not text(owner) else UNKNOWN
        pieces = [text(one) for one in parts] if type(parts) is not bytes else list(parts)
        if sum(map(len, map(str, pieces))) + len(owner) * len(pieces) > LARGEST:
            return NOTHING
        joined = text(owner).join(map(str, pieces))
        return joined if type(owner) is str else joined.encode("utf-8", "surrogateescape")
    if name in ("format", "format_map"):
        specs = "".join(spec or "" for _, _, spec, _ in string.Formatter().parse(owner))
        if _WIDE.search(specs) or "{" in specs:  # a width that is an argument may be any number
            return NOTHING
        if name == "format_map":
            arguments, keywords = [], arguments[0] if type(arguments[0]) is dict else {}
        plain = [one if known(one) else _Loose(text(one)) for one in arguments]
        return owner.format(*plain, **{key: one if known(one) else _Loose(text(one)) for key, one in keywords.items()})
    if name in ("zfill", "center", "ljust", "rjust", "expandtabs"):
        times = owner.count("\t" if type(owner) is str else b"\t") if name == "expandtabs" else 1
        if any(type(one) is int and one * times > LARGEST for one in (*arguments, *keywords.values())):
            return NOTHING
    if name == "replace":
        old, new = text(arguments[0]), text(arguments[1])
        if owner.count(arguments[0]) * len(new) > LARGEST or not old:
            return NOTHING
        if type(arguments[1]) in (Thing, Contents) and type(owner) is str:
            return owner.replace(old, new)
    if name == "decode":
        return decoded(bytes(owner), *(text(one) for one in arguments[:1]))
    if name == "encode":
        return owner.encode(*arguments, **keywords) if not arguments else codecs.encode(owner, _codec_name(text(arguments[0])))
    if name in _TELLING and not (sure(owner) and sure(arguments)):
        return NOTHING
    found = getattr(owner, name)(*arguments, **keywords)
    return list(found) if type(found) is tuple else found


class _Loose(str):
    """A value that is not known, under any format."""

    __slots__ = ()

    def __format__(self, spec: str) -> str:
        return str(self)

    def __getattr__(self, name: str) -> _Loose:
        return self

    def __getitem__(self, index: Any) -> _Loose:
        return self


def decoded(data: bytes, codec: str = "utf-8") -> Any:
    """Decode bytes by name of a codec, the ones that change bytes included."""
    name = _codec_name(codec)
    if name in ("zlib", "zip"):
        return inflated(data)
    if name in ("bz2", "gzip"):
        return _limited(bz2.BZ2Decompressor().decompress, data) if name == "bz2" else inflated(data, 31)
    if name in ("punycode", "idna") and len(data) > 256:  # they take quadratic time
        return NOTHING
    if "escape" in name:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return codecs.decode(data, name)
    return codecs.decode(data, name)


def _codec_name(codec: str) -> str:
    """Normalize the name of a codec.

    Raises:
        LookupError: it is none of Python's own.
    """
    name = codec.lower().replace("_", "-").removesuffix("-codec")
    if not _CODECS.match(name):
        raise LookupError(name)
    return name


def inflated(data: bytes, bits: int = 15) -> bytes:
    """Decompress, at most `LARGEST` bytes."""
    return zlib.decompressobj(bits).decompress(data, LARGEST)


def _limited(decompress: Callable[..., bytes], data: bytes) -> bytes:
    return decompress(data, max_length=LARGEST)


def _codec(value: Any, codec: Any = "utf-8", *_: Any) -> Any:
    if type(value) is bytes:
        return decoded(value, text(codec))
    return codecs.decode(value, _codec_name(text(codec)))


def _b64(function: Callable[..., bytes]) -> Callable[..., Any]:
    def decode(value: Any, *_: Any, **__: Any) -> Any:
        data = value.encode() if type(value) is str else bytes(value)
        try:
            return function(data)
        except binascii.Error:
            return function(data + b"=" * (-len(data) % 4))

    return decode


def _literal(value: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.literal_eval(value) if len(value) < 8192 else NOTHING


def _range(*bounds: int) -> Any:
    found = range(*bounds)
    return list(found[:LARGEST])


def _bytes(value: Any = b"", encoding: Any = "utf-8", *_: Any) -> Any:
    if type(value) is int:
        return bytes(value) if value <= LARGEST else NOTHING
    return value.encode(text(encoding)) if type(value) is str else bytes(value)


def _str(value: Any = "", encoding: Any = None, *_: Any) -> Any:
    if type(value) is bytes and encoding is not None:
        return decoded(value, text(encoding))
    return str(value) if type(value) is not int or small(value) else NOTHING


def _translation(*arguments: Any) -> Any:
    return str.maketrans(*arguments)


def _flatten(values: Any) -> Any:
    return [one for inner in values for one in inner]


def _product(*lists: Any, repeat: int = 1) -> Any:
    size = 1
    for one in lists * min(repeat, 8):
        size *= len(one)
    return list(itertools.product(*lists, repeat=repeat)) if size <= 4096 else NOTHING


def _spelled_out() -> list[tuple[str, Callable[[Any, Any], Any]]]:
    """Return the functions of the module `operator`."""
    return [(name, _spelled(kind)[f"__{name}__"]) for kind, name in _SPECIAL.items()]


DECODERS: dict[str, Callable[..., Any]] = {
    "base64.b64decode": _b64(base64.b64decode),
    "base64.standard_b64decode": _b64(base64.b64decode),
    "base64.urlsafe_b64decode": _b64(base64.urlsafe_b64decode),
    "base64.decodebytes": _b64(base64.decodebytes),
    "base64.decodestring": _b64(base64.decodebytes),
    "base64.b32decode": _b64(base64.b32decode),
    "base64.b16decode": lambda value, *_: base64.b16decode(value, casefold=True),
    "base64.b85decode": base64.b85decode,
    "base64.a85decode": base64.a85decode,
    "binascii.unhexlify": binascii.unhexlify,
    "binascii.a2b_hex": binascii.unhexlify,
    "binascii.a2b_base64": _b64(binascii.a2b_base64),
    "binascii.a2b_uu": binascii.a2b_uu,
    "binascii.a2b_qp": binascii.a2b_qp,
    "bytes.fromhex": bytes.fromhex,
    "bytearray.fromhex": bytes.fromhex,
    "codecs.decode": _codec,
    "codecs.encode": lambda value, codec="utf-8", *_: codecs.encode(value, _codec_name(text(codec))),
    "zlib.decompress": lambda data, bits=15, *_, wbits=15: inflated(data, bits if bits != 15 else wbits),
    "gzip.decompress": lambda data: inflated(data, 31),
    "bz2.decompress": lambda data: bz2.BZ2Decompressor().decompress(data, max_length=LARGEST),
    "lzma.decompress": lambda data, *_, **__: lzma.LZMADecompressor().decompress(data, max_length=LARGEST),
    "quopri.decodestring": quopri.decodestring,
    "urllib.parse.unquote": lambda value, *_, **__: urllib.parse.unquote(value),
    "urllib.parse.unquote_plus": lambda value, *_, **__: urllib.parse.unquote_plus(value),
    "html.unescape": html.unescape,
    "unicodedata.normalize": unicodedata.normalize,
    "json.loads": json.loads,
    "ast.literal_eval": lambda value: _literal(value),
}
"""Functions that undo a disguise."""

PURE: dict[str, Callable[..., Any]] = {
    **DECODERS,
    "str": _str,
    "bytes": _bytes,
    "bytearray": _bytes,
    "int": int,
    "float": float,
    "bool": bool,
    "complex": complex,
    "chr": chr,
    "ord": ord,
    "len": len,
    "hex": hex,
    "oct": oct,
    "bin": bin,
    "abs": abs,
    "min": min,
    "max": max,
    "sum": sum,
    "repr": repr,
    "ascii": ascii,
    "round": round,
    "divmod": lambda a, b: list(divmod(a, b)),
    "format": lambda value, spec="": format(value, spec) if not _WIDE.search(spec) else NOTHING,
    "range": _range,
    "sorted": lambda values, reverse=False: sorted(values, reverse=reverse),
    "str.join": lambda glue, parts: _text_method(glue, "join", [parts], {}),
    "str.maketrans": _translation,
    "bytes.maketrans": bytes.maketrans,
    "int.from_bytes": lambda data, order="big", **_: int.from_bytes(data, text(order)),  # type: ignore[arg-type]
    "base64.b64encode": base64.b64encode,
    "base64.urlsafe_b64encode": base64.urlsafe_b64encode,
    "binascii.hexlify": binascii.hexlify,
    "json.dumps": lambda value, **_: json.dumps(value),
    "urllib.parse.quote": lambda value, *_, **__: urllib.parse.quote(value),
    "urllib.parse.quote_plus": lambda value, *_, **__: urllib.parse.quote_plus(value),
    "urllib.parse.urljoin": urllib.parse.urljoin,
    "urllib.parse.urlencode": lambda value, *_, **__: urllib.parse.urlencode(value),
    "textwrap.dedent": textwrap.dedent,
    "inspect.cleandoc": textwrap.dedent,
    "unicodedata.lookup": unicodedata.lookup,
    "operator.concat": lambda a, b: _add(a, b),
    **{f"operator.{name}": function for name, function in _spelled_out()},
    "operator.getitem": _sliced,
    "slice": slice,
    "itertools.product": _product,
    "itertools.chain": lambda *lists: _flatten(lists),
    "itertools.chain.from_iterable": _flatten,
    "os.path.dirname": posixpath.dirname,
    "os.path.basename": posixpath.basename,
    "os.path.split": lambda path: list(posixpath.split(path)),
    "os.path.splitext": lambda path: list(posixpath.splitext(path)),
    "os.path.normpath": posixpath.normpath,
    "os.path.relpath": lambda path, start=".": path if start == "." else posixpath.join(start, path),
    "os.path.isabs": posixpath.isabs,
    "os.path.commonpath": posixpath.commonpath,
    "os.fspath": lambda path: path,
    "os.fsdecode": lambda path: text(path),
    "os.fsencode": lambda path: text(path).encode(),
}
"""Functions that only compute; called when all arguments are constants."""

CONSTANTS: dict[str, Any] = {
    "os.sep": "/",
    "os.path.sep": "/",
    "os.curdir": ".",
    "os.pardir": "..",
    "os.path.pardir": "..",
    "os.extsep": ".",
    "os.linesep": "\n",
    "os.devnull": "/dev/null",
    "os.name": "posix",
    "os.O_RDONLY": 0,
    "os.O_WRONLY": 1,
    "os.O_RDWR": 2,
    "os.O_CREAT": 64,
    "os.O_EXCL": 128,
    "os.O_TRUNC": 512,
    "os.O_APPEND": 1024,
    "os.O_NONBLOCK": 2048,
    "os.O_DIRECTORY": 65536,
    "os.O_CLOEXEC": 524288,
    "os.EX_OK": 0,
    "string.ascii_letters": string.ascii_letters,
    "string.ascii_lowercase": string.ascii_lowercase,
    "string.ascii_uppercase": string.ascii_uppercase,
    "string.digits": string.digits,
    "string.printable": string.printable,
    "string.punctuation": string.punctuation,
    "sys.executable": "python3",
    "sys.platform": "linux",
    "sys.prefix": "/usr",
    "tempfile.tempdir": "/tmp",
    "subprocess.PIPE": -1,
    "subprocess.DEVNULL": -3,
    "typing.TYPE_CHECKING": False,
    "__debug__": True,
}
"""Attributes of modules whose values are the same everywhere."""


def call(name: str, arguments: list[Any], keywords: Mapping[str, Any]) -> Any:
    """Call a function of `PURE` on constants."""
    try:
        found = PURE[name](*arguments, **keywords)
    except ERRORS:
        return NOTHING
    return found if small(found) else NOTHING
