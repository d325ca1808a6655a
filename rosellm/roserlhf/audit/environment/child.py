"""What the doctor does with an environment, inside a process of its own: `question -> what happened`, both JSON."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import json
import random
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

from rosellm.roserlhf.audit.environment.moves import action_of
from rosellm.roserlhf.audit.environment.watching import Seen, watched
from rosellm.roserlhf.codec.calls import call_format, parameters_of
from rosellm.roserlhf.environment.base import ToolEnvironment
from rosellm.roserlhf.environment.named import environment_class
from rosellm.roserlhf.environment.protocol import Environment, Task
from rosellm.roserlhf.environment.runner import DirectRunner
from rosellm.roserlhf.environment.tasks import tasks
from rosellm.roserlhf.errors import RoseError
from rosellm.roserlhf.record import plain
from rosellm.roserlhf.trajectory import Message, ParsedAction, ParseFailure

MOST_TURNS = 200
"""Turns of a script."""
_kinds: dict[str, type[ToolEnvironment]] = {}
_tasks: dict[str, list[Task]] = {}
_loop = asyncio.Runner()


def answer(question: Mapping[str, Any]) -> dict[str, Any]:
    """Do what `question["do"]` names with `question["environment"]`, and tell what was seen meanwhile."""
    name, imported = question["environment"], Seen()
    if name not in _kinds:
        with watched() as imported:
            _kinds[name] = environment_class(name)
    with watched() as seen:
        found = _DO[question["do"]](_kinds[name], question)
    return {**found, "imported": vars(imported), "seen": vars(seen)}


def describe(kind: type[ToolEnvironment], question: Mapping[str, Any]) -> dict[str, Any]:
    """Say what the environment declares."""
    promises = kind.capabilities
    return {
        "name": f"{kind.__name__}-{kind.version}",
        "snapshot": promises.snapshot,
        "replayable": promises.replayable,
        "deterministic": promises.deterministic,
        "weights": dict(kind.reward_weights),
        "success": kind.success_component,
        "demonstrates": kind.demonstrate is not ToolEnvironment.demonstrate or kind.gold is not ToolEnvironment.gold,
    }


def draw(kind: type[ToolEnvironment], question: Mapping[str, Any]) -> dict[str, Any]:
    """Draw tasks twice from the same stream, and hash them; a payload that is no JSON is an error here."""
    drawn = [[kind.task_from(kind.make_task(rng)).task_id for _ in range(question["count"])] for rng in (_rng(), _rng())]
    return {"first": drawn[0], "again": drawn[1]}


def _rng() -> random.Random:
    return random.Random("doctor")


def split(kind: type[ToolEnvironment], question: Mapping[str, Any]) -> dict[str, Any]:
    """Find tasks on one side of the split."""
    found = islice(tasks(kind, question["split"], "doctor"), question["count"])
    return {"distinct": len({task.task_id for task in found})}


def schemas(kind: type[ToolEnvironment], question: Mapping[str, Any]) -> dict[str, Any]:
    """List the tools of one task; some environments have other tools for other tasks."""
    return _loop.run(_schemas(kind, _task(kind, question["task"])))


async def _schemas(kind: type[ToolEnvironment], task: Task) -> dict[str, Any]:
    environment: Environment = kind()
    await _maybe(environment.start(task, 0))
    tools = environment.tools
    locked = [name for name, tool in tools.tools.items() if tool.irreversible]
    await _maybe(environment.close())
    return {"schemas": json.loads(json.dumps(tools.schemas())), "irreversible": locked}


def play(kind: type[ToolEnvironment], question: Mapping[str, Any]) -> dict[str, Any]:
    """Play one episode: the given moves, or without any the environment's own solution, and score it twice."""
    return _loop.run(_Played(kind, _task(kind, question["task"]), question).run())


def _task(kind: type[ToolEnvironment], number: int) -> Task:
    known = _tasks.setdefault(f"{kind.__module__}:{kind.__qualname__}", [])
    if len(known) <= number:
        rng = random.Random("doctor's tasks")
        known[:] = [kind.task_from(kind.make_task(rng)) for _ in range(number + 8)]
    return known[number]


async def _maybe(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


class _Played:
    """One episode and everything that can be said about it."""

    def __init__(self, kind: type[ToolEnvironment], task: Task, question: Mapping[str, Any]) -> None:
        self.kind, self.task, self.question = kind, task, question
        self.environment: Any = kind()
        self.happened: list[Any] = []
        """What followed from the actions, in order; equal in a replay."""
        self.lines: list[str] = []
        self.doing = "start"
        self.ended = False

    async def run(self) -> dict[str, Any]:
        """Play, score, and close."""
        found: dict[str, Any] = {"raised": None, "scores": {}, "complaint": None, "again": True}
        try:
            await self._play()
            found |= await self._score()
        except (KeyboardInterrupt, asyncio.CancelledError):
            raise
        except BaseException as error:  # noqa: BLE001 - a SystemExit of the environment is a finding, too
            found["raised"] = f"{self.doing} raised {type(error).__name__}: {error}"[:300]
        try:
            await _maybe(self.environment.close())
        except Exception as error:  # noqa: BLE001 - as above
            found["raised"] = found["raised"] or f"close raised {type(error).__name__}: {error}"[:300]
        happened = json.dumps(self.happened, default=repr)
        digests = [hashlib.sha256(json.dumps(one, default=repr).encode()).hexdigest()[:16] for one in self.happened]
        return {**found, "digests": digests, "last": happened[-300:], "lines": self.lines, "ended": self.ended}

    async def _play(self) -> None:
        observation = await _maybe(self.environment.start(self.task, self.question.get("seed", 0)))
        self.happened.append([_texts(observation.messages), self.environment.state_key()])
        prompt = "\n".join(message.content for message in observation.messages)
        self.runner = DirectRunner(self.environment.tools)
        if self.question.get("moves") is not None:
            for move in self.question["moves"]:
                if not await self._step(action_of(move, prompt)):
                    return
            return
        self.doing = "gold"
        if (solution := self.environment.gold()) is None:
            await self._demonstrate()
            return
        self.lines = [_line(action) for action in solution]
        for action in solution:
            if not await self._step(action):
                return

    async def _demonstrate(self) -> None:
        self.doing = "demonstrate"
        script = self.environment.demonstrate(random.Random(f"gold {self.question['task']}"), faulty=False)
        line = next(script, None)
        while line is not None and len(self.lines) < MOST_TURNS:
            self.lines.append(line)
            if not await self._step(self._parsed(line)):
                script.close()
                return
            self.doing = "demonstrate"
            try:
                line = script.send(self.environment.shown)
            except StopIteration:
                return

    def _parsed(self, line: str) -> ParsedAction | ParseFailure:
        parsed = call_format("function").parse(line, parameters_of(self.environment.tools.schemas()))
        return ParsedAction(line) if isinstance(parsed, ParseFailure) else parsed

    async def _step(self, action: ParsedAction | ParseFailure) -> bool:
        self.doing = "step"
        if len(self.happened) - 1 == self.question.get("snapshot_at"):
            await self._move_to_a_new_instance()
        result = await _maybe(self.environment.step(action, self.runner))
        self.doing = "state_key"
        results = [[one.call_id, one.status, one.content, one.origin] for one in result.results]
        ending = [result.terminated, result.truncated, result.cause]
        key = self.environment.state_key()
        self.happened.append([_texts(result.observation.messages), results, dict(result.rewards), ending, key])
        self.ended = result.terminated or result.truncated
        return not self.ended

    async def _move_to_a_new_instance(self) -> None:
        self.doing = "snapshot"
        old = self.environment
        saved = await _maybe(old.snapshot())
        plain.opaque(saved, "snapshot")
        key = old.state_key()
        await _maybe(old.close())
        self.doing = "restore"
        new: Any = self.kind()
        await _maybe(new.restore(saved))
        self.environment, self.runner = new, DirectRunner(new.tools)
        if new.state_key() != key:
            raise ValueError(f"the restored state is {new.state_key()!r}, the saved one {key!r}")
        self.doing = "step"

    async def _score(self) -> dict[str, Any]:
        self.doing = "score"
        first = await _maybe(self.environment.score())
        second = await _maybe(self.environment.score())
        again = repr(sorted(dict(first).items())) == repr(sorted(dict(second).items()))
        scores: dict[str, float | None] = {}
        complaint = None
        for name, value in dict(first).items():
            try:
                scores[plain.text(name, "a name")] = plain.reward(value, str(name))
            except RoseError as error:
                complaint = str(error)
        needed = [*self.kind.reward_weights, self.kind.success_component]
        if complaint is None and (missing := [name for name in needed if name not in first]):
            complaint = f"score must name {', '.join(missing)}, got {', '.join(map(str, first)) or 'nothing'}"
        self.happened.append(sorted(scores.items()))
        return {"scores": scores, "complaint": complaint, "again": again}


def _line(action: ParsedAction) -> str:
    written = [f"{call.name}({json.dumps(dict(call.arguments), default=repr)[:200]})" for call in action.calls]
    return "; ".join(written) or action.content


def _texts(messages: tuple[Message, ...]) -> list[Any]:
    return [[message.role, message.content] for message in messages]


_DO: dict[str, Callable[[type[ToolEnvironment], Mapping[str, Any]], dict[str, Any]]] = {
    "describe": describe,
    "draw": draw,
    "split": split,
    "schemas": schemas,
    "play": play,
}
