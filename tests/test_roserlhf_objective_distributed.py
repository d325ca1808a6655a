"""Two processes against one: denominators and metrics over ranks (gloo), with unequal and empty ranks."""

from __future__ import annotations

import json
import math
import multiprocessing
import pathlib
from typing import Any

import pytest
import torch
import torch.distributed as dist

from rosellm.roserlhf.errors import RangeError, ShapeError
from rosellm.roserlhf.losses import Partial, clipped_policy_loss, rollout_denominators, step_denominator
from rosellm.roserlhf.metrics import means, merge, over_ranks


def loss_of(token_losses: list[float], **how: Any) -> tuple[float, list[float], dict[str, Partial]]:
    """Loss and gradient of tokens at ratio 1 with these losses; an empty list is a row that is fully masked."""
    values = token_losses or [123.0]
    current = torch.zeros(1, len(values), requires_grad=True)
    mask = torch.full((1, len(values)), bool(token_losses))
    out = clipped_policy_loss(current, torch.zeros_like(current), -torch.tensor([values]), mask, **how)
    return out.loss.item(), torch.autograd.grad(out.loss, current)[0][0].tolist(), out.partials


def worker(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    world = dist.group.WORLD
    assert world is not None
    seen: dict[str, Any] = {}

    def step(mine: list[float]) -> list[Any]:
        mask = torch.full((1, max(len(mine), 1)), bool(mine))
        loss, gradient, partials = loss_of(mine, denominator=step_denominator([mask], "token", world))
        return [loss, gradient, means(over_ranks(partials, world))["objective"]]

    seen["unequal"] = step([[0.0] * 5, [6.0]][rank])
    seen["one empty"] = step([[], [6.0, 2.0]][rank])
    seen["no micro-batch"] = int(step_denominator([torch.ones(1, 3)] if rank else [], "sequence_mean", world))

    # rollout 7 has tokens 1, 2 on rank 0 and 3 on rank 1, where rollout 8 has the token 10
    ids = [torch.tensor([[7, 7]]), torch.tensor([[7, 8]])][rank]
    mask = torch.ones(1, 2)
    (denominator,) = rollout_denominators([mask], [ids], world)
    seen["spread rollout"] = loss_of([[1.0, 2.0], [3.0, 10.0]][rank], aggregation="rollout", denominator=denominator)[0]
    try:
        step_denominator([mask], "rollout", world, rollout_ids=[ids])
    except RangeError as error:
        seen["spread rollout refused"] = str(error)
    own = [torch.tensor([[7, 7]]), torch.tensor([[8, 9]])][rank]
    seen["whole rollouts"] = int(step_denominator([mask], "rollout", world, rollout_ids=[own]))

    try:
        over_ranks({f"name of rank {rank}": Partial(torch.ones(()), torch.ones(()))}, world)
    except ShapeError as error:
        seen["names"] = str(error)
    seen["nothing"] = over_ranks({}, world)
    pathlib.Path(folder, f"{rank}.json").write_text(json.dumps(seen))
    dist.destroy_process_group()


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


def test_R24_ranks_with_unequal_token_counts(ranks: list[dict[str, Any]]) -> None:
    # 5 tokens with loss 0 and 1 with loss 6: (0 + 6) / 6 = 1; averaging local means gives 3
    assert sum(rank["unequal"][0] for rank in ranks) == pytest.approx(1.0)
    alone = loss_of([0.0] * 5 + [6.0])
    assert alone[0] == pytest.approx(1.0)
    assert ranks[0]["unequal"][1] + ranks[1]["unequal"][1] == pytest.approx(alone[1])
    for rank in ranks:
        assert rank["unequal"][2] == pytest.approx(-1.0)  # one objective, the same on every rank


def test_R24_a_rank_without_tokens_stays_in_step(ranks: list[dict[str, Any]]) -> None:
    assert [rank["one empty"][0] for rank in ranks] == [0.0, 4.0]
    assert ranks[0]["one empty"][1] == [0.0]
    assert ranks[1]["one empty"][1] == [3.0, 1.0]  # -A / 2
    assert [rank["no micro-batch"] for rank in ranks] == [1, 1]


def test_a_rollout_spread_over_ranks_counts_once(ranks: list[dict[str, Any]]) -> None:
    # ((1 + 2 + 3) / 3 + 10) / 2 = 6
    assert sum(rank["spread rollout"] for rank in ranks) == pytest.approx(6.0)
    assert all("2 rollouts in 3 pieces" in rank["spread rollout refused"] for rank in ranks)
    assert [rank["whole rollouts"] for rank in ranks] == [3, 3]


def test_ranks_with_different_metrics_are_refused(ranks: list[dict[str, Any]]) -> None:
    assert all("partials must have the same names on every rank" in rank["names"] for rank in ranks)
    assert [rank["nothing"] for rank in ranks] == [{}, {}]


def partial(total: float, count: float, dtype: torch.dtype = torch.float32) -> Partial:
    return Partial(torch.tensor(total, dtype=dtype), torch.tensor(count, dtype=dtype))


def test_merged_partials_are_divided_once() -> None:
    # micro-batch means 4 and 0 would average to 2; (4 + 0) / (1 + 3) = 1
    merged = merge([{"loss": partial(4.0, 1.0), "only here": partial(3.0, 2.0)}, {"loss": partial(0.0, 3.0)}])
    assert means(merged) == {"loss": 1.0, "only here": 1.5}
    assert merge([]) == {}
    assert means({}) == {}


def test_a_statistic_that_counted_nothing_is_not_zero() -> None:
    assert math.isnan(means({"gap": partial(0.0, 0.0)})["gap"])


def test_means_of_mixed_precision_use_the_wider_one() -> None:
    seen = means({"wide": partial(1.0, 3.0, torch.float64), "narrow": partial(1.0, 4.0)})
    assert seen == {"wide": 1 / 3, "narrow": 0.25}
