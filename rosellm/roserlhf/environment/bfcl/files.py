"""What the package `bfcl-eval` ships: 800 multi-turn tasks in four categories, their ground truth, documents of the tools."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rosellm.roserlhf.environment.bfcl.literals import read_call
from rosellm.roserlhf.errors import MissingExtraError
from rosellm.roserlhf.record import plain

CATEGORIES = ("base", "miss_func", "miss_param", "long_context")
_CLASSES = "bfcl_eval.eval_checker.multi_turn_eval.func_source_code"
_SOURCES: Mapping[str, tuple[str, str]] = {
    "GorillaFileSystem": ("gorilla_file_system", "gorilla_file_system"),
    "MathAPI": ("math_api", "math_api"),
    "MessageAPI": ("message_api", "message_api"),
    "TicketAPI": ("ticket_api", "ticket_api"),
    "TradingBot": ("trading_bot", "trading_bot"),
    "TravelAPI": ("travel_booking", "travel_booking"),
    "TwitterAPI": ("posting_api", "posting_api"),
    "VehicleControlAPI": ("vehicle_control", "vehicle_control"),
}
"""Class of tools → its module and the file that documents it; the classes that need a network or a model are left out."""


def entries() -> Sequence[Mapping[str, Any]]:
    """All tasks, each with its ground truth, read-only, in the order of `CATEGORIES` and then of the files."""
    return _entries(_folder())


def tool_class(name: str) -> type[Any]:
    """Import a class of tools.

    Raises:
        MissingExtraError: bfcl-eval, or mpmath, which its mathematics needs, is not installed.
    """
    found: type[Any] = getattr(_module(_SOURCES[name][0]), name)
    return found


def constants() -> Any:
    """The module of what long-context tasks add to their tools."""
    return _module("long_context")


def _module(name: str) -> Any:
    _folder()
    try:
        return importlib.import_module(f"{_CLASSES}.{name}")
    except ModuleNotFoundError as error:
        raise _missing(error.name or "bfcl_eval") from error


def documents(name: str) -> Sequence[Mapping[str, Any]]:
    """Documents of the tools of a class, in the order of the file, read-only."""
    return _documents(_folder(), name)


@functools.cache
def _folder() -> Path:
    found = importlib.util.find_spec("bfcl_eval")
    if found is None or not found.submodule_search_locations:
        raise _missing("bfcl_eval")
    return Path(found.submodule_search_locations[0]) / "data"


def _missing(module: str) -> MissingExtraError:
    command = "pip install mpmath && pip install --no-deps bfcl-eval"
    return MissingExtraError(f"bfcl needs {module}, which is not installed; {command}", name=module)


@functools.cache
def _entries(folder: Path) -> Sequence[Mapping[str, Any]]:
    return tuple(entry for category in CATEGORIES for entry in _category(folder, category))


def _category(folder: Path, category: str) -> list[Mapping[str, Any]]:
    name = f"BFCL_v4_multi_turn_{category}.json"
    truths = {line["id"]: line["ground_truth"] for line in _lines(folder / "possible_answer" / name)}
    return [
        plain.mapping(
            {
                "id": line["id"],
                "category": category,
                "questions": [[message["content"] for message in turn] for turn in line["question"]],
                "classes": line["involved_classes"],
                "initial": line["initial_config"],
                "withheld": _withheld(line.get("missed_function", {}), truths[line["id"]]),
                "ground_truth": truths[line["id"]],
            },
            line["id"],
            plain.json_value,
        )
        for line in _lines(folder / name)
    ]


def _withheld(missed: Mapping[str, Sequence[str]], truth: Sequence[Sequence[str]]) -> dict[str, list[str]]:
    """Functions by the turn that brings them; one that the ground truth needs before (there is one task of 200) is not withheld."""
    return {
        turn: [name for name in names if name not in {read_call(text).name for calls in truth[: int(turn)] for text in calls}]
        for turn, names in missed.items()
    }


@functools.cache
def _documents(folder: Path, name: str) -> Sequence[Mapping[str, Any]]:
    lines = _lines(folder / "multi_turn_func_doc" / f"{_SOURCES[name][1]}.json")
    return tuple(plain.mapping(line, name, plain.json_value) for line in lines)


def _lines(path: Path) -> list[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]
