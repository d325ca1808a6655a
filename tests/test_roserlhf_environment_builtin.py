"""The tools that come ready made, and how an environment takes them in."""

from __future__ import annotations

import asyncio
import builtins
import importlib
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from rosellm.roserlhf.environment.base import ToolEnvironment
from rosellm.roserlhf.environment.calculator import calculator
from rosellm.roserlhf.environment.runner import DirectRunner
from rosellm.roserlhf.environment.search import search_tool
from rosellm.roserlhf.environment.submit import submit
from rosellm.roserlhf.environment.tools import ToolSet, tool, tools_of
from rosellm.roserlhf.errors import ConfigError, DtypeError, MissingExtraError, RangeError
from rosellm.roserlhf.trajectory import ParsedAction, ToolCall, ToolResult


def use(function: Callable[..., Any], **arguments: Any) -> ToolResult:
    runner = DirectRunner(ToolSet.of(function))
    return asyncio.run(runner.call(ToolCall("call-0", function.__name__, arguments), ()))


def test_the_calculator_is_exact_and_says_what_it_cannot_do() -> None:
    assert (use(calculator, expression="3*17+2*9").status, use(calculator, expression="3*17+2*9").content) == ("ok", "69")
    for hostile, told in {
        "9**9**9": "unexpected '*'",
        "__import__('os')": "unexpected '_'",
        "1/0": "division by zero",
        "(" * 100 + "1": "nested too deep",
        "1" * 500: "expression too long",
        "": "incomplete expression",
        "\x00": "unexpected '\\x00'",
    }.items():
        assert (use(calculator, expression=hostile).status, use(calculator, expression=hostile).content) == ("error", told)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "deep").mkdir()
    (tmp_path / "b.txt").write_text("The lamp is red.\n\nThe mug is blue, and the mug is old.\n")
    (tmp_path / "a.md").write_text("The lamp is red.\n \t\nÉté is summer.")
    (tmp_path / "deep" / "c.txt").write_text("A mug.")
    (tmp_path / "secret.pdf").write_text("mug mug mug")
    (tmp_path / "empty.txt").write_text("")
    return tmp_path


def test_search_finds_paragraphs_best_first(folder: Path) -> None:
    search = search_tool(folder)
    assert use(search, query="MUG?").content == "deep/c.txt:\nA mug.\n\nb.txt:\nThe mug is blue, and the mug is old."
    assert use(search, query="été").content == "a.md:\nÉté is summer."
    assert use(search, query="mug", limit=1).content == "deep/c.txt:\nA mug."
    for nothing in ("", "?", "unicorn", "\x00"):
        assert use(search, query=nothing).content == "nothing found"
    for limit in (0, 21, -(10**30)):
        assert (use(search, query="mug", limit=limit).status, use(search, query="mug", limit=limit).content) == (
            "error",
            "limit must be in 1 to 20",
        )
    assert use(search, query="mug " * 1001).content == "query must have at most 1000 words"
    assert use(search, query="mug", limit="2").content == "limit must be integer or null"


def test_equal_scores_stay_in_the_order_of_paths(folder: Path) -> None:
    for _ in range(3):
        assert use(search_tool(folder), query="lamp red").content == "a.md:\nThe lamp is red.\n\nb.txt:\nThe lamp is red."


def test_a_long_paragraph_is_cut(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("mug " * 1000)
    assert "bytes omitted" in use(search_tool(tmp_path), query="mug").content


def test_a_link_that_leads_out_of_the_folder_is_an_error(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "password.txt").write_text("secret")
    link = folder / "link.txt"
    for target in (outside / "password.txt", outside, Path("..") / outside.name / "password.txt", folder / "nowhere.txt", link):
        link.symlink_to(target)
        with pytest.raises(ConfigError, match=r"folder must hold no link that leads out of it or nowhere, got '.*link\.txt'"):
            search_tool(folder)
        link.unlink()
    link.symlink_to(folder / "b.txt")  # one that stays inside is a second name
    assert use(search_tool(folder), query="blue").content.count("The mug is blue") == 2
    link.unlink()
    link.symlink_to(folder / "deep")
    assert use(search_tool(folder), query="mug", limit=20).content.count("A mug.") == 1
    alias = tmp_path_factory.mktemp("alias") / "folder"
    alias.symlink_to(folder)
    assert use(search_tool(alias), query="été").content == "a.md:\nÉté is summer."


def test_what_cannot_be_read_is_an_error_at_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "broken.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match=r"folder must hold readable UTF-8 text, got '.*broken\.txt': .*codec can't decode"):
        search_tool(folder)
    (folder / "broken.txt").unlink()

    def refuse(self: Path, *_: Any, **__: Any) -> str:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "read_text", refuse)
        with pytest.raises(ConfigError, match="Permission denied"):
            search_tool(folder)
    with pytest.raises(ConfigError, match="folder must be a folder, got"):
        search_tool(folder / "missing")
    with pytest.raises(ConfigError, match="folder must be a folder, got"):
        search_tool(folder / "a.md")
    with pytest.raises(ConfigError, match=r"folder must hold text in files that end in \.rst, got"):
        search_tool(folder, suffixes=[".rst"])
    with pytest.raises(RangeError, match="results"):
        search_tool(folder, results=0)
    with pytest.raises(DtypeError, match="results"):
        search_tool(folder, results=1.5)  # type: ignore[arg-type]


def test_the_missing_extra_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str, *_: Any) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(MissingExtraError, match=r"this needs bm25s, which is not installed; pip install 'rosellm\[env\]'"):
        search_tool(folder)


class Desk(ToolEnvironment):
    """Takes in ready-made tools beside one of its own."""

    toolbox: ClassVar[Sequence[Callable[..., Any]]] = (calculator, submit)

    @staticmethod
    def make_task(rng: random.Random) -> dict[str, Any]:
        return {"total": 69}

    def prompt(self) -> str:
        return "What is 3*17+2*9?"

    @tool
    def think(self, text: str) -> str:
        return text

    def score(self) -> dict[str, float | None]:
        return {"correct": float(self.answer == "69")}


def test_an_environment_takes_tools_in() -> None:
    one, two = Desk(), Desk()
    assert list(one.tools.tools) == ["think", "calculator", "submit"]
    assert list(one.tools.tools["submit"].parameters) == ["answer"]
    for desk in (one, two):
        desk.start(Desk.task_from({"total": 69}), 0)
    action = ParsedAction(
        calls=[
            ToolCall("call-0", "calculator", {"expression": "3*17+2*9"}),
            ToolCall("call-1", "submit", {"answer": "69"}),
            ToolCall("call-2", "think", {"text": "x"}),
        ]
    )
    result = asyncio.run(one.step(action, DirectRunner(one.tools)))
    assert [message.content for message in result.observation.messages] == ["69", "done", "the episode is over"]
    assert (result.terminated, one.score(), two.score(), two.finished) == (True, {"correct": 1.0}, {"correct": 0.0}, False)
    one.start(one.task, 1)
    assert one.answer is None


def test_a_toolbox_holds_bound_methods_and_no_name_twice() -> None:
    class Counter:
        count = 0

        def increase(self, by: int = 1) -> str:
            self.count += by
            return str(self.count)

    counter = Counter()

    class Shared:
        toolbox = (counter.increase,)

    runner = DirectRunner(tools_of(Shared()))
    assert asyncio.run(runner.call(ToolCall("call-0", "increase", {"by": 3}), ())).content == "3"
    assert counter.count == 3

    class Twice:
        toolbox = (calculator, calculator)

    with pytest.raises(RangeError, match="tools must have different names, got two of the name calculator"):
        tools_of(Twice())


def test_nothing_is_imported_before_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def no_bm25(name: str, *rest: Any, **options: Any) -> Any:
        assert not name.startswith("bm25s")
        return real(name, *rest, **options)

    monkeypatch.setattr(builtins, "__import__", no_bm25)
    importlib.reload(importlib.import_module("rosellm.roserlhf.environment.search"))
