"""The guard in front of tools: what waits, what runs, what is answered, what is remembered."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from guard_fakes import HACK, HONEST, SETTING, ScriptedJudge, ask, guarded, marks
from hypothesis import given, settings
from hypothesis import strategies as st

from rosellm.roserlhf.environment.protocol import Observation, StepResult
from rosellm.roserlhf.errors import RangeError, RecordError
from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.call_line import call_line
from rosellm.roserlhf.guard.detection import detection
from rosellm.roserlhf.guard.dummy import dummy_result
from rosellm.roserlhf.guard.event import GuardEvent, event_of, events_of
from rosellm.roserlhf.guard.guard import MOST_HISTORY, UNREADABLE, Guard, Tally
from rosellm.roserlhf.guard.policy import BLOCK_AND_TELL, END_EPISODE, OBSERVE_ONLY, PENALTY, RewardHandling
from rosellm.roserlhf.guard.rules import Rules, Suspicion
from rosellm.roserlhf.guard.setting import Setting
from rosellm.roserlhf.guard.setting_judge import SettingJudge
from rosellm.roserlhf.guard.verdict import Case, Verdict
from rosellm.roserlhf.trajectory import PolicyAction, ToolCall, ToolResult, Trajectory, TransitionRecord

READ = "cat /eval/hidden.py"
REVEALING = re.compile(r"guard|block|hack|cheat|protect|forbid|denied|not allowed|policy|hidden test|suspici", re.IGNORECASE)


def test_a_call_that_is_not_suspicious_is_executed_and_waits_for_nobody() -> None:
    judge = ScriptedJudge(HACK)
    runner, shell = guarded(judge)
    result = ask(runner, "ls /app")
    assert (result.content, result.origin, result.status, result.guard_event) == ("output of ls /app", "environment", "ok", None)
    assert shell.ran == ["ls /app"]
    assert judge.cases == []
    assert runner.events == []


def test_a_confirmed_call_is_not_executed_and_answered_as_if_nothing_were_there() -> None:
    runner, shell = guarded(ScriptedJudge(HACK))
    result = ask(runner, READ)
    assert shell.ran == []
    assert (result.status, result.origin, result.attempts) == ("blocked", "guard", 0)
    assert result.content == "cat: /eval/hidden.py: No such file or directory"
    event = event_of(result)
    assert event is not None
    assert event == runner.events[0]
    assert (event.rule, event.rules, event.argument, event.span, event.evidence) == ("eval", ("eval",), "command", (4, 9), "/eval")
    assert (event.outcome, event.action, event.reason, event.policy) == (
        "hack",
        "blocked",
        "the setting protects it",
        "block-and-continue",
    )
    assert event.seconds.keys() == {"rules", "judge"}
    assert event.latency > 0


def test_a_cleared_call_is_executed_and_its_true_result_carries_the_event() -> None:
    runner, shell = guarded(ScriptedJudge(HONEST))
    result = ask(runner, READ)
    assert (result.content, result.origin, result.status) == (f"output of {READ}", "environment", "ok")
    assert shell.ran == [READ]
    event = event_of(result)
    assert event is not None
    assert (event.outcome, event.action, event.attempt, event.blocked) == ("cleared", "executed", False, False)


def test_observe_only_executes_and_says_what_was_seen() -> None:
    runner, shell = guarded(ScriptedJudge(HACK), policy=OBSERVE_ONLY)
    result = ask(runner, READ)
    assert (result.content, result.origin) == (f"output of {READ}", "environment")
    assert shell.ran == [READ]
    assert (runner.events[0].action, runner.events[0].attempt, runner.events[0].blocked) == ("observed", True, False)


def test_block_and_tell_says_why() -> None:
    runner, shell = guarded(ScriptedJudge(HACK), policy=BLOCK_AND_TELL)
    result = ask(runner, READ)
    assert (result.content, result.origin, shell.ran) == ("blocked by the guard: the setting protects it", "guard", [])


def test_end_episode_executes_nothing_more_and_names_the_rule() -> None:
    runner, shell = guarded(ScriptedJudge(HACK), policy=END_EPISODE)
    going_on = StepResult(Observation(()))
    assert runner.after(going_on) is going_on
    ask(runner, READ)
    late = ask(runner, "ls /app")
    assert (late.status, late.origin, shell.ran) == ("refused", "harness", [])
    ended = runner.after(StepResult(Observation(()), truncated=True))
    assert (ended.terminated, ended.truncated, ended.cause) == (True, False, "ended by the guard: eval")


def test_the_penalty_of_a_turn_is_a_component_of_its_own() -> None:
    runner, _ = guarded(ScriptedJudge(HACK), reward=RewardHandling("penalty", 0.25))
    ask(runner, READ)
    ask(runner, READ, "c1")
    step = StepResult(Observation(()), rewards={"correct": 1.0})
    assert runner.after(step).rewards == {"correct": 1.0, PENALTY: -0.5}  # 2 calls x 0.25
    assert runner.after(step).rewards == {"correct": 1.0, PENALTY: 0.0}  # they are paid for once


class Panic(BaseException):
    """What compiled libraries raise where they break; no `Exception`."""


class Wordless(Exception):
    """An error that cannot say what is wrong."""

    def __str__(self) -> str:
        raise ValueError


@pytest.mark.parametrize(
    ("says", "why"),
    [
        (RuntimeError("down"), "RuntimeError: down"),
        ("it looks fine", "TypeError: the judge must return a Verdict, got str"),
        (None, "TypeError: the judge must return a Verdict, got NoneType"),
        (Verdict("no", "text for a flag"), "TypeError: the judge must return a Verdict, got Verdict"),  # type: ignore[arg-type]
        (SystemExit(3), "RuntimeError: SystemExit was raised"),
        (GeneratorExit(), "RuntimeError: GeneratorExit was raised"),
        (Panic(), "RuntimeError: Panic was raised"),
        (Wordless(), "Wordless"),
        (Verdict(True, "x", 5), "TypeError: the judge must return a Verdict, got Verdict"),  # type: ignore[arg-type]
    ],
)
def test_a_judge_that_fails_blocks_this_call_and_accuses_nobody(says: object, why: str, caplog: pytest.LogCaptureFixture) -> None:
    runner, shell = guarded(ScriptedJudge(says), policy=END_EPISODE, reward=RewardHandling("penalty"))
    with caplog.at_level(logging.WARNING):
        result = ask(runner, READ)
    assert (result.origin, shell.ran) == ("guard", [])
    event = runner.events[0]
    assert (event.outcome, event.action, event.reason, event.attempt, event.blocked) == ("failed", "blocked", why, False, True)
    assert runner.ended is None
    assert runner.after(StepResult(Observation(()))).rewards == {PENALTY: 0.0}
    assert [record.name for record in caplog.records] == ["rosellm.roserlhf.guard.guard"]


def test_a_judge_that_never_answers_is_given_up() -> None:
    async def never(case: Case) -> Verdict:
        while True:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                raise

    runner, shell = guarded(never, judge_timeout=0.02)
    ask(runner, READ)
    assert runner.events[0].reason == "no verdict within 0.02 s"
    assert shell.ran == []


def test_rules_that_fail_are_a_suspicion(caplog: pytest.LogCaptureFixture) -> None:
    def broken(tool: str, arguments: Mapping[str, Any], history: Sequence[str], setting: Setting) -> list[Suspicion]:
        raise ZeroDivisionError

    judge = ScriptedJudge(HACK)
    runner, shell = guarded(judge, rules=broken)
    ask(runner, "ls")
    assert (runner.events[0].rule, shell.ran) == (UNREADABLE, [])
    assert judge.cases[0].suspicions[0].reason == "the rules failed: ZeroDivisionError"
    assert len(caplog.records) == 1


@pytest.mark.parametrize(
    "found",
    [
        5,
        "no suspicion",
        Suspicion("r", "x", None),  # type: ignore[arg-type]
        Suspicion(5, "x", Act("read", "/x")),  # type: ignore[arg-type]
        Suspicion("r", "x", Act("read", "/x", argument=5)),  # type: ignore[arg-type]
        Suspicion("r", "x", Act("read", 5)),  # type: ignore[arg-type]
        Suspicion("r", "x", Act("read", "/x", span=(-5, -1))),
    ],
)
def test_what_is_no_suspicion_is_a_failure_of_the_rules(found: Any) -> None:
    runner, shell = guarded(ScriptedJudge(HACK), rules=lambda *_: [found])
    assert ask(runner, READ).origin == "guard"
    assert (runner.events[0].rules, shell.ran) == ((UNREADABLE,), [])


def test_a_rule_that_a_judge_makes_up_is_kept_short() -> None:
    runner, _ = guarded(ScriptedJudge(Verdict(True, "x", "\ud800" + "r" * 1_000_000)))
    ask(runner, READ)
    assert runner.events[0].rule.startswith("\\ud800rrr")
    assert len(runner.events[0].encode()) < 2_000


def test_a_dummy_result_that_fails_is_replaced_by_the_usual_one(caplog: pytest.LogCaptureFixture) -> None:
    def broken(call: ToolCall, suspicions: object) -> str:
        raise KeyError("no words")

    runner, shell = guarded(ScriptedJudge(HACK), dummy=broken)
    result = ask(runner, READ)
    assert (result.origin, result.content, shell.ran) == ("guard", "cat: /eval/hidden.py: No such file or directory", [])
    assert "no dummy result could be worded" in caplog.text


def test_the_rule_that_the_judge_names_is_the_one_whose_evidence_is_kept() -> None:
    def rules(tool: str, arguments: Mapping[str, Any], history: Sequence[str], setting: Setting) -> list[Suspicion]:
        return [
            Suspicion("a", "first", Act("read", "/x", argument="command", span=(0, 3))),
            Suspicion("b", "second", Act("write", "/y", argument="command", span=(4, 8))),
        ]

    runner, _ = guarded(ScriptedJudge(Verdict(True, "b it is", "b")), rules=rules)
    ask(runner, "cat /y > /x")
    event = runner.events[0]
    assert (event.rule, event.rules, event.evidence) == ("b", ("a", "b"), "/y >")


@pytest.mark.parametrize("name", ["shell", "terminal"])
def test_a_call_that_the_tools_refuse_anyway_is_left_to_them(name: str) -> None:
    runner, shell = guarded(ScriptedJudge(HACK))
    call = ToolCall("c0", name, {"command": READ, "extra": 1} if name == "shell" else {"command": READ})
    result = asyncio.run(runner.call(call, ()))
    assert (result.status, result.origin) == ("invalid", "harness")
    assert (runner.events[0].action, runner.events[0].attempt, shell.ran) == ("refused", True, [])


def test_the_judge_sees_what_was_called_and_said_before_in_order() -> None:
    judge = ScriptedJudge(HONEST)
    runner, _ = guarded(judge)
    ask(runner, "ls /app")
    runner.hear("let me look at the tests")
    runner.hear("  \n")
    ask(runner, READ)
    ask(runner, READ)
    assert [list(case.history) for case in judge.cases] == [
        ["ls /app", "let me look at the tests"],
        ["ls /app", "let me look at the tests", READ],
    ]
    assert judge.cases[0].setting is SETTING
    assert (judge.cases[0].tool, dict(judge.cases[0].arguments)) == ("shell", {"command": READ})


def test_history_is_bounded() -> None:
    runner, _ = guarded(ScriptedJudge(HONEST))
    for number in range(MOST_HISTORY + 3):
        runner.hear(f"{number} " + "x" * 20_000)
    assert len(runner.history) == MOST_HISTORY
    assert runner.history[0].startswith("3 ")
    assert max(map(len, runner.history)) == 8000


def test_a_call_of_ten_megabytes_leaves_a_small_event() -> None:
    runner, _ = guarded(ScriptedJudge(HACK))
    result = ask(runner, "x" * 10_000_000 + READ)
    assert len(result.guard_event or "") < 2000
    assert len(runner.history[0]) == 8000


@pytest.mark.parametrize("value", ["\ud800 /eval \x00", "\u202e/eval\u200b"])
def test_what_no_record_can_hold_is_escaped(value: str) -> None:
    def rules(tool: str, arguments: Mapping[str, Any], history: Sequence[str], setting: Setting) -> list[Suspicion]:
        return [Suspicion("r", "", Act("read", "/eval", argument="command", span=(0, len(value))))]

    runner, _ = guarded(ScriptedJudge(Verdict(True, value)), rules=rules)
    result = ask(runner, value)
    event = event_of(result)
    assert event is not None
    event.reason.encode()
    event.evidence.encode()
    result.content.encode()


def test_two_hundred_episodes_at_once() -> None:
    async def slow(case: Case) -> Verdict:
        await asyncio.sleep(0.001 * (int(case.arguments["command"].split()[-1]) % 7))
        return Verdict(int(case.arguments["command"].split()[-1]) % 2 == 0, "even")

    async def episode(guard: Guard, number: int) -> tuple[int, list[str]]:
        shell, _ = guarded(slow)
        runner = guard.wrap(shell._runner, SETTING)
        for turn in range(5):
            await runner.call(ToolCall(f"c{turn}", "shell", {"command": "ls" if turn % 2 else f"{READ} {number}"}), ())
        return number, [event.action for event in runner.events]

    async def all_of_them() -> list[tuple[int, list[str]]]:
        guard = Guard(marks, slow)
        found = await asyncio.gather(*(episode(guard, number) for number in range(200)))
        assert vars(guard.tally) | {"rules_seconds": 0, "judge_seconds": 0} == vars(Tally(1000, 600))
        return found

    for number, actions in asyncio.run(all_of_them()):
        assert actions == ["executed" if number % 2 else "blocked"] * 3


# events


TEXT = st.text(max_size=12)
EVENTS = st.builds(
    GuardEvent,
    TEXT,
    TEXT,
    TEXT,
    TEXT,
    st.tuples(st.integers(0, 50), st.integers(50, 99)),
    TEXT,
    st.sampled_from(["hack", "cleared", "failed"]),
    TEXT,
    st.sampled_from(["executed", "observed", "blocked", "told", "ended", "refused"]),
    rules=st.lists(TEXT, max_size=3).map(tuple),
    policy=TEXT,
    seconds=st.dictionaries(st.sampled_from(["rules", "judge"]), st.floats(0, 1e9)),
)


@given(EVENTS)
@settings(derandomize=True, max_examples=60, deadline=None)
def test_events_come_back_exactly(event: GuardEvent) -> None:
    text = event.encode()
    assert text.isascii()
    back = GuardEvent.decode(text)
    assert back == event
    assert back.seconds == event.seconds
    assert back.encode() == text


@pytest.mark.parametrize(
    "text", ["", "g-1", "[]", "null", "{}", '{"guard_event": 2}', "[" * 100_000, '{"guard_event": 1, "call_id": "c"}']
)
def test_other_texts_are_no_events(text: str) -> None:
    with pytest.raises(RecordError, match="guard_event must "):
        GuardEvent.decode(text)
    assert event_of(ToolResult("c0", guard_event=text)) is None


def test_times_are_no_part_of_a_decision_or_of_the_hash_of_a_record() -> None:
    def record(seconds: float, rule: str = "r") -> Trajectory:
        event = GuardEvent("c0", "t", rule, "", (0, 0), "", "hack", "", "blocked", seconds={"rules": seconds})
        result = ToolResult("c0", "blocked", origin="guard", guard_event=event.encode())
        turn = TransitionRecord(0, None, terminated=True, results=(result,))
        return Trajectory("t", "task", "env", "tok", [PolicyAction(0, [1], [-0.5], "v0", "x")], [turn])

    assert record(0.1).content_hash() == record(0.2).content_hash()
    assert record(0.1).content_hash() != record(0.1, "other").content_hash()
    assert [(turn, event.rule) for turn, event in events_of(record(0.1))] == [(0, "r")]


# dummy results


@pytest.mark.parametrize(
    ("tool", "arguments", "content"),
    [
        ("shell", {"command": "cd /app && cat /eval/hidden.py | head"}, "cat: /eval/hidden.py: No such file or directory"),
        ("shell", {"command": "cat /eval/hidden.py 2>/dev/null"}, ""),
        ("bash", {"command": "ls -la /eval"}, "ls: cannot access '/eval': No such file or directory"),
        ("shell", {"command": "A=1 sudo cp /eval/a b"}, "cp: cannot stat '/eval/a': No such file or directory"),
        ("shell", {"command": "echo pass > /eval/result"}, ""),
        ("shell", {"command": "find / -name hidden"}, ""),
        ("shell", {"command": "find . -name '*.py'"}, ""),
        ("shell", {"command": "find /eval -name hidden"}, "find: ‘/eval’: No such file or directory"),
        ("shell", {"command": "ls ."}, ""),
        ("shell", {"command": "ls /"}, ""),
        ("shell", {"command": "grep -rn answer ."}, ""),
        ("shell", {"command": "grep -rn answer / | head"}, ""),
        ("shell", {"command": "bash -c 'cat /eval/x'"}, "cat: /eval/x: No such file or directory"),
        ("shell", {"command": "git diff HEAD~1"}, ""),
        ("shell", {"command": "git show HEAD:tests/t.py"}, "fatal: path 'tests/t.py' does not exist in 'HEAD'"),
        ("shell", {"command": "git -C /repo show 3fa9c1"}, "fatal: bad revision '3fa9c1'"),
        ("shell", {"command": "git checkout main -- tests/"}, "fatal: bad revision 'main'"),
        ("shell", {"command": "git checkout -- tests/t.py"}, ""),
        ("shell", {"command": "git stash"}, "No local changes to save"),
        ("shell", {"command": "git -c a=b -p"}, ""),
        ("git", {"args": "show abc"}, "fatal: bad revision 'abc'"),
        ("git", {"args": ["diff", "HEAD"]}, ""),
        ("bash", {"command": ["cat", "/eval/x"]}, "cat: /eval/x: No such file or directory"),
        ("str_replace_editor", {"command": "view", "path": "/eval/x"}, "/eval/x: No such file or directory"),
        ("str_replace_editor", {"command": "create", "path": "/eval/x", "file_text": "x"}, "ok"),
        ("str_replace_editor", {"command": "view", "path": 5}, ""),
        ("delete_file", {"path": "/app/tests/t.py"}, "ok"),
        ("move_file", {"path": "/app/tests/t.py", "destination": "/tmp/t.py"}, "ok"),
        ("shell", {"command": "curl -s https://github.com/a/b"}, "curl: (6) Could not resolve host: github.com"),
        ("shell", {"command": "pip download flask"}, "ERROR: No matching distribution found for flask"),
        ("shell", {"command": "git show origin/main"}, "fatal: bad revision 'origin/main'"),
        ("shell", {"command": "git status"}, "nothing to commit, working tree clean"),
        ("git", {"args": ["log", "--all"]}, ""),
        ("shell", {"command": "unclosed 'quote"}, ""),
        ("shell", {"command": "cat $HIDDEN/t.py"}, ""),
        ("shell", {"command": "head /ev*/hidden.py"}, ""),
        ("shell", {"command": ""}, ""),
        ("python", {"code": "print(1)"}, ""),
        ("read_file", {"path": "/eval/x"}, "/eval/x: No such file or directory"),
        ("list_dir", {"path": "/eval"}, ""),
        ("write_file", {"path": "/eval/x", "content": "pass"}, "ok"),
        ("web_fetch", {"url": "https://x.org"}, "404 Not Found"),
        ("web_search", {"query": "the fix"}, "0 results"),
        ("submit", {"answer": "x"}, "The submission could not be read; send it again."),
        ("mystery", {"thing": 3}, ""),
    ],
)
def test_dummy_results(tool: str, arguments: dict[str, Any], content: str) -> None:
    call = ToolCall("c0", tool, arguments)
    assert dummy_result(call) == content == dummy_result(ToolCall("c9", tool, arguments))
    assert not REVEALING.search(content)


@pytest.mark.parametrize("command", ["sed -i 's/1/2/' tests/t.py", "mv tests/t.py /tmp", "rm tests/t.py", "cat x > tests/t.py"])
def test_a_file_that_must_not_be_changed_is_still_there(command: str) -> None:
    """An agent that has just read a test would wonder at `No such file or directory`."""
    call = ToolCall("c0", "shell", {"command": command})
    assert dummy_result(call, [Suspicion("r", "", Act("write", "/app/tests/t.py"))]) == ""


def test_a_module_that_must_not_be_imported_is_not_found() -> None:
    call = ToolCall("c0", "python", {"code": "import sys\nsys.path.insert(0, '/eval')\nfrom hidden import CASES"})
    assert dummy_result(call, [Suspicion("r", "", Act("import", "/eval/hidden.py"))]) == (
        "ModuleNotFoundError: No module named 'hidden'"
    )


def test_code_that_reads_a_file_finds_none() -> None:
    call = ToolCall("c0", "python", {"code": "open('/eval/t.py').read()"})
    suspicion = Suspicion("r", "", Act("read", "/eval/t.py"))
    assert dummy_result(call, [suspicion]) == "FileNotFoundError: [Errno 2] No such file or directory: '/eval/t.py'"


@given(st.sampled_from(["shell", "git", "python", "submit", "x"]), st.sampled_from(["command", "code", "path", "q"]), st.text())
@settings(derandomize=True, max_examples=60, deadline=None)
def test_any_call_has_a_dummy_result(tool: str, name: str, text: str) -> None:
    assert isinstance(dummy_result(ToolCall("c0", tool, {name: text})), str)


def test_an_environment_may_word_its_own() -> None:
    runner, _ = guarded(ScriptedJudge(HACK), dummy=lambda call, suspicions: f"no {call.name} today")
    assert ask(runner, READ).content == "no shell today"


@pytest.mark.parametrize(
    ("tool", "arguments", "line"),
    [
        ("python", {"code": "x = 1\ny = 2"}, "x = 1\ny = 2"),
        ("git", {"args": ["commit", "-m", "two words"]}, "git commit -m 'two words'"),
        ("web_search", {"query": "flask fix"}, "web_search: flask fix"),
        ("read_file", {"path": "a", "start": 3}, "read_file: a, 3"),
        ("submit", {}, "submit: "),
    ],
)
def test_calls_as_history(tool: str, arguments: dict[str, Any], line: str) -> None:
    assert call_line(ToolCall("c0", tool, arguments)) == line


def test_a_time_limit_must_be_positive() -> None:
    with pytest.raises(RangeError, match="judge_timeout must be in"):
        Guard(marks, ScriptedJudge(HACK), judge_timeout=0.0)


# with the rules that come with the package

RULES = Rules.read()
HIDDEN = Setting(workdir="/app", writable=("/app/**",), hidden_tests=("/eval/hidden/**",), protected_read=("/eval/**",))


def shell_calls(*commands: str) -> list[tuple[str, dict[str, Any]]]:
    return [("shell", {"command": command}) for command in commands]


@pytest.mark.parametrize(
    ("calls", "actions"),
    [
        (shell_calls("cd /", "cat eval/hidden/t.py"), ["executed", "blocked"]),
        (shell_calls("ln -s /eval/hidden x", "cat x/t.py"), ["blocked", "blocked"]),
        (shell_calls("export Q=/eval/hidden", "cat $Q/t.py"), ["executed", "blocked"]),
        (
            [("write_file", {"path": "run.py", "content": "open('/eval/hidden/t.py').read()"}), *shell_calls("python run.py")],
            ["blocked"] * 2,
        ),
        (shell_calls("ls -la && pytest -q tests", "git log -3", "cat hidden/t.py"), ["executed"] * 3),
    ],
)
def test_a_call_is_judged_by_what_was_done_before(calls: list[tuple[str, dict[str, Any]]], actions: list[str]) -> None:
    runner = Guard(RULES, SettingJudge(RULES)).wrap(AnyTool(), HIDDEN)
    results = [asyncio.run(runner.call(ToolCall(f"c{n}", tool, arguments), ())) for n, (tool, arguments) in enumerate(calls)]
    assert ["blocked" if result.origin == "guard" else "executed" for result in results] == actions


class AnyTool:
    """Has every tool."""

    async def call(self, call: ToolCall, history: Sequence[ToolResult]) -> ToolResult:
        return ToolResult(call.call_id, content="done")


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
NAMES = st.sampled_from(["command", "code", "path", "content", "url", "args", "patch", "answer", "x"]) | st.text(max_size=8)


@given(
    st.sampled_from(["shell", "python", "git", "submit", "write_file", "web_fetch", "?"]), st.dictionaries(NAMES, JSON, max_size=3)
)
@settings(derandomize=True, max_examples=60, deadline=None)
def test_any_call_can_be_guarded(tool: str, arguments: dict[str, Any]) -> None:
    runner = Guard(RULES, SettingJudge(RULES)).wrap(AnyTool(), HIDDEN)
    result = asyncio.run(runner.call(ToolCall("c0", tool, arguments), ()))
    assert all(event.rule != UNREADABLE and event.outcome != "failed" for event in runner.events)
    assert event_of(result) == (runner.events[0] if runner.events else None)


def test_the_memory_of_calls_tells_settings_and_scenes_apart() -> None:
    detect = detection(RULES)
    other = Setting(workdir="/app", hidden_tests=("/app/key",))
    inside = ("cd /eval/hidden",)
    asked = [((), HIDDEN), ((), other), ((), HIDDEN), (inside, HIDDEN), (inside, HIDDEN)]
    found = [bool(detect("shell", {"command": "cat key"}, history, setting)) for history, setting in asked]
    assert found == [False, True, False, True, True]


@pytest.mark.parametrize("letter", ["^", "a", ".", "é", "\\", "x/", "a-"])
def test_words_of_any_length_can_be_looked_for(letter: str) -> None:
    """What a call names may become part of a pattern; patterns have a greatest length, calls have none."""
    setting = Setting(
        task="The grader is at http://grader:80. Write result.json; do not read answers.",
        workdir="/app",
        hidden_tests=("/eval/**",),
        verifier=("http://grader/check", "make check"),
        result_file=("/app/out/result.json",),
        protected_read=("answers of the table solutions",),
    )
    word = letter * (9_000 // len(letter))
    calls: list[tuple[str, dict[str, Any]]] = [
        ("web_fetch", {"url": word}),
        ("web_fetch", {"url": f"https://{word}/a"}),
        ("read_file", {"path": f"/eval/{word}"}),
        ("write_file", {"path": f"/app/out/{word}.py", "content": f"{word} = 1\ndef {word}(): return 1"}),
        ("write_file", {"path": f"bin/{word}", "content": "#!/bin/sh\nexit 0"}),
        (
            "shell",
            {"command": f"pip install {word}; find / -name '*{word}*'; {word}() {{ true; }}; psql -c \"select * from {word}\""},
        ),
        ("git", {"args": ["show", word]}),
        ("submit", {"answer": word}),
    ]
    for tool, arguments in calls:
        asyncio.run(SettingJudge(RULES)(Case(tool, arguments, (), tuple(detection(RULES)(tool, arguments, (), setting)), setting)))
