"""The fault table is a test: every planted mistake is named by its check, and nothing else is called an error."""

from __future__ import annotations

import pytest
from audit_faults import FAULTS

from rosellm.roserlhf.audit import check_batch

CASES = [(name, shape, seed) for name, fault in FAULTS.items() for shape in range(len(fault.shapes)) for seed in range(3)]


@pytest.mark.parametrize(("name", "shape", "seed"), CASES, ids=[f"{name}-{shape}-{seed}" for name, shape, seed in CASES])
def test_a_planted_fault_is_named(name: str, shape: int, seed: int) -> None:
    fault = FAULTS[name]
    report = check_batch(**fault.world(seed, fault.shapes[shape]).arguments)
    named = {finding.check for finding in report.at_least("warning")}
    assert fault.check in named, str(report)
    assert named <= {fault.check, *fault.also}, str(report)
    finding = next(finding for finding in report.findings if finding.check == fault.check)
    assert finding.cause
    assert finding.fix
    assert finding.evidence


def test_the_table_is_long_enough_and_names_every_check_that_can_fail() -> None:
    assert len(FAULTS) >= 20
