"""Checks of who wrote the trained tokens: the environment, the chat template, or the policy's hidden reasoning."""

from __future__ import annotations

from collections.abc import Iterator

from rosellm.roserlhf.audit.check import Check, Seen, places, rows_where, some
from rosellm.roserlhf.audit.findings import Finding
from rosellm.roserlhf.audit.inputs import Batch
from rosellm.roserlhf.audit.profile import count


def foreign_tokens_trained(batch: Batch, seen: Seen) -> Iterator[Finding]:
    """Find trained tokens whose role is not the policy's."""
    assert seen.roles is not None
    assert batch.roles is not None
    if not seen.roles.outside.any():
        return
    codes = batch.roles[batch.mask].unique(return_counts=True)
    by_role = {
        batch.role_names[c] if 0 <= c < len(batch.role_names) else f"role {c}": n for c, n in zip(*map(_list, codes), strict=True)
    }
    policy = {batch.role_names[code] for code in batch.policy_codes}
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


def _list(values: object) -> list[int]:
    return [int(value) for value in values.tolist()]  # type: ignore[attr-defined]


def scaffold_trained(batch: Batch, seen: Seen) -> Iterator[Finding]:
    """Find actions whose first trained token is the template's: what the policy ends with (a stop token) it may have sampled."""
    assert batch.content_mask is not None
    starts = batch.mask.clone()
    starts[:, 1:] &= ~batch.mask[:, :-1]
    wrong = starts & ~batch.content_mask & ~batch.ends
    total, runs = int(wrong.sum()), int(seen.mask.runs.sum())
    if total == 0 or total < 0.8 * runs:
        return
    yield Finding(
        "scaffold_trained",
        "warning",
        f"{some(total, runs, 'action')} begins with a trained token of the chat template",
        {"positions": places(wrong), "rows": rows_where(count(wrong).cpu().numpy())[:8]},
        "the mask starts at the role header instead of after the generation prompt",
        "train from the first sampled token: the header and the generation prompt are context",
    )


def reasoning_masked(batch: Batch, seen: Seen) -> Iterator[Finding]:
    """Find reasoning tokens that are not trained in rows that train other tokens."""
    assert batch.reasoning_mask is not None
    if batch.reasoning_excluded:
        return
    left_out = batch.reasoning_mask & ~batch.mask
    reasoning, missing = count(batch.reasoning_mask).cpu().numpy(), count(left_out).cpu().numpy()
    rows = (seen.mask.trained > 0) & (missing > 0)
    if not rows.any():
        return
    share = missing[rows].sum() / reasoning[rows].sum()
    yield Finding(
        "reasoning_masked",
        "warning",
        f"{int(missing[rows].sum())} reasoning tokens ({share:.0%}) are not trained, in {some(int(rows.sum()), batch.rows, 'row')} "
        "that train other tokens",
        {"rows": rows_where(rows)[:8], "share": float(share), "positions": places(left_out)},
        "the chat template drops or hides the reasoning of earlier turns, and the mask was made from the rendered text",
        "train every sampled token, reasoning included; if it is left out on purpose, say so: reasoning_excluded=True",
    )


CHECKS = (
    Check(("foreign_tokens_trained",), ("roles",), foreign_tokens_trained),
    Check(("scaffold_trained",), ("content_mask",), scaffold_trained),
    Check(("reasoning_masked",), ("reasoning_mask",), reasoning_masked),
)
