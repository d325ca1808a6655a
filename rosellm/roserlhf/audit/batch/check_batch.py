"""`check_batch`: the tensors of one training step -> a report of what is wrong with them."""

from __future__ import annotations

import functools
import math
import numbers
import operator
from collections.abc import Mapping, Sequence
from typing import Any, get_args

import numpy as np
import torch

from rosellm.roserlhf import checks
from rosellm.roserlhf.audit.batch import credit as credit_checks
from rosellm.roserlhf.audit.batch import groups, logprobs, masks, normalisation, ratios, sampling, scoring, stops
from rosellm.roserlhf.audit.batch import roles as role_checks
from rosellm.roserlhf.audit.batch import values as value_checks
from rosellm.roserlhf.audit.batch.check import CannotTellError, Check, Seen
from rosellm.roserlhf.audit.batch.device_profile import measure_on_device
from rosellm.roserlhf.audit.batch.host_profile import measure_on_host
from rosellm.roserlhf.audit.batch.inputs import POLICY_ROLES, Batch, Reader, as_tensor
from rosellm.roserlhf.audit.batch.profile import Profile, read
from rosellm.roserlhf.audit.findings import Contents, Finding, Report
from rosellm.roserlhf.errors import DeviceError, DtypeError, RangeError, ShapeError
from rosellm.roserlhf.objective.aggregation import Aggregation

CHECKS: tuple[Check, ...] = (
    *masks.CHECKS,
    *role_checks.CHECKS,
    *stops.CHECKS,
    *logprobs.CHECKS,
    *ratios.CHECKS,
    *sampling.CHECKS,
    *groups.CHECKS,
    *credit_checks.CHECKS,
    *scoring.CHECKS,
    *value_checks.CHECKS,
    *normalisation.CHECKS,
)
"""Every check, in reading order."""

EXPLAINS: Mapping[str, tuple[str, ...]] = {
    "mask_values": ("mask_shifted", "padding_trained", "foreign_tokens_trained", "logprob_filler", "logprob_nonfinite"),
    "mask_shifted": (
        "padding_trained",
        "foreign_tokens_trained",
        "scaffold_trained",
        "reasoning_masked",
        "stop_tokens_dropped",
        "trained_after_stop",
        "logprob_nonfinite",
        "logprob_filler",
        "history_retokenised",
        "temperature_mismatch",
        "ratio_not_one_when_fresh",
        "ratio_extreme",
    ),
    "padding_trained": ("logprob_filler", "logprob_nonfinite", "history_retokenised", "ratio_not_one_when_fresh", "ratio_extreme"),
    "foreign_tokens_trained": (
        "scaffold_trained",
        "trained_after_stop",
        "logprob_filler",
        "logprob_nonfinite",
        "history_retokenised",
        "ratio_not_one_when_fresh",
        "ratio_extreme",
    ),
    "logprob_positive": (
        "temperature_mismatch",
        "top_p_mismatch",
        "history_retokenised",
        "ratio_not_one_when_fresh",
        "ratio_extreme",
    ),
    "logprob_filler": (
        "temperature_mismatch",
        "top_p_mismatch",
        "history_retokenised",
        "ratio_not_one_when_fresh",
        "ratio_extreme",
    ),
    "temperature_mismatch": ("ratio_not_one_when_fresh", "history_retokenised"),
    "top_p_mismatch": ("ratio_not_one_when_fresh", "history_retokenised", "logprob_filler"),
    "history_retokenised": ("ratio_not_one_when_fresh", "ratio_extreme"),
    "ratio_extreme": ("ratio_not_one_when_fresh",),
    "scaffold_trained": ("history_retokenised", "ratio_not_one_when_fresh", "logprob_filler"),
    "groups_mixed": ("advantage_grouping", "advantage_in_uniform_group", "groups_singleton", "groups_uniform"),
    "advantage_grouping": ("advantage_in_uniform_group",),
    "unscored_as_zero": ("advantage_nonfinite", "advantage_grouping", "advantage_in_uniform_group"),
    "truncation_from_width": ("truncation_as_terminal",),
}
"""A finding by the name on the left makes those on the right its probable consequences: they stay, as information."""


@torch.no_grad()
def check_batch(
    *,
    action_mask: Any,
    input_ids: Any = None,
    old_logprobs: Any = None,
    current_logprobs: Any = None,
    advantages: Any = None,
    rewards: Any = None,
    group_ids: Any = None,
    rollout_ids: Any = None,
    values: Any = None,
    versions: Any = None,
    roles: Any = None,
    lag: Any = None,
    valid_mask: Any = None,
    content_mask: Any = None,
    reasoning_mask: Any = None,
    reasoning_excluded: bool = False,
    role_names: Mapping[int, str] | Sequence[str] | None = None,
    policy_roles: Sequence[str | int] = POLICY_ROLES,
    stop_ids: Any = None,
    prompt_ids: Any = None,
    sampled_ids: Any = None,
    current_version: str | int | None = None,
    before_update: bool | None = None,
    temperature: float | None = None,
    top_p: float | None = None,
    scored: Any = None,
    terminated: Any = None,
    truncated: Any = None,
    returns: Any = None,
    bootstrap_values: Any = None,
    gamma: float | None = None,
    gae_lambda: float | None = None,
    credit: str | None = None,
    loss: Any = None,
    token_loss: Any = None,
    aggregation: Aggregation | None = None,
    denominator: Any = None,
    micro_batches: Sequence[int] | None = None,
    sync: bool | None = None,
) -> Report:
    r"""Look for the mistakes that cost weeks in the tensors of one training step.

    Pass what is at hand, from any framework; a check whose arguments are missing is listed in the report as not checked, with what
    it needs. Entry t of every per-token tensor belongs to `input_ids[:, t]`: full rows, or completions alone with everything cut
    alike. What stands outside the mask never matters. A healthy batch yields nothing above `info`.

    On a CPU the report is complete when it is returned. On an accelerator nothing waits for the device: the measurements are
    queued, and the first look at the report (or `report.wait()`) reads them back once; until then the report holds the tensors, so
    do not change them in place.

    Args:
        action_mask: `[B, T]`, boolean or 0/1: the tokens in the loss (a `loss_mask`).
        input_ids: integers `[B, T]`.
        old_logprobs: `[B, T]`, the behaviour log-probabilities, as recorded when the tokens were sampled.
        current_logprobs: `[B, T]`, of the policy that is being differentiated.
        advantages: `[B]`, `[B, 1]` or `[B, T]`.
        rewards: `[B]`, `[B, 1]` or `[B, T]`; None or NaN is a reward that was not scored.
        group_ids: an id per row: the task whose rollouts are compared. Strings, integers or an integer tensor.
        rollout_ids: an id per row: the rollout that the row is a part of. Default: every row is one rollout.
        values: `[B, T]`, the critic's value of the state before each token.
        versions: the weights that sampled: an id per row, or integers `[B, T]`. Integers are ordered, strings are not.
        roles: integers `[B, T]` into `role_names`, or B lists of T role names.
        lag: updates between sampling and now, one number or one per row.
        valid_mask: boolean `[B, T]`, false at padding.
        content_mask: boolean `[B, T]`, false at the scaffold of the chat template.
        reasoning_mask: boolean `[B, T]`, true at sampled reasoning tokens.
        reasoning_excluded: whether reasoning is left out of the mask on purpose.
        role_names: what integer roles mean; default `padding, system, user, assistant, tool, scaffold`.
        policy_roles: names (or codes) of the roles that the policy may have sampled.
        stop_ids: ids that end a turn.
        prompt_ids: integers `[B, P]`, for batches whose `input_ids` are completions alone.
        sampled_ids: the ids as the engine returned them, `[B, T]` aligned or one sequence per row; the trained ones must be these.
        current_version: name or number of the weights that are being differentiated.
        before_update: True: no update was made on this batch yet, so ratios should be 1 on fresh data. False: one was made.
        temperature: of the sampler, named in messages.
        top_p: of the sampler, named in messages.
        scored: boolean `[B]`, false where no grader gave a reward. Default: where the reward is not NaN.
        terminated: boolean `[B]`, the task ended by its own rules.
        truncated: boolean `[B]`, a limit cut the episode.
        returns: `[B, T]`, the critic's targets.
        bootstrap_values: `[B]`, value of the state after the last action.
        gamma: discount of the advantage estimator.
        gae_lambda: lambda of the advantage estimator.
        credit: `trajectory`, `turn` or `token`: what shares one advantage.
        loss: the scalar that is minimised, without auxiliary terms.
        token_loss: `[B, T]`, before aggregation.
        aggregation: how `loss` is said to be made of `token_loss`: a name that the losses of this package use.
        denominator: what the sum is said to be divided by; default: counted in this batch.
        micro_batches: rows of each micro-batch, in order; default: equal splits are tried.
        sync: True waits for the device, False does not. Default: wait on a CPU only.

    Returns:
        A `Report`: `print` it, `raise_if("error")`, `to_json()`, `write_html(path)`.

    Raises:
        ShapeError, DtypeError, DeviceError: the arguments do not fit together.
        RangeError: an unknown `aggregation` or `credit`.

    Example:
        >>> from rosellm.roserlhf.audit import check_batch
        >>> old = torch.tensor([[0.0, 0.0, -0.5, -1.5, -0.2, 0.0]])  # recorded for the three sampled tokens only
        >>> report = check_batch(action_mask=torch.tensor([[0, 0, 0, 1, 1, 1]]), old_logprobs=old)
        >>> report.findings[0].check, report.worst
        ('mask_shifted', 'error')
        >>> report.not_checked["foreign_tokens_trained"]
        'needs roles'
    """
    reader = Reader(action_mask)
    role_codes, names = reader.roles(roles, role_names)
    if isinstance(versions, np.ndarray) and versions.dtype.kind in "iu":
        versions = as_tensor(versions, "versions")
    versions_per_token = checks.is_tensor(versions) and tuple(versions.shape) == reader.shape and reader.shape[1] > 1
    version_ids = None if versions_per_token else reader.ids(versions, "versions")
    batch = Batch(
        mask=reader.mask,
        raw_mask=None if reader.boolean else reader.given_mask,
        input_ids=reader.token_ids(input_ids, "input_ids"),
        old_logprobs=reader.per_token(old_logprobs, "old_logprobs"),
        current_logprobs=reader.per_token(current_logprobs, "current_logprobs"),
        advantages=reader.per_token_or_row(advantages, "advantages"),
        rewards=reader.per_token_or_row(rewards, "rewards"),
        values=reader.per_token(values, "values"),
        returns=reader.per_token(returns, "returns"),
        bootstrap_values=reader.per_row(bootstrap_values, "bootstrap_values"),
        token_loss=reader.per_token(token_loss, "token_loss"),
        loss=_number(loss, "loss"),
        valid_mask=reader.token_mask(valid_mask, "valid_mask"),
        content_mask=reader.token_mask(content_mask, "content_mask"),
        reasoning_mask=reader.token_mask(reasoning_mask, "reasoning_mask"),
        roles=role_codes,
        role_names=names,
        policy_codes=_policy_codes(policy_roles, names),
        prompt_ids=reader.token_ids(prompt_ids, "prompt_ids", any_width=True),
        sampled_ids=reader.sampled(sampled_ids),
        stop_ids=_stop_ids(stop_ids),
        group_ids=reader.ids(group_ids, "group_ids"),
        rollout_ids=reader.ids(rollout_ids, "rollout_ids"),
        versions=version_ids,
        token_versions=reader.token_ids(versions, "versions") if versions_per_token else None,
        current_version=_current_version(current_version, ordered=version_ids is None or version_ids.labels is None),
        lag=_lag(reader, lag),
        scored=reader.flags(scored, "scored"),
        terminated=reader.flags(terminated, "terminated"),
        truncated=reader.flags(truncated, "truncated"),
        before_update=_flag(before_update, "before_update"),
        temperature=_between(temperature, "temperature", math.inf),
        top_p=_between(top_p, "top_p", 1.0),
        gamma=_between(gamma, "gamma", 1.0),
        gae_lambda=_between(gae_lambda, "gae_lambda", 1.0),
        credit=_one_of(credit, "credit", ("trajectory", "turn", "token")),
        aggregation=_one_of(aggregation, "aggregation", get_args(Aggregation)),
        denominator=_number(denominator, "denominator"),
        micro_batches=_micro_batches(micro_batches, reader.rows),
        reasoning_excluded=bool(_flag(reasoning_excluded, "reasoning_excluded")),
    )
    in_memory = reader.mask.device.type == "cpu"
    wait = in_memory if sync is None else sync
    if in_memory and wait:
        return Report(pending=functools.partial(_judge, batch, measure_on_host(batch))).wait()
    report = Report(pending=functools.partial(_finish, batch, measure_on_device(batch)))
    return report.wait() if wait else report


@torch.no_grad()
def _finish(batch: Batch, profile: Profile[torch.Tensor]) -> Contents:
    """Read the measurements back and judge them."""
    if batch.mask.is_meta:
        raise checks.fail(DeviceError, "action_mask", "hold numbers by the time the report is read", "a tensor on the meta device")
    return _judge(batch, read(profile))


def _judge(batch: Batch, seen: Seen) -> Contents:
    """Make every check that has its arguments, and mark consequences."""
    found: list[Finding] = []
    made: list[str] = []
    lacking: dict[str, str] = {}
    for check in CHECKS:
        reason = check.lacks(batch)
        if reason is None:
            try:
                found += check.find(batch, seen)
                made += check.names
            except CannotTellError as error:
                reason = str(error)
        if reason is not None:
            lacking |= dict.fromkeys(check.names, reason)
    return Contents(tuple(marked(found)), tuple(made), lacking)


def marked(found: Sequence[Finding]) -> list[Finding]:
    """Turn findings that a more exact one explains into information."""
    causes = {finding.check for finding in found if finding.severity != "info"}
    explained = {name: cause for cause in reversed(list(EXPLAINS)) if cause in causes for name in EXPLAINS[cause]}
    return [f.consequence_of(explained[f.check]) if f.severity != "info" and f.check in explained else f for f in found]


def _number(value: Any, argument: str) -> torch.Tensor | None:
    if value is None:
        return None
    tensor = as_tensor(value, argument).detach()
    if tensor.numel() != 1:
        raise checks.fail(ShapeError, argument, "be one number", f"shape {tuple(tensor.shape)}")
    return tensor.reshape(())


def _lag(reader: Reader, lag: Any) -> torch.Tensor | None:
    if isinstance(lag, numbers.Real):
        return torch.full((reader.rows,), float(lag))
    if checks.is_tensor(lag) and lag.ndim == 0:
        lag = lag.expand(reader.rows)
    return reader.per_row(lag, "lag")


def _flag(value: bool | None, argument: str) -> bool | None:
    if value is not None:
        checks.flag(value, argument)
    return value


def _current_version(version: str | int | None, *, ordered: bool) -> str | int | None:
    if version is not None and ordered and type(version) is not int:
        got = f"{version!r:.80} ({type(version).__name__})"
        raise checks.fail(DtypeError, "current_version", "be an integer like versions", got, fix="or pass versions as strings")
    return version


def _stop_ids(stop_ids: Any) -> tuple[int, ...] | None:
    if stop_ids is None:
        return None
    ids = [stop_ids] if isinstance(stop_ids, numbers.Integral) else checks.items(stop_ids, "stop_ids")
    try:
        return tuple(operator.index(token) for token in ids) or None
    except TypeError as error:
        raise checks.fail(DtypeError, "stop_ids", "be an integer or hold integers", f"{stop_ids!r:.80}") from error


def _policy_codes(policy_roles: Sequence[str | int], names: Sequence[str]) -> tuple[int, ...]:
    wanted = {role for role in policy_roles if isinstance(role, str)}
    return (*(role for role in policy_roles if isinstance(role, int)), *(c for c, name in enumerate(names) if name in wanted))


def _between(value: float | None, argument: str, high: float) -> float | None:
    if value is not None:
        value = float(value) if isinstance(value, numbers.Real) and not isinstance(value, bool) else value
        checks.number_in(value, argument, 0.0, high)
    return value


def _one_of(value: str | None, argument: str, allowed: Sequence[str]) -> str | None:
    if value is not None:
        checks.one_of(value, argument, allowed)
    return value


def _micro_batches(sizes: Sequence[int] | None, rows: int) -> tuple[int, ...] | None:
    if sizes is None:
        return None
    given = checks.items(sizes, "micro_batches")
    if not all(type(size) is int and size >= 0 for size in given):
        raise checks.fail(DtypeError, "micro_batches", "hold the number of rows of each micro-batch", f"{given!r:.80}")
    if sum(given) != rows:
        raise checks.fail(RangeError, "micro_batches", f"sum to the number of rows ({rows})", given)
    return tuple(given)
