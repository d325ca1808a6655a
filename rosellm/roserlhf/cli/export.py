"""`roserlhf export`: a run -> its records, ledger and other tables as Parquet or JSON lines, or its model for `transformers`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field

from rosellm.roserlhf.cli.options import Flag, option_help, parse
from rosellm.roserlhf.config import Config, build
from rosellm.roserlhf.errors import ConfigError, RunFolderError
from rosellm.roserlhf.store.export.folder import Counts
from rosellm.roserlhf.store.reading import EventReader

FLAGS = {
    "out": Flag("folder to write to [RUN/trajectories, for a model RUN/hf]", "DIR"),
    "step": Flag("only records of this step; of a model, this checkpoint", "N"),
    "phase": Flag("only records of this phase, such as train", "NAME"),
    "overwrite": Flag("replace an earlier export in that folder"),
    "help": Flag("this list"),
}


class ExportOptions(Config):
    """What is written."""

    to: Literal["parquet", "jsonl", "hf"] = Field(default="parquet", description="records in one of two formats, or the model")
    adapters: Literal["merged", "apart"] = Field(
        default="merged", description="with --to hf: in the model, or alone, as peft reads"
    )


def run(argv: Sequence[str]) -> int:
    """Export as the command line says; return the exit code."""
    parsed = parse(argv, ExportOptions, flags=FLAGS, operands=("RUN",))
    if "help" in parsed.flags:
        print(f"usage: roserlhf export RUN [OPTIONS]\n\n{option_help(ExportOptions, FLAGS)}", end="")
        return 0
    options = build(ExportOptions, parsed.options)
    run_folder, step = Path(parsed.operands[0]), _step(parsed.flags.get("step"))
    if options.to == "hf":
        return _export_model(run_folder, parsed.flags, options.adapters, step)
    if "adapters" in parsed.options:
        raise ConfigError(f"--adapters must stand with --to hf, got it with --to {options.to}")
    if options.to == "parquet":
        from rosellm.roserlhf.store.export.parquet import export_parquet as write
    else:
        from rosellm.roserlhf.store.export.lines import export_jsonl as write
    log_path = event_log(run_folder)
    out = Path(parsed.flags.get("out") or log_path.parent / "trajectories")
    with EventReader.read(log_path) as log:
        counts = write(log, out, step=step, phase=parsed.flags.get("phase"), overwrite="overwrite" in parsed.flags)
    print(f"{out}: {described(counts)}")
    return 0


def _export_model(run_folder: Path, flags: Mapping[str, str], adapters: Literal["merged", "apart"], step: int | None) -> int:
    for name in ("phase", "overwrite"):
        if name in flags:
            raise ConfigError(f"--{name} must stand with records, got it with --to hf")
    from rosellm.roserlhf.trainer.export import export_run

    out = Path(flags.get("out") or run_folder / "hf")
    step = export_run(run_folder, out, adapters=adapters, step=step)
    print(f"{out}: the model of step {step}" if adapters == "merged" else f"{out}: the adapters of step {step}")
    return 0


def event_log(run: Path) -> Path:
    """Find the event log of a run folder; a log itself is one."""
    path = run / "events.db" if run.is_dir() else run
    if not path.is_file():
        raise RunFolderError(f"RUN must be a run folder or an event log, got {run}, which holds no events.db")
    return path


def described(counts: Counts) -> str:
    """Say how much it is."""
    return f"{counts.rows['trajectories']:,} records, {counts.tokens:,} tokens; " + ", ".join(
        f"{count:,} {table}" for table, count in counts.rows.items() if table != "trajectories"
    )


def _step(text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isdecimal() or not text.isascii():
        raise ConfigError(f"--step must be a whole number, got {text!r:.80}")
    return int(text)
