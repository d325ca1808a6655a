"""Records as bytes: exact in every bit, whole or refused."""

from __future__ import annotations

import dataclasses
import math
from array import array
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from record_strategies import JSON, PROPERTY, trajectories

from rosellm.roserlhf.errors import StoreError
from rosellm.roserlhf.store import skeleton
from rosellm.roserlhf.store.encoding import Packed, pack, pack_record, unpack, unpack_record
from rosellm.roserlhf.trajectory import (
    CopySpan,
    ParentLink,
    ParsedAction,
    PolicyAction,
    TokenSpan,
    ToolCall,
    Trajectory,
    TransitionRecord,
)


def record(ids: Any = (3, 4), logprobs: Any = (-0.5, -0.25), **fields: Any) -> Trajectory:
    acted = PolicyAction(0, ids, logprobs, "v1", "hi", stop_reason="stop")
    return Trajectory("t", "k", "e", "h", [acted], [TransitionRecord(0, None, {"correct": 1.0}, True)], **fields)


@PROPERTY
@given(trajectories())
def test_a_record_survives_the_bytes_bit_for_bit(trajectory: Trajectory) -> None:
    packed = pack_record(trajectory)
    again = Packed.from_bytes(packed.to_bytes())
    assert again == packed
    back = unpack_record(again)
    assert back == trajectory
    assert back.sealed
    # Equality takes 0.0 for -0.0 and 1 for True; the bytes and the hash do not.
    assert pack_record(back).to_bytes() == packed.to_bytes()
    assert back.content_hash() == trajectory.content_hash()


@PROPERTY
@given(trajectories())
def test_the_arrays_are_the_row_of_tokens(trajectory: Trajectory) -> None:
    packed = pack_record(trajectory)
    row = [i for span in trajectory.spans() if not isinstance(span, CopySpan) for i in span.token_ids]
    assert packed.token_ids.tolist() == [i if i < 2**63 else -1 for i in row]
    assert packed.logprobs.tolist() == [x for action in trajectory.actions for x in action.old_logprobs]
    view = np.frombuffer(packed.token_ids, packed.token_ids.typecode)
    assert view.tolist() == packed.token_ids.tolist()


@PROPERTY
@given(st.dictionaries(st.text(st.characters(), max_size=5), JSON | st.sampled_from([math.nan, math.inf, -math.inf])))
def test_plain_values_survive_bit_for_bit(values: dict[str, Any]) -> None:
    assert pack(unpack(pack(values))) == pack(values)
    assert str(unpack(pack(values))) == str(values)


def test_arguments_keep_their_shape_and_their_kind() -> None:
    arguments: list[dict[str, Any]] = [{}, {"a": None}, {"a": []}, {"a": {}}, {"a": 1, "b": 1.0, "c": True}, {"a": [[], [None]]}]
    arguments += [{"a": math.nan}, {"a": ""}]
    calls = ParsedAction("", [ToolCall("c", "f", argument) for argument in arguments])
    acted = PolicyAction(0, [1], [-1.0], "v", "", calls)
    back = unpack_record(pack_record(Trajectory("t", "k", "e", "h", [acted], [TransitionRecord(0, None, {}, True)])))
    parsed = back.actions[0].parsed_action
    assert isinstance(parsed, ParsedAction)
    assert repr([dict(call.arguments) for call in parsed.calls]) == repr(arguments), "no null where there was none, 1 is not 1.0"


def test_every_field_of_every_class_is_kept() -> None:
    apart = {PolicyAction: {"old_logprobs"}, Trajectory: {"schema_version", "sealed"}}
    for cls, names in skeleton.FIELDS.items():
        kept = {f.name for f in dataclasses.fields(cls) if f.init}
        assert kept == {*names} | apart.get(cls, set()), cls


@pytest.mark.parametrize(
    ("ids", "typecode"),
    [
        ([0, 2**16 - 1], "H"),
        ([2**16], "i"),
        ([2**31 - 1], "i"),
        ([2**31], "q"),
        ([2**40], "q"),
        ([2**63 - 1], "q"),
        ([7, 2**63, 2**70], "q"),
    ],
)
def test_ids_take_the_narrowest_type_that_holds_them(ids: list[int], typecode: str) -> None:
    packed = pack_record(record(ids, [-1.0] * len(ids)))
    assert packed.token_ids.typecode == typecode
    assert unpack_record(packed).actions[0].token_ids == tuple(ids)


@pytest.mark.parametrize(
    ("logprobs", "typecode"),
    [
        ([-0.5, -0.0, 0.0], "f"),
        ([float(np.float32(-0.1053)), float(np.float32(-1e-45))], "f"),
        ([-0.1053], "d"),
        ([-0.5, -1e-46], "d"),
        ([-5e-324], "d"),
        ([-1e308], "d"),
        ([-3.4028234663852886e38], "f"),
    ],
)
@pytest.mark.parametrize("times", [1, 40])
def test_float32_only_where_every_value_survives_it(logprobs: list[float], typecode: str, times: int) -> None:
    logprobs = logprobs * times
    packed = pack_record(record(range(len(logprobs)), logprobs))
    assert packed.logprobs.typecode == typecode
    back = unpack_record(packed).actions[0].old_logprobs
    assert [math.copysign(1, x) for x in back] == [math.copysign(1, x) for x in logprobs]
    assert list(back) == logprobs


def test_a_field_from_the_future_is_refused() -> None:
    packed = pack_record(record())
    version, fields, wide = unpack(packed.skeleton)

    def stored(version: Any, fields: Any) -> Packed:
        return dataclasses.replace(packed, skeleton=pack((version, fields, wide)))

    assert unpack_record(stored(version, fields)) == record()
    with pytest.raises(StoreError, match="a stored Trajectory must have at most 20 fields, got 21; upgrade rosellm"):
        unpack_record(stored(version, [*fields, "mood"]))
    for newer in (2, 0, 10**30):
        with pytest.raises(StoreError, match=rf"schema_version must be in \[1, 1\], got {newer}; upgrade rosellm"):
            unpack_record(stored(newer, fields))
    with pytest.raises(StoreError, match="must have encoding version 2, got 3; upgrade rosellm"):
        Packed.from_bytes(b"\x03" + packed.to_bytes()[1:])


def test_an_older_record_goes_through_the_upgrade(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = pack_record(record())
    monkeypatch.setattr(skeleton, "SCHEMA_VERSION", 3)
    place = skeleton.FIELDS[Trajectory].index("task_id")

    def renamed(by: str) -> Any:
        return lambda fields: [f"{value}{by}" if i == place else value for i, value in enumerate(fields)]

    monkeypatch.setattr(skeleton, "UPGRADES", {1: renamed("-two"), 2: renamed("-three")})
    assert unpack_record(packed).task_id == "k-two-three"


def test_arrays_that_do_not_belong_to_the_skeleton_are_refused() -> None:
    packed = pack_record(record())
    for change in (
        {"token_ids": array("H", [3])},
        {"token_ids": array("H", [3, 4, 5])},
        {"logprobs": array("f", [-0.5])},
        {"logprobs": array("f", [-0.5, -0.25, -0.125])},
        {"logprobs": array("f", [-0.5, math.nan])},
        {"logprobs": array("f", [-0.5, 0.25])},
        {"token_ids": array("i", [3, -1])},
    ):
        with pytest.raises(StoreError, match="a stored record must"):
            unpack_record(dataclasses.replace(packed, **change))


@pytest.mark.parametrize(
    "skeleton_bytes",
    [
        b"",
        b"\xc1",
        b"\x92\x01",
        b"\xc7\x01\x09x",
        pack([1]),
        pack("x"),
        pack([1, [], []]),
        pack([1, None, []]),
        pack([1, ["x"] * 20, []]),
        pack([1, [[], [1], []], []]),
        pack([1, [], [[0, 1]]]),
        pack(["1", [], []]),
        pack([True, [], []]),
    ],
)
def test_a_skeleton_that_is_none_is_refused(skeleton_bytes: bytes) -> None:
    with pytest.raises(StoreError):
        unpack_record(Packed(skeleton_bytes, array("H"), array("f")))


@PROPERTY
@given(trajectories(), st.randoms(use_true_random=False))
def test_cut_and_changed_bytes_never_crash(trajectory: Trajectory, random: Any) -> None:
    data = pack_record(trajectory).to_bytes()
    for _ in range(8):
        changed = bytearray(data)
        changed[random.randrange(len(data))] ^= 1 << random.randrange(8)
        for broken in (bytes(changed), data[: random.randrange(len(data))], data + b"x"):
            try:
                unpack_record(Packed.from_bytes(broken))
            except StoreError:
                continue


def test_strings_and_integers_that_msgpack_lacks_are_escaped() -> None:
    hostile = {"a\ud800": ["\udfff", 2**64, -(2**63) - 1, {"x": "\ud83d"}], "plain": (1, True, None)}
    assert unpack(pack(hostile)) == {**hostile, "plain": [1, True, None]}
    assert unpack(pack([np.str_("text"), np.float32(0.5)])) == ["text", 0.5]
    with pytest.raises(TypeError, match="a object is not plain data"):
        pack(object())


def test_whole_prompts_are_kept_as_copies() -> None:
    prompt = [CopySpan("p", 0, 2**40), TokenSpan([1, 2], "user", [True, False])]
    child = record(parent=ParentLink("p", 0, "compaction"), prompt=prompt)
    assert unpack_record(pack_record(child)) == child
