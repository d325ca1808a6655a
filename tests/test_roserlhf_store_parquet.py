"""Parquet: what is exported is read by others and comes back exactly; what is no export is refused."""

from __future__ import annotations

import math
import sqlite3
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from export_logs import episode, everything, new_log, run_log
from hypothesis import given, settings
from hypothesis import strategies as st
from record_strategies import PROPERTY, trajectories

from rosellm.roserlhf.errors import StoreError
from rosellm.roserlhf.store import EventLog
from rosellm.roserlhf.store.export import folder as export_folder
from rosellm.roserlhf.store.export import parquet_reading
from rosellm.roserlhf.store.export.footer import protect_footer
from rosellm.roserlhf.store.export.parquet import export_parquet, import_parquet
from rosellm.roserlhf.store.export.parquet_reading import scan_parquet
from rosellm.roserlhf.trajectory import CopySpan, ParentLink, PolicyAction, TokenSpan, Trajectory, TransitionRecord


def exported(folder: Path, *records: Trajectory) -> Path:
    """Export a log of records and return the file of records."""
    folder.mkdir(parents=True, exist_ok=True)
    with new_log(folder / "events.db", records) as log:
        export_parquet(log, folder / "out")
    return folder / "out" / "trajectories.parquet"


def rows(path: Path) -> list[dict[str, Any]]:
    """Read a Parquet file as any program would."""
    found: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return found


def test_a_record_is_one_row_of_aligned_columns(tmp_path: Path) -> None:
    row = rows(exported(tmp_path, episode()))[0]
    # prompt 10 11 | 12, action 20 21 2, observation 30 31, action 22 2, observation 32 33
    assert row["token_ids"] == [10, 11, 12, 20, 21, 2, 30, 31, 22, 2, 32, 33]
    assert row["role"] == ["system"] * 2 + ["user"] + ["assistant"] * 3 + ["tool"] * 2 + ["assistant"] * 2 + ["tool"] * 2
    assert row["turn"] == [None, None, None, 0, 0, 0, 0, 0, 1, 1, 1, 1]
    assert row["policy_mask"] == [False] * 3 + [True] * 3 + [False] * 2 + [True] * 2 + [False] * 2
    assert row["behaviour_logprobs"] == [None, None, None, -0.5, -0.25, -0.0, None, None, -1.0, -0.125, None, None]
    assert math.copysign(1, row["behaviour_logprobs"][5]) == -1.0
    assert (row["row_tokens"], row["sampled_tokens"], row["turns"]) == (12, 5, 2)


def test_what_a_record_is_stands_in_columns(tmp_path: Path) -> None:
    row = rows(exported(tmp_path, episode()))[0]
    identity: dict[str, Any] = {"trajectory_id": "run/1/shop/0/0", "run_id": "run", "task_id": "shop", "group_id": "g0", "step": 1}
    place = {"phase": "train", "member": 0, "attempt": 0, "superseded": False, "parent_id": None, "policy_versions": ["v0", "v1"]}
    end = {"ending": "truncated", "unscored": False, "blame": None, "cause": "turn limit", "trainable": True, "reward_sum": 1.75}
    ledger: dict[str, Any] = {"ledger_state": None, "trained_tokens": None, "advantage": None, "excluded_tokens": []}
    rewards = {
        "rewards": [{"name": "format", "value": 0.75}, {"name": "success", "value": 1.0}],
        "turn_rewards": [
            {"turn": 0, "name": "format", "value": 0.5},
            {"turn": 1, "name": "success", "value": 1.0},
            {"turn": 1, "name": "format", "value": 0.25},
        ],
    }
    wanted = {**identity, **place, **end, **ledger, **rewards}
    assert {name: row[name] for name in wanted} == wanted


def test_what_is_not_scored_is_null_and_never_zero(tmp_path: Path) -> None:
    row = rows(exported(tmp_path, episode(reward=None)))[0]
    assert row["reward_sum"] is None
    assert row["rewards"] == [{"name": "format", "value": 0.75}, {"name": "success", "value": None}]


def test_an_unscored_rollout_has_no_sum(tmp_path: Path) -> None:
    record = Trajectory(
        "t", "task", "e", "tok", [PolicyAction(0, [1], [-1.0], "v", "")], [TransitionRecord(0, None, {"success": 1.0})]
    )
    record.fail("infrastructure", "engine died")
    row = rows(exported(tmp_path, record))[0]
    assert (row["reward_sum"], row["unscored"], row["blame"], row["cause"]) == (None, True, "infrastructure", "engine died")
    assert row["rewards"] == [{"name": "success", "value": 1.0}]


def test_the_ledger_says_in_the_row_where_the_tokens_went(tmp_path: Path) -> None:
    with run_log(tmp_path / "events.db") as log:
        export_parquet(log, tmp_path / "out")
    found = {(r["trajectory_id"], r["superseded"]): r for r in rows(tmp_path / "out/trajectories.parquet") if r["phase"] == "train"}
    assert len(found) == 9
    trained, rejected = found["run/1/shop/2/0", False], found["run/1/shop/1/0", False]
    assert (trained["ledger_state"], trained["trained_tokens"], trained["advantage"]) == ("trained", 3, -0.5 / 3)
    assert trained["excluded_tokens"] == [{"reason": "stale", "tokens": 2}]
    assert (rejected["ledger_state"], rejected["ledger_reason"], rejected["trained_tokens"]) == ("rejected", "unscored", 0)
    assert rejected["excluded_tokens"] == [{"reason": "unscored", "tokens": 5}]
    assert found["run/1/shop/2/0", True]["ledger_state"] is None


def test_a_run_comes_back_equal_in_every_read(tmp_path: Path) -> None:
    with run_log(tmp_path / "events.db") as log:
        counts = export_parquet(log, tmp_path / "out")
    assert counts.rows == {"trajectories": 12, "scores": 9, "ledger": 33, "policies": 3, "metrics": 3, "updates": 6}
    assert import_parquet(tmp_path / "out", tmp_path / "new" / "events.db") == counts
    assert everything(tmp_path / "new" / "events.db") == everything(tmp_path / "events.db")
    with EventLog.open(tmp_path / "new" / "events.db") as log:
        assert list(log.problems()) == []
        assert not log.append_trajectory(episode("run/0/shop/0/0", step=0, timing={"seconds": 0.5}), step=0, phase="train")


def test_records_alone_come_back_from_their_file(tmp_path: Path) -> None:
    with run_log(tmp_path / "events.db") as log:
        export_parquet(log, tmp_path / "out")
    import_parquet(tmp_path / "out" / "trajectories.parquet", tmp_path / "new.db")
    found, wanted = everything(tmp_path / "new.db"), everything(tmp_path / "events.db")
    assert found["records True"] == wanted["records True"]
    assert found["ledger True"] == []


@settings(PROPERTY, max_examples=8)
@given(st.tuples(*(trajectories(trajectory_id=f"t{i}") for i in range(4))))
def test_any_legal_record_comes_back_bit_for_bit(tmp_path_factory: pytest.TempPathFactory, records: tuple[Trajectory, ...]) -> None:
    folder = tmp_path_factory.mktemp("any")
    path = exported(folder, *records)
    import_parquet(path.parent, folder / "new.db")
    assert everything(folder / "new.db") == everything(folder / "events.db")


HOSTILE = ["../../etc/passwd", "/abs", "a" * 10_000, "\ud800", "a\x00b", "\u2028", "\x1b[31m", "a\\ud800", " "]


def test_ids_are_data_and_never_change(tmp_path: Path) -> None:
    with EventLog.create(tmp_path / "events.db") as log:
        for name in HOSTILE:
            log.append_trajectory(episode(name), step=1, phase=name)
            log.append_ledger(name, "launched", step=1)
            log.append_metrics(name, 1, {name: name})
        export_parquet(log, tmp_path / "out")
    import_parquet(tmp_path / "out", tmp_path / "new.db")
    assert everything(tmp_path / "new.db") == everything(tmp_path / "events.db")
    names = [row["trajectory_id"] for row in rows(tmp_path / "out/trajectories.parquet")]
    assert names == [name if name != "\ud800" else "\\ud800" for name in HOSTILE]
    assert {p.name.partition(".db")[0] for p in tmp_path.iterdir()} == {"events", "out", "new"}


def test_numbers_beyond_64_bits_are_null_to_read_and_exact_to_restore(tmp_path: Path) -> None:
    copied = Trajectory(
        "c",
        "t",
        "e",
        "k",
        prompt=[CopySpan("p", 0, 9), TokenSpan([2**40, 2**63], "user")],
        parent=ParentLink("p", 2**70, "rewrite"),
    )
    copied.append(PolicyAction(2**70, [2**70], [-1e-320], "v", "", stop_reason="interrupted"))
    row = rows(exported(tmp_path, copied))[0]
    assert (row["parent_turn"], row["token_ids"], row["turn"]) == (None, [2**40, -1, -1], [None, None, None])
    assert row["behaviour_logprobs"] == [None, None, -1e-320]
    import_parquet(tmp_path / "out", tmp_path / "new.db")
    assert everything(tmp_path / "new.db") == everything(tmp_path / "events.db")


def test_a_record_of_a_million_tokens_and_one_of_megabytes_of_text(tmp_path: Path) -> None:
    long = Trajectory("long", "t", "e", "k", prompt=[TokenSpan(range(900_000), "user")])
    long.append(PolicyAction(0, range(100_000), [-0.5] * 100_000, "v", "x" * 10**6, stop_reason="interrupted"))
    exported(tmp_path, long, episode())
    import_parquet(tmp_path / "out", tmp_path / "new.db")
    with EventLog.read(tmp_path / "new.db") as new, EventLog.read(tmp_path / "events.db") as old:
        assert list(new.trajectories()) == list(old.trajectories())


def test_filters_choose_records_and_what_belongs_to_them(tmp_path: Path) -> None:
    with run_log(tmp_path / "events.db") as log:
        counts = export_parquet(log, tmp_path / "out", step=0, phase="train")
    assert counts.rows == {"trajectories": 3, "scores": 3, "ledger": 33, "policies": 3, "metrics": 3, "updates": 2}
    assert import_parquet(tmp_path / "out", tmp_path / "new.db") == counts


def test_an_export_is_never_overwritten_unasked(tmp_path: Path) -> None:
    path = exported(tmp_path, episode())
    before = path.read_bytes()
    other = path.parent / "mine.txt"
    other.write_text("mine")
    with EventLog.read(tmp_path / "events.db") as log:
        with pytest.raises(StoreError, match="must not exist yet"):
            export_parquet(log, path.parent)
        assert path.read_bytes() == before
        export_parquet(log, path.parent, step=7, overwrite=True)
    assert rows(path) == []
    assert other.read_text() == "mine"


def test_an_export_that_fails_leaves_nothing_and_one_that_replaces_keeps_the_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = exported(tmp_path, episode())
    before = path.read_bytes()
    monkeypatch.setattr("rosellm.roserlhf.store.export.transfer.write_manifest", _full_disk)
    with EventLog.read(tmp_path / "events.db") as log:
        with pytest.raises(StoreError, match="No space left"):
            export_parquet(log, path.parent, overwrite=True)
        with pytest.raises(StoreError, match="No space left"):
            export_parquet(log, tmp_path / "a" / "b")
    assert path.read_bytes() == before
    assert {p.name for p in path.parent.iterdir()} == {"trajectories.parquet", "tables", "export-parquet.json"}
    assert not (tmp_path / "a").exists()


def _full_disk(*_: object) -> None:
    raise OSError(28, "No space left on device")


def test_a_full_disk_is_not_blamed_on_the_export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = exported(tmp_path, episode())

    def full(*_: object, **__: object) -> None:
        raise StoreError("events.db cannot be written") from sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr("rosellm.roserlhf.store.export.copied_log.CopiedLog.add_record", full)
    with pytest.raises(StoreError, match=r"^events\.db cannot be written$"):
        import_parquet(path.parent, tmp_path / "new.db")
    assert not list(tmp_path.glob("new.db*"))


def test_an_import_makes_a_new_log_or_none(tmp_path: Path) -> None:
    path = exported(tmp_path, episode())
    with pytest.raises(StoreError, match="must not exist yet"):
        import_parquet(path, tmp_path / "events.db")
    (path.parent / "tables" / "ledger.parquet").unlink()
    with pytest.raises(StoreError, match=r"ledger\.parquet"):
        import_parquet(path.parent, tmp_path / "new" / "events.db")
    assert not (tmp_path / "new").exists()


def test_files_without_their_manifest_are_no_export(tmp_path: Path) -> None:
    path = exported(tmp_path, episode())
    export_folder.manifest_of(path.parent, "parquet").unlink()
    with pytest.raises(StoreError, match=r"must hold a whole export, got no export-parquet\.json"):
        import_parquet(path.parent, tmp_path / "new.db")


def test_files_of_two_exports_do_not_mix(tmp_path: Path) -> None:
    one, two = exported(tmp_path / "1", episode()), exported(tmp_path / "2", episode(), episode("other"))
    one.write_bytes(two.read_bytes())
    with pytest.raises(StoreError, match="rows that its manifest counts"):
        import_parquet(one.parent, tmp_path / "new.db")


def rewritten(path: Path, change: Any, **about: str) -> None:
    """Write a file of records again after a change; `about` replaces what its footer says."""
    table = pq.read_table(path)
    said = {k.decode(): v.decode() for k, v in pq.ParquetFile(path).metadata.metadata.items()} | {
        f"rosellm.{k}": v for k, v in about.items()
    }
    changed = change(table)
    with pq.ParquetWriter(path, changed.schema, store_schema=False, compression="zstd") as writer:
        writer.add_key_value_metadata(said)
        writer.write_table(changed)
    protect_footer(path)


def _set(column: str, value: Any) -> Any:
    def change(table: Any) -> Any:
        place = table.schema.get_field_index(column)
        return table.set_column(place, table.schema.field(place), pa.array([value], table.schema.field(place).type))

    return change


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("token_ids", [1, 2], "digest"),
        ("token_ids", None, "null"),
        ("token_ids", [None] * 12, "null"),
        ("behaviour_logprobs", [-9.0] * 5, "digest"),
        ("behaviour_logprobs", [math.nan] * 5, "digest"),
        ("skeleton", b"\xc1", "digest"),
        ("skeleton", None, "value in each"),
        ("digest", b"", "checksum"),
        ("checksum", -1, "checksum"),
        ("step", 2, "checksum"),
        ("phase", "evaluate", "checksum"),
        ("superseded", True, "checksum"),
        ("exact", b"\xc1", "msgpack"),
        ("exact", b"\x01", "cannot be read"),
    ],
)
def test_a_changed_row_is_refused(tmp_path: Path, column: str, value: Any, message: str) -> None:
    path = exported(tmp_path, episode())
    rewritten(path, _set(column, value))
    with pytest.raises(StoreError, match=message):
        import_parquet(path.parent, tmp_path / "new.db")
    assert not (tmp_path / "new.db").exists()


def test_a_column_that_is_missing_or_of_another_type_is_named(tmp_path: Path) -> None:
    path = exported(tmp_path / "1", episode())
    rewritten(path, lambda table: table.drop_columns(["digest"]))
    with pytest.raises(StoreError, match="must have a column digest of type binary, got none"):
        import_parquet(path, tmp_path / "new.db")
    path = exported(tmp_path / "2", episode())
    rewritten(path, lambda t: t.set_column(t.schema.get_field_index("step"), "step", pa.array(["1"])))
    with pytest.raises(StoreError, match="must have a column step of type int64, got string"):
        import_parquet(path, tmp_path / "new.db")


def test_foreign_and_future_files_are_refused(tmp_path: Path) -> None:
    path = exported(tmp_path, episode())
    rewritten(path, lambda table: table, schema="2")
    with pytest.raises(StoreError, match=r"export schema in \[1, 1\], got 2; upgrade rosellm"):
        import_parquet(path, tmp_path / "new.db")
    with pytest.raises(StoreError, match="must hold an export's trajectories, got ledger"):
        import_parquet(path.parent / "tables" / "ledger.parquet", tmp_path / "new.db")
    pq.write_table(pa.table({"a": [1]}), tmp_path / "foreign.parquet")
    with pytest.raises(StoreError, match="got Parquet of another program"):
        import_parquet(tmp_path / "foreign.parquet", tmp_path / "new.db")
    for text in ("", "PAR1", "no Parquet at all"):
        (tmp_path / "text.parquet").write_text(text)
        with pytest.raises(StoreError, match="must be a Parquet file"):
            import_parquet(tmp_path / "text.parquet", tmp_path / "new.db")


def test_no_flipped_byte_comes_back_as_another_record(tmp_path: Path) -> None:
    path = exported(tmp_path, episode(), episode("b"))
    whole, wanted = path.read_bytes(), everything(tmp_path / "events.db")["records True"]
    refused = 0
    for i, place in enumerate(range(0, len(whole), max(1, len(whole) // 80))):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ (1 << i % 8)]) + whole[place + 1 :])
        new = tmp_path / f"{i}.db"
        try:
            import_parquet(path, new)
        except StoreError:
            refused += 1
        else:
            assert everything(new)["records True"] == wanted
    assert refused > 30


def test_a_few_bytes_that_stand_for_a_billion_tokens_are_refused_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, count = exported(tmp_path, episode()), 10**6
    ids = pa.ListArray.from_arrays(pa.array([0, count], pa.int32()), pa.repeat(pa.scalar(7, pa.int64()), count))
    rewritten(path, lambda t: t.set_column(t.schema.get_field_index("token_ids"), "token_ids", ids))
    assert path.stat().st_size < 20_000
    monkeypatch.setattr(parquet_reading, "_MOST_VALUES", count - 1)
    with pytest.raises(StoreError, match="row groups of at most 999999 values"):
        import_parquet(path, tmp_path / "new.db")


def test_scanning_gives_the_columns_that_were_asked_for_in_small_batches(tmp_path: Path) -> None:
    path = exported(tmp_path, *(episode(f"t{i}") for i in range(5)))
    batches = list(scan_parquet(path, ["step", "token_ids"], rows=2))
    assert [batch.num_rows for batch in batches] == [2, 2, 1]
    assert batches[0].schema.names == ["step", "token_ids"]
    with pytest.raises(StoreError, match="must have a column nonsense"):
        next(scan_parquet(path, ["nonsense"]))


def test_the_encodings_are_those_that_were_chosen(tmp_path: Path) -> None:
    path = exported(tmp_path, episode())
    group = pq.ParquetFile(path).metadata.row_group(0)
    columns = {group.column(j).path_in_schema: group.column(j) for j in range(group.num_columns)}
    assert {column.compression for column in columns.values()} == {"ZSTD"}
    assert "BYTE_STREAM_SPLIT" in columns["behaviour_logprobs.list.element"].encodings
    assert "RLE_DICTIONARY" in columns["token_ids.list.element"].encodings
    assert "RLE_DICTIONARY" in columns["role.list.element"].encodings
    said = pq.ParquetFile(path).metadata.metadata
    assert (said[b"rosellm.schema"], said[b"rosellm.written_by"].partition(b" ")[0]) == (b"1", b"rosellm")


def test_an_export_of_a_run_that_goes_on_is_of_one_moment(tmp_path: Path) -> None:
    with run_log(tmp_path / "events.db") as writer, EventLog.read(tmp_path / "events.db") as reader:
        with reader.snapshot():
            before = reader.sampled_tokens()
            writer.append_trajectory(episode("late"), step=1, phase="train")
            assert reader.sampled_tokens() == before
        assert reader.sampled_tokens() != before
