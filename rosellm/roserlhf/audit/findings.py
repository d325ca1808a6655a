"""What an audit found: `Finding`s, worst first, in a `Report` that prints, raises, and becomes JSON or a page.

A check that lacked an argument stands under `not_checked` with what it needs: it never passes in silence. The results of a report
may still be on an accelerator when it is made; the first look at them waits for the device, and only that.
"""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from rosellm.roserlhf import checks
from rosellm.roserlhf.errors import AuditError

Severity = Literal["info", "warning", "error"]
"""`info`: worth knowing, may be right; `warning`: probably not what was meant; `error`: the numbers contradict each other."""

_RANK: dict[str, int] = {severity: rank for rank, severity in enumerate(get_args(Severity))}
_LONGEST_LIST, _LONGEST_TEXT = 16, 300
_WIDTH = 100

Plain: TypeAlias = "bool | int | float | str | list[Any] | dict[str, Any] | None"


@dataclass(frozen=True)
class Finding:
    """One thing that a check noticed.

    Example:
        >>> from rosellm.roserlhf.audit import Finding
        >>> print(Finding("empty_rows", "warning", "no token in 1 of 4 rows", {"rows": [2]}, "a filter", "leave the row out"))
        warning  empty_rows: no token in 1 of 4 rows
                 evidence: rows = [2]
                 likely cause: a filter
                 fix: leave the row out
    """

    check: str
    """Name of the check, the same in code, tests and documentation."""
    severity: Severity
    """How sure and how bad."""
    summary: str
    """One line: what is wrong, with the numbers that say so."""
    evidence: Mapping[str, Any] = field(default_factory=dict)
    """Indices and numbers; long lists and texts are cut."""
    cause: str = ""
    """The likely cause."""
    fix: str = ""
    """What to do about it."""

    def __post_init__(self) -> None:
        checks.one_of(self.severity, "severity", get_args(Severity))
        object.__setattr__(self, "evidence", {str(name): plain(value) for name, value in self.evidence.items()})

    def consequence_of(self, check: str) -> Finding:
        """Keep the finding, as information: a more exact one names the cause."""
        return replace(self, severity="info", cause=f"probably a consequence of {check}")

    def __str__(self) -> str:
        margin = " " * 9
        lines = [f"{self.severity:<8} {self.check}: {self.summary}"]
        if self.evidence:
            lines.append(f"{margin}evidence: " + "; ".join(f"{name} = {value}" for name, value in self.evidence.items()))
        lines += [f"{margin}{name}: {text}" for name, text in (("likely cause", self.cause), ("fix", self.fix)) if text]
        return "\n".join(_visible(line) for line in lines)


def plain(value: Any) -> Plain:
    """Turn evidence into short plain data: numbers of 6 digits, lists of 16 items, texts of 300 characters at most."""
    if isinstance(value, (bool, int)) or value is None:
        return value
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, str):
        return value if len(value) <= _LONGEST_TEXT else value[:_LONGEST_TEXT] + " …"
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in list(value.items())[:_LONGEST_LIST]}
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, Iterable):
        items = list(value)
        return [plain(item) for item in items[:_LONGEST_LIST]] + (["…"] if len(items) > _LONGEST_LIST else [])
    return plain(str(value))


@dataclass(frozen=True)
class Contents:
    """What a finished audit knows."""

    findings: tuple[Finding, ...] = ()
    checked: tuple[str, ...] = ()
    not_checked: Mapping[str, str] = field(default_factory=dict)


class Report:
    """Findings, worst first; what was checked; what was not, and what that would have needed.

    Example:
        >>> from rosellm.roserlhf.audit import Report
        >>> report = Report(checked=["empty_rows"], not_checked={"foreign_tokens_trained": "needs roles"})
        >>> report.worst is None
        True
        >>> print(report)
        audit of a batch: 1 check, nothing found
        not checked
          needs roles: foreign_tokens_trained
    """

    def __init__(
        self,
        findings: Iterable[Finding] = (),
        *,
        checked: Sequence[str] = (),
        not_checked: Mapping[str, str] | None = None,
        title: str = "audit of a batch",
        pending: Callable[[], Contents] | None = None,
    ) -> None:
        """Hold results, or the way to get them (`pending`) when the device has them."""
        self.title = title
        self._pending = pending
        self._contents = Contents(tuple(findings), tuple(checked), dict(not_checked or {}))

    def wait(self) -> Report:
        """Read the results back from the device if they are still there, and return the report itself."""
        if self._pending is not None:
            self._contents = self._pending()
            self._pending = None
        return self

    @property
    def pending(self) -> bool:
        """Whether looking at the report would wait for the device."""
        return self._pending is not None

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Everything found, worst first."""
        return tuple(sorted(self.wait()._contents.findings, key=lambda finding: -_RANK[finding.severity]))

    @property
    def checked(self) -> tuple[str, ...]:
        """Names of the checks that were made."""
        return self.wait()._contents.checked

    @property
    def not_checked(self) -> Mapping[str, str]:
        """Names of the checks that could not be made, each with what it needs."""
        return self.wait()._contents.not_checked

    @property
    def worst(self) -> Severity | None:
        """The worst severity; None: nothing was found."""
        return next((finding.severity for finding in self.findings), None)

    def at_least(self, severity: Severity) -> tuple[Finding, ...]:
        """Findings of this severity or worse."""
        checks.one_of(severity, "severity", get_args(Severity))
        return tuple(finding for finding in self.findings if _RANK[finding.severity] >= _RANK[severity])

    def raise_if(self, severity: Severity = "error") -> Report:
        """Raise if anything of this severity or worse was found, else return the report.

        Raises:
            AuditError: naming each such finding.
        """
        found = self.at_least(severity)
        if found:
            raise AuditError(f"{self.title}: " + "; ".join(_visible(f"{f.check}: {f.summary}; fix: {f.fix}") for f in found))
        return self

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data."""
        return {
            "title": self.title,
            "worst": self.worst,
            "findings": [asdict(finding) for finding in self.findings],
            "checked": list(self.checked),
            "not_checked": dict(self.not_checked),
        }

    def to_json(self) -> str:
        """Write strict JSON; what is not finite becomes a string, since JSON has no number for it."""
        return json.dumps(_strict(self.to_dict()), ensure_ascii=True, allow_nan=False, indent=1)

    def to_html(self) -> str:
        """Write one self-contained page; every text is escaped."""
        from rosellm.roserlhf.audit.findings_page import page_of

        return page_of(self)

    def write_html(self, path: str | Path) -> Path:
        """Write the page to a file and return its path."""
        target = Path(path)
        target.write_text(self.to_html(), encoding="utf-8")
        return target

    def __str__(self) -> str:
        counts = ", ".join(f"{n} {s}" for s in reversed(get_args(Severity)) if (n := self._count(s)))
        made = f"{len(self.checked)} check" + ("" if len(self.checked) == 1 else "s")
        lines = [f"{self.title}: {made}, {counts or 'nothing found'}", *map(str, self.findings)]
        return "\n".join(_visible_lines(line) for line in (*lines, *self._not_checked_lines()))

    def _not_checked_lines(self) -> list[str]:
        """Say what each lacking argument would have made possible, a paragraph each."""
        names: dict[str, list[str]] = {}
        for name, reason in self.not_checked.items():
            names.setdefault(reason, []).append(name)
        texts = [f"{reason}: {', '.join(those)}" for reason, those in names.items()]
        paragraphs = [line for text in texts for line in textwrap.wrap(text, _WIDTH, initial_indent="  ", subsequent_indent="    ")]
        return ["not checked", *paragraphs] if paragraphs else []

    def __repr__(self) -> str:
        return f"<Report {self.title}: " + ("pending>" if self.pending else f"{len(self.findings)} findings, worst {self.worst}>")

    def _count(self, severity: Severity) -> int:
        return sum(finding.severity == severity for finding in self.findings)


def _visible(text: str) -> str:
    from rosellm.roserlhf.report.markup import visible

    return visible(text)


def _visible_lines(text: str) -> str:
    return "\n".join(_visible(line) for line in text.split("\n"))


def _strict(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: _strict(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_strict(item) for item in value]
    return value
