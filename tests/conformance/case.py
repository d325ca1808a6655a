"""A reference case, the table that finds its adapter, and the comparison of two nested values."""

from __future__ import annotations

import math
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from rosellm.roserlhf.masked import Partial

Outcome = Literal["ok", "differs", "later", "unmapped"]

LATER = frozenset({"hgpo", "g2po", "arpo", "mt_grpo", "kimi_k15", "group_padding", "staleness", "partial_rollout", "anti_hack"})
"""Methods that the library does not have yet."""

RELATIVE, ABSOLUTE = 1e-9, 1e-10


class UnmappedError(Exception):
    """A parameter has a value that the adapter does not understand, or a combination that no function of the library has."""


@dataclass(frozen=True)
class Case:
    """One reference case; inputs and parameters are reached as `case["name"]`, parameters with a default as `case.get`."""

    id: str
    method: str
    inputs: Mapping[str, Any]
    parameters: Mapping[str, Any]
    expected: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.inputs[name] if name in self.inputs else self.parameters[name]

    def get(self, name: str, default: Any) -> Any:
        return self.inputs.get(name, self.parameters.get(name, default))

    def tensor(self, name: str) -> Tensor:
        """float64."""
        return torch.tensor(self[name], dtype=torch.float64)

    def leaf(self, name: str) -> Tensor:
        """float64, with a gradient."""
        return self.tensor(name).requires_grad_()

    def choice(self, name: str, default: str, allowed: Iterable[object]) -> str:
        """A parameter that names a reading; another value than the allowed ones is not understood."""
        value = self.get(name, default)
        if value not in (*allowed,):
            raise UnmappedError(f"{name}={value!r}")
        return str(value)


@dataclass(frozen=True)
class Within:
    """An answer that no computation can repeat, such as what a random search came to, and the interval in which it must lie."""

    low: float
    high: float


Adapter = Callable[[Case], Mapping[str, Any]]
"""Computes what the library has for a case, by the names of the expected values; a value may be a function without arguments."""


@dataclass(frozen=True)
class _Entry:
    inputs: frozenset[str]
    optional_inputs: frozenset[str]
    parameters: frozenset[str]
    optional: frozenset[str]
    adapter: Adapter

    def fits(self, case: Case) -> bool:
        inputs, parameters = frozenset(case.inputs), frozenset(case.parameters)
        return (
            self.inputs <= inputs <= self.inputs | self.optional_inputs
            and self.parameters <= parameters <= self.parameters | self.optional
        )


_TABLE: dict[str, list[_Entry]] = {}


def adapts(
    methods: str, inputs: str, parameters: str = "", *, optional: str = "", optional_inputs: str = ""
) -> Callable[[Adapter], Adapter]:
    """Enter an adapter for every method of `methods`; all names are separated by spaces.

    Args:
        inputs, optional_inputs: a case fits if it has all of the former and nothing but these.
        parameters, optional: likewise.
    """

    def enter(adapter: Adapter) -> Adapter:
        known, also, needed, more = (frozenset(text.split()) for text in (inputs, optional_inputs, parameters, optional))
        for method in methods.split():
            _TABLE.setdefault(method, []).append(_Entry(known, also, needed, more, adapter))
        return adapter

    return enter


def judge(case: Case) -> tuple[Outcome, str]:
    """Run a case; say how it went and, in words, why it did not go well."""
    if case.method in LATER:
        return "later", ""
    wanted = {name: value for name, value in case.expected.items() if value is not None}
    fitting = [entry for entry in _TABLE.get(case.method, []) if entry.fits(case)]
    if not fitting:
        known = case.method in _TABLE
        return "unmapped", "no adapter for these inputs and parameters" if known else f"unknown method {case.method!r}"
    found: dict[str, Any] = {}
    failures: list[tuple[Outcome, str]] = []
    for entry in fitting:
        answers = _attempt(partial(entry.adapter, case), failures) or {}
        for name in [name for name in wanted if name in answers]:
            answer = answers[name]
            found[name] = _attempt(answer, failures) if callable(answer) else answer
    found = {name: answer for name, answer in found.items() if answer is not None}
    wrong = [why for outcome, why in failures if outcome == "differs"]
    wrong += [f"{name}: {fault}" for name, answer in found.items() if (fault := difference(answer, wanted[name]))]
    if wrong:
        return "differs", "; ".join(dict.fromkeys(wrong))
    missing = [name for name in wanted if name not in found]
    if missing or not wanted:
        why = "; ".join(dict.fromkeys(why for _, why in failures))
        return "unmapped", why or f"no adapter for {', '.join(missing) or 'a case that expects nothing'}"
    return "ok", ""


def _attempt(run: Callable[[], Any], failures: list[tuple[Outcome, str]]) -> Any:
    """Call. What fails in the library is a difference: it refuses a reference case. What fails before it was not understood."""
    try:
        return run()
    except UnmappedError as error:
        failures.append(("unmapped", str(error)))
    except Exception as error:  # noqa: BLE001 - whatever it is, the command goes on with the next value
        frames = traceback.walk_tb(error.__traceback__)
        of_library = any(str(frame.f_globals.get("__name__", "")).startswith("rosellm.") for frame, _ in frames)
        refused = of_library or isinstance(error, AssertionError)
        failures.append(("differs" if refused else "unmapped", f"{type(error).__name__}: {error}"))
    return None


def difference(found: Any, wanted: Any) -> str:
    """Say where a value differs from what is expected, empty if nowhere.

    `None` in the expectation is not compared, NaN equals NaN, and a single row may be written without the brackets of the row.
    """
    if wanted is None:
        return ""
    found = _plain(found)
    if isinstance(found, Within):
        inside = isinstance(wanted, (int, float)) and found.low <= wanted <= found.high
        return "" if inside else f"outside [{found.low}, {found.high}]: {wanted!r:.80}"
    if isinstance(wanted, Mapping):
        if not isinstance(found, Mapping):
            return f"{found!r:.80} instead of {wanted!r:.80}"
        absent = [key for key in wanted if key not in found]
        faults = [f"[{key}] {fault}" for key in wanted if key in found and (fault := difference(found[key], wanted[key]))]
        return "; ".join([*(f"[{key}] is missing" for key in absent), *faults])
    if isinstance(wanted, (list, tuple)):
        if _is_one_row(found) and not any(isinstance(one, (list, tuple)) for one in wanted):
            found = found[0]
        if not isinstance(found, (list, tuple)) or len(found) != len(wanted):
            return f"{found!r:.80} instead of {wanted!r:.80}"
        return "; ".join(
            f"[{i}] {fault}" for i, (a, b) in enumerate(zip(found, wanted, strict=True)) if (fault := difference(a, b))
        )
    if isinstance(wanted, (bool, str)):
        return "" if found == wanted else f"{found!r:.80} instead of {wanted!r:.80}"
    if isinstance(found, (int, float)) and isinstance(wanted, (int, float)):
        close = math.isclose(found, wanted, rel_tol=RELATIVE, abs_tol=ABSOLUTE)
        if close or (math.isnan(found) and math.isnan(wanted)):
            return ""
    return f"{found!r:.80} instead of {wanted!r:.80}"


def _is_one_row(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and len(value) == 1 and isinstance(value[0], (list, tuple))


def _plain(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.detach().tolist()
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    return value


def tensor(data: Any) -> Tensor:
    """float64."""
    return torch.tensor(data, dtype=torch.float64)


def padded(rows: list[list[float]]) -> tuple[Tensor, Tensor]:
    """Ragged rows -> float64 `[N, T]` padded with 0, and its mask."""
    width = max(len(row) for row in rows)
    values = tensor([[*row, *[0.0] * (width - len(row))] for row in rows])
    return values, torch.tensor([[True] * len(row) + [False] * (width - len(row)) for row in rows])


def ragged(values: Tensor, lengths: list[int]) -> list[list[float]]:
    """The first entries of each row, or the parts of a flat tensor, as lists."""
    rows = values.split(lengths) if values.ndim == 1 else [row[:n] for row, n in zip(values, lengths, strict=True)]
    return [row.tolist() for row in rows]


def length_mask(lengths: list[int]) -> Tensor:
    """Boolean `[N, longest]`."""
    return torch.arange(max(map(int, lengths))) < torch.tensor(lengths)[:, None]


def share(of: Partial) -> Tensor:
    """The mean of a partial whose sum and count are whole numbers, in float64."""
    return of.sum.double() / of.count.double()


def logs(ratio: Tensor) -> Tensor:
    """Log-probabilities whose ratio to 0 is exactly what is given, or, where no float has that exponential, the nearest towards 1.

    A ratio that stands on a bound so stays on it or inside.
    """
    steps = ratio.log()[..., None] * (1 + torch.arange(-4, 5, dtype=torch.float64) * 2.0**-52)
    reached, wanted = steps.exp(), ratio[..., None]
    inside = torch.where(wanted >= 1, reached <= wanted, reached >= wanted)
    distance = torch.where(inside, (reached - wanted).abs(), torch.inf)
    return steps.gather(-1, distance.argmin(-1, keepdim=True)).squeeze(-1).requires_grad_()


def gradient(of: Tensor, at: Tensor) -> Tensor:
    """The gradient of the sum of a tensor."""
    (found,) = torch.autograd.grad(of.sum(), at, retain_graph=True)
    return found
