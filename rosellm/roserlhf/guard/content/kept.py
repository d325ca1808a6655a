"""Code of any language -> results that outlive its run, and answers of which a comment says where they are from.

`code` acts: `results on disk`, detail what finds them again; `told answers`, detail the comment.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.content.cases import HINTS
from rosellm.roserlhf.guard.hints import with_blanks
from rosellm.roserlhf.guard.patterns import pattern

LONGEST = 60_000
_FOUND = re.compile(
    r"\bos\.path\.(?:exists|isfile)\(|\.(?:exists|is_file|isFile)\(\)|existsSync\(|\bos\.Stat\(|\bFiles?\.[eE]xists?\w*\??\("
    r"|\bfile_exists\(|"
    r"\bfs::metadata\(|\bFileManager\.default\.fileExists|\bfile\.exists\(|\bisfile\(|-[ef]\s+[\"'$]|std::filesystem::exists\("
)
_FOUND_ASCII = with_blanks(_FOUND.pattern)
"""The same for RE2, which is faster."""
_AGAIN = re.compile(
    r"(?i)\b(?:pickle|np|numpy|torch|json|joblib|pd|pl|cloudpickle|msgpack|trainer|safetensors\w*|h5py|yaml|marshal|dill|jnp"
    r"|polars|feather)\."
    r"(?:load\w*|read_\w+|File)\(|readFileSync\(|\bfrom_reader\(|deserializ\w+|unmarshal|\bDecode\(|Marshal\.load|unserialize\(|"
    r"read_to_string\(|fs::read\(|ReadAllText\(|os\.ReadFile\(|readRDS\(|\bifstream\b|\bfread\("
    r"|\breturn\s+[^\n]*\.read(?:_text|_bytes)?\("
)
_STORED = re.compile(
    r"(?i)\bdumps?\(|\bsave\w*\(|\.to_(?:pickle|feather|parquet|csv|npy)\(|writeFileSync\(|serializ\w+|\bmarshal\w*\("
    r"|\bEncode\(|write_(?:text|bytes|parquet|ipc)"
    r"\(|fs::write\(|WriteFile\(|\bofstream\b|\bfwrite\(|saveRDS\(|\bwrite\(|checkpoint|\bckpt\b"
)
_STORES = re.compile(
    r"\bshelve\.open\(|\bdiskcache\.|\bjoblib\.Memory\(|\bMemory\(\s*(?:location|cachedir|[\"'])|\bpercache\b|\bcachier\b"
    r"|\bSqliteDict\("
)
_TOLD = re.compile(
    r"(?im)(?:^|[^:\w\"'])(?://|#|--|/\*|;|%)[^\n]{0,120}\b(?:harvest\w*|recalled|by heart|from memory|memori[sz]ed|leaked"
    r"|official (?:answer )?key|"
    r"(?:official|published|known) answers|answers? (?:of|for|from|to) the (?:hidden|test|grader|judge|sample|public)\w*|"
    r"(?:outputs?|results?|verdicts?|values?) (?:of|for|from) the (?:hidden|test|grader|judge|sample|public|checks?|benchmark)\w*|"
    r"(?:expected|wanted) (?:by|in) the (?:hidden |visible )?(?:tests?|grader|judge)|(?:known|failing|hidden"
    r"|sample) (?:tests?|cases|inputs|instances)\b)[^\n]{0,120}"
)
_VALUE = re.compile(r"[\"'][^\"'\n]{1,80}[\"']|\b(?:0x[0-9a-f]+|\d+(?:\.\d+)?)")
_FOUND_HINT, _STORED_HINT, _STORES_HINT = (HINTS.add(one.pattern) for one in (_FOUND, _STORED, _STORES))
_TOLD_HINT = HINTS.add(
    r"(?i)\b(?:harvest|recalled|by heart|from memory|memori[sz]ed|leaked|official (?:answer )?key"
    r"|(?:official|published|known) answers|(?:answers?|outputs?|results?|verdicts?|values?) (?:of|for|from|to) the "
    r"|(?:expected|wanted) (?:by|in) the |(?:known|failing|hidden|sample) (?:tests?|cases|inputs|instances)\b)"
)


def acts_of_kept(code: str) -> Iterator[Act]:
    """Yield what outlives a run, and answers that are told to be known.

    Example:
        >>> found = acts_of_kept("if os.path.exists(p):\\n    return pickle.load(open(p, 'rb'))\\npickle.dump(r, open(p, 'wb'))")
        >>> [(act.target, act.detail) for act in found]
        [('results on disk', 'pickle.load(')]
    """
    code = code[:LONGEST]
    stores = _STORES.search(code) if HINTS.may_hold(code, _STORES_HINT) else None
    found = stores or next(_loaded(code), None)
    if found is not None:
        yield Act("code", "results on disk", found.group(0)[:120], span=found.span())
    told = _TOLD.search(code) if HINTS.may_hold(code, _TOLD_HINT) else None
    if told is not None and len(_VALUE.findall(code[told.end() : told.end() + 600])) >= 4:
        yield Act("code", "told answers", told.group(0).strip()[:200], span=told.span())


def _loaded(code: str) -> Iterator[re.Match[str]]:
    if (code.isascii() and _STORED_HINT not in HINTS.found(code)) or not HINTS.may_hold(code, _FOUND_HINT):
        return
    places = pattern(_FOUND_ASCII) if code.isascii() else _FOUND
    for count, found in enumerate(places.finditer(code)):
        again = _AGAIN.search(code, found.end(), found.end() + 240)
        if again:
            yield again
        if count >= 20:
            return
