"""Hidden states + output embedding -> log-probabilities of the targets, block by block: the arithmetic of `selected_logprobs`.

Positions are taken `chunk` at a time and the vocabulary `WIDTH` at a time; one block of logits is all that ever exists. The softmax
is normalised online, as attention kernels do it (Milakov and Gimelshein 2018, https://arxiv.org/abs/1805.02867): every block moves
the running maximum and rescales what was summed before. Products of half-precision inputs are half-precision matrix products,
because nothing else is fast; everything between and every sum over blocks is float32.

Both passes are operators of their own, so `torch.compile` takes each as one node, and none of them knows a collective.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.errors import GraphError
from rosellm.roserlhf.objective.support import KeptSupport, outside

WIDTH = 4096
"""Vocabulary entries per block: `chunk · WIDTH` numbers stay near the processor."""


class _Head(NamedTuple):
    """What turns hidden states into logits: `cap tanh(scale (h W + b) / cap) / temperature`."""

    weight: Tensor
    bias: Tensor | None
    scale: float
    softcap: float | None
    temperature: float

    @property
    def slope(self) -> float:
        """Derivative of a logit by `h W`, apart from the one of tanh."""
        return self.scale / self.temperature

    def blocks(self) -> Iterator[slice]:
        size = self.weight.shape[0]
        return (slice(start, min(start + WIDTH, size)) for start in range(0, size, WIDTH))


class _Scratch:
    """Memory for one block of logits and, where they are needed, of other things of its size."""

    def __init__(self, rows: int, head: _Head, work: torch.dtype, *, second: bool) -> None:
        size, device = rows * min(WIDTH, head.weight.shape[0]), head.weight.device
        self.work = work
        self.sums = torch.promote_types(work, torch.float32)
        self._logits = torch.empty(size, dtype=self.sums, device=device)
        self._product = self._logits if work == self.sums else torch.empty(size, dtype=work, device=device)
        self._second = torch.empty(size if second else 0, dtype=self.sums, device=device)
        self._slopes = torch.empty(0 if head.softcap is None else size, dtype=self.sums, device=device)

    def logits(self, left: Tensor, head: _Head, block: slice) -> tuple[Tensor, Tensor | None]:
        """Compute one block of logits in place, and the derivatives of its soft-cap if it has one."""
        shape = (left.shape[0], block.stop - block.start)
        product, logits = _view(self._product, shape), _view(self._logits, shape)
        right = head.weight[block].to(self.work).t()
        if head.bias is None:
            torch.mm(left, right, out=product)
        else:
            torch.addmm(head.bias[block].to(self.work), left, right, out=product)
        if product is not logits:
            logits.copy_(product)
        if head.softcap is None:
            return (logits.mul_(head.slope) if head.slope != 1.0 else logits), None
        logits.mul_(head.scale / head.softcap).tanh_()
        slopes = _view(self._slopes, shape)
        torch.mul(logits, logits, out=slopes)
        return logits.mul_(head.softcap / head.temperature), slopes.neg_().add_(1.0)

    def exp(self, shifted: Tensor) -> Tensor:
        """Exponentiate into the second block, so that `shifted` stays."""
        return torch.exp(shifted, out=_view(self._second, tuple(shifted.shape)))

    def factor(self, values: Tensor) -> Tensor:
        """Return the values as a factor of a matrix product: themselves, or rounded to half precision."""
        return values if values.dtype == self.work else _view(self._product, tuple(values.shape)).copy_(values)


def _view(flat: Tensor, shape: tuple[int, ...]) -> Tensor:
    return flat[: shape[0] * shape[1]].view(shape)


def _add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    """Add a matrix product to a sum that may be of higher precision."""
    if total.dtype == left.dtype:
        total.addmm_(left, right)
    else:
        total.add_(torch.mm(left, right))


class _Chunks(NamedTuple):
    """The positions to compute, in chunks, with the supports of each."""

    places: list[slice | Tensor]
    supports: list[KeptSupport | None]

    @classmethod
    def of(cls, count: int, mask: Tensor | None, support: KeptSupport | None, chunk: int) -> _Chunks:
        chosen = None if mask is None else mask.nonzero().squeeze(-1)
        if chosen is not None:
            count = chosen.shape[0]
            support = None if support is None else support.select(chosen)
        cuts = [slice(start, min(start + chunk, count)) for start in range(0, count, chunk)]
        places: list[slice | Tensor] = [*cuts] if chosen is None else [chosen[cut] for cut in cuts]
        if support is None:
            return cls(places, [None] * len(cuts))
        starts = support.offsets[::chunk].tolist()[: len(cuts)]
        ends = [*starts, support.ids.shape[0]][1:]  # no chunk has no end
        parts = zip(starts, ends, cuts, strict=True)
        return cls(places, [KeptSupport(support.ids[a:b], support.offsets[cut.start : cut.stop + 1] - a) for a, b, cut in parts])


def _gather(logits: Tensor, targets: Tensor, block: slice, before: Tensor) -> Tensor:
    """Read the logits of those targets that lie in this block."""
    inside = (targets >= block.start) & (targets < block.stop)
    column = (targets - block.start).clamp(0, block.stop - block.start - 1)
    return torch.where(inside, logits.gather(1, column[:, None]).squeeze(1), before)


_OPERATOR = "rosellm::selected_logprobs"
_INPUTS = (
    "Tensor hidden, Tensor weight, Tensor target_ids, Tensor? bias, Tensor? mask, Tensor? support_ids, Tensor? support_offsets, "
    "float scale, float? softcap, float temperature, int chunk"
)


@torch.library.custom_op(
    _OPERATOR, mutates_args=(), schema=f"({_INPUTS}, bool with_slope, bool with_entropy) -> (Tensor, Tensor, Tensor, Tensor)"
)
def forward(
    hidden: Tensor,
    weight: Tensor,
    target_ids: Tensor,
    bias: Tensor | None,
    mask: Tensor | None,
    support_ids: Tensor | None,
    support_offsets: Tensor | None,
    scale: float,
    softcap: float | None,
    temperature: float,
    chunk: int,
    with_slope: bool,
    with_entropy: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return log-probabilities `[N]`, log-normalisers `[N]`, entropies `[N]` and the derivatives by the hidden state `[N, d]`.

    The last two are empty unless asked for.
    """
    with torch.autocast(hidden.device.type, enabled=False):
        head = _Head(weight, bias, scale, softcap, temperature)
        outputs = _empty_outputs(hidden, weight, with_slope, with_entropy)
        hidden, target_ids, mask = _rows(hidden), target_ids.flatten(), _flat(mask)
        support = None if support_ids is None or support_offsets is None else KeptSupport(support_ids, support_offsets)
        chunks = _Chunks.of(hidden.shape[0], mask, support, chunk)
        work = torch.promote_types(hidden.dtype, weight.dtype)
        scratch = _Scratch(min(chunk, hidden.shape[0]), head, work, second=with_entropy)
        for at, kept in zip(*chunks, strict=True):
            found = _forward_chunk(hidden[at].to(work), target_ids[at], head, kept, scratch, with_slope, with_entropy)
            for output, part in zip(outputs, found, strict=True):
                if part is not None:
                    (_rows(output) if part.ndim == 2 else output.view(-1))[at] = part
        return outputs


def _rows(hidden: Tensor) -> Tensor:
    """Flatten to `[N, d]`. Results are made in their final shape and written through this: FSDP warns of results that are views."""
    return hidden.reshape(hidden.shape[:-1].numel(), hidden.shape[-1])


def _flat(values: Tensor | None) -> Tensor | None:
    return None if values is None else values.flatten()


def _forward_chunk(
    left: Tensor, targets: Tensor, head: _Head, kept: KeptSupport | None, scratch: _Scratch, with_slope: bool, with_entropy: bool
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
    lowest = torch.finfo(scratch.sums).min / 4  # finite: a block that a support left out whole has no maximum
    top = left.new_full((left.shape[0],), lowest, dtype=scratch.sums)
    mass, weighted, chosen = torch.zeros_like(top), torch.zeros_like(top), torch.full_like(top, -torch.inf)
    pulled = left.new_zeros(left.shape if with_slope else (0, 0), dtype=scratch.sums)
    for block in head.blocks():
        logits, slopes = scratch.logits(left, head, block)
        if kept is not None:
            logits.masked_fill_(outside(kept, block.start, block.stop - block.start), -torch.inf)
        chosen = _gather(logits, targets, block, chosen)
        before, top = top, torch.maximum(top, logits.amax(1))
        fade = (before - top).exp_()
        logits.sub_(top[:, None])
        odds = scratch.exp(logits) if with_entropy else logits.exp_()
        if with_entropy:
            weighted = fade * (weighted + (before - top) * mass)
            weighted += logits.clamp_(min=lowest).mul_(odds).sum(1)
        mass = fade * mass + odds.sum(1)
        if with_slope:
            odds = odds if slopes is None else odds.mul_(slopes)
            _add_product(pulled.mul_(fade[:, None]), scratch.factor(odds), head.weight[block].to(scratch.work))
    normaliser = top + mass.log()
    entropy = mass.log() - weighted / mass if with_entropy else None
    if not with_slope:
        return chosen - normaliser, normaliser, entropy, None
    pull = head.weight[targets.clamp(0, head.weight.shape[0] - 1)].to(scratch.sums)
    if head.softcap is not None:
        pull *= (1 - (chosen * (head.temperature / head.softcap)).square())[:, None]
    return chosen - normaliser, normaliser, entropy, (pull - pulled.div_(mass[:, None])).mul_(head.slope)


def _empty_outputs(hidden: Tensor, weight: Tensor, with_slope: bool, with_entropy: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    sums = torch.promote_types(torch.promote_types(hidden.dtype, weight.dtype), torch.float32)
    leading = hidden.shape[:-1]
    return (
        hidden.new_zeros(leading, dtype=sums),
        hidden.new_zeros(leading, dtype=sums),
        hidden.new_zeros(leading if with_entropy else (0,), dtype=sums),
        hidden.new_zeros(hidden.shape if with_slope else (0, 0), dtype=sums),
    )


@torch.library.custom_op(
    f"{_OPERATOR}_backward",
    mutates_args=(),
    schema=f"({_INPUTS}, Tensor normaliser, Tensor entropy, Tensor to_logprobs, Tensor? to_entropy, bool[] needed)"
    " -> (Tensor, Tensor, Tensor)",
)
def backward(
    hidden: Tensor,
    weight: Tensor,
    target_ids: Tensor,
    bias: Tensor | None,
    mask: Tensor | None,
    support_ids: Tensor | None,
    support_offsets: Tensor | None,
    scale: float,
    softcap: float | None,
    temperature: float,
    chunk: int,
    normaliser: Tensor,
    entropy: Tensor,
    to_logprobs: Tensor,
    to_entropy: Tensor | None,
    needed: list[bool],
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute the logits again and return the gradients at `hidden`, `weight` and `bias` that are needed; the others are empty."""
    with torch.autocast(hidden.device.type, enabled=False):
        head = _Head(weight, bias, scale, softcap, temperature)
        grads = _empty_gradients(hidden, weight, bias, needed)
        hidden, target_ids, mask = _rows(hidden), target_ids.flatten(), _flat(mask)
        support = None if support_ids is None or support_offsets is None else KeptSupport(support_ids, support_offsets)
        chunks = _Chunks.of(hidden.shape[0], mask, support, chunk)
        work = torch.promote_types(hidden.dtype, weight.dtype)
        scratch = _Scratch(min(chunk, hidden.shape[0]), head, work, second=to_entropy is not None)
        upstream = _Upstream(target_ids, normaliser.flatten(), entropy.flatten(), to_logprobs.flatten(), _flat(to_entropy))
        lefts = [hidden[at].to(work) for at in chunks.places]
        upstreams = [upstream.at(at) for at in chunks.places]
        pulled = [left.new_zeros(left.shape, dtype=scratch.sums) if needed[0] else None for left in lefts]
        for block in head.blocks():
            sums = [total[block].to(scratch.sums) for total in grads[1:]]  # a view, unless it is of lower precision
            for left, above, kept, total in zip(lefts, upstreams, chunks.supports, pulled, strict=True):
                _backward_block(left, above, head, block, kept, scratch, total, sums)
            for grad, total in zip(grads[1:], sums, strict=True):
                if grad.dtype != total.dtype:
                    grad[block] = total
        for at, above, total in zip(chunks.places, upstreams, pulled, strict=True):
            if total is not None:
                _rows(grads[0])[at] = total.mul_(_outer(above, head)[:, None]).to(hidden.dtype)
        return grads


class _Upstream(NamedTuple):
    """What the backward pass knows of each position."""

    targets: Tensor
    normaliser: Tensor
    entropy: Tensor
    to_logprobs: Tensor
    to_entropy: Tensor | None

    def at(self, places: slice | Tensor) -> _Upstream:
        if self.to_entropy is None:
            return _Upstream(self.targets[places], self.normaliser[places], self.entropy, self.to_logprobs[places], None)
        return _Upstream(*(part[places] for part in self if part is not None))


def _outer(upstream: _Upstream, head: _Head) -> Tensor:
    """Return the factor of a position that is common to all logits, with the sign of the softmax's derivative."""
    return upstream.to_logprobs * -head.slope if upstream.to_entropy is None else torch.full_like(upstream.to_logprobs, -head.slope)


def _backward_block(
    left: Tensor,
    upstream: _Upstream,
    head: _Head,
    block: slice,
    kept: KeptSupport | None,
    scratch: _Scratch,
    pulled: Tensor | None,
    sums: list[Tensor],
) -> None:
    """Add what one block of logits passes back: `p - 1[v = target]` times the upstream gradient, and the entropy's part."""
    logits, slopes = scratch.logits(left, head, block)
    if kept is not None:
        logits.masked_fill_(outside(kept, block.start, block.stop - block.start), -torch.inf)
    logits.sub_(upstream.normaliser[:, None])
    if upstream.to_entropy is None:
        at_logits, own = logits.exp_(), torch.ones_like(upstream.to_logprobs)
    else:
        odds, own = scratch.exp(logits), upstream.to_logprobs
        logits.clamp_(min=torch.finfo(scratch.sums).min / 4).add_(upstream.entropy[:, None])
        at_logits = logits.mul_(upstream.to_entropy[:, None]).add_(own[:, None]).mul_(odds)
    inside = (upstream.targets >= block.start) & (upstream.targets < block.stop)
    column = (upstream.targets - block.start).clamp(0, block.stop - block.start - 1)
    at_logits.scatter_add_(1, column[:, None], torch.where(inside, -own, 0.0)[:, None])
    if slopes is not None:
        at_logits.mul_(slopes)
    outer = _outer(upstream, head)[:, None]
    to_weight, to_bias = sums
    if to_bias.numel():
        to_bias.add_(torch.mv(at_logits.t(), outer.squeeze(1)))
    factor = scratch.factor(at_logits)
    if pulled is not None:
        _add_product(pulled, factor, head.weight[block].to(scratch.work))
    if to_weight.numel():
        _add_product(to_weight, factor.t(), (left * outer).to(scratch.work))


def _empty_gradients(hidden: Tensor, weight: Tensor, bias: Tensor | None, needed: list[bool]) -> tuple[Tensor, Tensor, Tensor]:
    at_bias = weight.new_zeros(0) if bias is None or not needed[2] else torch.zeros_like(bias)
    at_hidden = hidden.new_zeros(hidden.shape if needed[0] else 0)
    return at_hidden, torch.zeros_like(weight) if needed[1] else weight.new_zeros(0), at_bias


@torch.library.custom_op(
    f"{_OPERATOR}_scale_slope", mutates_args=(), schema="(Tensor hidden, Tensor? mask, Tensor slope, Tensor to_logprobs) -> Tensor"
)
def scale_slope(hidden: Tensor, mask: Tensor | None, slope: Tensor, to_logprobs: Tensor) -> Tensor:
    """Return the gradient at `hidden` where the forward pass left its derivatives; an operator, so that it too is refused twice."""
    gradient = (to_logprobs.unsqueeze(-1) * slope).to(hidden.dtype)
    return gradient if mask is None else gradient.masked_fill_(~mask.unsqueeze(-1), 0.0)


@forward.register_fake
def _(*inputs: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return _empty_outputs(inputs[0], inputs[1], *inputs[-2:])


@backward.register_fake
def _(*inputs: Any) -> tuple[Tensor, Tensor, Tensor]:
    return _empty_gradients(inputs[0], inputs[1], inputs[3], inputs[-1])


@scale_slope.register_fake
def _(hidden: Tensor, *_: Any) -> Tensor:
    return hidden.new_empty(hidden.shape)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor, Tensor]) -> None:
    tensors, (*options, with_slope, with_entropy) = inputs[:7], inputs[7:]
    _, normaliser, entropy, slope = output
    ctx.options, ctx.with_slope, ctx.with_entropy = options, with_slope, with_entropy
    ctx.save_for_backward(*((tensors[0], tensors[4], slope) if with_slope else (*tensors, normaliser, entropy)))


def _gradients(ctx: Any, to_logprobs: Tensor, _: object, to_entropy: Tensor, __: object) -> tuple[Tensor | None, ...]:
    if ctx.with_slope:
        return scale_slope(*ctx.saved_tensors, to_logprobs), *[None] * 12
    *tensors, normaliser, entropy = ctx.saved_tensors
    needed = [ctx.needs_input_grad[0], ctx.needs_input_grad[1], ctx.needs_input_grad[3]]
    above = to_entropy if ctx.with_entropy else None
    grads = backward(*tensors, *ctx.options, normaliser, entropy, to_logprobs, above, needed)
    at_hidden, at_weight, at_bias = (grad if wanted else None for grad, wanted in zip(grads, needed, strict=True))
    return at_hidden, at_weight, None, at_bias, *[None] * 9


forward.register_autograd(_gradients, setup_context=_save)


def _refuse(*_: Any) -> None:
    raise checks.fail(GraphError, "selected_logprobs", "be differentiated once", "a second derivative", fix=_TWICE_FIX)


_TWICE_FIX = "use gather_token_logprobs(hidden @ weight.T, ...) where a gradient of a gradient is needed"
backward.register_autograd(_refuse)
scale_slope.register_autograd(_refuse)
