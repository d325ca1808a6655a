"""`roserlhf eval`: a run or one of its checkpoints -> success and pass@k on held-out tasks, with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import Field
from rich.console import Console

from rosellm.roserlhf.cli.display import show_evaluation
from rosellm.roserlhf.cli.options import Flag, option_help, parse
from rosellm.roserlhf.config import Config, build

FLAGS = {"help": Flag("this list")}


class EvaluateOptions(Config):
    """What is sampled to measure a policy."""

    tasks: int = Field(default=1024, ge=1, description="held-out tasks")
    samples: int = Field(default=8, ge=1, description="sampled episodes per task; pass@k for k = 1, 2, 4 … up to it")
    temperature: float = Field(default=1.0, gt=0, description="of the sampled episodes; greedy ones are measured too")
    seed: int = Field(default=0, ge=0, description="of the sampling; the tasks are those that the run holds out")


def run(argv: Sequence[str]) -> int:
    """Evaluate as the command line says; return the exit code."""
    parsed = parse(argv, EvaluateOptions, flags=FLAGS, operands=("RUN_OR_CHECKPOINT",))
    if "help" in parsed.flags:
        print(f"usage: roserlhf eval RUN_OR_CHECKPOINT [OPTIONS]\n\n{option_help(EvaluateOptions, FLAGS)}", end="")
        return 0
    options = build(EvaluateOptions, parsed.options)
    folder = Path(parsed.operands[0])

    from rosellm.roserlhf.trainer.evaluate import evaluate_run  # loads torch

    console = Console(highlight=False, soft_wrap=True, markup=False, emoji=False)
    console.print(f"{folder}: {options.tasks} held-out tasks, {options.samples} sampled episodes and a greedy one each")
    result = evaluate_run(folder, **options.model_dump())
    for reason in result["skipped"]:
        console.print(reason)
    show_evaluation(console, result)
    return 0
