"""What a running loop tells whoever watches it; plain data, so the command line, a notebook or a test can draw it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Progress:
    """One moment of a run. A field is None when the phase does not measure it; None is not 0."""

    phase: str
    """`resume`, `warm_start`, `evaluate`, `train`, `done` or `failed`, in this order but for evaluations amid the training."""
    step: int
    """Finished steps of this phase."""
    steps: int
    """Steps of this phase in all (an upper bound for the warm start)."""
    success: float | None = None
    """Share of sampled episodes that succeeded, in the last step or check."""
    reward: float | None = None
    """Mean total reward of the last step."""
    kl: float | None = None
    """Approximate KL of the last update."""
    tokens_per_second: float | None = None
    """Sampled tokens per second of the last step, learning included."""
    seconds_left: float | None = None
    """Estimate for the whole run, from the pace so far."""
    message: str = ""
    """Sentences worth keeping in the log, one a line: a checkpoint was skipped, no update was made …"""


OnProgress = Callable[[Progress], None]
"""Called from the training thread; it must be quick and must not raise."""
