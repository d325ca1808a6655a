"""States of an environment -> keys that say which of them count as the same: exact, canonical text, or clusters of similar ones.

Step-level groups compare the actions taken in *one* state, so what "the same" means is part of the method and depends on the task.
Three answers, from the strictest to the loosest; each gives keys for `gigpo_advantages`, which never merges them across tasks.
"""

from __future__ import annotations

import difflib
import json
import unicodedata
from collections.abc import Hashable, Mapping, Sequence, Set
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.credit.identifiers import integer_ids
from rosellm.roserlhf.errors import DtypeError, ShapeError

_PLAIN = (bool, int, str, bytes, type(None))


def exact_state_key(state: Any) -> Hashable:
    """Turn a state into a key that is equal for the same data of the same types, and for nothing else.

    `1`, `1.0` and `True` are three states, at every depth, and so are `(1,)` and `[1]`; an array is its dtype, shape and bytes; the
    order of a mapping's or a set's entries does not matter. Floats are compared by their bits: NaN equals itself, 0.0 and -0.0
    differ. An object of any other type is compared by its own `==`, and must be hashable.

    Args:
        state: nested built-in containers of numbers, strings, bytes, None, numpy arrays, tensors and hashable objects.

    Returns:
        A hashable key.

    Raises:
        DtypeError: a part of the state is of no kind listed above, an array of Python objects for example.

    Example:
        >>> exact_state_key({"room": [1, 2]}) == exact_state_key({"room": [1, 2.0]})
        False
        >>> exact_state_key({"a": 1, "b": 2}) == exact_state_key({"b": 2, "a": 1})
        True
    """
    try:
        return _exact(state)
    except RecursionError:
        raise checks.fail(DtypeError, "state", "not be nested so deeply, or in itself", type(state).__name__) from None


def _exact(state: Any) -> Hashable:
    kind = type(state)
    if kind in _PLAIN:
        return kind, state
    if kind is float or kind is complex:
        return kind, np.array(state).tobytes()
    if isinstance(state, Mapping):
        return kind, frozenset((_exact(name), _exact(value)) for name, value in state.items())
    if isinstance(state, Set):
        return kind, frozenset(map(_exact, state))
    if isinstance(state, (list, tuple)):
        return kind, tuple(map(_exact, state))
    return kind, _array_or_object(state)


def _array_or_object(state: Any) -> Hashable:
    if isinstance(state, Tensor):
        checks.tensor(state, "state")
        checks.holds_data(state, "state")
        flat = state.detach().cpu().resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format).flatten()
        return str(state.dtype), tuple(state.shape), flat.view(torch.uint8).numpy().tobytes()
    if isinstance(state, (np.ndarray, np.generic)) and not state.dtype.hasobject:
        return state.dtype.str, state.shape, state.tobytes()
    if isinstance(state, np.ndarray) or not isinstance(state, Hashable):
        fix = "turn it into built-in containers, or give it a hash"
        raise checks.fail(DtypeError, "state", "be plain data or hashable", type(state).__name__, fix=fix)
    return state


def canonical_text_key(text: str, *, ignore_case: bool = True) -> tuple[str, str]:
    """Turn a text into a key that ignores how it was written: white space, letter case, Unicode composition, order of JSON keys.

    Text: canonical decomposition (NFD), full case folding unless `ignore_case` is false, composition (NFC); every run of white
    space becomes one space, none at the ends. Compatibility forms stay distinct (x² is not x2).

    A text that is, as a whole, a JSON object or array is read as such: the order of an object's keys and the white space between
    tokens do not matter, strings inside are treated like text, while object keys and the spelling of numbers stay as they are (1,
    1.0 and 1e0 differ). What is not JSON in the strict sense stays text: a repeated key, NaN, nesting too deep to read.

    Args:
        text: an observation.
        ignore_case: fold letter case.

    Returns:
        `("text", canonical text)` or `("json", canonical JSON)`.

    Raises:
        DtypeError: `text` is not a string, or `ignore_case` no boolean.

    Example:
        >>> canonical_text_key("You are in the  Kitchen.\\n")
        ('text', 'you are in the kitchen.')
        >>> canonical_text_key('{"b": 1, "a": [2]}') == canonical_text_key('{"a":[2],"b":1}')
        True
    """
    if not isinstance(text, str):
        raise checks.fail(DtypeError, "text", "be a string", type(text).__name__)
    checks.flag(ignore_case, "ignore_case")
    if text.lstrip()[:1] in ("{", "["):
        try:
            value = json.loads(text, object_pairs_hook=_object, parse_int=_Number, parse_float=_Number, parse_constant=_not_json)
            return "json", _canonical_json(value, ignore_case)
        except (ValueError, RecursionError):
            pass
    return "text", _canonical_text(text, ignore_case)


def _canonical_text(text: str, ignore_case: bool) -> str:
    decomposed = unicodedata.normalize("NFD", text)
    folded = decomposed.casefold() if ignore_case else decomposed
    return " ".join(unicodedata.normalize("NFC", folded).split())


class _Number(str):
    """A JSON number as it is spelled."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({name for name, _ in pairs}) < len(pairs):
        raise ValueError("a repeated key")
    return dict(pairs)


def _not_json(constant: str) -> None:
    raise ValueError(constant)


def _canonical_json(value: Any, ignore_case: bool) -> str:
    if isinstance(value, dict):
        pairs = (f"{json.dumps(name)}:{_canonical_json(value[name], ignore_case)}" for name in sorted(value))
        return "{" + ",".join(pairs) + "}"
    if isinstance(value, list):
        return "[" + ",".join(_canonical_json(item, ignore_case) for item in value) + "]"
    if isinstance(value, _Number):
        return str(value)
    return json.dumps(_canonical_text(value, ignore_case) if isinstance(value, str) else value)


def text_similarity(texts: Sequence[str]) -> Tensor:
    r"""Compare all pairs of texts by the share of characters that match in order.

    .. math:: s(a, b) = \frac{2\,M(a, b)}{|a| + |b|}

    :math:`M` counts the characters in matching blocks, found as in `difflib.SequenceMatcher` (its heuristic for frequent
    characters is off). That search depends on which text comes first; the larger of both directions is taken, so that the result is
    symmetric. Two empty texts are equal: 1. Every *different* pair costs time in proportion to the product of the lengths.

    Args:
        texts: N texts.

    Returns:
        `[N, N]`, float64, symmetric, in [0, 1], ones on the diagonal.

    Raises:
        DtypeError: `texts` is not a sequence of strings.

    Example:
        >>> text_similarity(["abcd", "abce", "xyz"])  # 2 * 3 / 8
        tensor([[1.0000, 0.7500, 0.0000],
                [0.7500, 1.0000, 0.0000],
                [0.0000, 0.0000, 1.0000]], dtype=torch.float64)
    """
    listed = checks.items(texts, "texts")
    if not all(isinstance(text, str) for text in listed):
        raise checks.fail(DtypeError, "texts", "be a sequence of strings", f"{listed!r:.80}")
    different = list(dict.fromkeys(listed))
    table = np.eye(len(different))
    for i, first in enumerate(different):
        for j in range(i):
            pair = (first, different[j])
            table[i, j] = table[j, i] = max(_matching_share(*pair), _matching_share(*reversed(pair)))
    places = {text: place for place, text in enumerate(different)}
    index = torch.tensor([places[text] for text in listed], dtype=torch.long)
    return torch.from_numpy(table)[index][:, index]


def _matching_share(first: str, second: str) -> float:
    return difflib.SequenceMatcher(None, first, second, autojunk=False).ratio()


@torch.no_grad()
def similarity_clusters(
    similarity: Tensor,
    threshold: float,
    *,
    group_ids: Tensor | Sequence[Hashable] | None = None,
    reading: Literal["connected", "first_match"] = "connected",
) -> Tensor:
    r"""Cluster states so that any two whose similarity reaches the threshold are in one cluster.

    .. math:: i \sim j \iff s_{ij} \ge \theta \ \text{or}\ s_{ji} \ge \theta

    The clusters are the connected components of that relation, whatever the order of the rows. The price is chaining: two members
    may be less similar than the threshold if others lie between them.

    `reading="first_match"` is the reading of the authors of GiGPO: a state joins the first cluster whose *first member* is similar
    enough, or founds one. Its clusters depend on the order of the rows, so equal batches in another order give other advantages; it
    is here for comparison.

    Source: the similarity groups of Feng et al. 2025, "Group-in-Group Policy Optimization for LLM Agent Training",
    https://arxiv.org/abs/2505.10978 (its text says above 0.9, the authors' code at least 0.95).

    Args:
        similarity: `[N, N]`, floating point, finite; the diagonal is not read.
        threshold: θ, finite; a pair exactly at it, in the dtype of `similarity`, is similar.
        group_ids: task of each state, N ids; states of different tasks never share a cluster, not even through others. None: one
            task.
        reading: how clusters are formed.

    Returns:
        `[N]`, int64: cluster of each state, numbered in order of first appearance. Usable as state keys.

    Raises:
        DtypeError, ShapeError: `similarity` is not a square floating-point matrix, or `group_ids` do not fit it.
        NonFiniteError: NaN or infinity in `similarity`.
        RangeError: `threshold` is not finite or `reading` unknown.

    Example:
        >>> s = torch.tensor([[1.0, 0.96, 0.90], [0.96, 1.0, 0.96], [0.90, 0.96, 1.0]])
        >>> similarity_clusters(s, 0.95), similarity_clusters(s, 0.95, reading="first_match")
        (tensor([0, 0, 0]), tensor([0, 0, 1]))
    """
    checks.floating(similarity, "similarity")
    if similarity.ndim != 2 or similarity.shape[0] != similarity.shape[1]:
        raise checks.fail(ShapeError, "similarity", "be a square matrix [N, N]", f"shape {tuple(similarity.shape)}")
    checks.finite(similarity, "similarity")
    infinity = float("inf")
    checks.number_in(threshold, "threshold", -infinity, infinity, open_low=True, open_high=True)
    checks.one_of(reading, "reading", ("connected", "first_match"))
    similar = (similarity >= threshold) | (similarity.mT >= threshold)
    similar.fill_diagonal_(True)
    if group_ids is not None:
        if isinstance(group_ids, Tensor):
            checks.same_device(group_ids, "group_ids", similarity, "similarity")
        tasks = integer_ids(group_ids, "group_ids", similarity.shape[0]).to(similarity.device)
        similar &= tasks.unsqueeze(0) == tasks.unsqueeze(1)
    return integer_ids(_connected(similar) if reading == "connected" else _first_match(similar), "similarity")


def _connected(similar: Tensor) -> Tensor:
    """Label every row by the smallest row of its component: neighbours' labels spread, and labels of labels shorten the way."""
    labels = torch.arange(similar.shape[0], device=similar.device)
    while True:
        spread = torch.where(similar, labels, similar.shape[0]).amin(1) if labels.numel() else labels
        spread = spread.gather(0, spread)
        if torch.equal(spread, labels):
            return labels
        labels = spread


def _first_match(similar: Tensor) -> Tensor:
    """Label every row by the first member of its cluster; one round per cluster, for each founder takes all who are still free."""
    labels = torch.full((similar.shape[0],), -1, device=similar.device)
    while bool((free := labels < 0).any()):
        founder = int(free.int().argmax())
        labels = torch.where(free & similar[founder], founder, labels)
    return labels
