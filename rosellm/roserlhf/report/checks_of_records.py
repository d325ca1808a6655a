"""Checks of what was recorded: is the run complete, readable and finite, do its counts balance, did its rollouts end well?"""

from __future__ import annotations

import math
from collections.abc import Sequence

from rosellm.roserlhf.report import units
from rosellm.roserlhf.report.outcome import WINDOW, Outcome, judge, missing
from rosellm.roserlhf.report.run_folder import Row, Run, column, recorded


def completion(run: Run) -> Outcome:
    """The run came to its end and said so."""
    name = "run finished"
    if run.finished:
        return Outcome(name, "passed", "summary.json says finished")
    status = run.summary.word("status") if run.summary else None
    seen = "there is no readable summary.json" if run.summary is None else f"summary.json says {status or 'no status'}"
    reached = f"; training reached step {run.train[-1].step}" if run.train else "; no training step was recorded"
    fix = "if it is not running now, continue it: roserlhf train --resume with this folder"
    return judge(name, seen + reached, "The run is not finished", fix, notice=True)


def readable(run: Run) -> Outcome:
    """Every line of the run folder could be read."""
    name, shown = "records readable", 5
    if not run.problems:
        return Outcome(name, "passed", "every line was read")
    rest = len(run.problems) - shown
    evidence = "; ".join(run.problems[:shown]) + (f"; and {rest} more" if rest > 0 else "")
    fix = "a torn last line or a step written twice is what a kill and a resume leave, and harmless; the rest was edited or damaged"
    return judge(name, evidence, "Some records could not be read as they are", fix, notice=True)


def finite(run: Run) -> Outcome:
    """No metric is NaN or infinite."""
    name = "metrics finite"
    keys = ("loss", "gradient_norm", "approximate_kl", "mean_ratio", "max_abs_log_ratio_before_update")
    bad = [f"{key} at step {row.step}" for row in run.train for key in keys if _is_broken(row.number(key))]
    bad += [f"loss at warm-start step {row.step}" for row in run.warm_start if _is_broken(row.number("loss"))]
    if not run.train and not run.warm_start:
        return missing(name, "steps:")
    evidence = f"{len(bad)} NaN or infinite values" + (f", first {', '.join(bad[:3])}" if bad else "")
    fix = "look at the first such step: a NaN reward or log-probability entered there; do not trust the weights after it"
    return judge(name, evidence, "Metrics are NaN or infinite", fix, serious=bool(bad))


def _is_broken(value: float | None) -> bool:
    return value is not None and not math.isfinite(value)


def accounting(run: Run) -> Outcome:
    """Every sampled token was trained or excluded under a named reason."""
    name = "tokens balance"
    balances = {row.step: balance for row in run.train if (balance := _balance(row)) is not None}
    if not balances:
        return missing(name, "sampled and trained tokens")
    wrong = [f"step {step}: {units.number(balance)} too few" for step, balance in balances.items() if balance != 0]
    evidence = f"sampled = trained + excluded in {len(balances) - len(wrong)} of {len(balances)} steps"
    evidence += f"; {'; '.join(wrong[:3])}" if wrong else ""
    fix = "tokens were lost or counted twice: keep the folder and report it as a fault"
    return judge(name, evidence, "Sampled tokens are unaccounted for", fix, serious=bool(wrong))


def _balance(row: Row) -> float | None:
    """Return sampled - trained - excluded; None where one of them was not recorded."""
    sampled, trained = row.number("tokens", "sampled"), row.number("tokens", "trained")
    excluded = list(row.table("tokens", "excluded").values())
    known = recorded(excluded)
    return None if sampled is None or trained is None or len(known) < len(excluded) else sampled - trained - sum(known)


def truncation(run: Run) -> Outcome:
    """Episodes end by themselves, not at a limit."""
    name = "few truncated rollouts"
    share = _share_ended(run.train[-WINDOW:], "truncated")
    if share is None:
        return missing(name, "how rollouts ended")
    evidence = f"{units.percent(share)} of the rollouts of the last steps were cut at a limit (reported above 20 %)"
    fix = "raise the limit of turns or tokens, or let length cost reward"
    return judge(name, evidence, "Many rollouts are cut off", fix, notice=share > 0.2, serious=share > 0.5)


def _share_ended(rows: Sequence[Row], how: str) -> float | None:
    counts = [{key: value for key, value in row.table("ended").items() if value is not None} for row in rows]
    counts = [count for count in counts if how in count]
    total = sum(sum(count.values()) for count in counts)
    return sum(count[how] for count in counts) / total if total else None


def scoring(run: Run) -> Outcome:
    """Rollouts get a score; failures of tools or machines do not pile up."""
    name = "rollouts scored"
    counts = [
        ("groups are unscored", _share(run, ("groups", "unscored"), ("groups", "total"))),
        ("rollouts failed", _share(run, ("ended", "failed"), ("rollouts",))),
    ]
    known = [(what, share) for what, share in counts if share is not None]
    if not known:
        return missing(name, "unscored groups and failed rollouts")
    evidence = ", ".join(f"{units.percent(share)} of the {what}" for what, share in known) + " (reported above 2 %)"
    worst = max(share for _, share in known)
    fix = "a grader, a tool or the machine fails, and such rollouts teach nothing; log.txt and the ledger name the causes"
    return judge(name, evidence, "Rollouts go without a score", fix, notice=worst > 0.02, serious=worst > 0.2)


def _share(run: Run, part: tuple[str, ...], whole: tuple[str, ...]) -> float | None:
    pairs = list(zip(column(run.train, *part), column(run.train, *whole), strict=True))
    known = [(some, all_) for some, all_ in pairs if some is not None and all_ is not None]
    total = sum(all_ for _, all_ in known)
    return sum(some for some, _ in known) / total if total else None
