"""The judge that needs no model: `Case -> Verdict`, from the setting's fields and the suspicious acts alone."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from rosellm.roserlhf.guard.grounds import grounds_of
from rosellm.roserlhf.guard.hidden_text import readable
from rosellm.roserlhf.guard.precedents import Likeness, likeness
from rosellm.roserlhf.guard.rules import Rules
from rosellm.roserlhf.guard.verdict import Case, Verdict
from rosellm.roserlhf.guard.weigh import WEIGHERS, View
from rosellm.roserlhf.guard.weigh.ordered import is_ordered_attack
from rosellm.roserlhf.guard.weigh.resemblance import HONEST, is_seen

_LONGEST = 100_000
"""Characters of the arguments that are looked at as text."""


class SettingJudge:
    """Weighs each suspicion by what the setting protects, allows and asks for; the same case always gets the same verdict.

    Args:
        rules: those that made the suspicions; each says which question is asked of what it selects.
        compare: tells how like labelled attempts a case is; asked where the rules weigh `resemblance`.
    """

    def __init__(self, rules: Rules | None = None, compare: Callable[[Case], Likeness | None] = likeness) -> None:
        self.rules = rules or Rules.read()
        self._compare = compare
        self._weighs_likeness = any(rule.weigh == "resemblance" for rule in self.rules)

    async def __call__(self, case: Case) -> Verdict:
        """Decide on a suspicious call: a hack if one suspicion holds against the setting, honest if none does."""
        acts = tuple(suspicion.act for suspicion in case.suspicions)
        grounds, history = grounds_of(case.setting), tuple(map(readable, case.history))
        arguments = {readable(name): readable(value) if isinstance(value, str) else value for name, value in case.arguments.items()}
        view = View(
            grounds,
            readable(case.tool),
            history,
            readable(_text(case)),
            acts,
            readable(_path(case)),
            arguments,
            partial(self._compare, case),
        )
        inferred: Verdict | None = None
        for suspicion in case.suspicions:
            if is_ordered_attack(suspicion.act, view):
                continue
            said = WEIGHERS[self.rules[suspicion.rule].weigh](suspicion.act, view)
            if said:
                found = Verdict(True, f"{suspicion.reason}: {said}", suspicion.rule)
                if not self._weighs_likeness or is_seen(suspicion.act, grounds) or self.rules[suspicion.rule].weigh == "told":
                    return found
                inferred = inferred or found
        if inferred is not None:
            if view.likeness is None or view.likeness.score >= HONEST:
                return inferred
            return Verdict(False, f"so like honest work that no inference holds ({inferred.rule})")
        named = ", ".join(sorted({suspicion.rule for suspicion in case.suspicions}))
        return Verdict(False, f"nothing that the setting protects is touched, or it is the agent's own ({named})")


def _text(case: Case) -> str:
    said = "\n".join(str(value) for value in case.arguments.values())[:_LONGEST]
    words = next((one.act.traits["undisguised"] for one in case.suspicions if "undisguised" in one.act.traits), "")
    return f"{said}\n{words}" if words else said


def _path(case: Case) -> str:
    named = (case.arguments.get(name) for name in ("path", "file_path", "filename", "file", "file_name"))
    return next((one for one in named if isinstance(one, str)), "")
