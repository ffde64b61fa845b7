"""The registry of conditions and metrics: their classes, and the functions that make them, by name.

Classes are found by the name that plain values have; functions by the name that text has, such
as `max_changed_share`.  Each is registered where it is defined, by a decorator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from livingdb.guard.conditions.condition import NamedValue

__all__ = ["constructor", "constructors", "named_class", "register", "register_constructor"]

_Class = TypeVar("_Class", bound="type[NamedValue]")
_Function = TypeVar("_Function", bound=Callable[..., Any])

_classes: dict[str, type[NamedValue]] = {}
_constructors: dict[str, Callable[..., Any]] = {}


def register(cls: _Class) -> _Class:
    """Let a class be found by its name."""
    assert cls.NAME not in {"", *_classes}
    _classes[cls.NAME] = cls
    return cls


def register_constructor(function: _Function) -> _Function:
    """Let a function that makes a condition or a metric be found by its name."""
    assert function.__name__ not in _constructors
    _constructors[function.__name__] = function
    return function


def named_class(name: str) -> type[NamedValue] | None:
    """The class of that name."""
    return classes().get(name)


def constructor(name: str) -> Callable[..., Any] | None:
    """The function of that name."""
    return constructors().get(name)


def classes() -> Mapping[str, type[NamedValue]]:
    """All classes there are."""
    _load()
    return _classes


def constructors() -> Mapping[str, Callable[..., Any]]:
    """All functions there are."""
    _load()
    return _constructors


@cache
def _load() -> None:
    """Import what registers itself."""
    from livingdb.guard.conditions import bounds, combination, metric
    from livingdb.guard.conditions.kinds import (
        cost,
        custom,
        distribution,
        governance,
        model,
        referential,
        schema,
        time,
        values,
        volume,
    )

    _ = bounds, combination, metric
    _ = cost, custom, distribution, governance, model, referential, schema, time, values, volume
