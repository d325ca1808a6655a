"""Checks of how it learns: did success rise, is there a signal, and do ratio, KL and gradient stay where the mathematics holds?"""

from __future__ import annotations

import math
from statistics import mean, median

from rosellm.roserlhf.report import units
from rosellm.roserlhf.report.outcome import WINDOW, Outcome, judge, late, missing
from rosellm.roserlhf.report.results import held_out
from rosellm.roserlhf.report.run_folder import Run, column, recorded


def improvement(run: Run) -> Outcome:
    """Held-out success rose over the warm start by more than its uncertainty."""
    name = "success improved over the warm start"
    before, after = held_out(run.summary, "success_before", "sampled"), held_out(run.summary, "success_after", "sampled")
    if before is None or after is None:
        return missing(name, "held-out success before or after:")
    overlapping, lower = after[1] <= before[2], after[0] <= before[0]
    evidence = f"sampled, held-out: {units.percent(before[0])} before, {units.percent(after[0])} after"
    evidence += " (the 95 % intervals overlap)" if overlapping else ""
    problem = "Success did not improve over the warm start" if lower else "The improvement is within its uncertainty"
    fix = (
        "see first whether groups carry a signal and the gradient norm is above 0; then train longer, raise the learning rate, "
        "or end the warm start at a success between 20 and 60 %"
    )
    return judge(name, evidence, problem, fix, notice=overlapping, serious=lower)


def signal(run: Run) -> Outcome:
    """Groups carry a learning signal: their members do not all have the same reward."""
    name = "groups carry a signal"
    shares = late(run.train, "zero_variance_share")
    if not shares:
        return missing(name, "zero_variance_share")
    share, all_pass, all_fail = mean(shares), late(run.train, "groups", "all_pass"), late(run.train, "groups", "all_fail")
    evidence = (
        f"in {units.percent(share)} of the groups of the last {len(shares)} steps all members got one reward (reported above 80 %)"
    )
    easy = "most of them pass: the tasks have become too easy for this policy; stop here, or add harder tasks"
    hard = "most of them fail: the tasks are too hard; lengthen the warm start, add easier tasks, or enlarge the groups"
    known = bool(all_pass) and bool(all_fail)
    failing = known and sum(all_fail) > sum(all_pass)
    fix = f"if they pass, {easy}; if they fail, {hard}" if not known else hard if failing else easy
    return judge(name, evidence, "Most groups teach nothing", fix, notice=share > 0.8, serious=share > 0.95 and failing)


def trained_something(run: Run) -> Outcome:
    """Every step trained at least one token."""
    name = "every step trained something"
    counts = {row.step: count for row in run.train if (count := row.number("tokens", "trained")) is not None}
    if not counts:
        return missing(name, "trained tokens")
    empty = [step for step, count in counts.items() if count == 0]
    evidence = f"{len(empty)} of {len(counts)} steps made no update" + (f", the last of them step {empty[-1]}" if empty else "")
    fix = "all groups of such a step were without signal or excluded: see group signal, and the reasons under token accounting"
    return judge(name, evidence, "Steps trained nothing", fix, notice=bool(empty), serious=len(empty) > 0.2 * len(counts))


def first_ratio(run: Run) -> Outcome:
    """Before an update, learner and sampler agree on every log-probability."""
    name = "log-ratio before the update is 0"
    values = {row.step: value for row in run.train if (value := row.number("max_abs_log_ratio_before_update")) is not None}
    if not values:
        return missing(name, "max_abs_log_ratio_before_update")
    worst = max(values, key=lambda step: (math.isnan(values[step]), values[step]))
    evidence = f"largest |log-ratio| {units.number(values[worst])}, at step {worst} (must stay below 1e-4 in float32)"
    fix = "they hold different weights or compute differently: compare weight version, temperature, precision and chat template"
    return judge(name, evidence, "Learner and sampler disagree before the update", fix, serious=not values[worst] < 1e-4)


def divergence(run: Run) -> Outcome:
    """The policy does not run away within a step."""
    name = "KL small and not rising"
    values = recorded(column(run.train, "approximate_kl"))
    if not values:
        return missing(name, "approximate_kl")
    now, early = mean(values[-WINDOW:]), median(values[: max(1, len(values) // 2)])
    rising = len(values) >= 4 and now > 0.02 and now > 3 * early
    evidence = f"mean of the last {len(values[-WINDOW:])} steps {units.number(now)}, median of the first half {units.number(early)}"
    evidence += " (reported above 0.1, or above 0.02 and tripled)"
    problem = "The KL is rising" if rising else "The KL is high"
    fix = "lower the learning rate, make fewer passes over each batch, or clip tighter"
    return judge(name, evidence, problem, fix, notice=rising or now > 0.1, serious=now > 0.5)


def clipping(run: Run) -> Outcome:
    """Few ratios leave the trusted interval."""
    name = "clip fraction low"
    values = late(run.train, "clip_fraction")
    if not values:
        return missing(name, "clip_fraction")
    share = mean(values)
    evidence = f"{units.percent(share)} of the trained tokens of the last {len(values)} steps are outside (reported above 30 %)"
    fix = "lower the learning rate, or make fewer updates from each batch"
    return judge(name, evidence, "Many ratios are clipped", fix, notice=share > 0.3, serious=share > 0.6)


def saturation(run: Run) -> Outcome:
    """No log-ratio hit the overflow guard."""
    name = "no saturated ratio"
    values = recorded(column(run.train, "saturated_tokens"))
    if not values:
        return missing(name, "saturated_tokens")
    steps = sum(value > 0 for value in values)
    evidence = f"{units.number(sum(values))} tokens at the overflow guard, in {steps} of {len(values)} steps"
    fix = "a behaviour log-probability is wrong or the policy has diverged: look at the log-ratio before the update and at the KL"
    return judge(name, evidence, "Ratios hit the overflow guard", fix, notice=steps > 0)


def gradient(run: Run) -> Outcome:
    """The gradient is neither gone nor exploding."""
    name = "gradient norm healthy"
    values = recorded(column(run.train, "gradient_norm"))
    if not values:
        return missing(name, "gradient_norm")
    middle, gone = median(values), all(value == 0 for value in values[-WINDOW:])
    evidence = f"median {units.number(middle)}, largest {units.number(max(values))}, last {units.number(values[-1])}"
    if gone:
        fix = "there is no signal at all: see group signal and token accounting"
        return judge(name, evidence, "The gradient is 0", fix, serious=True)
    fix = "lower the learning rate or the gradient clip, and look at the step of the spike"
    return judge(
        name, evidence, "The gradient norm has spikes above 20 times its median", fix, notice=max(values) > 20 * middle > 0
    )
