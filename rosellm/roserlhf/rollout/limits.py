"""What an episode may spend: turns, tokens, and seconds of every wait."""

from __future__ import annotations

import math
from dataclasses import dataclass

from rosellm.roserlhf import checks


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What an episode may spend, and how it samples.

    Raises:
        RangeError: a budget below 1, a temperature below 0, or a time or reward that is not above 0.
    """

    max_turns: int
    """Actions of one episode."""
    max_turn_tokens: int
    """Sampled tokens of one action, the end marker included."""
    context_window: int
    """Tokens of prompt, actions and observations together."""
    temperature: float
    """Of sampling; 0 is greedy."""
    top_p: float = 1.0
    """Nucleus that is sampled from; 1 keeps all. What it kept is recorded with every token."""
    top_k: int | None = None
    """Most likely tokens that are sampled from, before `top_p`; None keeps all."""
    environment_timeout: float = 600.0
    """Seconds that an environment's `start`, `step` or `state_key` may take; longer is a failure of the infrastructure."""
    score_timeout: float = 600.0
    """Seconds that its `score` may take; longer leaves the episode unscored."""
    close_timeout: float = 60.0
    """Seconds that its `close` may take; longer is told, and the run goes on."""
    reply_timeout: float = 3600.0
    """Seconds that the engine may take for one reply, waiting for its turn included; longer is a failure of the infrastructure."""
    max_reward: float = 1e6
    """Largest absolute value of a reward component; a larger one is no reward but a fault."""

    def __post_init__(self) -> None:
        for name in ("max_turns", "max_turn_tokens", "context_window"):
            checks.number_in(getattr(self, name), name, 1, math.inf)
        checks.number_in(self.temperature, "temperature", 0, math.inf, open_high=True)
        for name in ("environment_timeout", "score_timeout", "close_timeout", "reply_timeout", "max_reward"):
            checks.number_in(getattr(self, name), name, 0, math.inf, open_low=True, open_high=True)
