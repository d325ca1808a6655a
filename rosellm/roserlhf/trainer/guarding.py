"""The guard of a run: `configuration → Guard`, and what its events do to rewards, groups and masks when a step is learnt.

Everything here follows from the records and the configuration, so a replay does it again: the records keep what the verifier said.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rosellm.roserlhf import checks
from rosellm.roserlhf.batching.rollout import Rollout
from rosellm.roserlhf.batching.rows import Row, exclude_at
from rosellm.roserlhf.errors import ConfigError
from rosellm.roserlhf.guard.event import events_of
from rosellm.roserlhf.guard.guard import Guard
from rosellm.roserlhf.guard.policy import CAUGHT, MASKED, RewardHandling, confirmed, policy_named
from rosellm.roserlhf.guard.rehearsal import rehearse
from rosellm.roserlhf.guard.rules import Rules
from rosellm.roserlhf.guard.setting_judge import SettingJudge
from rosellm.roserlhf.guard.token_spans import event_spans
from rosellm.roserlhf.guard.verdict import Judge
from rosellm.roserlhf.trainer.config import GuardConfig
from rosellm.roserlhf.trajectory import Trajectory, TransitionRecord

FOLDER = "guard"
"""Folder of a run in which the project's own rule files are kept."""


def new_guard(config: GuardConfig, run_folder: Path | None = None) -> Guard | None:
    """Build the guard that a configuration describes; None if it is off.

    Args:
        config: the section of the run.
        run_folder: of a run that has begun: its copies of the rule files are read, wherever the originals are by now.

    Raises:
        ConfigError: a rule file or the judge is not usable.
        OSError: a rule file cannot be read.
    """
    if not config.on:
        return None
    rules = Rules.read(*rule_files(config, run_folder))
    rehearse(rules)
    return Guard(
        rules,
        _judge(config.judge, rules),
        policy_named(config.policy),
        reward=reward_handling(config),
        judge_timeout=config.judge_timeout,
    )


def rule_files(config: GuardConfig, run_folder: Path | None = None) -> list[Path]:
    """Name the project's own rule files: those of the run folder, if it keeps them, else as configured."""
    kept = [] if run_folder is None else sorted((run_folder / FOLDER).glob("*.toml"))
    return kept or [Path(file) for file in config.rules]


def kept_rules(config: GuardConfig) -> Iterator[tuple[str, str]]:
    """Yield (name, text) of the copies that a run folder keeps of its rule files."""
    for number, file in enumerate(config.rules):
        yield f"{number:02}.toml", Path(file).read_text(encoding="utf-8")


def reward_handling(config: GuardConfig) -> RewardHandling:
    """What happens to the reward of an episode with confirmed calls."""
    return RewardHandling(config.reward, config.penalty) if config.on else RewardHandling()


def _judge(name: str, rules: Rules) -> Judge:
    if name == "setting":
        return SettingJudge(rules)
    module, _, attribute = name.partition(":")
    try:
        found: Any = getattr(importlib.import_module(module), attribute)
    except Exception as error:  # importing runs code of the user's, which may raise anything
        got = f"{name!r}: {type(error).__name__}: {error}"
        raise checks.fail(ConfigError, "guard.judge", "be `setting` or importable as module:judge", got) from error
    if not callable(found):
        raise checks.fail(ConfigError, "guard.judge", "be callable", repr(name))
    return found  # type: ignore[no-any-return]


def caught(rollout: Rollout) -> int:
    """Count the confirmed calls of an episode."""
    return confirmed(event for record in rollout.records for _, event in events_of(record))


def handled(rollouts: Sequence[Rollout], config: GuardConfig, weights: Mapping[str, float]) -> list[Rollout]:
    """Return the rollouts as credit is to see them.

    With `zero`, every weighted component of an episode with a confirmed call is 0 (what is unscored stays so); with `exclude` the
    episode is left out of its group. A penalty stands in the record already.
    """
    if not config.on or config.reward not in ("zero", "exclude"):
        return list(rollouts)
    return [_handled(rollout, config, weights) if caught(rollout) else rollout for rollout in rollouts]


def _handled(rollout: Rollout, config: GuardConfig, weights: Mapping[str, float]) -> Rollout:
    if config.reward == "exclude":
        return replace(rollout, left_out=CAUGHT)
    return replace(rollout, records=tuple(_unpaid(record, weights) for record in rollout.records))


def _unpaid(record: Trajectory, weights: Mapping[str, float]) -> Trajectory:
    def unpaid(transition: TransitionRecord) -> TransitionRecord:
        named = transition.reward_components
        zeroed = {name: 0.0 if name in weights and value is not None else value for name, value in named.items()}
        return replace(transition, reward_components=zeroed)

    return replace(record, transitions=[unpaid(transition) for transition in record.transitions])


def masked(rows: Sequence[Row], rollouts: Sequence[Rollout], config: GuardConfig) -> list[Row]:
    """Take the tokens of blocked calls out of the loss, if that is asked for; they are counted under their reason."""
    if not (config.on and config.mask_blocked):
        return list(rows)
    records = {record.trajectory_id: record for rollout in rollouts for record in rollout.records}
    return [exclude_at(row, list(_blocked(row, records[row.trajectory_id])), MASKED) for row in rows]


def _blocked(row: Row, record: Trajectory) -> Iterator[int]:
    """Yield the positions in a row of the tokens of calls that were blocked."""
    for span in event_spans(record):
        if span.event.blocked:
            first = row.turns.index(span.turn)
            yield from range(first + span.start, first + span.end)
