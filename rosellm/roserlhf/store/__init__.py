"""Records at rest: the event log of a run and the ledger of its attempts."""

from rosellm.roserlhf.store.events import EventLog, Metrics, Policy, StoredTrajectory
from rosellm.roserlhf.store.ledger import Ledger, LedgerEntry, State, TokenCounts

__all__ = ["EventLog", "Ledger", "LedgerEntry", "Metrics", "Policy", "State", "StoredTrajectory", "TokenCounts"]
