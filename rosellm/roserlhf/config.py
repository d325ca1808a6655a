"""Run files: frozen models that refuse unknown keys; `TOML or options -> Config -> TOML`, and one wording for what is wrong.

A key is written with dots, `collect.group_size`, as it stands in TOML. Nothing here imports torch:
a misspelled key is answered at once.
"""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.fields import FieldInfo

from rosellm.roserlhf.errors import ConfigError

ABOUT = "about"
"""The one table of a run file that is no option: versions and hashes, written for readers."""


class Config(BaseModel):
    """Base of every configuration: frozen, strict in types, numbers finite, unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, validate_default=True, allow_inf_nan=False)


C = TypeVar("C", bound=Config)


def fields_of(kind: type[Config]) -> Iterator[tuple[str, FieldInfo]]:
    """Yield every option of a configuration as (dotted key, field), nested sections opened, in order of definition."""
    for name, field in kind.model_fields.items():
        if is_section(field):
            yield from ((f"{name}.{key}", inner) for key, inner in fields_of(section_of(field)))
        else:
            yield name, field


def is_section(field: FieldInfo) -> bool:
    """Tell whether a field is a nested configuration."""
    return isinstance(field.annotation, type) and issubclass(field.annotation, Config)


def section_of(field: FieldInfo) -> type[Config]:
    """Return the class of a nested configuration."""
    assert isinstance(field.annotation, type)
    assert issubclass(field.annotation, Config)
    return field.annotation


def build(kind: type[C], options: Mapping[str, Any], *, elsewhere: Mapping[str, type[Config]] | None = None) -> C:
    """Validate options into a configuration.

    Args:
        kind: the configuration to build.
        options: fields by name; sections as mappings or as their configuration objects.
        elsewhere: other configurations by the name of their recipe, searched when a key is unknown here.

    Raises:
        ConfigError: the first thing that is wrong, in one line: the key, the requirement, the value, and the nearest key.
    """
    try:
        return kind.model_validate(dict(options))
    except ValidationError as error:
        raise ConfigError(_explain(error, kind, elsewhere or {})) from None


def _explain(error: ValidationError, kind: type[Config], elsewhere: Mapping[str, type[Config]]) -> str:
    problems = error.errors(include_url=False)
    unknown = [p for p in problems if p["type"] == "extra_forbidden"]
    first = (unknown or problems)[0]
    key = ".".join(str(part) for part in first["loc"])
    if unknown:
        message = unknown_key(key, kind, elsewhere)
    elif first["type"] == "value_error":  # raised by a validator of ours, which names its argument itself
        message = ".".join(filter(None, [key, str(first["ctx"]["error"])]))
    else:
        value = first["input"]
        message = f"{key} must {re.sub('^.* should ', '', first['msg'])}, got {value!r} ({type(value).__name__})"
    more = len(problems) - 1
    return message + (f" (and {more} more wrong)" if more else "")


def unknown_key(
    key: str,
    kind: type[Config],
    elsewhere: Mapping[str, type[Config]] | None = None,
    *,
    others: Sequence[str] = (),
    spell: Callable[[str], str] = str,
) -> str:
    """Say that a key is unknown and what was probably meant: another spelling, another recipe's option, or the nearest key.

    Args:
        key: the key, dotted.
        kind: the configuration that does not have it.
        elsewhere: other configurations by the name of their recipe.
        others: names that are known too, without being fields (the command line's own options).
        spell: how the user writes a key.
    """
    wanted = key.replace("-", "_")
    known = [*others, *(name for name, _ in fields_of(kind))]
    if wanted in known:
        return f"unknown key {key}; it is spelled {spell(wanted)}"
    owners = [name for name, other in (elsewhere or {}).items() if wanted in dict(fields_of(other))]
    if owners:
        several = f"s {', '.join(owners[:-1])} and" if len(owners) > 1 else ""
        return f"{spell(key)} is an option of recipe{several} {owners[-1]}; {_recipe_name(kind)} does not use it"
    near = [spell(name) for name in nearest(wanted, known)]
    return f"unknown key {spell(key)}; " + (f"did you mean {' or '.join(near)}?" if near else "no known key resembles it")


def _recipe_name(kind: type[Config]) -> str:
    field = kind.model_fields.get("recipe")
    return f"recipe {field.default}" if field is not None else kind.__name__


def nearest(key: str, known: Sequence[str]) -> list[str]:
    """Return the one or two known keys that resemble `key` most, by their whole name or by their last part; empty if none does."""
    leaf = key.rpartition(".")[2]

    def likeness(candidate: str) -> tuple[float, float]:
        last = candidate.rpartition(".")[2]
        return difflib.SequenceMatcher(None, leaf, last).ratio(), difflib.SequenceMatcher(None, key, candidate).ratio()

    ranked = sorted(((likeness(name), name) for name in known), reverse=True)
    close = [(score, name) for score, name in ranked if max(score) >= 0.6]
    return [name for score, name in close[:2] if score[0] == close[0][0][0]]


def load_toml(path: Path) -> dict[str, Any]:
    """Read a run file into nested options; its `about` table, which decides nothing, is left out.

    Raises:
        ConfigError: there is no such file, or it is not TOML.
    """
    try:
        options = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"config file must be readable, got {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"config file must be TOML, got {path}: {error}") from error
    options.pop(ABOUT, None)
    return options


def dump_toml(config: Config, *, about: Mapping[str, str | int | float | bool] | None = None) -> str:
    """Write a configuration as TOML with each field's description as a comment; `load_toml` and `build` give back an equal one.

    Args:
        config: any configuration.
        about: facts for the reader (versions, hashes); they go to the table `about`, which is no option.
    """
    lines = _table(config, "")
    if about:
        lines += ["", f"[{ABOUT}]", *(f"{_toml(name)} = {_toml(value)}" for name, value in about.items())]
    return "\n".join(lines).strip() + "\n"


def _table(config: Config, prefix: str) -> list[str]:
    """Plain fields first and sections after them: in TOML a key belongs to the last table opened."""
    plain, sections = [], []
    for name, field in type(config).model_fields.items():
        value = getattr(config, name)
        if isinstance(value, Config):
            sections += ["", f"[{prefix}{name}]", *_table(value, f"{prefix}{name}.")]
        elif value is not None:  # TOML has no null: an absent key means the default, None
            entry = f"{name} = {_toml(value)}"
            plain.append(f"{entry:<31} # {field.description}" if field.description else entry)
    return plain + sections


def _toml(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case str():
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case list() | tuple():
            return "[" + ", ".join(_toml(item) for item in value) + "]"
    raise ConfigError(f"a configuration value must be text, a number, true, false or a list of them, got {value!r}")
