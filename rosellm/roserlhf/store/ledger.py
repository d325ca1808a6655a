"""The ledger: `events of task attempts -> states and token counts that balance`.

Every attempt walks one path, and every token it sampled ends in exactly one place: trained in one batch, or excluded under one
named reason. The ledger is rebuilt from the events at any time and never guesses: what does not add up is an error.

```
launched -> finished | failed(cause) -> admitted | rejected(reason)
                                        admitted -> trained | rejected(reason)
```

A failed attempt may be admitted: a failure of the policy is data. An admitted one may still be rejected, because a batch can go
stale or be skipped between the decision and the update.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass
from types import MappingProxyType
from typing import Literal

from rosellm.roserlhf.checks import fail
from rosellm.roserlhf.errors import StoreError
from rosellm.roserlhf.record import plain
from rosellm.roserlhf.record.plain import Json

State = Literal["launched", "finished", "failed", "admitted", "rejected", "trained"]
"""Where an attempt is on its path; `rejected` and `trained` are its ends."""

_NEXT: Mapping[State | None, tuple[State, ...]] = MappingProxyType(
    {
        None: ("launched",),
        "launched": ("finished", "failed"),
        "finished": ("admitted", "rejected"),
        "failed": ("admitted", "rejected"),
        "admitted": ("trained", "rejected"),
        "rejected": (),
        "trained": (),
    }
)
ENDS: tuple[State, ...] = ("rejected", "trained")
"""States that nothing follows."""
_NEEDS_REASON = ("failed", "rejected")
_set = object.__setattr__


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One event of one attempt."""

    attempt_id: str
    """The attempt: run, step, task, member and attempt number."""
    state: State
    """The state it enters."""
    _: KW_ONLY
    step: int
    """Training step in which this happened; at `trained`, the step that trained it."""
    reason: str | None = None
    """Why: required at `failed` (the cause) and `rejected`; the name under which tokens are excluded."""
    sampled: int | None = None
    """Tokens the attempt sampled; required at `finished` and `failed`, None elsewhere."""
    trained: int | None = None
    """Tokens with a gradient; required at `trained`, None elsewhere."""
    excluded: Mapping[str, int] = plain.EMPTY
    """Sampled tokens left out of the batch, by reason; only at `trained`."""
    detail: Json = None
    """Anything else worth keeping, as a JSON value."""

    def __post_init__(self) -> None:
        plain.name(self.attempt_id, "attempt_id")
        plain.one_of(self.state, "state", State)
        plain.optional(plain.name, reason=self.reason)
        _set(self, "step", plain.natural(self.step, "step"))
        _set(self, "excluded", plain.mapping(self.excluded, "excluded", plain.natural))
        _set(self, "detail", plain.json_value(self.detail, "detail"))
        self._check_counts()

    def _check_counts(self) -> None:
        if self.reason is None and self.state in _NEEDS_REASON:
            raise fail(StoreError, "reason", f"be given when an attempt is {self.state}", None)
        for name, states in (("sampled", ("finished", "failed")), ("trained", ("trained",))):
            value = getattr(self, name)
            if (value is None) == (self.state in states):
                needed = "be given" if value is None else "be None"
                raise fail(StoreError, name, f"{needed} when an attempt is {self.state}", value)
            if value is not None:
                _set(self, name, plain.natural(value, name))
        if self.excluded and self.state != "trained":
            raise fail(StoreError, "excluded", f"be empty when an attempt is {self.state}", dict(self.excluded))


def check_transition(attempt_id: str, before: str | None, after: str) -> None:
    """Require a legal step of an attempt's path.

    Args:
        attempt_id: the attempt, for the message.
        before: its present state; None if it was never launched.
        after: the state it would enter.

    Raises:
        StoreError: the path does not allow it.

    Example:
        >>> check_transition("run/0/task-3/1", "launched", "trained")
        Traceback (most recent call last):
        ...
        rosellm.roserlhf.errors.StoreError: attempt 'run/0/task-3/1' must go from launched to finished or failed, got trained
    """
    allowed = _NEXT[before]  # type: ignore[index]
    if after not in allowed:
        path = f"go from {before or 'nothing'} to {' or '.join(allowed)}" if allowed else f"stay {before}"
        raise fail(StoreError, f"attempt {attempt_id!r}", path, after)


def check_placed(entry: LedgerEntry, sampled: int) -> None:
    """Require that a trained attempt's `sampled` tokens are each trained or excluded.

    Raises:
        StoreError: they do not add up.
    """
    if (entry.trained or 0) + sum(entry.excluded.values()) != sampled:
        got = f"{entry.trained} trained and {dict(entry.excluded)} excluded"
        raise fail(StoreError, f"attempt {entry.attempt_id!r}", f"place each of its {sampled} sampled tokens once", got)


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """Where the tokens of one or more attempts are: `sampled = trained + sum(excluded) + pending`."""

    sampled: int
    """Sampled by the policy."""
    trained: int
    """Trained, each in exactly one batch."""
    excluded: Mapping[str, int]
    """Excluded, by reason."""
    pending: int
    """Of attempts that are neither trained nor rejected yet."""


@dataclass(slots=True)
class _Attempt:
    state: State
    sampled: int = 0
    trained: int = 0
    excluded: Mapping[str, int] = plain.EMPTY


class Ledger:
    """States and counts of a run's attempts, kept by the step that launched each.

    Example:
        >>> ledger = Ledger()
        >>> ledger.add(LedgerEntry("a", "launched", step=0))
        >>> ledger.add(LedgerEntry("a", "finished", step=0, sampled=40))
        >>> ledger.add(LedgerEntry("a", "admitted", step=0))
        >>> ledger.add(LedgerEntry("a", "trained", step=1, trained=38, excluded={"stale": 2}))
        >>> ledger.tokens(0)
        TokenCounts(sampled=40, trained=38, excluded={'stale': 2}, pending=0)
        >>> ledger.balance()
    """

    def __init__(self, entries: Iterable[LedgerEntry] = ()) -> None:
        """Replay `entries` in order."""
        self._attempts: dict[str, _Attempt] = {}
        self._launched: dict[int, list[_Attempt]] = {}
        for entry in entries:
            self.add(entry)

    def add(self, entry: LedgerEntry) -> None:
        """Move one attempt along its path.

        Raises:
            StoreError: the path does not allow it, or the tokens trained and excluded are not the tokens sampled.
        """
        attempt = self._attempts.get(entry.attempt_id)
        check_transition(entry.attempt_id, None if attempt is None else attempt.state, entry.state)
        if attempt is None:
            attempt = self._attempts[entry.attempt_id] = _Attempt(entry.state)
            self._launched.setdefault(entry.step, []).append(attempt)
            return
        if entry.trained is not None:
            check_placed(entry, attempt.sampled)
            attempt.trained, attempt.excluded = entry.trained, entry.excluded
        elif entry.state == "rejected":
            attempt.excluded = {str(entry.reason): attempt.sampled}
        attempt.sampled = attempt.sampled if entry.sampled is None else entry.sampled
        attempt.state = entry.state

    def state(self, attempt_id: str) -> State | None:
        """Return the attempt's present state; None if it was never launched."""
        attempt = self._attempts.get(attempt_id)
        return None if attempt is None else attempt.state

    def states(self, step: int | None = None) -> dict[State, int]:
        """Count the attempts launched in `step` (or ever) by present state."""
        return dict(Counter(a.state for a in self._of(step)))

    def steps(self) -> tuple[int, ...]:
        """Return the steps that launched an attempt, in order."""
        return tuple(sorted(self._launched))

    def tokens(self, step: int | None = None) -> TokenCounts:
        """Count the tokens of the attempts launched in `step` (or ever)."""
        excluded: Counter[str] = Counter()
        for attempt in self._of(step):
            excluded.update(attempt.excluded)
        pending = sum(a.sampled for a in self._of(step) if _NEXT[a.state])
        trained = sum(a.trained for a in self._of(step))
        return TokenCounts(sum(a.sampled for a in self._of(step)), trained, dict(excluded), pending)

    def balance(self, *, recorded: Mapping[int, int] | None = None, allow_open: bool = False) -> None:
        """Require that every attempt has ended and, against the stored records, that no sampled token is missing.

        That trained and excluded tokens of an attempt make up its sampled ones is required when it ends, by :meth:`add`.

        Args:
            recorded: tokens found in the stored records, by step; if given, each step must have sampled exactly these.
            allow_open: accept attempts that are still on their way, as an asynchronous run always has.

        Raises:
            StoreError: something does not add up; the message says in which step.
        """
        for step in self.steps():
            still_open = {state: count for state, count in self.states(step).items() if _NEXT[state]}
            if still_open and not allow_open:
                raise fail(StoreError, f"the ledger of step {step}", "have no open attempt", still_open)
        if recorded is not None:
            self._match(recorded)

    def _match(self, recorded: Mapping[int, int]) -> None:
        for step in sorted({*self.steps(), *recorded}):
            sampled, found = self.tokens(step).sampled, recorded.get(step, 0)
            if sampled != found:
                rule = f"count the {found} tokens that the stored records of the step hold"
                raise fail(StoreError, f"the ledger of step {step}", rule, sampled)

    def _of(self, step: int | None) -> list[_Attempt]:
        return list(self._attempts.values()) if step is None else self._launched.get(step, [])
