"""`python -m loop_rank_faults FOLDER RANK`: a rank of step 8 with the fault that the environment variable `RANK_FAULT` names."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any


def count_locally(folder: Path, index: int) -> None:
    """Divide by the tokens of this rank alone, as whoever forgets the process group does."""
    from rosellm.roserlhf.audit.examination import rank
    from rosellm.roserlhf.losses import step_denominator

    def local(masks: Any, mode: Any, group: Any) -> Any:
        return step_denominator(masks, mode)

    vars(rank)["step_denominator"] = local
    rank.run_rank(folder, index)


def run(folder: Path, index: int) -> None:
    """Do what the fault does."""
    fault = os.environ["RANK_FAULT"]
    if fault == "local":
        count_locally(folder, index)
    elif fault == "dies" and index == 1:
        raise SystemExit("out of luck")
    else:
        time.sleep(60)


if __name__ == "__main__":
    run(Path(sys.argv[1]), int(sys.argv[2]))
