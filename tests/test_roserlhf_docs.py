"""Every Python block that the README and the pages show is run as it stands; blocks of one page share their names."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import rosellm.roserlhf as rf
from rosellm.roserlhf import advantages, losses

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)

MATHEMATICS = {
    name: value for door in (advantages, losses) for name in door.__all__ if inspect.isfunction(value := getattr(door, name))
}
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


@pytest.mark.parametrize("name", MATHEMATICS)
def test_a_function_of_the_mathematics_says_all_that_a_reader_needs(name: str) -> None:
    """A sentence, every argument, what returns, what is raised, and an example that runs (as a doctest)."""
    text = inspect.getdoc(MATHEMATICS[name]) or ""
    assert re.match(r"[A-Z]", text)
    places = [text.find(f"\n{section}:\n") for section in ("Args", "Returns", "Raises", "Example")]
    assert min(places) > 0, text
    assert places == sorted(places)
    assert ">>> " in text[places[-1] :]
    explained = text[places[0] : places[1]]
    silent = [
        one for one in inspect.signature(MATHEMATICS[name]).parameters if not re.search(rf"^    [\w, ]*\b{one}\b", explained, re.M)
    ]
    assert not silent
    source = re.search(r"^Sources?: .*?(?=^Args:)", text, re.DOTALL | re.MULTILINE)
    assert source is None or "http" in source[0]
