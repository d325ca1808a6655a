"""A data set's own scorer in the sandbox: `answer, item → number`; neither machine nor verdict are the answer's to change.

The box holds the package's Python files and nothing else of this machine; each answer has a box of its own. Some scorers hand what
they are given to `eval`, in the very process that then says how good it was: they see an answer only if it consists of characters
that cannot call anything.
"""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rosellm.roserlhf import checks
from rosellm.roserlhf.environment.sandbox import Limits, Sandbox
from rosellm.roserlhf.errors import SandboxError

SECONDS = 10.0
"""Time of one scoring."""
_HARMLESS: Mapping[str, re.Pattern[str]] = {
    "binary_matrix": re.compile(r"[0-9\s,\[\]]*"),
    "spiral_matrix": re.compile(r"[0-9\s,\[\]]*"),
    "n_queens": re.compile(r"[Q_\s,\[\]'\"]*"),
    "string_insertion": re.compile(r"[A-Z\s,\[\]'\"]*"),
}
"""What a right answer consists of, where the scorer evaluates answers."""
_PROGRAM = """
import importlib, json, sys
sys.path.insert(0, ".")
question = json.load(sys.stdin)
importlib.import_module(question["module"])
kind, config = importlib.import_module("reasoning_gym.factory").DATASETS[question["dataset"]]
scorer = object.__new__(kind)
scorer.config = config()
try:
    __value__ = {"score": scorer.score_answer(question["answer"], question["item"])}
except Exception as error:
    __value__ = {"raised": type(error).__name__}
"""


class BoxedScorer:
    """Scores answers to one data set.

    Args:
        dataset: its name.
        module: where the package defines it.

    Raises:
        SandboxError: there is no sandbox here; the message says what to install.
    """

    def __init__(self, dataset: str, module: str) -> None:
        self._dataset, self._module = dataset, module
        self._sandbox = Sandbox(Limits(seconds=SECONDS))
        self._files = _files(module)

    async def score(self, answer: str, item: Mapping[str, Any]) -> float | None:
        """Score one answer: 0 if the scorer cannot read it; None if there was no verdict in time.

        Raises:
            SandboxError: the scorer could not be loaded.
            RangeError: it returned no number in [0, 1].
        """
        if self._dataset in _HARMLESS and not _HARMLESS[self._dataset].fullmatch(answer):
            return 0.0
        return await self.score_unseen(answer, item)

    async def score_unseen(self, answer: str, item: Mapping[str, Any]) -> float | None:
        """Score an answer whatever it consists of; what it does in its box is no evidence about it."""
        question = {"dataset": self._dataset, "module": self._module, "answer": answer, "item": item}
        result = await self._sandbox.run(_PROGRAM, self._files, stdin=json.dumps(question))
        if result.ending == "error":
            raise checks.fail(SandboxError, f"scorer of {self._dataset}", "run in the sandbox", result.errors[-200:])
        if result.ending != "ok" or not isinstance(result.value, dict):
            return None
        if "raised" in result.value:
            return 0.0
        score: Any = result.value.get("score")
        checks.number_in(score, f"score of {self._dataset}", 0.0, 1.0)
        return float(score)


def _files(module: str) -> dict[str, str | bytes]:
    """Collect what a scorer imports; packages whose own modules import everything are given an empty one."""
    found = importlib.util.find_spec("reasoning_gym")
    assert found is not None
    assert found.origin is not None
    root = Path(found.origin).parent
    _, folder, _ = module.split(".")
    files = [*root.glob("*.py"), *root.glob("coaching/*.py"), root / "data" / "__init__.py", *root.glob(f"{folder}/*.py")]
    texts: dict[str, str | bytes] = {f"reasoning_gym/{path.relative_to(root)}": path.read_bytes() for path in files}
    return {**texts, "reasoning_gym/__init__.py": "", f"reasoning_gym/{folder}/__init__.py": "", "yaml.py": ""}
