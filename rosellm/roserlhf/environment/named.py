"""Environments by name: the built-in ones, or `module:Class` for one's own."""

from __future__ import annotations

import difflib
import importlib
import inspect

from rosellm.roserlhf import checks
from rosellm.roserlhf.environment.base import ToolEnvironment
from rosellm.roserlhf.errors import ConfigError, MissingExtraError

BUILT_IN = {
    "shop": "rosellm.roserlhf.environment.shop:Shop",
    "arithmetic": "rosellm.roserlhf.environment.arithmetic:Arithmetic",
    "kitchen": "rosellm.roserlhf.environment.kitchen:Kitchen",
    "repair": "rosellm.roserlhf.environment.repair:Repair",
    "bfcl": "rosellm.roserlhf.environment.bfcl.environment:Bfcl",
}
REASONING_GYM = "reasoning-gym"
KNOWN = (*BUILT_IN, f"{REASONING_GYM}:<dataset>")


def environment_class(name: str) -> type[ToolEnvironment]:
    """Find an environment class.

    Args:
        name: a built-in name, `reasoning-gym:` with the name of a data set, or the import path `package.module:Class`.

    Raises:
        ConfigError: no such name (the nearest is named), no such module or class, or a class that is no whole `ToolEnvironment`.
        MissingExtraError: the environment needs a package that is not installed.

    Example:
        >>> environment_class("arithmetic").__name__
        'Arithmetic'
    """
    module_name, colon, class_name = BUILT_IN.get(name, name).partition(":")
    if module_name == REASONING_GYM:
        from rosellm.roserlhf.environment.reasoning_gym import dataset_environment  # needs an extra

        return dataset_environment(class_name)
    if not (module_name and colon and class_name):
        near = difflib.get_close_matches(name, [*BUILT_IN, REASONING_GYM], n=1, cutoff=0.4)
        known = f"be one of {', '.join(KNOWN)} or an import path module:Class"
        raise checks.fail(ConfigError, "environment", known, repr(name), fix=f"did you mean {near[0]}?" if near else None)
    try:
        found = getattr(importlib.import_module(module_name), class_name)
    except MissingExtraError:
        raise
    except Exception as error:  # importing runs code of the user's, which may raise anything
        elsewhere = isinstance(error, ModuleNotFoundError) and error.name == module_name.partition(".")[0]
        fix = "call from the folder that holds it, or name that folder in PYTHONPATH" if elsewhere else None
        raise checks.fail(
            ConfigError, "environment", "be importable", f"{name!r}: {type(error).__name__}: {error}", fix=fix
        ) from error
    if not (isinstance(found, type) and issubclass(found, ToolEnvironment)):
        raise checks.fail(ConfigError, "environment", "be a subclass of ToolEnvironment", repr(name))
    if inspect.isabstract(found):
        missing = ", ".join(sorted(found.__abstractmethods__))
        raise checks.fail(ConfigError, "environment", f"define {missing}", f"{name!r} without")
    return found
