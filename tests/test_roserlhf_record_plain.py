"""Ids as machine integers: as narrow as they can be, the same numbers, and no part of what a record says."""

from __future__ import annotations

import copy
import json
from dataclasses import asdict, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rosellm.roserlhf.record import plain
from rosellm.roserlhf.trajectory import PolicyAction, TokenSpan


@pytest.mark.parametrize(
    ("largest", "typecode"),
    [(0, "H"), (2**16 - 1, "H"), (2**16, "i"), (2**31 - 1, "i"), (2**31, "q"), (2**40, "q"), (2**63 - 1, "q")],
)
def test_ids_are_packed_as_narrow_as_they_can_be(largest: int, typecode: str) -> None:
    packed = TokenSpan([1, largest], "user").packed_ids
    assert packed is not None
    assert (packed.typecode, packed.tolist()) == (typecode, [1, largest])


def test_an_id_beyond_64_bits_is_kept_and_not_packed() -> None:
    action = PolicyAction(0, [5, 2**63], [-0.1, -0.2], "v1", "")
    assert action.token_ids == (5, 2**63)
    assert action.packed_ids is None


@settings(derandomize=True, max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 2**63 - 1) | st.integers(0, 70000), max_size=40))
def test_packed_ids_are_the_ids(ids: list[int]) -> None:
    packed = plain.packed(tuple(ids))
    assert packed is not None
    assert packed.tolist() == ids


def test_logprobs_are_packed_bit_for_bit() -> None:
    action = PolicyAction(0, [1, 2, 3], [-0.0, -5e-324, -1], "v1", "")
    assert action.packed_logprobs.typecode == "d"
    assert list(map(repr, action.packed_logprobs)) == ["-0.0", "-5e-324", "-1.0"]
    assert "packed" not in repr(action)


def test_packing_is_no_part_of_the_record() -> None:
    narrow, again = TokenSpan([7, 8], "user"), TokenSpan((7, 8), "user")
    assert narrow == again
    assert hash(narrow) == hash(again)
    assert "packed" not in repr(narrow)
    assert copy.deepcopy(narrow).packed_ids == narrow.packed_ids
    assert replace(narrow, token_ids=[70000]).packed_ids == plain.packed((70000,))  # made again, not copied
    assert plain.digest(narrow, frozenset()) == plain.digest(again, frozenset())
    shown = {name: value for name, value in asdict(narrow).items() if not name.startswith("_")}
    assert json.loads(json.dumps(shown)) == {
        "token_ids": [7, 8],
        "role": "user",
        "content_mask": None,
        "policy": False,
        "images": [],
    }
