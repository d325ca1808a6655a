"""The nine steps in order: `Subject -> nine Outcomes`; the first that fails is the diagnosis."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field

from rosellm.roserlhf.audit.diagnosis import Outcome
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
from rosellm.roserlhf.audit.stages import Stage, in_order
from rosellm.roserlhf.trainer.threads import single_threaded

TASKS, MEMBERS = 4, 4
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

    @property
    def spelled(self) -> Episodes | None:
        """Episodes whose replies are spelled letter by letter."""
        return self.player.play_spelled(self.subject.tasks(1), members=2, step=100)

    @property
    def warmths(self) -> tuple[Episodes, Episodes]:
        """Episodes at two temperatures, not both of them 1."""
        return self.episodes, self.sample(COOLER * self.subject.temperature)


_FROZEN = frozen_trajectory.NAME
STEPS: tuple[Stage[Examination], ...] = (
    Stage(_FROZEN, (), lambda at: frozen_trajectory.frozen_trajectory(at.subject, at.episodes, at.spelled)),
    Stage(first_ratio.NAME, (_FROZEN,), lambda at: first_ratio.first_ratio(at.subject, at.warmths)),
    Stage(hand_credit.NAME, (_FROZEN,), lambda at: hand_credit.hand_credit(at.subject, at.episodes)),
    Stage(repacking.NAME, (_FROZEN,), lambda at: repacking.repacking(at.subject, at.episodes)),
    Stage(logit_gradients.NAME, (_FROZEN,), lambda at: logit_gradients.logit_gradients(at.subject, at.episodes)),
    Stage(
        overfitting.NAME,
        (_FROZEN, first_ratio.NAME, hand_credit.NAME, repacking.NAME, logit_gradients.NAME),
        lambda at: overfitting.overfitting(at.subject, at.player, bounds=at.bounds, on_update=at.on_update),
    ),
    Stage(offline_replay.NAME, (_FROZEN,), lambda at: offline_replay.offline_replay(at.subject, at.episodes)),
    Stage(
        two_processes.NAME,
        (_FROZEN, repacking.NAME),
        lambda at: two_processes.two_processes(at.subject, at.episodes, module=at.rank_module),
    ),
)


def examine(
    subject: Subject,
    *,
    on_step: Callable[[int, str], None] = lambda number, name: None,
    on_update: Callable[[int, int, float], None] = lambda update, updates, success: None,
    bounds: overfitting.Bounds | None = None,
    rank_module: str = rank.__name__,
) -> Generator[Outcome, None, None]:
    """Run the nine steps on a subject and yield what each found, as soon as it is known; close it to stop.

    Args:
        subject: it is not changed.
        on_step: told (number, name) before a step begins.
        on_update: told (update, updates at most, success) while step 6 learns.
        bounds: of step 6.
        rank_module: what the two processes of step 8 run.
    """
    player = Player(subject)
    try:
        with single_threaded():
            yield from in_order(
                STEPS, Examination(subject, player, on_update, bounds or overfitting.Bounds(), rank_module), on_step
            )
        yield Outcome(ASYNCHRONY, "not built yet", "comes last: there is no asynchronous trainer to examine")
    finally:
        player.close()
