"""`Report -> one self-contained HTML page`, in the look of the run report; every text is escaped by `report.markup`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rosellm.roserlhf.report.markup import Html, join, tag, text
from rosellm.roserlhf.report.style import CSS

if TYPE_CHECKING:
    from rosellm.roserlhf.audit.findings import Finding, Report

_LOOK = {"error": "serious", "warning": "notice", "info": "unscored"}


def page_of(report: Report) -> str:
    """Write the page."""
    head = tag("head", tag("meta", charset="utf-8"), tag("title", report.title), tag("style", Html(CSS)))
    found = [_card(finding) for finding in report.findings] or [tag("p", "Nothing found.")]
    body = tag(
        "main",
        tag("h1", report.title),
        tag("p", f"{len(report.checked)} checks made, {len(report.not_checked)} not made.", class_="lead"),
        tag("h2", "Findings"),
        *found,
        tag("h2", "Not checked"),
        _table([("check", "why"), *report.not_checked.items()]) if report.not_checked else tag("p", "Every check was made."),
        tag("h2", "Checked"),
        tag("p", ", ".join(report.checked) or "nothing"),
    )
    return "<!doctype html>\n" + tag("html", head, tag("body", body), lang="en")


def _card(finding: Finding) -> Html:
    evidence = _table([(name, str(value)) for name, value in finding.evidence.items()]) if finding.evidence else None
    return tag(
        "div",
        tag("span", finding.severity, class_="chip"),
        tag("b", finding.check),
        tag("p", finding.summary),
        evidence,
        tag("p", tag("b", "likely cause "), finding.cause) if finding.cause else None,
        tag("p", tag("b", "fix "), finding.fix) if finding.fix else None,
        class_=f"finding {_LOOK[finding.severity]}",
    )


def _table(rows: list[tuple[str, str]]) -> Html:
    return tag("table", join([tag("tr", *(tag("td", text(cell)) for cell in row)) for row in rows]), class_="words")
