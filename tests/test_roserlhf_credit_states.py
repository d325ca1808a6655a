"""State keys: what counts as the same state, exactly, as text, or by similarity, and never by the order of rows."""

from __future__ import annotations

import unicodedata
from collections.abc import Hashable
from enum import Enum
from typing import Any

import numpy as np
import oracles_steps as slow
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rosellm.roserlhf import errors
from rosellm.roserlhf.advantages import (
    canonical_text_key,
    exact_state_key,
    gigpo_advantages,
    similarity_clusters,
    text_similarity,
)

thorough = settings(derandomize=True, max_examples=60, deadline=None)
CHAIN = torch.tensor([[1.0, 0.96, 0.90], [0.96, 1.0, 0.96], [0.90, 0.96, 1.0]])


class Room(Enum):
    HALL = 1


DIFFERENT: list[Any] = [
    1,
    1.0,
    True,
    "1",
    b"1",
    None,
    (1,),
    [1],
    (1.0,),
    (True,),
    {1},
    frozenset({1}),
    {"a": 1},
    {"a": 1.0},
    0.0,
    -0.0,
    Room.HALL,
    np.array([1, 2]),
    np.array([1, 2], dtype=np.int8),
    np.array([[1, 2]]),
    np.float32(1),
    torch.tensor([1, 2]),
    torch.tensor([1, 2], dtype=torch.bfloat16),
    torch.tensor([[1, 2]]),
]


def test_exact_keys_keep_types_shapes_and_containers_apart() -> None:
    keys = [exact_state_key(state) for state in DIFFERENT]
    assert len(set(keys)) == len(keys)
    assert keys == [exact_state_key(state) for state in DIFFERENT]
    assert len({exact_state_key([state]) for state in DIFFERENT}) == len(keys)  # one level down


def test_exact_keys_ignore_only_the_order_of_unordered_things() -> None:
    assert exact_state_key({"a": [1, {2, 3}], "b": None}) == exact_state_key({"b": None, "a": [1, {3, 2}]})
    assert exact_state_key(float("nan")) == exact_state_key(float("nan"))
    grid = np.arange(6).reshape(2, 3)
    assert exact_state_key(grid) == exact_state_key(np.asfortranarray(grid))
    assert exact_state_key(torch.arange(6).view(3, 2).T) == exact_state_key(torch.arange(6).view(3, 2).T.contiguous())


def test_exact_keys_refuse_what_they_cannot_compare() -> None:
    class Unhashable:
        __hash__ = None  # type: ignore[assignment]

    for state in (Unhashable(), [Unhashable()], np.array([object()]), slice(0, 1) if slice.__hash__ is None else Unhashable()):
        with pytest.raises(errors.DtypeError, match="state must be plain data or hashable"):
            exact_state_key(state)


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("You are in the  Kitchen.\n", "you are in\tthe kitchen.", True),
        ("Straße", "STRASSE", True),
        ("caf\u00e9", "cafe\u0301", True),
        ("x\u00b2", "x2", False),
        ("", " \n ", True),
        ("door 1", "door 2", False),
        ('{"b": 1, "a": [2, {"d": null, "c": true}]}', ' {"a":[2,{"c":true,"d":null}],"b":1}\n', True),
        ('{"text": "The  Hall"}', '{"text": "the hall"}', True),
        ('{"Key": 1}', '{"key": 1}', False),
        ("[1]", "[1.0]", False),
        ("[1]", "[true]", False),
        ("[1, 2]", "[2, 1]", False),
        ('["1"]', "[1]", False),
        ("[]", "{}", False),
        ('{"a": 1, "a": 2}', '{"a": 2}', False),
        ("[NaN]", "[nan]", True),  # text, both
        ("{not json}", "{Not  JSON}", True),
        ('["null"]', "[null]", False),
        ("1", "1.0", False),
    ],
)
def test_canonical_text(first: str, second: str, same: bool) -> None:
    assert (canonical_text_key(first) == canonical_text_key(second)) is same


def test_canonical_text_options_and_hostile_input() -> None:
    assert canonical_text_key("Hall", ignore_case=False) != canonical_text_key("hall", ignore_case=False)
    assert canonical_text_key('["Hall"]', ignore_case=False) != canonical_text_key('["hall"]', ignore_case=False)
    assert canonical_text_key("[" * 100_000)[0] == "text"  # type: ignore[index]
    assert canonical_text_key("[" * 100_000 + "]" * 100_000)[0] == "text"  # type: ignore[index]
    hash(canonical_text_key("[" + "9" * 100_000 + "]"))
    with pytest.raises(errors.DtypeError, match="text must be a string"):
        canonical_text_key(b"hall")  # type: ignore[arg-type]
    with pytest.raises(errors.DtypeError, match="ignore_case must be True or False"):
        canonical_text_key("hall", ignore_case=0)  # type: ignore[arg-type]


@thorough
@given(st.text(max_size=20))
def test_canonical_text_is_stable_under_what_it_ignores(text: str) -> None:
    found = canonical_text_key("t" + text)
    assert isinstance(found, tuple)
    kind, key = found
    assert kind == "text"
    for written in (key, unicodedata.normalize("NFD", key), f"  {key}\n"):
        assert canonical_text_key(written) == ("text", key)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text("aB ", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=2), inner, max_size=3),
    max_leaves=8,
)


@thorough
@given(st.dictionaries(st.text("ab", max_size=2), json_values, max_size=3))
def test_canonical_json_does_not_depend_on_how_it_was_written(value: dict[str, Any]) -> None:
    import json

    reversed_ = dict(reversed(list(value.items())))
    keys = {canonical_text_key(text) for text in (json.dumps(value), json.dumps(reversed_, indent=2))}
    assert len(keys) == 1
    assert all(isinstance(key, Hashable) for key in keys)


def test_text_similarity_by_hand() -> None:
    # abcd and abce share the block abc: 2 * 3 / 8; equal texts, and two empty ones: 1
    texts = ["abcd", "abce", "", "abcd", ""]
    found = text_similarity(texts)
    assert found[0].tolist() == [1.0, 0.75, 0.0, 1.0, 0.0]
    assert found[2].tolist() == [0.0, 0.0, 1.0, 0.0, 1.0]
    assert torch.equal(found, found.T)
    assert text_similarity([]).shape == (0, 0)
    with pytest.raises(errors.DtypeError, match="texts must be a sequence of strings"):
        text_similarity(["a", 1])  # type: ignore[list-item]


def test_first_match_depends_on_the_order_of_rows_and_components_do_not() -> None:
    # 0 ~ 1 ~ 2 at 0.95, but not 0 ~ 2: seen from 0, row 2 is a stranger; seen from 1, all are near
    moved = torch.tensor([1, 0, 2])
    shuffled = CHAIN[moved][:, moved]
    assert similarity_clusters(CHAIN, 0.95, reading="first_match").tolist() == [0, 0, 1]
    assert similarity_clusters(shuffled, 0.95, reading="first_match").tolist() == [0, 0, 0]
    assert similarity_clusters(CHAIN, 0.95).tolist() == similarity_clusters(shuffled, 0.95).tolist() == [0, 0, 0]


def test_a_pair_at_the_threshold_is_similar_in_either_direction() -> None:
    assert similarity_clusters(torch.tensor([[1.0, 0.75], [0.0, 1.0]]), 0.75).tolist() == [0, 0]
    assert similarity_clusters(torch.tensor([[0.0, 0.75], [0.75, 0.0]]), 0.8).tolist() == [0, 1]
    assert similarity_clusters(torch.zeros(0, 0), 0.5).tolist() == []


def test_tasks_do_not_connect_through_each_other() -> None:
    # row 1 is of another task: without it rows 0 and 2 have nothing in common
    assert similarity_clusters(CHAIN, 0.95, group_ids=["shop", "maze", "shop"]).tolist() == [0, 1, 2]
    assert similarity_clusters(CHAIN, 0.90, group_ids=["shop", "maze", "shop"]).tolist() == [0, 1, 0]


edges = st.integers(1, 9).flatmap(lambda n: st.tuples(st.just(n), st.sets(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)))))


@thorough
@given(edges, st.randoms(use_true_random=False))
def test_clusters_against_a_search_and_in_any_order(graph: tuple[int, set[tuple[int, int]]], random: Any) -> None:
    size, pairs = graph
    similarity = torch.eye(size)
    for i, j in pairs:
        similarity[i, j] = 0.75
    clusters = similarity_clusters(similarity, 0.75)
    expected = slow.components(similarity.tolist(), 0.75)
    assert [{i for i in range(size) if clusters[i] == c} for c in range(len(expected))] == expected
    order = torch.tensor(random.sample(range(size), size))
    moved = similarity_clusters(similarity[order][:, order], 0.75)
    assert torch.equal(moved[:, None] == moved[None, :], clusters[order][:, None] == clusters[order][None, :])


def test_clusters_are_state_keys() -> None:
    texts = ["a red door", "a red  door", "a garden", "a red door!"]
    keys = similarity_clusters(text_similarity(texts), 0.9)
    rewards = torch.tensor([1.0, 0.0, 5.0, 0.5])
    advantages = []
    for order in ([0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2]):
        rows = torch.tensor(order)
        found = gigpo_advantages(rewards[rows], keys[rows], order, ["task"] * 4, eps=0.0)
        advantages.append(found.step_advantages[torch.argsort(rows)])
    assert advantages[0].tolist() == pytest.approx([1.5**0.5, -(1.5**0.5), 0.0, 0.0])  # 1, 0 and 1/2
    for other in advantages[1:]:
        torch.testing.assert_close(other, advantages[0])


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"similarity": torch.zeros(2, 3)}, errors.ShapeError, "similarity must be a square matrix"),
        ({"similarity": torch.tensor([[1.0, float("nan")], [0.0, 1.0]])}, errors.NonFiniteError, "similarity must be finite"),
        ({"similarity": torch.eye(2, dtype=torch.int64)}, errors.DtypeError, "similarity must be a floating-point tensor"),
        ({"threshold": float("nan")}, errors.RangeError, "threshold must be in"),
        ({"reading": "greedy"}, errors.RangeError, "reading must be one of"),
        ({"group_ids": ["a"]}, errors.ShapeError, "group_ids must have one id for each of the 2 rows"),
    ],
)
def test_errors(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        similarity_clusters(**{"similarity": torch.eye(2), "threshold": 0.5, **arguments})
