"""Low-rank adapters (LoRA) on a frozen base: `W x + (alpha / rank) B A x`, trained in float32 through `peft`.

B starts at 0, so that the policy starts as the base, and with the adapters off it is the base again: a reference policy for free.
What is saved are A and B and the identity of the base; what an engine gets are whole weights under the base's own names.
"""

from __future__ import annotations

import contextlib
import copy
import math
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from rosellm.roserlhf import checks
from rosellm.roserlhf.errors import CheckpointError, ModelError, missing_extra
from rosellm.roserlhf.models.identity import weights_hash

if TYPE_CHECKING:
    from peft import PeftModel
    from transformers import LlamaForCausalLM

BASE = "base_sha256"
"""Name under which saved adapters carry the hash of the base they belong to: 32 bytes."""
_INSIDE, _ADAPTER = "base_model.model.", ".default"


def with_adapters(model: LlamaForCausalLM, rank: int, *, alpha: float | None = None, seed: int = 0) -> PeftModel:
    r"""Freeze a model and put adapters on all its linear layers but the output embedding: the same for the same seed.

    .. math:: W' = W + \tfrac{\alpha}{r}\, B A,\qquad A \in \mathbb R^{r\times n}\text{ random},\ B = 0 \in \mathbb R^{m\times r}

    Source: Hu et al. 2021, Section 4.1, https://arxiv.org/abs/2106.09685; all linear layers as in Dettmers et al. 2023,
    https://arxiv.org/abs/2305.14314. There is no dropout: sampling and learning compute one function.

    Args:
        model: it is wrapped in place; only A and B are trainable afterwards.
        rank: r, of every adapter.
        alpha: numerator of the scale; default twice the rank.
        seed: of the initial A; the global random state is left as it was.

    Raises:
        MissingExtraError: `peft` is not installed.
        ModelError: the model has adapters already.
    """
    checks.number_in(rank, "rank", 1, math.inf)
    if alpha is not None:
        checks.number_in(alpha, "alpha", 0, math.inf, open_low=True, open_high=True)
    if has_adapters(model) or getattr(model, "peft_config", None):
        raise checks.fail(ModelError, "model", "have no adapters yet", type(model).__name__)
    try:
        from peft import LoraConfig, get_peft_model
    except ModuleNotFoundError as error:
        raise missing_extra(error) from error
    base = _identity(model)
    options = LoraConfig(
        r=rank,
        lora_alpha=2 * rank if alpha is None else alpha,  # type: ignore[arg-type]  # a scale, which peft only divides by the rank
        target_modules="all-linear",
        lora_dropout=0.0,
        bias="none",
        task_type="CAUSAL_LM",
    )
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # peft asks transformers by a name that it gives up
        adapted: Any = get_peft_model(model, options)
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in adapter_parameters(adapted).items():
        if ".lora_A." in name:
            first = torch.empty(parameter.shape)
            nn.init.kaiming_uniform_(first, a=math.sqrt(5), generator=generator)
            parameter.data.copy_(first)
    adapted.register_buffer(BASE, base, persistent=False)
    adapted.eval()
    return adapted  # type: ignore[no-any-return]


def has_adapters(model: nn.Module) -> TypeGuard[PeftModel]:
    """Tell whether a model comes from `with_adapters`."""
    peft = sys.modules.get("peft")
    return peft is not None and isinstance(model, peft.PeftModel)


def _identity(model: nn.Module) -> Tensor:
    named = {name: parameter.detach() for name, parameter in model.named_parameters()}
    return torch.frombuffer(bytearray.fromhex(weights_hash(named)), dtype=torch.uint8)


def adapter_parameters(model: PeftModel) -> dict[str, nn.Parameter]:
    """The parameters of the adapters under the names that `peft` saves them by."""
    return {name.replace(_ADAPTER, ""): parameter for name, parameter in model.named_parameters() if parameter.requires_grad}


def base_identity(model: PeftModel) -> Tensor:
    """SHA-256 of the base under its adapters, `[32]` bytes."""
    identity = getattr(model, BASE, None)
    if not isinstance(identity, Tensor):
        raise checks.fail(ModelError, "model", "get its adapters from with_adapters", type(model).__name__)
    return identity.detach().cpu().clone()


def check_base(model: PeftModel, saved: Tensor | None) -> None:
    """Require that saved adapters were trained on this base.

    Raises:
        CheckpointError: they were trained on another, or do not say on which.
    """
    own = base_identity(model)
    if saved is None or not torch.equal(saved.cpu(), own):
        got = "no word of their base" if saved is None else f"those of {as_text(saved)}"
        fix = "load the model that they were trained on"
        raise checks.fail(CheckpointError, "adapters", f"belong to the base {as_text(own)}", got, fix=fix)


def as_text(identity: Tensor) -> str:
    """Write a hash as hexadecimal digits."""
    return bytes(identity.cpu().to(torch.uint8).flatten().tolist()).hex()


def merged(model: PeftModel) -> dict[str, Tensor]:
    r"""Whole weights :math:`W + \tfrac{\alpha}{r} BA` under the names of the base, on the CPU; nothing of the model is changed."""
    tensors: dict[str, Tensor] = {}
    layers: dict[str, Any] = {name: module for name, module in model.named_modules() if hasattr(module, "get_delta_weight")}
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if ".lora_" in name:
                continue
            owner, _, _ = name.rpartition(".base_layer.")
            weight = parameter.detach()
            if owner and name.endswith(".weight"):
                delta = layers[owner].get_delta_weight("default")
                weight = (weight.to(torch.promote_types(weight.dtype, torch.float32)) + delta).to(weight.dtype)
            plain = name.removeprefix(_INSIDE).replace(".base_layer.", ".")
            tensors[plain] = weight.to("cpu", copy=True).contiguous()
    return tensors


@contextlib.contextmanager
def adapters_off(model: PeftModel) -> Iterator[None]:
    """Make the model its base inside the block: the reference policy. It changes the model for every thread that uses it."""
    wanted = {name: parameter.requires_grad for name, parameter in model.named_parameters()}
    try:
        with model.disable_adapter():
            yield
    finally:
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(wanted[name])


def export_adapters(model: PeftModel, folder: Path, *, source: str) -> None:
    """Write the adapters alone, as `PeftModel.from_pretrained(base, folder)` reads them.

    Args:
        folder: made if it is not there.
        source: what names the base; written beside them for whoever loads them, and not looked up here.
    """
    folder.mkdir(parents=True, exist_ok=True)
    about = copy.copy(model.peft_config["default"])
    about.base_model_name_or_path, about.inference_mode = source, True
    about.save_pretrained(str(folder))
    tensors = {name: parameter.detach().cpu().contiguous() for name, parameter in adapter_parameters(model).items()}
    save_file(tensors, folder / "adapter_model.safetensors", metadata={"format": "pt", BASE: as_text(base_identity(model))})
