"""The environment that is examined: asked in a process of its own, which is killed when it hangs; everything seen is remembered."""

from __future__ import annotations

import os
import secrets
import shutil
import string
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from rosellm.roserlhf import checks
from rosellm.roserlhf.audit.environment.moves import Attempt
from rosellm.roserlhf.environment.verifiers.worker import START_SECONDS, Worker, WorkerCrash, WorkerTimeout
from rosellm.roserlhf.errors import ConfigError, VerifierError

Fate = Literal["executed", "hung", "crashed", "raised", "paid", "unscored", "fine"]
"""How an answer went. `executed`: it ran as a program. `crashed`: the process died. `unscored`: no number for success."""
BAD: tuple[Fate, ...] = ("executed", "hung", "crashed", "raised", "paid")

IMPORTING = "importing it"
"""What is done once in every process."""
_TARGET = "rosellm.roserlhf.audit.environment.child:answer"


def reason(error: VerifierError) -> str:
    """Say what happened in the child, without the name of the function there."""
    return str(error).removeprefix(f"{_TARGET} must answer, got ").removeprefix(f"{_TARGET} must ")


@dataclass
class Played:
    """One episode."""

    name: str
    """What was played."""
    task: int
    """Number of the task."""
    fate: Fate
    detail: str = ""
    """Evidence, where the fate is a bad one."""
    found: Mapping[str, Any] = field(default_factory=dict)
    """What the child told."""


TASKS, TASKS_OF_CHANCE = 2, 8


def _folder_without_digits() -> Path:
    """Make a folder of our own whose name says no number: it stands in answers, where a digit of chance could be the right one."""
    while True:
        letters = "".join(secrets.choice(string.ascii_lowercase) for _ in range(16))
        folder = Path(tempfile.gettempdir()) / f"roserlhf-doctor-{letters}"
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            continue
        return folder


class Subject:
    """One environment and the process it runs in; a context manager.

    Args:
        name: built-in name or import path.
        seconds: time limit of one episode.
    """

    def __init__(self, name: str, seconds: float) -> None:
        self.name, self.seconds = name, seconds
        self.about: Mapping[str, Any] = {}
        """What the environment declares, once it was asked."""
        self.played: list[Played] = []
        """All episodes, in order."""
        self.printed: list[tuple[str, str]] = []
        """(what was done, what it printed)."""
        self.complained: list[tuple[str, str]] = []
        """(what was done, what it wrote to standard error)."""
        self.disturbed: list[tuple[str, str]] = []
        """(what was done, whose random state it changed)."""
        self._folder = _folder_without_digits()
        self.canary = self._folder / "executed"
        """File that exists as soon as an answer was executed."""
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        self._workers = [Worker(_TARGET, environ={**os.environ, "PYTHONHASHSEED": seed}, memory=memory) for seed in ("0", "1")]

    def __enter__(self) -> Subject:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def describe(self) -> None:
        """Import the environment and let it say what it is.

        Raises:
            ConfigError: it cannot be imported.
        """
        try:
            self.about = self.ask("describe", doing=IMPORTING, seconds=START_SECONDS)
        except VerifierError as error:
            why = reason(error)
            if why.startswith("ConfigError: "):
                raise ConfigError(why.removeprefix("ConfigError: ")) from error
            raise checks.fail(ConfigError, "environment", "be importable", f"{self.name!r}: {why}") from error

    def ask(self, do: str, *, doing: str, elsewhere: bool = False, seconds: float | None = None, **question: Any) -> dict[str, Any]:
        """Ask the child.

        Args:
            do: what.
            doing: the same in words, for evidence.
            elsewhere: ask a second process, whose hashes of strings differ.
            seconds: time limit, if not that of an episode.
            question: the rest.

        Raises:
            VerifierError: it raised, hung or died.
        """
        worker = self._workers[int(elsewhere)]
        found: dict[str, Any] = worker.call({"do": do, "environment": self.name, **question}, seconds=seconds or self.seconds)
        for what, seen in ((IMPORTING, found.pop("imported")), (doing, found.pop("seen"))):
            for kept, told in ((self.printed, seen["printed"]), (self.complained, seen["complained"])):
                if told.strip():
                    kept.append((what, told))
            self.disturbed += [(what, library) for library in seen["random"]]
        return found

    def play(self, name: str, task: int, moves: Sequence[Mapping[str, Any]] | None, **options: Any) -> Played:
        """Play one episode and say how it went; no moves: the environment's own demonstration."""
        try:
            found = self.ask("play", doing=name, task=task, moves=moves, **options)
        except WorkerTimeout:
            played = Played(name, task, "hung", f"no answer within {self.seconds:g} s")
        except WorkerCrash as error:
            played = Played(name, task, "crashed", reason(error))
        except VerifierError as error:
            played = Played(name, task, "raised", reason(error))
        else:
            played = self._judged(name, task, found)
        if self.canary.exists():
            self.canary.unlink()
            played.fate, played.detail = "executed", "it made a file"
        self.played.append(played)
        return played

    def _judged(self, name: str, task: int, found: Mapping[str, Any]) -> Played:
        success = found["scores"].get(self.about["success"])
        if found["raised"] is not None:
            return Played(name, task, "raised", found["raised"], found)
        if success is None:
            return Played(name, task, "unscored", found["complaint"] or f"{self.about['success']} is None", found)
        if success >= 1:
            return Played(name, task, "paid", f"{self.about['success']} is {success:g}", found)
        return Played(name, task, "fine", "", found)

    def attempts(self, attempts: Iterable[Attempt]) -> list[Played]:
        """Play attempts on a few tasks, on more where one may be right by chance.

        What hung once is not played again elsewhere: it would only cost the same time once more.
        """
        found: list[Played] = []
        hung: set[str] = set()
        for attempt in attempts:
            if attempt.answer in hung:
                continue
            tried = []
            for task in range(TASKS if attempt.never_right else TASKS_OF_CHANCE):
                tried.append(self.play(attempt.name, task, [attempt.move]))
                if tried[-1].fate in ("hung", "crashed"):
                    hung.add(attempt.answer)
                    break
            if not attempt.never_right and not all(one.fate == "paid" for one in tried):
                for one in tried:
                    one.fate = "fine" if one.fate == "paid" else one.fate
            found += tried
        return found
