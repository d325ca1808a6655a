"""`reinforce_policy_loss` on advantages that carry a weight of their own: the V-trace policy gradient."""

from __future__ import annotations

import math

from cases_objective import close, gradient, tensor

from rosellm.roserlhf.advantages import v_trace
from rosellm.roserlhf.losses import reinforce_policy_loss


def test_likelihood_of_the_successful_responses() -> None:
    # responses 0 and 2 succeeded: -(-1 - 3 - 2) / 3 over their tokens; with none, and the denominator of the step, a connected 0
    current, ones = tensor([[-1.0, -3.0], [-9.0, -9.0], [-2.0, 5.0]], grad=True), tensor([1.0, 1.0, 1.0])
    out = reinforce_policy_loss(current, ones, tensor([[1, 1], [0, 0], [1, 0]]))
    close(out.loss, 2.0)
    close(gradient(out.loss, current), [[-1 / 3, -1 / 3], [0.0, 0.0], [-1 / 3, 0.0]])
    none = reinforce_policy_loss(current, ones, tensor([[0, 0]] * 3), denominator=3)
    assert none.loss == 0.0
    assert gradient(none.loss, current) == [[0.0, 0.0]] * 3


def test_the_v_trace_policy_gradient_needs_no_loss_of_its_own() -> None:
    # gradient of token t: min(1, ratio) (r + gamma * next target - V), over 3 tokens;
    # targets 1.81515, 2.367, 2.63: .5 (1 + 2.1303 - .5) = 1.31515, 0 + 2.367 - .4 = 1.967, 2 + .63 - .3 = 2.33
    current = tensor([[-1.0, -0.5, -2.0]], grad=True)
    old = current.detach() - tensor([[math.log(ratio) for ratio in (0.5, 2.0, 1.0)]])
    rewards, values = tensor([[1.0, 0.0, 2.0]]), tensor([[0.5, 0.4, 0.3]])
    targets, advantages = v_trace(current.detach() - old, rewards, values, gamma=0.9, bootstrap_value=0.7)
    close(targets, [[1.81515, 2.367, 2.63]])
    close(advantages, [[1.31515, 1.967, 2.33]])
    out = reinforce_policy_loss(current, advantages, tensor([[1, 1, 1]]), old_logprobs=old)
    close(gradient(-out.loss, current), [[1.31515 / 3, 1.967 / 3, 2.33 / 3]])
    close(out.mean_ratio, 3.5 / 3)  # measured, and not used a second time
