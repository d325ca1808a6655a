"""Bad input of every public function of `losses`: an error that names the argument, the rule and the value."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from cases_objective import DEVICE, OBJECTIVES, Batch, raises, tensor

from rosellm.roserlhf.checks import without_value_checks
from rosellm.roserlhf.errors import DtypeError, MaskError, NonFiniteError, RangeError, ShapeError
from rosellm.roserlhf.losses import (
    aggregate,
    clipped_policy_loss,
    direct_double_sided_mask,
    gather_token_logprobs,
    gspo_policy_loss,
    gspo_token_policy_loss,
    masked_mean,
    reinforce_policy_loss,
    rollout_denominators,
    sao_policy_loss,
    sapo_policy_loss,
    sequence_log_ratio,
    step_denominator,
)
from rosellm.roserlhf.metrics import over_ranks


def a_small_batch() -> Batch:
    zeros = [[0.0, 0.0, 0.0]] * 2
    return Batch(
        current=tensor(zeros),
        old=tensor(zeros),
        advantages=tensor(zeros),
        mask=tensor([[1, 1, 0], [1, 0, 0]]),
        sequence_advantages=tensor([0.0, 0.0]),
        sequence_ids=None,
        rollout_ids=tensor([0, 1]),
        places=[],
    )


def with_value(values: torch.Tensor, place: tuple[int, ...], value: float) -> torch.Tensor:
    changed = values.clone()
    changed[place] = value
    return changed


NAME_OF_OLD = {
    **dict.fromkeys(("clipped", "dual_clipped", "grpo", "reinforce", "cispo"), "old_logprobs"),
    **dict.fromkeys(("decoupled", "decoupled_truncated"), "proximal_logprobs"),
    "value_clipped": "old_values",
}
NAME_OF_ADVANTAGES = {
    "gspo": "sequence_advantages",
    "gspo_token": "token_advantages",
    "sapo": "token_advantages",
    "value": "returns",
    "value_clipped": "returns",
}
NAME_OF_CURRENT = {"value": "values", "value_clipped": "values"}
READS_NO_OLD = ("value",)


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf], ids=str)
def test_a_live_value_that_is_no_number_is_an_error(name: str, value: float) -> None:
    batch, run = a_small_batch(), OBJECTIVES[name].run
    current = NAME_OF_CURRENT.get(name, "current_logprobs")
    with raises(NonFiniteError, match=f"{current} must be finite wherever its mask is true, got"):
        run(batch._replace(current=with_value(batch.current, (0, 1), value)))
    if name not in READS_NO_OLD:
        with raises(NonFiniteError, match=f"{NAME_OF_OLD.get(name, 'rollout_logprobs')} must be finite"):
            run(batch._replace(old=with_value(batch.old, (1, 0), value)))
    with raises(NonFiniteError, match=f"{NAME_OF_ADVANTAGES.get(name, 'advantages')} must be finite"):
        run(
            batch._replace(
                advantages=with_value(batch.advantages, (1, 0), value),
                sequence_advantages=with_value(batch.sequence_advantages, (1,), value),
            )
        )


@pytest.mark.parametrize("name", OBJECTIVES)
def test_shapes_and_types(name: str) -> None:
    batch, run = a_small_batch(), OBJECTIVES[name].run
    old = NAME_OF_OLD.get(name, "rollout_logprobs")
    advantages, current = NAME_OF_ADVANTAGES.get(name, "advantages"), NAME_OF_CURRENT.get(name, "current_logprobs")
    wrong: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"mask": batch.mask[:, :2]}, ShapeError, rf"action_mask must have the shape of {current} \(2, 3\), got \(2, 2\)"),
        ({"mask": batch.mask[0]}, ShapeError, "action_mask must have the shape"),
        ({"mask": batch.mask.tolist()}, DtypeError, "action_mask must be a torch.Tensor, got list"),
        ({"current": batch.mask}, DtypeError, f"{current} must be a floating-point tensor, got torch.int64"),
        ({"current": tensor(0.5)}, ShapeError, f"{current} must have at least 1 dimension"),
        ({"old": batch.old[:1]}, ShapeError, f"{old} must have the shape of action_mask"),
        ({"old": batch.mask}, DtypeError, f"{old} must be a floating-point tensor"),
        ({"advantages": batch.advantages[:, :2], "sequence_advantages": tensor([0.0])}, ShapeError, f"{advantages} must have"),
        ({"advantages": tensor([0.0] * 3), "sequence_advantages": tensor([0.0] * 3)}, ShapeError, f"{advantages} must have"),
        ({"advantages": batch.mask, "sequence_advantages": tensor([1, 1])}, DtypeError, f"{advantages} must be a floating-point"),
    ]
    for change, error, message in wrong:
        if "old" in change and name in READS_NO_OLD:
            continue
        with raises(error, match=message):
            run(batch._replace(**change))


@pytest.mark.parametrize("name", OBJECTIVES)
def test_masks(name: str) -> None:
    batch, run = a_small_batch(), OBJECTIVES[name].run
    for value in (2, -1):
        with raises(MaskError, match="action_mask must be boolean or exactly 0/1, got"):
            run(batch._replace(mask=with_value(batch.mask, (0, 2), value)))
    for number in (0.5, math.nan, 1 - 1e-7):
        with raises(MaskError, match="action_mask must be boolean or exactly 0/1, got"):
            run(batch._replace(mask=with_value(batch.mask.double(), (0, 2), number)))
    with raises(MaskError, match="empty mask"):
        run(batch._replace(mask=torch.zeros_like(batch.mask)))


def test_the_message_gives_value_and_place() -> None:
    if DEVICE.type != "cpu":
        pytest.skip("values are not read on an accelerator")
    batch = a_small_batch()
    with pytest.raises(NonFiniteError, match=r"advantages must be finite wherever its mask is true, got the value inf at \[0, 1\]"):
        OBJECTIVES["clipped"].run(batch._replace(advantages=with_value(batch.advantages, (0, 1), math.inf)))


@pytest.mark.parametrize("name", ["clipped", "reinforce", "sao", "sapo", "gspo_token"])
def test_advantages_per_row_need_rows_that_are_sequences(name: str) -> None:
    batch, run = a_small_batch(), OBJECTIVES[name].run
    per_row = [batch.advantages, tensor([1.0, -1.0]), tensor([[1.0], [-1.0]])]
    losses = [run(batch._replace(advantages=advantages)) for advantages in per_row]
    assert losses[1].loss == losses[2].loss
    ids = tensor([[0, 0, -1], [1, -1, -1]])
    for advantages in per_row[1:]:
        with pytest.raises(ShapeError, match=r"advantages must have the shape of the tokens \(2, 3\) \(one per sequence needs"):
            run(batch._replace(advantages=advantages), sequence_ids=ids)


def test_packed_sequence_advantages() -> None:
    batch = a_small_batch()
    ids = tensor([[0, 0, 9], [2, 9, 9]])
    with raises(RangeError, match=r"sequence_ids must be in \[0, 2\) wherever its mask is true"):
        OBJECTIVES["gspo"].run(batch, sequence_ids=ids)
    OBJECTIVES["gspo"].run(batch._replace(sequence_advantages=tensor([0.0] * 3)), sequence_ids=ids)
    with pytest.raises(ShapeError, match=r"sequence_advantages must have shape \[S\]"):
        OBJECTIVES["gspo"].run(batch._replace(sequence_advantages=tensor([[0.0] * 3])), sequence_ids=ids)


def call(function: Callable[..., Any], **how: Any) -> None:
    batch = a_small_batch()
    if function is reinforce_policy_loss:
        function(batch.current, batch.advantages, batch.mask, **how)
    else:
        credit = batch.sequence_advantages if function is gspo_policy_loss else batch.advantages
        function(batch.current, batch.old, credit, batch.mask, **how)


@pytest.mark.parametrize("function", [clipped_policy_loss, gspo_policy_loss, gspo_token_policy_loss, sao_policy_loss])
@pytest.mark.parametrize(
    ("low", "high", "error", "message"),
    [
        (1.0, 0.2, RangeError, r"clip_low must be in \[0, 1\), got 1.0"),
        (-0.1, 0.2, RangeError, "clip_low must be in"),
        (math.nan, 0.2, RangeError, "clip_low must be in"),
        ("0.2", 0.2, DtypeError, r"clip_low must be a number and be in \[0, 1\), got '0.2' \(str\)"),
        (0.2, -0.1, RangeError, r"clip_high must be in \[0, inf\), got -0.1"),
        (0.2, True, DtypeError, "clip_high must be a number"),
    ],
)
def test_clip_bounds(function: Callable[..., Any], low: Any, high: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call(function, clip_low=low, clip_high=high)
    with pytest.raises(error, match=message):
        direct_double_sided_mask(tensor([1.0]), clip_low=low, clip_high=high)


@pytest.mark.parametrize(
    "function", [clipped_policy_loss, gspo_policy_loss, gspo_token_policy_loss, sao_policy_loss, sapo_policy_loss]
)
def test_max_log_ratio(function: Callable[..., Any]) -> None:
    bounds = {} if function in (clipped_policy_loss, sapo_policy_loss) else {"clip_low": 0.2, "clip_high": 0.2}
    for value in (0.0, -1.0, math.nan):
        with pytest.raises(RangeError, match=r"max_log_ratio must be in \(0, inf\), got"):
            call(function, max_log_ratio=value, **bounds)
    call(function, max_log_ratio=math.inf, **bounds)


def test_clip_bounds_are_required_where_papers_disagree() -> None:
    for function in (gspo_policy_loss, gspo_token_policy_loss, sao_policy_loss):
        with pytest.raises(TypeError, match="clip_low"):
            call(function)
        with pytest.raises(DtypeError, match="clip_high must be a number"):
            call(function, clip_low=0.2, clip_high=None)


def test_sapo_temperatures() -> None:
    for name in ("tau_positive", "tau_negative"):
        for value in (0.0, -1.0, math.inf, math.nan):
            with pytest.raises(RangeError, match=rf"{name} must be in \(0, inf\), got"):
                call(sapo_policy_loss, **{name: value})


def test_gather_token_logprobs() -> None:
    logits = tensor([[0.0, 1.0, 2.0], [0.0, 1.0, 2.0]])
    for bad in (3, -1, -100):
        with raises(RangeError, match=r"target_ids must be in \[0, 3\), got .*; give padding any valid id and mask it"):
            gather_token_logprobs(logits, tensor([0, bad]))
    with pytest.raises(ShapeError, match=r"target_ids must have the shape of logits without the vocabulary \(2,\), got \(1,\)"):
        gather_token_logprobs(logits, tensor([0]))
    with pytest.raises(DtypeError, match=r"target_ids must be an integer tensor, got torch.float64"):
        gather_token_logprobs(logits, tensor([0.0, 1.0]))
    with pytest.raises(DtypeError, match=r"target_ids must be an integer tensor, got torch.bool"):
        gather_token_logprobs(logits, tensor([True, False]))
    with pytest.raises(DtypeError, match="logits must be a floating-point tensor"):
        gather_token_logprobs(tensor([[1, 2]]), tensor([0]))


def test_sequence_log_ratio() -> None:
    batch = a_small_batch()
    with raises(NonFiniteError, match="old_logprobs must be finite"):
        sequence_log_ratio(batch.current, with_value(batch.old, (0, 0), math.nan), batch.mask, length_normalize=False)
    with pytest.raises(ShapeError, match="old_logprobs must have the shape"):
        sequence_log_ratio(batch.current, batch.old[:1], batch.mask, length_normalize=False)
    with pytest.raises(DtypeError, match=r"length_normalize must be True or False, got 'sum' \(str\)"):
        sequence_log_ratio(batch.current, batch.old, batch.mask, length_normalize="sum")  # type: ignore[arg-type]


def test_a_switch_is_no_string() -> None:
    batch = a_small_batch()
    with pytest.raises(DtypeError, match=r"detach_ratio must be True or False, got 'no' \(str\)"):
        sao_policy_loss(
            batch.current,
            batch.old,
            batch.advantages,
            batch.mask,
            clip_low=0.2,
            clip_high=0.2,
            detach_ratio="no",  # type: ignore[arg-type]
        )


def test_denominators_want_one_tensor_per_micro_batch() -> None:
    with pytest.raises(DtypeError, match=r"masks must be a sequence of tensors, got None \(NoneType\)"):
        step_denominator(None, "token")  # type: ignore[arg-type]
    with pytest.raises(DtypeError, match=r"rollout_ids must be a sequence of tensors, got 7 \(int\)"):
        rollout_denominators([tensor([1])], 7)  # type: ignore[arg-type]


def test_aggregate() -> None:
    values, mask = tensor([1.0, math.nan]), tensor([1, 0])
    assert aggregate(values, mask, aggregation="token") == 1.0
    with raises(NonFiniteError, match="values must be finite wherever its mask is true"):
        aggregate(values, tensor([1, 1]), aggregation="token")


def test_masked_mean() -> None:
    with raises(MaskError, match="mask must select at least one position, got an empty mask$"):
        masked_mean(tensor([1.0]), tensor([0]))
    with raises(MaskError, match="mask must be boolean or exactly 0/1"):
        masked_mean(tensor([1.0]), tensor([0.5]))
    with pytest.raises(ShapeError, match="mask must have the shape of values"):
        masked_mean(tensor([1.0]), tensor([1, 1]))
    with pytest.raises(DtypeError, match="values must be a floating-point tensor"):
        masked_mean(tensor([1]), tensor([1]))
    with raises(NonFiniteError, match="values must be finite wherever its mask is true"):
        masked_mean(tensor([1.0, math.nan]), tensor([1, 1]))


def test_objectives_do_not_check_the_sign_of_logprobs() -> None:
    batch = a_small_batch()
    assert OBJECTIVES["clipped"].run(batch._replace(current=batch.current + 0.5, old=batch.old + 0.5)).mean_ratio == 1.0


def test_value_checks_can_be_switched_off() -> None:
    batch = a_small_batch()
    with without_value_checks():
        out = OBJECTIVES["clipped"].run(batch._replace(advantages=with_value(batch.advantages, (0, 0), math.nan)))
    assert out.loss.isnan()


def test_what_is_no_process_group_is_named() -> None:
    rule = r"process_group must be a torch\.distributed\.ProcessGroup, got 'x' \(str\)"
    with pytest.raises(DtypeError, match=rule):
        step_denominator([tensor([1])], "token", "x")  # type: ignore[arg-type]
    with pytest.raises(DtypeError, match=rule):
        rollout_denominators([tensor([1])], [tensor([1])], "x")  # type: ignore[arg-type]
    with pytest.raises(DtypeError, match=rule):
        over_ranks({}, "x")  # type: ignore[arg-type]
