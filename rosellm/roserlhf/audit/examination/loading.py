"""What was named -> a `Subject`: a run folder, one of its checkpoints, or a folder in the Hugging Face layout."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

from tokenizers import Tokenizer

from rosellm.roserlhf import recipes
from rosellm.roserlhf.audit.examination.subject import Subject
from rosellm.roserlhf.environment.named import environment_class
from rosellm.roserlhf.errors import ConfigError, RunFolderError
from rosellm.roserlhf.models.pretrained import load_model
from rosellm.roserlhf.trainer.evaluate import find_checkpoint
from rosellm.roserlhf.trainer.folder import RUN
from rosellm.roserlhf.trainer.model import restored_model
from rosellm.roserlhf.trainer.recipe import Recipe
from rosellm.roserlhf.trainer.world import World

POSITIONS = 256
"""Longest sequence where no environment says how long one may be."""


def load_subject(folder: Path, environment: str | None = None, on_skip: Callable[[str], None] = lambda why: None) -> Subject:
    """Load who is to be examined.

    Args:
        folder: a run folder (its newest whole checkpoint is taken), one of its `checkpoints/<step>`, or a folder with
            `config.json`, safetensors and `tokenizer.json`.
        environment: a built-in name or an import path; default: the run's own, and none for a folder that belongs to no run.
        on_skip: is told of each newer checkpoint that cannot be used, and why.

    Returns:
        The subject. If the environment cannot be played with the model's tokenizer, it has no world and says why.

    Raises:
        RunFolderError: nothing of the three is there.
        CheckpointError: the weights cannot be used.
        ConfigError: `environment` names none, or run.toml is wrong.
    """
    if not (folder / RUN).is_file() and (folder / "config.json").is_file():
        return _pretrained(folder, environment)
    try:
        run_folder, checkpoint, skipped = find_checkpoint(folder)
    except RunFolderError as error:
        raise RunFolderError(
            f"model must be a run folder, one of its checkpoints/<step> or a folder with config.json, got {folder}"
        ) from error
    for why in skipped:
        on_skip(why)
    recipe = _on_cpu(recipes.load_recipe(run_folder / RUN))
    world, why_not = _world(recipe, environment or recipe.config.environment, run_folder / "tokenizer")
    return Subject(restored_model(recipe.config, checkpoint, "cpu"), f"v{checkpoint.step}", recipe, world, why_not)


def _pretrained(folder: Path, environment: str | None) -> Subject:
    run = folder.resolve().parent / RUN
    recipe = _on_cpu(recipes.load_recipe(run)) if run.is_file() else recipes.grpo()
    name = environment or (recipe.config.environment if run.is_file() else None)
    world, why_not = (None, "no environment was named: --env NAME") if name is None else _world(recipe, name, folder)
    model = load_model(folder)
    if world is None:
        model.config.max_position_embeddings = min(model.config.max_position_embeddings, POSITIONS)
    return Subject(model, "pretrained", recipe, world, why_not)


def _on_cpu(recipe: Recipe) -> Recipe:
    return dataclasses.replace(recipe, config=recipe.config.model_copy(update={"device": "cpu"}))


def _world(recipe: Recipe, environment: str, tokenizer: Path) -> tuple[World | None, str]:
    """Build the world of an environment, or say why the model's tokenizer cannot speak in it."""
    world = World.build(recipe.config, "doctor", environment_class(environment))
    path = tokenizer / "tokenizer.json"
    if not path.is_file():
        return None, f"{environment} cannot be played: there is no {path} that says what the model's ids mean"
    try:
        own = Tokenizer.from_file(str(path)).get_vocab()
    except Exception as error:  # the library raises nothing narrower
        raise ConfigError(f"{path} must be a tokenizer, got {error}") from error
    needed = world.tokenizer.get_vocab()
    if own == needed:
        return world, ""
    missing = sorted(set(needed) - set(own))
    lacks = (
        f"lacks {', '.join(map(repr, missing[:4]))}{' …' if len(missing) > 4 else ''}"
        if missing
        else "numbers its pieces otherwise"
    )
    return None, f"{environment} cannot be played: the model's tokenizer {lacks}; examine a run that was trained in it"
