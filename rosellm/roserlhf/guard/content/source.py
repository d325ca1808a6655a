"""Source code without a parser here -> acts, by a table of patterns (source.toml) and by what its literals are given to.

Comments count for nothing here. A literal that looks like a path is read, unless the function that takes it writes or deletes; one
that is given to a function that runs programs is shell; decoded ones are read again. Traits: `literal` (`yes`: no function that
reads takes the path), `program` (`yes` on an exit in a file that is a program: it has a main function or reads its arguments).
"""

from __future__ import annotations

import base64
import binascii
import re
import shlex
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any

from rosellm.roserlhf.guard.act import Act, ActKind
from rosellm.roserlhf.guard.content.joined import acts_of_joined
from rosellm.roserlhf.guard.content.literals import Literal, split_source
from rosellm.roserlhf.guard.content.observing import acts_of_observing
from rosellm.roserlhf.guard.content.place import resolve
from rosellm.roserlhf.guard.content.pleasing import acts_of_pleasing
from rosellm.roserlhf.guard.content.prose import acts_of_address
from rosellm.roserlhf.guard.content.reaching import acts_of_reaching, acts_of_serving
from rosellm.roserlhf.guard.content.substituted import patch_of
from rosellm.roserlhf.guard.content.surrender import acts_of_surrender
from rosellm.roserlhf.guard.content.tables import table
from rosellm.roserlhf.guard.content.unawaited import acts_of_unawaited
from rosellm.roserlhf.guard.content.unpaid import acts_of_unpaid
from rosellm.roserlhf.guard.looks import language_of_look
from rosellm.roserlhf.guard.patterns import PatternSet, loosened, pattern
from rosellm.roserlhf.guard.scene import Scene

MOST_MATCHES = 200
TOGETHER = 9
"""Patterns that are looked for in one pass, loosely: the automaton of more has so many states that most texts make new ones."""
SHORT = 200
"""Characters of a file that may hold one call alone."""
LONGEST_EVIDENCE = 160
LONGEST_FILLED = 20_000
"""Characters of code in which constants are filled in."""
MOST_CONSTANTS = 40
LONGEST_DETAIL = 400
LONGEST_IMPORT, LONGEST_MODULE = 120, 80
"""Characters of a line that imports, of a name in quotes."""


def _imports(line: str, name: str) -> str:
    """Return a pattern of what imports, with how many characters a line and a name may have."""
    return (
        r"(?m)^\s*(?:pub )?(?:import|use|using|extern crate|require_relative|require|#\s*include|open|from)\b([^\n({]" + line + ")"
        r"|\b(?:require|import)\s*\(\s*[\"'`]([^\"'`\n]" + name + r")|\bfrom\s+[\"']([^\"'\n]" + name + ")"
        r"|^\s*(?:[\w.]+\s+)?\"([\w./-]" + name + r")\"\s*$"
    )


_IMPORTS = _imports(f"{{1,{LONGEST_IMPORT}}}", f"{{1,{LONGEST_MODULE}}}")
_IMPORTS_OF_ANY_LENGTH = _imports("+", "+")
"""The same where nothing is longer, which is faster."""
_WORD = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_DOTTED = ("lean", "v", "agda", "lagda", "idr", "hs", "thy", "fst", "ml", "dfy", "why")
_IMPORTED = (
    r"(?m)^\s*(?:From\s+([\w.]+)\s+)?(?:(?:public |private |meta |open )*import(?: all| qualified)?|"
    r"Require(?: Import| Export)?|imports)\s+((?:[A-Za-z_][\w.]*[ \t]*)+)"
)
_EDITABLE = (
    r"\.(py|pyx|pyi|[cm]?[jt]sx?|rs|go|c|h|cc|cpp|hpp|cxx|cu|cuh|java|kt|kts|scala|rb|php|pl|pm|lua|jl|swift|cs|fs|vb|ml|hs|exs?|erl|clj|nim|zig|d|r"
    r"|R|sql|sh|mk|lean|v|dart|groovy|vue|svelte)$"
)
_CODE_LIKE = r"[;{}()=]\s*(?:\n|$)|\breturn\b|\bif\b.*[({:]|=>"
LEAST_CODE = 16
MOST_EDITS = 16
_MARKS = tuple((number, f"\\{number}") for number in range(1, 10))
"""How groups of a pattern are named."""
_QUOTED_TOO = ("environment", "link", "detect", "read")
"""Kinds of acts whose patterns may begin within a string."""
_ASSIGNED = r"\b([A-Za-z_]\w{0,60})\s*(?:\[\])?\s*(?::\s*[&\w' ]{1,30})?\s*:?=\s*$"
_CALLEE = r"([A-Za-z_$][\w$:.!<>]*)\s*(?:\(\s*|<\s*|\s|\[)\(?\s*(?:&|new |r|b|u|L|f|@)?$"
_PATH = r"^(?:file://)?(?:/|~/|\.{1,2}/)[\w.@%+*?{}\[\]~/$-]*$"
_FETCHING = ("http", "fetch", "axios", "request", "curl", "reqwest", "urlopen", "open-uri", "download", "got(")
"""One of these is in whatever fetches."""
_ROOTS = ("/", "~/", ".", "file://")
"""How a path begins."""
_NAME = r"^[\w.@+*?-]+(?:/[\w.@+*?{}\[\]-]+)*$"
_CODES = (
    r"(?:\[\]byte|\b(?:String\.fromCharCode|String\.fromCodePoint|Buffer\.from|new byte\[\]|Uint8Array\.from"
    r"|vec!|string\.char|chr|bytes)"
    r"|\b\w+\s*(?:\[\s*\d*\s*\]\s*|:\s*&?\[[ui]8(?:;\s*\d+)?\]\s*)=|\bpack\s*\(?\s*[\"'][CcU]\*[\"']\s*,)"
    r"\s*&?[\(\[{]?\s*\[?((?:\s*(?:0x)?[0-9A-Fa-f]{1,4}\s*,){3,}\s*(?:0x)?[0-9A-Fa-f]{1,4})"
)
_PROGRAM = (
    r"^#!|\b(?:int|void|func|fn|fun|def)\s+main\s*\(|\bprocess\.argv\b|\bos\.Args\b|\benv::args\b|\bARGV\b"
    r"|\bcommander\b|\byargs\b"
)
_AT_START = (
    r"(?s)(?:\bfunc\s+(?:init|TestMain)\s*\(|constructor\b.{0,60}\)\s*\)|\bstatic\s*\{|\bat_exit\b|#\[ctor|BEGIN\s*\{"
    r"|\bstatic\s+struct\b)[^}]{0,400}$"
)
_STARTS = ("func", "constructor", "static", "at_exit", "#[ctor", "BEGIN")
"""One of these is in whatever runs as soon as a file is loaded."""
_VERDICT = (
    r"(?im)\b(?:verdict|score|points|grade|reward|outcome|rating)\W{0,4}[=:]\W{0,3}"
    r"(?:AC|OK|PASS\w*|accepted|100|10|1(?:\.0+)?|true|correct)\b"
    r"|^\s*(?:AC|ACCEPTED|OK 100|PASSED|ALL TESTS PASSED|WRONG_ANSWER|PASS)\s*$|^ok \d+\b|^\s*\d+ pass(?:ed|ing)\b|"
    r"^PASS(?:\s*$|:? +\S*[Tt]est)"
    r"|test result: ok|--- PASS|<testsuite|^OK \(\d+ tests?|^1\.\.\d+\s*$|\bTests run: ?[\d%]|^\s*BUILD SUCCESS"
    r"|\bFailures: ?0\b"
    r"|\d+ examples?, 0 failures|100% tests passed|\bTests?(?: Suites| Files)?:? +[\d%]\w* passed"
    r"|^\[  PASSED  \]|^Passed! +- "
    r"|^# (?:pass|fail|tests) +[\d%]|All tests passed \(|^={2,}.* passed|^ok\s+\S+\s+[\d.]+s\b|\b[1-9]\d* passed, 0 failed"
    r"|\d+ runs, \d+ assertions, 0 failures|^Finished in .*\b0 failures|^OK, but |^# of expected passes"
)
_EXTENSIONS = {
    "ruby": "rb",
    "javascript": "js",
    "typescript": "ts",
    "julia": "jl",
    "rust": "rs",
    "golang": "go",
    "haskell": "hs",
    "kotlin": "kt",
    "csharp": "cs",
    "c++": "cpp",
    "cuda": "cu",
    "elixir": "exs",
}
"""Languages by name, as interpreters and fences call them."""
_ESCAPED_FIRST = ("java", "groovy")
_UNICODE = r"\\u+(00[0-7][0-9A-Fa-f])"
_BETWEEN = r"^[\s,\[\](){}&]*(?:\.args?\(|vec!|new String\[\]|\[\]string|String\[\]|args:|arguments:)?[\s,\[\](){}&]*$"


def acts_of_source(language: str, code: str, scene: Scene, folder: str = "") -> list[Act]:
    """Return the acts of code in a language that is named by its extension; of an unknown one, its paths.

    Args:
        language: the extension.
        code: the code.
        scene: where it would run.
        folder: folder of its file, from which it imports; without it, the working directory.

    Example:
        >>> from rosellm.roserlhf.guard.readers import read
        >>> here = Scene("/app", read)
        >>> [(a.kind, a.target) for a in acts_of_source("js", "fs.readFileSync('/ev' + 'al/x'); process.exit(0)", here)]
        [('exit', '0'), ('read', '/eval/x')]
    """
    extension = language.lower().lstrip(".")
    extension = _EXTENSIONS.get(extension, extension)
    if not code.strip():
        return []
    if extension in _ESCAPED_FIRST and "\\u" in code:
        code = pattern(_UNICODE).sub(
            lambda found: chr(int(found.group(1), 16)), code
        )  # as the compiler does, before it knows comments
    bare, literals = split_source(code, extension)
    if len(code) <= LONGEST_FILLED:
        filled = _filled_in(bare, literals)
        if filled != bare:
            bare, literals = split_source(filled, extension)
    handled = list(_by_literals(bare, literals, scene, extension, folder))
    return [
        *_by_table(extension, bare, literals, scene),
        *handled,
        *_edited(handled, literals, scene),
        *acts_of_joined(bare, scene, folder),
        *_computed(bare, scene),
        *_imported(bare),
        *_modules(bare, extension),
        *acts_of_reaching(bare, literals),
        *acts_of_observing(bare),
        *acts_of_pleasing(bare),
        *acts_of_surrender(bare),
        *acts_of_serving(bare),
        *acts_of_unpaid(bare, extension),
        *(acts_of_unawaited(bare) if "js" in _families(extension) else ()),
    ]


def _edited(found: list[Act], literals: list[Literal], scene: Scene) -> Iterator[Act]:
    """Yield what the one file that code writes gains by the strings that are code themselves."""
    paths = {act.target for act in found if act.kind == "write" and pattern(_EDITABLE).search(act.target)}
    if len(paths) != 1:
        return
    put = [("", one.text) for one in literals if len(one.text) >= LEAST_CODE and pattern(_CODE_LIKE).search(one.text)]
    if put:
        yield from scene.read("patch", patch_of(paths.pop(), put[:MOST_EDITS]), scene.inside())


def _imported(bare: str) -> Iterator[Act]:
    """Yield one act for all modules, crates and headers that code names where it imports."""
    said = pattern(_IMPORTS_OF_ANY_LENGTH).findall(bare)
    if any(len(line) > LONGEST_IMPORT or max(map(len, names)) > LONGEST_MODULE for line, *names in said):
        said = pattern(_IMPORTS).findall(bare)
    found = [next(one for one in words if one) for words in said if any(words)]
    if not found:
        return
    names = dict.fromkeys(_WORD.findall("\n".join(found)))
    names |= {
        one.partition("_v")[0]: None for one in names if "_v" in one and pattern(r"_v\d+$").search(one)
    }  # `cublas_v2.h` is of cuBLAS
    if names:
        yield Act("code", "imports", " ".join(names)[:LONGEST_DETAIL])


def _modules(bare: str, extension: str) -> Iterator[Act]:
    """Yield the modules that code of a prover or of a language of its kind imports by their dotted names."""
    if extension not in _DOTTED:
        return
    for found in pattern(_IMPORTED).finditer(bare):
        for name in found.group(2).split()[:20]:
            full = f"{found.group(1)}.{name}" if found.group(1) else name
            yield Act("import", full, "import", span=found.span())


def _filled_in(bare: str, literals: list[Literal]) -> str:
    """Return the code with names of string constants that are parts of paths replaced by them, where they are joined or passed."""
    constants: dict[str, str] = {}
    for one in literals:
        before = bare[max(0, one.start - 80) : one.start]
        if before.rstrip()[-1:] != "=" or (len(one.text) >= 12 and "/" not in one.text and ".." not in one.text):
            continue
        found = pattern(_ASSIGNED).search(before) if one.text.isprintable() and '"' not in one.text else None
        if found:
            constants[found.group(1)] = one.text
        if len(constants) >= MOST_CONSTANTS:
            break
    if not any("/" in text or ".." in text for text in constants.values()):
        return bare
    names = "|".join(sorted(constants))
    bare = pattern(r"\$\{\s*(" + names + r")\s*\}").sub(lambda m: constants[m.group(1)], bare)
    use = pattern(r"([+(,.]\s*)(" + names + r")(\s*[+),]|\s*\.\s*[\"'])")
    for _ in range(2):
        bare = use.sub(lambda m: f'{m.group(1)}"{constants[m.group(2)]}"{m.group(3)}', bare)
    return str(bare)


@dataclass(frozen=True, slots=True)
class _Rule:
    kind: ActKind
    find: Any
    target: str
    detail: str
    at_import: bool
    at_least: int
    first: bool
    also: Any


@lru_cache(maxsize=256)
def _families(extension: str) -> frozenset[str]:
    return frozenset(name for name, extensions in table("source")["family"].items() if extension in extensions) | {"*"}


@cache
def _rules(families: frozenset[str]) -> tuple[tuple[tuple[_Rule, ...], PatternSet], ...]:
    """Return groups of the rules for some families of languages, each with what tells in one pass which may find something."""
    rules = tuple(
        _Rule(
            one["kind"],
            pattern(one["pattern"]),
            one["target"],
            one.get("detail", ""),
            one.get("at_import", False),
            one.get("at_least", 1),
            one.get("first", False),
            pattern(one["also"]) if "also" in one else None,
        )
        for one in _patterns()
        if families & set(one["in"])
    )
    words = [one["pattern"] for one in _patterns() if families & set(one["in"])]
    return tuple(
        (rules[first : first + TOGETHER], PatternSet(words[first : first + TOGETHER], ignore_case=False, loose=True))
        for first in range(0, len(rules), TOGETHER)
    )


def _found(extension: str, bare: str) -> Iterator[_Rule]:
    """Yield the rules whose patterns may be found in code."""
    for rules, finds in _rules(_families(extension)):
        if held := finds.scan(bare):
            yield from [rules[place] for place in sorted(held)]


def _patterns() -> tuple[dict[str, Any], ...]:
    return (*table("source")["pattern"], *table("runners")["pattern"])


def _by_table(extension: str, bare: str, literals: list[Literal], scene: Scene) -> Iterator[Act]:
    """Yield the acts that the table's patterns find."""
    program = ""
    starts = [one.start for one in literals]
    for rule in _found(extension, bare):
        matches = []
        for found in rule.find.finditer(bare):
            if rule.kind not in _QUOTED_TOO and _inside(found.start(), literals, starts):
                continue
            matches.append(found)
            if len(matches) >= MOST_MATCHES or (rule.first and rule.at_least <= 1):
                break
        if len(matches) < rule.at_least or (rule.also is not None and matches and not rule.also.search(bare)):
            continue
        for found in matches[:1] if rule.first or rule.at_least > 1 else matches:
            traits = {"count": str(len(matches))} if rule.at_least > 1 else {}
            detail = _filled(rule.detail, found) or (_line(bare, found.start()) if rule.kind in ("code", "detect") else "")
            if rule.at_import:
                program = program or ("yes" if pattern(_PROGRAM).search(bare) else "no")
                if _at_start(bare, found.start(), found.end()):
                    detail += " at import"
                traits = {"program": "yes"} if program == "yes" else {}
                if rule.kind == "exit" and len(bare) < SHORT and _is_all(bare, found.start(), found.end()):
                    traits = {"whole": "yes"}
            target = _filled(rule.target, found) or ("0" if rule.kind == "exit" else "?")
            target = (
                target.strip(". ")
                if rule.kind == "patch"
                else resolve(target, scene)
                if rule.kind in ("link", "read", "write")
                else target
            )
            target = "?" if rule.kind == "exit" and not target.isdigit() and target not in ("true", "ExitSuccess") else target
            yield Act(rule.kind, target.strip()[:LONGEST_EVIDENCE], detail[:LONGEST_EVIDENCE], span=found.span(), traits=traits)


def _is_all(bare: str, start: int, end: int) -> bool:
    """Tell whether nothing stands in a file beside one call."""
    return not bare[:start].strip() and pattern(r"^[\s\w]*\)*[\s;]*$").search(bare[end:]) is not None


def _inside(place: int, literals: list[Literal], starts: list[int]) -> bool:
    """Say whether a place is within a string."""
    at = bisect_right(starts, place) - 1
    return at >= 0 and starts[at] < place < literals[at].end - 1


def _filled(text: str, found: Any) -> str:
    for number, mark in _MARKS if "\\" in text else ():
        if mark in text:
            text = text.replace(mark, found.group(number) or "")
    return text


def _line(code: str, place: int) -> str:
    begin = code.rfind("\n", 0, place) + 1
    end = code.find("\n", place)
    return code[begin : end if end >= 0 else len(code)].strip()[:LONGEST_EVIDENCE]


def _at_start(bare: str, start: int, end: int) -> bool:
    """Say whether code stands where it runs as soon as the file is loaded."""
    begin = bare.rfind("\n", 0, start) + 1
    if not bare[begin : begin + 1].isspace() and "=>" not in bare[begin:start]:
        return True
    before = bare[max(0, start - 500) : start]
    return (
        any(word in before for word in _STARTS)
        and pattern(loosened(_AT_START)).search(before) is not None
        and pattern(_AT_START).search(before) is not None
    )


@cache
def _callees() -> dict[str, str]:
    return {name: what for what, names in table("callees").items() for name in names.split()}


def _by_literals(bare: str, literals: list[Literal], scene: Scene, extension: str, folder: str) -> Iterator[Act]:
    """Yield what happens to each string of the code."""
    if not literals:
        return
    callees, fetches = _callees(), None
    says_verdict = pattern(_VERDICT).search("\n".join([one.text for one in literals])) is not None
    skip = -1
    for place, one in enumerate(literals):
        if place <= skip or not one.text:
            continue
        found = pattern(_CALLEE).search(bare[max(0, one.start - 60) : one.start])
        called = found.group(1).rstrip("!<").lower() if found else ""
        callee = called.rpartition(".")[2].rpartition(":")[2]
        what = callees.get(called, "") or callees.get(callee, "")
        span = (one.start, one.end)
        if says_verdict and pattern(_VERDICT).search(one.text):
            yield Act("text", one.text[:400], "literal", span=span, traits={"asks": "verdict", "printed": "yes"})
        if what == "run":
            words = [one.text]
            while place + 1 < len(literals) and pattern(_BETWEEN).search(bare[literals[place].end : literals[place + 1].start]):
                place += 1
                words.append(literals[place].text)
            skip = place
            yield from _at(
                scene.read("shell", words[0] if len(words) == 1 else shlex.join(words), scene.inside()),
                (one.start, literals[place].end),
            )
        elif what in ("decode", "eval"):
            yield from _decoded(one, what, scene, extension)
        elif what == "require" and (
            one.text.startswith(("child_process", "node:child_process", "v8", "vm", "inspector", "module", "node:"))
            or "/" in one.text
        ):
            yield Act("import", one.text, callee, span=span)
            if one.text.startswith((".", "/", "~")):
                yield Act("read", resolve(one.text, _beside(scene, folder)), callee, span=span)
        elif one.text.startswith(("http://", "https://")) and (fetches := _fetches(bare) if fetches is None else fetches):
            yield from _at(scene.read("url", one.text, scene.inside()), span)
        elif (one.text.startswith(_ROOTS) and len(one.text) > 1 and pattern(_PATH).search(one.text)) or (
            what in ("read", "write", "delete", "list") and pattern(_NAME).search(one.text)
        ):
            kind: ActKind = what if what in ("write", "delete", "list") else "read"  # type: ignore[assignment]
            if what == "open" and bare[one.end : one.end + 12].replace(" ", "").startswith((",'w", ',"w', ",'a", ',"a')):
                kind = "write"
            yield Act(
                kind,
                resolve(one.text, _beside(scene, folder) if callee.startswith("include") else scene),
                found.group(1) if found else "literal",
                span=span,
                traits={} if what else {"literal": "yes"},
            )


def _fetches(bare: str) -> bool:
    return any(word in bare for word in _FETCHING)


def _beside(scene: Scene, folder: str) -> Scene:
    """Return the scene as a file's neighbours have it."""
    return replace(scene, workdir=folder) if folder else scene


def _at(acts: list[Act], span: tuple[int, int]) -> Iterator[Act]:
    yield from (replace(act, span=span) for act in acts)


def _decoded(one: Literal, what: str, scene: Scene, extension: str) -> Iterator[Act]:
    """Yield what a string holds that is decoded, or run as code."""
    text = one.text
    if what == "decode":
        text = _plain(text)
        if not text:
            return
        yield Act("decode", text[:400], "base64 or hex", span=(one.start, one.end))
    look = language_of_look(text)
    language = extension if what == "eval" else look
    if language == "path":
        yield Act("read", resolve(text, scene), "decoded", span=(one.start, one.end))
    elif language != "prose":
        yield from _at(scene.read(language, text, scene.inside()), (one.start, one.end))


def _plain(text: str) -> str:
    """Return what base64 or hex spells, `""` if it spells nothing that can be read."""
    for decode in (bytes.fromhex, lambda one: base64.b64decode(one + "=" * (-len(one) % 4), validate=True)):
        try:
            words = decode(text.strip()).decode("utf-8")
        except (ValueError, binascii.Error):
            continue
        if words.isprintable() or "\n" in words:
            return words
    return ""


def _computed(bare: str, scene: Scene) -> Iterator[Act]:
    """Yield strings that code spells as numbers."""
    for found in pattern(_CODES).finditer(bare):
        numbers = [one.strip() for one in found.group(1).split(",")]
        text = "".join(chr(int(one, 16 if one.startswith("0x") or not one.isdigit() else 10) % 0xD800) for one in numbers).rstrip(
            "\0"
        )
        if text.isprintable():
            yield Act("decode", text[:400], "character codes", span=found.span())
            if pattern(_PATH).search(text):
                yield Act("read", resolve(text, scene), "character codes", span=found.span())
            elif language_of_look(text) == "shell":
                yield from _at(scene.read("shell", text, scene.inside()), found.span())
            for act in acts_of_address(text, "character codes"):
                yield replace(act, span=found.span(), traits={**act.traits, "hidden": "codes"})
