"""Records at rest: the event log of a run, how its records hang together, and the ledger of its attempts."""

from rosellm.roserlhf.store.events import EventLog
from rosellm.roserlhf.store.forest.forest import Forest
from rosellm.roserlhf.store.ledger import Ledger, LedgerEntry, LedgerSummary, State, TokenCounts
from rosellm.roserlhf.store.recovery import Recovery, recover
from rosellm.roserlhf.store.rows import Metrics, PackedTrajectory, Policy, StoredTrajectory, TrajectorySummary
from rosellm.roserlhf.store.updates import Update, UpdatedRow

__all__ = [
    "EventLog",
    "Forest",
    "Ledger",
    "LedgerEntry",
    "LedgerSummary",
    "Metrics",
    "PackedTrajectory",
    "Policy",
    "Recovery",
    "State",
    "StoredTrajectory",
    "TokenCounts",
    "TrajectorySummary",
    "Update",
    "UpdatedRow",
    "recover",
]
