"""The obfuscation operators keep what a call does: both forms of harmless stand-ins are run and compared."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("tree_sitter_bash")
BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
TEXT = "one\ntwo words\nthree  'quoted'\n"
SHELL = (
    "cat {d}/hidden/secret.txt",
    "cd {d} && head -n 2 hidden/secret.txt | sort -r; cat {d}/hidden/*.txt",
    "for f in {d}/hidden/secret.txt; do wc -c < \"$f\"; done; grep -n 'two words' {d}/hidden/secret.txt > {d}/out.txt; cat {d}/out.txt",
    "cat > {d}/made.txt <<'E'\nalpha \"$HOME\" beta\nE\nsed -n '1,2p' \"{d}/made.txt\"; ls {d}/hidden 2>/dev/null | tail -n 1",
    "p={d}/hidden; if [ -d $p ]; then tail -n 2 $p/secret.txt && printf '%s|' a{{b,c}} \"${{p##*/}}\"; fi\ncat {d}/hidden/{{secret,other}}.txt | tee {d}/copy.txt >/dev/null",
    "cd {d}; echo left > {d}/left.txt && sort {d}/hidden/secret.txt | awk '{{ print $1 \"-\" NR }}'; python3 -c 'print(\"in\" + \"ner\", 7 * 3)'",
)
PYTHON = (
    "for line in open('{d}/hidden/secret.txt'):\n    print(line.strip(), end='|')\n",
    '"""Look."""\nimport os, json as j\nfrom pathlib import Path\nbase = Path("{d}") / "hidden"\nprint(sorted(os.listdir(base)), j.dumps({{"key": "väl\\nue"}}))\n'
    "with open(os.path.join('{d}', 'made.txt'), 'w') as out:\n    out.write(f\"{{base.name}} {{'x' * 3}} end\")\nprint(open('{d}/hidden/other.txt').read().splitlines())\n",
    "import os.path\nimport subprocess\nwords = {{'first': 'alpha', 'second': \"it's\"}}\n\ndef show(name: str = 'secret.txt') -> str:\n    '''Read.'''\n"
    "    return subprocess.run(['cat', '{d}/hidden/' + name], capture_output=True, text=True).stdout\n\nprint(show(), '%s and %s' % tuple(words.values()), os.path.basename('{d}/hidden'))\n",
)


@pytest.fixture(scope="module")
def obfuscation() -> Iterator[ModuleType]:
    """`benchmarks/guard_obfuscation.py`; its neighbours are found only here, so that their names are taken nowhere else."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCHMARKS)
        yield importlib.import_module("guard_obfuscation")
    for name in [name for name, module in sys.modules.items() if str(getattr(module, "__file__", "")).startswith(str(BENCHMARKS))]:
        del sys.modules[name]


class Place:
    """A directory whose state after a call can be compared."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.scratch = folder / "place", folder / "scratch"

    def fresh(self) -> None:
        for folder in (self.folder, self.scratch):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
        (self.folder / "hidden").mkdir()
        (self.folder / "hidden" / "secret.txt").write_text(TEXT)
        (self.folder / "hidden" / "other.txt").write_text("4\n5\n")

    def after(self, call: dict[str, Any]) -> tuple[str, dict[str, str]]:
        """Output, and files, after the history and the call."""
        self.fresh()
        for command in call["history"]:
            self._run(["bash", "-c", command])
        key, program = {"shell": ("command", "bash"), "python": ("code", sys.executable)}[call["tool"]]
        output = self._run([program, "-c", call["arguments"][key]])
        files = {str(path.relative_to(self.folder)): path.read_text() for path in sorted(self.folder.rglob("*")) if path.is_file()}
        return output, files

    def _run(self, words: list[str]) -> str:
        environment = {**os.environ, "HOME": str(self.scratch), "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(words, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
        return done.stdout


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def call_of(tool: str, **arguments: Any) -> dict[str, Any]:
    return {"id": "x", "setting": "s", "history": [], "tool": tool, "arguments": arguments, "label": "hack", "kind": "k"}


def differences(obfuscation: ModuleType, place: Place, names: list[str], calls: list[dict[str, Any]], seeds: range) -> tuple[list[str], set[str]]:
    """Variants that do something else, and the operators that applied."""
    wrong, applied = [], set()
    for call in calls:
        expected = place.after(call)
        assert expected[0] or len(expected[1]) > 2
        for name in names:
            for seed in seeds:
                chance = obfuscation.Chance(f"{seed}{name}", str(place.folder), str(place.scratch), ())
                new = obfuscation.OPERATORS[name](call, chance)
                if new is not None and new["tool"] in ("shell", "python"):
                    applied.add(name)
                    got = place.after(new)
                    if got != expected:
                        wrong.append(f"{name} {seed}: {json.dumps(new['arguments'])}\n   {got}\n   {expected}")
    return wrong, applied


def shell_names(obfuscation: ModuleType) -> list[str]:
    return [name for name in obfuscation.OPERATORS if name.startswith(("shell_", "script_", "tool_shell"))]


def python_names(obfuscation: ModuleType) -> list[str]:
    return [name for name in obfuscation.OPERATORS if name.startswith(("python_", "tool_python"))]


def seeds(quick: int, several: int) -> Any:
    return pytest.mark.parametrize("seeds", [range(quick), pytest.param(range(quick, several), marks=pytest.mark.slow)], ids=["one", "several"])


@seeds(1, 12)
def test_shell_operators_keep_what_a_command_does(obfuscation: ModuleType, place: Place, seeds: range) -> None:
    names = shell_names(obfuscation)
    calls = [call_of("shell", command=command.format(d=place.folder)) for command in SHELL]
    wrong, applied = differences(obfuscation, place, names, calls, seeds)
    assert not wrong, "\n".join(wrong)
    assert applied == set(names)


@seeds(1, 12)
def test_python_operators_keep_what_code_does(obfuscation: ModuleType, place: Place, seeds: range) -> None:
    names = python_names(obfuscation)
    calls = [call_of("python", code=code.format(d=place.folder)) for code in PYTHON]
    wrong, applied = differences(obfuscation, place, names, calls, seeds)
    assert not wrong, "\n".join(wrong)
    assert applied == set(names)
