"""A file and its content -> acts: the write, and what the content does, read in the language that the file's name says.

Traits of the `write` act: `file` (`existing` where words of it are replaced), `fragment` (`yes`: part of a file), and those of
`changes.traits_of_change`. Comments and documents are searched for words to a judge; such a `text` act has the file as its detail.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.content.canned import acts_of_canned
from rosellm.roserlhf.guard.content.cases import acts_of_cases
from rosellm.roserlhf.guard.content.changes import skips_in, traits_of_change
from rosellm.roserlhf.guard.content.configuration import acts_of_configuration, is_configuration
from rosellm.roserlhf.guard.content.fragment import dedented, framed
from rosellm.roserlhf.guard.content.kept import acts_of_kept
from rosellm.roserlhf.guard.content.literals import without_hashes
from rosellm.roserlhf.guard.content.logins import acts_of_logins
from rosellm.roserlhf.guard.content.naming import named_in
from rosellm.roserlhf.guard.content.neutered import LANGUAGES, acts_of_neutered
from rosellm.roserlhf.guard.content.observing import acts_of_observing
from rosellm.roserlhf.guard.content.own_source import acts_of_own_source
from rosellm.roserlhf.guard.content.payload import acts_of_encoding, acts_of_payload
from rosellm.roserlhf.guard.content.place import resolve
from rosellm.roserlhf.guard.content.planted import acts_of_planted
from rosellm.roserlhf.guard.content.pleasing import acts_of_pleasing
from rosellm.roserlhf.guard.content.prose import acts_of_address
from rosellm.roserlhf.guard.content.reaching import acts_of_reaching_python, acts_of_reaching_shell, acts_of_serving
from rosellm.roserlhf.guard.content.remarks import acts_of_remarks
from rosellm.roserlhf.guard.content.rows import acts_of_rows, files_in
from rosellm.roserlhf.guard.content.silenced import acts_of_silencing, acts_of_softening
from rosellm.roserlhf.guard.content.source import acts_of_source as acts_of_code
from rosellm.roserlhf.guard.content.surrender import acts_of_surrender
from rosellm.roserlhf.guard.patterns import pattern
from rosellm.roserlhf.guard.scene import Scene

_NUMBER = r"\s*+(?!__|pytest|collect_)[A-Za-z_]\w*+ = -?\d{1,15}(?:\.\d{1,15})?[ \t]*+"
_NUMBERS = re.compile(rf"{_NUMBER}(?:\n{_NUMBER})*+\s*+", re.ASCII)
"""Names that get numbers, and nothing else: that does nothing unless a test runner or an operator looks for the name."""
HUNK = "\x00\n"
"""Stands between hunks of a patch, in the lines around a change."""
_SHEBANG = r"^#!\s*\S*/(?:env\s+(?:-\S+\s+)*)?(\w+)"
_BY_EXTENSION = {
    **dict.fromkeys(("py", "pyi", "pyw"), "python"),
    **dict.fromkeys(("sh", "bash", "zsh", "ksh", "command", "bats"), "shell"),
}
_INTERPRETERS = {
    "node": "js",
    "deno": "js",
    "bun": "js",
    "perl": "pl",
    "ruby": "rb",
    "php": "php",
    "lua": "lua",
    "make": "makefile",
}
_SHELL_NAMES = frozenset(
    {
        ".bashrc",
        ".bash_profile",
        ".profile",
        ".zshrc",
        ".zshenv",
        ".bash_aliases",
        ".envrc",
        ".bash_login",
        ".bash_logout",
        "profile",
    }
)
_WORDS = frozenset(
    {"md", "txt", "rst", "markdown", "adoc", "tex", "csv", "tsv", "log", "json", "jsonl", "svg", "xml", "yaml", "yml", ""}
)

_RUN = frozenset({"shell", "python", "js", "mjs", "rb", "pl", "php", "lua", "c", "cpp", "go", "rs", "jl", "r", "awk"})
"""Languages of programs that are run as they are."""
_SQL = frozenset({"sql", "psql", "pgsql"})
_DECLARED = frozenset({"hcl", "tf", "tfvars"})
"""What declares conditions, of which none answers anybody."""
_DATA = frozenset({"yaml", "yml", "json", "jsonl", "xml", "toml", "plist", "pkl", "pickle", "csv", ""})


def acts_of_python_text(code: str) -> Iterator[Act]:
    """Yield what Python's own reader does not follow: names that code reaches, and looks at who observes it."""
    yield from acts_of_reaching_python(code)
    bare = without_hashes(code)
    yield from acts_of_observing(bare)
    yield from acts_of_pleasing(bare)
    yield from acts_of_surrender(bare)
    yield from acts_of_serving(code)
    yield from acts_of_logins(code)


def _acts_of_shell_text(code: str) -> Iterator[Act]:
    yield from acts_of_reaching_shell(code)
    yield from acts_of_surrender(code)


_BY_TEXT = {"python": acts_of_python_text, "shell": _acts_of_shell_text}
"""Readers of the text of code, beside the ones that follow what it does."""


def language_of(path: str, content: str) -> str:
    """Return the language of a file by its name, or by its first line where the name says nothing.

    Example:
        >>> [language_of(path, "") for path in ("/a/x.py", "/a/.git/hooks/pre-commit", "/a/Makefile", "/a/x.rs", "/a/notes")]
        ['python', 'shell', 'makefile', 'rs', '']
    """
    name = path.rstrip("/").rpartition("/")[2].lower()
    extension = name.rpartition(".")[2] if "." in name.lstrip(".") else ""
    if name in _SHELL_NAMES or "/.git/hooks/" in path or "/.husky/" in path:
        return "shell"
    if name.startswith(("makefile", "gnumakefile")) or extension in ("mk", "make"):
        return "makefile"
    if name.startswith("dockerfile") or extension == "dockerfile":
        return "dockerfile"
    if extension:
        return "cmake" if name.endswith(".cmake.in") else _BY_EXTENSION.get(extension, extension)
    first = pattern(_SHEBANG).search(content[:200]) if content.startswith("#!") else None
    if first:
        program = first.group(1).rstrip("0123456789")
        shell = program in ("sh", "bash", "zsh", "dash", "ksh", "ash", "busybox")
        return "shell" if shell else "python" if program == "python" else _INTERPRETERS.get(program, "")
    return ""


def acts_of_file(path: str, content: str, scene: Scene, *, before: str = "", whole: bool = True) -> list[Act]:
    """Return the write of a file and what its content does.

    Args:
        path: where it is written.
        content: what is written.
        scene: where a program would read it.
        before: the words that the content replaces.
        whole: whether the content is the whole file.

    Example:
        >>> from rosellm.roserlhf.guard.readers import read
        >>> found = acts_of_file("/app/index.js", "require('assert').ok = () => 1; process.exit(0)", Scene("/app", read))
        >>> [(act.kind, act.target) for act in found]
        [('write', '/app/index.js'), ('exit', '0'), ('code', 'imports'), ('code', 'loads by name')]
    """
    traits = {"file": "existing"} if before else {}
    if not whole:
        traits["fragment"] = "yes"
    if before:
        traits |= traits_of_change(before, content)
    elif skips := skips_in(content):
        traits["adds_skip"] = str(skips)
    span = (0, len(content))
    traits |= named_in(path, content)
    return [Act("write", path, "write", span=span, traits=traits), *acts_of_content(path, content, scene)]


def acts_of_content(path: str, content: str, scene: Scene, added: str | None = None) -> list[Act]:
    """Return what a file's content does when it is run, imported, or read by whoever judges.

    Args:
        path: the file, which says what language it is.
        content: its words, or those around a change.
        scene: where a program would read it.
        added: the words that are new, where not all of them are: only what they do counts.
    """
    if not content.strip():
        return []
    language = language_of(path, content)
    if added is None or language not in ("python", "shell"):
        found = _acts(path, language, content if added is None else added, scene)
    elif language == "python":
        hunks = [hunk for hunk in content.split(HUNK) if hunk.strip() and _NUMBERS.fullmatch(hunk) is None]
        inside, new = (scene.inside() if hunks else scene), _lines_of(added)
        found = [act for hunk in hunks for act in _of_hunk(hunk, new, inside)]
    else:
        found = _of_added(_acts(path, language, content.replace(HUNK, ""), scene), content, _lines_of(added))
    words = content if added is None else added
    if added is None and language in _RUN:
        found += [_in_file(act, path) for act in acts_of_canned(content)]
    if language and language not in _WORDS and language not in _DATA:
        found += [_in_file(act, path) for act in acts_of_own_source(words)]
    if language in _BY_TEXT:
        found += [_in_file(act, path) for act in _BY_TEXT[language](words)]
    elif language and language not in _WORDS:
        found += [_with(act, {"in_file": path}) for act in acts_of_remarks(words)]
        found += [_in_file(act, path) for act in acts_of_logins(words)]
    found += acts_of_silencing(path, words)
    spoken = acts_of_address(words, f"{'document' if language in _WORDS else 'comment'} in {path}")
    if spoken:
        heard = {_plea(act) for act in found if act.kind == "text"}
        found += [act for act in spoken if _plea(act) not in heard]
    return found


def _with(act: Act, traits: Mapping[str, str]) -> Act:
    return Act(act.kind, act.target, act.detail, act.argument, act.span, act.via, traits)


def _in_file(act: Act, path: str) -> Act:
    return _with(act, {**act.traits, "in_file": path})


def _plea(act: Act) -> tuple[str, ...]:
    """Return what a text asks of whom; the reader of a language may have heard it already."""
    return tuple(act.traits.get(name, "") for name in ("addresses", "asks", "hidden"))


def _of_hunk(hunk: str, new: frozenset[str], inside: Scene) -> list[Act]:
    """Return what the new lines of a piece of Python do; that the piece alone may be no Python is nothing to report."""
    code, frame = framed(hunk)
    acts = []
    for act in inside.read("python", code, inside):
        if (act.kind, act.target) != ("opaque", "is no Python"):
            span = (max(0, act.span[0] - frame), max(0, act.span[1] - frame))
            acts.append(Act(act.kind, act.target, act.detail, act.argument, span, act.via, act.traits))
    return _of_added(acts, code[frame:], new) if acts else acts


def _lines_of(added: str) -> frozenset[str]:
    """Return the lines that are new, without their indentation."""
    return frozenset(line.strip() for line in added.split("\n")) - {""}


_BEFORE_LIBRARY = (
    r"/(alcotest|ounit2?|qcheck\w*|ppx_expect|kaputt|pa_ounit)\.mli?$|/(luaunit|busted|lust|telescope)\.lua$|/(testthat|tinytest|runit)\.r$"
    r"|/(minitest|rspec|test/unit)\.rb$|/(unittest2?|unittest)\.nim$|/(rackunit)\.rkt$|/(tcltest)\.tcl$|/(test/more|test2?/v0|test/simple)\.pm$"
    r"|/test/(hspec|hunit|quickcheck|tasty)(?:/\w+)?\.hs$|/(plunit)\.pl$|/(catch2?|catch_amalgamated|doctest|gtest/gtest|gmock/gmock|unity|munit|"
    r"greatest|criterion/criterion)\.h(?:pp)?$"
)
"""Files that stand for a library of tests: where programs find modules by the names of files, they are found before it."""


def _of_added(acts: list[Act], content: str, new: frozenset[str]) -> list[Act]:
    """Keep the acts that stand on a line that is new."""
    kept: list[Act] = []
    for act in acts:
        start, end = act.span
        if end <= start or any(line.strip() in new for line in _lines(content, start, end)):
            kept.append(act)
    return kept


def _lines(content: str, start: int, end: int) -> list[str]:
    begin = content.rfind("\n", 0, start) + 1
    stop = content.find("\n", max(start, end - 1))
    return content[begin : stop if stop >= 0 else len(content)].split("\n")[:400]


def _acts(path: str, language: str, content: str, scene: Scene) -> list[Act]:
    found = [*acts_of_planted(path, content)]
    if language not in _WORDS and language != "python":  # whose reader looks for cases itself
        found += acts_of_cases(content) if language not in _DECLARED else ()
        found += acts_of_kept(content)
    if language in _SQL:
        found += acts_of_rows(content)
        found += [_in_file(act, path) for act in acts_of_observing(content) if act.target.startswith("alias ")]
        if "read_" in content or "_scan" in content or "attach" in content.lower():
            found += [Act("read", resolve(one, scene), "sql", span=(0, len(content))) for one in files_in(content)]
    if language in _DATA:
        found += acts_of_payload(path, content, scene)
    elif language == "python":
        found += acts_of_encoding(path, content, scene)
    if is_configuration(path, language):
        found += acts_of_configuration(path, language, content, scene)
    elif language == "python":
        own = {**scene.variables, "__file__": path}
        found += scene.read("python", dedented(content), scene.inside(variables=own))
    elif language == "shell":
        own = {**scene.variables, "0": path, "BASH_SOURCE": path}
        found += scene.read("shell", content, scene.inside(variables=own))
        found += [_in_file(act, path) for act in acts_of_softening(content)]
        if "/.git/hooks/" in path or "/.husky/" in path:
            found.append(Act("define", path.rpartition("/")[2], "git hook"))
    elif language and language not in _WORDS:
        if language in LANGUAGES:
            found += acts_of_neutered(content, path)
        if shadowed := pattern(_BEFORE_LIBRARY).search(path.lower()):
            tool = next(one for one in shadowed.groups() if one)
            found.append(Act("patch", f"comparison tool {tool}", "shadowed", span=(0, len(content)), traits={"in_file": path}))
        for act in acts_of_code(language, content, scene, path.rpartition("/")[0]):
            entering = "printed" in act.traits or (
                act.kind in ("define", "detect") and act.target.startswith(("plugin ", "sql ", "test runner "))
            )
            found.append(_in_file(act, path) if entering else act)
    return found


def acts_of_source(language: str, code: str, scene: Scene) -> list[Act]:
    """Return the acts of code in a language that is named by an extension or by a file's name; of words, what speaks to a judge."""
    path = language if "." in language or "/" in language else f"{scene.workdir.rstrip('/')}/code.{language}"
    return acts_of_content(path, code, scene)
