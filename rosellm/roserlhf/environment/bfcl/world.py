"""The tools of one episode with their state: `entry → instances`, `call → text`, `state → compared attribute by attribute`.

What the tools share outside their instances is kept from leaking: the precision of decimal and mpmath arithmetic, and constants of
long-context tasks that instances would write into.
"""

from __future__ import annotations

import contextlib
import copy
import decimal
import importlib
import inspect
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rosellm.roserlhf.environment.bfcl import files
from rosellm.roserlhf.environment.bfcl.bounds import refusal

_STATELESS = frozenset({"MathAPI"})


def _thawed(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _thawed(item) for name, item in value.items()}
    return [_thawed(item) for item in value] if isinstance(value, Sequence) and not isinstance(value, str) else value


class World:
    """Instances of the classes of one task, in its initial state.

    Args:
        entry: one of `files.entries()`.
    """

    def __init__(self, entry: Mapping[str, Any]) -> None:
        self._instances = {name: _instance(entry, name) for name in entry["classes"]}
        self._methods = {
            name: (instance, method)
            for instance in self._instances.values()
            for name, method in inspect.getmembers(instance, inspect.ismethod)
            if not name.startswith("_")
        }

    def call(self, name: str, arguments: Mapping[str, Any], positional: Sequence[Any] = ()) -> str:
        """Carry out one call; whatever goes wrong is said in what it returns."""
        if name not in self._methods:
            return f"Error during execution: there is no {name}"
        instance, method = self._methods[name]
        if why := refusal(instance, name, arguments):
            return f"Error during execution: {why}"
        with _isolated():
            try:
                return _text(method(*positional, **_thawed(arguments)))
            except Exception as error:  # noqa: BLE001 - a tool that cannot cope with its arguments answers with its error
                return f"Error during execution: {error}"

    def state(self) -> dict[str, dict[str, Any]]:
        """Public attributes of every instance, by class; what the verifier compares."""
        return {
            name: {key: value for key, value in vars(instance).items() if not key.startswith("_")}
            for name, instance in self._instances.items()
        }

    def equals(self, other: World) -> bool:
        """Whether both are in the same state."""
        return self.state() == other.state()


def _instance(entry: Mapping[str, Any], name: str) -> Any:
    made = files.tool_class(name)()
    if name in _STATELESS:
        return made
    long_context = entry["category"] == "long_context"
    made._load_scenario(_thawed(entry["initial"].get(name, {})), long_context=long_context)
    # a long context puts constants of the module into the instance as they are, and tools write into them
    return copy.deepcopy(made) if long_context else made


def _text(result: Any) -> str:
    """Word a result as the benchmark does."""
    if isinstance(result, str):
        return result
    if isinstance(result, dict):
        with contextlib.suppress(TypeError, ValueError):
            return json.dumps(result)
    return str(result)


@contextlib.contextmanager
def _isolated() -> Iterator[None]:
    """Keep from everybody else what tools set outside their instances: two precisions and today's weather."""
    mpmath: Any = importlib.import_module("mpmath")
    weather: dict[str, Any] = files.constants().LONG_WEATHER_EXTENSION
    before = dict(weather)
    with decimal.localcontext(), mpmath.workdps(15):
        try:
            yield
        finally:
            weather.clear()
            weather.update(before)
