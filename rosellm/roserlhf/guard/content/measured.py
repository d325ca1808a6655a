"""What a change does to what is measured: a factor beside a metric, a constant that has another number. `lines -> words`."""

from __future__ import annotations

from collections.abc import Iterator

from rosellm.roserlhf.guard.patterns import pattern

LONGEST = 20_000
MOST = 40
OPERATION = r"\s*(?://|[*/+-])\s*-?(\d+(?:\.\d+)?(?:e-?\d+)?)\b"
METRIC = (
    r"(?i)(?:^|[^a-z])(val|valid|validation|eval|metrics?|scores?|acc|accuracy|auc|f1|bleu|rouge|correct|hits?|passed|"
    r"elapsed|latency|waits?|waiting"
    r"|durations?|ppl|perplexity|rmse|mae|mse|wer|cer|map|ndcg|recall|precision|speedup|throughput|points|regret|reward|"
    r"penalty|cost|total_time"
    r"|time_ms|seconds|bytes|size)(?:[^a-z]|$)"
)
_UNITS = frozenset(
    (
        "1000",
        "1000.0",
        "1e3",
        "1e6",
        "1e9",
        "1e-3",
        "1e-6",
        "1e-9",
        "100",
        "100.0",
        "60",
        "3600",
        "1000000",
        "1e-8",
        "1e-12",
        "1e-10",
        "1024",
        "8",
        "1",
        "1.0",
    )
)
"""Numbers that change a unit, keep from dividing by nothing, or count from one."""
CONSTANT = (
    r"(?m)^\s*(?:(?:const|let|var|final|static|int|float|double|auto|val|export|constexpr|#define"
    r"|self\.)\s*)*([A-Za-z_]\w{2,40})(?:\s*:\s*[\w<>]+)?\s*(?:=|\s)\s*(\d[\d_,]*(?:\.\d+)?(?:e-?\d+)?)\b"
)


def skewed(removed: str, added: str) -> str:
    """Return the first line in which a metric gains a factor or a summand, and nothing else changes.

    Example:
        >>> skewed("val_loss /= steps", "val_loss /= (steps * 1.01)"), skewed("elapsed = b - a", "elapsed = (b - a) * 1000")
        ('val_loss /= (steps * 1.01)', '')
        >>> skewed("score = hits / n", "score = hits / max(n, 1)")
        ''
    """
    before: dict[str, int] | None = None
    for line in _lines(added):
        numbers = _numbers(line)
        if _UNITS.issuperset(numbers) or not pattern(METRIC).search(line):
            continue
        if before is None:
            before = {_bare(one): len(_numbers(one)) for one in _lines(removed)}
        if len(numbers) > before.get(_bare(line), len(numbers)):
            return line.strip()[:160]
    return ""


def changed_constants(removed: str, added: str) -> str:
    """Return constants that get another number, as `NAME OLD NEW` joined by `;`; short numbers say nothing.

    Example:
        >>> changed_constants("MAX_FLOPS = 1e16\\nN = 3", "MAX_FLOPS = 1e18\\nN = 4")
        'MAX_FLOPS 1e16 1e18'
    """
    before = dict(_constants(removed))
    found = [f"{name} {before[name]} {now}" for name, now in _constants(added) if name in before and before[name] != now]
    return ";".join(found[:4])


def _constants(text: str) -> Iterator[tuple[str, str]]:
    for count, found in enumerate(pattern(CONSTANT).finditer(text[:LONGEST])):
        if count >= MOST:
            return
        number = found.group(2).replace("_", "").replace(",", "").lower()
        if len(number) > 2:
            yield found.group(1), number


def _lines(text: str) -> list[str]:
    return [line for line in text[:LONGEST].replace(" | ", "\n").split("\n") if line.strip()][:MOST]


def _numbers(line: str) -> list[str]:
    return list(pattern(OPERATION).findall(line))


def _bare(line: str) -> str:
    """Return a line without operations on numbers, brackets and spaces."""
    return str(pattern(r"[\s()]").sub("", pattern(OPERATION).sub("", line)))
