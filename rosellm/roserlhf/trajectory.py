"""The record of what happened: `sampled ids + log-probabilities + observations + rewards -> Trajectory`.

Plain data that cannot be built wrong. Everything downstream (credit, masks, ratios, denominators) is derived from these records, so
each class checks its rules when it is built and copies what it is given: sequences become tuples, mappings read-only copies, numpy
and torch scalars Python numbers. Nothing here is tokenised, decoded, padded or guessed, and no third-party package is imported.

A record is a row of tokens in the order of :meth:`Trajectory.spans`: prompt, action 0, observation 0, action 1, ... Only the ids of
a `PolicyAction` were sampled by the policy; prompt and observation ids are context, mask 0.

Turns are absolute: a record whose parent link says "before action k" starts at turn k; a root and a subagent start at 0.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import ClassVar, Literal

from rosellm.roserlhf.checks import fail
from rosellm.roserlhf.errors import RecordError
from rosellm.roserlhf.record import plain
from rosellm.roserlhf.record.action import PolicyAction, StopReason
from rosellm.roserlhf.record.calls import ParsedAction, ParseFailure, ResultOrigin, ResultStatus, ToolCall, ToolResult
from rosellm.roserlhf.record.message import Message
from rosellm.roserlhf.record.spans import CopySpan, PrefixCache, SamplingParameters, TokenSpan, VersionSpan
from rosellm.roserlhf.record.transition import Blame, Ending, Failure, ScoreRecord, TransitionRecord

__all__ = [
    "SCHEMA_VERSION",
    "Blame",
    "CopySpan",
    "Ending",
    "Failure",
    "Message",
    "ParentKind",
    "ParentLink",
    "ParseFailure",
    "ParsedAction",
    "PolicyAction",
    "PrefixCache",
    "ResultOrigin",
    "ResultStatus",
    "SamplingParameters",
    "ScoreRecord",
    "StopReason",
    "TokenSpan",
    "ToolCall",
    "ToolResult",
    "Trajectory",
    "TransitionRecord",
    "VersionSpan",
    "naming_trajectory",
]

SCHEMA_VERSION = 1
"""Version of the record's fields and rules; a record of a newer one is refused."""

ParentKind = Literal["branch", "continuation", "compaction", "subagent", "rewrite"]
"""`branch`, `continuation`: the child adds to the parent's context. The others begin with a whole prompt of their own."""

_HASHED = ("task", "environment", "tokenizer", "template", "policy", "reward", "code", "config")
_TIMING = frozenset({"timing", "latency", "sealed"})
_ADDS_TO_PARENT = ("branch", "continuation")
_set = object.__setattr__


@contextlib.contextmanager
def naming_trajectory(trajectory_id: str) -> Iterator[None]:
    """Put the trajectory's id in front of any `RecordError` raised inside: an action knows its turn, not its trajectory.

    Example:
        >>> with naming_trajectory("run/3/task-7/0"):
        ...     PolicyAction(0, [5, 6], [-0.7, float("nan")], "v1", "hi")
        Traceback (most recent call last):
        ...
        rosellm.roserlhf.errors.RecordError: trajectory 'run/3/task-7/0': old_logprobs[1] of turn 0 must be ...
    """
    try:
        yield
    except RecordError as error:
        prefix = f"trajectory {trajectory_id!r}: "
        if str(error).startswith(prefix):
            raise
        raise RecordError(f"{prefix}{error}") from error


@dataclass(frozen=True, slots=True)
class ParentLink:
    """Where a record hangs: before action `turn` of `record_id`."""

    record_id: str
    """The record that owns the turn."""
    turn: int
    """Absolute turn k, meaning "before action k"."""
    kind: ParentKind
    """What the child is."""

    def __post_init__(self) -> None:
        plain.name(self.record_id, "record_id")
        _set(self, "turn", plain.natural(self.turn, "turn"))
        plain.one_of(self.kind, "kind", ParentKind)


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One record of an episode, or of the part of it that this record adds to its parent.

    It only grows, by :meth:`append` and :meth:`fail`, until it is finished or sealed; a sealed record is never reopened. What is
    continued later is continued in a child.

    Example:
        >>> trajectory = Trajectory("run/0/task-1/0", "task-1", "shop-1", "tok-1")
        >>> trajectory.append(PolicyAction(0, [7, 2], [-0.4, -0.1], "v1", "go"), TransitionRecord(0, None, {"correct": 1.0}, True))
        >>> trajectory.is_finished, trajectory.behavior_policy_versions
        (True, ('v1',))
    """

    trajectory_id: str
    """Unique among the live records of a run: run, step, task, member and attempt."""
    task_id: str
    """The task."""
    environment_version: str
    """Version of the environment that answered."""
    tokenizer_hash: str
    """Hash of the tokenizer whose ids these are."""
    actions: Sequence[PolicyAction] = ()
    """Actions in turn order."""
    transitions: Sequence[TransitionRecord] = ()
    """One per action, but that a cut last action has none."""
    _: KW_ONLY
    group_id: str | None = None
    """Rollouts compared with each other; only a rollout (a root or a branch) has one."""
    prompt: Sequence[TokenSpan | CopySpan] = ()
    """Context before the first action. Empty for a branch or continuation: their context is the walk to the root."""
    parent: ParentLink | None = None
    """Where it hangs; None for a root."""
    run_id: str | None = None
    """The run."""
    step: int | None = None
    """Training step that asked for it."""
    member: int | None = None
    """Index within its group."""
    attempt: int = 0
    """Number of earlier attempts at the same task, step and member."""
    initial_state_hash: str | None = None
    """Hash of the state before the first action."""
    seeds: Mapping[str, int] = plain.EMPTY
    """Seeds by purpose."""
    hashes: Mapping[str, str] = plain.EMPTY
    """Hashes of task, environment, tokenizer, template, policy, reward, code and config, as far as known."""
    policy_name: str | None = None
    """Which policy acted, where there are several."""
    trainable: bool = True
    """False for a record that is only context or evidence."""
    failure: Failure | None = None
    """Why it broke off, if no transition says so."""
    timing: Mapping[str, float] = plain.EMPTY
    """Seconds (or integer nanoseconds) by name; not part of the content hash."""
    schema_version: int = SCHEMA_VERSION
    """Version of the record's fields and rules."""
    sealed: bool = field(default=False, compare=False)
    """True once nothing may be added."""

    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        plain.name(self.trajectory_id, "trajectory_id")
        with naming_trajectory(self.trajectory_id):
            self._check_fields()
            self._check_parent()
            self._replay()

    def _check_fields(self) -> None:
        plain.name(self.task_id, "task_id")
        plain.text(self.environment_version, "environment_version")
        plain.text(self.tokenizer_hash, "tokenizer_hash")
        plain.optional(plain.name, group_id=self.group_id, run_id=self.run_id, policy_name=self.policy_name)
        plain.optional(plain.text, initial_state_hash=self.initial_state_hash)
        for name in ("step", "member", "attempt"):
            if getattr(self, name) is not None:
                _set(self, name, plain.natural(getattr(self, name), name))
        _set(self, "prompt", plain.records(self.prompt, "prompt", TokenSpan, CopySpan))
        _set(self, "seeds", plain.mapping(self.seeds, "seeds", plain.integer))
        _set(self, "hashes", plain.mapping(self.hashes, "hashes", plain.text))
        for name in self.hashes:
            if name not in _HASHED:
                raise fail(RecordError, "hashes", "have names out of " + ", ".join(_HASHED), repr(name))
        _set(self, "timing", plain.mapping(self.timing, "timing", plain.seconds))
        plain.flag(self.trainable, "trainable")
        plain.flag(self.sealed, "sealed")
        if self.failure is not None and not isinstance(self.failure, Failure):
            raise fail(RecordError, "failure", "be a Failure", plain.shown(self.failure))
        if not 1 <= plain.natural(self.schema_version, "schema_version") <= SCHEMA_VERSION:
            raise fail(RecordError, "schema_version", f"be in [1, {SCHEMA_VERSION}]", self.schema_version, fix="upgrade rosellm")

    def _check_parent(self) -> None:
        if self.parent is not None and not isinstance(self.parent, ParentLink):
            raise fail(RecordError, "parent", "be a ParentLink", plain.shown(self.parent))
        if self.parent is not None and self.parent.record_id == self.trajectory_id:
            raise fail(RecordError, "parent", "be another record", repr(self.trajectory_id))
        kind = "root" if self.parent is None else self.parent.kind
        if self.group_id is not None and not self.is_rollout:
            raise fail(
                RecordError,
                "group_id",
                "be None unless the record is a rollout (a root or a branch)",
                f"{self.group_id!r} on a {kind}",
            )
        if kind in _ADDS_TO_PARENT and self.prompt:
            raise fail(
                RecordError,
                "prompt",
                f"be empty in a {kind}",
                f"{len(self.prompt)} span(s)",
                fix="its context is the walk to the root",
            )
        if kind in ("root", *_ADDS_TO_PARENT) and any(isinstance(s, CopySpan) for s in self.prompt):
            raise fail(RecordError, "prompt", f"hold ids, not copies, in a {kind}", "a CopySpan")

    def _replay(self) -> None:
        """Append what the constructor was given, one turn at a time, through the same rules as :meth:`append`."""
        actions = plain.records(self.actions, "actions", PolicyAction)
        transitions = plain.records(self.transitions, "transitions", TransitionRecord)
        if len(actions) - len(transitions) not in (0, 1):
            raise fail(
                RecordError, "transitions", f"hold one per action ({len(actions)}; a cut last action has none)", len(transitions)
            )
        _set(self, "actions", ())
        _set(self, "transitions", ())
        for i, action in enumerate(actions):
            self._add(action, transitions[i] if i < len(transitions) else None)
        if self.failure is not None:
            if self.is_finished:
                raise fail(
                    RecordError, "failure", "be None in a finished record", self.failure, fix="its transitions name the blame"
                )
            self.seal()

    def append(self, action: PolicyAction, transition: TransitionRecord | None = None) -> None:
        """Add one turn.

        Args:
            action: of the next turn, `first_turn + len(actions)`.
            transition: of the same turn; None iff the action's stop reason is `interrupted`.

        Raises:
            RecordError: the record is finished or sealed, or the turn breaks a rule.
        """
        with naming_trajectory(self.trajectory_id):
            if self.is_finished:
                raise RecordError("nothing can be appended: the episode is finished")
            if self.sealed:
                raise RecordError("nothing can be appended: the record is sealed; continue it in a child (kind 'continuation')")
            self._add(action, transition)

    def _add(self, action: PolicyAction, transition: TransitionRecord | None) -> None:
        self._check_order(action, transition)
        if transition is not None:
            self._check_answer(action, transition)
            _set(self, "transitions", (*self.transitions, transition))
        _set(self, "actions", (*self.actions, action))

    def _check_order(self, action: PolicyAction, transition: TransitionRecord | None) -> None:
        if not isinstance(action, PolicyAction):
            raise fail(RecordError, "action", "be a PolicyAction", plain.shown(action))
        if transition is not None and not isinstance(transition, TransitionRecord):
            raise fail(RecordError, "transition", "be a TransitionRecord", plain.shown(transition))
        if self.is_finished:
            raise fail(RecordError, "actions", "end where the episode is finished", f"turn {action.turn} after it")
        if len(self.actions) != len(self.transitions):
            raise RecordError("nothing can follow a cut action in the same record; continue it in a child (kind 'continuation')")
        turn = self.first_turn + len(self.actions)
        if action.turn != turn or (transition is not None and transition.turn != turn):
            got = action.turn if transition is None else f"action {action.turn} with transition {transition.turn}"
            raise fail(RecordError, "turn", f"be contiguous: {turn} comes next", got)
        if (transition is None) != (action.stop_reason == "interrupted"):
            got = f"stop reason {action.stop_reason!r} {'without' if transition is None else 'with'} a transition"
            raise fail(RecordError, "transition", "be None iff the action was interrupted", got)
        if action.continues_action and (self.actions or self.parent is None or self.parent.kind != "continuation"):
            raise fail(
                RecordError, "continues_action", "be False but in the first action of a continuation", f"True at turn {action.turn}"
            )

    def _check_answer(self, action: PolicyAction, transition: TransitionRecord) -> None:
        if isinstance(action.parsed_action, ParsedAction):
            _check_result_order(action.parsed_action, transition.results)
        keeps_ids = self.prompt or (self.transitions and self.transitions[0].observation)
        if keeps_ids and not transition.observation and transition.ending in (None, "truncated"):
            rule = "hold at least one span when another action follows or the end is truncated"
            raise fail(
                RecordError,
                "observation",
                rule,
                f"none at turn {transition.turn}",
                fix="an empty TokenSpan says that nothing was shown",
            )

    def fail(self, blame: Blame, cause: str) -> None:
        """Record that the episode broke off here, and seal it.

        Args:
            blame: who caused it; `infrastructure` makes the rollout unscored.
            cause: what happened, in a few stable words.

        Raises:
            RecordError: the record is finished or sealed.
        """
        if self.is_finished or self.sealed:
            state = "finished" if self.is_finished else "sealed"
            raise RecordError(f"trajectory {self.trajectory_id!r}: no failure can be added, the record is {state}")
        with naming_trajectory(self.trajectory_id):
            _set(self, "failure", Failure(blame, cause))
        self.seal()

    def seal(self) -> None:
        """Forbid any further change; a store seals what it is given."""
        _set(self, "sealed", True)

    def validate(self, *, require_finished: bool = True) -> None:
        """Check the whole record again.

        Args:
            require_finished: also require that the episode ended.

        Raises:
            RecordError: a rule is broken, or the record is `incomplete`.
        """
        Trajectory(**{name: getattr(self, name) for name in self.__slots__})
        if require_finished and not self.is_finished:
            raise RecordError(f"trajectory {self.trajectory_id!r} is incomplete: {len(self.actions)} action(s) and no end")

    @property
    def first_turn(self) -> int:
        """Absolute turn of the first action."""
        return 0 if self.parent is None or self.parent.kind == "subagent" else self.parent.turn

    @property
    def ending(self) -> Ending | None:
        """How the record ends; None while it is open."""
        if len(self.actions) != len(self.transitions):
            return "interrupted"
        return self.transitions[-1].ending if self.transitions else None

    @property
    def is_finished(self) -> bool:
        """Whether the last transition ended the episode, or this part of it."""
        return bool(self.transitions) and len(self.actions) == len(self.transitions) and self.transitions[-1].ending is not None

    @property
    def is_rollout(self) -> bool:
        """Whether it is a root or a branch, the members of groups."""
        return self.parent is None or self.parent.kind == "branch"

    @property
    def is_unscored(self) -> bool:
        """Whether the infrastructure failed: such a rollout leaves baselines and denominators, and is counted."""
        blames = [t.blame for t in self.transitions] + ([] if self.failure is None else [self.failure.blame])
        return "infrastructure" in blames

    @property
    def behavior_policy_versions(self) -> tuple[str, ...]:
        """Every version that sampled a token, each once, in order of appearance."""
        return tuple(dict.fromkeys(span.version for action in self.actions for span in action.version_spans))

    @property
    def sampled_tokens(self) -> int:
        """Number of tokens sampled in this record."""
        return sum(len(action.token_ids) for action in self.actions)

    def reward_totals(self) -> dict[str, float | None]:
        """Sum each reward component over the turns that name it; None if any of them is not scored, because None is not 0."""
        totals: dict[str, float | None] = {}
        for transition in self.transitions:
            for name, value in transition.reward_components.items():
                before = totals.get(name, 0.0)
                totals[name] = None if before is None or value is None else before + value
        return totals

    def spans(self) -> Iterator[TokenSpan | CopySpan | PolicyAction]:
        """Walk the record's own row of tokens in order: prompt, action, observation, action, ..."""
        yield from self.prompt
        for i, action in enumerate(self.actions):
            yield action
            if i < len(self.transitions):
                yield from self.transitions[i].observation

    def content_hash(self) -> str:
        """Hash everything but timing (SHA-256, hex), the same in every process and on every machine."""
        return plain.digest(self, _TIMING)


def _check_result_order(parsed: ParsedAction, results: Sequence[ToolResult]) -> None:
    calls = [call.call_id for call in parsed.calls]
    known = {*calls, *(f.call_id for f in parsed.failures)}
    for result in results:
        if result.call_id not in known and result.origin != "harness":
            raise fail(RecordError, "results", "answer calls of the action", f"call_id {result.call_id!r} from {result.origin}")
    remaining = iter(calls)
    answered = [r.call_id for r in results if r.call_id in set(calls)]
    if not all(call_id in remaining for call_id in answered):
        raise fail(RecordError, "results", f"stand in call order {calls}", answered)
