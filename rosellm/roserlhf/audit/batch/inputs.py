"""Whatever a training step has at hand -> one checked `Batch`: detached tensors, one shape per kind, nothing guessed.

Kinds: *per token* `[B, T]`; *per row* `[B]` or `[B, 1]`; *ids* per row, a list of anything hashable or an integer tensor; numbers.
numpy arrays and lists are taken for tensors. What is not given stays None, and the checks that need it say so.
"""

from __future__ import annotations

import operator
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rosellm.roserlhf import checks
from rosellm.roserlhf.audit.batch.runs import Array, Runs, runs_of
from rosellm.roserlhf.errors import DtypeError, ShapeError
from rosellm.roserlhf.masked import at_least_float32

ROLES = ("padding", "system", "user", "assistant", "tool", "scaffold")
"""What the codes of an integer `roles` tensor mean unless `role_names` says otherwise."""

POLICY_ROLES = ("assistant", "policy", "model")
"""Roles whose tokens the policy may have sampled."""


@dataclass(frozen=True)
class RowIds:
    """An id per row, as codes that can be compared."""

    codes: Tensor
    """int64 `[B]`; on the device if the ids came from there."""
    labels: tuple[str, ...] | None = None
    """What each code was called; None: the code is the id."""

    def label(self, code: int) -> str:
        """Name an id in a message."""
        return str(code) if self.labels is None else self.labels[code]


@dataclass(frozen=True, kw_only=True)
class Batch:
    """The arguments of `check_batch` after their shapes and types were checked; its docstring says what each of them means."""

    mask: Tensor
    """bool `[B, T]`."""
    raw_mask: Tensor | None = None
    """The mask as it was given, if it was not boolean: whether it is 0/1 is a finding, not an error."""
    input_ids: Tensor | None = None
    old_logprobs: Tensor | None = None
    current_logprobs: Tensor | None = None
    advantages: Tensor | None = None
    rewards: Tensor | None = None
    values: Tensor | None = None
    returns: Tensor | None = None
    bootstrap_values: Tensor | None = None
    token_loss: Tensor | None = None
    loss: Tensor | None = None
    valid_mask: Tensor | None = None
    content_mask: Tensor | None = None
    reasoning_mask: Tensor | None = None
    roles: Tensor | None = None
    role_names: tuple[str, ...] = ROLES
    policy_codes: tuple[int, ...] = ()
    prompt_ids: Tensor | None = None
    sampled_ids: Tensor | tuple[tuple[int, ...], ...] | None = None
    stop_ids: tuple[int, ...] | None = None
    group_ids: RowIds | None = None
    rollout_ids: RowIds | None = None
    versions: RowIds | None = None
    token_versions: Tensor | None = None
    current_version: str | int | None = None
    lag: Tensor | None = None
    scored: Tensor | None = None
    terminated: Tensor | None = None
    truncated: Tensor | None = None
    before_update: bool | None = None
    temperature: float | None = None
    top_p: float | None = None
    gamma: float | None = None
    gae_lambda: float | None = None
    credit: str | None = None
    aggregation: str | None = None
    denominator: float | Tensor | None = None
    micro_batches: tuple[int, ...] | None = None
    reasoning_excluded: bool = False

    @property
    def rows(self) -> int:
        """B."""
        return self.mask.shape[0]

    @property
    def width(self) -> int:
        """T."""
        return self.mask.shape[1]

    @cached_property
    def runs(self) -> Runs:
        """Stretches of consecutive trained tokens; waits for the device."""
        return runs_of(self.mask.cpu().numpy())

    def trained(self, values: Tensor, rows: int | None = None) -> Array:
        """Return the entries at trained tokens (of the first rows), in reading order, on the host; waits for the device."""
        return np.asarray(values[:rows].cpu().numpy()[self.mask[:rows].cpu().numpy()])

    def at(self, values: Tensor, row: Array, place: Array) -> Array:
        """Return the entries at some places, on the host; waits for the device."""
        if values.device.type == "cpu":
            return np.asarray(values.numpy()[row, place])
        there = [torch.as_tensor(index, device=values.device) for index in (row, place)]
        return np.asarray(values[there[0], there[1]].cpu().numpy())

    def role_name(self, code: int) -> str:
        """Name a role."""
        return self.role_names[code] if 0 <= code < len(self.role_names) else f"role {code}"

    @cached_property
    def present(self) -> frozenset[str]:
        """Names of the arguments that were given, and of the two that come in two shapes."""
        names = {name for name, value in vars(self).items() if value is not None}
        for name, value in (("advantages", self.advantages), ("rewards", self.rewards)):
            if value is not None and value.ndim == 2:
                names.add(f"{name} per token")
        return frozenset(names | {"versions"} if self.token_versions is not None else names)

    def given(self, need: str) -> bool:
        """Tell whether an argument was given; `a or b` asks for either, `a with b` for both, and `or` is read first."""
        return need in self.present or any(self.present.issuperset(way.split(" with ")) for way in need.split(" or "))


class Reader:
    """Checks arguments against the shape of the mask, whatever library they come from."""

    def __init__(self, action_mask: Any) -> None:
        """Read the mask; everything else is held against it."""
        self.given_mask = as_tensor(action_mask, "action_mask")
        if self.given_mask.ndim != 2 or not self.given_mask.numel():
            shape = tuple(self.given_mask.shape)
            raise checks.fail(ShapeError, "action_mask", "have shape [B, T] with at least one row and one column", shape)
        if self.given_mask.is_complex():
            raise checks.fail(DtypeError, "action_mask", "be boolean or 0/1", self.given_mask.dtype)
        self.shape = tuple(self.given_mask.shape)
        self.rows = self.shape[0]
        self.boolean = self.given_mask.dtype == torch.bool
        self.mask = self.given_mask.detach() if self.boolean else self.given_mask.detach() != 0

    def per_token(self, value: Any, argument: str) -> Tensor | None:
        """Floating point `[B, T]`, float32 at least."""
        if value is None:
            return None
        tensor = as_tensor(value, argument)
        checks.floating(tensor, argument)
        checks.same_shape(tensor, argument, self.mask, "action_mask")
        return at_least_float32(tensor.detach())

    def per_token_or_row(self, value: Any, argument: str) -> Tensor | None:
        """Floating point `[B]`, `[B, 1]` or `[B, T]`; a None in a list is NaN."""
        if value is None:
            return None
        tensor = as_tensor(value, argument)
        if tensor.ndim == 2 and tuple(tensor.shape) == self.shape and self.shape[1] > 1:
            return self.per_token(tensor, argument)
        return self.per_row(tensor, argument)

    def per_row(self, value: Any, argument: str) -> Tensor | None:
        """Numbers `[B]` or `[B, 1]`, as floating point."""
        if value is None:
            return None
        tensor = self._row(as_tensor(value, argument), argument)
        if tensor.is_complex():
            raise checks.fail(DtypeError, argument, "hold real numbers", tensor.dtype)
        return at_least_float32(tensor)

    def flags(self, value: Any, argument: str) -> Tensor | None:
        """One boolean per row."""
        if value is None:
            return None
        tensor = self._row(as_tensor(value, argument), argument)
        return tensor if tensor.dtype == torch.bool else tensor != 0

    def token_mask(self, value: Any, argument: str) -> Tensor | None:
        """A boolean or 0/1 mask `[B, T]`."""
        if value is None:
            return None
        tensor = as_tensor(value, argument)
        checks.same_shape(tensor, argument, self.mask, "action_mask")
        return checks.mask(tensor, argument)  # type: ignore[no-any-return]

    def token_ids(self, value: Any, argument: str, *, any_width: bool = False) -> Tensor | None:
        """Integers `[B, T]`; with `any_width` only the rows must agree."""
        if value is None:
            return None
        tensor = as_tensor(value, argument)
        checks.integer(tensor, argument)
        if not any_width:
            checks.same_shape(tensor, argument, self.mask, "action_mask")
        elif tensor.ndim != 2 or tensor.shape[0] != self.rows:
            raise checks.fail(ShapeError, argument, f"have shape [{self.rows}, P]", tuple(tensor.shape))
        return tensor

    def ids(self, value: Any, argument: str) -> RowIds | None:
        """An id per row: a list of anything hashable, or integers."""
        if value is None:
            return None
        if checks.is_tensor(value):
            checks.integer(value, argument)
            return RowIds(self._row(value, argument).long())
        items = value.tolist() if isinstance(value, np.ndarray) else checks.items(value, argument)
        if len(items) != self.rows:
            raise checks.fail(ShapeError, argument, f"have one id per row ({self.rows})", len(items))
        items = [item[0] if isinstance(item, list) and len(item) == 1 else item for item in items]
        if all(type(item) is int and abs(item) < 2**63 for item in items):
            return RowIds(torch.tensor(items, dtype=torch.int64))
        codes, labels = _coded(items, argument)
        return RowIds(torch.tensor(codes, dtype=torch.int64), labels)

    def roles(self, value: Any, names: Mapping[int, str] | Sequence[str] | None) -> tuple[Tensor | None, tuple[str, ...]]:
        """Integer codes `[B, T]` and what they mean; B lists of T role names are coded."""
        if names is None:
            known: tuple[str, ...] = ROLES
        elif isinstance(names, Mapping):
            known = tuple(str(names.get(code, f"role {code}")) for code in range(max(names, default=-1) + 1))
        else:
            known = tuple(names)
        if value is None:
            return None, known
        if (
            isinstance(value, (list, tuple))
            and value
            and isinstance(value[0], (list, tuple))
            and isinstance((value[0] or [0])[0], str)
        ):
            if any(len(row) != self.shape[1] for row in value) or len(value) != self.rows:
                raise checks.fail(ShapeError, "roles", f"have the shape of action_mask {self.shape}", f"{len(value)} rows")
            codes, labels = _coded([name for row in value for name in row], "roles")
            return torch.tensor(codes, device=self.mask.device).view(self.shape), labels
        return self.token_ids(value, "roles"), known

    def sampled(self, value: Any) -> Tensor | tuple[tuple[int, ...], ...] | None:
        """Ids as the engine returned them: aligned `[B, T]`, or one sequence of sampled ids per row."""
        if value is None or checks.is_tensor(value) or isinstance(value, np.ndarray):
            return self.token_ids(value, "sampled_ids")
        rows = checks.items(value, "sampled_ids")
        if len(rows) != self.rows:
            raise checks.fail(ShapeError, "sampled_ids", f"have one sequence per row ({self.rows})", len(rows))
        try:
            return tuple(tuple(operator.index(token) for token in row) for row in rows)
        except TypeError as error:
            raise checks.fail(DtypeError, "sampled_ids", "hold one sequence of integers per row", f"{rows[:1]!r:.80}") from error

    def _row(self, tensor: Tensor, argument: str) -> Tensor:
        if tuple(tensor.shape) not in ((self.rows,), (self.rows, 1)):
            raise checks.fail(ShapeError, argument, f"have shape [{self.rows}] or [{self.rows}, 1]", tuple(tensor.shape))
        return tensor.detach().reshape(self.rows)


def as_tensor(value: Any, argument: str) -> Tensor:
    """Take a tensor as it is, and turn an array or a list of numbers into one; None in a list becomes NaN."""
    if checks.is_tensor(value):
        checks.tensor(value, argument)
        return value  # type: ignore[no-any-return]
    if isinstance(value, (list, tuple)):
        value = [float("nan") if item is None else item for item in value]
        if value and all(checks.is_tensor(item) and item.ndim == 0 for item in value):
            return torch.stack(value)
    try:
        array = np.asarray(value)
        if array.dtype.kind not in "biuf":
            raise TypeError
        return torch.from_numpy(array if array.flags.writeable and array.dtype.isnative else array.copy())
    except (TypeError, ValueError) as error:
        raise checks.fail(DtypeError, argument, "be a tensor, an array or a list of numbers", type(value).__name__) from error


def _coded(items: list[Hashable], argument: str) -> tuple[list[int], tuple[str, ...]]:
    """Number things in the order in which they first appear."""
    order: dict[Hashable, int] = {}
    try:
        codes = [order.setdefault(item, len(order)) for item in items]
    except TypeError as error:
        raise checks.fail(DtypeError, argument, "hold hashable ids", f"{items[:1]!r:.80}") from error
    return codes, tuple(str(item) for item in order)
