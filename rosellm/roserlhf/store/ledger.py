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
    """Sampled tokens left out of the batch, by reason; at `rejected`, empty means all of them under `reason`; empty elsewhere."""
    detail: Json = None
    """Anything else worth keeping, as a JSON value."""
    group: str | None = None
    """At `launched`: the group it is a member of; None elsewhere."""
    retry_of: str | None = None
    """At `launched`: the attempt that it repeats; None elsewhere."""
    superseded: bool = False
    """True if its step was run again: it is counted, and no part of any path."""

    def __post_init__(self) -> None:
        plain.name(self.attempt_id, "attempt_id")
        plain.one_of(self.state, "state", State)
        plain.optional(plain.name, reason=self.reason, group=self.group, retry_of=self.retry_of)
        plain.flag(self.superseded, "superseded")
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
        if self.excluded and self.state not in ENDS:
            raise fail(StoreError, "excluded", f"be empty when an attempt is {self.state}", dict(self.excluded))
        for name in ("group", "retry_of"):
            if getattr(self, name) is not None and self.state != "launched":
                raise fail(StoreError, name, f"be None when an attempt is {self.state}", repr(getattr(self, name)))

    @property
    def placed(self) -> int:
        """Tokens that it says a place of: trained or excluded under a name."""
        return (self.trained or 0) + sum(self.excluded.values())


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
    """Require that an ended attempt's `sampled` tokens are each trained or excluded.

    Raises:
        StoreError: they do not add up.
    """
    says = entry.state == "trained" or bool(entry.excluded)
    if says and entry.placed != sampled:
        got = f"{entry.trained or 0} trained and {dict(entry.excluded)} excluded"
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


@dataclass(frozen=True, slots=True)
class LedgerSummary:
    """What became of the attempts launched in a step, or in the run, each kind counted under its name.

    `launched = trained + sum(rejected) + open`.
    """

    launched: int
    """Live attempts."""
    finished: int
    """Of them, played to an end."""
    failed: Mapping[str, int]
    """Broke off, by cause."""
    admitted: int
    """Taken for a batch, whatever happened then."""
    trained: int
    """Trained, with at least one token or none."""
    rejected: Mapping[str, int]
    """Not trained, by reason: `uniform group` is what dynamic sampling rejects, `unscored` what the infrastructure spoilt."""
    open: int
    """Neither trained nor rejected yet."""
    retries: int
    """Launched in place of an earlier attempt."""
    groups: int
    """Groups with a live member."""
    partial_groups: int
    """Of them, those of which some members were trained and some rejected."""
    superseded: int
    """Attempts of steps that were run again, no part of the other counts."""
    tokens: TokenCounts
    """Where the live attempts' tokens are."""


@dataclass(slots=True)
class _Attempt:
    state: State
    group: str | None = None
    retry_of: str | None = None
    finished: bool = False
    cause: str | None = None
    admitted: bool = False
    reason: str | None = None
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
        self._superseded: Counter[int] = Counter()
        for entry in entries:
            self.add(entry)

    def add(self, entry: LedgerEntry) -> None:
        """Move one attempt along its path; of a superseded entry only count that there was such an attempt.

        Raises:
            StoreError: the path does not allow it, or the tokens trained and excluded are not the tokens sampled.
        """
        if entry.superseded:
            self._superseded[entry.step] += entry.state == "launched"
            return
        attempt = self._attempts.get(entry.attempt_id)
        check_transition(entry.attempt_id, None if attempt is None else attempt.state, entry.state)
        if attempt is None:
            attempt = self._attempts[entry.attempt_id] = _Attempt(entry.state, entry.group, entry.retry_of)
            self._launched.setdefault(entry.step, []).append(attempt)
            return
        if entry.state in ENDS:
            check_placed(entry, attempt.sampled)
            attempt.trained = entry.trained or 0
            attempt.excluded = entry.excluded or ({} if entry.state == "trained" else {str(entry.reason): attempt.sampled})
            attempt.reason = entry.reason
        attempt.finished |= entry.state == "finished"
        attempt.cause = entry.reason if entry.state == "failed" else attempt.cause
        attempt.admitted |= entry.state == "admitted"
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

    def summary(self, step: int | None = None) -> LedgerSummary:
        """Count what became of the attempts launched in `step` (or ever).

        Superseded attempts are known if the entries were read with them: `Ledger(log.ledger(include_superseded=True))`.
        """
        attempts = self._of(step)
        groups: dict[str, set[State]] = {}
        for attempt in attempts:
            if attempt.group is not None:
                groups.setdefault(attempt.group, set()).add(attempt.state)
        return LedgerSummary(
            launched=len(attempts),
            finished=sum(a.finished for a in attempts),
            failed=dict(Counter(a.cause for a in attempts if a.cause is not None)),
            admitted=sum(a.admitted for a in attempts),
            trained=sum(a.state == "trained" for a in attempts),
            rejected=dict(Counter(str(a.reason) for a in attempts if a.state == "rejected")),
            open=sum(a.state not in ENDS for a in attempts),
            retries=sum(a.retry_of is not None for a in attempts),
            groups=len(groups),
            partial_groups=sum({*ENDS} <= states for states in groups.values()),
            superseded=self._superseded.total() if step is None else self._superseded[step],
            tokens=self.tokens(step),
        )

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
