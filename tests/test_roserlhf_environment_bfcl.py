"""`bfcl`: every ground truth is right, what deviates is not, nothing is evaluated, and no episode sees another."""

from __future__ import annotations

import ast
import asyncio
import copy
import importlib
import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from rosellm.roserlhf.environment import bfcl
from rosellm.roserlhf.environment.bfcl import files
from rosellm.roserlhf.environment.bfcl.bounds import MOST_ITEMS
from rosellm.roserlhf.environment.bfcl.environment import MORE_FUNCTIONS, MOST_STEPS, Bfcl
from rosellm.roserlhf.environment.bfcl.literals import read_call
from rosellm.roserlhf.environment.bfcl.world import World
from rosellm.roserlhf.environment.protocol import StepResult
from rosellm.roserlhf.environment.runner import DirectRunner
from rosellm.roserlhf.environment.tasks import split_of
from rosellm.roserlhf.errors import MissingExtraError, RecordError
from rosellm.roserlhf.trajectory import ParsedAction, ParseFailure, ToolCall

ENTRIES = {entry["id"]: entry for entry in files.entries()}
DONE = ParsedAction("Done.")


def started(name: str) -> Bfcl:
    environment = Bfcl()
    environment.start(Bfcl.task_from(ENTRIES[f"multi_turn_{name}"]), seed=0)
    return environment


def take(environment: Bfcl, action: ParsedAction | ParseFailure) -> StepResult:
    return asyncio.run(environment.step(action, DirectRunner(environment.tools)))


def call(name: str, /, **arguments: Any) -> ParsedAction:
    return ParsedAction(calls=(ToolCall("call-0", name, arguments),))


def truth(environment: Bfcl, texts: Sequence[str]) -> ParsedAction:
    """Calls of the ground truth with all their arguments by name, as a policy gives them."""
    calls = []
    for place, found in enumerate(map(read_call, texts)):
        names = environment.tools.tools[found.name].parameters
        arguments = {**dict(zip(names, found.positional, strict=False)), **found.arguments}
        calls.append(ToolCall(f"call-{place}", found.name, arguments))
    return ParsedAction(calls=tuple(calls))


def play(environment: Bfcl, turns: Sequence[Sequence[str]]) -> Mapping[str, float | None]:
    for turn in turns:
        if turn:
            assert not take(environment, truth(environment, turn)).truncated
        take(environment, DONE)
    return environment.score()


def test_there_are_200_tasks_in_each_of_four_categories() -> None:
    assert Counter(entry["category"] for entry in files.entries()) == dict.fromkeys(files.CATEGORIES, 200)
    assert len(ENTRIES) == 800
    assert sum(len(turn) for entry in files.entries() for turn in entry["ground_truth"]) == 4625


@pytest.mark.parametrize("category", files.CATEGORIES)
def test_every_ground_truth_is_right_in_every_turn(category: str) -> None:
    for entry in files.entries():
        if entry["category"] == category:
            environment = Bfcl()
            environment.start(Bfcl.task_from(entry), seed=0)
            score = play(environment, entry["ground_truth"])
            assert score == {"correct": 1.0, "turns": 1.0, "format": 0.0}, entry["id"]
            assert environment.finished
            assert not any(result.content.startswith("Error during execution") for result in environment.results)


def test_gold_is_the_ground_truth() -> None:
    for entry in files.entries()[::3]:
        environment = Bfcl()
        environment.start(Bfcl.task_from(entry), seed=0)
        results = [take(environment, action) for action in environment.gold()]
        assert [result.terminated or result.truncated for result in results] == [*[False] * (len(results) - 1), True], entry["id"]
        assert environment.score() == {"correct": 1.0, "turns": 1.0, "format": 0.0}, entry["id"]


def test_a_call_that_is_left_out_is_missed() -> None:
    missed = Counter[bool]()
    for entry in files.entries()[::8]:
        place = next(i for i, turn in enumerate(entry["ground_truth"]) if turn)
        turns = [list(turn) for turn in entry["ground_truth"]]
        left_out = turns[place].pop()
        if any(left_out in turn for turn in turns):
            continue  # its result is seen elsewhere
        environment = Bfcl()
        environment.start(Bfcl.task_from(entry), seed=0)
        score = play(environment, turns)
        missed[score["correct"] == 0.0 and (score["turns"] or 0) < 1] += 1
    assert missed[True] > 80
    assert missed[False] == 0


def test_a_task_by_hand() -> None:
    environment = started("base_1")
    assert environment.prompt().startswith("I am alex. Check if the current directory is under my name")
    result = take(environment, call("ls", a=True))
    assert [message.content for message in result.observation.messages] == ['{"current_directory_content": ["workspace"]}']
    result = take(environment, DONE)
    assert [(message.role, message.content[:28]) for message in result.observation.messages] == [
        ("user", "Go to workspace directory an")
    ]
    take(environment, call("cd", folder="workspace"))
    take(environment, call("mv", source="log.txt", destination="archive"))
    take(environment, DONE)
    take(environment, call("cd", folder="archive"))
    take(environment, call("grep", file_name="log.txt", pattern="Error"))
    take(environment, DONE)
    assert environment.score() == {"correct": 0.0, "turns": 0.75, "format": 0.0}  # three of four turns
    take(environment, call("tail", file_name="log.txt", lines=20))
    result = take(environment, DONE)
    assert (result.terminated, result.cause, result.observation.messages) == (True, "finished", ())
    assert environment.score() == {"correct": 1.0, "turns": 1.0, "format": 0.0}


def test_a_detour_is_no_fault_and_a_wrong_state_is() -> None:
    first, *rest = ENTRIES["multi_turn_base_1"]["ground_truth"]
    environment = started("base_1")
    assert play(environment, [["pwd()", *first, "ls()"], *rest])["correct"] == 1.0
    environment = started("base_1")
    assert play(environment, [[*first, "touch(file_name='extra.txt')"], *rest]) == {"correct": 0.0, "turns": 0.0, "format": 0.0}


def test_a_turn_without_calls_is_wrong_where_something_was_to_be_done() -> None:
    environment = started("base_1")
    for _ in range(4):
        take(environment, DONE)
    assert environment.score() == {"correct": 0.0, "turns": 0.0, "format": 0.0}


def test_a_withheld_function_is_unknown_until_its_turn() -> None:
    environment = started("miss_func_1")  # `mv` is withheld until turn 2
    take(environment, call("ls", a=True))
    take(environment, DONE)
    assert "mv" not in environment.tools.tools
    assert not any(schema["function"]["name"] == "mv" for schema in environment.tools.schemas())
    early = take(environment, call("mv", source="log.txt", destination="archive"))
    (result,) = early.results
    assert result.status == "invalid"
    assert "mv" not in result.content.removeprefix("unknown tool; use ").split(", ")
    brought = take(environment, DONE)
    (message,) = brought.observation.messages
    documents, _, sentence = message.content.rpartition("\n")
    assert (message.role, sentence) == ("user", MORE_FUNCTIONS)
    (document,) = json.loads(documents)
    assert (document["name"], document["parameters"]["type"]) == ("mv", "object")
    runner = DirectRunner(environment.tools)
    asyncio.run(environment.step(call("cd", folder="workspace"), runner))
    late = asyncio.run(environment.step(call("mv", source="log.txt", destination="archive"), runner))
    assert late.results[0].status == "ok"


def test_what_the_ground_truth_needs_is_not_withheld() -> None:
    entry = ENTRIES["multi_turn_miss_func_49"]
    assert "tail(file_name='file3.txt')" in entry["ground_truth"][1]  # which the benchmark withholds until turn 3
    assert entry["withheld"] == {"3": ["wc", "cat"]}  # and no more `tail`
    environment = started("miss_func_49")
    assert "tail" in environment.tools.tools
    shown = [take(environment, DONE).observation.messages[0].content for _ in range(3)]
    assert [document["name"] for document in json.loads(shown[2].rpartition("\n")[0])] == ["wc", "cat"]
    withheld = [name for e in files.entries() for names in e["withheld"].values() for name in names]
    assert len(withheld) == 182 + 2 * 14 + 3 * 4 - 1  # functions of 200 tasks, but for that one


def test_a_runner_that_was_made_at_the_start_knows_what_came_later() -> None:
    environment = started("miss_func_1")
    runner = DirectRunner(environment.tools)
    for action in (call("ls", a=True), DONE, DONE, call("cd", folder="workspace")):
        asyncio.run(environment.step(action, runner))
    late = asyncio.run(environment.step(call("mv", source="log.txt", destination="archive"), runner))
    assert late.results[0].status == "ok"


def test_what_is_done_before_the_missing_parameter_is_known_is_seen_a_turn_later() -> None:
    truths = ENTRIES["multi_turn_miss_param_1"]["ground_truth"]
    assert truths[3] == []  # "show the last several lines"; how many is said in turn 4
    environment = started("miss_param_1")
    assert play(environment, [*truths[:3], ["tail(file_name='log.txt', lines=3)"], truths[4]])["correct"] == 1.0  # only looked
    environment = started("miss_param_1")
    score = play(environment, [*truths[:3], ["rm(file_name='log.txt')"], truths[4]])
    assert score == {"correct": 0.0, "turns": 0.8, "format": 0.0}  # turns 0 to 3 of 5


def test_a_malformed_call_is_answered_and_ends_no_turn() -> None:
    environment = started("base_1")
    result = take(environment, ParseFailure("arguments must be JSON", call_id="call-0", name="ls", raw="ls("))
    assert [message.content for message in result.observation.messages] == ["arguments must be JSON"]
    result = take(environment, ParseFailure("cut off", raw="I wi", cut=True))
    assert [message.role for message in result.observation.messages] == ["tool"]
    assert environment.score()["format"] == -1.0  # what a budget cut is no mistake
    result = take(environment, call("ls", everything=True))
    assert result.results[0].content == "unexpected everything"
    result = take(environment, call("cd"))
    assert result.results[0].content == "missing folder"
    assert environment.score()["format"] == -3.0


def test_a_turn_has_at_most_20_steps() -> None:
    environment = started("base_1")
    results = [take(environment, call("pwd")) for _ in range(MOST_STEPS + 1)]
    assert [result.truncated for result in results] == [False] * 20 + [True]
    assert results[-1].cause == "more than 20 steps in one turn"
    assert environment.score()["correct"] == 0.0


def test_the_four_variants_of_a_request_stand_on_one_side() -> None:
    sides: dict[str, set[str]] = {}
    for name, entry in ENTRIES.items():
        sides.setdefault(name.rpartition("_")[2], set()).add(split_of(Bfcl.task_from(entry)))
    assert all(len(side) == 1 for side in sides.values())
    held_out = sum(side == {"held_out"} for side in sides.values())
    assert 8 <= held_out <= 35  # binomial of 200 with 0.1: 20 ± 4.2
    assert len({Bfcl.task_from(entry).task_id for entry in files.entries()}) == 800


def test_tasks_are_drawn_by_index_and_category() -> None:
    assert Bfcl.make_task(random.Random(3)) is Bfcl.make_task(random.Random(3))

    class Base(Bfcl):
        categories = ("base",)

    assert {Base.make_task(random.Random(seed))["category"] for seed in range(40)} == {"base"}


def constants() -> dict[str, Any]:
    module = importlib.import_module("bfcl_eval.eval_checker.multi_turn_eval.func_source_code.long_context")
    return copy.deepcopy({name: value for name, value in vars(module).items() if name.isupper()})


def test_no_episode_sees_another() -> None:
    """Long contexts hand constants of a module to the tools, which write into them; upstream they leak."""
    before = constants()
    chosen = [entry for entry in files.entries() if entry["category"] == "long_context"]

    def results(entry: Mapping[str, Any]) -> list[str]:
        world = World(entry)
        calls = [read_call(text) for turn in entry["ground_truth"] for text in turn]
        return [world.call(found.name, found.arguments, found.positional) for found in calls]

    first = [results(entry) for entry in chosen]
    assert [results(entry) for entry in reversed(chosen)] == first[::-1]
    assert constants() == before
    names = set(vars(bfcl)) | set(vars(files))
    assert not any("instance" in name for name in names)


def test_a_card_of_the_long_context_is_one_s_own() -> None:
    entry = next(e for e in files.entries() if e["category"] == "long_context" and "TravelAPI" in e["classes"])
    one, other = World(entry), World(entry)
    cards, others = (world.state()["TravelAPI"]["credit_card_list"] for world in (one, other))
    for card in cards.values():
        card["balance"] = -1
    assert all(card["balance"] != -1 for card in others.values())


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("power", {"base": 9, "exponent": 9**9}), "the result has more than 1000 digits"),
        (("power", {"base": 9**99, "exponent": 10**300}), "the result has more than 1000 digits"),
        (("logarithm", {"value": 2.0, "base": 3.0, "precision": 10**9}), "more than 1000 digits"),
        (("square_root", {"number": 2.0, "precision": 10**9}), "more than 1000 digits"),
        (("round_number", {"number": 5, "decimal_places": -(10**9)}), "more than 1000 digits"),
    ],
)
def test_no_call_computes_for_ever(arguments: tuple[str, dict[str, Any]], why: str) -> None:
    world = World(next(e for e in files.entries() if "MathAPI" in e["classes"]))
    name, given = arguments
    assert world.call(name, given) == f"Error during execution: {why}"
    assert world.call("power", {"base": 2, "exponent": 10}) == '{"result": 1024}'
    assert world.call("power", {"base": 2.5, "exponent": 10**9}).startswith("Error during execution")  # Python's own overflow


def test_copies_of_copies_end() -> None:
    world = World(ENTRIES["multi_turn_base_1"])
    assert world.call("mkdir", {"dir_name": "d0"})
    assert "itself" in world.call("cp", {"source": "d0", "destination": "d0"})
    answers = []
    for depth in range(1, 30):
        world.call("mkdir", {"dir_name": f"d{depth}"})
        for twin in "ab":
            answers.append(world.call("cp", {"source": f"d{depth - 1}", "destination": f"{twin}{depth}"}))
            world.call("mv", {"source": f"{twin}{depth}", "destination": f"d{depth}"})
    assert answers[0] == "{\"result\": \"'d0' copied to 'a1'\"}"
    assert answers[-1] == "Error during execution: too many files"
    assert world.call("find", {"path": "."}).count("/") < 40 * MOST_ITEMS


def test_precisions_are_left_as_they_were() -> None:
    mpmath: Any = importlib.import_module("mpmath")
    world = World(next(e for e in files.entries() if "MathAPI" in e["classes"]))
    before = mpmath.mp.dps
    assert "0.6309" in world.call("logarithm", {"value": 2.0, "base": 3.0, "precision": 40})
    assert mpmath.mp.dps == before


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "ls(a=__import__('os'))",
        "ls(a=[x for x in 'ab'])",
        "ls(**{'a': True})",
        "(lambda: 0)()",
        "ls(9**9**9)",
        "ls",
        "",
        "ls(",
        "ls()\0",
        "(" * 5000,
    ],
)
def test_a_call_is_read_as_syntax_and_holds_literals_alone(text: str) -> None:
    with pytest.raises(RecordError, match="call must be name"):
        read_call(text)


def test_nothing_is_ever_evaluated_as_code() -> None:
    for path in Path(bfcl.__file__).parent.glob("*.py"):
        names = {node.id for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Name)}
        assert not names & {"eval", "exec", "compile", "__import__", "globals"}, path


def test_schemas_are_json_schemas() -> None:
    for entry in files.entries()[::40]:
        environment = Bfcl()
        environment.start(Bfcl.task_from(entry), seed=0)
        for schema in environment.tools.schemas():
            text = json.dumps(schema)
            assert '"type": "dict"' not in text
            assert '"type": "float"' not in text
            assert schema["function"]["parameters"]["type"] == "object"


def test_a_missing_package_is_named_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    files._folder.cache_clear()
    with pytest.raises(MissingExtraError) as raised:
        Bfcl.make_task(random.Random(0))
    assert str(raised.value) == (
        "bfcl needs bfcl_eval, which is not installed; pip install mpmath && pip install --no-deps bfcl-eval"
    )
