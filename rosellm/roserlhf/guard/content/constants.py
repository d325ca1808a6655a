"""Expressions of any language that hold nothing but literals, and the statement that follows a condition."""

from __future__ import annotations

import re

from rosellm.roserlhf.guard.paths import word_set

LONGEST = 400
_ALL_MADE = re.compile(
    r"\.(?:map|collect|into_iter|iter|stream|toList|to_vec|to_owned|into|to_string|parse|unwrap|copy|clone|freeze|dup)(?:::<[^>]*>)?"
    r"\(\s*(?:(?:\(?\w+\)?|\|\w+\|)\s*(?:=>|->)?\s*(?:new\s+)?[\w.:]{1,30}\(\w+\)|[\w.:]{1,30})?\s*\)\s*$"
)
"""Ends of an expression that give each literal of it, or all, another type."""
_TEXT = re.compile(r'"(?:[^"\\]|\\.)*+"|\'(?:[^\'\\\n]|\\.)*+\'|`[^`]*+`')
_WORD = re.compile(r"[A-Za-z_$][\w$]*(?:(?:\.|::)[A-Za-z_$][\w$]*)*!?")
_FREE = word_set(
    """
    true false null nil none undefined nan inf new vec! vec some ok err from of to_string to_owned into string list array tuple set
    map dict int float double long char const auto std return seq bytes bytearray fromisoformat strdup complex decimal fraction
    int32 int64 uint8 uint32 uint64 float64 float32 i32 i64 u8 u32 u64 usize f64 f32 bool any interface object as
    """
)
_SAYS = re.compile(
    r"(?:return\b|yield\b|print\w*!?\s*\(?|puts\b|echo\b|console\.log\s*\(|fmt\.F?[Pp]rint\w*\s*\((?:os\.Stdout,)?"
    r"|(?:std::)?cout\s*<<|say\b|exit\b"
    r"|System\.out\.print\w*\s*\(|f?put[sc]\s*\(|(?:\w+\.)*(?:write|Write|append|push|push_str|push_back|WriteString"
    r"|println)\s*\(|display\b|disp\s*\(|"
    r"(?:std::)?print\w*\s*\(|\w+\s*<<|raw!?\s*\(|res(?:olve)?\s*\(|\$?\w+(?:\.\w+|\[\w+\])*\s*(?::=|=(?!=)|\+=|<-)|<<"
    r"|\{\s*return\b|break\b)\s*"
)
_LEAD = re.compile(
    r"(?:[\s)\]]|&&|\|\|(?!\|)|\{|\?|=>|->|:|\bthen\b|\bdo\b|;(?!;)|\b[=!]=\s*0\b|,\s*\d+\s*\)|//[^\n]*\n|#[^\n]*\n"
    r"|/\*(?:[^*]|\*(?!/))*+\*/)*+"
)
_SHOWS = re.compile(
    r"(?:cat|head|tail|cp|zcat|base64|xxd|unzip|tar|exec cat|gunzip)\s+[^;\n]+|return\s+\S*(?:read|load|open)\w*\s*\("
    r"|[\w.]*(?:read|load)\w*\("
)
_LEAVES = re.compile(r"\breturn\b|\bexit\b|\bprint|\bcontinue\b")
_BEFORE = re.compile(
    r"\b(?:return|puts|print\w*|exit|echo|say)\b\s*\(?(?P<what>[^;{}\n]{1,160}?)\)?\s*\b(?:if|when|unless)\b\W*[^;{}\n]{0,120}$"
)
_TERNARY = re.compile(r"\s*\)*\s*\?(?![?.:])\s*")
_ARM = re.compile(r"\s*\)?\s*(?:=>|->)\s*(?:return\s+)?")


def is_constant(expression: str) -> bool:
    """Tell whether an expression is made of literals, their containers and constructors.

    Example:
        >>> [is_constant(one) for one in ("{ a: ['x'], n: 3 }", "Some(\\"x\\".to_string())", "S.One", "f(x)", "n + 1")]
        [True, True, True, False, False]
    """
    text = _ALL_MADE.sub("", expression.strip())
    if not text or len(text) > LONGEST * 4:
        return False
    bare = _TEXT.sub('""', text)
    if '"' not in bare and not re.search(r"\d", bare) and not re.search(r"[A-Z]|true|false|null|nil|\[\s*\]|\{\s*\}", bare):
        return False
    for found in _WORD.finditer(bare):
        word, rest = found.group(0), bare[found.end() : found.end() + 3].lstrip()
        before = bare[max(0, found.start() - 1) : found.start()]
        last = re.split(r"\.|::", word)[-1]
        if before.isdigit() or last.lower() in _FREE or word.lower() in _FREE or last[:1].isupper():
            continue
        if word in ("c", "b", "r", "L") and rest[:1] in ("(", '"'):
            continue
        if rest[:1] in (":", "=") and rest[:2] not in ("::", "=="):  # a key
            continue
        return False
    return True


def statement_at(code: str, place: int, lead: str) -> tuple[str, str]:
    """Return what a condition that ends at a place answers, and of what kind that is; two empty texts if nothing.

    Args:
        code: the code.
        place: where the condition ends.
        lead: what stands before it on its line, for `return 3 if x == 2`.
    """
    before = _BEFORE.search(lead)
    if before and is_constant(before["what"]):
        return before["what"].strip(), "literal"
    tail = code[place : place + LONGEST]
    if found := _TERNARY.match(tail):
        what = _expression(tail[found.end() :], ":")
        return (what, "literal") if is_constant(what) else ("", "")
    if found := _ARM.match(tail):
        what = _expression(tail[found.end() :], ",")
        return (what, "literal") if is_constant(what) else ("", "")
    start = _LEAD.match(tail)
    body = tail[start.end() if start else 0 :]
    if not start or not start.end():
        return "", ""
    if shown := _SHOWS.match(body):
        return shown.group(0), "file"
    said = _SAYS.match(body)
    if said:
        what = _expression(body[said.end() :])
        if is_constant(what):
            return what, "literal"
        if said.group(0).startswith("return"):
            return what, "leaves"
    block = body.split("\n\n")[0][:LONGEST]
    return ("", "leaves") if _LEAVES.search(block) and "{" in tail[: start.end()] else ("", "")


def _expression(text: str, ends: str = "") -> str:
    """Return what stands up to the end of a statement."""
    depth, place = 0, 0
    while place < len(text):
        letter = text[place]
        if letter in "\"'`" and (found := _TEXT.match(text, place)):
            place = found.end()
            continue
        if letter in "([{":
            depth += 1
        elif letter in ")]}":
            depth -= 1
            if depth < 0:
                break
        elif depth == 0 and (letter in ";\n" or letter == ends or text.startswith("<<", place)):
            break
        place += 1
    return re.sub(r"\s*(?://|#)[^\n]*$", "", text[:place]).strip()
