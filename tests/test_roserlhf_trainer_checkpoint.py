"""Checkpoints: whole or skipped with the reason, never of numbers that are not finite, never without a good one left."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from rosellm.roserlhf.errors import CheckpointError, RunFolderError
from rosellm.roserlhf.trainer.checkpoint import (
    Checkpoint,
    checkpoint_steps,
    load_checkpoint,
    load_optimizer,
    newest_checkpoint,
    optimizer_tensors,
    prune,
    save_checkpoint,
)


def checkpoint(step: int, value: float = 1.0, **state: Any) -> Checkpoint:
    return Checkpoint(
        step, {"w": torch.full((2, 3), value)}, {"0.exp_avg": torch.tensor([value]), "0.step": torch.tensor(7.0)}, state
    )


def found(folder: Path) -> tuple[int | None, list[str]]:
    """The step that a resumed run would take up, and what it was told on the way."""
    told: list[str] = []
    newest = newest_checkpoint(folder, told.append)
    return (None if newest is None else newest.step), told


def test_what_is_saved_comes_back_bit_for_bit(tmp_path: Path) -> None:
    path = save_checkpoint(tmp_path, checkpoint(3, 0.1, seconds={"total": 1.25}, finished=True))
    assert sorted(p.name for p in path.iterdir()) == ["model.safetensors", "optimizer.safetensors", "state.json"]
    again = load_checkpoint(path)
    assert (again.step, again.state) == (3, {"seconds": {"total": 1.25}, "finished": True})
    for kept, saved in (
        (again.model, {"w": torch.full((2, 3), 0.1)}),
        (again.optimizer, {"0.exp_avg": torch.tensor([0.1]), "0.step": torch.tensor(7.0)}),
    ):
        assert kept.keys() == saved.keys()
        assert all(torch.equal(kept[name], saved[name]) for name in saved)


def test_an_optimizer_goes_on_from_its_tensors_as_if_nothing_had_happened(tmp_path: Path) -> None:
    def make() -> tuple[nn.Linear, torch.optim.AdamW]:
        torch.manual_seed(0)
        layer = nn.Linear(3, 2)
        return layer, torch.optim.AdamW(layer.parameters(), lr=0.1, weight_decay=0.01)

    def step(layer: nn.Linear, optimizer: torch.optim.AdamW, size: float) -> None:
        (layer(torch.full((1, 3), size)) ** 2).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    (layer, optimizer), (other, fresh) = make(), make()
    assert optimizer_tensors(optimizer) == {}
    step(layer, optimizer, 1.0)
    save_checkpoint(
        tmp_path, Checkpoint(1, {k: v.detach() for k, v in layer.state_dict().items()}, optimizer_tensors(optimizer), {})
    )
    read = load_checkpoint(tmp_path / "1")
    other.load_state_dict(read.model)
    load_optimizer(fresh, read.optimizer)
    for pair in ((layer, optimizer), (other, fresh)):
        step(*pair, 2.0)
        step(*pair, 0.5)
    assert all(torch.equal(a, b) for a, b in zip(layer.parameters(), other.parameters(), strict=True))


def test_R66_steps_are_numbers_and_other_names_are_ignored(tmp_path: Path) -> None:
    for step in (9, 10, 2):
        save_checkpoint(tmp_path, checkpoint(step))
    (tmp_path / "3.tmp").mkdir()
    (tmp_path / ".11.tmp").mkdir()
    (tmp_path / "notes").mkdir()
    (tmp_path / "12").write_text("a file")
    assert checkpoint_steps(tmp_path) == [2, 9, 10]
    assert found(tmp_path) == (10, [])


def _no_optimizer(path: Path) -> None:
    (path / "optimizer.safetensors").unlink()


def _half(path: Path) -> None:
    file = path / "model.safetensors"
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def _empty(path: Path) -> None:
    for file in path.iterdir():
        file.unlink()


def _one_bit(path: Path) -> None:
    file = path / "model.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)


def _torn_state(path: Path) -> None:
    file = path / "state.json"
    file.write_text(file.read_text()[:-20])


def _other_state(path: Path) -> None:
    saved = json.loads((path / "state.json").read_text())
    saved["state"]["cloning_steps"] = 5
    (path / "state.json").write_text(json.dumps(saved))


def _no_json_object(path: Path) -> None:
    (path / "state.json").write_text("[1, 2]")


def _nested(path: Path) -> None:
    (path / "state.json").write_text('{"step":' * 100_000)


def _folder_for_file(path: Path) -> None:
    (path / "model.safetensors").unlink()
    (path / "model.safetensors").mkdir()


DAMAGE: list[tuple[Callable[[Path], None], str]] = [
    (_no_optimizer, "must be complete, got no optimizer.safetensors"),
    (_half, "must be as it was saved, got another model.safetensors"),
    (_empty, "must be complete, got no state.json"),
    (_one_bit, "must be as it was saved, got another model.safetensors"),
    (_torn_state, "must be readable, got JSONDecodeError in it"),
    (_other_state, "must be as it was saved, got another state.json"),
    (_no_json_object, "must be readable, got TypeError in it"),
    (_nested, "must be readable, got RecursionError in it"),
    (_folder_for_file, "must be readable, got Is a directory"),
]


@pytest.mark.parametrize(("damage", "reason"), DAMAGE)
def test_R66_a_damaged_newest_checkpoint_is_skipped_with_its_reason(
    tmp_path: Path, damage: Callable[[Path], None], reason: str
) -> None:
    for step in (9, 10):
        save_checkpoint(tmp_path, checkpoint(step, cloning_steps=0))
    damage(tmp_path / "10")
    newest, (said,) = found(tmp_path)
    assert newest == 9
    assert said == f"skipped: checkpoint {tmp_path / '10'} {reason}"
    damage(tmp_path / "9")
    with pytest.raises(CheckpointError, match="must hold a whole one, got 2 damaged; start the run anew"):
        found(tmp_path)


def test_no_checkpoint_at_all_is_none(tmp_path: Path) -> None:
    assert found(tmp_path / "missing") == (None, [])
    assert found(tmp_path) == (None, [])


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("where", ["model", "optimizer"])
def test_R69_what_is_not_finite_is_never_saved(tmp_path: Path, bad: float, where: str) -> None:
    save_checkpoint(tmp_path, checkpoint(1))
    spoilt = checkpoint(2)
    tensors: dict[str, Tensor] = getattr(spoilt, where)
    next(iter(tensors.values())).view(-1)[0] = bad
    with pytest.raises(CheckpointError, match=r"must be finite to be saved, got NaN or infinity at step 2"):
        save_checkpoint(tmp_path, spoilt)
    assert [path.name for path in tmp_path.iterdir()] == ["1"]
    assert found(tmp_path) == (1, [])


def test_R69_pruning_keeps_the_newest_up_to_the_one_just_saved(tmp_path: Path) -> None:
    for step in (2, 4, 10, 12):
        save_checkpoint(tmp_path, checkpoint(step))
    prune(tmp_path, 2, newest=12)
    assert checkpoint_steps(tmp_path) == [10, 12]


def test_a_process_that_dies_while_it_prunes_leaves_no_half_of_a_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step in range(4):
        save_checkpoint(tmp_path, checkpoint(step))

    def dying(path: Path, **_: Any) -> None:
        if path.exists():
            (path / "state.json").unlink()
            raise KeyboardInterrupt

    monkeypatch.setattr(shutil, "rmtree", dying)
    with pytest.raises(KeyboardInterrupt):
        prune(tmp_path, 1, newest=3)
    monkeypatch.undo()
    for step in checkpoint_steps(tmp_path):
        load_checkpoint(tmp_path / str(step))
    prune(tmp_path, 1, newest=3)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "3"]


@pytest.mark.parametrize("keep", [1, 2])
def test_pruning_never_removes_the_checkpoint_of_step_0(tmp_path: Path, keep: int) -> None:
    kept = []
    for step in (0, 2, 4, 6):
        save_checkpoint(tmp_path, checkpoint(step))
        prune(tmp_path, keep, newest=step)
        kept.append(checkpoint_steps(tmp_path))
    # the newest ones come on top of it
    assert kept == ([[0], [0, 2], [0, 4], [0, 6]] if keep == 1 else [[0], [0, 2], [0, 2, 4], [0, 4, 6]])


def test_R69_the_last_good_checkpoint_survives_damaged_later_ones(tmp_path: Path) -> None:
    # 10 is whole, 17 is damaged: the run goes on from 10 and saves 12
    for step in (10, 17):
        save_checkpoint(tmp_path, checkpoint(step))
    _half(tmp_path / "17")
    save_checkpoint(tmp_path, checkpoint(12))
    prune(tmp_path, 1, newest=12)
    assert found(tmp_path)[0] == 12


def test_a_step_saved_again_replaces_the_old_one(tmp_path: Path) -> None:
    for value in (1.0, 2.0):
        save_checkpoint(tmp_path, checkpoint(0, value))
    assert float(load_checkpoint(tmp_path / "0").model["w"][0, 0]) == 2.0
    assert [path.name for path in tmp_path.iterdir()] == ["0"]


class Died(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("after", range(5))
def test_R53_dying_anywhere_in_a_second_save_leaves_the_old_or_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    save_checkpoint(tmp_path, checkpoint(0, 1.0))
    moves = [0]

    def dying(plain: Callable[..., Any]) -> Callable[..., Any]:
        def move(*args: Any, **options: Any) -> Any:
            if moves[0] == after:
                raise Died
            moves[0] += 1
            return plain(*args, **options)

        return move

    monkeypatch.setattr(Path, "rename", dying(Path.rename))
    monkeypatch.setattr(shutil, "rmtree", dying(shutil.rmtree))
    with pytest.raises(Died):
        save_checkpoint(tmp_path, checkpoint(0, 2.0))
    monkeypatch.undo()
    newest = newest_checkpoint(tmp_path, pytest.fail)
    assert newest is not None
    # moves: remove .0.tmp, remove .0.old, 0 -> .0.old, .0.tmp -> 0, remove .0.old
    assert float(newest.model["w"][0, 0]) == (2.0 if after == 4 else 1.0)
    save_checkpoint(tmp_path, checkpoint(0, 3.0))
    assert float(load_checkpoint(tmp_path / "0").model["w"][0, 0]) == 3.0
    assert [path.name for path in tmp_path.iterdir()] == ["0"]


def test_a_full_disk_leaves_nothing_under_the_final_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_checkpoint(tmp_path, checkpoint(1))

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(RunFolderError, match="2 cannot be written: No space left"):
        save_checkpoint(tmp_path, checkpoint(2))
    assert [path.name for path in tmp_path.iterdir()] == ["1"]
