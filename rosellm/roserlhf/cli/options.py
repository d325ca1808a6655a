"""`argv -> flags, options, operands`: every field of a configuration is an option, written `--collect.group-size 4`.

Values are read as TOML reads them, text without quotes, so the shell and a run file mean the same and obey the same rules.
"""

from __future__ import annotations

import shutil
import textwrap
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from rosellm.roserlhf.config import Config, fields_of, is_section, section_of, unknown_key
from rosellm.roserlhf.errors import ConfigError

_DESCRIPTION_AT = 41
"""Column at which the descriptions of the help begin; they are wrapped to the terminal from there."""


@dataclass(frozen=True)
class Flag:
    """An option of a command that is no field of its configuration."""

    description: str
    metavar: str = ""
    """What its value is called; empty if it takes none."""


@dataclass
class Parsed:
    """What stood on a command line."""

    flags: dict[str, str] = field(default_factory=dict)
    """Flags by name without dashes; the value is "" where there is none."""
    options: dict[str, Any] = field(default_factory=dict)
    """Fields of the configuration, nested as in a run file."""
    operands: list[str] = field(default_factory=list)


def parse(
    argv: Sequence[str],
    kind: type[Config],
    *,
    flags: Mapping[str, Flag],
    operands: Sequence[str] = (),
    optional: Sequence[str] = (),
    elsewhere: Mapping[str, type[Config]] | None = None,
) -> Parsed:
    """Split a command line into flags, options of `kind` and operands; values are typed but not yet validated.

    Operands named in `optional` may be left out, the last first.

    Raises:
        ConfigError: an unknown option (the message names the nearest), a missing value, or an operand too many or too few.
    """
    fields = dict(fields_of(kind))
    parsed, rest = Parsed(), list(argv)
    while rest:
        word = rest.pop(0)
        if not word.startswith("--"):
            parsed.operands.append(word)
            continue
        name, equals, value = word[2:].partition("=")
        key = name.replace("-", "_")
        positive = key.removeprefix("no_")
        if key in flags:
            takes_value = bool(flags[key].metavar)
            if equals and not takes_value:
                raise ConfigError(f"--{name} takes no value, got {value!r}")
            parsed.flags[key] = "" if not takes_value else value if equals else _next(rest, name)
        elif key in fields and fields[key].annotation is bool:
            told = equals or (rest and rest[0] in ("true", "false"))
            _put(parsed.options, key, _typed(value if equals else rest.pop(0), fields[key]) if told else True)
        elif positive != key and positive in fields and fields[positive].annotation is bool and not equals:
            _put(parsed.options, positive, False)
        elif key in fields:
            _put(parsed.options, key, _typed(value if equals else _next(rest, name), fields[key]))
        else:
            message = unknown_key(name, kind, elsewhere, others=tuple(flags), spell=as_option)
            raise ConfigError(message.replace("unknown key", "unknown option"))
    if not 0 <= len(parsed.operands) - len(operands) <= len(optional) and "help" not in parsed.flags:
        wanted = " ".join([*operands, *(f"[{name}]" for name in optional)]) or "options only"
        raise ConfigError(f"arguments must be {wanted}, got {' '.join(parsed.operands) or 'none'}")
    return parsed


def as_option(key: str) -> str:
    """Write a dotted key as the option of the command line."""
    return "--" + key.replace("_", "-")


def _next(rest: list[str], name: str) -> str:
    if not rest or rest[0].startswith("--"):
        raise ConfigError(f"--{name} must be followed by a value, got {rest[0] if rest else 'nothing'}")
    return rest.pop(0)


def _put(options: dict[str, Any], key: str, value: Any) -> None:
    *sections, last = key.split(".")
    for section in sections:
        options = options.setdefault(section, {})
    options[last] = value


def _typed(text: str, about: FieldInfo) -> Any:
    if about.annotation is str or get_origin(about.annotation) is Literal:
        return text
    for read in (int, float, lambda word: tomllib.loads(f"value = {word}")["value"]):
        try:
            return read(text)
        except ValueError:
            continue
    return text


def merged(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Lay one nested mapping of options over another."""
    both = dict(under)
    for name, value in over.items():
        below = both.get(name)
        both[name] = merged(below, value) if isinstance(below, Mapping) and isinstance(value, Mapping) else value
    return both


def option_help(kind: type[Config], flags: Mapping[str, Flag]) -> str:
    """List the flags of a command and the fields of its configuration, a line each, grouped by section."""
    lines = [_line(as_option(name), flag.metavar, flag.description, "") for name, flag in flags.items()]
    return "\n".join(["options:", *lines, *_section_help(kind, "", hidden=tuple(flags))]) + "\n"


def _section_help(kind: type[Config], prefix: str, hidden: Sequence[str] = ()) -> list[str]:
    plain, sections = [], []
    for name, about in kind.model_fields.items():
        if name in hidden:
            continue
        if is_section(about):
            section = section_of(about)
            summary = (section.__doc__ or name).strip().splitlines()[0]
            sections += ["", *_wrapped(f"{prefix}{name}: {summary}"), *_section_help(section, f"{prefix}{name}.")]
        else:
            plain.append(_line(as_option(prefix + name), _metavar(about), about.description or "", _default(about)))
    return plain + sections


def _line(option: str, metavar: str, description: str, default: str) -> str:
    left = f"  {option} {metavar}".rstrip()
    margin = " " * _DESCRIPTION_AT
    right = _wrapped(description + default, _DESCRIPTION_AT)
    if len(left) >= _DESCRIPTION_AT:
        return "\n".join([left, *(margin + line for line in right)])
    return "\n".join([f"{left:<{_DESCRIPTION_AT - 1}} {right[0]}", *(margin + line for line in right[1:])]) if right else left


def _wrapped(text: str, indent: int = 0) -> list[str]:
    width = max(30, shutil.get_terminal_size().columns - indent)
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)


def _metavar(about: FieldInfo) -> str:
    if get_origin(about.annotation) is Literal:
        return "|".join(str(choice) for choice in get_args(about.annotation))
    kinds = [kind for kind in get_args(about.annotation) if kind is not NoneType] or [about.annotation]
    return "" if kinds == [bool] else " | ".join(getattr(kind, "__name__", str(kind)).upper() for kind in kinds)


def _default(about: FieldInfo) -> str:
    if about.annotation is bool:
        return f" [{'on; --no-… turns it off' if about.default else 'off'}]"
    return "" if about.is_required() or about.default in (None, []) else f" [{about.default}]"
