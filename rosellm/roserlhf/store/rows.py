"""What is read from an event log: one class per table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rosellm.roserlhf.record.plain import Json
from rosellm.roserlhf.store.encoding import Packed
from rosellm.roserlhf.trajectory import Ending, Trajectory


@dataclass(frozen=True, slots=True)
class StoredTrajectory:
    """A record and where it stands in the run."""

    step: int
    """Training step."""
    phase: str
    """What it was collected for: `train`, `evaluate`, ..."""
    trajectory: Trajectory
    """The record, sealed."""
    superseded: bool = False
    """True if its step was run again."""


@dataclass(frozen=True, slots=True)
class TrajectorySummary:
    """What credit and accounting ask of a record, read from columns without decoding the record."""

    trajectory_id: str
    """The record."""
    task_id: str
    """Its task."""
    group_id: str | None
    """Its group; None if it is no member of one."""
    phase: str
    """What it was collected for."""
    step: int
    """Training step."""
    sampled_tokens: int
    """Tokens sampled in it."""
    policy_versions: tuple[str, ...]
    """Every version that sampled a token, in order of appearance."""
    rewards: Mapping[str, float | None]
    """Total of each named component; None if it is not scored."""
    unscored: bool
    """True if the infrastructure failed: it leaves baselines and denominators."""
    ending: Ending | None
    """How it ends; None while it is open."""
    digest: bytes
    """SHA-256 of its bytes at rest."""
    superseded: bool = False
    """True if its step was run again."""


@dataclass(frozen=True, slots=True)
class PackedTrajectory:
    """A record as its parts, not yet built: what an export needs."""

    summary: TrajectorySummary
    """Its columns."""
    packed: Packed
    """Its skeleton and arrays."""


@dataclass(frozen=True, slots=True)
class Policy:
    """One row of the policy table; the order of the rows is the order of versions."""

    version: str
    """Opaque name."""
    step: int
    """Step that made it."""
    parent: str | None = None
    """Version it was made from."""
    content_hash: str | None = None
    """Hash of the weights."""
    superseded: bool = False
    """True if its step was run again."""


@dataclass(frozen=True, slots=True)
class Metrics:
    """Named values of one step and phase."""

    phase: str
    """What was measured."""
    step: int
    """Training step."""
    values: Mapping[str, Json]
    """Values by name, NaN and infinities included."""
    superseded: bool = False
    """True if its step was run again."""
