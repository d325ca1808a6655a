"""Run the cases of a file: a line each, `ok | differs | later | unmapped` and the id; exit 1, 3 or 0."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from . import corrections, distillation, groups, policy, steps, time  # noqa: F401  (each fills the table)
from .case import Case, judge


def load(path: Path) -> list[Case]:
    """Read a file of cases.

    Raises:
        ValueError: it is no list of cases; the message says which entry lacks what.
    """
    cases = []
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} must hold JSON, got {type(error).__name__}: {error}") from error
    if not isinstance(entries, list):
        raise ValueError(f"{path} must hold a list of cases, got {type(entries).__name__}")
    for place, entry in enumerate(entries):
        if not isinstance(entry, dict) or not {"id", "method", "inputs", "expected"} <= entry.keys():
            raise ValueError(f"entry {place} of {path} must have id, method, inputs and expected")
        parameters = entry.get("params") or {}
        for name, part in (("inputs", entry["inputs"]), ("params", parameters), ("expected", entry["expected"])):
            if not isinstance(part, dict):
                raise ValueError(f"{name} of entry {place} of {path} must be values by name, got {type(part).__name__}")
        cases.append(Case(str(entry["id"]), str(entry["method"]), entry["inputs"], parameters, entry["expected"]))
    return cases


def main(arguments: Sequence[str]) -> int:
    """Print a line per case and a count at the end."""
    if len(arguments) != 1:
        print("usage: python -m tests.conformance FILE.json", file=sys.stderr)
        return 2
    try:
        cases = load(Path(arguments[0]))
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    counts: Counter[str] = Counter()
    for case in cases:
        outcome, why = judge(case)
        counts[outcome] += 1
        print(f"{outcome:8}  {case.id}" + (f"  ({why})" if why else ""))
    print(", ".join(f"{counts[outcome]} {outcome}" for outcome in ("ok", "differs", "later", "unmapped")))
    return 1 if counts["differs"] else 3 if counts["unmapped"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
