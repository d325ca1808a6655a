"""The tool `search`: BM25 over the paragraphs of a local folder of text files, read once, when the tool is made.

```
folder → files, sorted by path → paragraphs → index;   query → scores → the best few, ties in the order of files and paragraphs
```
"""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from rosellm.roserlhf import checks
from rosellm.roserlhf.environment.output import shortened
from rosellm.roserlhf.environment.tools import tool
from rosellm.roserlhf.errors import ConfigError, ToolError, missing_extra

_WORD = re.compile(r"\w+")
_BLANK_LINES = re.compile(r"\n\s*\n")
LONGEST_PARAGRAPH = 1_000
"""Bytes of one paragraph that an answer shows."""
MOST_RESULTS = 20
MOST_WORDS = 1_000
"""Words of a query: each takes time in proportion to the folder."""


def search_tool(
    folder: str | os.PathLike[str], *, suffixes: Sequence[str] = (".txt", ".md"), results: int = 3
) -> Callable[..., str]:
    """Make a tool `search(query, limit)` over the text files of a folder and of the folders in it.

    A paragraph is what stands between blank lines. Words are runs of letters and digits, in lower case. Nothing outside of the
    folder is read: a symbolic link that leads out of it is an error, one that stays inside names a file that is read anyway. What
    changes in the folder afterwards is not seen.

    Args:
        folder: the folder.
        suffixes: endings of the files that are read.
        results: paragraphs of an answer where the call asks for no other number.

    Returns:
        A marked function, for `ToolSet.of` or the `toolbox` of an environment.

    Raises:
        ConfigError: no folder, no text in it, a file that cannot be read or is no UTF-8, or a link that leads out of it or nowhere.
        RangeError, DtypeError: `results` is no whole number in [1, 20].
        MissingExtraError: bm25s is not installed.
    """
    checks.count(results, "results", at_least=1)
    checks.number_in(results, "results", 1, MOST_RESULTS)
    paragraphs = [(path, text) for path, content in _files(Path(folder), tuple(suffixes)) for text in _paragraphs(content)]
    words = [_WORD.findall(text.lower()) for _, text in paragraphs]
    if not any(words):
        raise checks.fail(ConfigError, "folder", f"hold text in files that end in {', '.join(suffixes)}", repr(str(folder)))
    index = _bm25().BM25()
    index.index(words, show_progress=False)

    @tool(instant=True, repeatable=True)
    def search(query: str, limit: int | None = None) -> str:
        """Search documents for the paragraphs that fit some words best.

        Args:
            query: words to look for.
            limit: number of paragraphs, at most 20.
        """
        if limit is not None and not 1 <= limit <= MOST_RESULTS:
            raise ToolError(f"limit must be in 1 to {MOST_RESULTS}")
        wanted = _WORD.findall(query.lower())
        if len(wanted) > MOST_WORDS:
            raise ToolError(f"query must have at most {MOST_WORDS} words")
        scores = index.get_scores(wanted).tolist() if wanted else []
        # sorted is stable: equal scores stay in the order of files and paragraphs
        best = sorted((i for i, score in enumerate(scores) if score > 0), key=lambda i: -scores[i])
        shown = best[: results if limit is None else limit]
        return (
            "\n\n".join(f"{paragraphs[i][0]}:\n{shortened(paragraphs[i][1], LONGEST_PARAGRAPH)}" for i in shown) or "nothing found"
        )

    return search


def _bm25() -> Any:
    try:
        return importlib.import_module("bm25s")
    except ModuleNotFoundError as error:
        raise missing_extra(error) from error


def _files(folder: Path, suffixes: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield path within the folder and content of each file, sorted by path."""
    if not folder.is_dir():
        raise checks.fail(ConfigError, "folder", "be a folder", repr(str(folder)))
    root = folder.resolve()
    for path in sorted(_walk(root), key=lambda path: path.relative_to(root).as_posix()):
        if path.is_symlink() and not (path.exists() and path.resolve().is_relative_to(root)):
            raise checks.fail(ConfigError, "folder", "hold no link that leads out of it or nowhere", repr(str(path)))
        if path.name.endswith(suffixes) and path.is_file():
            yield path.relative_to(root).as_posix(), _read(path)


def _walk(root: Path) -> Iterator[Path]:
    for place, folders, files in os.walk(root, onerror=_refuse):
        yield from (Path(place, name) for name in (*folders, *files))


def _refuse(error: OSError) -> None:
    raise checks.fail(ConfigError, "folder", "be readable", f"{error.filename!r}: {error.strerror}") from error


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise checks.fail(ConfigError, "folder", "hold readable UTF-8 text", f"{str(path)!r}: {error}") from error


def _paragraphs(content: str) -> list[str]:
    return [text.strip() for text in _BLANK_LINES.split(content) if text.strip()]
