"""Functions that a database names: run only where the process that opened it trusts them."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from livingdb.errors import InvalidData, NotFound, Untrusted

__all__ = ["check_name", "is_trusted", "load_function"]


def check_name(name: object) -> str:
    """The name, if it is one of a function: `package.module:function`."""
    module, colon, function = str(name).partition(":")
    parts = [*module.split("."), function]
    if not isinstance(name, str) or not colon or not all(part.isidentifier() for part in parts):
        raise InvalidData(f"{name!r} names no function; write 'package.module:function'")
    return name


def is_trusted(name: str, trust: Sequence[str]) -> bool:
    """Whether a pattern matches the function, as `shop.*` does `shop.models:train`."""
    module = name.partition(":")[0]
    return any(
        fnmatch.fnmatchcase(given, pattern)
        for pattern in trust
        for given in (name, module, name.replace(":", "."))
    )


def load_function(name: str, trust: Sequence[str]) -> Callable[..., Any]:
    """The function; `Untrusted` if this process was not told to run it."""
    check_name(name)
    if not is_trusted(name, trust):
        raise Untrusted(
            f"the database names the function {name!r}, which this process does not trust; "
            f"livingdb.open(…, trust=[{name.partition(':')[0]!r}]) lets it run"
        )
    module, _, function = name.partition(":")
    try:
        found = getattr(import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise NotFound(f"the function {name!r} cannot be loaded: {error}") from error
    if not callable(found):
        raise InvalidData(f"{name!r} is no function")
    result: Callable[..., Any] = found
    return result
