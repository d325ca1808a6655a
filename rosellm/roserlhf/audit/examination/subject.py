"""Who is examined: `model + recipe + surroundings -> Subject`, and the one way in which its episodes are sampled.

The model of a subject is never modified: whatever trains, trains a copy. The engine is made with other weights and is handed the
subject's by `publish`, as in training: an engine that keeps old weights under a new name is found out.
"""

from __future__ import annotations

import asyncio
import copy
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

import torch

from rosellm.roserlhf.batching.rollout import rollouts_of
from rosellm.roserlhf.batching.rows import Row
from rosellm.roserlhf.engine.local import LocalEngine
from rosellm.roserlhf.engine.protocol import Ack, Chunk, Engine, PolicyHandle, Request, Sampling
from rosellm.roserlhf.environment.protocol import Task
from rosellm.roserlhf.models.causal import merged_weights
from rosellm.roserlhf.trainer.learning import credited
from rosellm.roserlhf.trainer.recipe import Recipe
from rosellm.roserlhf.trainer.threads import LoopThread
from rosellm.roserlhf.trainer.world import World
from rosellm.roserlhf.trajectory import PolicyAction, TokenSpan, Trajectory, TransitionRecord

if TYPE_CHECKING:
    from peft import PeftModel
    from transformers import LlamaForCausalLM

OUTSIDE = 1_000_000
"""Added to step numbers, so that no random stream of an examination is one of the run's."""
PROMPT_TOKENS, REPLY_TOKENS = 12, 12


@dataclass(frozen=True)
class Subject:
    """A model, the recipe that would train it, and what it acts in."""

    model: LlamaForCausalLM | PeftModel
    """float32, on the CPU, without dropout; read only."""
    version: str
    """Name of these weights."""
    recipe: Recipe
    world: World | None
    """None if no environment can be played with this model's tokenizer."""
    no_world: str = ""
    """Why there is no world."""

    def model_copy(self) -> LlamaForCausalLM | PeftModel:
        """Copy the model, for whoever trains."""
        return copy.deepcopy(self.model)

    @property
    def reward_weights(self) -> Mapping[str, float]:
        """What the recipe would maximise."""
        return {"correct": 1.0} if self.world is None else self.world.reward_weights

    def tasks(self, count: int, *, step: int = 0) -> list[Task]:
        """Draw training tasks, or number prompts where there is no environment."""
        if self.world is not None:
            return list(islice(self.world.tasks("train", "doctor", step), count))
        return [Task(f"prompt-{step}-{index}", {}) for index in range(count)]

    @property
    def temperature(self) -> float:
        """Of sampling, as configured."""
        return self.recipe.config.collect.temperature


@dataclass
class Spelling(Engine):
    """Says one thing, spelled in ids that no tokenizer would choose: a history that is encoded again changes."""

    token_ids: tuple[int, ...]
    version: str

    async def generate(self, request: Request) -> AsyncIterator[Chunk]:
        """Say it, as far as the budget goes."""
        ids = self.token_ids[: request.sampling.max_tokens]
        yield Chunk(ids, (-1.0,) * len(ids), self.version, "stop" if ids == self.token_ids else "length")

    async def publish(self, policy: PolicyHandle) -> Ack:
        """Take the name."""
        self.version = policy.version
        return Ack(policy.version)


@dataclass
class Overheard(Engine):
    """An engine that remembers what it was asked to continue, turn by turn."""

    engine: Engine
    prompts: dict[str, list[tuple[int, ...]]] = field(default_factory=dict)
    """Prompt ids by session, in turn order."""

    async def generate(self, request: Request) -> AsyncIterator[Chunk]:
        """Pass the request on."""
        self.prompts.setdefault(request.session, []).append(request.prompt_ids)
        async for chunk in self.engine.generate(request):
            yield chunk

    async def publish(self, policy: PolicyHandle) -> Ack:
        """Pass the weights on."""
        return await self.engine.publish(policy)


@dataclass(frozen=True)
class Episodes:
    """Episodes with their credit, as a training step would see them."""

    trajectories: list[Trajectory]
    rewards: list[float | None]
    rows: list[Row]
    prompts: Mapping[str, list[tuple[int, ...]]]
    """What the engine was given at each turn, by trajectory."""
    temperature: float

    @property
    def live(self) -> list[Row]:
        """Rows with tokens in the loss."""
        return [row for row in self.rows if row.trained]


def other_policy(model: LlamaForCausalLM | PeftModel) -> LlamaForCausalLM | PeftModel:
    """Make a different policy of the same shape: every weight halved."""
    other = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.mul_(0.5)
    return other


class Player:
    """Samples episodes of a subject; holds the engine and its threads until it is closed."""

    def __init__(self, subject: Subject, *, threads: int = 2, rows: int = 256) -> None:
        self._subject = subject
        self._loop = LoopThread()
        self.engine = LocalEngine(other_policy(subject.model), version="halved", threads=threads, cache_rows=rows)
        self.publish(subject.model, subject.version)

    def publish(self, model: LlamaForCausalLM | PeftModel, version: str) -> None:
        """Hand weights to the engine."""
        self._loop.run(self.engine.publish(PolicyHandle(version, merged_weights(model))))

    def play(self, tasks: Sequence[Task], *, members: int, step: int, temperature: float | None = None) -> Episodes:
        """Play groups of `members` episodes and give each its credit.

        Args:
            tasks: one group each.
            members: episodes per task.
            step: keys the random streams; another number samples anew.
            temperature: overrules the configured one.
        """
        self.engine.forget()
        return self._play(self.engine, tasks, members, step, self._subject.temperature if temperature is None else temperature)

    def play_spelled(self, tasks: Sequence[Task], *, members: int, step: int) -> Episodes | None:
        """Play episodes whose replies are a word of the vocabulary spelled letter by letter; None where nothing can be spelled."""
        world = self._subject.world
        if world is None:
            return None
        words = [word for word in world.environment.vocabulary if 1 < len(word) < world.limits.max_turn_tokens]
        if not words:
            return None
        letters = [token_id for letter in max(words, key=len) for token_id in world.codec.reply(letter)[:-1]]
        engine = Spelling((*letters, *world.codec.stop_ids), self._subject.version)
        return self._play(engine, tasks, members, step, self._subject.temperature)

    def _play(self, engine: Engine, tasks: Sequence[Task], members: int, step: int, temperature: float) -> Episodes:
        subject, heard = self._subject, Overheard(engine)
        if subject.world is None:
            trajectories = self._loop.run(_continue_prompts(subject, heard, tasks, members, step, temperature))
        else:
            planned = subject.world.plan(tasks, purpose="train", step=OUTSIDE + step, members=members)
            records = self._loop.run(subject.world.play(heard, planned, temperature=temperature))
            # a rewritten episode has several rows, and the examinations are about single ones
            trajectories = [rollout.root for rollout in rollouts_of(records) if len(rollout.records) == 1]
        rewards, rows = credited(subject.recipe, trajectories, subject.reward_weights)
        return Episodes(trajectories, rewards, rows, heard.prompts, temperature)

    def close(self) -> None:
        """End the threads."""
        self._loop.close()
        self.engine.close()


async def _continue_prompts(
    subject: Subject, engine: Engine, tasks: Sequence[Task], members: int, step: int, temperature: float
) -> list[Trajectory]:
    """One-turn episodes without an environment: the reply to random ids is right if its first id is even."""
    vocabulary, seed = subject.model.config.vocab_size, subject.recipe.config.seed

    async def play(task: Task, member: int) -> Trajectory:
        draw = random.Random(f"{seed}/{task.task_id}")
        prompt = tuple(draw.randrange(vocabulary) for _ in range(PROMPT_TOKENS))
        name = f"examination/{step}/{task.task_id}/{member}"
        request = Request(prompt, Sampling(temperature, REPLY_TOKENS), (seed, "doctor", step, task.task_id, member), name)
        (chunk,) = [chunk async for chunk in engine.generate(request)]
        action = PolicyAction(0, chunk.token_ids, chunk.logprobs, chunk.version, "", stop_reason="length")
        end = TransitionRecord(0, None, {"correct": float(chunk.token_ids[0] % 2 == 0)}, terminated=True)
        context = [TokenSpan(prompt, "user")]
        return Trajectory(name, task.task_id, "none", "none", [action], [end], group_id=task.task_id, prompt=context)

    return list(await asyncio.gather(*(play(task, member) for task in tasks for member in range(members))))
