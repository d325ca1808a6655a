"""Nothing above `info` is said about a healthy batch, whatever its layout."""

from __future__ import annotations

from typing import Any

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


class Recurrent(torch.nn.Module):
    """A small language model: whatever it learns about a token shows in every context."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(vocabulary, 32)
        self.memory = torch.nn.GRU(32, 32, batch_first=True)
        self.head = torch.nn.Linear(32, vocabulary)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.memory(self.embedding(ids))[0])  # type: ignore[no-any-return]


@pytest.mark.parametrize("said", [{"lag": 0, "before_update": False}, {}])
def test_what_policy_gradient_updates_do_to_a_policy_is_no_temperature(said: dict[str, Any]) -> None:
    """Updates make a policy sharper: the log-ratio then is a function of the log-probability, as after a temperature."""
    torch.manual_seed(0)
    model, looked_alike = Recurrent(12), 0
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(3):
        ids = torch.randint(2, 12, (6, 3)).repeat_interleave(4, 0)
        with torch.no_grad():
            for _ in range(8):
                drawn = torch.distributions.Categorical(logits=model(ids)[:, -1]).sample()
                ids = torch.cat([ids, drawn[:, None]], 1)
        rewards = (ids[:, 3:] == 5).float().sum(1)
        advantages = (rewards.view(6, 4) - rewards.view(6, 4).mean(1, keepdim=True)).flatten()
        behaviour = None
        for epoch in range(3):
            scored = torch.log_softmax(model(ids)[:, 2:-1], -1).gather(2, ids[:, 3:, None])[..., 0]
            behaviour = scored.detach() if behaviour is None else behaviour
            if epoch:
                report = check_batch(
                    action_mask=torch.ones(24, 8, dtype=torch.bool), old_logprobs=behaviour, current_logprobs=scored, **said
                )
                assert report.worst in (None, "info"), report
                looked_alike += any(finding.check == "temperature_mismatch" for finding in report.findings)
            loss = -(torch.exp(scored - behaviour) * advantages[:, None]).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    assert looked_alike  # else this test says nothing


@pytest.mark.parametrize(
    ("temperature", "said", "severity"), [(0.6, {}, "warning"), (1.5, {}, "info"), (1.5, {"temperature": 1.5}, "warning")]
)
def test_R11_a_temperature_on_data_that_may_be_older_than_the_weights(
    temperature: float, said: dict[str, Any], severity: str
) -> None:
    logits = 3 * torch.randn(400, generator=torch.Generator().manual_seed(0))
    tempered, plain = torch.nn.functional.logsigmoid(logits / temperature)[None], torch.nn.functional.logsigmoid(logits)[None]
    report = check_batch(action_mask=[[True] * 400], old_logprobs=tempered, current_logprobs=plain, before_update=False, **said)
    assert [(f.check, f.severity) for f in report.findings] == [("temperature_mismatch", severity)]


@pytest.mark.parametrize("made", ["whitened over the batch after the group baseline", "of rewards with a KL penalty"])
def test_advantages_that_are_not_zero_in_a_uniform_group_by_design(made: str) -> None:
    """REINFORCE++ with a group baseline, and GRPO whose penalty is part of a reward that the caller did not pass."""
    rewards = torch.tensor([1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0])
    mask = torch.arange(6) < torch.tensor([3, 6, 4, 5, 2, 6, 3, 3, 4, 6, 5, 1])[:, None]
    if made.startswith("whitened"):
        centred = (rewards.view(3, 4) - rewards.view(3, 4).mean(1, keepdim=True)).flatten()
        tokens = centred[:, None].expand(12, 6)[mask]
        advantages = (centred - tokens.mean()) / tokens.std()
    else:
        penalised = (rewards - 0.05 * torch.rand(12, generator=torch.Generator().manual_seed(0))).view(3, 4)
        advantages = ((penalised - penalised.mean(1, keepdim=True)) / penalised.std(1, keepdim=True)).flatten()
    report = check_batch(action_mask=mask, rewards=rewards, advantages=advantages, group_ids=[0] * 4 + [1] * 4 + [2] * 4)
    assert report.worst == "info", report
