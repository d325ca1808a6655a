"""Two real processes: micro-batches of a step on two ranks, and sequences that are cut in two between context-parallel ranks."""

from __future__ import annotations

import json
import multiprocessing
import pathlib
from typing import Any

import cases_objective as cases
import oracles_objective as oracles
import pytest
import torch
import torch.distributed as dist
from cases_objective import AGGREGATIONS, HIGH, HORIZON, LOW, OBJECTIVES, Batch, Sequence, a_batch

from rosellm.roserlhf.errors import DtypeError, RangeError
from rosellm.roserlhf.losses import gspo_policy_loss, gspo_token_policy_loss, rollout_denominators, step_denominator
from rosellm.roserlhf.metrics import means, over_ranks

MINE = ([2, 0, 3], [1, 4])
"""Sequences of each rank where whole ones are shared out; the first of rank 0 is fully masked, rollout 7 lies on rank 0 alone."""


def sequences() -> list[Sequence]:
    return a_batch()


def whole_sequences(rank: int, group: dist.ProcessGroup) -> dict[str, Any]:
    """Loss, gradient and objective of every loss and aggregation."""
    seen: dict[str, Any] = {}
    for aggregation in AGGREGATIONS:
        for name, objective in OBJECTIVES.items():
            batch = cases.padded([sequences()[i] for i in MINE[rank]])
            denominator: Any = (
                rollout_denominators([batch.mask], [batch.rollout_ids], group)[0]
                if aggregation == "rollout"
                else step_denominator([batch.mask], aggregation, group)  # type: ignore[arg-type]
            )
            out = objective.run(batch, **cases.how_to(aggregation, batch), denominator=denominator)
            out.loss.backward()
            total = means(over_ranks(out.partials, group))["objective"] if name == "clipped" else None
            seen[f"{name} {aggregation}"] = [out.loss.item(), cases.gradient_of(batch), total]
    return seen


CUTS = {"in the middle": 2, "behind everything": 5, "before everything": 0}
"""Column of the padded batch at which the second rank begins: the halves, or one rank with no token at all."""


def half_of(rank: int, cut: int, empty_mask: bool) -> Batch:
    """One rank's columns of the padded batch; `empty_mask` gives a rank without columns one that is masked."""
    batch = cases.padded(sequences())
    columns = slice(0, cut) if rank == 0 else slice(cut, 5)
    part = batch._replace(
        current=batch.current.detach()[:, columns].clone(),
        old=batch.old[:, columns],
        advantages=batch.advantages[:, columns],
        mask=batch.mask[:, columns],
    )
    if empty_mask and part.mask.shape[1] == 0:
        nothing = torch.full((5, 1), float("nan"), dtype=torch.float64, device=batch.mask.device)
        part = part._replace(current=nothing, old=nothing, advantages=nothing, mask=torch.zeros_like(batch.mask[:, :1]))
    return part._replace(current=part.current.requires_grad_())


def cut_sequences(rank: int, group: dist.ProcessGroup) -> dict[str, Any]:
    seen: dict[str, Any] = {}
    for name, cut in CUTS.items():
        for aggregation in ("rollout", "token"):
            for empty_mask in (False, True):
                for uniform in (True, False):
                    batch = half_of(rank, cut, empty_mask)
                    seen[f"{name} {aggregation} {empty_mask} {uniform}"] = _cut(batch, aggregation, uniform, group)
    return seen


def _cut(batch: Batch, aggregation: Any, uniform: bool, group: dist.ProcessGroup) -> list[Any]:
    ids = torch.arange(5, device=batch.mask.device)
    denominator = (
        rollout_denominators([batch.mask], [ids], group)[0]
        if aggregation == "rollout"
        else step_denominator([batch.mask], "token", group)
    )
    run: Any = gspo_policy_loss if uniform else gspo_token_policy_loss
    out = run(
        batch.current,
        batch.old,
        batch.sequence_advantages if uniform else batch.advantages,
        batch.mask,
        clip_low=LOW,
        clip_high=HIGH,
        context_group=group,
        aggregation=aggregation,
        denominator=denominator,
    )
    (slopes,) = torch.autograd.grad(out.loss, batch.current)
    return [out.loss.item(), slopes.tolist(), means(over_ranks(out.partials, group)), out.sequence_ratios.tolist()]


def packed_halves(rank: int, group: dist.ProcessGroup) -> list[Any]:
    """Sequences [a, b, c], [d] packed, of which rank 0 holds a, b and rank 1 holds c, d; by boundaries and by indices."""
    found = []
    cuts, ids = (torch.tensor([0, 2, 2]), torch.tensor([0, 0])) if rank == 0 else (torch.tensor([0, 1, 2]), torch.tensor([0, 1]))
    for layout in ({"cu_seqlens": cuts}, {"sequence_ids": ids, "num_sequences": 2}):
        current = torch.tensor([[0.1, -0.2], [0.3, 0.1]][rank], dtype=torch.float64, requires_grad=True)
        (denominator,) = rollout_denominators([torch.ones(2)], [ids], group)
        out = gspo_policy_loss(
            current,
            torch.zeros(2, dtype=torch.float64),
            torch.tensor([1.0, -1.0], dtype=torch.float64),
            torch.ones(2),
            clip_low=0.5,
            clip_high=0.5,
            context_group=group,
            aggregation="rollout",
            denominator=denominator,
            **layout,
        )
        found.append([out.loss.item(), torch.autograd.grad(out.loss, current)[0].tolist()])
    return found


def worker(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    world = dist.group.WORLD
    assert world is not None
    seen = {"whole": whole_sequences(rank, world), "cut": cut_sequences(rank, world), "packed": packed_halves(rank, world)}
    seen["refused"] = _refusals(world)
    pathlib.Path(folder, f"{rank}.json").write_text(json.dumps(seen))
    dist.destroy_process_group()


def _refusals(group: dist.ProcessGroup) -> list[str]:
    zeros, ones, credit = torch.zeros(2, 2), torch.ones(2, 2), torch.ones(2)
    ids = torch.tensor([[0, 0], [1, 1]])
    wrong: list[dict[str, Any]] = [
        {"denominator": 2.0},
        {"denominator": 2.0, "aggregation": "rollout", "rollout_ids": ids},
        {"aggregation": "token"},
        {"aggregation": "token", "denominator": 4.0, "position_ids": torch.tensor([[0, 1], [0, 1]])},
    ]
    messages = []
    for how in wrong:
        try:
            gspo_policy_loss(zeros, zeros, credit, ones, clip_low=0.2, clip_high=0.2, context_group=group, **how)
        except RangeError as error:
            messages.append(str(error))
    try:
        labels: dict[str, Any] = {"sequence_ids": ids, "aggregation": "token", "denominator": 4.0}
        gspo_token_policy_loss(zeros, zeros, zeros, ones, clip_low=0.2, clip_high=0.2, context_group=group, **labels)
    except RangeError as error:
        messages.append(str(error))
    return messages


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("ranks")
    processes = [multiprocessing.get_context("spawn").Process(target=worker, args=(rank, str(folder))) for rank in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(timeout=120)
        assert process.exitcode == 0
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(2)]


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_two_ranks_are_one_step(ranks: list[dict[str, Any]], aggregation: str) -> None:
    table = oracles.weights([s.mask for s in sequences()], aggregation, [s.rollout for s in sequences()], HORIZON)
    for name, objective in OBJECTIVES.items():
        loss, gradient = oracles.loss_and_gradient(objective.oracle(sequences()), table)
        parts = [rank["whole"][f"{name} {aggregation}"] for rank in ranks]
        assert sum(part[0] for part in parts) == pytest.approx(loss, rel=1e-10), name
        for part, mine in zip(parts, MINE, strict=True):
            for row, i in zip(part[1], mine, strict=True):
                assert row == pytest.approx(gradient[i], rel=1e-10, abs=1e-12), name
            assert part[2] is None or part[2] == pytest.approx(-loss, rel=1e-6)


@pytest.mark.parametrize("uniform", [True, False], ids=["gspo", "gspo_token"])
@pytest.mark.parametrize("aggregation", ["rollout", "token"])
@pytest.mark.parametrize("cut", CUTS)
def test_cut_sequences_are_whole_ones(ranks: list[dict[str, Any]], cut: str, aggregation: str, uniform: bool) -> None:
    batch = cases.padded(sequences())
    run = OBJECTIVES["gspo" if uniform else "gspo_token"].run
    alone = run(batch, aggregation="sequence_mean" if aggregation == "rollout" else "token")
    (slopes,) = torch.autograd.grad(alone.loss, batch.current)
    for empty_mask in (False, True):
        parts = [rank["cut"][f"{cut} {aggregation} {empty_mask} {uniform}"] for rank in ranks]
        assert sum(part[0] for part in parts) == pytest.approx(alone.loss.item(), rel=1e-12)
        if not empty_mask:
            both = [left + right for left, right in zip(parts[0][1], parts[1][1], strict=True)]
            torch.testing.assert_close(torch.tensor(both, dtype=torch.float64), slopes.cpu(), rtol=1e-12, atol=1e-14)
        for part in parts:
            assert part[3] == pytest.approx(alone.sequence_ratios.tolist(), rel=1e-12, nan_ok=True)
            for name in alone.partials:
                if name not in ("objective", "empty_batch_fraction"):
                    assert part[2][name] == pytest.approx(alone.partials[name].mean().item(), rel=1e-6, nan_ok=True), name


def test_packed_sequences_are_cut_by_boundaries_and_by_indices(ranks: list[dict[str, Any]]) -> None:
    # s = exp((.1 - .2 + .3) / 3), exp(.1); loss -(s1 - s2) / 2; gradient -s1 / 3 / 2 and s2 / 2
    first, second = torch.tensor([0.2 / 3, 0.1], dtype=torch.float64).exp().tolist()
    for left, right in zip(ranks[0]["packed"], ranks[1]["packed"], strict=True):
        assert left[0] + right[0] == pytest.approx(-(first - second) / 2)
        assert left[1] + right[1] == pytest.approx([-first / 6] * 3 + [second / 2])


def test_what_would_count_one_rank_only_is_refused(ranks: list[dict[str, Any]]) -> None:
    arguments = ["aggregation", "aggregation", "denominator", "position_ids", "num_sequences"]
    for messages in (rank["refused"] for rank in ranks):
        assert [message.split(" must ")[0] for message in messages] == arguments
        assert "rollout_denominators" in messages[0]


def test_what_is_no_group() -> None:
    zeros = torch.zeros(1, 1)
    with pytest.raises(DtypeError, match=r"context_group must be a torch\.distributed\.ProcessGroup, got 'x' \(str\)"):
        gspo_policy_loss(zeros, zeros, torch.ones(1), zeros + 1, clip_low=0.2, clip_high=0.2, context_group="x")  # type: ignore[arg-type]
