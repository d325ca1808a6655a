"""The comparison of a model's logits with those of its head: the rounding of a long sum is no difference, a factor is one."""

from __future__ import annotations

import pytest
import torch

from rosellm.roserlhf.errors import ModelError
from rosellm.roserlhf.objective.causal_head import Head, _compare


def test_another_order_of_a_long_sum_is_no_difference_and_a_factor_is() -> None:
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(4, 576, generator=generator) + 6
    weight = torch.randn(512, 576, generator=generator)
    weight -= weight.mean(1, keepdim=True)  # large terms that cancel, as the hidden states of trained models have them
    exact = (hidden.double() @ weight.double().T).float()
    one_by_one = torch.zeros_like(exact)  # how exact a machine's own product is depends on the machine
    for hidden_part, weight_part in zip(hidden.T, weight.T, strict=True):
        one_by_one += hidden_part[:, None] * weight_part
    assert (one_by_one - exact).abs().max() > 8 * 1.2e-7 * (1 + exact.abs().max())
    _compare(exact, hidden, Head(weight, None, None, None))
    _compare(one_by_one, hidden, Head(weight, None, None, None))
    with pytest.raises(ModelError, match="compute its logits as"):
        _compare(exact * 1.001, hidden, Head(weight, None, None, None))
