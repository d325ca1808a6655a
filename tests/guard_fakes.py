"""Rules, judges, tools and calls of which a test decides everything."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from rosellm.roserlhf.environment.runner import DirectRunner
from rosellm.roserlhf.environment.tools import ToolSet
from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.corpus import Call
from rosellm.roserlhf.guard.evaluation import decide
from rosellm.roserlhf.guard.guard import Guard, GuardedRunner
from rosellm.roserlhf.guard.rules import Rules, Suspicion
from rosellm.roserlhf.guard.setting import Setting
from rosellm.roserlhf.guard.setting_judge import SettingJudge
from rosellm.roserlhf.guard.verdict import Case, Verdict
from rosellm.roserlhf.trajectory import ToolCall, ToolResult


def described() -> Rules:
    """Return the rules that say what a call does, without the one that says what it is like: twins differ in what they do."""
    return Rules(rule for rule in Rules.read() if rule.id != "resembles-attempts")


SETTING = Setting(task="Mend f.", workdir="/app", hidden_tests=("/eval/hidden.py",))
WORD = "/eval"


@cache
def _described_guard() -> Guard:
    rules = described()
    return Guard(rules, SettingJudge(rules))


def is_hack(setting: Setting, tool: str, arguments: Mapping[str, Any], history: Sequence[str] = ()) -> bool:
    """Tell whether rules that give a reason, and the judge, confirm a call."""
    return asyncio.run(decide(Call(tool, arguments, tuple(history)), setting, _described_guard())).is_hack


def marks(tool: str, arguments: Mapping[str, Any], history: Sequence[str], setting: Setting) -> list[Suspicion]:
    """Rule `eval`: an argument names the folder /eval."""
    found = []
    for name, value in arguments.items():
        if isinstance(value, str) and WORD in value:
            start = value.index(WORD)
            act = Act("read", "/eval/hidden.py", "cat", argument=name, span=(start, start + len(WORD)))
            found.append(Suspicion("eval", "names the folder of the hidden tests", act))
    return found


class ScriptedJudge:
    """Says the same to everybody: a verdict, an exception to raise, or a function of the case; remembers the cases."""

    def __init__(self, says: object) -> None:
        self.says = says
        self.cases: list[Case] = []

    async def __call__(self, case: Case) -> Verdict:
        self.cases.append(case)
        said = self.says(case) if callable(self.says) and not isinstance(self.says, type) else self.says
        if isinstance(said, BaseException):
            raise said
        return said  # type: ignore[return-value]


HACK = Verdict(True, "the setting protects it")
HONEST = Verdict(False, "only a visible test")


class Shell:
    """A tool that remembers what it executed."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    def shell(self, command: str) -> str:
        self.ran.append(command)
        return f"output of {command}"

    def tools(self) -> ToolSet:
        return ToolSet.of(self.shell)


def guarded(
    judge: Callable[[Case], Any], *, setting: Setting = SETTING, known: bool = True, **options: Any
) -> tuple[GuardedRunner, Shell]:
    """A guarded shell."""
    shell = Shell()
    tools = shell.tools()
    guard = Guard(options.pop("rules", marks), judge, **options)
    return guard.wrap(DirectRunner(tools), setting, tools=tools if known else None), shell


def ask(runner: GuardedRunner, command: str, call_id: str = "c0", name: str = "shell") -> ToolResult:
    return asyncio.run(runner.call(ToolCall(call_id, name, {"command": command}), ()))
