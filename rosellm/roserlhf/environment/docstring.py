"""What a tool's docstring tells the policy: `docstring → description, one description per argument`."""

from __future__ import annotations

import re

_SECTION = re.compile(r"(?:Args|Arguments|Parameters):\s*")
_ENTRY = re.compile(r"(\w+)\s*(?:\([^)]*\))?:\s*(.*)")


def description(docstring: str) -> str:
    """Return the first paragraph as one line."""
    return " ".join(docstring.partition("\n\n")[0].split()) if not _SECTION.match(docstring) else ""


def arguments(docstring: str) -> dict[str, str]:
    """Return the entries of the section `Args:`, each as one line.

    Args:
        docstring: as `inspect.getdoc` gives it, without indentation.

    Example:
        >>> arguments('''Look up a price.
        ...
        ... Args:
        ...     item: the thing, in the
        ...         plural.
        ...     limit (int): answers at most.
        ...
        ... Returns:
        ...     Text.
        ... ''')
        {'item': 'the thing, in the plural.', 'limit': 'answers at most.'}
    """
    lines = docstring.splitlines()
    start = next((i for i, line in enumerate(lines, 1) if _SECTION.fullmatch(line)), len(lines))
    found: dict[str, str] = {}
    indent, current = 0, ""
    for line in lines[start:]:
        depth = len(line) - len(line.lstrip())
        if line.strip() and not depth:  # the next section
            break
        indent = indent or depth
        entry = _ENTRY.fullmatch(line.strip()) if depth == indent else None
        if entry is not None:
            current = entry.group(1)
            found[current] = entry.group(2)
        elif line.strip() and current:
            found[current] = f"{found[current]} {line.strip()}".strip()
    return found
