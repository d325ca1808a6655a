"""No attack gets further than the page says, in any sandbox that this machine has, and the page says what was measured."""

from __future__ import annotations

import asyncio
import functools
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from sandbox_attacks import ATTACKS, Attack, outcomes, row
from sandbox_kinds import KINDS, works

from rosellm.roserlhf.environment.sandbox import Kind

ROOT = Path(__file__).parents[1]
SYSTEM_PYTHON = "/usr/bin/python3"
UNPRIVILEGED = 54321


@functools.cache
def measured(kind: Kind) -> dict[str, str]:
    return asyncio.run(outcomes(kind))


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
@pytest.mark.parametrize("kind", KINDS)
def test_an_attack_comes_to_nothing(kind: Kind, attack: Attack) -> None:
    assert measured(kind)[attack.name] == attack.expected(kind)


def test_the_page_shows_what_these_tests_hold() -> None:
    page = (ROOT / "docs" / "sandbox.md").read_text(encoding="utf-8")
    table = page.partition("| a program tries to … | bubblewrap | Landlock |\n|---|---|---|\n")[2].partition("\n\n")[0]
    assert table.splitlines() == [row(attack.name, attack.bubblewrap, attack.landlock) for attack in ATTACKS]


def runs_this_package() -> bool:
    version = subprocess.run(
        [SYSTEM_PYTHON, "-c", "import sys; print(sys.version_info >= (3, 11))"], capture_output=True, text=True
    )
    return version.stdout.strip() == "True"


@pytest.mark.skipif(os.geteuid() != 0, reason="all tests run as an unprivileged user already")
@pytest.mark.parametrize("kind", KINDS)
def test_an_unprivileged_user_is_as_safe_as_root(kind: Kind) -> None:
    """The same attacks from a parent that is not root: nothing depends on having been it."""
    if not (works(kind) and os.path.exists(SYSTEM_PYTHON) and runs_this_package()):
        pytest.skip("needs a Python of at least 3.11 that any user may run")
    with tempfile.TemporaryDirectory(prefix="roserlhf-unprivileged-") as folder:
        os.chmod(folder, 0o755)
        for name in ("rosellm", "tests"):
            ignored = shutil.ignore_patterns("__pycache__", "test_*", "data", "conformance")
            shutil.copytree(ROOT / name, Path(folder, name), ignore=ignored)
        for place in list(Path(folder).rglob("*")):
            place.chmod(0o755)
        done = subprocess.run(
            [SYSTEM_PYTHON, "-B", "tests/sandbox_attacks.py", kind],
            cwd=folder,
            env={"PATH": "/usr/bin:/bin", "PYTHONPATH": folder},
            capture_output=True,
            text=True,
            user=UNPRIVILEGED,
            group=UNPRIVILEGED,
            extra_groups=[],
        )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    expected = {attack.name: attack.expected(kind) for attack in ATTACKS}
    assert len(found) >= 8
    assert found == {name: expected[name] for name in found}
