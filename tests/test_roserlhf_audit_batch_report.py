"""Reports print, raise, and become JSON or a page, and text from outside harms none of them."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from rosellm.roserlhf import AuditError, RangeError, audit
from rosellm.roserlhf.audit.findings import Finding, Report

HOSTILE = "<script>alert(1)</script>\x1b[31m\u202e&\x00"
FINDING = Finding("groups_mixed", "warning", f"group {HOSTILE}", {"label": HOSTILE, "values": [1.0, math.nan]}, "cause", "fix")


def test_findings_are_sorted_and_selected_by_severity() -> None:
    report = Report([Finding("a", "info", "x"), Finding("b", "error", "y"), Finding("c", "warning", "z")], checked=["a", "b", "c"])
    assert [finding.check for finding in report.findings] == ["b", "c", "a"]
    assert report.worst == "error"
    assert [finding.check for finding in report.at_least("warning")] == ["b", "c"]
    assert str(report).startswith("audit of a batch: 3 checks, 1 error, 1 warning, 1 info\n")


def test_raise_if_names_the_findings_at_or_above_the_limit() -> None:
    report = Report([Finding("b", "warning", "y is wrong", fix="do z")])
    assert report.raise_if("error") is report
    with pytest.raises(AuditError, match="audit of a batch: b: y is wrong; fix: do z"):
        report.raise_if("warning")
    with pytest.raises(RangeError, match="severity must be one of"):
        report.raise_if("fatal")  # type: ignore[arg-type]


def test_control_characters_are_shown_and_never_written() -> None:
    for text in (str(Report([FINDING])), str(FINDING)):
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert "⟨U+001B⟩" in text


def test_the_page_escapes_every_text(tmp_path: Path) -> None:
    page = (
        Report([FINDING], not_checked={"x": HOSTILE}, title=HOSTILE).write_html(tmp_path / "page.html").read_text(encoding="utf-8")
    )
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "\x1b" not in page


def test_json_is_strict_and_complete() -> None:
    data = json.loads(
        Report([FINDING], checked=["groups_mixed"], not_checked={"x": "needs y"}).to_json(), parse_constant=pytest.fail
    )
    assert data["worst"] == "warning"
    assert data["findings"][0]["evidence"]["values"] == [1.0, "nan"]
    assert data["not_checked"] == {"x": "needs y"}


def test_evidence_is_bounded() -> None:
    finding = Finding("a", "info", "x", {"rows": range(10**6), "text": "y" * 10**6, "tensor": torch.arange(1000)})
    assert len(json.dumps(dict(finding.evidence))) < 1000
    assert finding.evidence["rows"][-1] == "…"


def test_every_fault_report_is_strict_json_of_bounded_size() -> None:
    from audit_faults import FAULTS

    for fault in FAULTS.values():
        report = audit.check_batch(**fault.world(0, fault.shapes[0]).arguments)
        assert len(report.to_json()) < 20_000
        json.loads(report.to_json())
        assert "<html" in report.to_html()


def test_the_names_are_loaded_when_they_are_used() -> None:
    assert set(audit.__all__) <= set(dir(audit))
    with pytest.raises(AttributeError, match="no attribute 'chek_batch'"):
        audit.chek_batch  # type: ignore[attr-defined]  # noqa: B018
    heavy = ("torch", "numpy", "rich", "pydantic")
    assert run(f"import sys; from rosellm.roserlhf import audit; print([m for m in {heavy} if m in sys.modules])") == "[]"


def test_check_batch_needs_torch_and_numpy_only() -> None:
    heavy = ("rich", "pydantic", "msgspec", "transformers")
    use = "from rosellm.roserlhf.audit import check_batch; import torch; str(check_batch(action_mask=torch.ones(1, 2)))"
    assert run(f"import sys; {use}; print([m for m in {heavy} if m in sys.modules])") == "[]"


def run(code: str) -> str:
    """Run code in a fresh interpreter and return what it printed."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
