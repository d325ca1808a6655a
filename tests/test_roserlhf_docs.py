"""Every Python block that the README and the pages show is run as it stands; blocks of one page share their names."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import rosellm.roserlhf as rf

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)

FUNCTIONS = {name: value for name in rf.__all__ if inspect.isfunction(value := getattr(rf, name))}


def blocks_of(page: Path) -> list[str]:
    return BLOCK.findall(page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", [page for page in PAGES if blocks_of(page)], ids=lambda page: str(page.relative_to(ROOT)))
def test_the_code_on_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "page"}
    for block in blocks_of(page):
        exec(compile(block, str(page), "exec"), names)  # noqa: S102 - the pages are ours


@pytest.mark.parametrize("name", FUNCTIONS)
def test_documented_arguments_are_in_the_signature(name: str) -> None:
    """An entry may name several, `a, b: as in f`, which the documentation's own check does not understand."""
    function: Any = FUNCTIONS[name]
    section = re.search(r"^Args:\n(.*?)(?=^\S|\Z)", inspect.getdoc(function) or "", re.DOTALL | re.MULTILINE)
    documented = [] if section is None else re.findall(r"^    (\w[\w, ]*):", section[1], re.MULTILINE)
    named = {one for entry in documented for one in entry.split(", ")}
    assert named <= set(inspect.signature(function).parameters)
