"""Leaves that share the beginning of their rows -> how often each sampled token is trained, and with which coefficient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.errors import RangeError, ShapeError
from rosellm.roserlhf.masked import at_least_float32

Prefix = Literal["own_suffix", "all_leaves"]


@dataclass(frozen=True)
class TreeTokenWeights:
    """The T tokens that a forest of leaves sampled, each once: leaf after leaf, in the order in which each leaf sampled them."""

    leaf: Tensor
    """`[T]` int64: the leaf that sampled the token."""
    multiplicity: Tensor
    """`[T]` int64: number of rows in which the token is trained; their sum is the token count of a token-mean loss."""
    coefficient: Tensor
    """`[T]`: sum of the advantages it is trained with, the factor of its score function in the policy gradient."""


@torch.no_grad()
def tree_token_weights(
    advantages: Tensor, own_tokens: Tensor, parents: Tensor, shared_tokens: Tensor, *, prefix: Prefix
) -> TreeTokenWeights:
    r"""State what every sampled token of a forest is trained with under each reading of a shared prefix.

    .. math::
        \text{own suffix: } c_t = A_{\text{leaf that sampled } t},\qquad
        \text{all leaves: } c_t = \sum_{i\,:\,t \in \text{row } i} A_i

    Leaf i was branched off the row of `parents[i]` after its first `shared_tokens[i]` policy tokens, and sampled `own_tokens[i]`
    more. `prefix="own_suffix"`: a row trains only the tokens its leaf sampled, so each token is trained once, and a prefix learns
    from the leaf that wrote it and not from the branches (the text of the seed lab). `prefix="all_leaves"`: a row trains all its
    policy tokens, so a prefix is trained once per leaf below it with the *sum* of their advantages (the authors' code); inside a
    tree whose leaves all share it, the intra-tree part of that sum is 0.

    Source: Ji et al. 2025, https://arxiv.org/abs/2509.21240

    Args:
        advantages: `[N]`, floating point, finite: one per leaf, `tree_advantages(...).advantages` for example.
        own_tokens: `[N]`, integer, ≥ 0: policy tokens the leaf sampled itself (tool output is not counted, here and below).
        parents: `[N]`, integer: index of the leaf it was branched off; -1 for one sampled from the start. No cycles; any order.
        shared_tokens: `[N]`, integer, ≥ 0: leading policy tokens of the parent's row that are the beginning of this row; 0 for
            leaves without a parent.
        prefix: who trains a shared token.

    Returns:
        Per token: its leaf, its multiplicity, its coefficient (float32, or float64 for float64 advantages).

    Raises:
        DtypeError, ShapeError, DeviceError: an argument has the wrong type, shape or device.
        NonFiniteError: NaN or infinity in `advantages`.
        RangeError: a number or index is out of range, a row shares more than its parent has, or the parents form a cycle.

    Example:
        >>> tree = torch.tensor([3, 3, 2]), torch.tensor([-1, 0, 0]), torch.tensor([0, 2, 2])  # two branches after 2 tokens
        >>> tree_token_weights(torch.tensor([1.0, -0.5, -0.5]), *tree, prefix="all_leaves").coefficient
        tensor([ 0.0000,  0.0000,  1.0000, -0.5000, -0.5000, -0.5000, -0.5000, -0.5000])
        >>> tree_token_weights(torch.tensor([1.0, -0.5, -0.5]), *tree, prefix="own_suffix").coefficient
        tensor([ 1.0000,  1.0000,  1.0000, -0.5000, -0.5000, -0.5000, -0.5000, -0.5000])
    """
    checks.one_of(prefix, "prefix", ("own_suffix", "all_leaves"))
    _check_forest(advantages, own_tokens, parents, shared_tokens)
    own, shared, above = own_tokens.long(), shared_tokens.long(), parents.long().clamp(-1, parents.numel() - 1)
    leaf = torch.arange(own.numel(), device=own.device).repeat_interleave(own)
    if prefix == "own_suffix":
        return TreeTokenWeights(leaf, torch.ones_like(leaf), at_least_float32(advantages)[leaf])
    steps = _coverage(advantages, own, above, shared)
    count, total = (step.cumsum(0)[: leaf.numel()] for step in steps)
    return TreeTokenWeights(leaf, count, total.to(at_least_float32(advantages).dtype))


def _coverage(advantages: Tensor, own: Tensor, parents: Tensor, shared: Tensor) -> tuple[Tensor, Tensor]:
    """Return where along the tokens the number of rows and the sum of their advantages change; one round per level of the trees."""
    starts = own.cumsum(0) - own
    size = int(own.sum()) + 1
    rows = own.new_zeros(size)
    sums = advantages.new_zeros(size, dtype=torch.float32 if advantages.device.type == "mps" else torch.float64)
    row = torch.arange(own.numel(), device=own.device)
    # `keep` leading tokens of the row of `node` are in `row`; those that `node` sampled itself come after the ones it shares
    node, keep = row, shared + own
    for _ in range(own.numel()):  # as deep as leaves can stand, also if a cycle is reported only later (on an accelerator)
        if not row.numel():
            break
        covered = (keep - shared[node]).clamp(min=0)
        for place, sign in ((starts[node], 1), (starts[node] + covered, -1)):
            rows.index_add_(0, place, torch.full_like(place, sign))
            sums.index_add_(0, place, sign * advantages[row].to(sums.dtype))
        keep, node = torch.minimum(keep, shared[node]), parents[node]
        deeper = (node >= 0) & (keep > 0)
        row, node, keep = row[deeper], node[deeper], keep[deeper]
    return rows, sums


def _check_forest(advantages: Tensor, own_tokens: Tensor, parents: Tensor, shared_tokens: Tensor) -> None:
    checks.floating(advantages, "advantages")
    if advantages.ndim != 1 or not advantages.numel():
        raise checks.fail(ShapeError, "advantages", "be [N] with at least one leaf", f"shape {tuple(advantages.shape)}")
    checks.finite(advantages, "advantages")
    for value, name in ((own_tokens, "own_tokens"), (parents, "parents"), (shared_tokens, "shared_tokens")):
        checks.integer(value, name)
        checks.same_shape(value, name, advantages, "advantages")
    checks.index(own_tokens, "own_tokens", None)
    checks.index(shared_tokens, "shared_tokens", None)
    leaves = advantages.numel()
    checks.each("parents", f"be in [-1, {leaves})", lambda: (parents, (parents < -1) | (parents >= leaves)), RangeError)
    rows = own_tokens.long() + shared_tokens.long()
    available = torch.where(parents >= 0, rows[parents.long().clamp(0, leaves - 1)], 0)
    requirement = "be at most the tokens of the parent's row, and 0 without a parent"
    checks.each("shared_tokens", requirement, lambda: (shared_tokens, shared_tokens > available), RangeError)
    checks.each("parents", "form trees, without a cycle", lambda: (parents, _on_a_cycle(parents.long())), RangeError)


def _on_a_cycle(parents: Tensor) -> Tensor:
    """Tell from which leaves the way up never ends: jumps of doubled length would have left any tree."""
    end = parents.numel()
    parents = parents.clamp(-1, end - 1)
    jump = torch.cat([torch.where(parents < 0, end, parents), parents.new_tensor([end])])
    for _ in range(end.bit_length()):
        jump = jump[jump]
    return jump[:end] != end
