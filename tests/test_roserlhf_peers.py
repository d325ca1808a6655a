"""Laws that training code in public has been seen to break, one test each: what must hold, and the number by hand.

Every test stands alone and takes milliseconds; the files of the parts prove the same laws at length.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from loop_worlds import outcome, tiny
from torch import Tensor

from rosellm.roserlhf import advantages, losses
from rosellm.roserlhf.batching.credit import group_rows, total_reward
from rosellm.roserlhf.batching.rows import row_of
from rosellm.roserlhf.batching.scored import PerGroup
from rosellm.roserlhf.codec.markers import MarkerCodec
from rosellm.roserlhf.errors import GroupError, MaskError
from rosellm.roserlhf.store import EventLog, Forest
from rosellm.roserlhf.store.ledger import Ledger
from rosellm.roserlhf.trainer.run import train
from rosellm.roserlhf.trajectory import (
    CopySpan,
    Message,
    ParentLink,
    PolicyAction,
    TokenSpan,
    Trajectory,
    TransitionRecord,
)


def floats(*numbers: float) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


def flags(*bits: int) -> Tensor:
    return torch.tensor(bits, dtype=torch.bool)


def close(actual: Tensor, *expected: float) -> None:
    torch.testing.assert_close(actual, floats(*expected).to(actual.dtype), rtol=0, atol=1e-9)


# ---- groups


def test_groups_are_found_by_id_in_any_order_and_of_any_size() -> None:
    """Tasks a: 1, 0, 0 (mean 1/3, σ = √2/3) and b: 2, 0 (mean 1, σ = 1), shuffled; then one of a is gone: 1, 0."""
    rewards, ids = floats(1, 2, 0, 0, 0), ["a", "b", "a", "b", "a"]
    root = math.sqrt(2)
    close(advantages.grouped_advantages(rewards, ids, eps=0.0), root, 1, -1 / root, -1, -1 / root)
    order = [3, 0, 4, 1, 2]
    shuffled = advantages.grouped_advantages(rewards[order], [ids[i] for i in order], eps=0.0)
    close(shuffled, -1, root, -1 / root, 1, -1 / root)
    close(advantages.grouped_advantages(rewards[:4], ids[:4], eps=0.0), 1, 1, -1, -1)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_equal_rewards_are_exactly_zero(dtype: torch.dtype) -> None:
    """0.1, 0.3 and 0.9 are no binary fractions, so their rounded mean is not they themselves."""
    for size in (*range(2, 17), 24, 33, 64):
        for value in (0.1, 0.3, 0.9, -7.7):
            rewards, ids = torch.full((size,), value, dtype=dtype), torch.zeros(size, dtype=torch.int64)
            for found in (
                advantages.group_standardized_advantages(rewards, eps=0.0),
                advantages.group_centered_advantages(rewards),
                advantages.leave_one_out_advantages(rewards),
                advantages.grouped_advantages(rewards, ids, eps=0.0),
                advantages.grouped_advantages(rewards, ids, std="sample", eps=0.0),
                advantages.batch_standardized_advantages(rewards, torch.ones(size), eps=0.0),
                advantages.gdpo_advantages(rewards.view(-1, 1), ids, eps=0.0),
                advantages.tree_advantages(rewards, ids, ids, eps=0.0).advantages,
            ):
                assert found.eq(0).all()


def test_a_singleton_group_has_one_value_in_every_estimator_or_is_an_error() -> None:
    """Nobody to compare with: 0, never the raw reward, 1 or NaN; on request, and where others are needed, an error."""
    one, ids = floats(5.0), ["task"]
    close(advantages.group_standardized_advantages(one), 0)
    close(advantages.group_centered_advantages(one), 0)
    for baseline in ("mean", "leave_one_out"):
        for scale in ("std", "none", "batch_std"):
            for std in ("population", "sample"):
                options: Any = {"baseline": baseline, "scale": scale, "std": std}
                close(advantages.grouped_advantages(one, ids, **options), 0)
    close(advantages.gdpo_advantages(one.view(1, 1), ids), 0)
    close(advantages.gd2po_advantages(one.view(1, 1), ids).advantages, 0)
    close(advantages.gigpo_advantages(one, ["state"], ["rollout"], ids).advantages, 0)
    close(advantages.tree_advantages(one, ["tree"], ids).advantages, 0)
    for refuse in (
        lambda: advantages.leave_one_out_advantages(one),
        lambda: advantages.grouped_advantages(one, ids, singleton="error"),
        lambda: advantages.gdpo_advantages(one.view(1, 1), ids, singleton="error"),
        lambda: advantages.gigpo_advantages(one, ["state"], ["rollout"], ids, singleton="error"),
        lambda: advantages.tree_advantages(one, ["tree"], ids, singleton="error"),
    ):
        with pytest.raises(GroupError):
            refuse()


def test_statistics_do_not_depend_on_how_many_rows_a_trajectory_has() -> None:
    """Rewards 1 and 0 are ±1, whether the winner took one step or three; if steps voted it would be 0.577 and -1.732."""
    for steps in (1, 3):
        rewards = floats(*[0.0] * (steps - 1), 1.0, 0.0)
        rows, tasks = ["winner"] * steps + ["loser"], ["task"] * (steps + 1)
        states = list(range(steps + 1))
        found = advantages.gigpo_advantages(rewards, states, rows, tasks, eps=0.0)
        close(found.advantages, *[1.0] * steps, -1.0)


def test_equal_states_of_different_tasks_are_never_compared() -> None:
    """Two tasks that both begin in "door": each visit is compared within its task, where returns are 1, 0 and 5, 3."""
    rewards, tasks = floats(1, 0, 5, 3), ["a", "a", "b", "b"]
    found = advantages.gigpo_advantages(rewards, ["door"] * 4, [0, 1, 2, 3], tasks, normalization="none")
    close(found.step_advantages, 0.5, -0.5, 1, -1)
    assert found.step_group_ids.tolist() == [0, 0, 1, 1]
    similar = torch.ones(4, 4)
    assert advantages.similarity_clusters(similar, 0.9, group_ids=tasks).tolist() == [0, 0, 1, 1]


def test_the_order_of_rows_does_not_change_which_states_are_similar() -> None:
    """a ~ b and b ~ c, but not a ~ c: one component in all six orders. Joining the first match makes one or two clusters."""
    similar = torch.tensor([[1.0, 0.9, 0.5], [0.9, 1.0, 0.9], [0.5, 0.9, 1.0]])
    by_first_match = set()
    for order in ([0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]):
        shuffled = similar[order][:, order]
        assert advantages.similarity_clusters(shuffled, 0.9).tolist() == [0, 0, 0]
        by_first_match.add(int(advantages.similarity_clusters(shuffled, 0.9, reading="first_match").max()) + 1)
    assert by_first_match == {1, 2}


def test_a_failed_environment_leaves_baseline_and_denominator_as_if_never_launched() -> None:
    """Members 1, 0 and one whose environment broke: ±1, and the mean is over the four tokens of two."""

    def member(number: int, reward: float | None) -> Trajectory:
        record = Trajectory(f"t/{number}", "task", "e", "h", prompt=[TokenSpan([1], "user")], group_id="g")
        ending: Any = {"terminated": True}
        if reward is None:
            ending = {"truncated": True, "cause": "sandbox gone", "blame": "infrastructure", "observation": [TokenSpan([], "tool")]}
        answer = TransitionRecord(0, None, {"correct": reward}, **ending)
        record.append(PolicyAction(0, [7, 8], [-1.0, -1.0], "v1", ""), answer)
        return record

    members = [member(0, 1.0), member(1, 0.0), member(2, None)]
    found = []
    for launched in (members[:2], members):
        rewards = [total_reward(record, {"correct": 1.0}) for record in launched]
        rows = group_rows(launched, rewards, PerGroup(advantages.group_standardized_advantages), drop_uniform=True)
        assert [row.advantage for row in rows[:2]] == pytest.approx([1.0, -1.0])
        found.append(sum(row.trained for row in rows))
    assert found == [4, 4]
    # the same with tensors alone: the reward of the failed one is not even a number
    scored, mask = flags(1, 1, 0), torch.ones(3, 2)
    credit = advantages.grouped_advantages(floats(1, 0, math.nan), ["g"] * 3, scored_mask=scored, eps=0.0)
    close(credit, 1, -1, 0)
    current = torch.tensor([[-1.0, -2.0], [-3.0, -4.0], [math.nan, -9.0]], dtype=torch.float64)
    loss = losses.reinforce_policy_loss(current, credit, mask * scored.unsqueeze(-1)).loss
    assert loss == -(-1 - 2 + 3 + 4) / 4


# ---- time


def gae(rewards: Tensor, values: Tensor, **how: Any) -> Tensor:
    return advantages.generalized_advantage_estimation(rewards, values, **how)[0]


@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("lam", [0.0, 0.7, 1.0])
def test_observation_tokens_between_turns_change_no_advantage_of_an_action(gamma: float, lam: float) -> None:
    """A_1 = 1 - 0.7 and A_0 = 0.1 + γ 0.7 - 0.4 + γλ A_1, with no, one or nine tokens of a tool in between."""
    last = 1.0 - 0.7
    first = 0.1 + gamma * 0.7 - 0.4 + gamma * lam * last
    for tokens in (0, 1, 9):
        tool = [9.9] * tokens
        rewards, values = floats(0.1, *[0.0] * tokens, 1.0), floats(0.4, *tool, 0.7)
        acts = flags(1, *[0] * tokens, 1)
        found = gae(rewards, values, gamma=gamma, gae_lambda=lam, action_mask=acts)
        close(found, first, *[0.0] * tokens, last)


def test_a_reward_on_a_trailing_observation_token_is_kept() -> None:
    """Two actions, an observation that ends the episode and carries its reward of 1: returns γ and 1, not 0 and 0."""
    rewards, ended = floats(0, 0, 1), flags(0, 0, 1)
    masks: Any = {"action_mask": flags(1, 1, 0), "terminated": ended}
    close(advantages.reward_to_go(rewards, gamma=0.5, **masks), 0.5, 1, 0)
    close(gae(rewards, floats(0, 0, 9), gamma=0.5, **masks), 0.5, 1, 0)
    with pytest.raises(ValueError, match="rewards"):
        advantages.reward_to_go(rewards, observation_rewards="error", **masks)


def test_the_longest_row_is_not_truncated_because_it_is_the_longest() -> None:
    """It ended; its neighbour was cut. What was recorded decides who gets the value 2 that follows, not the width."""
    valid, rewards = torch.tensor([[1, 1, 1], [1, 1, 0]]).bool(), torch.zeros(2, 3)
    ended = torch.tensor([[0, 0, 1], [0, 0, 0]]).bool()
    found = gae(rewards, torch.zeros(2, 3), terminated=ended, valid_mask=valid, bootstrap_value=torch.tensor([2.0, 2.0]))
    assert found.tolist() == [[0, 0, 0], [2, 2, 0]]


def test_values_of_a_critic_at_masked_positions_do_not_leak() -> None:
    """λ = 0.5: A_1 = 1 - 0.2, A_0 = 0.2 - 0.1 + 0.5 A_1 = 0.5, whatever the critic says of the tool's token or of padding."""
    for junk in (0.0, 100.0, -1e30, math.nan, math.inf):
        values = floats(0.1, junk, 0.2, junk)
        found = gae(floats(0, 0, 1, 0), values, gae_lambda=0.5, valid_mask=flags(1, 1, 1, 0), action_mask=flags(1, 0, 1, 0))
        close(found, 0.5, 0, 0.8, 0)


# ---- one step, one gradient


def test_a_token_mean_counts_masked_in_tokens_in_numerator_and_denominator() -> None:
    """Values 1 and 1 on two live tokens, 50 and NaN on masked ones: the mean is 1."""
    values, mask = floats(1, 50, 1, math.nan).view(1, 4), torch.tensor([[1, 0, 1, 0]])
    assert losses.aggregate(values, mask, aggregation="token") == 1
    assert losses.masked_mean(values, mask) == 1


def test_rejected_members_leave_baseline_numerator_and_denominator_together() -> None:
    """Rewards 1, 0 and 5, the last sampled by a policy 20 times as far away: the step is that of 1 and 0, ±1/2 over four tokens."""
    old, mask = torch.zeros(3, 2, dtype=torch.float64), torch.ones(3, 2, dtype=torch.bool)
    current = (old + torch.tensor([[0.0], [0.0], [3.0]])).requires_grad_()
    correction = losses.mismatch_correction(current, old, mask, level="geometric_sequence", action="mask", ratio_max=2.0)
    kept = correction.kept_sequences()
    credit = advantages.grouped_advantages(floats(1, 0, 5), ["g"] * 3, scored_mask=kept, scale="none")
    close(credit, 0.5, -0.5, 0)
    weighted, kept_mask = correction.apply(credit, mask, "kept")
    denominator = losses.step_denominator([kept_mask], "token")
    assert denominator == 4
    loss = losses.clipped_policy_loss(current, current.detach(), weighted, kept_mask, denominator=denominator).loss
    close(torch.autograd.grad(loss, current)[0].flatten(), -0.125, -0.125, 0.125, 0.125, 0, 0)


AGGREGATIONS: tuple[losses.Aggregation, ...] = ("token", "sequence_mean", "sequence_sum", "rollout", "horizon")


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_one_step_split_over_ranks_micro_batches_and_forks_has_one_gradient(aggregation: losses.Aggregation) -> None:
    """Lengths 3, 1, 2, 4; rows 1 and 2 are forks of one rollout. A · w_t, w from the table of aggregations, however it is split."""
    length, credit = torch.tensor([3, 1, 2, 4]), floats(1.0, -2.0, 0.5, 3.0)
    mask, rollouts = torch.arange(4) < length.unsqueeze(-1), torch.tensor([0, 1, 1, 3])
    weights = {
        "token": torch.full((4,), 1 / 10, dtype=torch.float64),
        "sequence_mean": 1 / length.double() / 4,
        "sequence_sum": torch.full((4,), 1 / 4, dtype=torch.float64),
        "rollout": 1 / floats(3, 3, 3, 4) / 3,  # rows 1 and 2 have three tokens together, and there are three rollouts
        "horizon": torch.full((4,), 1 / 8 / 4, dtype=torch.float64),
    }[aggregation]
    expected = -(credit * weights).unsqueeze(-1) * mask
    how: Any = {"horizon": 8.0} if aggregation == "horizon" else {}
    splits = ([[0, 1, 2, 3]], [[0, 1], [2, 3]], [[3], [0], [2], [1]], [[0, 1, 2], [3]], [[1, 3], [], [0, 2]])
    for parts in splits:
        masks = [mask[part] for part in parts]
        if aggregation == "rollout":
            denominators: list[Any] = losses.rollout_denominators(masks, [rollouts[part] for part in parts])
        else:
            denominators = [losses.step_denominator(masks, aggregation)] * len(parts)
        current = torch.full((4, 4), -1.0, dtype=torch.float64, requires_grad=True)
        for part, denominator in zip(parts, denominators, strict=True):
            rows = current[part]
            own: Any = {"rollout_ids": rollouts[part]} if aggregation == "rollout" else {}
            out = losses.clipped_policy_loss(
                rows, rows.detach(), credit[part], mask[part], aggregation=aggregation, denominator=denominator, **own, **how
            )
            out.loss.backward()
        assert current.grad is not None
        torch.testing.assert_close(current.grad, expected, rtol=0, atol=1e-9)


# ---- behaviour log-probabilities


def sampled_from_top_two(temperature: float) -> tuple[Tensor, Tensor, Tensor]:
    """Logits of five actions, the sampled ones, and their log-probabilities in the distribution that was really sampled from."""
    logits = torch.randn(2, 6, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    support = logits >= logits.topk(2).values[..., -1:]
    ids = logits.topk(2).indices[..., 1]
    kept = (logits / temperature).masked_fill(~support, -math.inf)
    return logits, ids, kept.log_softmax(-1).gather(-1, ids.unsqueeze(-1)).squeeze(-1)


def test_behaviour_equal_to_the_target_is_weight_one_and_mask_one_in_every_mode() -> None:
    """Temperature 0.7 and the top two of five, on both sides: every correction is the identity."""
    logits, ids, behaviour = sampled_from_top_two(0.7)
    support = logits >= logits.topk(2).values[..., -1:]
    current = (logits / 0.7).masked_fill(~support, -math.inf).log_softmax(-1).gather(-1, ids.unsqueeze(-1)).squeeze(-1)
    mask = torch.ones_like(ids, dtype=torch.bool)
    levels: tuple[Any, ...] = ("token", "geometric_sequence", "product_sequence", "segment")
    corrections = [
        losses.mismatch_correction(current, behaviour, mask, level=level, action=action, ratio_max=1.0, ratio_min=1.0)
        for level in levels
        for action in ("truncate", "mask")
    ]
    corrections += [
        losses.tis(current, behaviour, mask),
        losses.icepop(current, behaviour, mask),
        losses.mis(current, behaviour, mask),
    ]
    corrections.append(losses.opsm(current, behaviour, torch.full((2,), -1.0), mask, delta=0.0))
    for correction in corrections:
        assert correction.weights.eq(1).all()
        assert correction.keep_mask.all()
    # whoever forgets the temperature or the truncation on one side sees it
    for forgotten in (logits.log_softmax(-1), (logits / 0.7).log_softmax(-1)):
        other = forgotten.gather(-1, ids.unsqueeze(-1)).squeeze(-1)
        assert losses.icepop(other, behaviour, mask).weights.ne(1).any()


def test_stale_data_never_has_a_mean_ratio_of_exactly_one() -> None:
    """Sampled with probability 1/2, now 3/4 and 1/4: ratios 1.5 and 0.5 of the stored numbers; recomputed ones would all be 1."""
    behaviour, current = floats(0.5, 0.5, 0.5).log().view(1, 3), floats(0.75, 0.75, 0.25).log().view(1, 3)
    mask, ones = torch.ones(1, 3), torch.ones(1)
    expected = (1.5 + 1.5 + 0.5) / 3
    outs: list[Any] = [
        losses.clipped_policy_loss(current, behaviour, ones, mask),
        losses.cispo_policy_loss(current, behaviour, ones, mask, ratio_max=5.0),
        losses.sapo_policy_loss(current, behaviour, ones, mask),
        losses.sao_reasoning(current, behaviour, ones, mask),
        losses.reinforce_policy_loss(current, ones, mask, old_logprobs=behaviour),
    ]
    for out in outs:
        assert float(out.mean_ratio) == pytest.approx(expected)
    assert losses.tis(current, behaviour, mask, cap=5.0).partials["token_ratio"].mean().item() == pytest.approx(expected)
    with pytest.raises(MaskError):  # and none of it comes from nothing
        losses.clipped_policy_loss(current, behaviour, ones, torch.zeros(1, 3))


# ---- records and runs


def test_a_template_that_rewrites_history_loses_and_doubles_no_trained_token() -> None:
    """Turn 0 samples 7 8 9, of which the rewritten prompt keeps 9: five tokens were sampled, five are trained, once each.

    What the policy did is one record, what followed the rewriting another, joined by a link that names the cause.
    """
    first = Trajectory("t", "task", "e", "h", prompt=[TokenSpan([1, 2], "user")], group_id="g")
    first.append(PolicyAction(0, [7, 8, 9], [-0.7, -0.8, -0.9], "v1", ""), TransitionRecord(0, None, handed_off=True))
    prompt: list[TokenSpan | CopySpan] = [CopySpan("t", 0, 2), CopySpan("t", 4, 5), TokenSpan([3], "tool")]
    second = Trajectory("u", "task", "e", "h", parent=ParentLink("t", 1, "rewrite"), prompt=prompt)
    second.append(PolicyAction(1, [5, 6], [-0.5, -0.6], "v1", ""), TransitionRecord(1, None, terminated=True))
    forest = Forest([first, second])
    rows = [row_of(first), row_of(second, context=forest.context("u").spans)]
    assert rows[1].token_ids == (1, 2, 9, 3, 5, 6)
    assert rows[1].loss_mask == (False, False, False, False, True, True)
    trained = [i for row in rows for i, mask in zip(row.token_ids, row.loss_mask, strict=True) if mask]
    assert sorted(trained) == [5, 6, 7, 8, 9]
    assert sum(row.sampled for row in rows) == sum(row.trained for row in rows) == 5
    assert second.parent is not None
    assert second.parent.kind == "rewrite"


def test_what_was_sampled_is_never_tokenised_again() -> None:
    """ "hello" has an id of its own, 4, but the policy said "he" and "llo": those two stay, and the tool's answer follows them."""
    pieces = ["<end>", "<user>", "<assistant>", "<tool>", "hello", "he", "llo"]

    def encode(text: str) -> list[int]:
        first = next((i for i, piece in enumerate(pieces) if text.startswith(piece)), None)
        return [] if first is None else [first, *encode(text[len(pieces[first]) :])]

    codec = MarkerCodec(
        encode=encode,
        decode=lambda ids: "".join(pieces[i] for i in ids),
        markers={"user": 1, "assistant": 2, "tool": 3},
        end_id=0,
        tools=(),
        tokenizer_hash="pieces",
    )
    prompt = [i for span in codec.render([Message("user", "he")]) for i in span.token_ids]
    assert prompt == [1, 5, 0, 2]
    said = [5, 6, 0]
    added = [i for span in codec.extend([*prompt, *said], [], [Message("tool", "hello")]) for i in span.token_ids]
    assert added == [3, 4, 0, 2]
    # a template that writes the conversation anew has the same text and other ids: 4 in place of 5 6
    anew = [
        i
        for span in codec.render([Message("user", "he"), Message("assistant", "hello"), Message("tool", "hello")])
        for i in span.token_ids
    ]
    assert codec.text(anew) == codec.text([*prompt, *said, *added])
    assert anew != [*prompt, *said, *added]


def test_a_run_stopped_after_every_step_has_the_weights_and_the_ledger_of_one_that_was_not(tmp_path: Path) -> None:
    """Bit for bit, and every launched attempt was finished, admitted and trained or rejected, token for token.

    Killed processes, rollouts broken off in the middle and damaged checkpoints are tried in the tests of the trainer.
    """
    recipe = tiny(
        steps=2,
        checkpoint_every=1,
        warm_start={"max_steps": 1, "check_every": 1},
        evaluate={"tasks": 2, "every": 2, "during_tasks": 2},
    )
    train(recipe, out=tmp_path / "whole")
    statuses = [train(recipe, out=tmp_path / "run", should_stop=lambda: True).status]
    while statuses[-1] == "interrupted":
        statuses.append(train(recipe, out=tmp_path / "run", resume=True, should_stop=lambda: True).status)
    assert len(statuses) > 1
    assert outcome(tmp_path / "run") == outcome(tmp_path / "whole")
    with EventLog.read(tmp_path / "run" / "events.db") as log:
        Ledger(log.ledger()).balance(recorded=log.sampled_tokens(phase="train"))
