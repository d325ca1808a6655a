"""Kept supports of truncated sampling in flat form: `(ids, offsets)` of all positions -> what one block of logits may keep.

Top-p and top-k sampling renormalise over the tokens that they keep, so a policy that is evaluated over the whole vocabulary is not
the policy that was sampled from, and no importance ratio is 1. Engines report the kept ids of every token in one flat list with
offsets (vLLM's `SamplingMask`, https://github.com/vllm-project/vllm/pull/49577); the trainer renormalises over the same ids.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.errors import DtypeError, RangeError, ShapeError


class KeptSupport(NamedTuple):
    r"""Which ids truncated sampling kept at each of N positions; a plain `(ids, offsets)` pair is as good.

    Position `n` kept `ids[offsets[n]:offsets[n + 1]]`, in any order. A position that lists nothing was not truncated: its support
    is the whole vocabulary (prompts, tool results, padding, tokens of an engine that records no support).

    Source: the kept sampling mask of DeepSeek-AI 2025 (DeepSeek-V3.2), §3.1, https://arxiv.org/abs/2512.02556

    Example:
        >>> support = KeptSupport.of([None, [3, 5], [5]])
        >>> support.ids, support.offsets
        (tensor([3, 5, 5]), tensor([0, 0, 2, 3]))
    """

    ids: Tensor
    """`[K]` integers: the kept ids of all positions, one after the other."""
    offsets: Tensor
    """`[N + 1]` integers from 0 to K that never fall."""

    @classmethod
    def of(cls, kept: Iterable[Sequence[int] | None], *, device: torch.device | str | None = None) -> KeptSupport:
        """Flatten one sequence of ids per position; None, like an empty one, keeps the whole vocabulary."""
        lists = [_listed(ids, f"kept[{place}]") for place, ids in enumerate(checks.items(kept, "kept", of="lists of ids"))]
        offsets = list(itertools.accumulate(map(len, lists), initial=0))
        flat = list(itertools.chain.from_iterable(lists))
        return cls(torch.tensor(flat, dtype=torch.int64, device=device), torch.tensor(offsets, dtype=torch.int64, device=device))

    def positions(self) -> Tensor:
        """Return the position of every kept id, `[K]`."""
        counts = self.offsets.diff()
        places = torch.arange(counts.shape[0], device=counts.device)
        return torch.repeat_interleave(places, counts, output_size=self.ids.shape[0])

    def select(self, places: Tensor) -> KeptSupport:
        """Keep the positions at the ascending indices `places`."""
        counts = self.offsets.diff()
        wanted = torch.zeros_like(counts, dtype=torch.bool).index_fill(0, places, True)
        starts = torch.zeros_like(self.offsets[: places.shape[0] + 1])
        starts[1:] = counts[places].cumsum(0)
        return KeptSupport(self.ids[wanted[self.positions()]], starts)


def _listed(ids: Sequence[int] | None, argument: str) -> list[int]:
    try:
        return [] if ids is None else [operator.index(one) for one in ids]
    except TypeError as error:
        raise checks.fail(DtypeError, argument, "be integers, several or none, or None", f"{ids!r:.80}") from error


def aligned(support: tuple[Tensor, Tensor], target_ids: Tensor) -> KeptSupport:
    """Check that a support has one list of ids for each of the flattened `target_ids`.

    Raises:
        DtypeError: it is not a pair of integer tensors.
        ShapeError: `offsets` has not one entry more than `target_ids` has, or one of the two is no vector.
        RangeError: `offsets` does not rise from 0 to the number of ids.
    """
    if not isinstance(support, tuple) or len(support) != 2:
        raise checks.fail(DtypeError, "support", "be a pair of tensors (ids, offsets)", type(support).__name__)
    for part, name in zip(support, ("support ids", "support offsets"), strict=True):
        checks.integer(part, name)
        checks.same_device(part, name, target_ids, "target_ids")
        if part.ndim != 1:
            raise checks.fail(ShapeError, name, "be a vector", f"shape {tuple(part.shape)}")
    kept = KeptSupport(support[0].long(), support[1].long())
    if kept.offsets.shape[0] != target_ids.numel() + 1:
        requirement = f"hold one number more than target_ids has positions, {target_ids.numel() + 1}"
        raise checks.fail(ShapeError, "support offsets", requirement, kept.offsets.shape[0])
    checks.each("support offsets", "rise from 0 to the number of ids", lambda: (kept.offsets, _disorder(kept)), RangeError)
    return kept


def checked(support: tuple[Tensor, Tensor], target_ids: Tensor, vocabulary: int, where: Tensor | None = None) -> KeptSupport:
    """Check that a support is aligned and holds the target of every position, or of the positions `where` only.

    Raises:
        RangeError: an id is outside the vocabulary, or a target was not kept; and the errors of `aligned`.
    """
    kept = aligned(support, target_ids)
    checks.index(kept.ids, "support ids", vocabulary)
    fix = "the target was not sampled from this support: align it with target_ids"
    targets = target_ids.flatten()
    checks.each("target_ids", "be in their support", lambda: (targets, _left_out(kept, targets, where)), RangeError, fix=fix)
    return kept


def _disorder(support: KeptSupport) -> Tensor:
    ends = torch.cat([support.offsets[1:], support.offsets.new_tensor([support.ids.shape[0]])])
    bad = ends < support.offsets
    bad[0] |= support.offsets[0] != 0
    bad[-1] |= support.offsets[-1] != support.ids.shape[0]
    return bad


def _left_out(support: KeptSupport, targets: Tensor, where: Tensor | None) -> Tensor:
    """Tell which targets a non-empty support does not list."""
    positions = support.positions()
    found = torch.zeros_like(targets, dtype=torch.int64).index_add(0, positions, (support.ids == targets[positions]).long())
    bad = (found == 0) & (support.offsets.diff() > 0)
    return bad if where is None else bad & where.flatten()


def outside(support: KeptSupport, start: int, width: int) -> Tensor:
    """Tell which of the ids `start .. start + width - 1` each position left out, `[N, width]` boolean."""
    left_out = (support.offsets.diff() > 0)[:, None].repeat(1, width + 1)
    column = support.ids - start
    column = torch.where((column < 0) | (column > width), width, column)  # the last column collects what is not in this block
    left_out[support.positions(), column] = False
    return left_out[:, :width]
