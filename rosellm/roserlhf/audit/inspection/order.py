"""The checks of a run folder in order: `folder -> Outcomes`."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path

from rosellm.roserlhf.audit.diagnosis import Outcome
from rosellm.roserlhf.audit.inspection import log_checks as log
from rosellm.roserlhf.audit.inspection import settings_checks as settings
from rosellm.roserlhf.audit.inspection import weights_checks as files
from rosellm.roserlhf.audit.inspection.run_files import RunFiles
from rosellm.roserlhf.audit.stages import Stage, in_order

CHECKS: tuple[Stage[RunFiles], ...] = (
    Stage(settings.CONFIGURATION, (), settings.configuration),
    Stage(log.EVENT_LOG, (), log.event_log),
    Stage(log.POLICIES, (log.EVENT_LOG, settings.CONFIGURATION), log.policy_table),
    Stage(log.RECORDS, (log.EVENT_LOG, log.POLICIES), log.records),
    Stage(log.LEDGER, (log.EVENT_LOG, log.RECORDS), log.ledger),
    Stage(log.TOKENS, (log.LEDGER,), log.tokens),
    Stage(log.UPDATES, (log.LEDGER,), log.updates),
    Stage(log.METRIC_ROWS, (log.EVENT_LOG,), log.metrics),
    Stage(files.WHOLE, (log.POLICIES,), files.checkpoints),
    Stage(files.FIRST, (), files.first_checkpoint),
    Stage(files.EXPORTED, (settings.CONFIGURATION, log.POLICIES), files.exported_model),
    Stage(files.TOKENIZER, (log.RECORDS,), files.tokenizer),
    Stage(settings.SUMMARIZED, (settings.CONFIGURATION, log.EVENT_LOG, log.TOKENS), settings.summary),
    Stage(settings.LEFTOVERS, (), settings.leftovers),
)


def inspect_run(folder: Path, on_check: Callable[[int, str], None] = lambda number, name: None) -> Generator[Outcome, None, None]:
    """Make every check of a run folder and yield what each found, as soon as it is known; nothing is written there.

    Args:
        folder: the run folder.
        on_check: told (number, name) before a check begins.

    Raises:
        RunFolderError: `folder` is no run folder.
    """
    run = RunFiles(folder)
    try:
        yield from in_order(CHECKS, run, on_check)
    finally:
        run.close()
