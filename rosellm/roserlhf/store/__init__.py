"""Records at rest: the event log of a run, how its records hang together, and the ledger of its attempts."""

from rosellm.roserlhf.store.events import EventLog, Metrics, Policy, StoredTrajectory
from rosellm.roserlhf.store.forest import Forest
from rosellm.roserlhf.store.ledger import Ledger, LedgerEntry, State, TokenCounts

__all__ = ["EventLog", "Forest", "Ledger", "LedgerEntry", "Metrics", "Policy", "State", "StoredTrajectory", "TokenCounts"]
