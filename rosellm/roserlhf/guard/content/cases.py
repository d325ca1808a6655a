"""Code of any language -> the inputs that it answers by name: `if x == LITERAL: return LITERAL`, arms of matches, tests of names.

A comparison counts where its literal is one input rather than a kind of inputs: a text with blanks or signs in it, a list of two or
more, several values compared together, a size or a hash. Acts are `code`, target `answers an input`, detail the comparison; traits:

| trait | holds |
|---|---|
| literals | what is compared, one a line |
| answer | what follows, shortened |
| then | `literal`, `leaves` (the block returns), `file` (a file is printed) |
| how | `equal`, `hash`, `size`, `name` (a part of the input's name), `part` (a part of the input that is long enough to tell it) |
| cases | how many such comparisons the code has |
| shape | `input` (a text or list that is one input), `together` (several values), `plain` |
| remark | comments beside it |
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice, pairwise

from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.content.constants import is_constant, statement_at
from rosellm.roserlhf.guard.hints import Hints, in_ascii, with_blanks

MOST_CASES = 40
LONGEST_CODE = 60_000
NEAR = 240
"""Characters after a comparison in which its answer begins."""
_TEXT = r'(?:"(?:[^"\\\n]|\\.){0,400}+"|\'(?:[^\'\\\n]|\\.){0,400}+\'|`[^`\n]{0,400}+`)'
_NUMBER = r"-?(?:0x[0-9A-Fa-f_]+|\d[\d_]*(?:\.\d+)?(?:[eE][-+]?\d+)?)(?:[uUlLfn]|_?[ui]\d+)*"
_MAKER = (
    r"(?:&|new\s+\w+(?:<\w*>)?(?:\[\])?\s*|\[\]\w+|\[\d*\]\w+|\b(?:vec!|c|list|tuple|List\.of|Arrays\.asList|Vector|Set\.of"
    r"|set|array|np\.array|S|String::from|Some|(?:[A-Z]\w*::)+(?:new|from|of))\b\s*)?"
)
_BRACKETS = r"(?:\[(?:[^\[\]]|\[[^\[\]]{0,80}+\]){1,300}+\]|\((?:[^()]|\([^()]{0,80}+\)){1,300}+\)|\{[^{}]{1,300}+\})"
_LITERAL = rf"(?:{_MAKER}(?:{_TEXT}|{_BRACKETS})|{_NUMBER}(?![\w.]))"
_SAME_NAMES = (
    r"\b(?:equals?|eql\?|equal\?|isEqual\w*|is_equal|identical|deepEqual|DeepEqual|isDeepStrictEqual|strn?cmp|strcasecmp"
    r"|wcscmp|memcmp|isequal"
    r"|array_equal|Equal|EqualFold|string=\?|equalsIgnoreCase|all\.equal|SequenceEqual)"
)
_SIGNED = r"(?:(?=(?:(?!->)[\w*?-]){0,120}+(?![=-]>)[^\w\s|()*?\"'`-])(?:(?![=-]>)[^\s|()\"'`]){1,120}+)"
"""A word with a sign in it, up to an arrow; bounded, since a whole text may be one word."""
_WAYS = (
    rf"(?:===?|\beq\b|\bis\b|-eq\b|(?:(?<=\")|(?<=\}}))\s=(?=\s))\s*(?P<after>{_LITERAL})",
    rf"(?P<before>{_TEXT})\s*(?:===?|\beq\b|-eq\b)",
    rf"{_SAME_NAMES}\s*\(?\s*"
    rf"(?:[^()\n,;\"'`]{{1,80}},\s*|[^()\n,;\"'`]{{0,40}}\([^()\n]{{0,40}}\),\s*)?(?P<called>{_LITERAL})",
    rf"\b(?:case|when)\s+(?:{_TEXT}\s*,\s*){{0,20}}(?P<arm>{_TEXT}|{_BRACKETS})\s*(?=:|=>|->|then\b|,|\n)",
    rf"(?m:^|[{{,])[ \t]*\(?(?P<line>{_TEXT}|{_BRACKETS}|{_SIGNED})\s*(?=(?:=>|->)[^\n])",
    rf"(?m:^)[ \t]*(?P<label>{_TEXT}|\d{{5,}})(?=\)[ \t]*\S)",
)
"""How a literal is compared, the first that fits."""
_HOLDING = (
    r"(?:\b(?:strstr|strcasestr|contains|includes|[cC]ontains|[hH]as(?:Prefix|Suffix)|(?:start|end)s_?[wW]ith|(?:Start|End)sWith"
    r"|indexOf|index|str_(?:contains|starts_with|ends_with)|find|matches?|grepl|string-contains|isPrefixOf|isInfixOf)"
    r"|\b(?:start_with|end_with|include)\?)"
    r"\s*\(?\s*(?:(?P<held>[\w.>\[\]()-]{1,60}),\s*)?(?:b|br|r|f|u|L|@)?"
)
_PART = re.compile(rf"{_HOLDING}(?P<part>{_TEXT})|(?P<in>{_TEXT})\s+in\s+(?P<holder>[\w.\[\]()]{{1,60}})")
_OWNER = re.compile(r"([\w.\]\[()>-]{1,60})\.\s*$")
_NAMED = re.compile(r"(?i)path|file|fname|argv|basename|instance|\bname\b|_name\b|stem|url|\bargs\b|problem|bench|input")
_MEMBER = re.compile(r"[A-Z]\w*(?:::|\.)[A-Z]|(?<![\w.:])\.[a-z]\w+|[(,]\s*:[a-z_]\w*\s*[,)]")
_STRING = re.compile(_TEXT)
_TELLS = (
    r"nds?_?[wW]ith|uffix|refix|nclude\?|==|\s=\s+[\"']|\beq\b|-eq\b|\bcase\b|\bwhen\b|=>|->|quals?\b|qual\(|cmp\(|identical|\beql\?|strstr|ontains|ncludes|"
    r"tarts|\bin\b|\bis\b"
)
_BEGINS = rf"(?:{_MAKER}[\"'`\[({{]|-?\d)"
"""How a literal begins."""
_BEGIN = (
    rf"(?:===?|\beq\b|\bis\b|-eq\b|[\"}}]\s=\s)\s*{_BEGINS}",
    r"[\"'`]\s*(?:==|eq\b|-eq\b)",
    _SAME_NAMES,
    r"\b(?:case|when)\s+[\"'`\[({]",
    r"(?:=>|->)[^\n]",
    r"(?m)^[ \t]*(?:[\"'`]|\d{5})[^\n]*\)[ \t]*[^\n]",
)
"""What each of the ways needs."""
_PARTS = rf"{_HOLDING}[\"'`]|[\"'`]\s+in\s+[\w.\[\]()]"
HINTS = Hints(*map(with_blanks, (*_BEGIN, _PARTS, _TELLS)))
"""Of this reader; others of the same code add theirs."""
_HELD, _TOLD = len(_BEGIN), len(_BEGIN) + 1
_OTHERS = frozenset((_HELD, _TOLD))
_ALL = frozenset(range(len(_BEGIN) + 2))
_JOINS = re.compile(r"&&|\band\b|\|\||\bor\b|,|-a\b|\bAND\b")
_EITHER = re.compile(r"\|\||\bor\b|,")
_BREAKS = re.compile(r"[;{}]|\breturn\b|\n\s*\n|\bif\b|\bcase\b|=>|\belse\b")
_CHAINED = re.compile(r"(?:\.[A-Za-z_]\w{0,30}(?:\(\))?){1,4}")
_COMMENT = re.compile(r"(?m)(?:(?<![:\w\"'])//|(?:^|\s)#(?![!\[{])|/\*|(?:^|\s)--\s)[^\n]{3,200}")
_HASHED = re.compile(r"(?i)hash|md5|sha\d|crc|fnv|digest|adler|checksum|fingerprint|blake")
_SIZED = re.compile(
    r"(?i)getsize|st_size|file_?size|\bwc -[clm]\b|stat -c|byteLength|\.metadata\(\)|\.size\b|\blen\(|\.len\(\)|filesize"
    r"|mtime|\bstrlen"
)
_VALUES = re.compile(r"\d|\"[^\"\n]{2,}\"|'[^'\n\\]{2,}'|`[^`\n]{2,}`")
"""What an input is made of, and a state of a machine with the letter that it meets is not."""
_HEX = re.compile(r"(?:0x)?[0-9a-fA-F]{7,64}$")


@dataclass(frozen=True, slots=True)
class _Found:
    text: str
    start: int
    end: int
    how: str = "equal"


def acts_of_cases(code: str) -> Iterator[Act]:
    """Yield the inputs that code answers by what they are.

    Example:
        >>> [act.detail for act in acts_of_cases('if (s === "a b\\\\n1 2" && n == 3) return [[1, 2]];')]
        ['"a b\\\\n1 2" 3']
        >>> list(acts_of_cases("if n == 0: return 1"))
        []
    """
    code = code[:LONGEST_CODE]
    same = in_ascii(code)
    held = _ALL if same is None else HINTS.found(same) & _ALL
    if _TOLD not in held or len(held) == 1:
        return
    groups = list(islice(_groups(code, held), MOST_CASES))
    cases = [case for group in groups if (case := _case(code, group)) is not None]
    for act in cases:
        yield Act("code", act.target, act.detail, span=act.span, traits={**act.traits, "cases": str(len(cases))})


@lru_cache(maxsize=1 << len(_WAYS))
def _compared(ways: tuple[int, ...]) -> re.Pattern[str]:
    return re.compile("|".join(_WAYS[way] for way in ways))


def _groups(code: str, begun: frozenset[int]) -> Iterator[list[_Found]]:
    """Yield comparisons that hold together."""
    most = MOST_CASES * 4
    ways = tuple(sorted(begun - _OTHERS))
    compared = islice(_compared(ways).finditer(code), most) if ways else ()
    found = [_Found(m[m.lastgroup or 0], m.start(), m.end()) for m in compared]
    for m in islice(_PART.finditer(code), most) if _HELD in begun else ():
        owner = _OWNER.search(code[max(0, m.start() - 64) : m.start()])
        held = m["held"] or m["holder"] or (owner[1] if owner else "")
        part = m["part"] or m["in"]
        if _NAMED.search(held):
            found.append(_Found(part, m.start(), m.end(), "name"))
        elif _tells(part):
            found.append(_Found(part, m.start(), m.end(), "part"))
    group: list[_Found] = []
    for one in sorted(found, key=lambda one: one.start)[:most]:
        between = code[group[-1].end : one.start] if group else ""
        if group and (len(between) > 100 or not _JOINS.search(between) or _BREAKS.search(between)):
            yield group
            group = []
        group.append(one)
    if group:
        yield group


def _case(code: str, group: list[_Found]) -> Act | None:
    begin = max(code.rfind("\n", 0, group[0].start) + 1, group[0].start - NEAR)
    lead = code[begin : group[0].start]
    if lead.lstrip().startswith(("#", "//", "*", "--", "assert", "expect", "@", ">>>")) or re.search(
        r"\b(?:assert\w*|expect|check|test|it|EXPECT_\w+|ASSERT_\w+)\W*$", lead
    ):
        return None
    how = _how(code[max(0, group[0].start - 200) : group[0].start], group)
    shape = _shape(code, group, how)
    if not shape:
        return None
    if group[0].text.startswith(("(", "{")) and not is_constant(group[0].text):
        return None
    chained = _CHAINED.match(code, group[-1].end)  # `'x'.code.toByte()`
    answer, then = statement_at(code, chained.end() if chained else group[-1].end, lead)
    if not then or (how == "name" and then == "leaves") or "__main__" in group[0].text:
        return None
    end = min(len(code), group[-1].end + NEAR)
    near = code[max(code.rfind("\n", 0, max(0, begin - 1)) + 1, begin - NEAR) : end]
    remark = " ".join(one.group(0).strip() for one in _COMMENT.finditer(near))[:300]
    detail = " ".join(one.text for one in group)[:200]
    literals = "\n".join(one.text for one in group)[:800]
    traits = {"literals": literals, "answer": answer[:200], "then": then, "how": how, "shape": shape, "remark": remark}
    return Act("code", "answers an input", detail, span=(group[0].start, min(len(code), group[-1].end + 8)), traits=traits)


def _how(lead: str, group: list[_Found]) -> str:
    for how in ("name", "part"):
        if any(one.how == how for one in group):
            return how
    bare = [one.text.strip("\"'`") for one in group]
    if _HASHED.search(lead) and any(_HEX.match(one) for one in bare):
        return "hash"
    if any(one.isdigit() and len(one) >= 5 for one in bare) and _SIZED.search(lead):
        return "size"
    return "equal"


def _shape(code: str, group: list[_Found], how: str) -> str:
    """Say whether what is compared is one input; nothing if it is a kind of inputs."""
    if how != "equal" or any(_is_input(one.text) for one in group):
        return "input"
    either = any(_EITHER.search(code[one.end : after.start]) for one, after in pairwise(group))
    return "together" if not either and sum(_is_value(one.text) for one in group) >= 2 else ""


def _tells(part: str) -> bool:
    """Tell whether a part of an input is so peculiar that few other inputs have it: long, with digits and signs."""
    inner = part[1:-1]
    return (
        len(inner) >= 6
        and sum(not one.isalnum() and one not in " _" for one in inner) >= 1
        and (sum(one.isdigit() for one in inner) >= 4 or len(re.findall(r"\\n|\\r|,|;|\||\\x", inner)) >= 2)
    )


def _is_input(text: str) -> bool:
    if text[:1] in "\"'`":
        inner = text[1:-1]
        return (
            len(inner) >= 3
            and (not inner.isascii() or len(re.sub(r"[\w-]", "", inner)) >= 1)
            and any(one.isalnum() for one in inner)
        )
    if "[" in text[:12] or "(" in text[:24] or "{" in text[:24]:
        if _MEMBER.search(_STRING.sub("", text)):
            return False  # `(State::Start, b'"')`: members of a kind, as the arms of a state machine have them
        inner = re.sub(r"^[^\[({]*[\[({]|[\])}]$", "", text)
        return is_constant(text) and (inner.count(",") >= 1 or " " in inner.strip()) and _VALUES.search(inner) is not None
    return False


def _is_value(text: str) -> bool:
    if text[:1] in "\"'`":
        return len(text) > 2
    try:
        return abs(float(re.sub(r"[uUlLfn_]+$", "", text))) not in (0, 1)
    except ValueError:
        return True
