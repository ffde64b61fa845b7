"""The storage budget: how many bytes a database may take, as far as what can be made again goes."""

from __future__ import annotations

from dataclasses import dataclass

from livingdb.catalog.pending_note import keep_note
from livingdb.errors import InvalidData
from livingdb.graph.graph import Graph
from livingdb.maintenance.storage import used_bytes

__all__ = ["ROW_BYTES", "Budget", "Room", "read_budget", "set_budget"]

_BUDGET = "storage budget"
"""The fact that holds it."""
ROW_BYTES = 32
"""What a row takes in a file, as long as nobody has looked."""


@dataclass(frozen=True)
class Budget:
    """How many bytes a database may take (None: any number), and how many it takes.

    Data is kept whatever the budget says.  What is over it is evicted by tuning: trees, files and
    answers that can be made again, those of least use for a byte first.
    """

    bytes: int | None
    used_bytes: int

    @property
    def over_bytes(self) -> int:
        """How much it takes too much."""
        return 0 if self.bytes is None else max(0, self.used_bytes - self.bytes)

    def __str__(self) -> str:
        if self.bytes is None:
            return f"{self.used_bytes:,} bytes are used, and any number may be"
        told = f"{self.used_bytes:,} of {self.bytes:,} bytes are used"
        return f"{told}, {self.over_bytes:,} too many" if self.over_bytes else told


def read_budget(graph: Graph) -> Budget:
    """The budget of a database."""
    found = graph.catalog.meta(_BUDGET)
    return Budget(None if found is None else int(found), used_bytes(graph))


class Room:
    """What may still be stored of what can be made again: anything, where there is no budget."""

    def __init__(self, graph: Graph):
        budget = read_budget(graph) if graph.catalog.meta(_BUDGET) is not None else None
        self._bytes = None if budget is None or budget.bytes is None else budget.bytes
        self._used = 0 if budget is None else budget.used_bytes

    def takes(self, rows: int) -> bool:
        """Whether so many rows may be stored once more; if so, they count from now on."""
        if self._bytes is None:
            return True
        size = rows * ROW_BYTES
        if self._used + size > self._bytes:
            return False
        self._used += size
        return True


def set_budget(graph: Graph, bytes: int | None) -> Budget:
    """Let a database have a budget; None: any number of bytes may be used."""
    is_number = isinstance(bytes, int) and not isinstance(bytes, bool) and bytes > 0
    if bytes is not None and not is_number:
        raise InvalidData(f"a budget of {bytes!r} bytes: a whole number above 0, or None")
    graph.check_writable()
    with graph.catalog.write() as connection:
        keep_note(graph.catalog.queries, connection)
        if bytes is None:
            graph.catalog.forget_meta(connection, _BUDGET)
        else:
            graph.catalog.set_meta(connection, _BUDGET, str(bytes))
    return read_budget(graph)
