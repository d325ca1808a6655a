"""Everything a run plays in: environment, tasks, tokenizer, codec, model; built from the configuration alone."""

from __future__ import annotations

import dataclasses
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rosellm.roserlhf import checks
from rosellm.roserlhf.codec.hf import build_tokenizer, chat_codec, marker_codec
from rosellm.roserlhf.codec.protocol import Codec
from rosellm.roserlhf.engine.protocol import Engine
from rosellm.roserlhf.environment.base import ToolEnvironment
from rosellm.roserlhf.environment.named import BUILT_IN, environment_class
from rosellm.roserlhf.environment.protocol import Task
from rosellm.roserlhf.environment.tasks import Split, distinct, tasks
from rosellm.roserlhf.errors import CheckpointError
from rosellm.roserlhf.guard.episodes import guarding, require_setting
from rosellm.roserlhf.guard.guard import Guard
from rosellm.roserlhf.models.pretrained import tokenizer_of
from rosellm.roserlhf.models.source import find_model
from rosellm.roserlhf.rollout.collect import Planned, collect, plan
from rosellm.roserlhf.rollout.episode import Facts, Limits
from rosellm.roserlhf.trainer.checkpoint import Checkpoint
from rosellm.roserlhf.trainer.config import TrainConfig
from rosellm.roserlhf.trainer.guarding import new_guard, reward_handling
from rosellm.roserlhf.trainer.model import new_model
from rosellm.roserlhf.trajectory import Trajectory

if TYPE_CHECKING:
    from peft import PeftModel
    from transformers import LlamaForCausalLM, PreTrainedTokenizerFast


TOKENIZER = "tokenizer"
"""Name under which a checkpoint's state says which tokenizer its ids are of."""


def path_of(environment: type[ToolEnvironment]) -> str:
    """Name an environment class as a configuration does: by its built-in name, or by its import path `module:Class`.

    A class that was made on demand says its name itself. A class of the script that runs now is named after the script's file, by
    which another process can import it.
    """
    if said := vars(environment).get("command_name"):  # what a subclass inherits is not its own name
        return str(said)
    module = environment.__module__
    script = getattr(sys.modules["__main__"], "__file__", None)
    path = f"{Path(script).stem if script and module == '__main__' else module}:{environment.__qualname__}"
    return next((name for name, built_in in BUILT_IN.items() if built_in == path), path)


def _speech(config: TrainConfig, environment: type[ToolEnvironment]) -> tuple[PreTrainedTokenizerFast, Codec]:
    """Choose how messages become ids: as the pretrained model was taught, or in the words of the environment."""
    schemas = environment().tools.schemas()
    if not config.model.source:
        tokenizer = build_tokenizer(environment.vocabulary)
        return tokenizer, marker_codec(tokenizer, schemas)
    tokenizer = tokenizer_of(find_model(config.model.source))
    return tokenizer, chat_codec(tokenizer, schemas, calls=config.model.calls, tell_tools=config.model.tell_tools)


@dataclass(frozen=True)
class World:
    """The fixed surroundings of a run."""

    config: TrainConfig
    name: str
    """Name of the run."""
    environment: type[ToolEnvironment]
    tokenizer: PreTrainedTokenizerFast
    codec: Codec
    limits: Limits
    facts: Facts
    guard: Guard | None = None
    """What stands in front of the tools; None: nothing does."""

    @classmethod
    def build(
        cls, config: TrainConfig, name: str, environment: type[ToolEnvironment] | None = None, *, run_folder: Path | None = None
    ) -> World:
        """Assemble it; `environment` overrules the configured name, `run_folder` is that of a run that has begun.

        Raises:
            ConfigError: the environment cannot be guarded, and the configuration asks for it.
        """
        kind = environment or environment_class(config.environment)
        guard = new_guard(config.guard, run_folder)
        if guard is not None:
            require_setting(kind)
        tokenizer, codec = _speech(config, kind)
        window = config.collect
        limits = Limits(
            max_turns=window.max_turns,
            max_turn_tokens=window.max_turn_tokens,
            context_window=window.context_window,
            temperature=window.temperature,
            top_p=window.top_p,
            environment_timeout=window.environment_timeout,
            score_timeout=window.score_timeout,
            close_timeout=window.close_timeout,
            reply_timeout=window.reply_timeout,
            max_reward=window.max_reward,
        )
        facts = Facts(
            environment_version=f"{kind.__name__}-{kind.version}",
            hashes={"tokenizer": codec.tokenizer_hash},
            reward_names=tuple(dict.fromkeys([*kind.reward_weights, kind.success_component])),
        )
        return cls(config, name, kind, tokenizer, codec, limits, facts, guard)

    @property
    def reward_weights(self) -> dict[str, float]:
        """What training maximises: the environment's components, and the guard's penalty where it has one."""
        return {**self.environment.reward_weights, **reward_handling(self.config.guard).weights}

    def new_model(self) -> LlamaForCausalLM | PeftModel:
        """Build the model that the configuration describes, for this vocabulary (see `new_model`)."""
        return new_model(self.config, vocabulary_size=len(self.tokenizer), device=self.config.device)

    def check_tokenizer(self, checkpoint: Checkpoint) -> None:
        """Require that a checkpoint speaks the ids of this tokenizer, in this chat template.

        Raises:
            CheckpointError: it was trained with another.
        """
        own, saved = self.codec.tokenizer_hash, checkpoint.state.get(TOKENIZER)  # checkpoints of older versions do not say
        if saved not in (None, own):
            fix = "restore it, and its chat template, as they were"
            requirement = f"be the one of checkpoint {checkpoint.step}, {saved:.12}"
            raise checks.fail(CheckpointError, "tokenizer", requirement, f"{own:.12}", fix=fix)

    def tasks(self, split: Split, purpose: str, step: int = 0) -> Iterator[Task]:
        """Draw tasks without end; the order depends on seed, purpose and step alone."""
        return tasks(self.environment, split, f"{self.config.seed}/{purpose}/{step}")

    def held_out(self, count: int) -> list[Task]:
        """The first `count` distinct held-out tasks of this seed, fewer if the environment has no more.

        Raises:
            RangeError: it has none.
        """
        return distinct(self.tasks("held_out", "evaluate"), count)

    def check(self) -> None:
        """Require what a run is going to need: tasks on both sides and, for a warm start, demonstrations.

        Raises:
            RangeError: the environment draws no task of one side.
            ConfigError: it has no demonstrations to clone.
        """
        next(self.tasks("train", "train"))
        self.held_out(1)
        if self.config.warm_start.max_steps:
            self.environment().demonstrate(random.Random(0), faulty=False).close()

    def plan(self, chosen: Sequence[Task], *, purpose: str, step: int, members: int = 1) -> list[Planned]:
        """Name the episodes of one purpose and step."""
        planned = plan(chosen, members=members, run=self.name, seed=self.config.seed, purpose=purpose, step=step)
        is_canary = self.environment.is_canary
        return [dataclasses.replace(one, canary=True) if is_canary(one.task.payload) else one for one in planned]

    async def play(self, engine: Engine, episodes: Sequence[Planned], *, temperature: float | None = None) -> list[Trajectory]:
        """Play episodes behind the guard, if there is one; only those planned for the purpose `train` leave trainable records."""
        limits = self.limits if temperature is None else dataclasses.replace(self.limits, temperature=temperature)
        trainable = all(episode.key.purpose == "train" for episode in episodes)
        facts = dataclasses.replace(self.facts, trainable=trainable)
        guard = None if self.guard is None else guarding(self.guard)
        return await collect(self.environment, self.codec, engine, episodes, limits=limits, facts=facts, guard=guard)
