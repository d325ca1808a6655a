"""JSON lines: strict JSON, one line a record, exact; what is torn or damaged is said, never guessed."""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path
from typing import Any, NoReturn

import pytest
from export_logs import episode, everything, new_log, run_log
from hypothesis import given, settings
from hypothesis import strategies as st
from record_strategies import PROPERTY, trajectories

from rosellm.roserlhf.errors import StoreError
from rosellm.roserlhf.store import EventLog
from rosellm.roserlhf.store.export import lines
from rosellm.roserlhf.store.export.exact_json import dumps, loads
from rosellm.roserlhf.store.export.lines import export_jsonl, import_jsonl
from rosellm.roserlhf.trajectory import ParsedAction, PolicyAction, ToolCall, Trajectory


def exported(folder: Path, *records: Trajectory) -> Path:
    """Export a log of records and return the file of records."""
    folder.mkdir(parents=True, exist_ok=True)
    with new_log(folder / "events.db", records) as log:
        export_jsonl(log, folder / "out")
    return folder / "out" / "trajectories.jsonl"


def strict(line: bytes) -> Any:
    """Read JSON as a strict reader does: no NaN, no name twice."""

    def refuse(constant: str) -> NoReturn:
        raise AssertionError(f"{constant} is no JSON")

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        assert len(dict(pairs)) == len(pairs)
        return dict(pairs)

    return json.loads(line.decode("ascii"), parse_constant=refuse, object_pairs_hook=unique)


def test_a_line_shows_the_whole_record_by_name(tmp_path: Path) -> None:
    line = strict(exported(tmp_path, episode(reward=None)).read_bytes().splitlines()[0])
    assert (line["schema"], line["table"], line["step"], line["phase"], line["superseded"]) == (
        1,
        "trajectories",
        1,
        "train",
        False,
    )
    assert (line["reward_sum"], line["rewards"]) == (None, {"format": 0.75, "success": None})
    first = line["trajectory"]["actions"][0]
    assert (first["token_ids"], first["old_logprobs"], first["text"]) == ([20, 21, 2], [-0.5, -0.25, -0.0], "search")
    assert first["parsed_action"]["kind"] == "action"
    assert first["parsed_action"]["value"]["calls"][0]["arguments"] == {"q": "lamp", "page": 2}
    assert line["trajectory"]["prompt"][1] == {
        "token_ids": [12],
        "role": "user",
        "content_mask": None,
        "policy": False,
        "images": [],
    }


def test_a_run_comes_back_equal_in_every_read(tmp_path: Path) -> None:
    with run_log(tmp_path / "events.db") as log:
        counts = export_jsonl(log, tmp_path / "out")
    for path in (tmp_path / "out").rglob("*.jsonl"):
        assert all(strict(line) for line in path.read_bytes().splitlines())
    assert import_jsonl(tmp_path / "out", tmp_path / "new.db") == counts
    assert everything(tmp_path / "new.db") == everything(tmp_path / "events.db")


@settings(PROPERTY, max_examples=8)
@given(st.tuples(*(trajectories(trajectory_id=f"t{i}") for i in range(4))))
def test_any_legal_record_comes_back_bit_for_bit(tmp_path_factory: pytest.TempPathFactory, records: tuple[Trajectory, ...]) -> None:
    folder = tmp_path_factory.mktemp("any")
    path = exported(folder, *records)
    assert len([strict(line) for line in path.read_bytes().splitlines()]) == 4
    import_jsonl(path.parent, folder / "new.db")
    assert everything(folder / "new.db") == everything(folder / "events.db")


def test_R49_no_number_becomes_null_and_no_line_is_anything_but_strict_json(tmp_path: Path) -> None:
    odd = struct.unpack(">d", bytes.fromhex("fff800000000beef"))[0]
    arguments = {"nan": math.nan, "odd": odd, "inf": [math.inf, -math.inf], "$float": "NaN", "big": 2**70, "$": {"$x": None}}
    action = PolicyAction(
        0, [1], [-5e-324], "v", "\u2028", ParsedAction("", [ToolCall("c", "f", arguments)]), stop_reason="interrupted"
    )
    path = exported(tmp_path, Trajectory("t", "k", "e", "tok", [action]))
    assert len(path.read_bytes().splitlines()) == 1
    assert strict(path.read_bytes())["trajectory"]["actions"][0]["old_logprobs"] == [-5e-324]
    import_jsonl(path, tmp_path / "new.db")
    assert everything(tmp_path / "new.db")["records True"] == everything(tmp_path / "events.db")["records True"]


LEAVES = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(st.characters()) | st.binary(max_size=4)
MARKS = st.sampled_from(["$float", "$object", "$bytes", "$", "a", "\ud800"])


@settings(PROPERTY, max_examples=200)
@given(st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(MARKS, inner, max_size=2), max_leaves=6))
def test_plain_data_survives_json(value: Any) -> None:
    text = dumps(value)
    assert repr(loads(text)) == repr(value)
    assert text.isascii()
    assert "\n" not in text
    strict(text.encode())


def test_integers_that_readers_refuse_are_written_in_another_way() -> None:
    assert loads(dumps([10**5000, -(10**5000)])) == [10**5000, -(10**5000)]


NO_JSON = ['{"$what":1}', '{"$bytes":"*"}', '{"$float":1}', '{"$float":"00"}', '{"$object":1}']


@pytest.mark.parametrize("text", ["NaN", '{"a":1,"a":1}', "[" * 100_000, *NO_JSON])
def test_text_that_is_no_exact_json_is_refused(text: str) -> None:
    with pytest.raises(StoreError, match="must be strict JSON"):
        loads(text)


def test_a_torn_last_line_is_skipped_and_counted(tmp_path: Path) -> None:
    path = exported(tmp_path, episode("a"), episode("b"), episode("c"))
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    with pytest.warns(RuntimeWarning, match="ends in the middle of line 3"):
        counts = import_jsonl(path.parent, tmp_path / "torn.db")
    assert (counts.rows["trajectories"], counts.lost) == (2, {"trajectories": 1})
    path.write_bytes(b"".join(whole.splitlines(keepends=True)[:1]))
    assert import_jsonl(path.parent, tmp_path / "short.db").lost == {"trajectories": 2}
    path.write_bytes(whole[:-1])
    assert import_jsonl(path.parent, tmp_path / "whole.db").lost == {}


def test_lines_can_be_cut_and_joined(tmp_path: Path) -> None:
    one, two = exported(tmp_path / "1", episode("a"), episode("b")), exported(tmp_path / "2", episode("c"))
    joined = tmp_path / "joined.jsonl"
    joined.write_bytes(two.read_bytes() + one.read_bytes().splitlines(keepends=True)[1])
    import_jsonl(joined, tmp_path / "new.db")
    with EventLog.read(tmp_path / "new.db") as log:
        assert [s.trajectory.trajectory_id for s in log.trajectories()] == ["c", "b"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda line: line.update(step=2), "checksum"),
        (lambda line: line.update(step="1"), "integer"),
        (lambda line: line.update(superseded=0), "true or false"),
        (lambda line: line.update(digest="zz"), "must be a record"),
        (lambda line: line["trajectory"]["actions"][0].update(token_ids=[20, 21, 3]), "digest"),
        (lambda line: line["trajectory"]["actions"][0].update(old_logprobs=[0.1, 0, 0]), "RecordError"),
        (lambda line: line["trajectory"]["actions"][0].update(invented=1), "known fields, got 'invented'; upgrade"),
        (lambda line: line["trajectory"].pop("actions"), "hold one per action"),
        (lambda line: line.pop("trajectory"), "must be a record"),
        (lambda line: line.update(trajectory=[1]), "must be a record"),
        (lambda line: line.update(schema=2), r"export schema in \[1, 1\], got 2; upgrade"),
        (lambda line: line.update(table="ledger"), "must be a row of an export's trajectories"),
    ],
)
def test_a_changed_line_is_refused_by_its_number(tmp_path: Path, change: Any, message: str) -> None:
    path = exported(tmp_path, episode("a"), episode("b"))
    first, second = path.read_text().splitlines()
    line = json.loads(second)
    change(line)
    path.write_text(first + "\n" + json.dumps(line) + "\n")
    with pytest.raises(StoreError, match=message) as caught:
        import_jsonl(path.parent, tmp_path / "new.db")
    assert path.name in str(caught.value)
    assert not (tmp_path / "new.db").exists()


@pytest.mark.parametrize("damage", ["", "{", "[1]", "null", '{"a": NaN}', "\x00"])
def test_a_damaged_line_in_the_middle_is_refused(tmp_path: Path, damage: str) -> None:
    path = exported(tmp_path, episode("a"))
    path.write_text(damage + "\n" + path.read_text())
    with pytest.raises(StoreError, match="line 1"):
        import_jsonl(path, tmp_path / "new.db")


def test_a_line_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = exported(tmp_path, episode("a"))
    monkeypatch.setattr(lines, "_LONGEST_LINE", 100)
    with pytest.raises(StoreError, match="shorter than 100 bytes"):
        import_jsonl(path, tmp_path / "new.db")


def test_both_formats_lie_in_one_folder(tmp_path: Path) -> None:
    from rosellm.roserlhf.store.export.parquet import export_parquet, import_parquet

    with run_log(tmp_path / "events.db") as log:
        export_jsonl(log, tmp_path / "out")
        export_parquet(log, tmp_path / "out")
    import_jsonl(tmp_path / "out", tmp_path / "a.db")
    import_parquet(tmp_path / "out", tmp_path / "b.db")
    assert everything(tmp_path / "a.db") == everything(tmp_path / "b.db")
