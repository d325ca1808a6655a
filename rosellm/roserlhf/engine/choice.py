r"""Logits → one token a row: `temperature → top-k → top-p → renormalise → draw`, with the log-probability that it was drawn with.

.. math:: \ell = \frac{z_x}{T} - \log\sum_{v \in S} e^{z_v / T}

:math:`S` is what truncation kept, or everything. Ties are broken by the smaller id, so S is a function of the logits alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.engine.protocol import Sampling
from rosellm.roserlhf.errors import NonFiniteError


class Chosen(NamedTuple):
    """What was drawn, row by row."""

    tokens: list[int]
    logprobs: list[float]
    supports: list[tuple[int, ...] | None]
    """Ids that truncation kept, ascending; None where nothing was truncated."""


def choose(logits: Tensor, samplings: Sequence[Sampling], draws: Sequence[float]) -> Chosen:
    """Draw one token a row by inverting its cumulative distribution; greedy rows take the largest logit.

    Args:
        logits: `[B, V]`, float32.
        samplings: of the B rows.
        draws: B numbers in [0, 1), one for each row.

    Returns:
        Tokens, their log-probabilities under the distribution sampled from (temperature 1 and no truncation for greedy rows), and
        kept supports.

    Raises:
        NonFiniteError: there is nothing to draw from.
    """
    device, size = logits.device, logits.shape[-1]
    temperatures = torch.tensor([s.temperature or 1.0 for s in samplings], device=device)
    logprobs = torch.log_softmax(logits / temperatures[:, None], -1)
    places = torch.tensor(draws, device=device, dtype=torch.float64)
    greedy = torch.tensor([s.temperature == 0 for s in samplings], device=device)
    tokens = torch.where(greedy, logits.argmax(-1), _invert(logprobs, places))
    chosen = logprobs.gather(-1, tokens[:, None]).squeeze(-1)
    if not bool(chosen.isfinite().all()):
        raise checks.fail(NonFiniteError, "logits", "be finite", "NaN or infinity", fix="the published weights have diverged")
    cut = [i for i, s in enumerate(samplings) if s.temperature and (s.top_p < 1 or (s.top_k or size) < size)]
    if not cut:
        return Chosen(tokens.tolist(), chosen.tolist(), [None] * len(samplings))
    kept = _keep(logprobs[cut], [samplings[i] for i in cut])
    # the rest of the vocabulary is gone, and what is kept has all the mass
    renormalised = torch.log_softmax(kept.logprobs, -1)
    index = _invert(renormalised, places[cut])[:, None]
    tokens[cut], chosen[cut] = (found.gather(-1, index).squeeze(-1) for found in (kept.ids, renormalised))
    supports: list[tuple[int, ...] | None] = [None] * len(samplings)
    for i, ids, inside in zip(cut, kept.ids, kept.logprobs > -math.inf, strict=True):
        supports[i] = tuple(ids[inside].sort().values.tolist())
    return Chosen(tokens.tolist(), chosen.tolist(), supports)


def _invert(logprobs: Tensor, draws: Tensor) -> Tensor:
    """Find in each row the first id at which the cumulative distribution passes the draw, `[B]`.

    A vocabulary is searched in two steps, blocks and then one block, since a running sum over all of it would be what sampling from
    a large vocabulary spends its time on.
    """
    rows, size = logprobs.shape
    width = math.isqrt(size - 1) + 1
    blocks = torch.nn.functional.pad(logprobs.exp(), (0, -size % width)).view(rows, -1, width)
    sums = blocks.sum(-1, dtype=torch.float64).cumsum(-1)
    target = draws[:, None] * sums[:, -1:]
    block = _first_above(sums, target)
    before = sums.gather(-1, (block - 1).clamp(min=0)).masked_fill(block == 0, 0.0)
    inside = blocks[torch.arange(rows, device=logprobs.device), block.squeeze(-1)].double().cumsum(-1)
    return (block * width + _first_above(inside, target - before)).squeeze(-1).clamp(max=size - 1)


def _first_above(cumulative: Tensor, target: Tensor) -> Tensor:
    """First place above the target, `[B, 1]`; if rounding puts the target past the end, the last place that has any mass."""
    last = torch.searchsorted(cumulative, cumulative[:, -1:].contiguous()).clamp(max=cumulative.shape[-1] - 1)
    return torch.minimum(torch.searchsorted(cumulative, target.contiguous(), right=True), last)


class _Kept(NamedTuple):
    """The most likely ids of each row, `[B, m]`, most likely first; −inf behind what is kept."""

    ids: Tensor
    logprobs: Tensor


def _keep(logprobs: Tensor, samplings: Sequence[Sampling]) -> _Kept:
    """Cut every row to its `top_k` most likely ids, and these to the fewest with at least the share `top_p` of their mass."""
    device, size = logprobs.device, logprobs.shape[-1]
    top_k = torch.tensor([min(s.top_k or size, size) for s in samplings], device=device)
    top_p = torch.tensor([s.top_p for s in samplings], device=device, dtype=torch.float64)
    ids, values = _most_likely(logprobs, _enough(logprobs, top_k, top_p))
    values = values.masked_fill(torch.arange(ids.shape[-1], device=device) >= top_k[:, None], -math.inf)
    mass = values.double().exp()
    total = torch.where(top_k < size, mass.sum(-1), 1.0)  # without top-k, the mass of the whole vocabulary
    before = mass.cumsum(-1) - mass
    return _Kept(ids, values.masked_fill((before >= (top_p * total)[:, None]) & (top_p < 1)[:, None], -math.inf))


def _enough(logprobs: Tensor, top_k: Tensor, top_p: Tensor) -> int:
    """Count ids such that as many most likely ones of any row hold all that it keeps, ties included.

    What is less likely than (1 − top_p) / V weighs less than 1 − top_p together, so the rest has enough mass without it.
    """
    size = logprobs.shape[-1]
    largest = logprobs.topk(int(top_k.where(top_k < size, 1).max())).values
    by_count = largest.gather(-1, (top_k.where(top_k < size, 1) - 1)[:, None])
    by_mass = ((1 - top_p) / size).log().float()[:, None] - 1e-3
    lowest = torch.where((top_k < size)[:, None], by_count, by_mass)
    return int((logprobs >= lowest).sum(-1).max())


def _most_likely(logprobs: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the `count` most likely ids of each row and their values, most likely first, equal ones by id."""
    ids = logprobs.topk(count).indices.sort(-1).values
    values, order = logprobs.gather(-1, ids).sort(dim=-1, descending=True, stable=True)
    return ids.gather(-1, order), values
