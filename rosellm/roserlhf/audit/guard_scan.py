"""A guard over stored trajectories: `run folder → suspicious calls, hack rate over steps, rewards that would change`.

No call is executed: each is read and judged in the order in which it was made, with the history that the guard would have had. So
it can be told of a run without a guard what one would have seen, and of a run with one what other rules would have.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rosellm.roserlhf import checks
from rosellm.roserlhf.audit.rerun.tasks import StoredTasks
from rosellm.roserlhf.batching.credit import total_reward
from rosellm.roserlhf.batching.rollout import Rollout, connected, rollouts_of
from rosellm.roserlhf.environment.base import ToolEnvironment
from rosellm.roserlhf.errors import ConfigError, RunFolderError
from rosellm.roserlhf.guard.episodes import no_setting, require_setting
from rosellm.roserlhf.guard.event import GuardEvent, event_of
from rosellm.roserlhf.guard.guard import Guard
from rosellm.roserlhf.guard.policy import OBSERVE_ONLY, PENALTY, RewardHandling, RewardName, confirmed
from rosellm.roserlhf.guard.rules import Rules
from rosellm.roserlhf.guard.setting import Setting
from rosellm.roserlhf.guard.setting_judge import SettingJudge
from rosellm.roserlhf.recipes import load_recipe
from rosellm.roserlhf.store.events import EventLog
from rosellm.roserlhf.trainer.folder import LOG, RUN
from rosellm.roserlhf.trainer.guarding import rule_files
from rosellm.roserlhf.trainer.provenance import provenance
from rosellm.roserlhf.trainer.world import World
from rosellm.roserlhf.trajectory import ParsedAction, ToolCall, ToolResult, Trajectory

TRAINING = "train"
HANDLINGS: Sequence[RewardName] = ("penalty", "zero", "exclude")


@dataclass(frozen=True)
class SuspiciousCall:
    """A call that met a rule."""

    trajectory_id: str
    phase: str
    step: int
    turn: int
    event: GuardEvent
    """As it would be decided now."""
    recorded: str | None
    """Outcome in the record: `hack`, `cleared`, `failed`; None if the run's own guard, if it had one, saw nothing."""


@dataclass(frozen=True)
class StepAttempts:
    """What was seen in the episodes of one step of one phase."""

    phase: str
    step: int
    episodes: int
    calls: int
    suspicious: int
    confirmed: int
    hack_rate: float
    """Share of episodes with a confirmed call."""


@dataclass(frozen=True)
class RewardChange:
    """What a reward handling would change in the training episodes."""

    name: RewardName
    changed: int
    """Episodes whose reward would be another, or that would be left out."""
    scored: int
    """Episodes that have a reward."""
    mean_before: float | None
    mean_after: float | None
    """Over the episodes that would keep one."""


@dataclass(frozen=True)
class GuardScan:
    """What a scan found."""

    folder: Path
    calls: tuple[SuspiciousCall, ...]
    """Suspicious ones, in the order of the log."""
    steps: tuple[StepAttempts, ...]
    rewards: tuple[RewardChange, ...]
    by_rule: Mapping[str, int]
    """Confirmed calls by the rule that decided."""
    missing: Mapping[str, int]
    """Episodes that could not be looked at, by reason."""

    def as_json(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        calls = [{**dataclasses.asdict(one), "event": _plain(one.event)} for one in self.calls]
        return {
            "run": str(self.folder),
            "calls": calls,
            "steps": [dataclasses.asdict(one) for one in self.steps],
            "rewards": [dataclasses.asdict(one) for one in self.rewards],
            "by_rule": dict(self.by_rule),
            "missing": dict(self.missing),
        }


def _plain(event: GuardEvent) -> dict[str, Any]:
    names = ("call_id", "tool", "rule", "rules", "argument", "span", "evidence", "outcome", "reason")
    return {name: getattr(event, name) for name in names}


def scan_run(
    run: str | os.PathLike[str],
    *,
    rules: Sequence[str | os.PathLike[str]] = (),
    setting: Setting | None = None,
    penalty: float = 1.0,
    environment: type[ToolEnvironment] | None = None,
) -> GuardScan:
    """Read and judge every stored call.

    Args:
        run: run folder; the run may still be going on.
        rules: further rule files, beside the built-in rules and the run's own.
        setting: in place of the environment's.
        penalty: what the handling `penalty` would take off for each confirmed call.
        environment: overrules the configured one, as in `train`.

    Raises:
        RunFolderError: no run there.
        ConfigError: the environment has no setting and none was given; or a rule file is wrong.
        StoreError: the event log is damaged.
    """
    folder = Path(run)
    if not (folder / RUN).is_file():
        raise checks.fail(RunFolderError, "run", f"be a run folder, which holds {RUN}", folder)
    config = load_recipe(folder / RUN).config
    world = World.build(config, folder.name, environment, run_folder=folder)
    if setting is None:
        require_setting(world.environment)
    read = Rules.read(*rule_files(config.guard, folder), *map(Path, rules))
    scanner = _Scanner(world, Guard(read, SettingJudge(read), OBSERVE_ONLY), setting)
    with EventLog.read(folder / LOG) as log:
        asyncio.run(scanner.scan(log))
        weights = _weights(log)
    changes = tuple(_change(RewardHandling(name, penalty), scanner.training, weights) for name in HANDLINGS) if weights else ()
    by_rule = Counter(one.event.rule for one in scanner.found if one.event.attempt)
    ordered = dict(by_rule.most_common())
    return GuardScan(folder, tuple(scanner.found), tuple(scanner.steps), changes, ordered, dict(scanner.missing))


class _Recorded:
    """A tool runner that answers as the record does."""

    def __init__(self) -> None:
        self.results: dict[str, ToolResult] = {}

    async def call(self, call: ToolCall, history: Sequence[ToolResult]) -> ToolResult:
        return self.results.get(call.call_id, ToolResult(call.call_id))


class _Scanner:
    def __init__(self, world: World, guard: Guard, setting: Setting | None) -> None:
        self._world, self._guard = world, guard
        constant = world.environment.task_setting is ToolEnvironment.task_setting
        given = world.environment.guard_setting if constant else None
        self._setting = setting or (None if given is None else Setting.of(given))
        self.found: list[SuspiciousCall] = []
        self.steps: list[StepAttempts] = []
        self.training: list[tuple[Rollout, int]] = []
        """Training episodes, each with its number of confirmed calls."""
        self.missing = Counter[str]()

    async def scan(self, log: EventLog) -> None:
        """Go through the log, step by step."""
        summaries = list(log.summaries())
        wanted = [(one.phase, one.step, one.task_id) for one in summaries]
        tasks = StoredTasks(self._world, wanted)
        for phase, step in dict.fromkeys((one.phase, one.step) for one in summaries):
            records = [one.trajectory for one in log.trajectories(phase=phase, step=step)]
            await self._step(phase, step, rollouts_of(connected(records)), tasks)

    async def _step(self, phase: str, step: int, rollouts: Sequence[Rollout], tasks: StoredTasks) -> None:
        episodes = calls = hacks = 0
        before = len(self.found)
        for rollout in rollouts:
            setting = self._setting_of(phase, step, rollout, tasks)
            if setting is None:
                self.missing["its task is not drawn any more"] += 1
                continue
            found, count = await self._episode(rollout, setting, phase, step)
            self.found += found
            caught = confirmed(one.event for one in found)
            episodes, calls, hacks = episodes + 1, calls + count, hacks + bool(caught)
            if phase == TRAINING:
                self.training.append((rollout, caught))
        new = self.found[before:]
        if episodes:
            sure = confirmed(one.event for one in new)
            self.steps.append(StepAttempts(phase, step, episodes, calls, len(new), sure, hacks / episodes))

    def _setting_of(self, phase: str, step: int, rollout: Rollout, tasks: StoredTasks) -> Setting | None:
        if self._setting is not None:
            return self._setting
        task = tasks.find(phase, step, rollout.task_id)
        if task is None:
            return None
        instance = self._world.environment()
        instance.task = task
        given = instance.task_setting()
        if given is None:
            raise no_setting(type(instance))
        return Setting.of(given)

    async def _episode(self, rollout: Rollout, setting: Setting, phase: str, step: int) -> tuple[list[SuspiciousCall], int]:
        recorded = _Recorded()
        runner = self._guard.wrap(recorded, setting)
        found: list[SuspiciousCall] = []
        count = 0
        for record, turn, action, results in _turns(rollout):
            runner.hear(action.content)
            recorded.results = {result.call_id: dataclasses.replace(result, guard_event=None) for result in results}
            own = {result.call_id: event for result in results if (event := event_of(result)) is not None}
            for call in action.calls:
                count += 1
                answer = await runner.call(call, ())
                if (event := event_of(answer)) is not None:
                    was = own.get(call.call_id)
                    outcome = None if was is None else was.outcome
                    found.append(SuspiciousCall(record.trajectory_id, phase, step, turn, event, outcome))
        return found, count


def _turns(rollout: Rollout) -> Iterator[tuple[Trajectory, int, ParsedAction, Sequence[ToolResult]]]:
    for record in rollout.records:
        for place, action in enumerate(record.actions):
            if isinstance(action.parsed_action, ParsedAction):
                results = record.transitions[place].results if place < len(record.transitions) else ()
                yield record, action.turn, action.parsed_action, results


def _weights(log: EventLog) -> Mapping[str, float] | None:
    """Weights of the verifier's components; None if no process entered any."""
    try:
        weights = provenance(log, 2**40).reward_weights
    except RunFolderError:
        return None
    return {name: weight for name, weight in weights.items() if name != PENALTY}


def _change(handling: RewardHandling, training: Sequence[tuple[Rollout, int]], weights: Mapping[str, float]) -> RewardChange:
    before = [(total_reward(rollout, weights), caught) for rollout, caught in training]
    pairs = [(reward, handling.total(reward, caught)) for reward, caught in before if reward is not None]
    after = [new for _, new in pairs if new is not None]
    changed = sum(old != new for old, new in pairs)
    mean = sum(old for old, _ in pairs) / len(pairs) if pairs else None
    return RewardChange(handling.name, changed, len(pairs), mean, sum(after) / len(after) if after else None)


def read_setting(path: str | os.PathLike[str]) -> Setting:
    """Read a setting from a JSON file.

    Raises:
        ConfigError: it is no JSON object.
        OSError: it cannot be read.
    """
    try:
        return Setting.of(json.loads(Path(path).read_text(encoding="utf-8")))
    except (ValueError, TypeError, RecursionError) as error:
        raise checks.fail(ConfigError, "setting", "be a JSON object", f"{path}: {error}") from error
