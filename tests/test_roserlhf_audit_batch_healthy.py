"""Nothing above `info` is said about a healthy batch, whatever its layout."""

from __future__ import annotations

import pytest
import torch
from oracles_audit import Shape, healthy_arguments, make_world, with_critic, with_loss

from rosellm.roserlhf.audit import check_batch


@pytest.mark.parametrize("block", range(10))
def test_nothing_above_info_on_random_healthy_batches(block: int) -> None:
    for seed in range(20 * block, 20 * block + 20):
        report = check_batch(**healthy_arguments(seed))
        assert report.worst in (None, "info"), f"seed {seed}\n{report}"


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_nothing_above_info_on_many_healthy_batches(block: int) -> None:
    for seed in range(1000 + 200 * block, 1000 + 200 * block + 200):
        report = check_batch(**healthy_arguments(seed))
        assert report.worst in (None, "info"), f"seed {seed}\n{report}"


def test_a_mask_of_a_supervised_batch_needs_nothing_else() -> None:
    mask = torch.tensor([[0, 0, 1, 1, 1], [0, 1, 1, 0, 0]])
    report = check_batch(action_mask=mask)
    assert report.findings == ()
    assert "empty_rows" in report.checked
    assert report.not_checked["advantage_sign"] == "needs advantages and rewards and group_ids"


def test_a_policy_that_is_certain_records_exact_zeros() -> None:
    world = make_world(0, Shape(certain=0.97, groups=6, members=6, filler="forward"))
    old = world.arguments["old_logprobs"][world.arguments["action_mask"]]
    assert (old > -1e-7).double().mean() > 0.5
    assert check_batch(**world.arguments).worst in (None, "info")


def test_what_stands_outside_the_mask_does_not_matter() -> None:
    world = with_loss(with_critic(make_world(1, Shape(filler="nan"))))
    arguments = world.arguments
    outside = ~arguments["action_mask"]
    before = check_batch(**arguments).to_dict()
    for name in ("current_logprobs", "advantages", "values", "returns", "token_loss"):
        arguments[name] = arguments[name].masked_fill(outside, float("nan"))
    assert check_batch(**arguments).to_dict() == before


def test_the_arguments_are_not_changed() -> None:
    arguments = with_loss(with_critic(make_world(2))).arguments
    before = {name: value.clone() for name, value in arguments.items() if isinstance(value, torch.Tensor)}
    check_batch(**arguments)
    for name, value in before.items():
        torch.testing.assert_close(arguments[name], value, rtol=0, atol=0, equal_nan=True)


def test_gradients_are_left_alone() -> None:
    arguments = make_world(3).arguments
    current = arguments["current_logprobs"].requires_grad_()
    assert check_batch(**arguments).worst in (None, "info")
    assert current.grad is None
