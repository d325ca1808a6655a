"""Tests that look at how code is written instead of what it does -> `code` acts, target `reads source`, detail the look.

A test that hashes or searches the text of a function fails whenever a letter changes, and tells nothing about behaviour.
"""

from __future__ import annotations

from collections.abc import Iterator

from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.patterns import pattern

_CODE = r"(?:py|[cm]?[jt]sx?|rs|go|java|kt|rb|php|cs|cc|cpp|hpp|c|h|swift|scala|ml|ex)"
_LOOKS = (
    r"\bFunction\.prototype\.toString\b|\bString\(\s*(?:\w+\.)*(?:fn|func|function|impl|method|cls|klass|callback|handler)\w{0,12}\s*\)"
    r"|\b(?:fn|func|impl|method)\w{0,8}\.toString\(\)|\bgetsource(?:lines)?\s*\(|\bco_code\b|\bmethod\(:\w+\)\.source\b"
    rf"|\binclude_(?:str|bytes)!\s*\([^;]{{0,120}}?\.rs\"|\b(?:ReadFile|readFile(?:Sync)?|File\.read|file_get_contents|read_to_string"
    rf"|readString|open)\s*\([^;\n]{{0,120}}?\b(?:src|lib|internal|pkg)/[^;\n\"'`]{{0,80}}\.{_CODE}[\"'`]"
)
HINT = r"toString|String\(|getsource|co_code|include_|\.source\b|[rR]ead_?(?:File|String|to_string)|File\.read|file_get|open\s*\("
_ASKS = r"\bassert|\bexpect\b|\brequire\.|\bt\.(?:Error|Fatal|is|deepEqual)|\bshould\b|\bEXPECT_|\bASSERT_|\bXCTAssert"


def acts_of_own_source(code: str) -> Iterator[Act]:
    """Yield where code that asserts something takes the text of other code.

    Example:
        >>> [act.detail for act in acts_of_own_source("assert md5(inspect.getsource(cart)) == 'ab'")]
        ['getsource(']
        >>> list(acts_of_own_source("print(inspect.getsource(cart))"))
        []
    """
    if pattern(HINT).search(code) is None:
        return
    found = pattern(_LOOKS).search(code)
    if found and pattern(_ASKS).search(code):
        yield Act("code", "reads source", found.group(0)[:120], span=found.span())
