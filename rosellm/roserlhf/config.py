"""Run files: frozen models that refuse unknown keys; loaded from TOML, dumped to TOML, errors that name the nearest key."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Config(BaseModel):
    """Base of every configuration: frozen, strict in types, unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, validate_default=True)
