"""One run: `run folder -> settings, success, ledger, last metrics, some trajectories`; while it goes on, too."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from rosellm.roserlhf.batching.credit import total_reward
from rosellm.roserlhf.batching.rollout import Rollout, connected, rollouts_of
from rosellm.roserlhf.cli.run_list import status_of, steps_of, success_of
from rosellm.roserlhf.cli.safe_text import safe
from rosellm.roserlhf.cli.whole_table import print_whole, whole_table
from rosellm.roserlhf.errors import RunFolderError
from rosellm.roserlhf.report import units
from rosellm.roserlhf.report.run_folder import Run, read_run
from rosellm.roserlhf.report.token_fate import Fate, fates
from rosellm.roserlhf.store import EventLog, Ledger
from rosellm.roserlhf.trainer.provenance import provenance

if TYPE_CHECKING:
    from rosellm.roserlhf.cli.show import ShowOptions

LAST_STEPS = 5
"""Training steps whose metrics are shown."""
_METRICS = ("success", "reward", "loss", "gradient_norm", "approximate_kl", "clip_fraction")


def show_overview(console: Console, folder: Path, options: ShowOptions) -> None:
    """Show what a run holds."""
    path = folder / "events.db"
    if (folder / "run.toml").is_file():
        found = read_run(folder)
        _show_settings(console, found)
        _show_metrics(console, found)
    else:
        found = Run(folder)
        console.print(safe(f"{folder}: no run.toml, so recipe and environment are not known"))
    if not path.is_file():
        console.print(safe("no event log (events.db) yet"))
        return
    with EventLog.read(path) as log:
        _show_counts(console, log)
        _show_trajectories(console, log, reward_weights(log), options)


def reward_weights(log: EventLog) -> Mapping[str, float] | None:
    """Return the weights of the reward components as the run recorded them; None if it did not. No code of the run is imported."""
    try:
        return provenance(log, sys.maxsize).reward_weights
    except RunFolderError:
        return None


def _show_settings(console: Console, found: Run) -> None:
    config = found.config or {}
    console.print(safe(str(found.folder), "bold"))
    console.print(
        safe(
            f"recipe {config.get('recipe', '?')}, environment {config.get('environment', '?')}, seed {config.get('seed', '?')}; "
            f"steps {steps_of(found)}, {status_of(found)}; held-out success (sampled) {success_of(found)}"
        )
    )
    for problem in found.problems[:5]:
        console.print(safe(problem, "yellow"))


def _show_metrics(console: Console, found: Run) -> None:
    if not found.train:
        console.print(safe("no training step yet"))
        return
    table = whole_table(">step", *(f">{name.replace('_', ' ')}" for name in _METRICS), gap=1)
    for row in found.train[-LAST_STEPS:]:
        values = [row.number("reward", "total") if name == "reward" else row.number(name) for name in _METRICS]
        table.add_row(str(row.step), *(safe(units.number(value, 3)) for value in values))
    console.print()
    print_whole(console, table)


def _show_counts(console: Console, log: EventLog) -> None:
    console.print()
    policies = log.policies()
    if policies:
        console.print(safe(f"policies: {len(policies)}, from {policies[0].version} to {policies[-1].version}"))
    ledger = Ledger(log.ledger())
    states = ", ".join(f"{count:,} {state}" for state, count in ledger.states().items())
    console.print(safe(f"attempts: {states or 'none yet'}"))
    tokens = ledger.tokens()
    excluded = "".join(f", {count:,} excluded: {reason}" for reason, count in tokens.excluded.items())
    pending = f", {tokens.pending:,} pending" if tokens.pending else ""
    console.print(safe(f"tokens: {tokens.sampled:,} sampled, {tokens.trained:,} trained{excluded}{pending}"))


def _show_trajectories(console: Console, log: EventLog, weights: Mapping[str, float] | None, options: ShowOptions) -> None:
    stored = log.sampled_tokens(phase=options.phase)
    console.print()
    if not stored:
        console.print(
            safe(f"no trajectory of phase {options.phase}" + ("; --phase names another" if log.sampled_tokens() else " yet"))
        )
        return
    step = max(stored) if options.step is None else options.step
    chosen: list[Rollout] = []
    matching = 0
    for one in _matching(log, step, weights, options):
        matching += 1
        if len(chosen) < options.limit:
            chosen.append(one)
    console.print(safe(f"{options.phase} step {step}: {len(chosen)} of {matching} trajectories" + _filter(options)))
    if not chosen:
        if step not in stored:
            console.print(safe(f"steps of this phase: {min(stored)} to {max(stored)}"))
        return
    table = whole_table(">reward", ">turns", "ending", "fate", "trajectory")
    fate = fates(log, [one.trajectory_id for one in chosen], {step}) if options.phase == "train" else {}
    for one in chosen:
        table.add_row(*map(safe, _cells(one, weights, fate.get(one.trajectory_id))))
    print_whole(console, table)


def _filter(options: ShowOptions) -> str:
    return "" if options.reward == "any" else f" with reward {options.reward}"


def _matching(log: EventLog, step: int, weights: Mapping[str, float] | None, options: ShowOptions) -> Iterator[Rollout]:
    records = (stored.trajectory for stored in log.trajectories(phase=options.phase, step=step))
    for one in rollouts_of(connected(records)):
        if options.reward in ("any", _sign(_reward(one, weights))):
            yield one


def _sign(reward: float | None) -> str:
    return "unscored" if reward is None else "positive" if reward > 0 else "negative" if reward < 0 else "zero"


def _reward(one: Rollout, weights: Mapping[str, float] | None) -> float | None:
    """Total reward; without the weights, the plain sum of the components, None as soon as one is not scored."""
    if weights is not None:
        return total_reward(one, weights)
    totals = one.reward_totals()
    return total_reward(one, dict.fromkeys(totals, 1.0)) if totals else None


def _cells(one: Rollout, weights: Mapping[str, float] | None, fate: Fate | None) -> list[str]:
    reward = _reward(one, weights)
    failure = one.failure
    ending = f"broke off: {failure.cause}" if failure is not None else one.ending or "not ended"
    rewritten = len(one.records) - 1
    return [
        "unscored" if reward is None else units.number(reward),
        str(len(one.turns)),
        ending + (f", rewritten {rewritten} times" if rewritten > 1 else ", rewritten once" if rewritten else ""),
        "" if fate is None else fate.entry.state + (f": {fate.entry.reason}" if fate.entry.reason else ""),
        one.trajectory_id,
    ]
