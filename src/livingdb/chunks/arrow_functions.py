"""Arrow's compute functions, imported when one of them is first called.

Importing them all takes longer than a short read, which needs none.
"""

from __future__ import annotations

from typing import Any

__all__: list[str] = []


def __getattr__(name: str) -> Any:
    import pyarrow.compute as pc

    found = getattr(pc, name)
    if not name.startswith("__"):
        globals()[name] = found
    return found
