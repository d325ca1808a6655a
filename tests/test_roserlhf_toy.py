"""The toy: what a batch contains, what one update sees, and that it learns for every seed."""

from __future__ import annotations

import dataclasses
import importlib.util
import math
from pathlib import Path
from typing import Any

import pytest
import torch

from rosellm.roserlhf.losses import clipped_policy_loss, gather_token_logprobs

EXAMPLE = Path(__file__).parent.parent / "examples" / "agentic_rl_toy.py"


def load() -> Any:
    spec = importlib.util.spec_from_file_location("agentic_rl_toy", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


toy = load()


def rollouts(group_size: int = 4, seed: int = 0, policy: Any = None) -> Any:
    return toy.collect_rollouts(policy or toy.TablePolicy(), group_size=group_size, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("seed", range(20))
def test_all_four_tasks_are_learned(seed: int) -> None:
    assert toy.train(steps=150, group_size=32, seed=seed) == 1.0


def test_the_command_line_ends_with_the_accuracy(capsys: pytest.CaptureFixture[str]) -> None:
    assert toy.main(["--steps", "150", "--group-size", "32", "--seed", "7"]) == 1.0
    assert capsys.readouterr().out.splitlines()[-1] == "greedy accuracy: 1.000"


def test_the_same_seed_gives_the_same_run(capsys: pytest.CaptureFixture[str]) -> None:
    outputs = []
    for global_seed in (0, 1):
        torch.manual_seed(global_seed)  # the run has a stream of its own
        before = torch.get_rng_state()
        toy.train(steps=30, group_size=8, seed=3)
        assert torch.get_rng_state().equal(before)
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1]


def test_a_batch_is_immutable_evidence() -> None:
    batch = rollouts(group_size=5)
    assert toy.TablePolicy().logits.shape == (4, 3, 2)
    assert batch.group_size == 5
    assert batch.task_ids.tolist() == [0] * 5 + [1] * 5 + [2] * 5 + [3] * 5
    assert batch.actions.shape == batch.old_logprobs.shape == (20, 3)
    assert batch.rewards.shape == (20,)
    # untrained, every action has probability one half
    assert batch.old_logprobs.allclose(torch.tensor(math.log(0.5)))
    assert not any(t.requires_grad for t in (batch.actions, batch.old_logprobs, batch.rewards))
    with pytest.raises(dataclasses.FrozenInstanceError):
        batch.rewards = torch.ones(20)


def test_the_verifier_wants_the_whole_path() -> None:
    tasks = torch.arange(4)
    assert toy.TARGET_PATHS.tolist() == [[0, 0, 1], [0, 1, 0], [1, 0, 1], [1, 1, 0]]
    assert toy.verify(tasks, toy.TARGET_PATHS).tolist() == [1.0] * 4
    for turn in range(3):
        wrong = toy.TARGET_PATHS.clone()
        wrong[:, turn] = 1 - wrong[:, turn]
        assert toy.verify(tasks, wrong).tolist() == [0.0] * 4
    batch = rollouts(group_size=64)
    assert batch.rewards.tolist() == [
        float(a == toy.TARGET_PATHS[t].tolist()) for t, a in zip(batch.task_ids, batch.actions.tolist(), strict=True)
    ]


def test_ratios_are_one_before_the_first_update() -> None:
    policy = toy.TablePolicy()
    with torch.no_grad():
        policy.logits.copy_(torch.linspace(-1, 1, 24).view(4, 3, 2))
    batch = rollouts(policy=policy)
    assert gather_token_logprobs(policy(batch.task_ids), batch.actions).equal(batch.old_logprobs)


def test_a_group_without_a_success_teaches_nothing() -> None:
    policy, batch = toy.TablePolicy(), rollouts()
    failed = dataclasses.replace(batch, rewards=torch.zeros_like(batch.rewards))
    advantages = toy.token_advantages(failed)
    assert advantages.eq(0).all()
    current = gather_token_logprobs(policy(batch.task_ids), batch.actions)
    clipped_policy_loss(current, batch.old_logprobs, advantages, torch.ones_like(batch.actions)).loss.backward()
    assert policy.logits.grad.eq(0).all()


def test_one_path_has_one_advantage_for_all_its_actions() -> None:
    batch = dataclasses.replace(rollouts(group_size=4), rewards=torch.tensor([1.0, 0.0, 0.0, 1.0] * 4))
    # mean 1/2, deviation 1/2
    assert toy.token_advantages(batch).tolist() == [[a] * 3 for a in [1.0, -1.0, -1.0, 1.0] * 4]


@pytest.mark.parametrize("arguments", [["--group-size", "1"], ["--steps", "0"], ["--seed", "-1"], ["--steps", "many"]])
def test_bad_arguments_end_with_one_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        toy.main(arguments)
    assert end.value.code == 2
    assert arguments[0] in capsys.readouterr().err.splitlines()[-1]
