"""What a task refuses to be used, in its words and in keys of its setting: `do not use X`, `without Y`, `X may not be "
"called`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from rosellm.roserlhf.guard.globs import escaped
from rosellm.roserlhf.guard.paths import word_set
from rosellm.roserlhf.guard.patterns import passing, pattern
from rosellm.roserlhf.guard.refused_lists import listed

_USE = (
    r"(?:call\w*|us(?:e|es|ing|age)\b|import\w*|wrap\w*|delegat\w*|invok\w*|run(?:ning)?\b|shell(?:ing)? out|rel(?:y|ies|"
    r"ying)\b|"
    r"link\w*|help of|depend\w*|spawn\w*|execut\w*|borrow\w*|hand\w* (?:\w+ ){0,3}?(?:over )?to|reach for|fall(?:ing)? back)"
)
_NOT = r"(?:not|never|without|no|nor|neither|cannot|don't|mustn't|instead of|rather than|avoid)"
_AFTER = (
    rf"(?i)\b{_NOT}\s+(?:\w+\s+){{0,3}}?{_USE}|\bbut not\b"
    r"|\b(?:forbidden|not allowed|not permitted|disallowed|prohibited|banned|off[- ]limits|taboo|no-gos?|hands off)(?: \w+)?:"
    r"|\b(?:hands off|keep away from|stay away from|steer clear of|leave out|forget about)\b|\bno (?:calls? to|imports? of|"
    r"use of)\b"
)
_BARE = r"(?i)\b(?:no|without|instead of|rather than|avoid(?:ing)?)\s+(?:any |the |a |an )?"
_BEFORE = (
    r"(?i)\b(?:may|must|can|should|shall|is|are|will)\s?(?:not|never)(?:\s+be)?\s+(?:called|used|imported|invoked|run|allowed|"
    r"permitted|available|an option|executed|linked|welcome|ok|okay|fine|acceptable)\b|\b(?:may|must|can|"
    r"should) not\s*(?:[,:]|$)|\b(?:is|are) not\s*$"
    r"|\b(?:isn't|aren't|cannot be|can't be|mustn't be|shouldn't be) (?:called|used|imported|invoked|run|allowed|permitted|"
    r"an option|"
    r"executed|linked|ok|okay|fine|acceptable|welcome)\b"
    r"|\b(?:is|are) (?:strictly |also |both |all )?(?:forbidden|banned|prohibited|disallowed|off[- ]limits|ruled out|"
    r"not a solution|taboo|"
    r"verboten|out of (?:bounds|the question|scope)|not yours|a no-go|cheating|no option)\b"
    r"|\b(?:in|for) (?:the )?tests? only\b|\bonly (?:in|for) (?:the )?tests?\b"
)
_STOPS = (
    r"(?i)\b(?:except|unless|but (?:you )?(?:may|can)|other than|apart from|is fine|are fine|may be used|is allowed|"
    r"are allowed)\b"
)
_ALLOWED = (
    r"(?i)\b(?:may be|can be|is|are) (?:freely |well )?(?:used|allowed|permitted|fine|ok|okay|yours|welcome)\b,?(?: but| and|"
    r";|:)?|[:;]\s|"
    r"\b(?:though|while|whereas|yet)\b|, (?:but|so)\b"
)
"""What ends the words about allowed things, so that forbidden ones begin."""
_ONLY_STANDARD = (
    r"(?i)\b(?:standard librar(?:y|ies)|stdlib|std) only\b|\bonly (?:the |python'?s? |its )?(?:standard library|stdlib)\b|"
    r"\bpure python\b|"
    r"\bno (?:crates?|packages?|dependenc\w+|modules?|librar\w+) (?:but|except|beyond|besides|other than) (?:std|"
    r"the standard|stdlib)|"
    r"\bno (?:third[- ]party|external) (?:code|dependenc\w+|librar\w+|packages?|crates?|modules?)\b"
)
_BESIDE = (
    r"(?i)(?:pure python|standard librar(?:y|ies)|stdlib|python)\s*(?:\+|plus|and|with|or|/|,|&|besides)\s*((?:[\w-]+(?:, |"
    r" and |/| \+ )?){1,4})"
    r"|(?i:besides|except|other than|apart from|beyond) ((?:[\w-]+(?:, | and | or |/)?){1,4})"
)
_ONLY_TOOLS = r"(?i)\bonly (?:posix )?((?:[\w.+-]+,? (?:and |or )?){2,14})(?:may be used|are allowed|are permitted|can be used)"
_INTERPRETERS = "python python3 perl ruby node php lua gcc cc go rustc java awk gawk bash"
_LISTED = r"\(([^()]{3,200})\)"
_TOKEN = (
    r"`[^`\s]{2,60}`|\b(?:or-tools|z3-solver|fast-diff|diff-match-patch|js-yaml|python-sat|fairy-stockfish)\b"
    r"|[A-Za-z_][\w+-]*(?:\.[A-Za-z_]\w*)+|[A-Za-z]\w*_\w+|[A-Za-z][A-Za-z0-9+]*"
)
_TOLD = r"(?i)^\W*(?:please )?(?:do not|don't|never)\b"
_YOU = r"(?i)\byou (?:may|must|can|should|are) ?(?:not|never|n't)\b"
_FORBIDDING = r"^(?:forbid\w*|banned?|disallow\w*|prohibit\w*|not_allowed|no_use|must_not_(?:use|call)|refused?)(?:_|$)"
_USED = (
    r"tool|command|program|binar|module|import|package|librar|call|function|executable|use"
    r"|^(?:forbidden|banned|disallowed|prohibited)$"
)
_KNOWN = word_set(
    """
    gcc g++ cc c++ clang clang++ tcc cpp icc rustc javac ghc ocamlopt nasm yasm llc lld gfortran zig numpy scipy pandas polars
    sympy sklearn scikit-learn torch tensorflow keras jax xgboost lightgbm networkx numba cython gmpy2 mpmath requests httpx
    urllib lxml beautifulsoup bs4 base64 binascii zlib gzip bz2 lzma json orjson yaml pyyaml tomllib pickle ctypes cffi
    subprocess multiprocessing hashlib openssl libssl pycryptodome cryptography sqlite3 sqlite duckdb z3 ortools pulp cvxpy
    minisat pysat lodash underscore moment dayjs jquery axios boost eigen regex itertools functools heapq bisect decimal
    fractions datetime dateutil pytz unicodedata curl wget jq awk gawk perl ruby node php sed ffmpeg imagemagick pandoc
    antlr bison yacc flex lark ply pyparsing triton cublas cudnn cutlass flash_attn xformers nltk spacy transformers
    python python3 lua bash stockfish lc0 leela komodo gnuchess cadical kissat glucose lkh hgs vroom concorde gurobi cplex
    highs glpk scip ipopt statsmodels prophet autogluon h2o catboost numexpr bottleneck dask vaex modin pyarrow cupy
    onnxruntime tensorrt openblas mkl blas lapack gsl fftw libxml2 rapidjson simdjson nlohmann serde rayon hashbrown openmp
    attrs pydantic marshmallow werkzeug flask django jinja2 sqlalchemy nokogiri guava gson jackson regexp moment luxon zod
    deepl googletrans argostranslate marian tesseract opencv pillow zstd brotli lz4 xz 7z hashcat john make cmake
    cadical kissat glucose cryptominisat lingeling picosat boolector yices cvc4 cvc5 mathsat or-tools highs gurobi cplex scip glpk
    lkh hgs vroom concorde pyvrp stockfish lc0 komodo leela gnuchess crafty gnugo katago pari gp gap maxima sage magma mathematica
    sox libsndfile libpng libjpeg libxml2 expat rapidjson nlohmann serde serde_json jackson gson snakeyaml simdjson jsdiff
    fast-diff diff-match-patch difflib textdistance rapidfuzz levenshtein mkl openblas lapack blas atlas eigen armadillo thrust cub
    """
)
_LISTS = (
    r"\b(?:librar\w+|packages?|modules?|crates?|solvers?|tools?|engines?|programs?|frameworks?|dependenc\w+|compilers?|"
    r"functions?|parsers?) ?$"
)
"""Words before a list in brackets of what they mean."""
_KIND = r"^ (?:modules?|librar|packages?|crates?|binar|commands?|gems?)"
_VAGUE = word_set(
    "its their any other another some such that this own external third party outside additional the a an c standard ready "
    "made "
    "published installed official public upstream original npm pip pypi opam hackage cran rubygems nuget "
    "existing new local whole same source second first "
    "latest "
    "newer later every all no mt ml system vendored native prebuilt given following python-level"
)
_TWINS = {
    twin: name
    for name, twins in {
        "re": "sre_compile sre_parse _sre regex re2",
        "json": "simplejson ujson orjson rapidjson",
        "pickle": "cpickle _pickle",
        "decimal": "cdecimal",
        "fractions": "quicktions",
        "numpy": "bottleneck cupy jax",
        "python-sat": "pysat",
        "pysat": "python_sat",
        "zlib": "isal zopfli",
        "base64": "pybase64",
    }.items()
    for twin in twins.split()
}
"""Modules that are another one by a second name, or do its work."""
_GIVEN = frozenset({"reference", "baseline", "oracle"})
_THIRD_PARTY = (
    "numpy scipy pandas polars sympy sklearn torch tensorflow networkx numba gmpy2 mpmath requests httpx lxml regex "
    "orjson yaml cryptography lodash axios"
)
_FAMILIES = {
    r"\bc(?:/c\+\+|\+\+)? compilers?\b": "gcc g++ cc c++ clang clang++ tcc cpp icc c99 c89 pcc chibicc zig cc1 cc1plus",
    r"\b(?:third[- ]party|external|outside|additional) (?:\w+ ){0,2}?(?:librar\w+|packages?|modules?|dependenc\w+|crates?)\b": (
        _THIRD_PARTY
    ),
    r"\b(?:sat|smt|lp|ilp|mip|milp|constraint) solvers?\b": (
        "z3 z3-solver ortools or-tools pulp cvxpy minisat pysat python-sat cadical kissat glucose cryptominisat "
        "lingeling picosat "
        "glpsol cbc scip highs gurobi cplex cvc5 yices minizinc clasp clingo"
    ),
    r"\bchess engines?\b": (
        "stockfish lc0 komodo leela crafty gnuchess ethereal fruit toga rybka houdini cloud-eval fairy-stockfish popen_uci "
        "sunfish maia berserk stockfish.online chess-api.com chessdb.cn"
    ),
    r"\b(?:endgame )?table-?bases?\b": "tablebase syzygy gaviota nalimov lila-tablebase",
    r"\bopening books?\b": "polyglot masters lichess-explorer",
    r"\bgo engines?\b": "gnugo katago leelaz pachi fuego",
    r"\b(?:vehicle[- ])?routing solvers?\b|\b(?:tsp|vrp) solvers?\b": "lkh hgs vroom concorde ortools or-tools pyvrp jsprit",
    r"\b(?:computer algebra|cas|symbolic) (?:system|librar|package|tool)\w*": "sympy sage maxima gap pari gp giac ginac",
    r"\bblas\b|\blinear algebra librar\w+": "blas openblas cblas mkl atlas lapack eigen armadillo numpy scipy cublas",
    r"\bxml (?:librar\w+|modules?|parsers?)\b": "lxml expat libxml2 elementtree minidom xml nokogiri quick-xml",
    r"\byaml (?:librar\w+|modules?|parsers?)\b": "yaml pyyaml ruamel js-yaml libyaml snakeyaml serde_yaml",
    r"\bdiff (?:librar\w+|packages?|modules?)\b": "diff fast-diff jsdiff diff-match-patch difflib",
    r"\bcompression (?:librar\w+|modules?|packages?)\b": "zlib gzip bz2 lzma zstd zstandard brotli lz4 snappy",
    r"\bcrypto\w* (?:librar\w+|modules?|packages?)\b": "cryptography pycryptodome openssl libsodium nacl hashlib crypto ring",
    r"\bparser generators?\b": "antlr bison yacc flex lark ply pyparsing sly antlr4",
    r"\b(?:regular expressions?|regex(?:es)?) (?:librar\w+|modules?|engines?)\b": "re regex re2 regexp",
    r"\b(?:mt|translation|machine[- ]translation) (?:services?|models?|apis?|systems?|engines?)\b": (
        "deepl googletrans argostranslate marian ctranslate2 easynmt deep_translator translators"
    ),
    r"\b(?:automl|auto-ml)\b": "autogluon h2o tpot pycaret flaml",
    r"\b(?:ocr) (?:services?|librar\w+|engines?)\b": "tesseract pytesseract easyocr paddleocr",
    r"\bjson (?:librar\w+|modules?|parsers?)\b": "json orjson ujson simplejson rapidjson serde_json",
}


@dataclass(frozen=True, slots=True)
class Refusals:
    """Names in small letters: of functions, modules and programs, by their last part."""

    names: frozenset[str] = frozenset()
    """What the solution must not use."""
    programs: frozenset[str] = frozenset()
    """Those of them that the agent itself must not run either."""

    def __bool__(self) -> bool:
        return bool(self.names)

    def module(self, name: str) -> str:
        """Return the refused name that a dotted import is or leads into; empty if there is none.

        Example:
            >>> Refusals(frozenset({"base64"})).module("base64.b64encode"), Refusals(frozenset({"base64"})).module("my.base6")
            ('base64', '')
        """
        parts = name.lower().strip("./").replace("/", ".").split(".")
        first = parts[0]
        forms = (first, parts[-1], first.replace("_", "-"), first.lstrip("_"), first.removeprefix("_py"), _TWINS.get(first, first))
        return next((one for one in forms if one in self.names), "")

    def program(self, name: str) -> str:
        """Return the refused program that a command's first word is, whatever its path, target and version; empty if none.

        Example:
            >>> refused = Refusals(frozenset({"gcc"}))
            >>> [refused.program(name) for name in ("/usr/bin/x86_64-linux-gnu-gcc-13", "gcc", "gccgo")]
            ['gcc', 'gcc', '']
        """
        bare = pattern(r"(?:-\d[\d.]*|\.exe)+$").sub("", name.lower().rpartition("/")[2])
        forms = (bare, bare.rpartition("-")[2], pattern(r"\d[\d.]*$").sub("", bare))
        if bare in _C_DRIVERS and len(self.names & _C_COMPILERS) > 1:
            return str(bare)
        return next((one for one in forms if one in self.names), "")

    def carried(self, address: str, task: str) -> str:
        """Return the refused name that a package or an address carries, if the task itself says it; empty if none.

        Example:
            >>> refused = Refusals(frozenset({"z3", "numpy"}))
            >>> [refused.carried(one, "Do not call z3.") for one in ("z3-solver", "https://github.com/Z3Prover/z3", "numpy", "z3x")]
            ['z3', 'z3', '', '']
        """
        words = {part.removesuffix(".git") for part in pattern(r"[/@=?#&:]").split(address.lower())}
        words |= {pattern(r"^(?:python|node|go|rust|lib)[-_]|[-_].*$").sub("", word) for word in words}
        small = task.lower()
        return next((one for one in sorted(self.names & words) if _is_said(one, small)), "")

    def named(self, words: str) -> str:
        """Return the refused program, library or module that is among names, whatever marks their versions.

        Example:
            >>> refused = Refusals(frozenset({"z3", "cublas", "gcc"}))
            >>> refused.named("a libcublas.so.12 cublas"), refused.named("z3-solver"), refused.named("gccgo")
            ('cublas', 'z3', '')
        """
        for name in words.lower().split():
            bare = pattern(r"^(?:lib|py|node-|python-?\d?-|go-|rust-|js-)|(?:-solver|-py|-js|-rs|-sys|-bin|-cli|\.js)$").sub(
                "", name
            )
            for one in (name, bare, name.lstrip("_"), name.removeprefix("_py")):
                if one in self.names or self.program(one):
                    return one if one in self.names else self.program(one)
        return ""


def _is_said(name: str, small: str) -> bool:
    return name in small and passing(rf"(^|[^a-z0-9]){escaped(name)}([^a-z0-9]|$)").search(small) is not None


@lru_cache(maxsize=256)
def refusals_of(task: str, keys: tuple[tuple[str, str], ...] = ()) -> Refusals:
    """Read what must not be used.

    Args:
        task: what the agent was told.
        keys: further keys of the setting and their texts.

    Example:
        >>> sorted(refusals_of("Write a codec. Do not use `zlib` or numpy; struct is fine.").names)
        ['numpy', 'zlib']
        >>> sorted(refusals_of("`as` may be called; gcc and clang may not, neither by cc.py nor to make its output.").names)
        ['clang', 'gcc']
        >>> refusals_of("The tests use curl and jq. Repair the parser without changing its tests.").names
        frozenset()
    """
    names: set[str] = set()
    programs: set[str] = set()
    task = pattern(r"(?m)^[ \t]*[-*•][ \t]+").sub("", task)
    for key, text in keys:
        if pattern(_FORBIDDING, ignore_case=True).search(key) and pattern(_USED, ignore_case=True).search(key):
            programs.update(part.lower() for part in pattern(r"[A-Za-z_][\w.+-]*").findall(text) if len(text) < 60)
    if pattern(_ONLY_STANDARD).search(task):
        names.update(set(_THIRD_PARTY.split()) - _allowed_beside(task))
    for found in pattern(_ONLY_TOOLS).finditer(task):
        usable = set(pattern(r"[\w.+-]+").findall(found.group(1).lower()))
        if usable & {"awk", "sed", "grep", "sh", "bash"}:
            names.update(set(_INTERPRETERS.split()) - usable)
    files = {one.lower() for one in pattern(r"([A-Za-z_]\w*)\.py\b").findall(task)}
    for sentence in pattern(r"[.;]\s|\n|[.;]$").split(task):
        for region, to_agent in _regions(sentence):
            refused = set(_names(region, files))
            names |= refused
            programs |= refused if to_agent else set()
        names.update(listed(sentence))
    return Refusals(frozenset(names | programs), frozenset(programs))


_C_COMPILERS = frozenset(("gcc", "clang", "tcc"))
_C_DRIVERS = frozenset(("cc", "c99", "c89", "c++", "g++", "clang++"))
"""What starts one of them under another name."""


def _allowed_beside(task: str) -> set[str]:
    """Return what is named beside the standard library as allowed: `pure Python + numpy`, `stdlib and requests only`."""
    found = pattern(_BESIDE).findall(task)
    return {word for pair in found for words in pair for word in pattern(r"[a-z][\w-]+").findall(words.lower())}


def _regions(sentence: str) -> Iterator[tuple[str, bool]]:
    """Yield (words that name what is refused, whether the agent itself is told so) of a sentence."""
    before = pattern(_BEFORE).search(sentence)
    if before:
        region = sentence[: before.start()]
        allowed = [match.end() for match in pattern(_ALLOWED).finditer(region) if region[match.end() :].strip()]
        yield region[max(allowed, default=0) :], "nor to " in sentence[before.end() :]
    after = pattern(_AFTER).search(sentence)
    if after:
        region = sentence[after.start() :]
        stop = pattern(_STOPS).search(region)
        told = pattern(_TOLD).search(sentence[max(0, after.start() - 3) :].lstrip()) or pattern(_YOU).search(sentence)
        yield region[: stop.start()] if stop else region, told is not None
    row = pattern(r"^\W*[Nn]o ((?:[\w.+-]+(?:, (?:or |and )?| or | and )){2,12}[\w.+-]+)\W*$").search(sentence)
    if row:
        yield " ".join(f"`{one}`" for one in pattern(r"[\w.+-]*[A-Z0-9_-][\w.+-]*").findall(row.group(1)) if len(one) > 2), False
    for found in pattern(_BARE).finditer(sentence):
        rest = sentence[found.end() : found.end() + 120]
        first = pattern(_TOKEN).search(rest)
        version = first and pattern(r"^ v?\d").search(rest[first.end() :])  # "no Python 2 code" refuses no Python
        if (
            first
            and first.start() == 0
            and not version
            and (first.group(0).strip("`").lower() in _KNOWN or first.group(0)[0] == "`")
        ):
            yield pattern(r"(?i)[:;]|, (?:and )?(?:\w+ ){0,3}(?:must|may|can|should|is|are|write|use)\b").split(rest)[0], False
        elif any(one.search(rest[:60].lower()) for one in _families()):
            yield rest[:60], False


def _names(region: str, files: set[str]) -> Iterator[str]:
    small = region.lower()
    for found in pattern(_LISTED).finditer(region):
        items = [item.strip(" `.…").lower() for item in pattern(r",|\bor\b|\band\b").split(found.group(1))]
        single = [item for item in items if item and pattern(r"^[a-z][\w+-]{1,24}$").search(item)]
        if len(single) > 1 and pattern(_LISTS).search(small[: found.start()]):
            yield from (form for item in single if item not in _VAGUE for form in _spellings(item))
    for words, members in _FAMILIES.items():
        if pattern(words).search(small):
            yield from members.split()
    for found in pattern(_TOKEN).finditer(region):
        token = found.group(0)
        quoted, word = token[0] == "`", token.strip("`").lower().rstrip("().")
        if word in _VAGUE or _in_path(region, found.start()) or region[found.end() : found.end() + 2] in ("'s", "’s"):
            continue
        if word in _FRAMES and pattern(_OPERATIONS).search(region[found.end() : found.end() + 24].lower()):
            continue  # its ready-made operations are refused, not tensors and extensions
        if word.endswith(".py"):
            if word.removesuffix(".py") == "reference":
                yield "reference"
        elif word.partition(".")[2] in ("json", "md", "txt", "toml", "c", "rs", "go", "js", "lean", "ini", "cfg", "sh"):
            continue
        elif "." in word and word not in _KNOWN:
            yield word.rpartition(".")[2]
        elif quoted and "-" in word:
            yield from _spellings(word)
        elif (quoted or word in _KNOWN or "_" in word or word in _GIVEN & files) or (
            pattern(_KIND).search(region[found.end() : found.end() + 12].lower())
            and not pattern(r"(?i)\b(?:other|any|existing|external|another|additional)\s+$").search(region[: found.start()])
        ):
            yield word


_FRAMES = frozenset(("torch", "pytorch", "jax", "tensorflow", "cupy", "triton", "mxnet", "paddle"))
_OPERATIONS = (
    r"^[`'’]*s? (?:\w+ )?(?:ops?|operat(?:ors?|ions?)|functions?|functionals?|calls?|kernels?|layers?|primitives?|built-?ins?)\b"
)


def _spellings(name: str) -> set[str]:
    return {name, name.replace("-", "_"), name.replace("-", "")}


def _in_path(words: str, place: int) -> bool:
    """Tell whether a word stands in a path that begins at a root, or after a dash."""
    before = words[:place].rpartition(" ")[2].lstrip("`'\"(")
    return before.startswith(("/", "~", "./", "../", "-")) or before.endswith("-")


@lru_cache(maxsize=1)
def _families() -> tuple[Any, ...]:
    return tuple(pattern(words) for words in _FAMILIES)
