"""Definitions of equality in code of any language: `__eq__`, `equals`, `operator==`, `fn eq`, `Base.isapprox`, `instance Eq`, …

Of a method, what it belongs to is often named nowhere: only what comes in from outside has a name then.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from rosellm.roserlhf.guard.patterns import PatternSet, passing, pattern

MOST = 12
LONGEST_BODY = 2_000
_IN = r"\(((?:[^(){};]|\([^(){};]*\))*(?:;[^(){};]*)?)\)"
"""What a function takes."""
_OUT = (
    r"(?:\s|const\b|noexcept\b|override\b|final\b|pure\b|nothrow\b|@\w+|throws\b|->\s*[\w:<>?]+|:[ \t]*[\w<>?]+|bool\b|Bool\b"
    r"|int\b|where\b[^{=\n]*)*"
)
_OPENS = r"(\{|=>?)"
_CALLED = r"(?:equals|Equals|isEqual|is_equal|equalTo|opEquals|compareTo|CompareTo)"
_IN_BRACES = r"\(((?:[^(){};]|\{[^{}\n]*\}|\([^(){};]*\))*(?:;[^(){};]*)?)\)"
"""The same where types take parameters in braces."""
_JULIA = r"((?:\w+\.)?:?\(?(?:==|isapprox|≈|isequal|-|norm)\)?)\s*"
_FORMS: tuple[tuple[str, str], ...] = (
    ("indented", r"\bdef\s+(__(?:eq|ne)__)\s*\(\s*\w+\s*,\s*(\w+)[^)]*\)[^:\n]*(:)"),
    ("value", r"\b(__(?:eq|ne)__)\s*=\s*lambda\s+\w+\s*,\s*(\w+)\s*(:)"),
    ("value", rf"\b(operator\s*(?:==|!=|<=>|-))\s*{_IN}{_OUT}{_OPENS}"),
    ("value", rf"(?:^|[^.\w>]|\boverride\s+\w+\.)({_CALLED})\s*{_IN}{_OUT}{_OPENS}"),
    ("value", rf"\b({_CALLED}|__eq)\s*[:=]\s*(?:function\s*\w*\s*)?{_IN}\s*(?::\s*\w+)?\s*(\{{|=>)"),
    ("value", rf"\b((?:fn|func|proc)\s*`?(?:\b(?:eq|ne|partial_cmp|cmp|sub|eql)\b|[=!]="
        rf"|-)`?\*?)\s*(?:<[^>\n]*>)?\s*{_IN}{_OUT}{_OPENS}"),
    ("typed", rf"\bfunc\s*\([^()]*\)\s*(Equals?|Is|Cmp|Compare)\s*{_IN}\s*\w*\s*(\{{)"),
    ("annotated", rf"(?m)^[ \t]*(?:@\w+[ \t]+)*{_JULIA}{_IN_BRACES}(?:[ \t]*where[^=\n]*)?[ \t]*(=)[ \t\n]*[^=> \t\n]"),
    ("annotated end", rf"(?m)^[ \t]*function\s+{_JULIA}{_IN_BRACES}()"),
    ("end", r"(?m)(?:^|;)[ \t]*(def\s+(?:==|===|<=>|eql\?|equal\?))\s*\(?\s*([a-z_]\w*)\s*\)?[ \t]*(=?)"),
    ("end", rf"\b(__eq\s*=\s*function|function\s+[\w.:]*\b__eq)\s*{_IN}()"),
    ("value", rf"(?m)^[ \t]*[`\"']?((?:==|Ops|all\.equal)\.\w+)[`\"']?\s*(?:<-|=)\s*(?:function|\\)\s*{_IN}()"),
    ("value", rf"\b(?:bool|int|_Bool)\s+(\w*(?:[Ee]qual|_eq|_cmp|Eq)s?)\s*{_IN}\s*(\{{)"),
    ("value", rf"\bdef\s+((?:equal|eql|compare)\??)\s*{_IN}\s*(,\s*do:)"),
    ("curried", r"(?m)^[ \t]*let\s+(?:rec\s+)?(equal|compare|\(=\))\s+((?:\w+|\([^()\n]*\))\s+(?:\w+"
        r"|\([^()\n]*\)))\s*(?::[^=\n]*)?(=)"),
    ("curried", r"\b(beq|BEq\b[^\n]{0,60}(?:⟨|\{\s*beq\s*:=)\s*fun)\s+(\w+\s+\w+)\s*(:=|=>)"),
    ("patterns", r"(?m)^[ \t]+\((==)\)[ \t]+((?:[\w']+|\([^()\n]*\))[ \t]+(?:[\w']+|\([^()\n]*\)))[ \t]*(=)"),
    ("patterns", r"(?m)^[ \t]+(?:())((?:[\w' ]|\([^()\n]*\))+[ \t]==[ \t](?:[\w' ]|\([^()\n]*\))+)(=)[^=]"),
)  # fmt: skip
"""How definitions begin: by groups, the name, what is compared, and what opens the body."""
HINT = (
    rf"__eq\b|__(?:eq|ne)__|\boperator\s*(?:[=!]=|<=>|-)|(?:^|[^.\w>]"
    rf"|\.){_CALLED}\s*(?:\([^()\n]*(?:\([^()\n]*\)[^()\n]*)*\)|[:=])\s*[^\s);,.&|?]"
    r"|\b(?:fn|func|proc)\s*`?(?:eq|ne|partial_cmp|cmp|sub|eql|[=!]=|-)\b|\b(?:func|proc)\s*`?(?:[=!]=|-)"
    r"|\)\s*(?:Equals?|Is|Cmp|Compare)\s*\(|\b(?:isapprox|isequal|norm)\)?\s*\([^\n]*=|\bfunction\s+[\w.]*:?\(?(?:isapprox"
    r"|isequal|norm|==|-|≈)|[:(](?:==|-|≈)\)?\s*\(|≈\(|\bdef\s+(?:==|<=>|eql|equal|compare\()"
    r"|\b(?:bool|int|_Bool)\s+\w*(?:[Ee]qual|_eq|_cmp|Eq)s?\s*\(|\blet\s+(?:rec\s+)?(?:equal|compare|\(=\))\s|\b(?:beq|BEq)\b"
    r"|(?m:^[ \t]*[`\"']?(?:==|Ops|all\.equal)\.\w|^[ \t]*(?:==|-)\()|\binstance\b[^\n]*\bEq\b"
)
"""What code with a definition of equality holds."""


@dataclass(frozen=True, slots=True)
class EqualDefinition:
    """A definition of equality.

    Attributes:
        name: as it is written.
        own: the name of the left one of two sides that are both named; empty where it is the object itself.
        other: the name of what is compared with; `_` if it has none.
        takes: what it takes, as written.
        body: what it does.
        start: where its name begins.
        end: where its body ends.
    """

    name: str
    own: str
    other: str
    takes: str
    body: str
    start: int
    end: int


@cache
def _forms() -> PatternSet:
    return PatternSet([words for _, words in _FORMS], ignore_case=False, loose=True)


def equal_definitions(bare: str) -> Iterator[EqualDefinition]:
    """Yield the definitions of equality in code without its comments.

    Example:
        >>> of = lambda code: [(d.name, d.own, d.other, d.body.strip()) for d in equal_definitions(code)]
        >>> of("bool operator==(const A& a, const A& b) { return a.x == b.x; }")
        [('operator==', 'a', 'b', 'return a.x == b.x;')]
        >>> of("boolean equals(Object o) { return o instanceof A; }"), of("if (a.equals(b)) { go(); }")
        ([('equals', '', 'o', 'return o instanceof A;')], [])
        >>> of("Base.isapprox(a::Float64, b::Float64; kw...) = true\\nf(x) = 1\\n")
        [('Base.isapprox', 'a', 'b', 'true')]
    """
    for number in sorted(_forms().scan(bare)):
        form, words = _FORMS[number]
        if form == "patterns" and not pattern(r"\binstance\b[^\n]*\bEq\b").search(bare):
            continue
        for count, found in enumerate(pattern(words).finditer(bare)):
            if count >= MOST:
                break
            start = found.end(3)
            if not found.group(2).strip() and form != "end":
                continue
            bare_kind = form == "patterns" and pattern(_BARE_KIND).search(found.group(2))
            if bare_kind or pattern(_LEFT_OUT).match(bare[start : start + 40]):
                continue
            if form == "indented":
                body = _indented(bare, found.start(1), start)
            elif form.endswith("end") and found.group(3) != "=":
                body = _ended(bare, found.start(1), start)
            else:
                opened = found.group(3) == "{" or pattern(r"^\s*\{").match(bare[start : start + 80])
                start = start if found.group(3) == "{" else start + (opened.end() if opened else 0)
                body = _braced(bare, start) if opened else _expression(bare, start)
            own, other = _patterns(found.group(2)) if form in ("patterns", "curried") else _sides(found.group(2), form)
            yield EqualDefinition(found.group(1) or "==", own, other, found.group(2), body, found.start(2), start + len(body))


_EXPRESSION = r"^\s*(?:[^\n;]*(?:&&|\|\||[=(,|])[ \t]*\n)*[^\n;]*(?:\n[ \t]*(?:&&|\|\||and\b|or\b|[.|])[^\n;]*)*"


_LEFT_OUT = r"^\s*(?:(?:default|delete|0)\s*;|[)\"'])"
_BARE_KIND = r"^\s*[A-Z][\w']*\s*==|==\s*[A-Z][\w']*\s*$|^[A-Z][\w']*\s+\S+$"
"""A constructor that holds nothing: it is equal to itself."""


def _expression(bare: str, start: int) -> str:
    found = pattern(_EXPRESSION).match(bare[start : start + LONGEST_BODY]).group(0)
    if found.count("{") > found.count("}"):
        opened = start + found.index("{") + 1
        return bare[start : opened + len(_braced(bare, opened)) + 1]
    return str(found)


def _braced(bare: str, start: int) -> str:
    depth = 1
    for found in pattern(r"[{}]").finditer(bare[start : start + LONGEST_BODY]):
        depth += 1 if found.group(0) == "{" else -1
        if depth == 0:
            return bare[start : start + found.start()]
    return bare[start : start + LONGEST_BODY]


def _margin(bare: str, place: int) -> str:
    line = bare[bare.rfind("\n", 0, place) + 1 : place]
    return line[: len(line) - len(line.lstrip())]


def _indented(bare: str, place: int, start: int) -> str:
    margin, lines = len(_margin(bare, place)), []
    for number, line in enumerate(bare[start : start + LONGEST_BODY].split("\n")):
        if number and line.strip() and len(line) - len(line.lstrip()) <= margin:
            break
        lines.append(line)
    return "\n".join(lines)


def _ended(bare: str, place: int, start: int) -> str:
    text = bare[start : start + LONGEST_BODY]
    found = passing(rf"(?m)^{_margin(bare, place)}end\b").search(text) or pattern(r"[;\s]end\b").search(text)
    return text[: found.start()] if found else text


def _sides(takes: str, form: str) -> tuple[str, str]:
    """Return the names of the two sides; of the left one only if it is named beside the right one."""
    for _ in range(3):
        takes = pattern(r"<[^<>]*>|\{[^{}]*\}|\[[^\[\]]*\]").sub("", takes)
    parts = [one for one in takes.partition(";")[0].split(",") if one.strip()]
    typed = any(
        len(pattern(r"\w+").findall(one.partition("=")[0].replace("const ", ""))) > 1
        for one in parts
        if ":" not in one.replace("::", "")
    )
    names = [_name(one, form, typed) for one in parts]
    names = [one for one in names if one not in ("self", "this", "cls", "")]
    return (names[0], names[1]) if len(names) > 1 else ("", names[0] if names else "_")


def _name(part: str, form: str, typed: bool) -> str:
    """Return the name of something that is taken; `_` if it has none, for all that is seen."""
    part = part.partition("=")[0].strip()
    if form.startswith("annotated"):
        return part.partition("::")[0].strip() or "_"
    part = part.replace("::", "__")
    words: list[Any] = pattern(r"\w+").findall((part.partition(":")[0] if ":" in part else part).replace("const ", ""))
    if len(words) == 1 and typed and form == "value" and ":" not in part and words[0] not in ("self", "this"):
        return "_"
    return str(words[0] if form == "typed" else words[-1]) if words else ""


def _patterns(takes: str) -> tuple[str, str]:
    """Return the variables of the two patterns of an equation, as alternatives."""
    if "==" in takes:
        left, _, right = takes.partition("==")
    else:
        left, right = (part.partition(":")[0] for part in pattern(r"\([^()]*\)|[^\s()]+").findall(takes)[:2])
    return tuple("|".join(pattern(r"\b[a-z]\w*").findall(side)) or "_" for side in (left, right))  # type: ignore[return-value]
