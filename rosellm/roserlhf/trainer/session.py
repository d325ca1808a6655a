"""What the stages of one run share: surroundings, event log, engine, clock and the words to whoever watches.

The event log is the truth; `metrics.jsonl` is its readable shadow, made again from it when a run is resumed; `log.txt` is for
people.
"""

from __future__ import annotations

import contextlib
import json
import math
import time
from collections import defaultdict
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rosellm.roserlhf.engine.local import LocalEngine
from rosellm.roserlhf.engine.protocol import PolicyHandle
from rosellm.roserlhf.models.causal import merged_weights, weights, weights_hash
from rosellm.roserlhf.report.markup import visible
from rosellm.roserlhf.rollout.collect import Planned
from rosellm.roserlhf.store.events import EventLog
from rosellm.roserlhf.trainer.disk import append_lines, write_whole
from rosellm.roserlhf.trainer.progress import OnProgress, Progress
from rosellm.roserlhf.trainer.provenance import PROCESS
from rosellm.roserlhf.trainer.threads import LoopThread
from rosellm.roserlhf.trainer.world import World
from rosellm.roserlhf.trajectory import Trajectory

if TYPE_CHECKING:
    from peft import PeftModel
    from transformers import LlamaForCausalLM

_T = TypeVar("_T")
STAGES = ("warm_start", "rollout", "learn", "evaluate")


@dataclass
class Session:
    """One process working on one run."""

    world: World
    folder: Path
    log: EventLog
    model: LlamaForCausalLM | PeftModel
    engine: LocalEngine
    on_progress: OnProgress
    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    """Wall-clock seconds by stage, earlier processes of the same run included; `total` too."""
    _loop: LoopThread = field(default_factory=LoopThread)
    _started: float = field(default_factory=time.perf_counter)

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run one piece of asynchronous work to its end."""
        return self._loop.run(work)

    def play(self, episodes: Sequence[Planned], *, temperature: float | None = None) -> list[Trajectory]:
        """Play episodes with the engine's policy, from an empty cache: what was played before changes not even a rounding."""
        self.engine.forget()
        return self.run(self.world.play(self.engine, episodes, temperature=temperature))

    @contextlib.contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Add the block's wall time to a stage."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[stage] += time.perf_counter() - start

    def seconds_so_far(self) -> dict[str, float]:
        """Seconds by stage, and in all, up to now."""
        total = self.seconds["total"] + time.perf_counter() - self._started
        return {"total": total, **{stage: self.seconds[stage] for stage in STAGES}}

    def publish(self, version: str, *, step: int, parent: str | None, keep: bool = True) -> None:
        """Hand the model's weights to the engine under a new version and, if `keep`, enter it in the policy table."""
        self.run(self.engine.publish(PolicyHandle(version, merged_weights(self.model))))
        if keep:
            self.log.add_policy(version, step=step, parent=parent, content_hash=weights_hash(weights(self.model)))

    def record_metrics(self, phase: str, step: int, values: Mapping[str, Any]) -> None:
        """Append one row of metrics to the log and to `metrics.jsonl`."""
        self.log.append_metrics(phase, step, values)
        append_lines(self.folder / "metrics.jsonl", json_line(phase, step, values))

    def rewrite_metrics(self) -> None:
        """Make `metrics.jsonl` again from the log, without what was superseded."""
        rows = [m for m in self.log.metrics() if m.phase != PROCESS]
        write_whole(self.folder / "metrics.jsonl", "".join(json_line(m.phase, m.step, m.values) for m in rows))

    def tell(self, progress: Progress) -> None:
        """Report progress; sentences go to `log.txt` too."""
        if progress.message:
            now = time.strftime("%Y-%m-%d %H:%M:%S")
            said = "".join(f"{now} {visible(line)}\n" for line in progress.message.split("\n"))  # it may quote a model
            append_lines(self.folder / "log.txt", said)
        self.on_progress(progress)

    def close(self) -> None:
        """End the threads; the log is its opener's."""
        self._loop.close()
        self.engine.close()


def json_line(phase: str, step: int, values: Mapping[str, Any]) -> str:
    """One strict JSON line; a phase with steps of its own, as the warm start has inside step 0, gives them in `values`."""
    return json.dumps({"phase": phase, "step": step, **_strict(values)}, ensure_ascii=True, allow_nan=False) + "\n"


def _strict(value: Any) -> Any:
    """JSON has no NaN: an undefined number is null here, as everything that was not measured; the event log keeps it as it is."""
    if isinstance(value, Mapping):
        return {key: _strict(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_strict(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
