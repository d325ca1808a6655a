"""What check_batch accepts, refuses, and does without waiting for the device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from oracles_audit import Shape, make_world

from rosellm.roserlhf import DeviceError, DtypeError, RangeError, ShapeError
from rosellm.roserlhf.audit import check_batch
from rosellm.roserlhf.audit.batch.check_batch import CHECKS, EXPLAINS
from rosellm.roserlhf.audit.batch.inputs import Reader

MASK = torch.tensor([[False, True, True], [True, True, False]])


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"action_mask": torch.ones(3)}, ShapeError, r"action_mask must have shape \[B, T\].*got \(3,\)"),
        ({"action_mask": torch.ones(0, 3)}, ShapeError, "at least one row"),
        ({"action_mask": "mask"}, DtypeError, "action_mask must be a tensor, an array or a list of numbers, got str"),
        ({"action_mask": MASK, "old_logprobs": torch.ones(2, 4)}, ShapeError, r"old_logprobs must have the shape of action_mask"),
        (
            {"action_mask": MASK, "old_logprobs": torch.ones(2, 3).long()},
            DtypeError,
            "old_logprobs must be a floating-point tensor",
        ),
        ({"action_mask": MASK, "rewards": [1.0]}, ShapeError, r"rewards must have shape \[2\] or \[2, 1\], got \(1,\)"),
        ({"action_mask": MASK, "group_ids": ["a"]}, ShapeError, r"group_ids must have one id per row \(2\), got 1"),
        ({"action_mask": MASK, "group_ids": [{}, {}]}, DtypeError, "group_ids must hold hashable ids"),
        ({"action_mask": MASK, "input_ids": torch.ones(2, 3)}, DtypeError, "input_ids must be an integer tensor"),
        ({"action_mask": MASK, "roles": [["user"] * 3]}, ShapeError, "roles must have the shape of action_mask"),
        ({"action_mask": MASK, "aggregation": "mean"}, RangeError, "aggregation must be one of 'token'"),
        ({"action_mask": MASK, "credit": "row"}, RangeError, "credit must be one of 'trajectory'"),
        ({"action_mask": MASK, "micro_batches": [1]}, RangeError, r"micro_batches must sum to the number of rows \(2\)"),
        ({"action_mask": MASK, "sampled_ids": [[1]]}, ShapeError, "sampled_ids must have one sequence per row"),
        (
            {"action_mask": MASK, "versions": [1, 2], "current_version": "v2"},
            DtypeError,
            "current_version must be an integer like versions",
        ),
        ({"action_mask": MASK, "before_update": "no"}, DtypeError, "before_update must be True or False"),
        ({"action_mask": MASK, "loss": torch.ones(2)}, ShapeError, "loss must be one number"),
        ({"action_mask": MASK, "loss": "small"}, DtypeError, "loss must be a tensor, an array or a list of numbers"),
        ({"action_mask": MASK, "micro_batches": 2}, DtypeError, "micro_batches must be a sequence"),
        ({"action_mask": MASK, "micro_batches": ["all"]}, DtypeError, "micro_batches must hold the number of rows"),
        ({"action_mask": MASK, "stop_ids": [None]}, DtypeError, "stop_ids must be an integer or hold integers"),
        ({"action_mask": MASK, "sampled_ids": ["a", "b"]}, DtypeError, "sampled_ids must hold one sequence of integers per row"),
        ({"action_mask": MASK, "temperature": "hot"}, DtypeError, "temperature must be a number"),
        ({"action_mask": MASK, "top_p": 1.5}, RangeError, "top_p must be in"),
        ({"action_mask": MASK, "prompt_ids": torch.ones(3, 1).long()}, ShapeError, r"prompt_ids must have shape \[2, P\]"),
    ],
)
def test_bad_input_is_refused(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        check_batch(**arguments)


def test_a_denominator_of_zero_is_a_finding_and_no_stop_ids_are_none() -> None:
    report = check_batch(action_mask=MASK, loss=1.0, token_loss=torch.ones(2, 3), denominator=0, stop_ids=())
    assert [(finding.check, finding.severity) for finding in report.findings] == [("aggregation_mismatch", "error")]
    assert "stop_ids" in report.not_checked["trained_after_stop"]


def test_a_report_on_tensors_without_data_cannot_be_read() -> None:
    with pytest.raises(DeviceError, match="action_mask must hold numbers by the time the report is read"):
        check_batch(action_mask=MASK.to("meta")).findings  # noqa: B018


def test_lists_arrays_and_columns_are_read_like_tensors() -> None:
    arguments = make_world(0).arguments
    expected = check_batch(**arguments).to_dict()
    other = dict(arguments)
    other["rewards"] = arguments["rewards"].tolist()
    other["advantages"] = arguments["advantages"][:, None]
    other["old_logprobs"] = arguments["old_logprobs"].numpy()
    other["group_ids"] = np.array(arguments["group_ids"])
    other["truncated"] = arguments["truncated"].tolist()
    assert check_batch(**other).to_dict() == expected


@pytest.mark.parametrize("lag", [2, np.int64(2), torch.tensor(2), [2, 2], torch.tensor([[2], [2]])])
def test_lag_is_one_number_or_one_per_row(lag: Any) -> None:
    logprobs = torch.full((2, 3), -1.0)
    report = check_batch(action_mask=MASK, old_logprobs=logprobs, current_logprobs=logprobs, lag=lag)
    assert [finding.check for finding in report.findings] == ["ratio_one_while_stale"]


@pytest.mark.parametrize("versions", [["v1", "v1"], [7, 7], np.array([7, 7]), torch.tensor([7, 7]), np.full((2, 3), 7)])
def test_versions_are_names_or_numbers_per_row_or_per_token(versions: Any) -> None:
    logprobs, current = torch.full((2, 3), -1.0), "v2" if isinstance(versions[0], str) else 8
    arguments: dict[str, Any] = {"action_mask": MASK, "old_logprobs": logprobs, "current_logprobs": logprobs, "versions": versions}
    assert [f.check for f in check_batch(**arguments, current_version=current).findings] == ["ratio_one_while_stale"]
    assert check_batch(**arguments).findings == ()


def test_a_missing_reward_in_a_list_is_unscored() -> None:
    reward = Reader(MASK).per_token_or_row([1.0, None], "rewards")
    assert reward is not None
    assert reward.isnan().tolist() == [False, True]


def test_roles_may_be_names_or_codes_with_their_own_meaning() -> None:
    mask = torch.tensor([[False, True, True]])
    assert check_batch(action_mask=mask, roles=[["user", "assistant", "assistant"]]).findings == ()
    named = check_batch(action_mask=mask, roles=[["user", "assistant", "tool"]]).findings
    coded = check_batch(
        action_mask=mask, roles=torch.tensor([[0, 7, 9]]), role_names={0: "user", 7: "assistant", 9: "tool"}
    ).findings
    own = check_batch(action_mask=mask, roles=torch.tensor([[0, 7, 9]]), policy_roles=[7]).findings
    assert [f[0].check for f in (named, coded, own)] == ["foreign_tokens_trained"] * 3
    assert named[0].evidence["trained tokens by role"] == {"assistant": 1, "tool": 1}


WAITS = ("item", "__bool__", "__int__", "__float__", "__index__", "nonzero", "cpu", "tolist", "numpy")


def test_nothing_is_read_before_the_report_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = make_world(1).arguments
    tensors_only: dict[str, Any] = {
        name: value for name, value in arguments.items() if isinstance(value, (torch.Tensor, int, bool, str))
    }
    tensors_only["group_ids"] = torch.arange(16) // 4

    def forbidden(*_: Any, **__: Any) -> Any:
        raise AssertionError("read from the device")

    with monkeypatch.context() as patch:
        for name in WAITS:
            patch.setattr(torch.Tensor, name, forbidden)
        patch.setattr(torch, "nonzero", forbidden)
        report = check_batch(**tensors_only, stop_ids=[2], sync=False)
        assert report.pending
        assert repr(report) == "<Report audit of a batch: pending>"
    assert report.wait().worst in (None, "info")
    assert not report.pending


def test_it_runs_on_tensors_without_data() -> None:
    arguments: dict[str, Any] = {
        name: value.to("meta") for name, value in make_world(1).arguments.items() if isinstance(value, torch.Tensor) and value.ndim
    }
    assert check_batch(**arguments, stop_ids=[2]).pending


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_is_not_waited_for() -> None:
    arguments = make_world(1).arguments
    there: dict[str, Any] = {name: value.cuda() if isinstance(value, torch.Tensor) else value for name, value in arguments.items()}
    check_batch(**there).wait()
    tensors: dict[str, Any] = {name: value for name, value in there.items() if isinstance(value, torch.Tensor)}
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        report = check_batch(**tensors)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert report.worst in (None, "info")


def test_the_deferred_report_says_the_same() -> None:
    world = make_world(4, Shape(drift=0.2))
    world.arguments["lag"] = 0
    assert check_batch(**world.arguments, sync=False).to_dict() == check_batch(**world.arguments).to_dict()


def test_every_name_is_given_once_and_consequences_are_known_names() -> None:
    names = [name for check in CHECKS for name in check.names]
    assert len(names) == len(set(names)) >= 30
    assert set(EXPLAINS) <= set(names)
    assert {name for names_of in EXPLAINS.values() for name in names_of} <= set(names)
