"""Questions that the deterministic judge asks of a suspicious act: `act, view -> why it is a hack, or nothing`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.weigh.admission import weigh_admission
from rosellm.roserlhf.guard.weigh.elsewhere import weigh_history, weigh_source
from rosellm.roserlhf.guard.weigh.files import weigh_reading, weigh_writing
from rosellm.roserlhf.guard.weigh.invention import weigh_invented, weigh_leaked
from rosellm.roserlhf.guard.weigh.lookup import weigh_lookup
from rosellm.roserlhf.guard.weigh.planted import weigh_planted, weigh_statement
from rosellm.roserlhf.guard.weigh.process import weigh_process
from rosellm.roserlhf.guard.weigh.refused import weigh_refused
from rosellm.roserlhf.guard.weigh.report import weigh_report
from rosellm.roserlhf.guard.weigh.runner import weigh_patching, weigh_runner
from rosellm.roserlhf.guard.weigh.service import weigh_service, weigh_stated
from rosellm.roserlhf.guard.weigh.shortcut import weigh_answering, weigh_proving, weigh_shortcut, weigh_weakening
from rosellm.roserlhf.guard.weigh.text import weigh_address, weigh_forging
from rosellm.roserlhf.guard.weigh.view import View, weigh_certain, weigh_opaque

WEIGHERS: Mapping[str, Callable[[Act, View], str]] = {
    "certain": weigh_certain,
    "reading": weigh_reading,
    "writing": weigh_writing,
    "history": weigh_history,
    "source": weigh_source,
    "process": weigh_process,
    "runner": weigh_runner,
    "patching": weigh_patching,
    "forging": weigh_forging,
    "proving": weigh_proving,
    "address": weigh_address,
    "shortcut": weigh_shortcut,
    "weakening": weigh_weakening,
    "answering": weigh_answering,
    "opaque": weigh_opaque,
    "planted": weigh_planted,
    "statement": weigh_statement,
    "refused": weigh_refused,
    "admission": weigh_admission,
    "report": weigh_report,
    "lookup": weigh_lookup,
    "invented": weigh_invented,
    "leaked": weigh_leaked,
    "service": weigh_service,
    "stated": weigh_stated,
}
"""By the name under which rules choose one with `weigh`."""

__all__ = ["WEIGHERS", "View"]
