"""Operands that name a run: `text of the command line -> run folder`, and one line where there is none."""

from __future__ import annotations

from pathlib import Path

from rosellm.roserlhf.errors import ConfigError

RUNS = Path("runs")
"""Where `train` puts a run that was given no place."""


def run_folder(operand: str) -> Path:
    """Require a run folder.

    Raises:
        ConfigError: there is none of that name; the message names what lies below ./runs.
    """
    folder = Path(operand)
    if (folder / "run.toml").is_file() or (folder / "events.db").is_file():
        return folder
    known = ", ".join(str(one) for one in run_folders(RUNS)[:5])
    fix = f"there are {known}" if known else "`roserlhf train` makes one"
    raise ConfigError(f"RUN must be a run folder (with run.toml or events.db), got {operand!r}; {fix}")


def run_folders(below: Path) -> list[Path]:
    """List the run folders directly below a folder, by name."""
    if not below.is_dir():
        return []
    return sorted(path for path in below.iterdir() if (path / "run.toml").is_file())
