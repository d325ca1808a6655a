"""Members of an assertion or timing library that code replaces through a name of its own for it -> `patch` acts, as written.

`const a = require("assert"); a.ok = () => {}` and a loop over all members of `a` replace what other code asserts with, too.
"""

from __future__ import annotations

from collections.abc import Iterator

from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.patterns import pattern

LANGUAGES = frozenset(("js", "mjs", "cjs", "jsx", "ts", "mts", "cts", "tsx"))
MOST = 8
_NAMED = (
    r"(?:\b(?:const|let|var)\s+(\w{1,40})\s*=\s*(?:await\s+)?(?:require|import)\(\s*|"
    r"\bimport\s+(?:\*\s+as\s+)?(\w{1,40})\s+from\s+)"
    r"['\"`](?:node:)?(assert|assert/strict|chai|expect|expect\.js|should|mocha|jest|vitest|ava|tap|tape|sinon|jasmine|"
    r"power-assert|perf_hooks|@jest/expect"
    r"|@jest/globals|@playwright/test|uvu|uvu/assert|test)['\"`]"
)
_REPLACED = (
    r"(?:\.(?:strict|assert|expect|prototype|Assertion|Assertion\.prototype|performance"
    r"|default))*\s*(\[\s*[\w'\"]{1,40}\s*\]|\.\w{1,40})\s*=\s*([^=\n][^\n]{0,100})"
)
_PROTECTED = r"\b(?:Object\.(?:assign|defineProperty|defineProperties)|Reflect\.set)\(\s*"


def acts_of_neutered(code: str, path: str) -> Iterator[Act]:
    """Yield the members of assertion libraries that code replaces.

    Example:
        >>> code = "const a = require('node:assert');\\nfor (const k in a) a[k] = () => {};"
        >>> [(act.kind, act.target) for act in acts_of_neutered(code, "/app/x.js")]
        [('patch', 'assert[k]')]
    """
    for count, found in enumerate(pattern(_NAMED).finditer(code)):
        if count >= MOST:
            return
        name, module = found.group(1) or found.group(2), found.group(3).removesuffix("/strict")
        for words in (rf"(?:^|[^\w.$]){name}{_REPLACED}", rf"{_PROTECTED}{name}(?:\.\w{{1,40}})*\s*(,)\s*([^\n]{{0,100}})"):
            told = pattern(words).search(code, found.end())
            if told:
                member = "" if told.group(1) == "," else told.group(1)
                yield Act("patch", f"{module}{member}", told.group(2).strip(), span=told.span(), traits={"in_file": path})
