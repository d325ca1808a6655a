"""One data set: `seed → question, answer, metadata` as JSON values, and its own scorer: `answer, item → number`.

What it prints goes nowhere. Sources of chance are the seed's alone.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib
import io
import json
import random
import threading
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

from rosellm.roserlhf import checks
from rosellm.roserlhf.environment.reasoning_gym.datasets import MADE_AHEAD, NESTED_TUPLES, REFUSED
from rosellm.roserlhf.errors import ConfigError, MissingExtraError

_WHERE = ("source_dataset", "source_index", "source_idx")
"""Metadata that say where an item stands in its set: equal questions are one task, wherever they stand."""


_SILENCE = threading.RLock()


class Source:
    """Items and scorer of one data set.

    Args:
        name: of the data set.

    Raises:
        ConfigError: there is no such data set, or it is refused.
        MissingExtraError: reasoning-gym is not installed.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._package = _package()
        _check(name, list(importlib.import_module("reasoning_gym.factory").DATASETS))
        self._set = self._made(0)
        self.module: str = type(self._set).__module__
        """Where the package defines the data set."""

    def item(self, seed: int) -> dict[str, Any]:
        """Make one item; equal seeds make equal items, in every process."""
        with _silence():
            made = self._made(seed)[0] if self.name in MADE_AHEAD else self._set[seed]
        metadata = {key: value for key, value in made["metadata"].items() if key not in _WHERE}
        item = {"question": made["question"], "answer": made["answer"], "metadata": metadata}
        return dict(json.loads(json.dumps(item, default=str)))  # exact fractions among the metadata

    def score(self, answer: str, item: Mapping[str, Any]) -> float:
        """Ask the scorer of the data set.

        Raises:
            RangeError: it returns no number in [0, 1].
        """
        metadata = _tuples(item["metadata"]) if self.name in NESTED_TUPLES else _thawed(item["metadata"])
        with _silence():
            value = self._set.score_answer(answer, {**item, "metadata": metadata})
        checks.number_in(value, f"score of {self.name}", 0.0, 1.0)
        return float(value)

    def _made(self, seed: int) -> Any:
        with _silence(), warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)  # one data set leaves its file to the garbage collector
            return self._package.create_dataset(self.name, size=1, seed=seed)


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Let prints go nowhere; one at a time, for two that overlap would put each other's output back."""
    with _SILENCE, contextlib.redirect_stdout(io.StringIO()):
        yield


def _package() -> Any:
    chance = random.getstate()
    try:
        found = importlib.import_module("reasoning_gym")
        random.setstate(chance)  # some of its modules draw while they are imported
        return found
    except ModuleNotFoundError as error:
        why = f"reasoning-gym needs {error.name}, which is not installed; pip install 'rosellm[env]'"
        raise MissingExtraError(why, name=error.name) from error


def _check(name: str, known: list[str]) -> None:
    if name in REFUSED:
        raise checks.fail(ConfigError, "data set", "be one that can be learnt from", f"{name!r}, which {REFUSED[name]}")
    if name not in known:
        near = difflib.get_close_matches(name, [other for other in known if other not in REFUSED], n=1, cutoff=0.4)
        fix = f"did you mean reasoning-gym:{near[0]}?" if near else "give one by name, such as reasoning-gym:gsm_symbolic"
        raise checks.fail(ConfigError, "data set", "be one of reasoning-gym's", repr(name), fix=fix)


def _thawed(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _thawed(item) for name, item in value.items()}
    return [_thawed(item) for item in value] if isinstance(value, (list, tuple)) else value


def _tuples(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _tuples(item) for name, item in value.items()}
    return tuple(_tuples(item) for item in value) if isinstance(value, (list, tuple)) else value
