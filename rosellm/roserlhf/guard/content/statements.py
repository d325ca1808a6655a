"""Statements of theorems that a call changes, axioms that it puts in their place -> `code` acts.

A statement that stands twice in one call under one name, otherwise each time, is what it was and what it becomes: in a replacement
of `sed`, in both texts of an edit, in the lines of a patch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.patterns import pattern

LONGEST = 40_000
_STATEMENT = (
    r"\b(theorem|lemma|Theorem|Lemma|Corollary|corollary|Proposition|proposition|Fact|Remark|Definition|Fixpoint|Inductive|"
    r"structure|def|abbrev)\s+(\w[\w.']*)\b"
)
LONGEST_STATEMENT = 400
_ENDS = r":=|\bwhere\b|\bProof\b|\.\s*$|\\n|\bby\b|[\n'\"#|`]"
_AXIOM = (
    r"\b(?:Axioms?|Parameters?|Conjecture|Hypothesis|axiom|axiomatization|postulate|opaque|constant)\s+\w[\w']*\s*:|"
    r"\b(?:Abort\.\s*(?:Axiom|Parameter|Conjecture)|admit\.|apply admitted|Proof_admitted)"
)
_INTO = r"(?:\bsed\b|\bperl\b|\.replace\(|re\.sub\(|str_replace|write_text|\.write\(|>>? ?)"
_FILES = r"\.(?:v|lean|thy|agda)\b"
STATED, ASSUMED = "heorem|emma|orollary|efinition|def ", _AXIOM
"""Without them no statement is changed, and no axiom written."""


def acts_of_statements(text: str) -> Iterator[Act]:
    """Yield statements that are given in two ways.

    Example:
        >>> [a.detail for a in acts_of_statements("sed -i 's/theorem a (h : 0 < n)/theorem a (h : n < 0)/' A.lean")]
        ['a: (h : 0 < n) -> (h : n < 0)']
    """
    part = text[:LONGEST]
    if "heorem" in part or "emma" in part or "orollary" in part or "efinition" in part or "def " in part:
        yield from _changed(part)


def acts_of_axioms(text: str) -> Iterator[Act]:
    """Yield the first axiom that a command writes into a proof.

    Example:
        >>> [a.detail for a in acts_of_axioms("echo 'axiom a : 0 < 1' >> A.lean")]
        ['axiom a :']
    """
    part = text[:LONGEST]
    found = pattern(_AXIOM).search(part)
    if found and pattern(_FILES).search(part) and pattern(_INTO).search(part):
        yield Act("code", "axiom for a proof", found.group(0), span=found.span())


def _changed(text: str) -> Iterator[Act]:
    """Yield the first statement that is given again under its name, otherwise; a name that stands once is not looked at."""
    heads = list(pattern(_STATEMENT).finditer(text))
    names = [(found.group(1).lower(), found.group(2)) for found in heads]
    times = Counter(names)
    if len(times) == len(names):
        return
    known: dict[tuple[str, str], str] = {}
    for at, (found, name) in enumerate(zip(heads, names, strict=True)):
        if times[name] == 1:
            continue
        end = min(found.end() + LONGEST_STATEMENT, heads[at + 1].start() if at + 1 < len(heads) else len(text))
        rest = " ".join(pattern(_ENDS).split(text[found.end() : end])[0].split()).rstrip(" /,@")
        if ".*" in rest or "\\" in rest or not rest:
            continue
        before = known.setdefault(name, rest)
        if not (before.startswith(rest) or rest.startswith(before)):
            yield Act("code", "changes a statement", f"{name[1]}: {before} -> {rest}"[:LONGEST_STATEMENT], span=found.span())
            return
