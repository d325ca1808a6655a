"""Files of a run folder, written whole or not at all, and one sentence that names the file where the disk refuses it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from safetensors import SafetensorError

from rosellm.roserlhf.errors import RunFolderError


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn what goes wrong while `path` is written, by ourselves or by a library, into one sentence.

    Raises:
        RunFolderError: it cannot be written.
    """
    try:
        yield
    except OSError as error:
        raise RunFolderError(f"{path} cannot be written: {error.strerror or error}") from error
    except SafetensorError as error:
        raise RunFolderError(f"{path} cannot be written: {error}") from error
    except Exception as error:
        if type(error) is not Exception:  # what tokenizers raises when the disk refuses has no class of its own
            raise
        raise RunFolderError(f"{path} cannot be written: {error}") from error


def write_whole(path: Path, text: str) -> None:
    """Write a file whole or not at all.

    Raises:
        RunFolderError: it cannot be written; what was there before is as it was.
    """
    aside = path.with_name(f".{path.name}.tmp")
    with writing(path):
        try:
            with aside.open("w", encoding="utf-8") as handle:
                handle.write(text)
                handle.flush()
                os.fsync(handle.fileno())
            os.replace(aside, path)
        except BaseException:
            aside.unlink(missing_ok=True)
            raise


def append_lines(path: Path, text: str) -> None:
    """Add lines to a file.

    Raises:
        RunFolderError: it cannot be written; a part of them may be.
    """
    with writing(path), path.open("a", encoding="utf-8") as lines:
        lines.write(text)
