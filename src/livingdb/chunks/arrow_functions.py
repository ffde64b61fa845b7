"""Arrow's compute functions, imported when one of them is first called.

Importing them all takes longer than a short read, which needs one of them: rows by their places.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["take_at"]


def take_at(values: pa.Array, places: pa.Array) -> pa.Array:
    """The values at some places, null where a place is null.

    An array's own `take` imports all functions, which are 40 ms; those that are compiled are 5.
    """
    from pyarrow._compute import call_function

    return call_function("take", [values, places])


def __getattr__(name: str) -> Any:
    import pyarrow.compute as pc

    found = getattr(pc, name)
    if not name.startswith("__"):
        globals()[name] = found
    return found
