"""The engine's memory: caches that grow by need, rows that move, blocks that a batch is cut from."""

from __future__ import annotations

import pytest
import torch
from loop_models import request

from rosellm.roserlhf.engine.cache import Cache
from rosellm.roserlhf.engine.rows import Row, Rows


def new_cache(positions: int = 200) -> Cache:
    return Cache(layers=2, kv_heads=3, head_dim=4, positions=positions, device=torch.device("cpu"), dtype=torch.float32)


def marked(cache: Cache, row: int, tokens: int, mark: float) -> None:
    """Write what only this row, layer and position hold."""
    for layer, tensor in enumerate((*cache.keys, *cache.values)):
        tensor[row, :, :tokens] = mark + 1000 * layer + torch.arange(tokens).float()[:, None]


def holds(cache: Cache, row: int, tokens: int, mark: float) -> bool:
    expected = [mark + 1000 * layer + torch.arange(tokens).float() for layer in range(4)]
    found = [tensor[row, :, :tokens] for tensor in (*cache.keys, *cache.values)]
    return all(torch.equal(one, other[:, None].expand_as(one)) for one, other in zip(found, expected, strict=True))


def test_nothing_is_allocated_before_it_is_needed_and_what_grows_keeps_what_it_holds() -> None:
    cache = new_cache()
    assert all(tensor.numel() == 0 for tensor in (*cache.keys, *cache.values))
    cache.reserve(3, 40)
    assert (cache.rows, cache.positions) == (8, 64)  # 40 and a quarter, in multiples of 64
    marked(cache, 2, 40, 7.0)
    same = cache.keys[0]
    cache.reserve(8, 64)
    assert cache.keys[0] is same
    cache.reserve(9, 65)
    assert (cache.rows, cache.positions) == (16, 128)
    assert holds(cache, 2, 40, 7.0)
    assert float(cache.values[1][15].abs().max()) == 0  # never rubbish: it would reach attention as 0 times NaN
    cache.reserve(1, 190)
    assert (cache.rows, cache.positions) == (16, 200)
    assert holds(cache, 2, 40, 7.0)


def test_rows_are_copied_and_exchanged_in_all_layers() -> None:
    cache = new_cache()
    cache.reserve(5, 10)
    for row in range(5):
        marked(cache, row, 10, 10.0**row)
    cache.exchange([(0, 3), (1, 4)], 10)
    assert [holds(cache, row, 10, 10.0**was) for row, was in enumerate((3, 4, 2, 0, 1))] == [True] * 5
    cache.copy(2, [0, 4], 0, 6)
    assert holds(cache, 0, 6, 100.0)
    assert holds(cache, 4, 6, 100.0)
    assert float(cache.keys[0][0, 0, 6, 0]) == 1006.0


@pytest.mark.parametrize("chosen", [[0, 1, 2], [5], [1, 3, 5], [5, 4, 3, 2, 1, 0], [2, 0]])
def test_chosen_rows_come_to_the_front_and_take_their_tokens_with_them(chosen: list[int]) -> None:
    block = Rows(new_cache, 6, 6).assign([request((1, 2), n) for n in range(1)])[0].block
    owners = list(block.rows)
    block.cache.reserve(6, 4)
    for row in owners:
        marked(block.cache, row.index, 4, 10.0**row.index)
    before = {id(row): row.index for row in owners}
    block.bring_forward([owners[index] for index in chosen])
    assert {owners[index].index for index in chosen} == set(range(len(chosen)))
    assert [row.index for row in block.rows] == list(range(6))
    assert all(holds(block.cache, row.index, 4, 10.0 ** before[id(row)]) for row in owners)


def test_rows_are_given_out_block_by_block_and_lent_ones_come_back() -> None:
    rows = Rows(new_cache, 5, 2)
    first = rows.assign([request((1,), n, session=f"s{n}" if n else "") for n in range(4)])
    assert [(row.block is first[0].block, row.index) for row in first] == [(True, 0), (True, 1), (False, 0), (False, 1)]
    for row in first:
        rows.keep(row, (1,))
    again = rows.assign([request((1, 2), session="s2"), request((3,)), request((4,))])
    assert again[0] is first[2]
    assert again[1] is first[0]  # what was lent to nobody's session
    assert again[2].block not in (first[0].block, first[2].block)  # the last block has one row
    rows.keep(again[1], (3,))


def test_forgetting_gives_every_row_back_and_keeps_the_memory() -> None:
    rows = Rows(new_cache, 3, 2)

    def places(given: list[Row]) -> list[int]:
        return [row.index for row in given]

    requests = [request((1,), n, session=str(n)) for n in range(3)]
    first = rows.assign(requests)
    first[0].block.cache.reserve(2, 5)
    first[0].block.bring_forward([first[1]])
    assert places(first) == [1, 0, 0]
    rows.forget()
    second = rows.assign(requests[::-1])
    assert places(second) == [0, 1, 0]
    assert second[0].block.cache.positions == 64
    assert all(row.ids == () for row in second)
