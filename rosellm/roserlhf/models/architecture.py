"""`config.json` -> whether the model can be trained here: a dense Llama whose arithmetic is that of `transformers`, unquantised."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rosellm.roserlhf import checks
from rosellm.roserlhf.errors import ModelError

TRAINABLE = ("llama",)
"""Values of `model_type` that learner and engine compute alike."""


def check_config(about: Mapping[str, Any], where: str) -> None:
    """Require a configuration that says of itself that it can be trained here.

    Args:
        about: the content of `config.json`.
        where: named in the error.

    Raises:
        ModelError: a mixture of experts, quantised weights, code of its own, or another architecture.
    """
    kind = about.get("model_type")
    experts = _experts(about)
    if experts is not None:
        raise checks.fail(
            ModelError,
            "model",
            "be dense",
            f"the mixture of experts {kind!r} ({experts}) in {where}: which experts a sampled token took is not recorded, so that "
            "the log-probabilities of sampling and learning could be those of different experts",
        )
    if about.get("quantization_config"):
        raise checks.fail(ModelError, "model", "have weights that can be trained", f"quantised ones in {where}")
    if about.get("auto_map"):
        fix = "no code of a model is run here; remove auto_map if the model is a plain one"
        raise checks.fail(ModelError, "model", "need no code of its own", f"auto_map in {where}", fix=fix)
    if kind not in TRAINABLE:
        raise checks.fail(ModelError, "model", f"be of type {' or '.join(TRAINABLE)}", f"{kind!r} in {where}")


def _experts(about: Mapping[Any, Any]) -> str | None:
    """Say by what a configuration gives itself away as a mixture of experts, sub-configurations included."""
    for name, value in about.items():
        if isinstance(value, Mapping):
            below = _experts(value)
            if below is not None:
                return below
        elif "expert" in str(name) and isinstance(value, int) and not isinstance(value, bool) and value > 1:
            return f"{name} = {value}"
    kind = about.get("model_type")
    return f"model_type = {kind!r}" if isinstance(kind, str) and ("moe" in kind or kind == "mixtral") else None
