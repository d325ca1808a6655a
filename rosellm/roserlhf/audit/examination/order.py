"""The nine steps in order: `Subject -> nine Outcomes`, each step resting on those before it.

A step that rests on one that failed is skipped and says so: it could only repeat the fault under another name. So the first
failure is the diagnosis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from rosellm.roserlhf.audit.examination import (
    first_ratio,
    frozen_trajectory,
    hand_credit,
    logit_gradients,
    offline_replay,
    overfitting,
    rank,
    repacking,
    two_processes,
)
from rosellm.roserlhf.audit.examination.subject import Episodes, Player, Subject
from rosellm.roserlhf.audit.outcome import Outcome
from rosellm.roserlhf.trainer.threads import single_threaded

TASKS, MEMBERS = 4, 4
WILD_TEMPERATURE = 8.0
COOLER = 0.7
"""Factor of the second temperature of step 2."""
ASYNCHRONY = "asynchronous rollout"


@dataclass
class Examination:
    """One subject on the table."""

    subject: Subject
    player: Player
    on_update: Callable[[int, int, float], None]
    bounds: overfitting.Bounds
    rank_module: str
    _samples: dict[float, Episodes] = field(default_factory=dict)

    def sample(self, temperature: float) -> Episodes:
        """Episodes at one temperature, sampled once."""
        if temperature not in self._samples:
            tasks = self.subject.tasks(TASKS)
            self._samples[temperature] = self.player.play(tasks, members=MEMBERS, step=len(self._samples), temperature=temperature)
        return self._samples[temperature]

    @property
    def episodes(self) -> Episodes:
        """Episodes sampled as configured."""
        return self.sample(self.subject.temperature)


@dataclass(frozen=True)
class Step:
    """One step of the order."""

    name: str
    rests_on: tuple[int, ...]
    """Numbers of the steps without which it means nothing."""
    examine: Callable[[Examination], Outcome]


STEPS: tuple[Step, ...] = (
    Step(
        frozen_trajectory.NAME,
        (),
        lambda at: frozen_trajectory.frozen_trajectory(at.subject, at.episodes, at.sample(WILD_TEMPERATURE)),
    ),
    Step(
        first_ratio.NAME,
        (1,),
        lambda at: first_ratio.first_ratio(at.subject, (at.episodes, at.sample(COOLER * at.subject.temperature))),
    ),
    Step(hand_credit.NAME, (1,), lambda at: hand_credit.hand_credit(at.subject, at.episodes)),
    Step(repacking.NAME, (1,), lambda at: repacking.repacking(at.subject, at.episodes)),
    Step(logit_gradients.NAME, (1,), lambda at: logit_gradients.logit_gradients(at.subject, at.episodes)),
    Step(
        overfitting.NAME,
        (1, 2, 3, 4, 5),
        lambda at: overfitting.overfitting(at.subject, at.player, bounds=at.bounds, on_update=at.on_update),
    ),
    Step(offline_replay.NAME, (1,), lambda at: offline_replay.offline_replay(at.subject, at.episodes)),
    Step(
        two_processes.NAME,
        (1, 4),
        lambda at: two_processes.two_processes(at.subject, at.episodes, module=at.rank_module),
    ),
)


def examine(
    subject: Subject,
    *,
    on_step: Callable[[int, str], None] = lambda *_: None,
    on_update: Callable[[int, int, float], None] = lambda *_: None,
    bounds: overfitting.Bounds | None = None,
    rank_module: str = rank.__name__,
) -> Iterator[Outcome]:
    """Run the nine steps on a subject and yield what each found, as soon as it is known.

    Args:
        subject: it is not changed.
        on_step: told (number, name) before a step begins.
        on_update: told (update, updates at most, success) while step 6 learns.
        bounds: of step 6.
        rank_module: what the two processes of step 8 run.
    """
    found: dict[int, Outcome] = {}
    player = Player(subject)
    at = Examination(subject, player, on_update, bounds or overfitting.Bounds(), rank_module)
    try:
        with single_threaded():
            for number, step in enumerate(STEPS, start=1):
                on_step(number, step.name)
                blocked = [n for n in step.rests_on if found[n].verdict != "passed"]
                found[number] = _blocked(step, blocked, found) if blocked else _examined(step, at)
                yield found[number]
        yield Outcome(ASYNCHRONY, "not built yet", "comes last: there is no asynchronous trainer to examine")
    finally:
        player.close()


def _blocked(step: Step, on: list[int], found: dict[int, Outcome]) -> Outcome:
    why = f"rests on step {on[0]}, which {'failed' if found[on[0]].verdict == 'failed' else 'was skipped'}"
    return Outcome(step.name, "skipped", why)


def _examined(step: Step, at: Examination) -> Outcome:
    try:
        return step.examine(at)
    except Exception as error:  # noqa: BLE001 - whatever the examined code raises is what this step found
        evidence = " ".join(f"{type(error).__name__}: {error}".split())
        return Outcome(
            step.name, "failed", evidence, "the examined code raised instead of answering", "read the message; --debug shows where"
        )
