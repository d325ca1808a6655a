"""The two ways of measuring a batch, in main memory and as queued on a device, against each other and against loops."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
import torch
from audit_faults import FAULTS
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles_audit import Shape, healthy_arguments, make_world, with_critic, with_loss

from rosellm.roserlhf.audit import Report, check_batch
from rosellm.roserlhf.audit.batch import host_profile
from rosellm.roserlhf.audit.batch.device_profile import measure_on_device
from rosellm.roserlhf.audit.batch.host_profile import measure_on_host
from rosellm.roserlhf.audit.batch.inputs import Batch
from rosellm.roserlhf.audit.batch.profile import Profile, read
from rosellm.roserlhf.audit.batch.runs import runs_of

PLANTED = [(name, shape) for name, fault in FAULTS.items() for shape in range(len(fault.shapes))]


def told(report: Report) -> list[tuple[Any, ...]]:
    """Findings with their numbers to four digits: sums of 32-bit numbers differ in the last ones with the order of adding."""
    return [(f.check, f.severity, rounded(f.summary), rounded(str(dict(f.evidence)))) for f in report.findings]


def rounded(text: str) -> str:
    return re.sub(r"\d+\.\d+(e-?\d+)?", lambda number: f"{float(number[0]):.3g}", text)


def both(arguments: dict[str, Any]) -> tuple[Report, Report]:
    """Report of the measurements in main memory, and of those that a device would have queued."""
    return check_batch(**arguments), check_batch(**arguments, sync=False).wait()


@pytest.mark.parametrize(("name", "shape"), PLANTED, ids=[f"{name}-{shape}" for name, shape in PLANTED])
def test_both_find_the_same_faults(name: str, shape: int) -> None:
    fault = FAULTS[name]
    host, device = both(fault.world(1, fault.shapes[shape]).arguments)
    assert told(host) == told(device)
    assert (host.checked, host.not_checked) == (device.checked, device.not_checked)


@pytest.mark.parametrize("block", range(5))
def test_both_say_the_same_of_healthy_batches(block: int) -> None:
    for seed in range(10 * block, 10 * block + 10):
        host, device = both(healthy_arguments(seed))
        assert told(host) == told(device), f"seed {seed}"
        assert host.not_checked == device.not_checked


def columns(profile: Any, prefix: str = "") -> dict[str, Any]:
    """Every column of a profile by its path."""
    flat: dict[str, Any] = {}
    for field in fields(profile):
        value = getattr(profile, field.name)
        if isinstance(value, np.ndarray):
            flat[prefix + field.name] = value
        elif value is not None:
            flat |= columns(value, f"{prefix}{field.name}.")
    return flat


def batch_of(seed: int, rows: int, width: int, dtype: torch.dtype = torch.float32) -> Batch:
    """Random tensors of every kind; NaN and infinity stand where nothing is trained."""
    generator = torch.Generator().manual_seed(seed)

    def flags(share: float) -> torch.Tensor:
        return torch.rand(rows, width, generator=generator) < share

    def numbers() -> torch.Tensor:
        values = torch.randn(rows, width, generator=generator, dtype=dtype)
        return torch.where(mask | flags(0.5), values, values.sign() * torch.inf + flags(0.5) * torch.nan)

    def integers(high: int, kind: torch.dtype) -> torch.Tensor:
        return torch.randint(0, high, (rows, width), generator=generator).to(kind)

    mask = flags((0.0, 0.1, 0.5, 0.9, 1.0)[seed % 5])
    return Batch(
        mask=mask,
        raw_mask=mask.float() + (flags(0.1) & mask),
        input_ids=integers(4, torch.int64),
        old_logprobs=numbers(),
        current_logprobs=numbers(),
        advantages=numbers(),
        rewards=integers(3, torch.float32),
        token_loss=numbers(),
        valid_mask=flags(0.8),
        content_mask=flags(0.5),
        reasoning_mask=flags(0.3),
        roles=integers(6, torch.int8),
        policy_codes=(3, 5),
        stop_ids=(1, 2),
        token_versions=integers(9, torch.int64),
        truncated=flags(0.5)[:, 0],
    )


SIZES = st.tuples(st.integers(0, 4), st.integers(1, 6), st.integers(1, 40), st.sampled_from([torch.float32, torch.float64]))


@given(SIZES)
@settings(derandomize=True, max_examples=60, deadline=None)
def test_every_column_agrees(size: tuple[int, int, int, torch.dtype]) -> None:
    agree(batch_of(*size))


def agree(batch: Batch) -> None:
    host, device = columns(measure_on_host(batch)), columns(read(measure_on_device(batch)))
    assert host.keys() == device.keys()
    for name, column in host.items():
        if name.endswith("low_bits"):  # a sample, and not the same one
            continue
        here, there = column, device[name]
        if name.split(".")[-1] in ("lowest", "highest", "lowest_id") and not name.startswith("advantage"):
            here, there = (np.minimum if "low" in name else np.maximum)(column, 0), there  # 0 may stand for the mildest number
            there = (np.minimum if "low" in name else np.maximum)(there, 0)
        np.testing.assert_allclose(here, there, rtol=1e-4, atol=1e-4, err_msg=name)


@pytest.mark.parametrize("entries", [1, 7, 64, 1 << 20])
def test_the_size_of_a_block_changes_nothing(entries: int, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = batch_of(2, 13, 7)
    expected = columns(measure_on_host(batch))
    monkeypatch.setattr(host_profile, "_BLOCK", entries)
    for name, column in columns(measure_on_host(batch)).items():
        if not name.endswith("low_bits"):
            np.testing.assert_allclose(column, expected[name], rtol=1e-5, err_msg=name)


def test_tensors_that_are_not_contiguous_are_read_in_place() -> None:
    whole = batch_of(7, 5, 24)
    cut: dict[str, Any] = {
        name: value[:, 1:-2] for name, value in vars(whole).items() if torch.is_tensor(value) and value.ndim == 2
    }
    cut["old_logprobs"] = cut["old_logprobs"].t().contiguous().t()
    agree(replace(whole, **cut))


@given(st.lists(st.lists(st.booleans(), min_size=5, max_size=5), min_size=1, max_size=4))
@settings(derandomize=True, max_examples=60, deadline=None)
def test_runs_against_a_loop(mask: list[list[bool]]) -> None:
    expected = []
    for row, flags in enumerate(mask):
        start = None
        for place, flag in enumerate([*flags, False]):
            if flag and start is None:
                start = place
            if not flag and start is not None:
                expected.append((row, start, place - 1))
                start = None
    runs = runs_of(np.array(mask))
    assert list(zip(runs.row.tolist(), runs.first.tolist(), runs.last.tolist(), strict=True)) == expected


def test_columns_against_hand_arithmetic() -> None:
    # row 0 trains -1 and -3 against -2 and -2: log-ratios 1 and -1; row 1 trains nothing
    nan = float("nan")
    batch = Batch(
        mask=torch.tensor([[False, True, True], [False] * 3]),
        old_logprobs=torch.tensor([[nan, -2.0, -2.0], [-1.0, nan, 0.0]]),
        current_logprobs=torch.tensor([[nan, -1.0, -3.0], [nan, nan, nan]]),
    )
    seen: Profile[Any] = measure_on_host(batch)
    assert seen.ratio is not None
    assert seen.scored is not None
    assert seen.current is not None
    assert (seen.mask.trained.tolist(), seen.mask.first.tolist(), seen.mask.last.tolist()) == ([2, 0], [1, 3], [2, -1])
    assert (seen.ratio.squares.tolist(), seen.ratio.lowest.tolist(), seen.ratio.highest.tolist()) == ([2, 0], [-1, 0], [1, 0])
    assert (seen.scored.outside.tolist(), seen.scored.missed.tolist()) == ([0, 0], [0, 1])
    assert seen.current.total.tolist() == [-4, 0]


def test_a_critic_is_judged_by_a_sample_first_and_by_everything_then(monkeypatch: pytest.MonkeyPatch) -> None:
    from rosellm.roserlhf.audit.batch import values

    monkeypatch.setattr(values, "_SAMPLE", 32)
    healthy = with_loss(with_critic(make_world(3, Shape(groups=6, members=6)))).arguments
    assert check_batch(**healthy).worst in (None, "info")
    shifted = dict(healthy, values=healthy["values"].roll(1, 1))
    assert "critic_shifted" in {finding.check for finding in check_batch(**shifted).at_least("error")}
