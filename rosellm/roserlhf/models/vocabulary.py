"""Embeddings are often padded to a round size: rows beyond the tokenizer stand for no text, and must be neither sampled nor learnt.

`hidden states → lm_head → logits of the first N ids`: the softmax of sampling and that of learning are over the same ids then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from rosellm.roserlhf import checks

if TYPE_CHECKING:
    from peft import PeftModel
    from transformers import LlamaForCausalLM, PreTrainedTokenizerFast


class _Narrowing:
    """A forward hook that cuts the logits off."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __call__(self, module: nn.Module, inputs: Any, logits: Tensor) -> Tensor:
        return logits[..., : self.count]


def narrow_logits(model: LlamaForCausalLM, count: int) -> None:
    """Let a model give logits of the first `count` ids only; its weights, and what is exported of it, stay whole.

    Whatever evaluates the model sees the same ids: learner, cloning, `generate` of `transformers`, and a `LocalEngine` made of it.
    The rows beyond get no gradient from the output. `policy_logprobs` with `chunk` or `mask`, which reads the weights of the
    output layer itself, refuses such a model.

    Args:
        model: given whole logits so far.
        count: ids of the tokenizer.
    """
    checks.number_in(count, "count", 1, model.config.vocab_size)
    if count < model.config.vocab_size:
        model.lm_head.register_forward_hook(_Narrowing(count))


def id_count(tokenizer: PreTrainedTokenizerFast) -> int:
    """Return the largest id of a tokenizer plus one: more than it has tokens where ids were left out."""
    return 1 + max(tokenizer.get_vocab().values(), default=-1)


def spoken_ids(model: LlamaForCausalLM | PeftModel) -> int:
    """Count the ids that a model gives logits of."""
    hooks = [hook for module in model.modules() for hook in module._forward_hooks.values() if isinstance(hook, _Narrowing)]
    return min([int(model.config.vocab_size), *(hook.count for hook in hooks)])
