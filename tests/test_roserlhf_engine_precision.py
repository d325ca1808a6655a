"""Engines with coarser weights: what they record is what they sample from, and how far that is from float32."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from loop_models import ask, full_logprobs, request, tiny_model
from torch import Tensor
from transformers import LlamaForCausalLM

from rosellm.roserlhf.engine.local import LocalEngine
from rosellm.roserlhf.engine.matrix import FloatMatrix, Int8Matrix
from rosellm.roserlhf.engine.weights import Precision

CPU = torch.device("cpu")


def test_eight_bits_with_a_scale_for_each_row() -> None:
    # row 1: scale 2.54 / 127 = 0.02, so 1.27 is 63.5 steps, which rounds to the even 64; row 2 is all zero
    weight = torch.tensor([[127.0, -63.0, 1.0], [2.54, 1.27, -0.01], [0.0, 0.0, 0.0]])
    matrix = Int8Matrix(3, 3, CPU, torch.float32)
    matrix.load([weight[:1], weight[1:]])
    assert matrix.weight[0].tolist() == [127, -63, 1]
    assert matrix.weight[1, 0] == 127
    assert matrix.weight[1, 1] in (63, 64)
    assert matrix.weight[2].tolist() == [0, 0, 0]
    assert matrix(torch.eye(3)).T[0].tolist() == weight[0].tolist()
    assert torch.equal(matrix(torch.ones(2, 3))[:, 2], torch.zeros(2))


def test_no_weight_is_off_by_more_than_half_a_step() -> None:
    weight = torch.randn(40, 64, generator=torch.Generator().manual_seed(0)) * torch.logspace(-6, 6, 40)[:, None]
    matrix = Int8Matrix(40, 64, CPU, torch.float32)
    matrix.load([weight])
    kept = matrix.weight.float() * matrix.scales[:, None]
    assert bool(((kept - weight).abs() <= 0.5001 * matrix.scales[:, None]).all())


def test_the_product_is_that_of_the_rounded_weights() -> None:
    generator = torch.Generator().manual_seed(1)
    weight, x = torch.randn(24, 48, generator=generator), torch.randn(5, 48, generator=generator)
    matrix = Int8Matrix(24, 48, CPU, torch.bfloat16)
    matrix.load([weight])
    rounded = matrix.weight.double() * matrix.scales.double()[:, None]
    exact = x.bfloat16().double() @ rounded.T
    # bfloat16 rounds the sum and the scaled sum to 8 bits each
    assert bool(((matrix(x.bfloat16()).double() - exact).abs() <= 2**-7 * exact.abs() + 1e-3).all())


def test_new_values_replace_the_old_ones_in_place() -> None:
    matrix = FloatMatrix(3, 2, CPU, torch.bfloat16)
    where = matrix.weight.data_ptr()
    for n in range(2):
        matrix.load([torch.full((1, 2), 1.0 + n), torch.full((2, 2), 3.0 + n)])
        assert matrix.weight.tolist() == [[1.0 + n] * 2, [3.0 + n] * 2, [3.0 + n] * 2]
        assert matrix.weight.data_ptr() == where


def stands_for(model: LlamaForCausalLM, precision: Precision) -> LlamaForCausalLM:
    """The float32 model that has the engine's rounded weights."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if precision == "int8" and "_proj" in name:
                matrix = Int8Matrix(len(parameter), parameter.shape[1], CPU, torch.bfloat16)
                matrix.load([parameter])
                parameter.copy_(matrix.weight.float() * matrix.scales.float()[:, None])
            else:
                parameter.copy_(parameter.bfloat16())
    return model


@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_coarse_engines_record_what_they_sample_from(precision: Precision) -> None:
    sizes: dict[str, Any] = {"layers": 2, "hidden_size": 64, "heads": 4, "intermediate_size": 64, "sharpness": 8.0}
    engine = LocalEngine(tiny_model(**sizes), version="v0", threads=1, weights=precision)
    requests = [request((n, 3, 5), n, max_tokens=12, temperature=0.8) for n in range(10)]
    found = ask(engine, requests)
    engine.close()
    same_weights, full = stands_for(tiny_model(**sizes), precision), tiny_model(**sizes)
    near: list[Tensor] = []
    far: list[Tensor] = []
    for asked, chunk in zip(requests, found, strict=True):
        for model, gaps in ((same_weights, near), (full, far)):
            exact = full_logprobs(model, (*asked.prompt_ids, *chunk.token_ids), temperature=0.8)[-12:]
            gaps.append((torch.tensor(chunk.logprobs, dtype=torch.float64) - exact).abs())
    # bfloat16 arithmetic is left; it must be the rounded weights' own distribution, not that of the float32 model
    assert torch.cat(near).mean() < 0.05
    assert torch.cat(near).max() < 0.5
    assert 0 < torch.cat(far).mean() < 0.2
