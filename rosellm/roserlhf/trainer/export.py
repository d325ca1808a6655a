"""A run folder -> a folder in the Hugging Face layout: the policy of a checkpoint, whole or as adapters, with its tokenizer."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Literal

from rosellm.roserlhf import checks
from rosellm.roserlhf.config import build, load_toml
from rosellm.roserlhf.errors import ConfigError, RunFolderError
from rosellm.roserlhf.models.adapters import export_adapters, has_adapters
from rosellm.roserlhf.models.causal import export_model
from rosellm.roserlhf.models.pretrained import tokenizer_of
from rosellm.roserlhf.trainer.checkpoint import load_checkpoint
from rosellm.roserlhf.trainer.config import TrainConfig
from rosellm.roserlhf.trainer.disk import writing
from rosellm.roserlhf.trainer.evaluate import find_checkpoint
from rosellm.roserlhf.trainer.folder import CHECKPOINTS, RUN
from rosellm.roserlhf.trainer.model import restored_model
from rosellm.roserlhf.trainer.place import require_free


def export_run(run: Path, out: Path, *, adapters: Literal["merged", "apart"] = "merged", step: int | None = None) -> int:
    """Write the policy of a run as `AutoModelForCausalLM`, `AutoTokenizer` and, for adapters apart, `PeftModel` load it.

    Args:
        run: a run folder or one of its `checkpoints/<step>`; of a run, the newest whole checkpoint is taken.
        out: a new or empty folder; it is there whole or not at all.
        adapters: of a run with adapters, write the merged model or the adapters alone.
        step: take this checkpoint.

    Returns:
        The step of the checkpoint.

    Raises:
        RunFolderError: no run there, `out` is taken or cannot be written.
        CheckpointError: no whole checkpoint, or one of another model.
        ConfigError: adapters are to be written apart, and the run has none.
    """
    require_free(out)
    if step is None:
        folder, checkpoint, _ = find_checkpoint(run)
    elif (run / RUN).is_file():
        folder, checkpoint = run, load_checkpoint(run / CHECKPOINTS / str(step))
    else:
        raise checks.fail(RunFolderError, "RUN", "be a run folder for a step to be chosen", str(run))
    options = load_toml(folder / RUN)
    config = build(TrainConfig, {name: options[name] for name in TrainConfig.model_fields if name in options})
    if adapters == "apart" and not config.model.lora:
        raise checks.fail(ConfigError, "adapters", "be merged for a run without adapters", "apart")
    tokenizer = tokenizer_of(folder / "tokenizer")
    model = restored_model(config, checkpoint, "cpu")
    aside = out.parent / f".{out.name}.tmp"
    with writing(out):
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir(parents=True)
        try:
            if adapters == "apart" and has_adapters(model):
                export_adapters(model, aside, source=config.model.source)
            else:
                export_model(model, aside)
            tokenizer.save_pretrained(aside)
            aside.replace(out)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    return checkpoint.step
