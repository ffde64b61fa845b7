"""Names that are imported when they are first asked for."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["lazily"]


def lazily(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package whose names live in these modules.

    "module:name" where the name is another one there; "module:" for the module itself.
    """

    def get(name: str) -> Any:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, colon, inner = home.partition(":")
        value = importlib.import_module(module)
        if inner or not colon:
            value = getattr(value, inner or name)
        setattr(sys.modules[package], name, value)
        return value

    return get
