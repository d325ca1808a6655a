"""A run folder and a trajectory id -> everything the log holds about it: `events.db, run.toml, tokenizer/ -> Evidence`.

Nothing is played or sampled again, and no model is loaded. What cannot be read becomes a sentence in `missing`.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rosellm.roserlhf import checks
from rosellm.roserlhf.batching.rollout import Rollout, as_rollout
from rosellm.roserlhf.errors import ConfigError, RoseError, RunFolderError
from rosellm.roserlhf.recipes import load_recipe
from rosellm.roserlhf.report.token_fate import Fate, fates
from rosellm.roserlhf.report.vocabulary import Vocabulary, read_vocabulary
from rosellm.roserlhf.store import EventLog, StoredTrajectory
from rosellm.roserlhf.store.updates import Update
from rosellm.roserlhf.trainer.guarding import handled
from rosellm.roserlhf.trainer.provenance import provenance
from rosellm.roserlhf.trainer.recipe import Recipe
from rosellm.roserlhf.trainer.rollouts import whole_rollouts

TRAINING = "train"
"""The phase whose rollouts the policy update learns from."""
_NEAREST = 3


@dataclass(frozen=True)
class Evidence:
    """What a run says about one trajectory."""

    stored: StoredTrajectory
    """The record and where it stands."""
    rollout: Rollout
    """The episode that it is a record of."""
    fates: Mapping[str, Fate]
    """Last ledger event of every rollout of the same step and phase."""
    peers: tuple[Rollout, ...]
    """All rollouts of the same step and phase, in the order they were appended; only its own outside training. As credit saw them:
    what the guard's reward handling does is done."""
    updates: tuple[Update, ...]
    """Optimizer updates in which its row took part."""
    late_scores: int
    """Scores that were given after the fact."""
    recipe: Recipe | None
    """None if `run.toml` cannot be read."""
    reward_weights: Mapping[str, float] | None
    """Of the reward components; None if the environment cannot be imported here."""
    vocabulary: Vocabulary | None
    """None if the run's tokenizer cannot be read."""
    missing: tuple[str, ...]
    """What is not there, one sentence each."""

    @property
    def is_training(self) -> bool:
        """Whether the policy update may have learnt from it: a training rollout whose step stands."""
        return self.stored.phase == TRAINING and not self.stored.superseded

    @property
    def credited(self) -> Rollout:
        """The episode as credit saw it."""
        name = self.rollout.trajectory_id
        return next((one for one in self.peers if one.trajectory_id == name), self.rollout)

    @property
    def fate(self) -> Fate | None:
        """Last ledger event of its rollout."""
        return self.fates.get(self.rollout.trajectory_id)


def read_evidence(run: str | os.PathLike[str], trajectory_id: str) -> Evidence:
    """Read what a run folder says about one trajectory.

    Raises:
        RunFolderError: `run` is not a folder with an event log.
        ConfigError: the log has no record of this id; the message names the nearest.
        StoreError: the log cannot be read.
    """
    folder = Path(run)
    missing: list[str] = []
    with open_log(folder) as log:
        stored = find_stored(log, trajectory_id)
        training = stored.phase == TRAINING and not stored.superseded
        rollout, peers = _rollouts(log, stored, training, missing)
        known = fates(log, [one.trajectory_id for one in peers], {stored.step}) if training else {}
        updates = _updates(log, trajectory_id, known.get(rollout.trajectory_id)) if training else ()
        late_scores = sum(1 for _ in log.scores(trajectory_id))
        weights = _reward_weights(log, stored.step, missing)
    recipe = _recipe(folder, missing)
    if recipe is not None and weights is not None and training:
        peers = tuple(handled(peers, recipe.config.guard, weights))
    vocabulary = read_vocabulary(folder / "tokenizer" / "tokenizer.json")
    if vocabulary is None:
        missing.append("texts of the tokens: tokenizer/tokenizer.json cannot be read")
    return Evidence(stored, rollout, known, peers, updates, late_scores, recipe, weights, vocabulary, tuple(missing))


def _rollouts(log: EventLog, stored: StoredTrajectory, training: bool, missing: list[str]) -> tuple[Rollout, tuple[Rollout, ...]]:
    """Read the rollout of a record, and those that it stands beside."""
    mine = stored.trajectory
    if training or mine.parent is not None or mine.ending == "handed_off":
        beside = log.trajectories(phase=stored.phase, step=stored.step, include_superseded=stored.superseded)
        records = [one.trajectory for one in beside if one.superseded == stored.superseded]
    else:
        records = [mine]
    try:
        found = whole_rollouts(records)
    except RoseError as error:
        missing.append(f"how the records of the step hang together: {error}")
        found = [as_rollout(record) for record in records]
    rollout = next(one for one in found if any(part.trajectory_id == mine.trajectory_id for part in one.records))
    return rollout, tuple(found) if training else (rollout,)


def open_log(folder: Path) -> EventLog:
    """Open a run's event log for reading.

    Raises:
        RunFolderError: there is none.
        StoreError: it cannot be read.
    """
    path = folder / "events.db"
    if not path.is_file():
        fix = "`roserlhf show` lists the runs below ./runs"
        raise checks.fail(RunFolderError, "run", "be a folder with an event log (events.db)", repr(str(folder)), fix=fix)
    return EventLog.read(path)


def find_stored(log: EventLog, trajectory_id: str) -> StoredTrajectory:
    """Return the live record of an id, or else the newest superseded one."""
    if not isinstance(trajectory_id, str):
        raise checks.fail(ConfigError, "trajectory_id", "be text", f"{trajectory_id!r:.80}")
    found = log.find(trajectory_id) or log.find(trajectory_id, include_superseded=True)
    if not found:
        raise unknown_trajectory(log, trajectory_id)
    return max(reversed(found), key=lambda one: one.phase == TRAINING)


def unknown_trajectory(log: EventLog, trajectory_id: str) -> ConfigError:
    """Say that there is no such record, naming the nearest ids of the step that the id seems to mean."""
    steps = sorted(log.sampled_tokens())
    said = [int(part) for part in trajectory_id.split("/") if part.isdecimal() and len(part) < 10]
    step = next((number for number in said if number in steps), steps[-1] if steps else 0)
    known = [one.trajectory_id for one in log.summaries(step=step)]
    near = difflib.get_close_matches(trajectory_id, known, n=_NEAREST, cutoff=0.3)
    fix = f"nearest: {', '.join(near)}" if near else "`roserlhf show RUN` lists some"
    return ConfigError(f"trajectory_id must name a record of this run, got {trajectory_id!r:.200}; {fix}")


def _updates(log: EventLog, trajectory_id: str, fate: Fate | None) -> tuple[Update, ...]:
    if fate is None:
        return ()
    return tuple(
        update for update in log.updates(step=fate.entry.step) if any(row.trajectory_id == trajectory_id for row in update.rows)
    )


def _recipe(folder: Path, missing: list[str]) -> Recipe | None:
    try:
        return load_recipe(folder / "run.toml")
    except RoseError as error:
        missing.append(f"recipe (credit function, objective and its bounds): {error}")
        return None


def _reward_weights(log: EventLog, step: int, missing: list[str]) -> Mapping[str, float] | None:
    try:
        return provenance(log, max(1, step)).reward_weights  # what precedes training is scored by the process that starts it
    except RunFolderError as error:
        missing.append(f"weights of the reward components: {error}")
        return None
