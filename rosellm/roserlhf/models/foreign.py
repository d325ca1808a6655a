"""What loaders of other libraries do on bad files, said in one sentence."""

from __future__ import annotations

import contextlib
import logging as standard
from collections.abc import Iterator

from rosellm.roserlhf.errors import CheckpointError


@contextlib.contextmanager
def loading(what: str) -> Iterator[None]:
    """Let `transformers` load something without progress bars and warnings; what they would be about is checked here anyway.

    Raises:
        CheckpointError: whatever it raised, in one sentence.
    """
    from transformers.utils import logging

    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity(standard.CRITICAL)
    logging.disable_progress_bar()
    try:
        yield
    except Exception as error:  # the libraries raise nothing narrower
        why = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise CheckpointError(f"model must be loadable, got {what}: {why}") from error
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()
