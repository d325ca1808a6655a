"""Corrections of mismatch at their edges: extremes, parts of sequences on two ranks, bad input, compiling."""

from __future__ import annotations

import functools
import json
import math
import multiprocessing
import pathlib
from typing import Any

import pytest
import torch
import torch.distributed as dist
from cases_mismatch import CORRECTIONS, a_batch, of
from cases_objective import DEVICE, close, counted, raises, tensor
from torch import Tensor

from rosellm.roserlhf import errors, losses
from rosellm.roserlhf.losses import (
    MismatchCorrection,
    effective_sample_size,
    icepop,
    mismatch_correction,
    opsm,
    tis,
)

LEVELS: Any = ("token", "geometric_sequence", "product_sequence", "segment")


# Extremes.


@pytest.mark.parametrize(
    "name", ["icepop", "mis", "geometric_sequence mask", "product_sequence mask", "token mask", "segment mask"]
)
def test_all_rejected_is_zero_and_finite(name: str) -> None:
    proximal = torch.full((2, 3), 50.0, device=DEVICE)
    mask = torch.ones(2, 3, dtype=torch.bool, device=DEVICE)
    seen = CORRECTIONS[name](proximal, torch.zeros_like(proximal), mask)
    assert (seen.weights == 0).all()
    assert effective_sample_size(seen.partials) == 0
    assert all(p.mean().isfinite() for p in seen.partials.values())
    credit, kept = seen.apply(torch.ones(2, device=DEVICE), mask)
    current = proximal.clone().requires_grad_()
    out = losses.clipped_policy_loss(current, proximal, credit, kept)
    assert out.loss == 0
    assert (torch.autograd.grad(out.loss, current)[0] == 0).all()
    _, nothing = seen.apply(torch.ones(2, device=DEVICE), mask, "kept")
    assert losses.clipped_policy_loss(current, proximal, credit, nothing, denominator=6.0).loss == 0


@pytest.mark.parametrize("name", CORRECTIONS)
def test_nothing_live_counts_nothing(name: str) -> None:
    junk = torch.full((2, 3), math.nan, device=DEVICE)
    seen = CORRECTIONS[name](junk, junk, torch.zeros(2, 3, dtype=torch.bool, device=DEVICE))
    assert (seen.weights == 0).all()
    assert not seen.keep_mask.any()
    assert all(counted(p) == (0.0, 0.0) for p in seen.partials.values())


@pytest.mark.parametrize("junk", [math.nan, math.inf, -math.inf, 1e30])
@pytest.mark.parametrize("level", LEVELS)
def test_masked_positions_hold_anything(level: Any, junk: float) -> None:
    logs = tensor([[0.5, junk, -0.25]])
    seen = mismatch_correction(logs, tensor([[0.0, junk, 0.0]]), tensor([[1, 0, 1]]), level=level, action="truncate", ratio_max=9.0)
    clean = mismatch_correction(
        tensor([[0.5, 0.0, -0.25]]), tensor([[0.0] * 3]), tensor([[1, 0, 1]]), level=level, action="truncate", ratio_max=9.0
    )
    assert seen.weights.tolist() == clean.weights.tolist()
    credit, _ = seen.apply(tensor([[1.0, junk, 1.0]]), tensor([[1, 0, 1]]))
    assert credit.isfinite().all()


def test_a_product_over_thousands_of_tokens_does_not_overflow() -> None:
    logs = torch.stack([torch.full((8000,), 1.0, device=DEVICE), torch.full((8000,), -1.0, device=DEVICE)])
    ones = torch.ones_like(logs, dtype=torch.bool)
    how: dict[str, Any] = {"level": "product_sequence", "ratio_max": 2.0}
    seen = mismatch_correction(logs, torch.zeros_like(logs), ones, action="truncate", **how)
    assert (seen.weights[0] == 2.0).all()
    assert (seen.weights[1] < 1e-8).all()
    assert counted(seen.partials["product_sequence_log_ratio_clamped_fraction"]) == (2.0, 2.0)
    assert all(p.mean().isfinite() for p in seen.partials.values())
    balanced = torch.cat([logs[:1], logs[1:]], dim=1)  # +8000 - 8000 = 0: the product is 1
    assert (
        mismatch_correction(balanced, torch.zeros_like(balanced), torch.ones_like(balanced), action="mask", **how).weights.unique()
        == 1
    )


def test_R36_a_rejected_overflow_is_selected_away() -> None:
    """Behaviour -100 against -1: the ratio e^99 overflows float32, is rejected, and nothing becomes NaN."""
    proximal, behaviour = torch.tensor([[-1.0, -1.0]], device=DEVICE), torch.tensor([[-100.0, -1.0]], device=DEVICE)
    seen = icepop(proximal, behaviour, torch.ones_like(proximal))
    assert seen.weights.tolist() == [[0.0, 1.0]]
    unbounded = mismatch_correction(
        proximal, behaviour, torch.ones_like(proximal), level="token", action="mask", ratio_max=5.0, max_log_ratio=math.inf
    )
    assert unbounded.weights.tolist() == [[0.0, 1.0]]


# Context parallelism: the columns of two sequences on two ranks.

LOGS = [[0.5, -0.25, 0.1, 0.2], [0.7, 0.6, -0.1, 0.3]]
LIVE = [[1, 1, 0, 1], [1, 1, 0, 0]]  # the second rank holds nothing of the second sequence
PARALLEL: list[dict[str, Any]] = [
    {"level": level, "action": action, "ratio_min": 0.9, "ratio_max": 1.3}
    for level in ("token", "geometric_sequence", "product_sequence")
    for action in ("truncate", "mask")
]


def _columns(rank: int | None) -> tuple[Tensor, Tensor]:
    part = slice(None) if rank is None else slice(2 * rank, 2 * rank + 2)
    return torch.tensor(LOGS, dtype=torch.float64)[:, part], torch.tensor(LIVE)[:, part]


def _described(correction: MismatchCorrection) -> dict[str, Any]:
    return {
        "weights": correction.weights.tolist(),
        "partials": {name: counted(partial) for name, partial in correction.partials.items()},
    }


def _run(rank: int | None, group: Any) -> list[dict[str, Any]]:
    logs, mask = _columns(rank)
    seen = [mismatch_correction(logs, torch.zeros_like(logs), mask, context_group=group, **how) for how in PARALLEL]
    seen.append(opsm(-logs, torch.zeros_like(logs), torch.tensor([-1.0, 1.0]), mask, delta=0.05, context_group=group))
    return [_described(correction) for correction in seen]


def worker(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    pathlib.Path(folder, f"{rank}.json").write_text(json.dumps(_run(rank, dist.group.WORLD)))
    dist.destroy_process_group()


def test_ranks_that_hold_parts_of_sequences_agree(tmp_path: pathlib.Path) -> None:
    processes = [multiprocessing.get_context("spawn").Process(target=worker, args=(rank, str(tmp_path))) for rank in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(timeout=120)
        assert process.exitcode == 0
    ranks = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2)]
    for left, right, whole in zip(*ranks, _run(None, None), strict=True):
        close([a + b for a, b in zip(left["weights"], right["weights"], strict=True)], whole["weights"])
        for name, (total, count) in whole["partials"].items():
            close([sum(pair) for pair in zip(left["partials"][name], right["partials"][name], strict=True)], [total, count])


# Bad input.


def test_bad_input_is_named() -> None:
    logs, ones = tensor([[-1.0, -2.0]]), tensor([[1, 1]])
    run: Any = functools.partial(mismatch_correction, logs, logs, ones, level="token", action="mask", ratio_max=2.0)
    with raises(errors.NonFiniteError, "behaviour_logprobs must be finite wherever its mask is true, got the value -inf"):
        tis(logs, tensor([[-1.0, -math.inf]]), ones)
    for change, error, message in (
        ({"level": "sequence"}, errors.RangeError, "level must be one of 'token', 'geometric_sequence'"),
        ({"action": "clip"}, errors.RangeError, "action must be one of 'truncate', 'mask'"),
        ({"bounds": "half"}, errors.RangeError, "bounds must be one of"),
        ({"weight": "two"}, errors.RangeError, "weight must be one of"),
        ({"ratio_max": 0.9}, errors.RangeError, r"ratio_max must be in \[1, inf\)"),
        ({"ratio_min": 1.1}, errors.RangeError, r"ratio_min must be in \[0, 1\]"),
        ({"ratio_max": 1.0, "bounds": "open"}, errors.RangeError, r"ratio_max must be in \(1, inf\)"),
        ({"action": "truncate", "bounds": "open"}, errors.RangeError, 'bounds must be "closed" for action="truncate"'),
        ({"action": "truncate", "weight": "one"}, errors.RangeError, 'weight must be "ratio"'),
        ({"segment_ids": ones}, errors.RangeError, 'segment_ids must be given only for level="segment"'),
        ({"horizon": 8.0}, errors.ArgumentError, "horizon must not be given to a correction"),
        ({"sequence_idz": ones}, errors.ArgumentError, "did you mean sequence_ids"),
        ({"level": "segment", "segment_ids": ones[0]}, errors.ShapeError, "segment_ids must have the shape of the tokens"),
        ({"context_group": "world"}, errors.DtypeError, "context_group must be a torch.distributed.ProcessGroup"),
        ({"max_log_ratio": 0.0}, errors.RangeError, "max_log_ratio must be in"),
    ):
        with raises(error, message):
            run(**change)
    with raises(errors.ShapeError, "action_mask must have the shape of the corrected tokens"):
        run().apply(tensor([1.0]), tensor([[1]]))
    with raises(errors.MaskError, "action_mask must be true only where the mask of the correction is"):
        of([[1.0, 2.0]], [[1, 0]], level="token", action="mask", ratio_max=4.0).apply(tensor([1.0]), ones)
    with raises(errors.RangeError, "delta must be in"):
        opsm(logs, logs, tensor([1.0]), ones, delta=-1.0)


@pytest.mark.filterwarnings("error::UserWarning")
def test_half_precision_evidence_warns() -> None:
    logs = torch.tensor([[-1.0]], dtype=torch.bfloat16, device=DEVICE)
    with pytest.warns(UserWarning, match="proximal_logprobs should be float32"):
        assert tis(logs, logs.float(), torch.ones(1, 1, device=DEVICE)).weights.dtype == torch.float32


def test_compiles_without_a_break() -> None:
    behaviour, proximal, _, advantages, mask = a_batch()

    def credit(evidence: Tensor) -> Tensor:
        of_turns = mismatch_correction(evidence, behaviour, mask, level="segment", action="truncate", ratio_max=2.0)
        return (of_turns * tis(evidence, behaviour, mask)).apply(advantages, mask)[0]

    torch.testing.assert_close(torch.compile(credit, fullgraph=True, backend="eager")(proximal), credit(proximal))


@pytest.mark.parametrize("level", LEVELS)
def test_reads_no_data_on_the_host(level: Any) -> None:
    """Tensors without data would fail at the first read, which on an accelerator is a stall."""
    logs, mask = torch.empty(2, 3, device="meta"), torch.empty(2, 3, dtype=torch.bool, device="meta")
    seen = mismatch_correction(logs, logs, mask, level=level, action="mask", ratio_max=2.0) * opsm(
        logs, logs, logs, mask, delta=0.1
    )
    seen.apply(torch.empty(2, device="meta"), mask, "kept")
    seen.kept_sequences()
    effective_sample_size(seen.partials)
    losses.kl_loss(logs, logs, mask, behaviour_logprobs=logs)
    losses.exact_kl(logs, logs, support=mask)
    losses.kl_penalty(logs, logs, logs, mask, coefficient=0.1)
