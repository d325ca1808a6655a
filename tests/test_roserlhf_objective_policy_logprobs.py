"""The one next-token shift, with the model's own logits and from hidden states."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import transformers
from loop_models import tiny_model
from torch import Tensor, nn

from rosellm.roserlhf.errors import ModelError, RangeError, ShapeError
from rosellm.roserlhf.losses import KeptSupport, clipped_policy_loss, policy_logprobs

SIZES: dict[str, Any] = {
    "vocab_size": 50,
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
IDS = torch.tensor([[3, 4, 5, 6, 7, 8, 9], [9, 3, 3, 1, 2, 4, 10]])
both_ways = pytest.mark.parametrize("chunk", [None, 5], ids=["logits", "hidden"])


def causal(name: str, **options: Any) -> nn.Module:
    """A tiny model of a family, its weights scaled up so that scale and soft-cap matter."""
    torch.manual_seed(0)
    model: nn.Module = getattr(transformers, f"{name}ForCausalLM")(getattr(transformers, f"{name}Config")(**SIZES | options)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.mul_(5)
    return model


@both_ways
@pytest.mark.parametrize("temperature", [1.0, 0.7, 0.0])
def test_aligned_to_the_ids_and_the_first_is_0(chunk: int | None, temperature: float) -> None:
    model = tiny_model(layers=2, dtype=torch.float64)
    found = policy_logprobs(model, IDS, temperature=temperature, chunk=chunk)
    logits = model(IDS).logits / (temperature or 1.0)
    assert found[:, 0].tolist() == [0.0, 0.0]
    for row, t in ((0, 1), (1, 3), (1, 6)):
        torch.testing.assert_close(found[row, t], logits[row, t - 1].log_softmax(0)[IDS[row, t]], rtol=1e-12, atol=1e-12)


def test_the_default_is_the_models_own_logits_bit_for_bit() -> None:
    model = tiny_model(layers=2)
    for temperature in (1.0, 0.7, 0.0):
        logits = model(IDS, use_cache=False).logits[:, :-1]
        logits = logits if temperature in (0.0, 1.0) else logits / temperature
        wanted = logits.log_softmax(-1).gather(-1, IDS[:, 1:, None]).squeeze(-1)
        assert torch.equal(policy_logprobs(model, IDS, temperature=temperature)[:, 1:], wanted)


@both_ways
def test_R01_the_token_space_mask_belongs_to_the_result_as_it_is(chunk: int | None) -> None:
    # tokens [p0, p1, p2, r0, r1], mask [0, 0, 0, 1, 1]: r0 is predicted by the hidden state of p2, r1 by that of r0
    model, ids, mask = tiny_model(), torch.tensor([[1, 2, 3, 4, 5]]), torch.tensor([[0, 0, 0, 1, 1]])
    seen: list[Tensor] = []
    hook = model.base_model.register_forward_hook(lambda _module, _inputs, output: seen.append(output[0]))
    current = policy_logprobs(model, ids, temperature=1.0, chunk=chunk)
    hook.remove()
    out = clipped_policy_loss(current, current.detach(), torch.ones_like(current), mask)
    (at_hidden,) = torch.autograd.grad(out.loss, seen)
    assert at_hidden.abs().sum(-1).gt(0).tolist() == [[False, False, True, True, False]]


@both_ways
def test_R11_the_temperature_of_the_sampler(chunk: int | None) -> None:
    # logits [0, ln 3] at temperature 0.5: probabilities [1, 9] / 10, so id 1 has ln 0.9
    model = tiny_model(vocabulary_size=2, dtype=torch.float64)
    model.lm_head = nn.Linear(16, 2, dtype=torch.float64)
    nn.init.zeros_(model.lm_head.weight)
    model.lm_head.bias = nn.Parameter(torch.tensor([0.0, math.log(3)], dtype=torch.float64))
    found = policy_logprobs(model, torch.tensor([[0, 1]]), temperature=0.5, chunk=chunk)
    assert found.tolist() == [[0.0, pytest.approx(math.log(0.9), abs=1e-12)]]


FAMILIES = [
    ("Llama", {}),
    ("Llama", {"tie_word_embeddings": True}),
    ("Gemma2", {"head_dim": 4, "final_logit_softcapping": 2.0}),
    ("Cohere", {"logit_scale": 0.3}),
    ("Granite", {"logits_scaling": 3.0}),
    ("HyperCLOVAX", {"logits_scaling": 0.3}),
    ("Phi", {}),
]


@pytest.mark.parametrize(("name", "options"), FAMILIES, ids=lambda value: value if isinstance(value, str) else "+".join(value))
def test_hidden_states_give_the_models_own_numbers_and_gradients(name: str, options: dict[str, Any]) -> None:
    model = causal(name, **options).double()
    results = []
    for chunk in (None, 5):
        found = policy_logprobs(model, IDS, temperature=0.7, chunk=chunk)
        model.zero_grad()
        found.square().sum().backward()
        results.append((found, [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]))
    torch.testing.assert_close(results[0][0], results[1][0], rtol=1e-6, atol=1e-6)  # some of these models compute in float32 inside
    for one, other in zip(results[0][1], results[1][1], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


def test_a_mask_leaves_out_the_others() -> None:
    model, mask = tiny_model(dtype=torch.float64), torch.tensor([[1, 0, 0, 1, 1, 0, 0], [0, 0, 1, 0, 0, 0, 1]])
    plain = policy_logprobs(model, IDS, temperature=0.7)
    found = policy_logprobs(model, IDS, temperature=0.7, mask=mask)
    torch.testing.assert_close(found, plain.masked_fill(mask == 0, 0.0), rtol=1e-12, atol=1e-12)


@both_ways
@pytest.mark.parametrize("masked", [False, True])
def test_packed_rows_are_the_rows_alone(chunk: int | None, masked: bool) -> None:
    model = tiny_model(layers=2, dtype=torch.float64)
    rows = [[3, 4, 5, 6], [7, 8], [9], [1, 2, 3]]
    packed = torch.tensor([[token for row in rows for token in row]])
    positions = torch.tensor([[t for row in rows for t in range(len(row))]])
    mask = torch.ones_like(packed) if masked and chunk else None
    found = policy_logprobs(model, packed, temperature=0.7, position_ids=positions, chunk=chunk, mask=mask)
    alone = torch.cat([policy_logprobs(model, torch.tensor([row]), temperature=0.7)[0] for row in rows])
    torch.testing.assert_close(found[0], alone, rtol=1e-10, atol=1e-10)
    assert (found[positions == 0] == 0).all()


@both_ways
def test_left_padding_with_an_attention_mask(chunk: int | None) -> None:
    model = tiny_model(layers=2, dtype=torch.float64)
    padded, attended = torch.tensor([[0, 0, 0, 4, 5, 6], [1, 2, 3, 4, 5, 6]]), torch.tensor([[0, 0, 0, 1, 1, 1], [1] * 6])
    positions = (attended.cumsum(1) - 1).clamp(min=0)
    found = policy_logprobs(model, padded, temperature=1.0, attention_mask=attended, position_ids=positions, chunk=chunk)
    assert found[0, :4].tolist() == [0.0] * 4  # the first token that is attended to is predicted by nothing
    torch.testing.assert_close(found[0, 3:], policy_logprobs(model, padded[:1, 3:], temperature=1.0)[0], rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(found[1], policy_logprobs(model, padded[1:], temperature=1.0)[0], rtol=1e-10, atol=1e-10)


@both_ways
def test_a_support_is_aligned_to_the_ids_too(chunk: int | None) -> None:
    # prompt [3, 4], sampled 5 from {5, 6} and 6 from {1, 6}; then 7 untruncated
    model, ids = tiny_model(dtype=torch.float64), torch.tensor([[3, 4, 5, 6, 7]])
    support = KeptSupport.of([None, None, [5, 6], [1, 6], None])
    found = policy_logprobs(model, ids, temperature=0.7, support=support, chunk=chunk)
    logits = model(ids).logits[0] / 0.7
    torch.testing.assert_close(found[0, 2], logits[1, [5, 6]].log_softmax(0)[0], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(found[0, 3], logits[2, [1, 6]].log_softmax(0)[1], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(found[0, 4], logits[3].log_softmax(0)[7], rtol=1e-12, atol=1e-12)
    with pytest.raises(RangeError, match="target_ids must be in their support"):
        policy_logprobs(model, ids, temperature=0.7, support=KeptSupport.of([None, [5, 6], [1, 6], None, None]), chunk=chunk)


@both_ways
def test_a_row_of_one_token_predicts_nothing(chunk: int | None) -> None:
    found = policy_logprobs(tiny_model(), torch.tensor([[3], [4]]), temperature=1.0, chunk=chunk)
    assert found.tolist() == [[0.0], [0.0]]


@both_ways
def test_bfloat16_models_give_float32(chunk: int | None) -> None:
    model = tiny_model(layers=2, dtype=torch.bfloat16)
    found = policy_logprobs(model, IDS, temperature=0.7, chunk=chunk)
    wanted = (model(IDS).logits.double() / 0.7).log_softmax(-1)[:, :-1].gather(-1, IDS[:, 1:, None]).squeeze(-1)
    assert found.dtype == torch.float32
    assert (found[:, 1:].double() - wanted).abs().max() < (1e-4 if chunk is None else 0.1)


def test_a_wrapped_model_is_found() -> None:
    class Wrapper(nn.Module):
        def __init__(self, module: nn.Module) -> None:
            super().__init__()
            self.module = module

        def forward(self, *args: Any, **how: Any) -> Any:
            return self.module(*args, **how)

    model = tiny_model()
    assert torch.equal(
        policy_logprobs(Wrapper(model), IDS, temperature=1.0, chunk=5), policy_logprobs(model, IDS, temperature=1.0, chunk=5)
    )


class OddHead(nn.Linear):
    def forward(self, input: Tensor) -> Tensor:  # noqa: A002
        return super().forward(input) * 2


def odd_class(model: Any) -> None:
    model.lm_head = OddHead(16, 11, bias=False)


def hooked(model: Any) -> None:
    model.lm_head.register_forward_hook(lambda _module, _inputs, output: output * 2)


def adapted(model: Any) -> None:
    model.lm_head.adapter = nn.Linear(16, 11)


def scaled_elsewhere(model: Any) -> None:
    forward = type(model).forward

    class Scaled(type(model)):  # type: ignore[misc]
        def forward(self, input_ids: Tensor, use_cache: bool = False, logits_to_keep: int = 0) -> Any:
            return SimpleNamespace(logits=forward(self, input_ids, use_cache=use_cache, logits_to_keep=logits_to_keep).logits * 1.5)

    model.__class__ = Scaled


def keeps_all_logits(model: Any) -> None:
    class Old(type(model)):  # type: ignore[misc]
        def forward(self, input_ids: Tensor, use_cache: bool = False) -> Any:
            raise AssertionError("never called")

    model.__class__ = Old


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (odd_class, "model must have a plain nn.Linear without hooks or adapters as its output embedding, got OddHead"),
        (hooked, "model must have a plain nn.Linear without hooks or adapters"),
        (adapted, "model must have a plain nn.Linear without hooks or adapters"),
        (scaled_elsewhere, "model must compute its logits as softcap .*, as its configuration says, got the value"),
        (keeps_all_logits, "model must take logits_to_keep, got Old"),
    ],
)
def test_a_head_that_does_more_is_an_error_and_never_a_guess(change: Any, message: str) -> None:
    model = tiny_model()
    change(model)
    with pytest.raises(ModelError, match=rf"{message}.*; call policy_logprobs without chunk= and mask="):
        policy_logprobs(model, IDS, temperature=1.0, chunk=5)


def test_a_model_without_a_backbone_is_an_error() -> None:
    with pytest.raises(ModelError, match=r"model must be a causal language model with base_model .*, got Linear"):
        policy_logprobs(nn.Linear(2, 2), IDS, temperature=1.0, chunk=5)


def test_what_does_not_fit_is_an_error() -> None:
    model = tiny_model()
    with pytest.raises(ShapeError, match=r"input_ids must be shaped \[B, T\]"):
        policy_logprobs(model, IDS[0], temperature=1.0)
    with pytest.raises(RangeError, match=r"temperature must be in \[0, inf\), got -1.0"):
        policy_logprobs(model, IDS, temperature=-1.0)
    for name in ("mask", "attention_mask", "position_ids"):
        wrong: dict[str, Any] = {name: torch.ones(2, 6, dtype=torch.int64)}
        with pytest.raises(ShapeError, match=rf"{name} must have the shape of input_ids \(2, 7\), got \(2, 6\)"):
            policy_logprobs(model, IDS, temperature=1.0, **wrong)
