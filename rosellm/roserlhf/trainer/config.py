"""What a run can be told, beside the loop that reads it: frozen, nested, validated; recipes add the options of their algorithm."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from rosellm.roserlhf.config import Config
from rosellm.roserlhf.errors import ConfigError


class ModelConfig(Config):
    """The model: a pretrained one from `source`, or the small causal transformer (Llama architecture) of the sizes below."""

    source: str = Field(
        default="", description="pretrained model: a folder, `package:NAME` or a Hugging Face id; empty = built from the sizes"
    )
    lora: int = Field(default=0, ge=0, description="rank of trained adapters on a pretrained model; 0 trains every weight")
    sampler: Literal["float32", "bfloat16", "int8"] = Field(default="float32", description="weights that the engine samples with")
    checkpoint_gradients: bool = Field(default=False, description="recompute activations in the backward pass")
    calls: Literal["auto", "function", "hermes", "llama3", "pythonic", "tags"] = Field(
        default="auto", description="how a pretrained model writes tool calls; auto: as its template does"
    )
    tell_tools: bool = Field(default=True, description="tell of the tools in the system message if the template does not")
    layers: int = Field(default=2, ge=1, description="transformer blocks")
    hidden_size: int = Field(default=128, ge=8, description="width; a multiple of twice the heads")
    heads: int = Field(default=4, ge=1, description="attention heads")
    key_value_heads: int = Field(default=1, ge=1, description="heads of keys and values; divides heads")
    intermediate_size: int = Field(default=256, ge=8, description="width of the feed-forward layer")

    @model_validator(mode="after")
    def _source_first(self) -> Self:
        unused = _SIZES if self.source else _OF_SOURCE
        for name in unused:
            value, plain = getattr(self, name), type(self).model_fields[name].default
            if value != plain:
                about = "a pretrained model, which has sizes of its own" if self.source else "a model that is built from its sizes"
                fix = "leave it out" if self.source else "name a source"
                raise ConfigError(f"{name} must be {plain!r} for {about}, got {value!r}; {fix}")
        return self

    @model_validator(mode="after")
    def _whole_heads(self) -> Self:
        if self.hidden_size % (2 * self.heads):  # rotary positions turn pairs of dimensions inside each head
            raise ConfigError(f"hidden_size must be a multiple of 2 * heads = {2 * self.heads}, got {self.hidden_size}")
        if self.heads % self.key_value_heads:
            raise ConfigError(f"key_value_heads must divide heads = {self.heads}, got {self.key_value_heads}")
        return self


_SIZES = ("layers", "hidden_size", "heads", "key_value_heads", "intermediate_size")
_OF_SOURCE = ("lora", "calls", "tell_tools")
"""Options that nothing reads without a source, as nothing reads sizes with one."""


class WarmStartConfig(Config):
    """Cloning of scripted demonstrations, many of them faulty on purpose, until sampling succeeds sometimes."""

    demonstrations: int = Field(default=3000, ge=1, description="scripted episodes on training tasks")
    fault_rate: float = Field(default=0.55, ge=0, le=1, description="share of demonstrations that are made wrong on purpose")
    batch_size: int = Field(default=64, ge=1, description="demonstrations per optimizer step")
    learning_rate: float = Field(default=2e-3, gt=0, description="AdamW learning rate, after the first 20 steps")
    max_steps: int = Field(default=400, ge=0, description="upper bound of optimizer steps; 0 skips the warm start")
    stop_at_success: float = Field(default=0.4, ge=0, le=1, description="stop when sampled success on training tasks passes this")
    check_every: int = Field(default=80, ge=1, description="optimizer steps between two such checks")
    check_tasks: int = Field(default=256, ge=1, description="training tasks sampled at each check")


class CollectConfig(Config):
    """How episodes are sampled."""

    tasks: int = Field(default=40, ge=1, description="tasks per step")
    group_size: int = Field(default=8, ge=2, description="episodes per task; one alone has nothing to be compared with")
    temperature: float = Field(default=1.0, gt=0, description="sampling temperature of training episodes")
    top_p: float = Field(default=1.0, gt=0, le=1, description="nucleus of training episodes; what is kept is recorded and used")
    max_turns: int = Field(default=6, ge=1, description="actions per episode before it is truncated")
    max_turn_tokens: int = Field(default=16, ge=1, description="tokens per action")
    context_window: int = Field(default=128, ge=8, description="prompt, observations and actions together")
    environment_timeout: float = Field(default=600.0, gt=0, description="seconds an environment may take to start or to step")
    score_timeout: float = Field(default=600.0, gt=0, description="seconds a verifier may take; longer leaves the episode unscored")
    close_timeout: float = Field(default=60.0, gt=0, description="seconds an environment may take to close")
    reply_timeout: float = Field(default=3600.0, gt=0, description="seconds the engine may take for one reply, waiting included")
    max_reward: float = Field(default=1e6, gt=0, description="largest absolute value of a reward component; beyond it is a fault")


class OptimizerConfig(Config):
    """AdamW with a linear decay."""

    learning_rate: float = Field(default=1.5e-3, gt=0, description="where the decay starts from, after the rise")
    warmup_steps: int = Field(default=5, ge=1, description="training steps of linear rise to learning_rate")
    final_fraction: float = Field(
        default=0.1, ge=0, le=1, description="learning rate at the last step, as a share of learning_rate"
    )
    weight_decay: float = Field(default=0.0, ge=0, description="decoupled weight decay")
    gradient_clip: float = Field(default=0.5, gt=0, description="bound of the global gradient norm")
    epochs: int = Field(default=1, ge=1, description="passes over one step's episodes")
    minibatches: int = Field(default=2, ge=1, description="optimizer updates per pass")
    micro_batch_rows: int = Field(default=32, ge=1, description="rows per forward pass; changes memory and speed, never the result")


class EvaluateConfig(Config):
    """Evaluation on held-out tasks; it is reported and never decides anything."""

    tasks: int = Field(default=1024, ge=1, description="held-out tasks before and after training")
    every: int = Field(default=0, ge=0, description="steps between evaluations while training; 0 = only before and after")
    during_tasks: int = Field(default=256, ge=1, description="held-out tasks of those in between")


class GuardConfig(Config):
    """The guard in front of the tools: what a confirmed attempt to cheat leads to."""

    policy: Literal["off", "block-and-continue", "block-and-tell", "observe-only", "end-episode"] = Field(
        default="off", description="what happens to a confirmed call; off: calls are not looked at"
    )
    reward: Literal["untouched", "penalty", "zero", "exclude"] = Field(
        default="untouched", description="what happens to the reward of an episode with a confirmed call"
    )
    penalty: float = Field(default=1.0, gt=0, description="taken off for each confirmed call, as a component of its own")
    mask_blocked: bool = Field(default=False, description="leave the tokens of blocked calls out of the loss")
    rules: list[str] = Field(default=[], description="the project's own rule files, a list such as ['a.toml']")
    judge: str = Field(default="setting", description="setting: decides by the setting alone; or an import path module:judge")
    judge_timeout: float = Field(default=30.0, gt=0, description="seconds the judge has for one call; longer blocks that call")

    @property
    def on(self) -> bool:
        """Whether calls are looked at."""
        return self.policy != "off"

    @model_validator(mode="after")
    def _all_of_it_read(self) -> Self:
        unread = [name for name in type(self).model_fields if name != "policy"] if not self.on else []
        if self.reward != "penalty":
            unread.append("penalty")
        if self.policy == "observe-only":
            unread.append("mask_blocked")
        for name in unread:
            value, plain = getattr(self, name), type(self).model_fields[name].default
            if value != plain:
                why = "guard.policy is off" if not self.on else "nothing reads it here"
                raise ConfigError(f"{name} must be {plain!r} where {why}, got {value!r}; leave it out")
        return self


PRETRAINED: Mapping[str, Mapping[str, Any]] = {
    "warm_start": {"demonstrations": 400, "batch_size": 32, "max_steps": 30, "check_every": 5, "check_tasks": 64},
    "collect": {"tasks": 8, "max_turn_tokens": 64, "context_window": 512},
    "optimizer": {"minibatches": 1, "micro_batch_rows": 4},
    "evaluate": {"tasks": 300},
}
"""Other defaults for a pretrained model: fewer and longer episodes."""
ENVIRONMENTS: Mapping[str, Mapping[str, Any]] = {
    "kitchen": {"max_turns": 16, "context_window": 384},
    "repair": {"max_turn_tokens": 32, "context_window": 192},
}
"""Other defaults of `collect` for a built-in environment whose solutions do not fit into those of `shop`."""
LEARNING_RATES = {"warm_start": {False: 1e-4, True: 1e-3}, "optimizer": {False: 2e-5, True: 2e-4}}
"""And smaller steps; larger again where adapters alone are trained (True)."""


class TrainConfig(Config):
    """Everything that decides what a run computes; the resolved form is saved as `run.toml`."""

    recipe: str = Field(description="algorithm: a composition of credit, objective and aggregation")
    environment: str = Field(default="shop", description="a built-in name or an import path `module:Class`")
    seed: int = Field(default=0, ge=0, description="every random stream is derived from it")
    steps: int = Field(default=120, ge=0, description="training steps after the warm start")
    device: str = Field(default="cpu", pattern=r"^(cpu|cuda(:\d+)?)$", description="where the model lives: cpu, cuda or cuda:N")
    drop_uniform_groups: bool = Field(
        default=True, description="exclude groups in which no episode is better than another (they carry no gradient)"
    )
    max_failed_share: float = Field(
        default=0.5, ge=0, le=1, description="share of a step's episodes that may break off or go unscored before the run stops"
    )
    checkpoint_every: int = Field(default=10, ge=1, description="training steps between checkpoints")
    keep_checkpoints: int = Field(default=2, ge=1, description="newest checkpoints kept, beside that of step 0")
    model: ModelConfig = ModelConfig()
    warm_start: WarmStartConfig = WarmStartConfig()
    collect: CollectConfig = CollectConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    evaluate: EvaluateConfig = EvaluateConfig()
    guard: GuardConfig = GuardConfig()

    @model_validator(mode="before")
    @classmethod
    def _suit(cls, options: Any) -> Any:
        """Put the defaults of environment and pretrained model under what was given; a run file, which says all, stays as it is."""
        if not isinstance(options, Mapping):
            return options
        model = options.get("model")
        about = model if isinstance(model, Mapping) else model.model_dump() if isinstance(model, ModelConfig) else {}
        suited: dict[str, dict[str, Any]] = {}
        if environment := ENVIRONMENTS.get(str(options.get("environment"))):
            suited["collect"] = dict(environment)
        for section, defaults in PRETRAINED.items() if about.get("source") else ():
            rates = LEARNING_RATES.get(section)
            rate = {"learning_rate": rates[bool(about.get("lora"))]} if rates else {}
            suited[section] = {**suited.get(section, {}), **defaults, **rate}
        sections = {name: options.get(name, {}) for name in suited}
        given = {name: got.model_dump(exclude_unset=True) if isinstance(got, Config) else got for name, got in sections.items()}
        return {**options, **{name: {**suited[name], **got} for name, got in given.items() if isinstance(got, Mapping)}}
