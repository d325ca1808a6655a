"""Tools read off annotated methods, and the runner that stands between a call and its tool."""

from __future__ import annotations

import asyncio
import gc
import inspect
import json
import weakref
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest

from rosellm.roserlhf.environment.runner import DirectRunner
from rosellm.roserlhf.environment.schema import ANNOTATIONS
from rosellm.roserlhf.environment.shop import Shop
from rosellm.roserlhf.environment.tools import ToolSet, read_tool, tool, tools_of
from rosellm.roserlhf.errors import DtypeError, RangeError
from rosellm.roserlhf.trajectory import ToolCall, ToolResult


class Kitchen:
    """Every kind of tool."""

    def __init__(self, name: str = "kitchen") -> None:
        self.name = name
        self.done: list[Any] = []

    @tool
    def bake(self, cake: str, minutes: int, heat: float = 180.0) -> str:
        """Bake a cake.

        For a while.
        """
        self.done.append((cake, minutes, heat))
        return f"{cake} baked"

    @tool
    async def wait(self, minutes: int) -> str:
        """Do nothing."""
        await asyncio.sleep(0)
        return f"{minutes} minutes later"

    @tool
    def taste(self, salty: bool, notes: list, extra: dict) -> int:  # type: ignore[type-arg]
        return 3

    @tool
    def wash(self) -> None:
        self.done.append("wash")

    @tool(irreversible=True)
    def throw_away(self) -> str:
        """Throw everything away."""
        self.done.append("gone")
        return "gone"

    @tool
    def oven(self) -> ToolResult:
        return ToolResult("whatever", "error", "the oven is cold")

    @tool
    @staticmethod
    def clock() -> str:
        return "noon"

    @staticmethod
    @tool
    def bell() -> str:
        return "ding"

    @tool
    def burn(self) -> str:
        raise OSError("fire")

    def secret(self) -> str:
        raise AssertionError


KITCHEN = tools_of(Kitchen())
UNKNOWN = "unknown tool; use bake, wait, taste, wash, throw_away, oven, clock, bell, burn"


def call(name: str, arguments: Mapping[str, Any] | None = None, *, owner: Kitchen | None = None, **options: Any) -> ToolResult:
    runner = DirectRunner(tools_of(owner or Kitchen()), **options)
    return asyncio.run(runner.call(ToolCall("call-7", name, arguments or {}), ()))


def test_a_method_is_its_own_schema() -> None:
    assert read_tool(Kitchen().bake).schema() == {
        "type": "function",
        "function": {
            "name": "bake",
            "description": "Bake a cake.",
            "parameters": {
                "type": "object",
                "properties": {"cake": {"type": "string"}, "minutes": {"type": "integer"}, "heat": {"type": "number"}},
                "required": ["cake", "minutes"],
            },
        },
    }


def test_marked_methods_are_collected_in_order_of_definition() -> None:
    assert list(KITCHEN.tools) == ["bake", "wait", "taste", "wash", "throw_away", "oven", "clock", "bell", "burn"]
    assert [schema["function"]["name"] for schema in KITCHEN.schemas()] == list(KITCHEN.tools)
    assert [name for name, known in KITCHEN.tools.items() if known.irreversible] == ["throw_away"]


def test_a_subclass_adds_replaces_and_removes() -> None:
    class Bakery(Kitchen):
        @tool
        def sell(self, cake: str) -> str:
            return "sold"

        @tool
        def wash(self, twice: bool) -> None:  # type: ignore[override]
            """Wash twice."""

        def throw_away(self) -> str:  # no longer marked
            return "kept"

    names = list(tools_of(Bakery()).tools)
    assert names == ["bake", "wait", "taste", "wash", "oven", "clock", "bell", "burn", "sell"]
    assert list(tools_of(Bakery()).tools["wash"].parameters) == ["twice"]
    assert list(KITCHEN.tools["wash"].parameters) == []


def test_signatures_are_read_once_per_class_and_bound_per_instance() -> None:
    one, two = Shop(), Shop()
    with patch.object(inspect, "signature", side_effect=AssertionError("read again")):
        three = Shop()
    assert {id(getattr(shop.tools.tools["search"].function, "__self__", None)) for shop in (one, two, three)} == {
        id(one), id(two), id(three),
    }  # fmt: skip


def test_an_environment_is_not_kept_alive_by_its_tools() -> None:
    class Mayfly(Kitchen):
        pass

    first = Mayfly()
    tools_of(first)
    gone = weakref.ref(first)
    del first
    gc.collect()
    assert gone() is None


def unannotated(item) -> str:  # type: ignore[no-untyped-def]
    return ""


def returning_object(item: object) -> str:
    return ""


def variadic(*items: str) -> str:
    return ""


def by_place(item: str, /) -> str:
    return ""


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (unannotated, f"unannotated(item) must be annotated with one of {ANNOTATIONS}, got None"),
        (
            returning_object,
            f"returning_object(item) must be annotated with one of {ANNOTATIONS}, got <class 'object'>",
        ),
        (variadic, "variadic(items) must be passed by name, got variadic positional"),
        (by_place, "by_place(item) must be passed by name, got positional-only"),
    ],
)
def test_what_json_has_no_type_for_is_refused_when_the_class_is_first_used(function: Any, message: str) -> None:
    with pytest.raises(DtypeError) as raised:
        read_tool(function)
    assert str(raised.value) == message


def test_a_call_runs_the_tool_of_its_own_instance() -> None:
    one, two = Kitchen("one"), Kitchen("two")
    result = call("bake", {"cake": "apple", "minutes": 40}, owner=one)
    assert replace(result, latency=None) == ToolResult("call-7", "ok", "apple baked")
    assert (one.done, two.done) == ([("apple", 40, 180.0)], [])


def test_what_a_tool_returns_is_shown_as_text() -> None:
    assert call("taste", {"salty": True, "notes": [], "extra": {}}).content == "3"
    assert call("wash").content == ""
    assert call("wait", {"minutes": 5}).content == "5 minutes later"
    assert (call("clock").content, call("bell").content) == ("noon", "ding")


def test_a_result_that_the_tool_words_itself_answers_the_call_that_was_made() -> None:
    assert replace(call("oven"), latency=None) == ToolResult("call-7", "error", "the oven is cold")


@pytest.mark.parametrize(
    ("name", "arguments", "complaint"),
    [
        ("solve", {}, UNKNOWN),
        ("secret", {}, UNKNOWN),
        ("__init__", {}, UNKNOWN),
        ("bake", {}, "missing cake, minutes"),
        ("bake", {"cake": "a"}, "missing minutes"),
        ("bake", {"cake": "a", "minutes": 1, "self": 2, "salt": 1}, "unexpected self, salt"),
        ("bake", {"cake": 1, "minutes": 1}, "cake must be string"),
        ("bake", {"cake": "a", "minutes": "1"}, "minutes must be integer"),
        ("bake", {"cake": "a", "minutes": True}, "minutes must be integer"),
        ("bake", {"cake": "a", "minutes": 1.0}, "minutes must be integer"),
        ("bake", {"cake": "a", "minutes": 1, "heat": True}, "heat must be number"),
        ("bake", {"cake": "a", "minutes": 1, "heat": None}, "heat must be number"),
        ("taste", {"salty": 1, "notes": [], "extra": {}}, "salty must be boolean"),
        ("taste", {"salty": True, "notes": "[]", "extra": {}}, "notes must be array"),
        ("taste", {"salty": True, "notes": [], "extra": []}, "extra must be object"),
        ("wash", {"twice": True}, "unexpected twice"),
    ],
)
def test_R45_a_wrong_call_is_answered_and_not_executed(name: str, arguments: dict[str, Any], complaint: str) -> None:
    owner = Kitchen()
    result = call(name, arguments, owner=owner)
    assert (result.status, result.content, result.origin, result.attempts) == ("invalid", complaint, "harness", 0)
    assert (result.call_id, owner.done) == ("call-7", [])


def test_a_number_may_be_written_as_an_integer() -> None:
    assert call("bake", {"cake": "a", "minutes": 1, "heat": 200}).status == "ok"


def test_a_tool_outside_the_allow_list_is_not_executed() -> None:
    owner = Kitchen()
    result = call("wash", owner=owner, allowed=["bake", "wait", "sing"])
    assert (result.status, result.content) == ("refused", "wash is not allowed; use bake, wait")
    assert owner.done == []
    assert call("solve", allowed=["bake"]).content == "unknown tool; use bake"


@pytest.mark.parametrize(
    ("confirm", "ran"), [(None, False), (lambda call: False, False), (lambda call: call.name == "throw_away", True)]
)
def test_what_cannot_be_undone_needs_a_confirmation(confirm: Any, ran: bool) -> None:
    owner = Kitchen()
    result = call("throw_away", owner=owner, confirm=confirm)
    assert (result.status, owner.done) == (("ok", ["gone"]) if ran else ("refused", []))
    assert ran or result.content == "throw_away cannot be undone and was not confirmed"


def test_an_exception_of_a_tool_is_no_answer_to_the_policy() -> None:
    with pytest.raises(OSError, match="fire"):
        call("burn")


def test_every_problem_of_a_call_is_named_and_the_words_stay_few() -> None:
    assert call("bake", {"cake": 1, "salt": 2}).content == "missing minutes; unexpected salt; cake must be string"
    many = call("wash", {f"{i}-{'x' * 10**4}": i for i in range(1000)}).content
    assert many.startswith("unexpected 0-xxxx")
    assert many.endswith(" and 992 more")
    assert len(many) < 400


def test_schemas_are_made_once_per_class_and_nobody_can_change_them() -> None:
    first, second = tools_of(Kitchen()).schemas(), tools_of(Kitchen()).schemas()
    assert all(one is other for one, other in zip(first, second, strict=True))
    with pytest.raises(TypeError, match="read-only"):
        first[0]["function"]["parameters"]["properties"]["cake"]["type"] = "integer"
    assert json.loads(json.dumps(first)) == first


def test_free_functions_make_a_set_of_their_own() -> None:
    def double(number: int) -> int:
        return 2 * number

    @tool(irreversible=True)
    def sell(self: str) -> str:  # a free function's `self` is a parameter like any other
        return self

    tools = ToolSet.of(double, sell, Kitchen().bake)
    assert list(tools.tools) == ["double", "sell", "bake"]
    assert tools.tools["sell"].irreversible
    run = DirectRunner(tools, confirm=lambda _: True)
    assert asyncio.run(run.call(ToolCall("call-0", "double", {"number": 4}), ())).content == "8"
    assert asyncio.run(run.call(ToolCall("call-0", "sell", {"self": "x"}), ())).content == "x"
    with pytest.raises(RangeError, match="tools must have different names, got two of the name double"):
        ToolSet.of(double, double)


def test_a_tool_may_change_what_it_is_given() -> None:
    def sort(values: list[int], extra: dict[str, list[int]]) -> str:
        values.sort()
        extra["a"].append(values[0])
        return str((values, extra))

    made = ToolCall("call-0", "sort", {"values": [3, 1], "extra": {"a": []}})
    result = asyncio.run(DirectRunner(ToolSet.of(sort)).call(made, ()))
    assert result.content == "([1, 3], {'a': [1]})"
    assert made.arguments == {"values": [3, 1], "extra": {"a": []}}


def test_no_tools_is_a_set_of_its_own() -> None:
    assert ToolSet().schemas() == []
    assert tools_of(object()).tools == {}
