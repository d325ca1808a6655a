"""Checks of who wrote the trained tokens: the environment, the chat template, or the policy's hidden reasoning."""

from __future__ import annotations

from collections.abc import Iterator

from rosellm.roserlhf.audit.batch.check import Check, Seen, pairs, places, rows_where, some
from rosellm.roserlhf.audit.batch.inputs import Batch
from rosellm.roserlhf.audit.findings import Finding


def foreign_tokens_trained(batch: Batch, seen: Seen) -> Iterator[Finding]:
    """Find trained tokens whose role is not the policy's."""
    assert seen.roles is not None
    assert batch.roles is not None
    if not seen.roles.outside.any():
        return
    codes, counts = batch.roles[batch.mask].unique(return_counts=True)
    by_role = {batch.role_name(code): n for code, n in zip(codes.tolist(), counts.tolist(), strict=True)}
    policy = {batch.role_name(code) for code in batch.policy_codes}
    foreign = {role: n for role, n in by_role.items() if role not in policy}
    wrong = batch.mask.clone()
    for code in batch.policy_codes:
        wrong &= batch.roles != code
    yield Finding(
        "foreign_tokens_trained",
        "error",
        f"{int(seen.roles.outside.sum())} trained tokens were not written by the policy: "
        + ", ".join(f"{n} of {role}" for role, n in foreign.items()),
        {"trained tokens by role": by_role, "rows": rows_where(seen.roles.outside)[:8], "positions": places(wrong)},
        "the mask was rebuilt from lengths (everything after the prompt), so tool results and user turns inside are trained",
        "carry the mask from where the tokens were made: true for sampled tokens only",
    )


def scaffold_trained(batch: Batch, seen: Seen) -> Iterator[Finding]:
    """Find actions whose first trained token is the template's."""
    assert seen.scaffold is not None
    assert batch.content_mask is not None
    total, runs = int(seen.scaffold.sum()), int(seen.mask.runs.sum())
    if total == 0 or total < 0.8 * runs:
        return
    where = batch.runs
    wrong = where.several & ~batch.at(batch.content_mask, where.row, where.first)
    yield Finding(
        "scaffold_trained",
        "warning",
        f"a trained token of the chat template stands at the start of {some(total, runs, 'action')}",
        {"positions": pairs(where.row[wrong], where.first[wrong]), "rows": rows_where(seen.scaffold)[:8]},
        "the mask starts at the role header instead of after the generation prompt",
        "train from the first sampled token: the header and the generation prompt are context",
    )


def reasoning_masked(batch: Batch, seen: Seen) -> Iterator[Finding]:
    """Find reasoning tokens that are not trained in rows that train other tokens."""
    assert seen.reasoning is not None
    assert batch.reasoning_mask is not None
    if batch.reasoning_excluded:
        return
    missing = seen.reasoning.missed
    rows = (seen.mask.trained > 0) & (missing > 0)
    if not rows.any():
        return
    reasoning = seen.mask.trained - seen.reasoning.outside + missing
    share = missing[rows].sum() / reasoning[rows].sum()
    yield Finding(
        "reasoning_masked",
        "warning",
        f"{int(missing[rows].sum())} reasoning tokens ({share:.0%}) are not trained, in {some(int(rows.sum()), batch.rows, 'row')} "
        "that train other tokens",
        {"rows": rows_where(rows)[:8], "share": float(share), "positions": places(batch.reasoning_mask & ~batch.mask)},
        "the chat template drops or hides the reasoning of earlier turns, and the mask was made from the rendered text",
        "train every sampled token, reasoning included; if it is left out on purpose, say so: reasoning_excluded=True",
    )


CHECKS = (
    Check(("foreign_tokens_trained",), ("roles",), foreign_tokens_trained),
    Check(("scaffold_trained",), ("content_mask",), scaffold_trained),
    Check(("reasoning_masked",), ("reasoning_mask",), reasoning_masked),
)
