"""A causal language model + token ids -> log-probabilities aligned to the ids: the one place where the next-token shift is made."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from rosellm.roserlhf import checks
from rosellm.roserlhf.errors import ModelError, ShapeError
from rosellm.roserlhf.objective.causal_head import read_head
from rosellm.roserlhf.objective.logprobs import gather_token_logprobs
from rosellm.roserlhf.objective.selected import selected_logprobs
from rosellm.roserlhf.objective.support import KeptSupport, aligned

_CHUNK = 1024


def policy_logprobs(
    model: nn.Module,
    input_ids: Tensor,
    *,
    temperature: float,
    support: tuple[Tensor, Tensor] | None = None,
    attention_mask: Tensor | None = None,
    position_ids: Tensor | None = None,
    mask: Tensor | None = None,
    chunk: int | None = None,
) -> Tensor:
    r"""Evaluate :math:`\log\pi_\theta(x_t \mid x_{<t})` under the distribution that was sampled from.

    Entry t belongs to `input_ids[:, t]`, so every mask, advantage and recorded log-probability of the batch is aligned with the
    result as it is, and no caller slices anything. A token that nothing predicts is 0, without gradient: the first of a row, the
    first of a sequence packed into it (where `position_ids` do not go on by one), and one that `attention_mask` leaves out itself
    or whose predecessor it leaves out.

    By default the model's own logits are used. With `chunk` or `mask` the log-probabilities come from the last hidden states
    through `selected_logprobs`, so that `[B, T, V]` never exists and masked tokens cost nothing. That needs a model of Hugging
    Face's kind: its backbone is hooked, `logits_to_keep=1` leaves one row of logits, and those are compared with what `lm_head`,
    logit scale and soft-cap of the configuration give; a head that does anything else is an error, not a guess.

    Args:
        model: causal language model with `.logits`; its dropout is off.
        input_ids: `[B, T]`, padded on the right; other padding needs `attention_mask` and `position_ids`. Padding holds valid ids.
        temperature: of the distribution that was sampled from, ≥ 0; 0 (greedy) is evaluated at 1, as the engine records it.
        support: what truncated sampling kept at each of the `B * T` ids, `KeptSupport` or `(ids, offsets)`; nothing listed means
            the whole vocabulary.
        attention_mask: `[B, T]`, boolean or exactly 0/1, handed to the model.
        position_ids: `[B, T]` integers, handed to the model: several sequences packed in one row begin again at 0.
        mask: `[B, T]`, boolean or exactly 0/1, a loss mask: the others are 0 and are not computed.
        chunk: positions per block of logits; `mask` alone takes 1024.

    Returns:
        `[B, T]`, float32 (float64 for a float64 model).

    Raises:
        ModelError: with `chunk` or `mask`, the model's backbone or output embedding cannot be found or does more than is
            understood.
        ShapeError, DtypeError, RangeError: an argument does not fit, an id is out of range or outside its support.

    Example:
        >>> table = torch.tensor([[0.0, 1.0], [2.0, 0.0]])  # logits of the next token after token 0, after token 1
        >>> class Bigram(torch.nn.Module):
        ...     def forward(self, input_ids, use_cache=False):
        ...         return type("Output", (), {"logits": table[input_ids]})
        >>> policy_logprobs(Bigram(), torch.tensor([[0, 1, 0]]), temperature=1.0)
        tensor([[ 0.0000, -0.3133, -0.1269]])
    """
    checks.integer(input_ids, "input_ids")
    if input_ids.ndim != 2 or input_ids.shape[1] == 0:
        raise checks.fail(ShapeError, "input_ids", "be shaped [B, T] with T of at least 1", tuple(input_ids.shape))
    checks.number_in(temperature, "temperature", 0.0, float("inf"), open_high=True)
    inputs = _model_inputs(input_ids, attention_mask, position_ids)
    predicted = _predicted(input_ids, inputs)
    options: dict[str, Any] = {"temperature": temperature or 1.0, "support": _shifted(support, input_ids)}
    targets = input_ids[:, 1:]
    if chunk is None and mask is None:
        logprobs = gather_token_logprobs(_own_logits(model, input_ids, inputs)[:, :-1], targets, **options)
        if predicted is not None:
            logprobs = logprobs.masked_fill(~predicted, 0.0)
    else:
        if mask is not None:
            live = checks.mask(mask, "mask")
            checks.same_shape(mask, "mask", input_ids, "input_ids")
            chosen = live[:, 1:]
            predicted = chosen if predicted is None else predicted & chosen
        hidden, head = read_head(model, input_ids, inputs)
        options |= head._asdict() | {"mask": predicted, "chunk": _CHUNK if chunk is None else chunk}
        logprobs = selected_logprobs(hidden[:, :-1], target_ids=targets, **options)
    return torch.cat([logprobs.new_zeros(logprobs.shape[0], 1), logprobs], 1)


def _own_logits(model: nn.Module, input_ids: Tensor, inputs: dict[str, Tensor]) -> Tensor:
    output = model(input_ids, use_cache=False, **inputs) if callable(model) else model
    if not isinstance(logits := getattr(output, "logits", None), Tensor):
        raise checks.fail(ModelError, "model", "return an output with the tensor .logits", type(output).__name__)
    return logits


def _model_inputs(input_ids: Tensor, attention_mask: Tensor | None, position_ids: Tensor | None) -> dict[str, Tensor]:
    inputs = {}
    if attention_mask is not None:
        checks.mask(attention_mask, "attention_mask")
        checks.same_shape(attention_mask, "attention_mask", input_ids, "input_ids")
        inputs["attention_mask"] = attention_mask
    if position_ids is not None:
        checks.integer(position_ids, "position_ids")
        checks.same_shape(position_ids, "position_ids", input_ids, "input_ids")
        inputs["position_ids"] = position_ids
    return inputs


def _predicted(input_ids: Tensor, inputs: dict[str, Tensor]) -> Tensor | None:
    """Tell which of `input_ids[:, 1:]` the token before them predicts; None for all."""
    predicted = None
    if "position_ids" in inputs:
        predicted = inputs["position_ids"].diff(dim=1) == 1
    if "attention_mask" in inputs:
        attended = inputs["attention_mask"].bool()
        both = attended[:, 1:] & attended[:, :-1]
        predicted = both if predicted is None else predicted & both
    return predicted


def _shifted(support: tuple[Tensor, Tensor] | None, input_ids: Tensor) -> KeptSupport | None:
    """Drop the support of the first id of each row, which nothing predicts."""
    if support is None:
        return None
    places = torch.arange(input_ids.numel(), device=input_ids.device).view(input_ids.shape)
    return aligned(support, input_ids).select(places[:, 1:].flatten())
