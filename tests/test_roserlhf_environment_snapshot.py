"""Snapshots under random actions: whoever restores one goes on as the other did; what is none is refused."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import json
import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from rosellm.roserlhf.environment.base import ToolEnvironment
from rosellm.roserlhf.environment.named import BUILT_IN, environment_class
from rosellm.roserlhf.environment.protocol import StepResult
from rosellm.roserlhf.environment.runner import DirectRunner
from rosellm.roserlhf.errors import ConfigError, RecordError
from rosellm.roserlhf.trajectory import ParsedAction, ParseFailure, ToolCall

NAMES = [*BUILT_IN, "reasoning-gym:chain_sum", "reasoning-gym:bf", "reasoning-gym:countdown"]
STEPS = 12
ODD: Sequence[Any] = (None, True, 0, -1, 10**30, 0.5, [], ["a", None], {}, {"a": [1]}, "\0", "9" * 500, "nan", "(" * 200)
Action = ParsedAction | ParseFailure


def started(name: str, seed: int) -> ToolEnvironment:
    kind = environment_class(name)
    environment = kind()
    environment.start(kind.task_from(kind.make_task(random.Random(f"{name}/{seed}"))), 0)
    return environment


def random_argument(rng: random.Random, schema: Mapping[str, Any], words: Sequence[str]) -> Any:
    drawn = {
        "string": rng.choice(words),
        "integer": rng.randint(-5, 100),
        "number": rng.uniform(-5, 100),
        "boolean": rng.random() < 0.5,
        "array": rng.sample(words, min(len(words), 2)),
        "object": {words[0]: words[-1]},
    }
    return rng.choice(ODD) if rng.random() < 0.1 else drawn[schema["type"]]


def random_action(environment: ToolEnvironment, rng: random.Random) -> Action:
    """A call of some tool with words that were shown for arguments; now and then a plain reply, or a malformed one."""
    tools, draw = list(environment.tools.tools.values()), rng.random()
    words = [word.strip(".,;:!?'\"{}[]") for word in environment.shown.split()] or ["a"]
    if draw < 0.1 or not tools:
        return ParsedAction(rng.choice(words))
    if draw < 0.2:
        return ParseFailure("arguments must be JSON", call_id="call-0", raw="(")
    chosen = rng.choice(tools)
    properties = chosen.schema()["function"]["parameters"]["properties"]
    arguments = {name: random_argument(rng, kind, words) for name, kind in properties.items() if rng.random() < 0.95}
    return ParsedAction(calls=(ToolCall("call-0", chosen.name, arguments),))


def after(environment: ToolEnvironment, action: Action) -> dict[str, Any]:
    """Take an action; return everything that can be seen afterwards."""

    async def take() -> tuple[StepResult, Mapping[str, float | None]]:
        result = await environment.step(action, DirectRunner(environment.tools))
        score = environment.score()
        return result, await score if inspect.isawaitable(score) else score

    result, score = asyncio.run(take())
    return {
        "messages": result.observation.messages,
        "results": [dataclasses.replace(answer, latency=None) for answer in result.results],
        "ended": result.terminated or result.truncated,
        "state": environment.state_key(),
        "score": dict(score),
        "tools": list(environment.tools.tools),
    }


def wander(environment: ToolEnvironment, rng: random.Random, steps: int = STEPS) -> list[tuple[Action, dict[str, Any]]]:
    walked: list[tuple[Action, dict[str, Any]]] = []
    while len(walked) < steps and not (walked and walked[-1][1]["ended"]):
        action = random_action(environment, rng)
        walked.append((action, after(environment, action)))
    return walked


@pytest.mark.parametrize("name", NAMES)
def test_whoever_restores_a_snapshot_goes_on_as_the_other_did(name: str) -> None:
    assert environment_class(name).capabilities.snapshot
    for seed in range(6):
        rng, environment = random.Random(seed), started(name, seed)
        wander(environment, rng, steps=rng.randrange(STEPS))
        saved = environment.snapshot()
        walked = wander(environment, rng)
        other = started(name, seed + 1)  # an instance that has played something else
        other.restore(saved)
        assert other.snapshot() == saved
        assert json.loads(saved)["environment"].startswith(type(environment).__name__)
        for action, seen in walked:
            assert after(other, action) == seen


@pytest.mark.parametrize(
    ("data", "got"),
    [
        (b"", "be JSON as snapshot() writes it, got b''"),
        (b"\x80\x04N.", "be JSON as snapshot() writes it"),
        (b"[]", "be of Shop-1, format 1, got None"),
        (b"{}", "be of Shop-1, format 1, got (None, None)"),
        (b'{"environment": "Arithmetic-1", "format": 1}', "be of Shop-1, format 1, got ('Arithmetic-1', 1)"),
        (b'{"environment": "Shop-1", "format": 2}', "be of Shop-1, format 1, got ('Shop-1', 2)"),
        ("text", "be bytes"),
    ],
)
def test_what_is_no_snapshot_of_this_environment_is_refused(data: Any, got: str) -> None:
    with pytest.raises(RecordError) as raised:
        started("shop", 0).restore(data)
    assert got in str(raised.value)


def test_a_class_that_promises_no_snapshot_gives_none() -> None:
    class Plain(ToolEnvironment):
        @staticmethod
        def make_task(rng: random.Random) -> dict[str, Any]:
            return {}

        def prompt(self) -> str:
            return "?"

        def score(self) -> dict[str, float | None]:
            return {"correct": 0.0}

    plain = Plain()
    plain.start(Plain.task_from({}), 0)
    with pytest.raises(ConfigError, match="environment must be able to save its state, got Plain; an environment that defines"):
        plain.snapshot()
