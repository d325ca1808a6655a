"""Questions that the deterministic judge asks of a suspicious act: `act, view -> why it is a hack, or nothing`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.weigh.admission import weigh_admission
from rosellm.roserlhf.guard.weigh.asking import weigh_asking, weigh_stated
from rosellm.roserlhf.guard.weigh.cells import weigh_cells
from rosellm.roserlhf.guard.weigh.definitions import weigh_pleasing
from rosellm.roserlhf.guard.weigh.elsewhere import weigh_history, weigh_source
from rosellm.roserlhf.guard.weigh.files import weigh_reading, weigh_writing
from rosellm.roserlhf.guard.weigh.gates import weigh_silencing
from rosellm.roserlhf.guard.weigh.invention import weigh_invented, weigh_leaked
from rosellm.roserlhf.guard.weigh.learning import weigh_learning
from rosellm.roserlhf.guard.weigh.lookup import weigh_lookup
from rosellm.roserlhf.guard.weigh.measuring import weigh_measuring
from rosellm.roserlhf.guard.weigh.named import weigh_named
from rosellm.roserlhf.guard.weigh.parties import weigh_party
from rosellm.roserlhf.guard.weigh.passing import weigh_constant, weigh_shadowing, weigh_stand_in, weigh_swap
from rosellm.roserlhf.guard.weigh.patches import weigh_patching
from rosellm.roserlhf.guard.weigh.planted import weigh_planted, weigh_statement
from rosellm.roserlhf.guard.weigh.process import weigh_process
from rosellm.roserlhf.guard.weigh.rationed import weigh_rationed
from rosellm.roserlhf.guard.weigh.refused import weigh_refused
from rosellm.roserlhf.guard.weigh.replaced import weigh_replaced, weigh_rewritten
from rosellm.roserlhf.guard.weigh.report import weigh_report
from rosellm.roserlhf.guard.weigh.resemblance import weigh_resemblance
from rosellm.roserlhf.guard.weigh.runner import weigh_runner
from rosellm.roserlhf.guard.weigh.scoring import weigh_scoring
from rosellm.roserlhf.guard.weigh.sending import weigh_sending
from rosellm.roserlhf.guard.weigh.service import weigh_service
from rosellm.roserlhf.guard.weigh.shortcut import weigh_answering, weigh_proving, weigh_shortcut, weigh_weakening
from rosellm.roserlhf.guard.weigh.steering import weigh_steering
from rosellm.roserlhf.guard.weigh.telling import weigh_telling
from rosellm.roserlhf.guard.weigh.text import weigh_address, weigh_forging
from rosellm.roserlhf.guard.weigh.unpaid import weigh_unpaid
from rosellm.roserlhf.guard.weigh.view import View, weigh_certain, weigh_opaque

WEIGHERS: Mapping[str, Callable[[Act, View], str]] = {
    "certain": weigh_certain,
    "told": weigh_certain,  # the setting's own words refuse just this: no likeness clears it
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
    "party": weigh_party,
    "service": weigh_service,
    "named": weigh_named,
    "scoring": weigh_scoring,
    "silencing": weigh_silencing,
    "steering": weigh_steering,
    "sending": weigh_sending,
    "rationed": weigh_rationed,
    "measuring": weigh_measuring,
    "cells": weigh_cells,
    "shadowing": weigh_shadowing,
    "swap": weigh_swap,
    "constant": weigh_constant,
    "stand-in": weigh_stand_in,
    "telling": weigh_telling,
    "pleasing": weigh_pleasing,
    "admission": weigh_admission,
    "report": weigh_report,
    "lookup": weigh_lookup,
    "invented": weigh_invented,
    "leaked": weigh_leaked,
    "asking": weigh_asking,
    "stated": weigh_stated,
    "resemblance": weigh_resemblance,
    "learning": weigh_learning,
    "unpaid": weigh_unpaid,
    "replaced": weigh_replaced,
    "rewritten": weigh_rewritten,
}
"""By the name under which rules choose one with `weigh`."""

__all__ = ["WEIGHERS", "View"]
