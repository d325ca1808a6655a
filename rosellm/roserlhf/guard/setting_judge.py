"""The judge that needs no model: `Case -> Verdict`, from the setting's fields and the suspicious acts alone."""

from __future__ import annotations

from rosellm.roserlhf.guard.rules import Rules
from rosellm.roserlhf.guard.verdict import Case, Verdict


class SettingJudge:
    """Weighs each suspicion by what the setting protects, allows and asks for."""

    def __init__(self, rules: Rules | None = None) -> None:
        self.rules = rules or Rules.read()

    async def __call__(self, case: Case) -> Verdict:
        """Decide on a suspicious call."""
        first = case.suspicions[0]
        return Verdict(True, first.reason, first.rule)
