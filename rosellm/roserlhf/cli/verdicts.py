"""How outcomes of checks look in a terminal: `Outcome -> verdict, evidence, likely cause and fix`, wrapped to the width."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from rosellm.roserlhf.audit.diagnosis import Outcome
from rosellm.roserlhf.audit.findings import Report
from rosellm.roserlhf.cli.safe_text import safe
from rosellm.roserlhf.report.markup import visible

STYLES = {"passed": "green", "failed": "bold red", "warning": "yellow", "info": "cyan", "skipped": "dim", "not built yet": "dim"}
_INDENT = "   "


def show_outcome(screen: Console, outcome: Outcome, number: int | None = None) -> None:
    """Print one outcome; what a model wrote appears with its control characters shown, never sent."""
    label = "" if number is None else f"{number}. "
    head = safe(f"{label}{outcome.name}: ")
    head.append(outcome.verdict, style=STYLES[outcome.verdict])
    screen.print(head)
    paragraphs = [outcome.evidence]
    if outcome.cause:
        paragraphs.append(f"likely cause: {outcome.cause}")
    if outcome.fix:
        paragraphs.append(f"fix: {outcome.fix}")
    for paragraph in paragraphs:
        _print(screen, paragraph)
    for line in outcome.lines:
        screen.print(safe(_INDENT + line), soft_wrap=True)


def _print(screen: Console, paragraph: str) -> None:
    text = visible(paragraph)
    for line in textwrap.wrap(text, _width(screen), initial_indent=_INDENT, subsequent_indent=_INDENT, break_on_hyphens=False):
        screen.print(Text(line), soft_wrap=True)


def _width(screen: Console) -> int:
    return max(40, screen.width)


def show_report(screen: Console, report: Report) -> None:
    """Print a report; what belongs to a finding is set in, whatever the width."""
    for line in str(report).splitlines():
        margin = " " * (len(line) - len(line.lstrip())) or " " * 9
        for part in textwrap.wrap(line, _width(screen), subsequent_indent=margin, break_on_hyphens=False):
            screen.print(Text(part), soft_wrap=True)


def show_totals(screen: Console, outcomes: Sequence[Outcome]) -> None:
    """Print how many outcomes of each kind there were."""
    counts = {verdict: sum(outcome.verdict == verdict for outcome in outcomes) for verdict in STYLES}
    screen.print(Text(", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)))
