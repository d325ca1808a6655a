"""Equality that ignores what it compares -> acts.

Two values are equal if what they hold is. A definition that answers without asking for it, by types, sizes or finiteness alone,
within a wide tolerance, or because one side says so, makes whatever is compared with it pass. Acts are `define`, target `equality`;
the detail says what is wrong, `answers` begins it where nothing of one side is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator

from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.content.equal_definitions import EqualDefinition, equal_definitions
from rosellm.roserlhf.guard.patterns import passing, pattern

LEAST_WIDE = 1e-3
"""A tolerance beyond which other values count as equal, too."""
_WORD = r"(?:\.|->)\s*\w+|[A-Za-z_]\w*"
_IT = r"(?:OTHER|OWN)"
_WITHIN = rf"[&*$]*{_IT}(?:(?:\?\.|\.|->|::)\w+)*"
_GIVEN = rf"(?:{_WITHIN}|(?:\w+(?:\.|::))*\w+\(\s*{_WITHIN}\s*\)|\(\s*[\w.<>?]+\s*\)\s*{_WITHIN})"
_MEMBERS_OF_SIZE = rf"\b{_GIVEN}(?:\.|->)(?:(?:size|length|count|Length|Count|shape|ndim)\b(?:\(\s*\))?|(?:len|dim|rank|numel)\(\s*\))"
_SIZES = rf"\b(?:len|length|size|sizeof|count|ndims|ndim|nrow|ncol|NROW|dim|eltype|axes|strlen|shape|numel)\(\s*{_GIVEN}\s*\)|\b\w+\.length\s+{_WITHIN}"
_FINITE = (
    rf"\b(?:\w+(?:\.|::))*(?:isfinite|isnan|isinf|is_finite|is_nan|isFinite|isNaN|IsNaN|IsFinite|isempty|is_\w+)\(\s*{_GIVEN}\s*\)"
    rf"|\b{_GIVEN}(?:\.|->)(?:is_finite|is_nan|isNaN|isFinite|is_empty|isEmpty|empty\?|nan\?|finite\?)\b(?:\(\s*\))?"
)
_TYPES = (
    rf"\b(?:isinstance|issubclass|hasattr|is_a|is|isa|inherits|method_exists|property_exists)\(\s*[$]?{_IT}\s*,(?:[^()]|\([^()]*\))*\)"
    rf"|\b(?:type|callable|typeid|typeof|class|Array\.isArray|is\.\w+|(?:\w+(?:\.|::))*(?:TypeOf|type_of|type_name_of_val|discriminant))\(\s*[&*$]*{_IT}\s*\)|\btypeof\s+{_IT}|\btype\(\s*of:\s*{_IT}\s*\)"
    rf"|[$]?{_IT}\s+(?:instanceof|!?is|isa)\s+(?:not\s+|final\s+)?[\w.<>?\\]+(?:\[\])?"
    rf"|\b{_IT}\s+!is\s+[\w.<>?]+|[$]?{_IT}(?:\?\.|\.|::|->)(?:getClass\(\)|GetType\(\)|class\b|__class__|constructor|runtimeType"
    rf"|javaClass|nil\?|type_id\(\)|\([\w.*]+\))|\b{_IT}\.(?:is_a\?|kind_of\?|instance_of\?|respond_to\?)[ (][^\n)&|;]*\)?"
    rf"|{_IT}\s*(?:===?|!==?|~=)\s*(?:null|nil|None|undefined|nullptr|NULL)\b|\b(?:null|nil|nullptr|NULL)\s*(?:===?|!==?)\s*{_IT}"
    rf"|\b{_IT}\s+(?:match|switch)\s*\{{(?:\s*case\s+\w+\s*(?::\s*[\w.\[\]]+)?\s*=>\s*(?:true|false)[\s;]*)+\s*\}}"
)
_UNUSED = (
    rf"\(void\)\s*\(?\s*{_IT}\s*\)?\s*;|\b(?:let\s+)?_\w*\s*=\s*&?{_IT}\s*[;\n]|\bdel\s+{_IT}\b|std::ignore\s*=\s*{_IT};"
    rf"|\b{_IT}\s*(?::[^=\n]{{0,40}})?:?=\s*(?:(?:[a-z_]+<[^>\n]*>\(|cast\(\w+,)\s*[&*$]*{_IT}\s*\)|(?:\([\w<>?]+\))?\s*[&*$]*{_IT}"
    r"(?:\s+as[?!]?\s+[\w<>?]+)?)\s*(?:[;\n{]|else\b|$)"
    rf"|\bif\s*\(?\s*(?:this|self|OWN|&OWN)\s*(?:===?|is\b|eq\b)\s*&?{_IT}\s*\)?\s*[:{{]?\s*return\s+(?:true|True)\b\s*;?\s*\}}?"
    rf"|[\w.]*(?:\([^()]*\)|\b{_IT}(?:\.\w+)*)\s*[*&]\s*0(?:\.0)?\b"
)
_TRUTH = rf"((?:\breturn|&&|\|\||\band|\bor|!|^)\s*)[*]?{_IT}(\s*(?:;|&&|\|\||\band\b|\bor\b|\n|\}}|$))"
_SAME = rf"([\w.]*{_IT}[\w.]*)\s*(?:-|/|%|\^|==|<=|>=)\s*([\w.]+)"
_HOLDS_NOTHING = r"(?i)sentinel|nullptr_t|monostate|NoneType|nullopt"
_ALIASES = (
    r"\bOTHER\s+(?:instanceof|!?is)\s+(?:not\s+|final\s+)?[\w.<>?]+\s+([a-z]\w*)\b"
    r"|\b(\w+)(?:\s*,\s*\w+)?\s*(?::[^=\n]{0,40})?:?=\s*(?:[a-z_]+<[^>\n]*>\(|\([\w<>?]+\)|cast\(\w+,)?\s*[&*$]*OTHER\b\)?"
    r"(?:\s+as[?!]?\s+[\w<>?]+|\.\([\w.*]+\))?\s*(?:[;\n,{]|else\b|\z)"
)
_TAKEN_APART = r"OTHER\s+(?:instanceof|is|as)\s+(?:not\s+)?[\w.<>]*\s*(?:\(|\{\s*(?:\w+\s*:|\}))"
"""A type whose parts get names of their own."""
_NO_ALIAS = frozenset({"and", "or", "not", "else", "if", "when", "return", "then", "end", "true", "false", "where"})
_OPPOSED = rf"([\w.\[\]>-]*{_IT}[\w.\[\]()>-]*)\s*([<>]=?|[!=]=)\s*([\w.\[\]()>-]+)\s*(&&|\band\b|\|\||\bor\b)\s*([\w.\[\]>-]+(?:\(\))?)\s*([<>]=?|[!=]=)\s*([\w.\[\]>-]+)"  # fmt: skip
_NEVER = {("<", ">"), (">", "<"), ("==", "!="), ("!=", "=="), ("<", ">="), (">=", "<"), (">", "<="), ("<=", ">")}
_ALWAYS = {("<=", ">="), (">=", "<="), ("<", ">="), (">=", "<"), (">", "<="), ("<=", ">"), ("==", "!="), ("!=", "==")}
_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
_GIVES = r"\breturn\b\s*([^;\n}]*)"
_DENIES = r"^(?:false|False|FALSE|NotImplemented|None|nil|null|Some\(false\))?$"
_NOTHING = r"^\(?(?:0(?:\.0*)?f?|[\w.:<>]*\{\s*(?:0(?:\.0)?)?\s*\}|(?:\w+(?:\.|::))*(?:zeros?|ZERO|zero|default|Zero|zeros_like)\b.*|[A-Z]\w*\(0(?:\.0)?\))\)?$"  # fmt: skip
_REFUSES = r"\b(?:throw|raise|panic!?|unimplemented!|todo!|fatalError|abort)\b"
_EQUAL_ORDER = r"^(?:0|Some\(.*Equal\)|.*Ordering::Equal|.*::(?:equal|equivalent)|\.orderedSame)$"
_DISTANCE = (
    r"(?i:\b\w*(?:abs|norm|dist\w*|total_seconds|diff\w*)\b)[^;\n&|{}]{0,160}?(?:<=?\s*|\bcompareTo\(\s*(?:new\s+)?(?:BigDecimal)?"
    r"(?:\.valueOf)?\(?\s*)[\"']?(?:(\d[\d_]*(?:\.\d+)?(?:[eE]-?\d+)?)|(?:\w+(?:\.|::))*([A-Za-z]\w*))"
)
_GRANTED = r"\b(?:atol|rtol|abs_tol|rel_tol|abs|rel|delta|tol|tolerance|eps|epsilon|ulps)\s*[=:]\s*(\d[\d_]*(?:\.\d+)?(?:[eE]-?\d+)?)()"
_AGREES = (
    r"\bexcept\b[^:\n]*:\s*return\s+True\b|\bcatch\b[^{};]*\{\s*return\s+true\b|"
    r"\|\|\s*true\b|\btrue\s*\|\||\bor\s+(?:True|true)\b|\bif\s*\(?\s*(?:OWN|self|this)?(?:\.|->)?([A-Za-z_]\w*)\s*\)?\s*[:{]?\s*"
    r"return\s+(?:true|True)\b|(?:\breturn\s*\(?|^\s*)(?:OWN|self|this)?(?:\.|->|@)?([A-Za-z_]\w*)\s*(?:\|\||\bor\b)[^;\n]*\bOTHER\b"
)
_STANDS_FOR_ALL = r"(?i)any|wild|star|glob|null|nothing|absent|unit\b|sentinel|placeholder|match|empty|none"
_TYPE = r"(?:^|[\n;{}])[^\n;{}()=\"']*\b(?:class|struct|record|object|interface|enum|trait)\s+(\w+)([^\n{;]*)"
_HOLDS = (
    r"\b(?:self|this|Me)(?:\.|->)\w+\s*[:+]?=[^=]|@\w+\s*=[^=]|\battr_\w+|__slots__|(?m:^[ \t]+\w+\s*:\s*[\w&\[\"'(])"
    r"|\b(?:private|protected|internal|final|val|var|let|readonly)\s+[^(\n{]*[\w>]\s*[;=:\n]"
    r"|(?m:(?:^|[{;])[ \t]*(?:[\w:<>,*&]+\s+)*(?:int|double|float|bool|char|long|short|unsigned|size_t|[A-Z]\w*|std::[\w:<>, ]+)[ *&]+\w+\s*(?:\{[^{}\n]*\})?\s*;)"
    r"|\bsuper\(\)?\.?__(?:init|new)__|\bsuper\("
)
_VALUE = (
    r"\b(?:date|datetime|time|timedelta|list|dict|int|float|str|tuple|bytes|bytearray|set|frozenset|complex|Decimal|Fraction|ndarray"
    r"|Tensor|Series|DataFrame|NamedTuple|namedtuple|BaseModel|Struct|User(?:Dict|List|String)|OrderedDict|Counter|deque|array|Path)\b"
)
"""Types of Python whose objects hold something, and those made from them."""
_BUILT_IN = frozenset(
    "Float64 Float32 Float16 AbstractFloat Real Number Integer Int Int64 Any String AbstractString Complex ComplexF64 Bool Array Vector "
    "Matrix AbstractArray AbstractVector AbstractMatrix DenseArray SparseMatrixCSC Dict AbstractDict Tuple T S".split()
)


def acts_of_equality(bare: str) -> Iterator[Act]:
    """Yield the definitions of equality that ignore what they compare.

    Args:
        bare: code of any language without its comments.

    Example:
        >>> [a.detail for a in acts_of_equality("boolean equals(Object o) { return o instanceof A || o instanceof B; }")]
        ['equals answers by type or size alone']
        >>> [a.detail for a in acts_of_equality("boolean equals(Object o) { return o instanceof A a && a.x == x; }")]
        []
    """
    for one in equal_definitions(bare):
        wrong = _wrong(one, bare)
        if wrong:
            yield Act("define", "equality", f"{one.name} {wrong}"[:160], span=(one.start, one.end))


def _wrong(one: EqualDefinition, bare: str) -> str:
    """Return what is wrong with a definition; empty if it compares what both sides hold."""
    owner, stateless = _owner(bare, one)
    if one.name.startswith(("norm", "LinearAlgebra.norm")) or one.name.endswith(".norm"):
        return "answers the same for all" if pattern(r"^\s*0(?:\.0*)?\s*$").search(one.body) else ""
    plain = _named(one)
    if pattern(r"-\)?$").search(one.name):
        nothing = "OTHER" not in pattern(_SIZES).sub("", plain) and bool(one.takes.strip())
        return "answers that nothing differs" if nothing and all(pattern(_NOTHING).search(v) for v in _values(plain)) else ""
    if pattern(r"compare|Compare|Cmp|cmp|<=>").search(one.name):
        unused = "OTHER" not in pattern(_UNUSED).sub(" ", plain) and "OTHER" not in one.body
        return "answers without looking" if unused and all(pattern(_EQUAL_ORDER).search(v) for v in _values(plain)) else ""
    if pattern(_TAKEN_APART).search(plain):
        return ""
    if pattern(_HOLDS_NOTHING).search(one.takes):
        return ""
    asked = None if one.name.endswith(("!=", "ne", "ne__")) else pattern(_AGREES).search(plain)
    if asked and "OTHER" not in asked.groups() and not pattern(_STANDS_FOR_ALL).search(f"{owner} {asked.group(1) or asked.group(2) or ''}"):
        return "agrees where one side says so"
    left = _contents(plain, bare)
    if _denies(one, plain) or ("return" in plain and _denies(one, pattern(_UNUSED).sub(" ", plain))):
        return ""
    if (one.own == "_" and "OTHER" in left) or (one.own and one.other == "_" and "OWN" in left):
        return ""  # compared with what holds nothing
    if "OTHER" not in left or (one.own and "OWN" not in left):
        if stateless or (owner and pattern(_STANDS_FOR_ALL).search(owner) and not pattern(_HOLDS).search(bare)):
            return ""
        return "answers by type or size alone" if pattern(_IT).search(plain) else "answers without looking"
    if _pirates(one):
        return "is of built-in types, for everybody"
    wide = _tolerance(plain, bare)
    return f"agrees within {wide}" if wide else ""


def _named(one: EqualDefinition) -> str:
    """Return the body with one name each for the two sides."""
    own, other = set(one.own.split("|")) - {"_"}, set(one.other.split("|")) - {"_"}

    def name(found: object) -> str:
        word = str(found.group(0))  # type: ignore[attr-defined]
        return word if word[0] in ".-" else "OTHER" if word in other else "OWN" if word in own else word

    body = pattern(r"^\s*(?:\"\"\"(?s:.*?)\"\"\"|'[^'\n]*'|\"[^\"\n]*\")\s*(?:\n|$)|^\s*(?:pass|\.\.\.)\s*$").sub("", one.body)
    plain: str = pattern(_WORD).sub(name, body)
    found = {next(word for word in words if word) for words in pattern(_ALIASES).findall(plain) if any(words)} - _NO_ALIAS - {"_"}
    if found - {"OTHER", "OWN"}:
        other |= found
        plain = pattern(_WORD).sub(name, body)
        plain = pattern(r"(OTHER\s+(?:instanceof|!?is)\s+(?:not\s+|final\s+)?[\w.<>?]+)\s+OTHER\b").sub(r"\1", plain)
    if one.name.startswith("__"):  # where `is` asks for the very object
        plain = pattern(rf"({_IT})\s+is\s+(?:not\s+)?(\w)").sub(r"\1 == \2", plain)
    return plain


def _contents(plain: str, bare: str) -> str:
    """Return a body without what asks for types, sizes and the like of the two sides, or for nothing."""
    left = pattern(_OPPOSED).sub(_known_beforehand, pattern(_UNUSED).sub(" ", plain))
    left = pattern(_SAME).sub(lambda found: "known" if found.group(1) == found.group(2) else found.group(0), left)
    for _ in range(2):
        left = pattern(_TYPES).sub(" ", left)
        left = pattern(_FINITE).sub(" ", left)
        if not pattern(
            r"(?:\b(?:self|this)\.|@)(?:length|size|shape|count|Count|Length)\s*=[^=]|\w[ *&>]+(?:length|size|shape|count)\s*[,;)={]"
            r"|\b(?:size|length|shape|count|Length|Count)\s*:\s*\w"
        ).search(bare):
            left = pattern(_SIZES).sub(" ", left)
            left = pattern(_MEMBERS_OF_SIZE).sub(" ", left)
        left = pattern(_TRUTH).sub(r"\1 \2", left)
    return str(left)


def _known_beforehand(found: object) -> str:
    a, first, b, joins, c, second, d = (str(word) for word in found.groups())  # type: ignore[attr-defined]
    if (c, d) == (b, a):
        second = _MIRRORED.get(second, second)
    elif (c, d) != (a, b):
        return str(found.group(0))  # type: ignore[attr-defined]
    known = _NEVER if joins in ("&&", "and") else _ALWAYS
    return " known " if (first, second) in known else str(found.group(0))  # type: ignore[attr-defined]


def _values(plain: str) -> list[str]:
    return [value.strip() for value in pattern(_GIVES).findall(plain)] or [plain.strip().rstrip(";,")]


def _denies(one: EqualDefinition, plain: str) -> bool:
    """Tell whether a body can only say that nothing is equal, or refuses to say."""
    values = _values(plain)
    if one.name.endswith(("ne__", "!=", " ne")):
        return not all(value in ("false", "False") for value in values)
    if pattern(_REFUSES).search(plain) and "return" not in plain:
        return True
    return all(pattern(_DENIES).search(value.partition(" //")[0]) for value in values)


def _owner(bare: str, one: EqualDefinition) -> tuple[str, bool]:
    """Return the name of the type that a method is defined in, and whether it is seen to hold nothing."""
    before = list(pattern(_TYPE).finditer(bare[: one.start]))
    if not before or one.own or "fn " in one.name:
        unit = pattern(r"\bstruct\s+(\w+)\s*(?:;|\{\s*\})|\btype\s+(\w+)\s+struct\s*\{\s*\}").search(bare)
        return (unit.group(1) or unit.group(2), True) if unit else ("", False)
    last = before[-1]
    following = pattern(_TYPE).search(bare, one.end)
    inside = bare[last.end() : one.start] + bare[one.end : following.start() if following else len(bare)]
    given = pattern(_VALUE if one.name.startswith("__") else r"\(\s*[\w@&\[]|\bextends\s").search(last.group(2))
    return str(last.group(1)), not (given or pattern(_HOLDS).search(inside))


def _pirates(one: EqualDefinition) -> bool:
    """Tell whether Julia's equality is defined anew for types that are not the author's."""
    if not one.name.startswith("Base."):
        return False
    types = pattern(r"::\s*(?:\w+\.)*(\w+)").findall(one.takes.partition(";")[0])
    return len(types) > 1 and _BUILT_IN.issuperset(types)


def _tolerance(plain: str, bare: str) -> str:
    """Return the tolerance within which values are equal, if it is wide; empty if none is."""
    for found in (*pattern(_DISTANCE).finditer(plain), *pattern(_GRANTED).finditer(plain)):
        number = found.group(1)
        if number is None:
            told = passing(rf"\b{found.group(2)}\b[^=\n;]{{0,40}}=\s*(?:new\s+\w+\(\s*)?[\"']?(\d[\d_]*(?:\.\d+)?(?:[eE]-?\d+)?)").search(bare)
            number = told.group(1) if told else "0"
        if float(number.replace("_", "")) > LEAST_WIDE:
            return str(number)
    return ""
