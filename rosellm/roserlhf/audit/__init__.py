"""Is my mask shifted, is my ratio really one, why did this token move? `a batch or a run folder -> findings, with their causes`.

Importing the package imports nothing heavy: a public name is loaded from the module that owns it when it is first used (PEP 562).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rosellm.roserlhf.audit.batch.check_batch import check_batch as check_batch
    from rosellm.roserlhf.audit.explanation.explain import Explanation as Explanation
    from rosellm.roserlhf.audit.explanation.explain import explain as explain
    from rosellm.roserlhf.audit.findings import Finding as Finding
    from rosellm.roserlhf.audit.findings import Report as Report
    from rosellm.roserlhf.audit.findings import Severity as Severity
    from rosellm.roserlhf.audit.rerun.environment import EnvironmentReplay as EnvironmentReplay
    from rosellm.roserlhf.audit.rerun.environment import replay_environment as replay_environment
    from rosellm.roserlhf.audit.rerun.replay import Replay as Replay
    from rosellm.roserlhf.audit.rerun.replay import replay as replay

_OWNERS = {
    "EnvironmentReplay": "rerun.environment",
    "Explanation": "explanation.explain",
    "Finding": "findings",
    "Replay": "rerun.replay",
    "Report": "findings",
    "Severity": "findings",
    "check_batch": "batch.check_batch",
    "explain": "explanation.explain",
    "replay": "rerun.replay",
    "replay_environment": "rerun.environment",
}
"""Public names by the module that owns them."""

__all__ = sorted(_OWNERS)


if not TYPE_CHECKING:  # else a checker would accept every misspelled name

    def __getattr__(name: str) -> Any:
        if name not in _OWNERS:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"{__name__}.{_OWNERS[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
