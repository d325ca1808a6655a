"""Recipes by name: `options or run file -> configuration -> Recipe`.

Choosing by name happens here and on the command line only; the mathematics receives callables. torch is first imported when a
configuration is bound, so a run file can be read, checked and printed without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from rosellm.roserlhf import config as configs
from rosellm.roserlhf.errors import ConfigError
from rosellm.roserlhf.trainer.config import TrainConfig
from rosellm.roserlhf.trainer.recipe import Recipe


class RecipeConfig(TrainConfig):
    """Everything that decides what a run computes, with the options of one algorithm."""

    def bind(self) -> Recipe:
        """Join the callables of the algorithm, with these options bound to them; this is where torch is imported."""
        raise NotImplementedError


RECIPES: dict[str, type[RecipeConfig]] = {}
"""The configuration class of every recipe, by name."""

_C = TypeVar("_C", bound=RecipeConfig)


def named(kind: type[_C]) -> type[_C]:
    """Let a recipe be found by the default of its field `recipe`."""
    RECIPES[kind.model_fields["recipe"].default] = kind
    return kind


def build(kind: type[RecipeConfig], options: Mapping[str, Any]) -> Recipe:
    """Validate the options of one recipe and bind them.

    Raises:
        ConfigError: as `config.build` says.
    """
    return recipe_from(options_to_config({**options, "recipe": kind.model_fields["recipe"].default}))


def recipe_from(config: TrainConfig) -> Recipe:
    """Bind a configuration to the callables of its recipe; this is where torch is imported.

    Raises:
        ConfigError: it is not the configuration of a recipe.
    """
    if not isinstance(config, RecipeConfig):
        raise ConfigError(f"config must be the configuration of a recipe, got {type(config).__name__}")
    return config.bind()


def kind_of(name: object) -> type[RecipeConfig]:
    """Return the configuration class of a recipe.

    Raises:
        ConfigError: there is no recipe of that name.
    """
    if not isinstance(name, str) or name not in RECIPES:
        near = configs.nearest(str(name), tuple(RECIPES))
        raise ConfigError(
            f"recipe must be one of {', '.join(RECIPES)}, got {name!r}" + (f"; did you mean {near[0]}?" if near else "")
        )
    return RECIPES[name]


def other_kinds(kind: type[TrainConfig]) -> dict[str, type[TrainConfig]]:
    """Return the configuration classes of all recipes but one, to tell whose option a key is that this one does not have."""
    return {name: other for name, other in RECIPES.items() if other is not kind}


def options_to_config(options: Mapping[str, Any]) -> RecipeConfig:
    """Validate the options of the recipe that they name, `grpo` if they name none.

    Raises:
        ConfigError: as `config.build` says.
    """
    kind = kind_of(options.get("recipe", "grpo"))
    return configs.build(kind, options, elsewhere=other_kinds(kind))


def load_recipe(path: Path) -> Recipe:
    """Read a run file (`run.toml` of a run folder, or one written by hand) and bind it.

    Raises:
        ConfigError: the file cannot be read, or something in it is wrong.
    """
    return recipe_from(options_to_config(configs.load_toml(path)))
