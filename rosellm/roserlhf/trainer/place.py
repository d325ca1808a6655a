"""Where a new run may go; light, so that the command line can answer before torch is loaded and before it announces anything."""

from __future__ import annotations

from pathlib import Path

from rosellm.roserlhf.errors import RunFolderError


def require_free(folder: Path) -> None:
    """Require a place where nothing stands yet, or an empty folder.

    Raises:
        RunFolderError: something is there, or the place cannot be looked at.
    """
    try:
        taken = folder.exists() and (not folder.is_dir() or any(folder.iterdir()))
        blocked = next((parent for parent in folder.parents if parent.exists() and not parent.is_dir()), None)
    except OSError as error:
        raise RunFolderError(f"out must be a folder that can be read, got {folder}: {error}") from error
    if taken:
        raise RunFolderError(f"out must be a new or empty folder, got {folder}; choose another, or go on with a run by --resume")
    if blocked is not None:
        raise RunFolderError(f"out must be a folder that can be written, got {folder}: {blocked} is not a folder")
