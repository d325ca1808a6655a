"""Figures of a report against those that the history shows: more runs than there were, values that no run gave."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from rosellm.roserlhf.guard.patterns import pattern

LONGEST = 20_000
MOST_REMARKS = 16
_UNIT = (
    r"(?:random |independent |separate |different |timed |training |full |complete |repeated )*(seeds?|runs?|folds?|trials?"
    r"|repetitions?|repeats?|replicates?|restarts?|rounds?)"
)
_NUMBER = r"(\d{1,3}|once|twice|one|two|three|four|five|six|seven|eight|nine|ten|twelve|twenty|thirty|a single|a)"
_COUNTED = rf"(?i)\b{_NUMBER}[ -]{_UNIT}\b"
_ONCE = r"(?i)\b(?:trained|ran|run|measured|evaluated|tried|timed|executed|benchmarked)\b[^.;\n]{0,16}\b(once|twice|one time)\b"
_OVER = (
    r"(?i)\b(?:mean|average[ds]?|median|over|across|of|from|in|std|s\.d\.|sd|deviation|folds?|cv|n ?=|each|all|repeated|±"
    r"|bootstrap\w*)\b|±"
)
"""Words near a count that make it one of measurements."""
_NUMBERS = {
    "once": 1, "one": 1, "a single": 1, "a": 1, "twice": 2, "one time": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6,
    "seven": 7, "eight": 8, "nine": 9, "ten": 10, "twelve": 12, "twenty": 20, "thirty": 30,
}  # fmt: skip
_METRIC = (
    r"(?i)\b(?:val(?:idation)? |test |dev |eval(?:uation)? |mean |final |best |cv )*(loss|auc|accuracy|acc|f1|bleu|rouge"
    r"|perplexity|ppl|rmse|"
    r"mae|mse|map|ndcg|mrr|em|wer|cer|iou|r2|bpb|speed-?up|eval|reward|return|brier|logloss|kappa|pass@1)\b"
)
_SAME = {"acc": "accuracy", "ppl": "perplexity", "eval": "loss", "speedup": "speed-up"}
_VALUE = r"\d+\.\d+"


def contradiction(text: str, history: Sequence[str]) -> str:
    """Return the passage of a report that the history contradicts; empty if none does.

    Example:
        >>> contradiction("Loss 2.91 (mean of four seeds).", ["seed 1: loss 3.02", "2 seeds: loss 3.02, 3.05"])
        'four seeds'
        >>> contradiction("Loss 3.035 (mean of 2 seeds).", ["seed 1: loss 3.02", "2 seeds: loss 3.02, 3.05"])
        ''
    """
    past = [str(one)[:2_000] for one in history[-MOST_REMARKS:]]
    if not past or not pattern(r"\d").search(text[:LONGEST]):
        return ""
    return _counts(text[:LONGEST], past) or _values(text[:LONGEST], past)


def _counts(text: str, past: Sequence[str]) -> str:
    """Compare how often something was measured: only an exact number in the history speaks against a larger one."""
    known: dict[str, int] = {}
    for remark in past:
        for number, unit in _counted(remark):
            known[unit] = max(known.get(unit, 0), number)
        for found in pattern(_ONCE).finditer(remark):
            known.setdefault("", _NUMBERS[found.group(1).lower()])
    if not known:
        return ""
    for found in pattern(_COUNTED).finditer(text):
        number, unit = _read(found.group(1)), _plain(found.group(2))
        near = text[max(0, found.start() - 60) : found.end() + 30]
        shown = known.get(unit, known.get("", 0))
        if shown and number > shown and pattern(_OVER).search(near):
            return str(found.group(0))
    return ""


def _counted(text: str) -> Iterator[tuple[int, str]]:
    for found in pattern(_COUNTED).finditer(text):
        if found.group(1).lower() != "a":
            yield _read(found.group(1)), _plain(found.group(2))


def _read(number: str) -> int:
    return int(number) if number.isdigit() else _NUMBERS[number.lower()]


def _plain(unit: str) -> str:
    name = unit.lower().rstrip("s")
    return {"repetition": "run", "repeat": "run", "replicate": "run", "trial": "run", "round": "run"}.get(name, name)


def _values(text: str, past: Sequence[str]) -> str:
    """Compare the values of a metric: the last remark that has one must have none that the report gives, nor lead to it."""
    last = next((one for one in reversed(past[-2:]) if pattern(_METRIC).search(one) and pattern(_VALUE).search(one)), "")
    if not last:
        return ""
    names = {_SAME.get(one.lower(), one.lower()) for one in pattern(_METRIC).findall(last)}
    known = _derived([float(one) for remark in past for one in pattern(_VALUE).findall(remark)][:40])
    reported: list[tuple[str, float]] = []
    for found in pattern(_METRIC).finditer(text):
        after = pattern(rf"^[^.\n]{{0,40}}?({_VALUE})\b").search(text[found.end() : found.end() + 60].replace("**", ""))
        if after and _SAME.get(found.group(1).lower(), found.group(1).lower()) in names:
            reported.append((f"{found.group(0)} {after.group(1)}", float(after.group(1))))
    everything = [float(one) for one in pattern(_VALUE).findall(text)]
    if not reported or any(_near(one, known) for one in everything):
        return ""
    return reported[0][0]


def _derived(values: list[float]) -> list[float]:
    """Return values with their means, differences and ratios."""
    pairs = [value for one, other in combinations(values[:12], 2) for value in (abs(one - other), one / other if other else one)]
    means = [sum(values[start:end]) / (end - start) for start in range(len(values)) for end in range(start + 2, len(values) + 1)][
        :200
    ]
    return [*values, *pairs, *means]


def _near(value: float, known: list[float]) -> bool:
    return any(abs(value - one) <= 0.006 * max(abs(one), 0.5) or abs(value - 100 * one) <= 0.6 for one in known)
