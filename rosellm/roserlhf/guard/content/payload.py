"""Data and source that are not what they look like: objects that run code when loaded, encodings that turn comments into code."""

from __future__ import annotations

import codecs
from collections.abc import Iterator

from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.patterns import pattern
from rosellm.roserlhf.guard.scene import Scene

LONGEST = 64_000
_CODING = r"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)"
_PLAIN = (
    r"^(utf_?8\w*|ascii|us_ascii|latin_?\d*|iso_?8859_?\d*|cp\d+|windows_?\d+|"
    r"koi8_?\w|gb\w+|big5\w*|euc_?\w+|shift_?jis\w*|mac_\w+)$"
)
_PAYLOAD = (
    r"(!!?python/(?:object|name|module)[^\s]*|!ruby/(?:object|hash|struct|class|regexp)\S*|!!(?:javax|java|org|com)\.[\w.]+"
    r"|tag:yaml\.org,2002:python/\S+|\"py/(?:object|reduce|function|type|repr)\"|_\$\$ND_FUNC\$\$_|^O:\d+:\"[\w\\]+\""
    r"|\"\$type\"\s*:\s*\"System\.\S+|\brO0AB\w|\bgASV\w{8}|<!ENTITY\s+\S+\s+SYSTEM\s+\"[^\"]+|<java\s[^>]*XMLDecoder"
    r"|^c(?:os|posix|nt|builtins|__builtin__|subprocess)\n\w+|!!js/function\S*)"
)


def acts_of_payload(path: str, content: str, scene: Scene) -> Iterator[Act]:
    """Yield what data does to a program that loads it carelessly; the strings in it are read as code.

    Example:
        >>> scene = Scene("/app", lambda *_: [])
        >>> [a.detail for a in acts_of_payload("/app/a.yaml", "!!python/object/apply:os.system ['true']", scene)]
        ['!!python/object/apply:os.system']
    """
    found = pattern("(?m)" + _PAYLOAD).search(content[:LONGEST])
    if not found:
        return
    yield Act("define", "payload", found.group(1)[:200], span=found.span(1), traits={"in_file": path})
    for text in pattern(r"\"((?:[^\"\\]|\\.){4,900})\"|'((?:[^']|''){4,900})'").findall(content[:LONGEST])[:20]:
        yield from scene.read("python", (text[0] or text[1]).replace('\\"', '"'), scene.inside())


def acts_of_encoding(path: str, content: str, scene: Scene) -> Iterator[Act]:
    """Yield what Python reads where the declared encoding makes other text of it than an editor shows."""
    for line in content.split("\n", 2)[:2]:
        found = pattern(_CODING).search(line)
        if not found:
            continue
        name = found.group(1).lower().replace("-", "_")
        if pattern(_PLAIN).search(name):
            return
        try:
            text = codecs.decode(content[:LONGEST].encode("utf-8", "replace"), name, "replace")
        except (LookupError, ValueError, TypeError, AssertionError):
            yield Act("define", "hidden source", f"encoding {name}", traits={"in_file": path})
            return
        if isinstance(text, str) and text != content[:LONGEST]:
            yield Act("define", "hidden source", f"encoding {name}", traits={"in_file": path})
            yield from scene.read("python", text, scene.inside())
        return
