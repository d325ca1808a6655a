"""Checks of how episodes ended and whether they were scored: unscored is not wrong, and truncated is not terminated."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from rosellm.roserlhf.audit.batch.check import CannotTellError, Check, Seen, rows_where, some
from rosellm.roserlhf.audit.batch.credit import row_advantages
from rosellm.roserlhf.audit.batch.derivation import relative_to
from rosellm.roserlhf.audit.batch.inputs import Batch
from rosellm.roserlhf.audit.batch.runs import Array
from rosellm.roserlhf.audit.findings import Finding

_TINY = 1e-6


def unscored_as_zero(batch: Batch, seen: Seen) -> Iterator[Finding]:
    """Find rows without a score that were judged as if their reward were 0, or that moved the baseline of the others."""
    assert seen.reward is not None
    assert seen.advantage is not None
    unscored = np.isnan(seen.reward) if seen.scored_rows is None else ~seen.scored_rows
    if not unscored.any():
        if seen.scored_rows is None:
            raise CannotTellError("needs scored")
        return
    advantages = np.where(seen.mask.trained > 0, seen.advantage.total, 0.0)
    credited = unscored & (np.abs(np.nan_to_num(advantages)) > _TINY)
    counted = _counted_as_zero(seen, unscored)
    if not credited.any() and not counted:
        return
    zeros = unscored & (seen.reward == 0)
    how = "they were averaged into the baseline of their groups as 0" if counted else "they carry credit"
    yield Finding(
        "unscored_as_zero",
        "error",
        f"no score in {some(int(unscored.sum()), batch.rows, 'row')}, and {how}",
        {"rows": rows_where(unscored)[:8], "with reward 0": int(zeros.sum()), "with an advantage": rows_where(credited)[:8]},
        "a grader failure, a timeout or a missing score was written as reward 0, like a wrong answer",
        "keep an unscored reward as None or NaN, and leave the row out of baseline, denominator and loss",
    )


def _counted_as_zero(seen: Seen, unscored: Array) -> bool:
    """Whether the advantages fit the groups only if the unscored rows count with reward 0."""
    advantages = row_advantages(seen)
    if advantages is None or seen.group is None or seen.reward is None:
        return False
    advantages = np.where(unscored & ~np.isfinite(advantages), 0.0, advantages)
    without = relative_to(seen.group, np.where(unscored, np.nan, seen.reward), advantages)
    others = np.where(unscored, 0.0, seen.reward)
    return without is None and _fits_elsewhere(seen.group, others, advantages, unscored)


def _fits_elsewhere(group: Array, rewards: Array, advantages: Array, unscored: Array) -> bool:
    """Whether, in each group with an unscored member, the scored ones are centred on the mean with the zeros counted."""
    seen_one = False
    for part in np.unique(group[unscored]):
        chosen = group == part
        centred = (rewards[chosen] - rewards[chosen].mean())[~unscored[chosen]]
        given = advantages[chosen][~unscored[chosen]]
        if not len(centred) or not centred.any() or not np.isfinite(given).all():
            continue
        scale = float(centred @ given / (centred @ centred))
        if scale <= 0 or np.abs(given - scale * centred).max() > 2e-3 * np.abs(given).max():
            return False
        seen_one = True
    return seen_one


def ends_contradict(batch: Batch, seen: Seen) -> Iterator[Finding]:
    """Find rows that are said to have terminated and to be truncated."""
    assert seen.terminated is not None
    assert seen.truncated is not None
    both = seen.terminated & seen.truncated
    if both.any():
        yield Finding(
            "ends_contradict",
            "error",
            f"terminated and truncated at once in {some(int(both.sum()), batch.rows, 'row')}",
            {"rows": rows_where(both)[:8]},
            "a limit was reached in the step that ended the episode, and both flags were set",
            "an episode that ended by its own rules is terminated, and nothing is bootstrapped",
        )


def truncation_from_width(batch: Batch, seen: Seen) -> Iterator[Finding]:
    """Find truncation flags that say no more than that a row fills the padded width, and contradict how the rows end."""
    assert seen.truncated is not None
    assert batch.input_ids is not None
    assert batch.stop_ids
    trained = seen.mask.trained > 0
    fills = seen.mask.last == (seen.mask.last[trained].max() if trained.any() else -1)
    if not trained.any() or (fills[trained] != seen.truncated[trained]).any() or not seen.truncated.any() or seen.truncated.all():
        return
    last = batch.input_ids.gather(1, _last(batch, seen))[:, 0]
    stops = torch.isin(last, last.new_tensor(batch.stop_ids)).cpu().numpy() & trained
    wrong = trained & (stops == seen.truncated)
    finished_but_cut = stops & seen.truncated
    if not finished_but_cut.any():
        return
    yield Finding(
        "truncation_from_width",
        "error",
        f"truncated is true exactly for the longest rows, against the way of ending of {some(int(wrong.sum()), batch.rows, 'row')}",
        {"end with a stop token but truncated": rows_where(finished_but_cut), "no stop token": rows_where(wrong & ~stops)[:8]},
        "truncation was guessed from the padded width",
        "carry the end reason of each episode with its data",
    )


def _last(batch: Batch, seen: Seen) -> torch.Tensor:
    """Position `[B, 1]` of the last trained token; of any token in rows without one."""
    return torch.as_tensor(seen.mask.last, device=batch.mask.device).long().clamp(min=0)[:, None]


def truncation_as_terminal(batch: Batch, seen: Seen) -> Iterator[Finding]:
    """Find truncated rows whose last advantage or return leaves out the value of what would have followed, or the reverse."""
    assert seen.truncated is not None
    assert batch.bootstrap_values is not None
    assert batch.rewards is not None
    assert batch.gamma is not None
    last = _last(batch, seen)
    reward = batch.rewards.gather(1, last)[:, 0].double().cpu().numpy()
    bootstrap = batch.gamma * batch.bootstrap_values.double().cpu().numpy()
    if batch.returns is not None and batch.returns.ndim == 2:
        given = batch.returns.gather(1, last)[:, 0].double().cpu().numpy()
    elif batch.values is not None and batch.advantages is not None and batch.advantages.ndim == 2:
        given = (batch.advantages + batch.values).gather(1, last)[:, 0].double().cpu().numpy()
    else:
        raise CannotTellError("needs returns per token")
    told = (seen.mask.trained > 0) & (np.abs(bootstrap) > 1e-3) & np.isfinite(given) & np.isfinite(bootstrap)
    tolerance = 1e-4 * np.maximum(1, np.abs(reward) + np.abs(bootstrap))
    with_value, without = np.abs(given - reward - bootstrap) <= tolerance, np.abs(given - reward) <= tolerance
    terminal = told & seen.truncated & without
    bootstrapped = told & ~seen.truncated & with_value & (seen.terminated if seen.terminated is not None else True)
    if terminal.any() and not (told & seen.truncated & with_value).any():
        yield Finding(
            "truncation_as_terminal",
            "error",
            f"truncated, but the last return omits the value of what follows, in {some(int(terminal.sum()), batch.rows, 'row')}",
            {"rows": rows_where(terminal)[:8], "last return": given[terminal][:8], "bootstrap": bootstrap[terminal][:8]},
            "a cut by a limit was treated as the end of the task, which teaches that a long attempt is worth nothing",
            "add gamma * bootstrap value to the last reward of truncated rows, and only there",
        )
    if bootstrapped.any():
        yield Finding(
            "truncation_as_terminal",
            "error",
            f"terminated, but the last return adds a value of what follows, in {some(int(bootstrapped.sum()), batch.rows, 'row')}",
            {
                "rows": rows_where(bootstrapped)[:8],
                "last return": given[bootstrapped][:8],
                "bootstrap": bootstrap[bootstrapped][:8],
            },
            "the end of the task was treated as a cut by a limit: flags swapped, or the padded width taken for the limit",
            "nothing follows a terminated episode: bootstrap truncated rows only",
        )


CHECKS = (
    Check(("unscored_as_zero",), ("rewards", "advantages"), unscored_as_zero),
    Check(("ends_contradict",), ("terminated", "truncated"), ends_contradict),
    Check(("truncation_from_width",), ("truncated", "input_ids", "stop_ids"), truncation_from_width),
    Check(
        ("truncation_as_terminal",),
        ("truncated", "bootstrap_values", "rewards per token", "gamma", "returns or values with advantages per token"),
        truncation_as_terminal,
    ),
)
