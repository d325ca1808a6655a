"""Values between two boxes arrive as they were, as Python's own types, and nothing else arrives."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rosellm.roserlhf.environment.sandbox.proxy import Keeper, Unsupported, decode, encode

SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(), st.binary(), st.complex_numbers(allow_nan=False)
)
HASHABLE = st.recursive(SCALARS, lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3), max_leaves=5)
VALUES = st.recursive(
    HASHABLE | st.binary().map(bytearray),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(HASHABLE, inner, max_size=3) | st.sets(HASHABLE, max_size=3),
    max_leaves=10,
)


def passed(value: Any) -> Any:
    return decode(json.loads(json.dumps(encode(value))), None)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(VALUES)
def test_a_plain_value_arrives_as_it_was(value: Any) -> None:
    assert passed(value) == value
    assert type(passed(value)) is type(value)


def test_large_integers_and_signs_arrive() -> None:
    """More digits than Python turns into text, both signs, and what floats have beside numbers."""
    assert passed([10**6000, -(10**6000), -1, True, 1, -0.0, float("inf")]) == [
        10**6000,
        -(10**6000),
        -1,
        True,
        1,
        -0.0,
        float("inf"),
    ]
    assert [type(item) for item in passed([True, 1, 1.0])] == [bool, int, float]
    assert passed(float("nan")) != passed(float("nan"))


class Liar(int):
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = int.__hash__


def test_what_derives_from_a_plain_type_arrives_as_that_type() -> None:
    assert Liar(1) == 2
    assert type(passed(Liar(1))) is int
    assert passed({"a": Liar(1)}) != {"a": 2}


def test_what_is_not_plain_is_kept_or_refused() -> None:
    keeper = Keeper()
    thing = object()
    assert decode(encode([thing], keeper), keeper.kept.__getitem__) == [thing]
    with pytest.raises(Unsupported, match="object"):
        encode([thing])


@pytest.mark.parametrize(
    "message", [3, [], {}, {"int": "1", "list": []}, {"other": 1}, {"int": 5}, {"list": [7]}, {"dict": [[{"list": []}, None]]}]
)
def test_what_no_encoder_writes_is_no_value(message: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        decode(message, None)
