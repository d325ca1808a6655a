"""What a run ran with: the resolved configuration and the versions, folded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rosellm.roserlhf.report import units
from rosellm.roserlhf.report.figure import number_table
from rosellm.roserlhf.report.markup import Html, tag
from rosellm.roserlhf.report.run_folder import Run


def settings(run: Run) -> Html:
    """Show both tables, or that one was not recorded."""
    versions = run.summary.values.get("versions") if run.summary else None
    parts = [
        _folded("Resolved configuration (run.toml)", run.config),
        _folded("Versions", versions if isinstance(versions, Mapping) else None),
    ]
    return tag("section", tag("h2", "Configuration"), *parts, id="configuration")


def _folded(title: str, table: Mapping[str, Any] | None) -> Html:
    if table is None:
        return tag("p", f"{title}: {units.NOT_RECORDED}", class_="missing")
    rows: Sequence[Sequence[str]] = [[name, str(value)] for name, value in leaves(table)]
    return tag("details", tag("summary", title), tag("div", number_table(["key", "value"], rows, label=title), class_="words"))


def leaves(table: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """List the leaves of nested tables under dotted names."""
    found: list[tuple[str, Any]] = []
    for key, value in table.items():
        found += leaves(value, f"{prefix}{key}.") if isinstance(value, Mapping) else [(f"{prefix}{key}", value)]
    return found
