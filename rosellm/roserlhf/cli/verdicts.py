"""How outcomes of checks look in a terminal: `Outcome -> verdict, evidence, likely cause and fix`, wrapped to the width."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from rosellm.roserlhf.audit.findings import Report
from rosellm.roserlhf.audit.verdict import Outcome
from rosellm.roserlhf.report.markup import visible

STYLES = {"passed": "green", "failed": "bold red", "warning": "yellow", "info": "cyan", "skipped": "dim", "not built yet": "dim"}
_INDENT = "   "


def show_outcome(console: Console, outcome: Outcome, number: int | None = None) -> None:
    """Print one outcome; what a model wrote appears with its control characters shown, never sent."""
    label = "" if number is None else f"{number}. "
    head = Text(f"{label}{visible(outcome.name)}: ")
    head.append(outcome.verdict, style=STYLES[outcome.verdict])
    console.print(head)
    paragraphs = [outcome.evidence]
    if outcome.cause:
        paragraphs.append(f"likely cause: {outcome.cause}")
    if outcome.fix:
        paragraphs.append(f"fix: {outcome.fix}")
    for paragraph in paragraphs:
        _print(console, paragraph)
    for line in outcome.lines:
        console.print(Text(_INDENT + visible(line)), soft_wrap=True)


def _print(console: Console, paragraph: str) -> None:
    text = visible(paragraph)
    for line in textwrap.wrap(text, _width(console), initial_indent=_INDENT, subsequent_indent=_INDENT, break_on_hyphens=False):
        console.print(Text(line), soft_wrap=True)


def _width(console: Console) -> int:
    return max(40, min(console.width, 120))


def show_report(console: Console, report: Report) -> None:
    """Print a report; what belongs to a finding is set in, whatever the width."""
    for line in str(report).splitlines():
        margin = " " * (len(line) - len(line.lstrip())) or " " * 9
        for part in textwrap.wrap(line, _width(console), subsequent_indent=margin, break_on_hyphens=False):
            console.print(Text(part), soft_wrap=True)


def show_totals(console: Console, outcomes: Sequence[Outcome]) -> None:
    """Print how many outcomes of each kind there were."""
    counts = {verdict: sum(outcome.verdict == verdict for outcome in outcomes) for verdict in STYLES}
    console.print(Text(", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)))
