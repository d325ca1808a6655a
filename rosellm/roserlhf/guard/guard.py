"""The guard: `call → rules → (judge) → executed, or a dummy result`, in front of anybody's tools.

```
call ──► rules ── nothing suspicious ─────────────────────────────────► tool runner ──► result
           └── suspicious ──► judge, within its time ── cleared ──────► tool runner ──► result + event
                                 └── hack, or no verdict ──► policy ──► dummy result    + event   (the call never runs)
```
A call that is not suspicious waits for nobody. What is judged is what is executed: arguments are read-only from parsing on.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeGuard

from rosellm.roserlhf import checks
from rosellm.roserlhf.environment.output import text_of
from rosellm.roserlhf.environment.protocol import StepResult, ToolRunner
from rosellm.roserlhf.environment.runner import unexecuted
from rosellm.roserlhf.environment.tools import ToolSet
from rosellm.roserlhf.environment.waiting import NoAnswerError, answer_of
from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.call_line import LONGEST, call_line
from rosellm.roserlhf.guard.detection import Detect, detection
from rosellm.roserlhf.guard.dummy import Dummy, dummy_result
from rosellm.roserlhf.guard.event import Action, GuardEvent, Outcome
from rosellm.roserlhf.guard.policy import BLOCK_AND_CONTINUE, UNTOUCHED, Policy, RewardHandling, confirmed
from rosellm.roserlhf.guard.rules import Rules, Suspicion
from rosellm.roserlhf.guard.setting import Setting
from rosellm.roserlhf.guard.verdict import Case, Judge, Verdict
from rosellm.roserlhf.trajectory import ToolCall, ToolResult

UNREADABLE = "guard-unreadable"
"""Rule of a call on which the rules themselves failed."""
JUDGE_TIMEOUT = 30.0
"""Seconds that a judge has by default."""
MOST_HISTORY = 64
"""Lines of history that are kept of an episode, the last ones."""
LONGEST_EVIDENCE = 200
LONGEST_REASON = 500
_log = logging.getLogger(__name__)


@dataclass
class Tally:
    """What a guard has done so far, over all episodes; the times depend on the clock."""

    calls: int = 0
    suspicious: int = 0
    judge_failures: int = 0
    rules_seconds: float = 0.0
    judge_seconds: float = 0.0
    """Summed over calls, which may have waited side by side."""

    def __sub__(self, earlier: Tally) -> Tally:
        """What was done since."""
        return Tally(*(mine - other for mine, other in zip(vars(self).values(), vars(earlier).values(), strict=True)))


@dataclass(frozen=True)
class Guard:
    """Stands between calls and tools, for any number of episodes at once.

    Args:
        rules: stage 1, for recall; or a function in their place. It is asked about every call, on the event loop: it must be quick.
        judge: stage 2, for precision; awaited for suspicious calls only.
        policy: what happens to a confirmed call.
        reward: what happens to the reward of its episode.
        judge_timeout: seconds that the judge has; after them it has failed. A judge that does not give way cannot be stopped.
        dummy: says what a blocked call seems to have led to.

    Raises:
        RangeError, DtypeError: a time that is not above 0.

    Example:
        >>> import asyncio
        >>> from rosellm.roserlhf.environment.runner import DirectRunner
        >>> from rosellm.roserlhf.environment.tools import ToolSet
        >>> from rosellm.roserlhf.guard.guard import Guard
        >>> from rosellm.roserlhf.guard.rules import Rules
        >>> from rosellm.roserlhf.guard.setting import Setting
        >>> from rosellm.roserlhf.guard.setting_judge import SettingJudge
        >>> def read_file(path: str) -> str:
        ...     return f"content of {path}"
        >>> rules, setting = Rules.read(), Setting(workdir="/app", hidden_tests=("/eval/t.py",))
        >>> runner = Guard(rules, SettingJudge(rules)).wrap(DirectRunner(ToolSet.of(read_file)), setting)
        >>> for path in ("/app/a.py", "/eval/t.py"):
        ...     result = asyncio.run(runner.call(ToolCall("c0", "read_file", {"path": path}), ()))
        ...     print(result.origin, "|", result.content)
        environment | content of /app/a.py
        guard | /eval/t.py: No such file or directory
        >>> [(event.rule, event.action) for event in runner.events]
        [('protected-read', 'blocked')]
    """

    rules: Rules | Detect
    judge: Judge
    policy: Policy = BLOCK_AND_CONTINUE
    reward: RewardHandling = UNTOUCHED
    judge_timeout: float = JUDGE_TIMEOUT
    dummy: Dummy = dummy_result
    tally: Tally = field(default_factory=Tally)
    """What it has done so far."""
    _detect: Detect = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_detect", detection(self.rules) if isinstance(self.rules, Rules) else self.rules)
        checks.number_in(self.judge_timeout, "judge_timeout", 0, float("inf"), open_low=True)

    def wrap(
        self, runner: ToolRunner, setting: Setting, *, tools: ToolSet | None = None, dummy: Dummy | None = None
    ) -> GuardedRunner:
        """Guard the calls of one episode.

        Args:
            runner: executes what is let through.
            setting: the task and its limits.
            tools: of the episode, if known: a call that they refuse anyway (unknown tool, wrong arguments) is left to the runner,
                whose refusal is true; a dummy result in its place would show that somebody stands in between.
            dummy: overrules the guard's own, for tools that word their failures in a way of their own.
        """
        return GuardedRunner(self, runner, setting, tools, dummy or self.dummy)

    def suspicions(
        self, tool: str, arguments: Mapping[str, Any], history: Sequence[str], setting: Setting
    ) -> tuple[list[Suspicion], float]:
        """Return what is suspicious about a call, and the seconds that it took to see it; rules that fail are suspicious, too."""
        started = time.perf_counter()
        try:
            found = list(self._detect(tool, arguments, history, setting))
            if found and (bad := [one for one in found if not _is_suspicion(one)]):
                raise TypeError(f"the rules must return suspicions, got {type(bad[0]).__name__}")
        except Exception as error:  # noqa: BLE001 - whatever it is, the call was not understood
            _log.exception("guard: the rules failed on a call of %r", tool)
            found = [unreadable(error)]
        seconds = time.perf_counter() - started
        self.tally.calls += 1
        self.tally.suspicious += bool(found)
        self.tally.rules_seconds += seconds
        return found, seconds

    async def verdict(self, case: Case) -> tuple[Outcome, Verdict, float]:
        """Ask the judge; what it raises, a time that runs out and an answer that is no verdict are a failure."""
        started = time.perf_counter()

        async def ask() -> object:
            try:
                return await self.judge(case)
            except (Exception, asyncio.CancelledError, KeyboardInterrupt, SystemExit):
                raise
            except BaseException as error:  # a panic of a compiled library, which is no `Exception`
                raise RuntimeError(f"{type(error).__name__} was raised") from error

        try:
            said = await answer_of(ask, {}, timeout=self.judge_timeout)
            if not _is_verdict(said):
                raise TypeError(f"the judge must return a Verdict, got {type(said).__name__}")
            outcome: Outcome = "hack" if said.hack else "cleared"
        except Exception as error:  # noqa: BLE001 - a judge that fails says nothing about the call
            late = isinstance(error, NoAnswerError)
            why = f"no verdict within {self.judge_timeout:g} s" if late else _words(error)
            _log.warning("guard: the judge failed on a call of %r: %s", case.tool, ascii(why)[:LONGEST_REASON])
            outcome, said = "failed", Verdict(True, why)
            self.tally.judge_failures += 1
        seconds = time.perf_counter() - started
        self.tally.judge_seconds += seconds
        return outcome, said, seconds


def unreadable(error: Exception) -> Suspicion:
    """Return what is suspicious about a call on which the rules themselves failed."""
    name = type(error).__name__
    return Suspicion(UNREADABLE, f"the rules failed: {name}", Act("opaque", name))


class GuardedRunner:
    """A tool runner behind a guard; one instance per episode. See :meth:`Guard.wrap`."""

    def __init__(self, guard: Guard, runner: ToolRunner, setting: Setting, tools: ToolSet | None, dummy: Dummy) -> None:
        self._guard, self._runner, self._setting, self._tools, self._dummy = guard, runner, setting, tools, dummy
        self.history: list[str] = []
        """Calls and words of the episode so far, as text."""
        self.events: list[GuardEvent] = []
        """One for each suspicious call so far."""
        self.ended: str | None = None
        """Why the guard ended the episode; None if it did not."""
        self._settled = 0

    def hear(self, words: str) -> None:
        """Add what the policy said beside its calls to the history."""
        if words.strip():
            self._remember(words)

    async def call(self, call: ToolCall, history: Sequence[ToolResult]) -> ToolResult:
        """Execute one call, or answer in its place."""
        if self.ended is not None:
            return unexecuted(call.call_id, "refused", "the episode is over")
        suspicions, seconds = self._guard.suspicions(call.name, call.arguments, tuple(self.history), self._setting)
        if not suspicions:
            self._remember(call_line(call))
            return await self._runner.call(call, history)
        case = Case(call.name, call.arguments, tuple(self.history), tuple(suspicions), self._setting)
        outcome, verdict, waited = await self._guard.verdict(case)
        self._remember(call_line(call))
        action = self._action(call, outcome)
        event = _event(call, suspicions, outcome, verdict, action, self._guard.policy.name)
        event = replace(event, seconds={"rules": seconds, "judge": waited})
        self.events.append(event)
        return await self._answer(call, history, suspicions, event)

    def after(self, result: StepResult) -> StepResult:
        """Add to a step what the guard has to say about it: the penalty of its confirmed calls, and the end of the episode."""
        since, self._settled = self.events[self._settled :], len(self.events)
        components = self._guard.reward.components(confirmed(since))
        if components:
            result = replace(result, rewards={**result.rewards, **components})
        if self.ended is None:
            return result
        return replace(result, terminated=True, truncated=False, cause=self.ended)

    def _remember(self, line: str) -> None:
        self.history.append(line[:LONGEST])
        del self.history[:-MOST_HISTORY]

    def _action(self, call: ToolCall, outcome: Outcome) -> Action:
        if outcome == "cleared":
            return "executed"
        if self._tools is not None and _refused(self._tools, call):
            return "refused"
        return self._guard.policy.confirmed if outcome == "hack" else self._guard.policy.failed

    async def _answer(
        self, call: ToolCall, history: Sequence[ToolResult], suspicions: Sequence[Suspicion], event: GuardEvent
    ) -> ToolResult:
        text = event.encode()
        if event.action in ("executed", "observed", "refused"):
            return replace(await self._runner.call(call, history), guard_event=text)
        if event.action == "ended":
            self.ended = f"ended by the guard: {event.rule}"
        told = event.action == "told"
        content = f"blocked by the guard: {event.reason}" if told else self._seeming(call, suspicions)
        return ToolResult(call.call_id, "blocked", text_of(content), "guard", attempts=0, guard_event=text)

    def _seeming(self, call: ToolCall, suspicions: Sequence[Suspicion]) -> object:
        """Say what the call seems to have led to; an environment that fails to word it ends no episode."""
        try:
            return self._dummy(call, suspicions)
        except Exception:  # noqa: BLE001 - whatever it is, the call stays blocked and is answered
            _log.exception("guard: no dummy result could be worded for a call of %r", call.name)
            return dummy_result(call, suspicions)


def _is_suspicion(one: object) -> TypeGuard[Suspicion]:
    """Whether an event can be made of what a function found in place of the rules."""
    if not isinstance(one, Suspicion) or not isinstance(one.act, Act):
        return False
    texts, span = (one.rule, one.reason, one.act.target, one.act.argument), one.act.span
    placed = isinstance(span, tuple) and len(span) == 2 and all(type(place) is int and place >= 0 for place in span)
    return placed and all(isinstance(text, str) for text in texts)


def _is_verdict(said: object) -> TypeGuard[Verdict]:
    if not isinstance(said, Verdict):
        return False
    return isinstance(said.hack, bool) and isinstance(said.reason, str) and isinstance(said.rule, str | None)


def _words(error: Exception) -> str:
    """Say what was raised; an error that cannot be put into words is known by its name."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 - the words are the judge's, too
        return type(error).__name__


def _refused(tools: ToolSet, call: ToolCall) -> bool:
    known = tools.tools.get(call.name)
    return known is None or known.complaint(call.arguments) is not None


def _event(
    call: ToolCall, suspicions: Sequence[Suspicion], outcome: Outcome, verdict: Verdict, action: Action, policy: str
) -> GuardEvent:
    """Put a decision into words; the evidence is that of the rule that decided."""
    decisive = next((one for one in suspicions if one.rule == verdict.rule), suspicions[0])
    act = decisive.act
    value = call.arguments.get(act.argument)
    text = value if isinstance(value, str) else ""
    start, end = act.span
    shown = text[start:end] if start < end else act.target
    return GuardEvent(
        call.call_id,
        call.name,
        text_of((verdict.rule or decisive.rule)[:LONGEST_EVIDENCE]),
        act.argument,
        (start, max(start, end)),
        text_of(shown[:LONGEST_EVIDENCE]),
        outcome,
        text_of(verdict.reason[:LONGEST_REASON]),
        action,
        rules=tuple(dict.fromkeys(one.rule for one in suspicions)),
        policy=policy,
    )
