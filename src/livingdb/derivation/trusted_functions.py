"""Functions that a database names: run only where the process that opened it trusts them."""

from __future__ import annotations

import fnmatch
import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from importlib import import_module
from typing import Any

from livingdb.errors import InvalidData, NotFound, Untrusted

__all__ = ["check_name", "check_patterns", "is_trusted", "load_function"]


def check_name(name: object) -> str:
    """The name, if it is one of a function: `package.module:function`."""
    module, colon, function = str(name).partition(":")
    parts = [*module.split("."), function]
    if not isinstance(name, str) or not colon or not all(part.isidentifier() for part in parts):
        raise InvalidData(f"{name!r} names no function; write 'package.module:function'")
    return name


def check_patterns(trust: object) -> tuple[str, ...]:
    """What a process trusts; `InvalidData` for a text, each letter of which would be a pattern."""
    if isinstance(trust, str) or not isinstance(trust, Iterable):
        raise InvalidData(f"trust={trust!r}: a list of patterns, as ['shop.*']")
    found = tuple(trust)
    for pattern in found:
        if not isinstance(pattern, str) or not pattern:
            raise InvalidData(f"trust: a pattern is a text, as 'shop.*', and not {pattern!r}")
    return found


def is_trusted(name: str, trust: Sequence[str]) -> bool:
    """Whether a pattern matches the function, as `shop.*` does `shop.models:train`."""
    module = name.partition(":")[0]
    return any(
        fnmatch.fnmatchcase(given, pattern)
        for pattern in trust
        for given in (name, module, name.replace(":", "."))
    )


def load_function(name: str, trust: Sequence[str]) -> Callable[..., Any]:
    """The function; `Untrusted` if this process was not told to run it.

    What counts is the module that defines it, not one that only imported it.
    """
    check_name(name)
    _check_trust(name, name, trust)
    module, _, function = name.partition(":")
    try:
        found = getattr(import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise NotFound(f"the function {name!r} cannot be loaded: {error}") from error
    except Exception as error:  # of the module itself; what it says may be a secret
        raise NotFound(
            f"the function {name!r} cannot be loaded: its module raised {type(error).__name__}"
        ) from error
    if not callable(found):
        raise InvalidData(f"{name!r} is no function")
    _check_trust(name, _origin(found), trust)
    result: Callable[..., Any] = found
    return result


def _check_trust(name: str, origin: str, trust: Sequence[str]) -> None:
    if is_trusted(origin, trust):
        return
    module = origin.partition(":")[0]
    where = "" if origin == name else f", defined as {origin!r}"
    raise Untrusted(
        f"the database names the function {name!r}{where}, which this process does not trust; "
        f"livingdb.open(…, trust=[{module!r}]) lets it run"
    )


def _origin(function: Any) -> str:
    """Where what would run is defined, as `module:name`, under partials, methods and wrappers."""
    while isinstance(function, partial):
        function = function.func
    found = inspect.unwrap(getattr(function, "__func__", function))
    named = found if isinstance(getattr(found, "__qualname__", None), str) else type(found)
    return f"{named.__module__}:{named.__qualname__}"
