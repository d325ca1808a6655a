"""A run folder as the inspection sees it: each file read once, when first asked for; nothing is written or locked."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from rosellm.roserlhf import checks, recipes
from rosellm.roserlhf.config import build, load_toml
from rosellm.roserlhf.errors import RunFolderError
from rosellm.roserlhf.store.events import EventLog
from rosellm.roserlhf.store.ledger import Ledger, LedgerEntry
from rosellm.roserlhf.store.rows import Metrics, Policy
from rosellm.roserlhf.trainer.checkpoint import checkpoint_steps
from rosellm.roserlhf.trainer.config import TrainConfig
from rosellm.roserlhf.trainer.folder import CHECKPOINTS, LOG, RUN, SUMMARY

METRICS = "metrics.jsonl"
_VERSION = re.compile(r"v(\d+)")


@dataclass(frozen=True)
class Record:
    """What the other files say something about, of one live record."""

    step: int
    sampled: int
    versions: tuple[str, ...]
    tokenizer_hash: str
    row_hash: str | None
    """Of what entered the loss; None for records that are not trained on."""
    rollout_id: str
    """The attempt that it is a record of."""


class RunFiles:
    """Reads a run folder lazily.

    Args:
        folder: the run folder.

    Raises:
        RunFolderError: it is no folder, or holds neither run.toml nor an event log.
    """

    def __init__(self, folder: Path) -> None:
        if not (folder.is_dir() and ((folder / RUN).exists() or (folder / LOG).exists())):
            raise checks.fail(RunFolderError, "run", f"be a folder with {RUN} or {LOG}", str(folder))
        self.folder = folder
        self.records: dict[tuple[str, str], Record] = {}
        """Live records by phase and id, once they were read through."""
        self.notes: list[str] = []
        """What the event log said when it was opened; a torn tail is no damage, it was never acknowledged."""
        self._log: EventLog | None = None
        self._open = ExitStack()

    def close(self) -> None:
        """Close the event log."""
        self._open.close()

    @property
    def log(self) -> EventLog:
        """The event log as it was when it was first asked for: a run that goes on adds rows between two checks."""
        if self._log is None:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                log = self._open.enter_context(EventLog.read(self.folder / LOG))
            self._open.enter_context(log.snapshot())
            self._log = log
            self.notes += [str(warning.message) for warning in caught]
        return self._log

    @cached_property
    def written_options(self) -> dict[str, Any]:
        """What stands in run.toml."""
        return load_toml(self.folder / RUN)

    @cached_property
    def config(self) -> TrainConfig:
        """The configuration, validated; one of a recipe that is not built in is read as far as all recipes go."""
        options = self.written_options
        if options.get("recipe") in recipes.RECIPES:
            return recipes.options_to_config(options)
        return build(TrainConfig, {name: options[name] for name in TrainConfig.model_fields if name in options})

    @cached_property
    def ledger_entries(self) -> tuple[LedgerEntry, ...]:
        """Live ledger events."""
        return tuple(self.log.ledger())

    @cached_property
    def ledger(self) -> Ledger:
        """The ledger, replayed."""
        return Ledger(self.ledger_entries)

    @cached_property
    def policies(self) -> tuple[Policy, ...]:
        """The policy table."""
        return self.log.policies()

    @cached_property
    def metrics(self) -> tuple[Metrics, ...]:
        """Live metrics of the event log."""
        return self.log.metrics()

    @cached_property
    def summary(self) -> Mapping[str, Any] | None:
        """The content of summary.json; None if there is none."""
        path = self.folder / SUMMARY
        if not path.exists():
            return None
        found = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(found, dict):
            raise checks.fail(RunFolderError, SUMMARY, "hold a JSON object", type(found).__name__)
        return found

    @property
    def finished(self) -> bool:
        """Whether the run says that it came to its end."""
        return (self.folder / SUMMARY).exists()

    @cached_property
    def checkpoint_steps(self) -> list[int]:
        """Steps that have a checkpoint, whole or not."""
        return checkpoint_steps(self.folder / CHECKPOINTS)

    def checkpoint(self, step: int) -> Path:
        """Folder of one checkpoint, also while an older one of the same step waits aside."""
        final = self.folder / CHECKPOINTS / str(step)
        return final if final.exists() else self.folder / CHECKPOINTS / f".{step}.old"

    def content_hash(self, version: str) -> str | None:
        """What the policy table says that the weights of a version hash to."""
        return next((policy.content_hash for policy in self.policies if policy.version == version), None)


def step_of(version: str) -> int | None:
    """Step that a version of this trainer is named after; None for any other name."""
    match = _VERSION.fullmatch(version)
    return None if match is None else int(match.group(1))
