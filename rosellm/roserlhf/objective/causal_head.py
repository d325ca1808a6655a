"""A causal language model of Hugging Face's kind -> its last hidden states and what turns them into logits."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from rosellm.roserlhf import checks
from rosellm.roserlhf.errors import ModelError
from rosellm.roserlhf.masked import at_least_float32
from rosellm.roserlhf.objective.logprobs import final_logits

_FACTORS = {
    "logit_scale": 1,  # Cohere
    "lm_head_multiplier": 1,  # Falcon-H1
    "output_multiplier": 1,  # Muse
    "logits_scaling": -1,  # Granite
    "logits_mup_width_multiplier": -1,  # Inkling
}
"""Names under which configurations keep a factor of the logits: 1 for one that multiplies, -1 for one that divides."""

_MULTIPLY_BY_LOGITS_SCALING = ("hyperclovax",)
_FIX = "call policy_logprobs without chunk= and mask=, which uses the model's own logits"


class Head(NamedTuple):
    """`logits = softcap * tanh(scale * (hidden @ weight.T + bias) / softcap)`."""

    weight: Tensor
    bias: Tensor | None
    scale: float | None
    softcap: float | None


def read_head(model: nn.Module, input_ids: Tensor, inputs: Mapping[str, Tensor]) -> tuple[Tensor, Head]:
    """Run the model but for its logits and return the hidden states `[B, T, d]`, in the graph, and the head.

    The last position's logits are computed by the model itself and compared with what the head gives, to rounding.

    Raises:
        ModelError: no backbone or output embedding is found, the output embedding is no plain linear layer, the model has no
            `logits_to_keep`, or its logits are not those of the head.
    """
    causal = _causal_model(model)
    head = _head(causal)
    if "logits_to_keep" not in inspect.signature(type(causal).forward).parameters:
        raise checks.fail(ModelError, "model", "take logits_to_keep", type(causal).__name__, fix=_FIX)
    seen: list[Tensor] = []
    hook = causal.base_model.register_forward_hook(lambda _module, _inputs, output: seen.append(output[0]))
    try:
        own = model(input_ids, use_cache=False, logits_to_keep=1, **inputs).logits[:, -1]
    finally:
        hook.remove()
    if len(seen) != 1:
        raise checks.fail(ModelError, "model", "run its backbone once", f"{len(seen)} runs of it", fix=_FIX)
    _compare(own.detach(), seen[0][:, -1].detach(), head)
    return seen[0], head


def _causal_model(model: nn.Module) -> Any:
    """Find the model that has a backbone and an output embedding, inside of wrappers (DDP, PEFT, a compiled module)."""
    modules: Iterator[Any] = model.modules()
    for module in modules:
        if hasattr(type(module), "get_output_embeddings") and hasattr(type(module), "base_model_prefix"):
            if module.base_model is module or module.get_output_embeddings() is None:
                break
            return module
    requirement = "be a causal language model with base_model and get_output_embeddings()"
    raise checks.fail(ModelError, "model", requirement, type(model).__name__, fix=_FIX)


def _head(causal: Any) -> Head:
    layer = causal.get_output_embeddings()
    plain = isinstance(layer, nn.Linear) and type(layer).forward is nn.Linear.forward and "forward" not in vars(layer)
    hooked = any(vars(layer).get(hooks) for hooks in ("_forward_hooks", "_forward_pre_hooks", "_modules"))
    if not plain or hooked or {name for name, _ in layer.named_parameters()} - {"weight", "bias"}:
        requirement = "have a plain nn.Linear without hooks or adapters as its output embedding"
        raise checks.fail(ModelError, "model", requirement, type(layer).__name__, fix=_FIX)
    if hasattr(layer.weight, "full_tensor"):
        requirement = "have a whole, local output embedding outside of its forward"
        fix = f"{_FIX}, or call selected_logprobs inside the forward of the module that gathers it"
        raise checks.fail(ModelError, "model", requirement, "a DTensor", fix=fix)
    config = causal.config.get_text_config() if hasattr(causal.config, "get_text_config") else causal.config
    scale = 1.0
    for name, power in _FACTORS.items():
        value = getattr(config, name, None)
        if value is not None:
            multiplies = power == 1 or (name == "logits_scaling" and config.model_type in _MULTIPLY_BY_LOGITS_SCALING)
            scale *= value if multiplies else 1 / value
    return Head(layer.weight, layer.bias, None if scale == 1.0 else scale, getattr(config, "final_logit_softcapping", None))


@torch.no_grad()
def _compare(own: Tensor, hidden: Tensor, head: Head) -> None:
    """Require that the head gives the model's own logits of the last position, to the rounding of the coarsest type involved."""

    def read() -> tuple[Tensor, Tensor]:
        logits = nn.functional.linear(hidden.to(head.weight.dtype), head.weight, head.bias)
        expected = final_logits(at_least_float32(logits.to(own.dtype)), 1.0, head.scale, head.softcap)
        coarsest = max(torch.finfo(dtype).eps for dtype in (own.dtype, hidden.dtype, logits.dtype, torch.float32))
        terms = max(8.0, 2 * hidden.shape[-1] ** 0.5)  # a sum of more terms rounds further, by the square root of their number
        limit = terms * coarsest * (1 + own.abs().nan_to_num().amax())
        return own, (expected - own).abs() > limit  # False for NaN: a position that nothing attends to says nothing

    requirement = "compute its logits as softcap * tanh(scale * (hidden @ weight.T + bias) / softcap), as its configuration says"
    checks.each("model", requirement, read, ModelError, fix=_FIX)
