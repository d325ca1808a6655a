"""Bad input to the credit estimators: an error that names the argument, the rule and the value, never a guess."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from rosellm.roserlhf import checks
from rosellm.roserlhf.advantages import (
    broadcast_turn_advantages,
    discounted_returns,
    generalized_advantage_estimation,
    group_standardized_advantages,
    leave_one_out_advantages,
    skip_observation_generalized_advantage_estimation,
)
from rosellm.roserlhf.errors import (
    DeviceError,
    DtypeError,
    GroupError,
    MaskError,
    NonFiniteError,
    RangeError,
    RoseError,
    ShapeError,
)

NAN = float("nan")
ROW, TWO = torch.ones(3), torch.ones(2, 3)
YES = torch.ones(3, dtype=torch.bool)
gae, skip = generalized_advantage_estimation, skip_observation_generalized_advantage_estimation


def at(place: int, value: float) -> torch.Tensor:
    row = torch.ones(3)
    row[place] = value
    return row


CASES: list[tuple[Callable[[], Any], type[RoseError], str]] = [
    # what is no tensor of real numbers
    (lambda: discounted_returns([1.0]), DtypeError, r"rewards must be a torch\.Tensor, got list"),  # type: ignore[arg-type]
    (
        lambda: discounted_returns(torch.ones(3, dtype=torch.int64)),
        DtypeError,
        r"rewards must be a floating-point tensor, got torch\.int64",
    ),
    (lambda: discounted_returns(YES), DtypeError, "rewards .*torch.bool"),
    (lambda: discounted_returns(torch.ones(3, dtype=torch.complex64)), DtypeError, "rewards .*complex64"),
    (lambda: gae(ROW, YES), DtypeError, "values must be a floating-point tensor"),
    (lambda: gae(ROW, None), DtypeError, "values must be a torch.Tensor, got NoneType"),  # type: ignore[arg-type]
    (lambda: skip(ROW, YES, ROW), DtypeError, "action_end_values"),
    (lambda: skip(ROW, ROW, YES), DtypeError, "next_action_values"),
    (lambda: leave_one_out_advantages(torch.tensor([1, 0, 0])), DtypeError, "rewards .*int64"),
    (lambda: group_standardized_advantages(torch.tensor([True, False])), DtypeError, "rewards .*bool"),
    (lambda: broadcast_turn_advantages(torch.tensor([1]), torch.tensor([0]), torch.tensor([True])), DtypeError, "turn_advantages"),
    (lambda: broadcast_turn_advantages(ROW, ROW, YES), DtypeError, "turn_ids must be an integer tensor, got torch.float32"),
    (lambda: broadcast_turn_advantages(ROW, YES, YES), DtypeError, "turn_ids must be an integer tensor, got torch.bool"),
    (lambda: discounted_returns(ROW, valid_mask=[1, 1, 1]), DtypeError, "valid_mask must be a torch.Tensor, got list"),  # type: ignore[arg-type]
    (lambda: discounted_returns(ROW, terminated=True), DtypeError, "terminated must be a torch.Tensor, got bool"),  # type: ignore[arg-type]
    (lambda: gae(ROW, ROW, episode_ids=ROW), DtypeError, "episode_ids must be an integer tensor"),
    (lambda: gae(ROW, ROW, gae_lambda=torch.tensor(1)), DtypeError, "gae_lambda must be a floating-point tensor"),
    (lambda: gae(ROW, ROW, gae_lambda="0.9"), DtypeError, "gae_lambda must be a number"),  # type: ignore[arg-type]
    (lambda: gae(ROW, ROW, bootstrap_value=torch.tensor(1)), DtypeError, "bootstrap_value must be a floating-point tensor"),
    (lambda: gae(ROW, ROW, bootstrap_value=True), DtypeError, "bootstrap_value must be a number"),
    (lambda: discounted_returns(ROW, gamma=torch.tensor(0.9)), DtypeError, "gamma must be a number"),  # type: ignore[arg-type]
    (lambda: leave_one_out_advantages(TWO, dim=1.0), DtypeError, r"dim must be an integer, got 1\.0"),  # type: ignore[arg-type]
    # shapes
    (lambda: discounted_returns(torch.tensor(1.0)), ShapeError, r"rewards must have at least 1 dimension\(s\), got shape \(\)"),
    (lambda: discounted_returns(torch.ones(2, 0)), ShapeError, r"rewards must have at least one step .*got shape \(2, 0\)"),
    (
        lambda: discounted_returns(TWO, valid_mask=YES),
        ShapeError,
        r"valid_mask must have the shape of rewards \(2, 3\), got \(3,\)",
    ),
    (lambda: discounted_returns(TWO, terminated=YES), ShapeError, "terminated must have the shape of rewards"),
    (lambda: gae(TWO, ROW), ShapeError, "values must have the shape of rewards"),
    (lambda: skip(TWO, ROW, TWO), ShapeError, "action_end_values must have the shape"),
    (lambda: skip(TWO, TWO, ROW), ShapeError, "next_action_values must have the shape"),
    (
        lambda: gae(TWO, TWO, bootstrap_value=ROW),
        ShapeError,
        r"bootstrap_value must have the shape of rewards without time \(2,\), got \(3,\)",
    ),
    (lambda: gae(TWO, TWO, bootstrap_value=TWO), ShapeError, "bootstrap_value must have the shape of rewards without time"),
    (lambda: gae(ROW, ROW, bootstrap_value=torch.ones(1)), ShapeError, r"bootstrap_value .*without time \(\), got \(1,\)"),
    (
        lambda: gae(TWO, TWO, gae_lambda=ROW),
        ShapeError,
        r"gae_lambda must be a number, one per row \(2,\) or one per step \(2, 3\), got shape \(3,\)",
    ),
    (lambda: gae(TWO, TWO, episode_ids=torch.zeros(3, dtype=torch.long)), ShapeError, "episode_ids must have the shape of rewards"),
    (
        lambda: gae(TWO, TWO, episode_ids=torch.zeros(2, 3, dtype=torch.long), bootstrap_value=torch.ones(3, 1)),
        ShapeError,
        r"bootstrap_value must be \[E\] or \[2, 'E'\].*got shape \(3, 1\)",
    ),
    (
        lambda: gae(ROW, ROW, episode_ids=torch.zeros(3, dtype=torch.long), bootstrap_value=torch.ones(0)),
        ShapeError,
        "bootstrap_value must be",
    ),
    (lambda: leave_one_out_advantages(torch.tensor(1.0)), ShapeError, "rewards must have at least 1 dimension"),
    (lambda: broadcast_turn_advantages(ROW, torch.zeros(2, 3).long(), TWO), ShapeError, r"turn_advantages must be \[2, 'K'\]"),
    (
        lambda: broadcast_turn_advantages(torch.ones(0), torch.zeros(3).long(), YES),
        ShapeError,
        "turn_advantages must be .* at least one turn",
    ),
    (
        lambda: broadcast_turn_advantages(TWO, torch.zeros(2, 4).long(), TWO),
        ShapeError,
        "action_mask must have the shape of turn_ids",
    ),
    # devices
    (lambda: gae(ROW, torch.ones(3, device="meta")), DeviceError, r"values must be on the device of rewards \(cpu\), got meta"),
    (lambda: gae(ROW, ROW, bootstrap_value=torch.ones((), device="meta")), DeviceError, "bootstrap_value must be on the device"),
    (lambda: gae(ROW, ROW, gae_lambda=torch.ones((), device="meta")), DeviceError, "gae_lambda must be on the device"),
    (
        lambda: broadcast_turn_advantages(torch.ones(1, device="meta"), torch.zeros(3).long(), YES),
        DeviceError,
        "turn_advantages must be on",
    ),
    # masks
    (
        lambda: discounted_returns(ROW, valid_mask=at(1, 0.5)),
        MaskError,
        r"valid_mask must be boolean or exactly 0/1, got the value 0\.5",
    ),
    (
        lambda: discounted_returns(ROW, valid_mask=at(1, NAN)),
        MaskError,
        "valid_mask must be boolean or exactly 0/1, got the value nan",
    ),
    (lambda: discounted_returns(ROW, terminated=at(1, 2.0)), MaskError, "terminated must be boolean or exactly 0/1"),
    (lambda: broadcast_turn_advantages(ROW, torch.zeros(3).long(), at(0, 3.0)), MaskError, "action_mask must be boolean"),
    # NaN evidence
    (lambda: discounted_returns(at(1, NAN)), NonFiniteError, r"rewards must be finite.*got the value nan at \[1\]"),
    (lambda: gae(ROW, at(0, float("inf"))), NonFiniteError, "values must be finite"),
    (lambda: skip(ROW, at(1, NAN), ROW), NonFiniteError, "action_end_values must be finite"),
    (lambda: skip(ROW, ROW, at(2, NAN)), NonFiniteError, "next_action_values must be finite"),
    (lambda: discounted_returns(ROW, bootstrap_value=torch.tensor(NAN)), NonFiniteError, "bootstrap_value must be finite"),
    (lambda: discounted_returns(ROW, bootstrap_value=float("inf")), NonFiniteError, "bootstrap_value must be finite"),
    (lambda: leave_one_out_advantages(at(1, NAN)), NonFiniteError, "rewards must be finite"),
    (lambda: group_standardized_advantages(at(1, NAN)), NonFiniteError, "rewards must be finite"),
    (lambda: broadcast_turn_advantages(at(0, NAN), torch.zeros(3).long(), YES), NonFiniteError, "turn_advantages must be finite"),
    # coefficients
    (lambda: discounted_returns(ROW, gamma=1.5), RangeError, r"gamma must be in \[0, 1\], got 1\.5"),
    (lambda: gae(ROW, ROW, gamma=-0.1), RangeError, r"gamma must be in \[0, 1\], got -0\.1"),
    (lambda: skip(ROW, ROW, ROW, gamma=NAN), RangeError, "gamma must be in"),
    (lambda: gae(ROW, ROW, gae_lambda=1.01), RangeError, r"gae_lambda must be in \[0, 1\], got 1\.01"),
    (lambda: skip(ROW, ROW, ROW, gae_lambda=-1), RangeError, "gae_lambda must be in"),
    (lambda: gae(ROW, ROW, gae_lambda=at(0, -19.0)), RangeError, r"gae_lambda must be in \[0, 1\], got the value -19\.0"),
    (lambda: gae(ROW, ROW, gae_lambda=at(1, NAN)), RangeError, "gae_lambda must be in"),
    (lambda: discounted_returns(ROW, bootstrap_value=NAN), RangeError, "bootstrap_value must be in"),
    (lambda: group_standardized_advantages(ROW, eps=-1e-8), RangeError, "eps must be in"),
    (lambda: group_standardized_advantages(ROW, eps=float("inf")), RangeError, "eps must be in"),
    (lambda: leave_one_out_advantages(TWO, dim=2), RangeError, r"dim must be in \[-2, 1\], got 2"),
    # groups, turns, episodes
    (
        lambda: leave_one_out_advantages(torch.ones(3, 1)),
        GroupError,
        "rewards must have a group_size of at least 2 along dim -1, got 1",
    ),
    (lambda: leave_one_out_advantages(torch.ones(1, 3), dim=0), GroupError, "group_size"),
    (lambda: group_standardized_advantages(torch.ones(3, 0)), GroupError, "group_size of at least 1 along dim -1, got 0"),
    (lambda: broadcast_turn_advantages(ROW, torch.tensor([0, 3, 0]), YES), RangeError, "invalid turn"),
    (
        lambda: gae(ROW, ROW, episode_ids=torch.tensor([0, 1, 2]), bootstrap_value=torch.ones(2)),
        RangeError,
        r"episode_ids must be in \[0, 2\).*got the value 2 at \[2\]; the ids index bootstrap_value",
    ),
    (
        lambda: gae(ROW, ROW, episode_ids=torch.tensor([4, 1, 4])),
        RangeError,
        r"episode_ids must name each episode once .*got the value 4 at \[2\]",
    ),
    (
        lambda: gae(TWO, TWO, episode_ids=torch.tensor([[0, 1, 1], [1, 2, 2]]), bootstrap_value=torch.ones(3)),
        RangeError,
        r"episode_ids must name each episode of the batch once .*got the value 1 at \[1, 0\]; give one table per row",
    ),
]


@pytest.mark.parametrize(("call", "error", "message"), CASES)
def test_bad_input_is_refused_by_name(call: Callable[[], Any], error: type[RoseError], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_options_are_keyword_only() -> None:
    for call in (
        lambda: discounted_returns(ROW, 0.9),  # type: ignore[call-arg]
        lambda: gae(ROW, ROW, 0.9),  # type: ignore[call-arg]
        lambda: skip(ROW, ROW, ROW, 0.9),  # type: ignore[call-arg]
        lambda: leave_one_out_advantages(TWO, 0),  # type: ignore[call-arg]
        lambda: group_standardized_advantages(TWO, 0),  # type: ignore[call-arg]
    ):
        with pytest.raises(TypeError, match="positional"):
            call()


def test_without_value_checks_bad_evidence_stays_visible() -> None:
    """Switched off, a check costs nothing; what it would have found is NaN in the result, not another number."""
    with checks.without_value_checks():
        tokens = broadcast_turn_advantages(ROW, torch.tensor([0, 3, -1]), YES)
        assert tokens[0] == 1
        assert tokens[1:].isnan().all()
        ids = torch.tensor([0, 0, 5])
        packed, _ = gae(ROW, ROW, gae_lambda=0.0, episode_ids=ids, bootstrap_value=torch.ones(1))
        assert packed[:2].tolist() == [1.0, 1.0]
        assert packed[2].isnan()
        # one episode's NaN does not reach the episode before it
        poisoned, _ = gae(at(2, NAN), ROW, episode_ids=torch.tensor([0, 0, 1]))
        assert poisoned[:2].tolist() == [1.0, 0.0]
        assert poisoned[2].isnan()


def test_on_an_accelerator_nothing_reads_a_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """A meta tensor has no values: reading one, as every wait for a device does, would raise here."""
    pending: dict[Any, Any] = {}
    monkeypatch.setattr(checks, "_deferred", pending)
    row, ids = torch.ones(2, 100, device="meta"), torch.zeros(2, 100, dtype=torch.long, device="meta")
    flags: dict[str, Any] = {"terminated": row, "valid_mask": row}
    results = [
        discounted_returns(row, bootstrap_value=row[:, 0], **flags),
        *gae(row, row, gae_lambda=row, bootstrap_value=row, episode_ids=ids, **flags),
        *gae(row, row, gae_lambda=0.9, bootstrap_value=row[0], episode_ids=ids, **flags),
        *gae(row, row, bootstrap_value=1.0, **flags),
        *skip(row, row, row, **flags),
        leave_one_out_advantages(row),
        group_standardized_advantages(row),
        broadcast_turn_advantages(row, ids, row),
    ]
    assert all(result.shape == (2, 100) for result in results)
    # what would have been raised here waits on the device instead
    assert any("invalid turn" in message for message, _, _ in pending)
