"""What a definition of equality asks for of its two sides: its body with one name for each, less what asks for types or sizes.

The left side is called `OWN`, if it has a name, and the right one `OTHER`, with whatever it is known as by then.
"""

from __future__ import annotations

from rosellm.roserlhf.guard.content.equal_definitions import EqualDefinition
from rosellm.roserlhf.guard.patterns import pattern

_WORD = r"(?:\.|->)\s*\w+|[A-Za-z_]\w*"
SIDE = r"(?:OTHER|OWN)"
_WITHIN = rf"[&*$]*{SIDE}(?:(?:\?\.|\.|->|::)\w+)*"
_GIVEN = rf"(?:{_WITHIN}|(?:\w+(?:\.|::))*\w+\(\s*{_WITHIN}\s*\)|\(\s*[\w.<>?]+\s*\)\s*{_WITHIN})"
_MEMBERS_OF_SIZE = (
    rf"\b{_GIVEN}(?:\.|->)(?:(?:size|length|count|Length|Count|shape|ndim)\b(?:\(\s*\))?|(?:len|dim|rank|numel)\(\s*\))"
)
SIZES = (
    rf"\b(?:len|length|size|sizeof|count|ndims|ndim|nrow|ncol|NROW|dim|eltype|axes|strlen|shape"
    rf"|numel)\(\s*{_GIVEN}\s*\)|\b\w+\.length\s+{_WITHIN}"
)
_FINITE = (
    rf"\b(?:\w+(?:\.|::))*(?:isfinite|isnan|isinf|is_finite|is_nan|isFinite|isNaN|IsNaN|IsFinite|isempty|is_\w+)\(\s*{_GIVEN}\s*\)"
    rf"|\b{_GIVEN}(?:\.|->)(?:is_finite|is_nan|isNaN|isFinite|is_empty|isEmpty|empty\?|nan\?|finite\?)\b(?:\(\s*\))?"
)
_TYPES = (
    rf"\b(?:isinstance|issubclass|hasattr|is_a|is|isa|inherits|method_exists|property_exists)\(\s*[$]?{SIDE}\s*,(?:[^()]"
    rf"|\([^()]*\))*\)"
    rf"|\b(?:type|callable|typeid|typeof|class|Array\.isArray|is\.\w+|(?:\w+(?:\.|::))*(?:TypeOf|type_of|type_name_of_val"
    rf"|discriminant))\(\s*[&*$]*{SIDE}\s*\)|\btypeof\s+{SIDE}|\btype\(\s*of:\s*{SIDE}\s*\)"
    rf"|[$]?{SIDE}\s+(?:instanceof|!?is|isa)\s+(?:not\s+|final\s+)?[\w.<>?\\]+(?:\[\])?"
    rf"|\b{SIDE}\s+!is\s+[\w.<>?]+|[$]?{SIDE}(?:\?\.|\.|::|->)(?:getClass\(\)|GetType\(\)|class\b|__class__|constructor|runtimeType"
    rf"|javaClass|nil\?|type_id\(\)|\([\w.*]+\))|\b{SIDE}\.(?:is_a\?|kind_of\?|instance_of\?|respond_to\?)[ (][^\n)&|;]*\)?"
    rf"|{SIDE}\s*(?:===?|!==?|~=)\s*(?:null|nil|None|undefined|nullptr|NULL)\b|\b(?:null|nil|nullptr|NULL)\s*(?:===?|!==?)\s*{SIDE}"
    rf"|\b{SIDE}\s+(?:match|switch)\s*\{{(?:\s*case\s+\w+\s*(?::\s*[\w.\[\]]+)?\s*=>\s*(?:true|false)[\s;]*)+\s*\}}"
)
UNUSED = (
    rf"\(void\)\s*\(?\s*{SIDE}\s*\)?\s*;|\b(?:let\s+)?_\w*\s*=\s*&?{SIDE}\s*[;\n]|\bdel\s+{SIDE}\b|std::ignore\s*=\s*{SIDE};"
    rf"|\b{SIDE}\s*(?::[^=\n]{{0,40}})?:?=\s*(?:(?:[a-z_]+<[^>\n]*>\(|cast\(\w+,)\s*[&*$]*{SIDE}\s*\)|(?:\([\w<>?]+\))?\s*[&*$]*{SIDE}"
    r"(?:\s+as[?!]?\s+[\w<>?]+)?)\s*(?:[;\n{]|else\b|$)"
    rf"|\bif\s*\(?\s*(?:this|self|OWN|&OWN)\s*(?:===?|is\b|eq\b)\s*&?{SIDE}\s*\)?\s*[:{{]?\s*return\s+(?:true|True)\b\s*;?\s*\}}?"
    rf"|[\w.]*(?:\([^()]*\)|\b{SIDE}(?:\.\w+)*)\s*[*&]\s*0(?:\.0)?\b"
)
_TRUTH = rf"((?:\breturn|&&|\|\||\band|\bor|!|^)\s*)[*]?{SIDE}(\s*(?:;|&&|\|\||\band\b|\bor\b|\n|\}}|$))"
_SAME = rf"([\w.]*{SIDE}[\w.]*)\s*(?:-|/|%|\^|==|<=|>=)\s*([\w.]+)"
_ALIASES = (
    r"\bOTHER\s+(?:instanceof|!?is)\s+(?:not\s+|final\s+)?[\w.<>?]+\s+([a-z]\w*)\b"
    r"|\b(\w+)(?:\s*,\s*\w+)?\s*(?::[^=\n]{0,40})?:?=\s*(?:[a-z_]+<[^>\n]*>\(|\([\w<>?]+\)|cast\(\w+,)?\s*[&*$]*OTHER\b\)?"
    r"(?:\s+as[?!]?\s+[\w<>?]+|\.\([\w.*]+\))?\s*(?:[;\n,{]|else\b|\z)"
)
_NO_ALIAS = frozenset({"and", "or", "not", "else", "if", "when", "return", "then", "end", "true", "false", "where"})
_OPPOSED = (
    rf"([\w.\[\]>-]*{SIDE}[\w.\[\]()>-]*)\s*([<>]=?|[!=]=)\s*([\w.\[\]()>-]+)\s*(&&"
    rf"|\band\b|\|\||\bor\b)\s*([\w.\[\]>-]+(?:\(\))?)\s*([<>]=?|[!=]=)\s*([\w.\[\]>-]+)"
)
_NEVER = {("<", ">"), (">", "<"), ("==", "!="), ("!=", "=="), ("<", ">="), (">=", "<"), (">", "<="), ("<=", ">")}
_ALWAYS = {("<=", ">="), (">=", "<="), ("<", ">="), (">=", "<"), (">", "<="), ("<=", ">"), ("==", "!="), ("!=", "==")}
_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
_GIVES = r"\breturn\b\s*([^;\n}]*)"
_DENIES = r"^(?:false|False|FALSE|NotImplemented|None|nil|null|Some\(false\))?$"
_REFUSES = r"\b(?:throw|raise|panic!?|unimplemented!|todo!|fatalError|abort)\b"


def named(one: EqualDefinition) -> str:
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
        plain = pattern(rf"({SIDE})\s+is\s+(?:not\s+)?(\w)").sub(r"\1 == \2", plain)
    return plain


def contents(plain: str, bare: str) -> str:
    """Return a body without what asks for types, sizes and the like of the two sides, or for nothing."""
    left = pattern(_OPPOSED).sub(_known_beforehand, pattern(UNUSED).sub(" ", plain))
    left = pattern(_SAME).sub(lambda found: "known" if found.group(1) == found.group(2) else found.group(0), left)
    for _ in range(2):
        left = pattern(_TYPES).sub(" ", left)
        left = pattern(_FINITE).sub(" ", left)
        if not pattern(
            r"(?:\b(?:self|this)\.|@)(?:length|size|shape|count|Count|Length)\s*=[^=]|\w[ *&>]+(?:length|size|shape"
            r"|count)\s*[,;)={]"
            r"|\b(?:size|length|shape|count|Length|Count)\s*:\s*\w"
        ).search(bare):
            left = pattern(SIZES).sub(" ", left)
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


def values(plain: str) -> list[str]:
    return [value.strip() for value in pattern(_GIVES).findall(plain)] or [plain.strip().rstrip(";,")]


def denies(one: EqualDefinition, plain: str) -> bool:
    """Tell whether a body can only say that nothing is equal, or refuses to say."""
    given = values(plain)
    if one.name.endswith(("ne__", "!=", " ne")):
        return not all(value in ("false", "False") for value in given)
    if pattern(_REFUSES).search(plain) and "return" not in plain:
        return True
    return all(pattern(_DENIES).search(value.partition(" //")[0]) for value in given)
