"""A method without arguments -> an attribute that is computed when it is first read, and then kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

Value = TypeVar("Value")


class Computed(Generic[Value]):
    """What `functools.cached_property` does, without its lock: `torch.compile` cannot trace a lock, and one thread needs none."""

    def __init__(self, compute: Callable[[Any], Value]) -> None:
        self.compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type | None = None) -> Value:
        # the attribute of the instance is found before this one from now on
        value = instance.__dict__[self.name] = self.compute(instance)
        return value
