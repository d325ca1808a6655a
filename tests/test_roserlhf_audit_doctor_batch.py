"""A batch from a file: Parquet, `.npz` and safetensors give the same arguments, and what is no batch is said in one line."""

from __future__ import annotations

import json
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as arrow  # type: ignore[import-untyped]
import pyarrow.parquet as parquet  # type: ignore[import-untyped]
import pytest
import torch
from safetensors.torch import save_file

from rosellm.roserlhf.audit.batch import file as batch_file
from rosellm.roserlhf.audit.batch.file import read_batch
from rosellm.roserlhf.cli import main
from rosellm.roserlhf.errors import ConfigError, MissingExtraError, RoseError, ShapeError, StoreError
from rosellm.roserlhf.store import arrays

IDS = [[7, 8, 9, 2], [7, 5, 2]]
MASK = [[False, True, True, True], [False, True, True]]
OLD = [[0.0, -0.5, -1.5, -0.25], [0.0, -0.75, -0.125]]


def ragged() -> dict[str, Any]:
    return {
        "input_ids": IDS,
        "action_mask": MASK,
        "old_logprobs": arrow.array(OLD, arrow.list_(arrow.float32())),
        "rewards": [1.0, None],
        "group_ids": ["task-1", "task-1"],
        "temperature": [1.0, 1.0],
        "stop_ids": [[2], [2]],
    }


def write_parquet(folder: Path, columns: dict[str, Any], **how: Any) -> Path:
    path = folder / "batch.parquet"
    parquet.write_table(arrow.table(columns), path, **how)
    return path


def padded() -> dict[str, Any]:
    width = max(map(len, IDS))

    def pad(rows: list[list[Any]], filler: Any) -> Any:
        return np.array([[*row, *[filler] * (width - len(row))] for row in rows])

    return {
        "input_ids": pad(IDS, 0),
        "action_mask": pad(MASK, False),
        "old_logprobs": pad(OLD, np.nan).astype(np.float32),
        "valid_mask": np.array([[True] * 4, [True] * 3 + [False]]),
        "rewards": np.array([1.0, np.nan]),
    }


def same(found: Any, wanted: Any) -> bool:
    return bool(torch.equal(torch.nan_to_num(found, nan=9.0), torch.nan_to_num(torch.as_tensor(wanted), nan=9.0)))


def test_ragged_lists_are_padded_and_their_lengths_become_the_valid_mask(tmp_path: Path) -> None:
    found = read_batch(write_parquet(tmp_path, ragged()))
    for name, wanted in padded().items():
        assert same(found[name], wanted), name
    assert found["old_logprobs"].dtype == torch.float32
    assert found["group_ids"] == ["task-1", "task-1"]
    assert (found["temperature"], found["stop_ids"]) == (1.0, [2])


@pytest.mark.parametrize("dictionary", [True, False])
def test_a_table_in_many_row_groups_is_one_batch(tmp_path: Path, dictionary: bool) -> None:
    found = read_batch(write_parquet(tmp_path, ragged(), row_group_size=1, use_dictionary=dictionary, compression="zstd"))
    assert same(found["input_ids"], padded()["input_ids"])


def test_other_kinds_of_columns(tmp_path: Path) -> None:
    columns = {
        "action_mask": arrow.FixedSizeListArray.from_arrays(arrow.array([0, 1, 1, 0, 1, 1], arrow.uint8()), 3),
        "advantages": [[0.5], [-0.5]],
        "roles": [["user", "assistant", "assistant"], ["tool", "assistant", "assistant"]],
        "sampled_ids": [[4, 2], [5]],
        "prompt_ids": [[1, 7], [7]],
        "group_ids": arrow.array(["a", "b"]).dictionary_encode(),
        "terminated": [True, False],
    }
    found = read_batch(write_parquet(tmp_path, columns))
    assert found["action_mask"].tolist() == [[0, 1, 1], [0, 1, 1]]
    assert found["advantages"].tolist() == [[0.5], [-0.5]] or found["advantages"].tolist() == [0.5, -0.5]
    assert found["roles"][1] == ["tool", "assistant", "assistant"]
    assert found["sampled_ids"] == [[4, 2], [5]]
    assert found["prompt_ids"].tolist() == [[1, 7], [-1, 7]]
    assert found["group_ids"] == ["a", "b"]
    assert found["terminated"].tolist() == [True, False]
    assert "valid_mask" not in found


def test_npz_and_safetensors_hold_the_same(tmp_path: Path) -> None:
    np.savez(tmp_path / "batch.npz", **padded(), group_ids=np.array(["a", "b"]), temperature=np.float64(0.7), credit="turn")
    tensors = {name: torch.as_tensor(value) for name, value in padded().items()}
    tensors["old_logprobs"] = tensors["old_logprobs"].bfloat16()
    save_file(tensors, tmp_path / "batch.safetensors", metadata={"format": "pt", "temperature": "0.7", "credit": "turn"})
    npz, safe = read_batch(tmp_path / "batch.npz"), read_batch(tmp_path / "batch.safetensors")
    for name, wanted in padded().items():
        assert same(npz[name], wanted)
        assert same(safe[name], torch.as_tensor(wanted).to(safe[name].dtype))
    assert safe["old_logprobs"].dtype == torch.bfloat16
    assert npz["group_ids"] == ["a", "b"]
    assert (npz["temperature"], npz["credit"]) == (safe["temperature"], safe["credit"]) == (0.7, "turn")


def test_the_command_prints_a_report_and_writes_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    columns = ragged() | {"old_logprobs": arrow.array([[0.0, -0.5, 0.5, -0.25], OLD[1]], arrow.list_(arrow.float32()))}
    path, found, page = write_parquet(tmp_path, columns), tmp_path / "found.json", tmp_path / "page.html"
    assert main(["doctor", "--batch", str(path), "--json", str(found), "--html", str(page)]) == 1
    assert "error    logprob_positive" in capsys.readouterr().out
    assert json.loads(found.read_text())["worst"] == "error"
    assert page.read_text().startswith("<!doctype html>")


def test_warnings_and_a_healthy_batch_exit_with_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    columns = {name: column for name, column in ragged().items() if name not in ("rewards", "group_ids")}
    assert main(["doctor", "--batch", str(write_parquet(tmp_path, columns))]) == 0
    assert "audit of a batch" in capsys.readouterr().out


def no_column(folder: Path) -> Path:
    return write_parquet(folder, {"action_mask": MASK, "old_logprob": OLD})


def no_mask(folder: Path) -> Path:
    return write_parquet(folder, {"old_logprobs": OLD})


def other_lengths(folder: Path) -> Path:
    return write_parquet(folder, {"action_mask": MASK, "old_logprobs": [[-1.0] * 4, [-1.0] * 2]})


def two_temperatures(folder: Path) -> Path:
    return write_parquet(folder, {"action_mask": MASK, "temperature": [1.0, 0.7]})


def flat_mask(folder: Path) -> Path:
    return write_parquet(folder, {"action_mask": [True, False]})


def dates(folder: Path) -> Path:
    return write_parquet(folder, {"action_mask": MASK, "rewards": arrow.array([1, 2], arrow.timestamp("s"))})


def no_rows(folder: Path) -> Path:
    return write_parquet(folder, {"action_mask": arrow.array([], arrow.list_(arrow.bool_()))})


def missing_list(folder: Path) -> Path:
    return write_parquet(folder, {"action_mask": arrow.array([[True], None], arrow.list_(arrow.bool_()))})


def wide(folder: Path) -> Path:
    lists = arrow.array([[True] * 100_000, *[[True]] * 9_999], arrow.list_(arrow.bool_()))
    return write_parquet(folder, {"action_mask": lists})


def torn(folder: Path) -> Path:
    path = write_parquet(folder, ragged())
    path.write_bytes(path.read_bytes()[:-30])
    return path


def damaged(folder: Path) -> Path:
    path = write_parquet(folder, ragged(), compression="zstd")
    data = bytearray(path.read_bytes())
    data[8:60] = bytes(52)
    path.write_bytes(bytes(data))
    return path


def pickled(folder: Path) -> Path:
    np.savez(folder / "batch.npz", action_mask=np.array([[1, 0]]), group_ids=np.array([{"a": 1}, None], dtype=object))
    return folder / "batch.npz"


def no_zip(folder: Path) -> Path:
    (folder / "batch.npz").write_bytes(b"PK nothing")
    return folder / "batch.npz"


def no_array(folder: Path) -> Path:
    with zipfile.ZipFile(folder / "batch.npz", "w") as archive:
        archive.writestr("action_mask.npy", b"x")
    return folder / "batch.npz"


def strange_member(folder: Path) -> Path:
    with zipfile.ZipFile(folder / "batch.npz", "w") as archive:
        archive.writestr("../../action_mask.npy", b"x")
    return folder / "batch.npz"


def no_tensors(folder: Path) -> Path:
    (folder / "batch.safetensors").write_bytes((2**40).to_bytes(8, "little") + b"{}")
    return folder / "batch.safetensors"


def another_suffix(folder: Path) -> Path:
    (folder / "batch.pt").write_bytes(b"x")
    return folder / "batch.pt"


BAD: list[tuple[Any, type[RoseError], str]] = [
    (no_column, ConfigError, "unknown column 'old_logprob'; did you mean old_logprobs"),
    (no_mask, StoreError, "hold action_mask"),
    (other_lengths, ShapeError, r"column old_logprobs must have as many entries as action_mask in every row \(3 in row 1\), got 2"),
    (two_temperatures, StoreError, "column temperature must be the same in every row"),
    (flat_mask, StoreError, "hold a list per row"),
    (dates, StoreError, "column rewards must hold numbers, flags or text"),
    (no_rows, StoreError, "at least one row"),
    (missing_list, StoreError, "have a list in every row, got 1 missing"),
    (wide, StoreError, "fit 4,294,967,296 bytes a column when padded, got 10,000 rows of up to 100,000"),
    (torn, StoreError, "cannot be read as Parquet"),
    (damaged, StoreError, "cannot be read"),
    (pickled, StoreError, "pickles are not read"),
    (no_zip, StoreError, "readable .npz"),
    (no_array, StoreError, "array action_mask must be an array"),
    (strange_member, ConfigError, "unknown column"),
    (no_tensors, StoreError, "readable .safetensors"),
    (another_suffix, ConfigError, "be a file .parquet, .npz, .safetensors"),
    (lambda folder: folder / "nowhere.npz", ConfigError, "which is not there"),
    (lambda folder: folder / "nowhere.parquet", ConfigError, "which is not there"),
]


@pytest.mark.parametrize(("make", "error", "message"), BAD, ids=[make.__name__ for make, _, _ in BAD])
def test_what_is_no_batch_is_said_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], make: Any, error: type[RoseError], message: str
) -> None:
    path = make(tmp_path)
    with pytest.raises(error, match=message):
        read_batch(path)
    assert main(["doctor", "--batch", str(path)]) == 2  # 1 is the verdict about a batch
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_file_that_says_it_is_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (arrays, batch_file):
        monkeypatch.setattr(module, "LARGEST", 100)
    np.savez(tmp_path / "batch.npz", **padded())
    save_file({"action_mask": torch.ones(3, 3)}, tmp_path / "batch.safetensors")
    for path in (write_parquet(tmp_path, ragged()), tmp_path / "batch.npz", tmp_path / "batch.safetensors"):
        with pytest.raises(StoreError, match="at most 100 bytes"):
            read_batch(path)


def test_without_pyarrow_the_install_command_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_parquet(tmp_path, ragged())
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'rosellm\[store\]'"):
        read_batch(path)
    assert main(["doctor", "--batch", str(path)]) == 2
    assert "rosellm[store]" in capsys.readouterr().err
