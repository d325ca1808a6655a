"""Behaviour and current log-probabilities + policy versions -> the proximal ones in between, without a forward pass."""

from __future__ import annotations

import torch
from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.errors import DtypeError, RangeError, ShapeError
from rosellm.roserlhf.masked import at_least_float32


def log_linear_proximal(
    behaviour_logprobs: Tensor,
    current_logprobs: Tensor,
    behaviour_versions: Tensor | int,
    proximal_versions: Tensor | int,
    current_versions: Tensor | int,
) -> Tensor:
    r"""Interpolate proximal log-probabilities between the behaviour and the current policy by the age of each token.

    .. math::
        \ell^{\text{prox}} = \ell^{\text{behaviour}} + \alpha\, (\ell_\theta - \ell^{\text{behaviour}}), \qquad
        \alpha = \frac{v_{\text{prox}} - v_{\text{behaviour}}}{v_\theta - v_{\text{behaviour}}}

    In place of the forward pass of the policy from before the update, for `decoupled_policy_loss`: a token sampled one version ago
    has its behaviour log-probability (`alpha = 0`), an old one nearly the current one. Where all versions are equal `alpha` is
    defined as 0. It is an assumption about the path of the parameters, not an estimate: when log-probabilities do not move linearly
    with the version, nothing here shows it. AReaL takes the proximal version to be the current one less 1.

    Source: Li et al. 2025 (A-3PO), https://arxiv.org/abs/2512.06547; AReaL, `prox_logp_method: loglinear`

    Args:
        behaviour_logprobs: any shape, floating point. What stands at masked tokens, NaN included, stays there.
        current_logprobs: same shape; detached, since what is returned is a constant.
        behaviour_versions: position of the policy that sampled each token in the order of versions: one integer for all, or an
            integer tensor that broadcasts to the shape. Prompt tokens without a version may have any, such as -1.
        proximal_versions: the same for the policy before the update; not below the behaviour version.
        current_versions: the same for the policy that is trained; not below the proximal version.

    Returns:
        Detached tensor of the same shape, float32 at least.

    Raises:
        RangeError: `proximal_versions must lie between behaviour_versions and current_versions, got the value 3 at [0]`.
        ShapeError, DtypeError, DeviceError: the arguments do not fit together.

    Example:
        >>> behaviour, current = torch.tensor([-2.0, -2.0, -2.0]), torch.tensor([-1.0, -1.0, -1.0])
        >>> log_linear_proximal(behaviour, current, torch.tensor([0, 3, 4]), torch.tensor([3, 3, 4]), 4)
        tensor([-1.2500, -2.0000, -2.0000])
    """
    checks.floating(behaviour_logprobs, "behaviour_logprobs")
    checks.floating(current_logprobs, "current_logprobs")
    checks.same_shape(current_logprobs, "current_logprobs", behaviour_logprobs, "behaviour_logprobs")
    behaviour, current = at_least_float32(behaviour_logprobs.detach()), at_least_float32(current_logprobs.detach())
    oldest = _versions(behaviour_versions, "behaviour_versions", behaviour)
    middle = _versions(proximal_versions, "proximal_versions", behaviour)
    newest = _versions(current_versions, "current_versions", behaviour)
    requirement = "lie between behaviour_versions and current_versions"
    checks.each("proximal_versions", requirement, lambda: (middle, (middle < oldest) | (middle > newest)), RangeError)
    span = newest - oldest
    share = (middle - oldest).to(behaviour.dtype) / span.masked_fill(span == 0, 1).to(behaviour.dtype)
    return torch.lerp(behaviour, current.to(behaviour.dtype), share)


def _versions(versions: Tensor | int, argument: str, like: Tensor) -> Tensor:
    """Return one int64 per token."""
    if not isinstance(versions, Tensor):
        if isinstance(versions, bool) or not isinstance(versions, int):
            raise checks.fail(DtypeError, argument, "be an integer or a tensor of integers", f"{versions!r:.80}")
        if not -(2**63) <= versions < 2**63:
            raise checks.fail(RangeError, argument, "fit into 64 bits", f"{versions!r:.80}")
        return torch.full(like.shape, versions, dtype=torch.int64, device=like.device)
    checks.integer(versions, argument)
    checks.same_device(versions, argument, like, "behaviour_logprobs")
    try:
        return versions.long().expand(like.shape)
    except RuntimeError as error:
        raise checks.fail(ShapeError, argument, f"broadcast to {tuple(like.shape)}", tuple(versions.shape)) from error
