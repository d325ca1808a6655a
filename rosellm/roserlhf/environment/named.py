"""Environments by name: the built-in ones, or `module:Class` for one's own."""

from __future__ import annotations

import difflib
import importlib

from rosellm.roserlhf.environment.base import ToolEnvironment
from rosellm.roserlhf.errors import ConfigError

BUILT_IN = {"shop": "rosellm.roserlhf.environment.shop:Shop"}


def environment_class(name: str) -> type[ToolEnvironment]:
    """Find an environment class.

    Args:
        name: a built-in name, or the import path `package.module:Class`.

    Raises:
        ConfigError: no such name (the nearest is named), no such module or class, or a class that is no `ToolEnvironment`.
    """
    path = BUILT_IN.get(name, name)
    module_name, colon, class_name = path.partition(":")
    if not colon:
        near = difflib.get_close_matches(name, BUILT_IN, n=1, cutoff=0.4)
        hint = f"did you mean {near[0]}? " if near else ""
        known = ", ".join(BUILT_IN)
        raise ConfigError(f"environment must be one of {known} or an import path module:Class, got {name!r}; {hint}".rstrip("; "))
    try:
        found = getattr(importlib.import_module(module_name), class_name)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"environment must be importable, got {name!r}: {error}") from error
    if not (isinstance(found, type) and issubclass(found, ToolEnvironment)):
        raise ConfigError(f"environment must be a subclass of ToolEnvironment, got {name!r}")
    return found
