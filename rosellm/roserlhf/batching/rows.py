"""One trajectory as one row of tokens, every column aligned to `token_ids`, and the account of what is trained.

```
token_ids            <user> What … <end> <assistant> search( lamps ) <end> <tool> 1 7 <end> <assistant> …
policy_mask            0     0       0        0         1      1   1   1      0   0 0   0       0
behaviour_logprobs     0     0       0        0       −0.2   −0.9 −0.0 −0.0   0   0 0   0       0        (0 = nothing stands there)
```
The law: `sampled = trained + Σ excluded[reason]` for every row, hence for every step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from rosellm.roserlhf import checks
from rosellm.roserlhf.errors import RecordError
from rosellm.roserlhf.trajectory import CopySpan, PolicyAction, Trajectory


@dataclass(frozen=True)
class Row:
    """A trajectory ready to be padded or packed."""

    trajectory_id: str
    group_id: str | None
    token_ids: tuple[int, ...]
    policy_mask: tuple[bool, ...]
    """True where the policy sampled the token in this record."""
    loss_mask: tuple[bool, ...]
    """`policy_mask` minus exclusions."""
    behaviour_logprobs: tuple[float, ...]
    """As recorded; 0.0 where `policy_mask` is False, where nothing may read it."""
    turns: tuple[int, ...]
    """Turn of each sampled token; −1 elsewhere."""
    excluded: Mapping[str, int] = field(default_factory=dict)
    """Sampled tokens that are not trained, by reason."""
    advantage: float | None = None
    """Credit of the whole row; None = none assigned."""

    @property
    def sampled(self) -> int:
        """Sampled tokens."""
        return sum(self.policy_mask)

    @property
    def trained(self) -> int:
        """Tokens in the loss."""
        return sum(self.loss_mask)


def row_of(trajectory: Trajectory) -> Row:
    """Lay a root trajectory out as a row; tokens sampled over a stale prefix cache are excluded.

    Raises:
        RecordError: the record copies context from another one, which it alone cannot resolve.
    """
    ids: list[int] = []
    policy: list[bool] = []
    loss: list[bool] = []
    logprobs: list[float] = []
    turns: list[int] = []
    stale = 0
    for span in trajectory.spans():
        if isinstance(span, CopySpan):
            raise checks.fail(RecordError, "trajectory", "hold its own ids", f"a copy of {span.record_id!r}")
        count = len(span.token_ids)
        ids += span.token_ids
        if isinstance(span, PolicyAction):
            fresh = [s.prefix_cache == "recomputed" for s in span.version_spans for _ in range(s.start, s.end)]
            stale += count - sum(fresh)
            policy += [True] * count
            loss += fresh
            logprobs += span.old_logprobs
            turns += [span.turn] * count
        else:
            policy += [False] * count
            loss += [False] * count
            logprobs += [0.0] * count
            turns += [-1] * count
    excluded = {"stale prefix cache": stale} if stale else {}
    return Row(
        trajectory.trajectory_id,
        trajectory.group_id,
        tuple(ids),
        tuple(policy),
        tuple(loss),
        tuple(logprobs),
        tuple(turns),
        excluded,
    )


def exclude(row: Row, reason: str) -> Row:
    """Take every token of a row out of the loss and book it under one reason."""
    counted = {**row.excluded, reason: row.excluded.get(reason, 0) + row.trained} if row.trained else row.excluded
    return replace(row, loss_mask=(False,) * len(row.loss_mask), excluded=counted)
