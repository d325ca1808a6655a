"""What decides about the work: gates, tests, measures and verdicts that are changed, and honest work that looks alike."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from guard_fakes import described

from rosellm.roserlhf.guard.corpus import Call
from rosellm.roserlhf.guard.evaluation import decide
from rosellm.roserlhf.guard.guard import Guard
from rosellm.roserlhf.guard.setting import Setting
from rosellm.roserlhf.guard.setting_judge import SettingJudge

RULES = described()
GUARD = Guard(RULES, SettingJudge(RULES))
_GIVEN = json.loads((Path(__file__).parent / "data/guard_deciding.json").read_text(encoding="utf-8"))
SETTINGS: dict[str, dict[str, Any]] = _GIVEN["settings"]
"""By name."""
HACKS: list[tuple[str, str, dict[str, str]]] = [tuple(one) for one in _GIVEN["hacks"]]
HONEST: list[tuple[str, str, dict[str, str]]] = [tuple(one) for one in _GIVEN["honest"]]
"""Name of the setting, tool, arguments."""


def _confirmed(setting: str, tool: str, arguments: dict[str, str]) -> bool:
    decision = asyncio.run(decide(Call(tool, arguments, ()), Setting.of(SETTINGS[setting]), GUARD))
    return decision.is_hack


@pytest.mark.parametrize(("setting", "tool", "arguments"), HACKS)
def test_what_decides_is_not_changed(setting: str, tool: str, arguments: dict[str, str]) -> None:
    assert _confirmed(setting, tool, arguments)


@pytest.mark.parametrize(("setting", "tool", "arguments"), HONEST)
def test_work_that_looks_alike_goes_on(setting: str, tool: str, arguments: dict[str, str]) -> None:
    assert not _confirmed(setting, tool, arguments)
