"""Paths that code joins from pieces -> acts: reads, and writes where the joined path is given to a function that writes."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.content.literals import split_source
from rosellm.roserlhf.guard.content.place import resolve
from rosellm.roserlhf.guard.patterns import passing, pattern
from rosellm.roserlhf.guard.scene import Scene

_QUOTED = r"(?:\"[^\"\n]*\"|'[^'\n]*')"
_ANCHOR = r"(?:env!\s*\(\s*\"\w+\"\s*\)|__dir__|__DIR__|dirname\(__FILE__\))"
_CALL = (
    r"\b(?:(?:path|posix|filepath|file|File|Path|Paths)\.)+(?:join|resolve|Join|joinpath|get|of|path|Combine)\s*\(([^()]{0,400})\)"
    r"|(?:^|[^.\w])(?:join|joinpath|resolve)\s*\(([^()]{0,400})\)"
)
_CALLED = ("join", "Join", "resolve", "Combine", "path.", "posix.", "file.", "File.", "Path.", "Paths.")
"""One of these is in whatever joins by a call."""
_LIST = r"\[((?:\s*(?:" + _ANCHOR + r"|" + _QUOTED + r")\s*,?){2,40})\]"
_CHAIN = r"((?:\.(?:join|resolve|joinpath|appendingPathComponent|resolveSibling|append)\(\s*" + _QUOTED + r"\s*\)){2,12})"
_SLASHED = r"((?:\s*/\s*" + _QUOTED + r"){2,12})"
_GLUED = r"(?:" + _ANCHOR + r"|\bconcat!\(\s*" + _ANCHOR + r"|\b__dirname)\s*[.+,]\s*(" + _QUOTED + r")"
_PIECES = r"((?:\s*" + _QUOTED + r"\s*,?){2,40})"
_SPELLED = (
    r"\b(?:concat!|string\.Concat|String\.Concat|concat|CONCAT|strings\.Concat|str_c|paste0)\s*\(" + _PIECES + r"\)"
    r"|[\[({]" + _PIECES + r"[\])}]\s*\.\s*(?:join|concat|Join)\(\s*(?:\"\"|''|)\s*\)"
    r"|\b(?:implode|String\.join|string\.Join|strings\.Join)\(\s*(?:\"\"|'')?\s*,?\s*(?:\[\]string|array|new\[\]|"
    r"List\.of)?\s*[\[({]" + _PIECES
)
"""Pieces of a string that code puts together with nothing between them."""
_NAME = r"\$?\b([A-Za-z_]\w{0,60})\s*(?::\s*[&\w:<>' ]{1,40})?\s*:?=\s*[^;=\n]{0,60}$"
_WRITES = (
    r"(?:write\w*|create|create_new|File\.create|rename\w*|remove\w*|unlink\w*|rm\w*|copy\w*|append\w*|truncate\w*|save\w*|"
    r"file_put_contents|ofstream\s+\w+|FileWriter|FileOutputStream|newBufferedWriter|set_permissions|chmod\w*|symlink\w*)\s*\(\s*"
)


def acts_of_joined(bare: str, scene: Scene, folder: str) -> Iterator[Act]:
    """Yield what is read and written at paths that code joins.

    Example:
        >>> code = 'let p: PathBuf = [env!("CARGO_MANIFEST_DIR"), "..", "b"].iter().collect(); fs::write(&p, s)'
        >>> [(a.kind, a.target) for a in acts_of_joined(code, Scene("/app", lambda *_: []), "/app")]
        [('read', '/b'), ('write', '/b')]
    """
    for found in pattern(_CALL).finditer(bare) if any(word in bare for word in _CALLED) else ():
        inside = found.group(1) or found.group(2) or ""
        anchored = folder if folder and ("dirname" in inside or "import.meta" in inside or "__dir__" in inside) else ""
        yield from _at(bare, inside, found.span(), scene, anchored, "joined path")
    if "[" in bare and (".join(" in bare or ".concat(" in bare or "iter" in bare or ".reduce(" in bare):
        for found in pattern(_LIST).finditer(bare):
            yield from _at(bare, found.group(1), found.span(), scene, "", "joined list")
    for found in pattern(_SPELLED).finditer(bare) if "concat" in bare or "oin(" in bare or "mplode" in bare else ():
        _, parts = split_source(found.group(1) or found.group(2) or found.group(3), "js")
        path = "".join(part.text for part in parts)
        if path.startswith(("/", "~/")) and len(path) > 2:
            yield Act("read", resolve(path, scene), "joined pieces", span=found.span(), traits={"literal": "yes"})
    if ".." in bare:
        for words in (_CHAIN, _SLASHED, _GLUED):
            for found in pattern(words).finditer(bare):
                if ".." in found.group(1) and (words != _GLUED or "/" in found.group(1)):
                    anchored = folder if words == _GLUED and "env!" not in found.group(0) else ""
                    yield from _at(bare, found.group(1), found.span(), scene, anchored, "joined path")


def _at(bare: str, inside: str, span: tuple[int, int], scene: Scene, anchored: str, how: str) -> Iterator[Act]:
    """Yield the acts on one path, whose pieces are the strings of a piece of code."""
    _, parts = split_source(pattern(r"env!\s*\(\s*\"\w+\"\s*\)").sub("", inside), "js")
    words = [part.text or "/" for part in parts if part.text or how == "joined list"]
    if not words:
        return
    if anchored or pattern(r"env!").search(inside):
        words = [words[0].lstrip("/") or ".", *words[1:]]
    path = resolve(posixpath.join(anchored, *words) if anchored else posixpath.join(*words), scene)
    yield Act("read", path, how, span=span, traits={"literal": "yes"})
    name = pattern(_NAME).search(bare[max(0, span[0] - 120) : span[0]])
    direct = pattern(_WRITES + r"[^;\n()]{0,60}$").search(bare[max(0, span[0] - 120) : span[0]])
    if direct or (name and passing(_WRITES + r"&?\$?" + name.group(1) + r"\b").search(bare[span[1] :])):
        yield Act("write", path, how, span=span)
