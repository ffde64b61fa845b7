"""Looking at heads that nobody has looked at since they came to be, so that one can stop anywhere.

Snapshots are numbered as they are committed.  Who has looked at the heads up to a number has only
those to look at that are after it, however many branches there are.  Once a day all of them are
looked at: a branch may have been reset to a snapshot that was no head before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from livingdb.catalog.branches import BranchRow
from livingdb.errors import LivingDBError, MaskKeyMissing, Untrusted
from livingdb.graph.graph import Graph, now, tables_of
from livingdb.maintenance.upkeep.job import Estimate, Memory, Step, error_text
from livingdb.tables.index import Version

__all__ = ["estimate_heads", "look_at_heads"]

_DAY = 86_400_000_000
_AT_ONCE = 256
_MOST_UNITS = 1_000
_LAST_NUMBER = 1 << 62

Look = Callable[[BranchRow, str, Version], Iterator[int]]
"""Looks at a table of a branch: gives how much it did, each time that it did something."""


def estimate_heads(graph: Graph, memory: Memory, benefit_seconds: float) -> Estimate:
    """A look at the heads of snapshots that are new, each worth so much; else at all, one day."""
    new = graph.snapshots.newest_number() - int(memory.get("head", 0))
    if new > 0:
        units = min(new, _MOST_UNITS)
        text = "a snapshot is new" if new == 1 else f"{new:,} snapshots are new"
        return Estimate(text, units, benefit_seconds * units)
    due = int(memory.get("all", 0)) + _DAY
    return Estimate("all heads, once a day", benefit_seconds=benefit_seconds, due=due)


def look_at_heads(graph: Graph, memory: Memory, look: Look) -> Iterator[Step]:
    """Look at every version once that is at such a head; what fails is passed over, and told."""
    newest = graph.snapshots.newest_number()
    moment = now()
    if moment - int(memory.get("all", 0)) >= _DAY:
        memory = {"all": moment}
    seen: set[bytes] = set()
    for row in _heads_upto(graph, memory, newest):
        yield from _look_at_branch(graph, row, look, memory, seen)
        memory = {**memory, "head": row.head, "number": row.number}
        yield Step(memory, progress=row.name)
    yield Step({**memory, "head": newest, "number": _LAST_NUMBER}, units=0, is_last=True)


def _heads_upto(graph: Graph, memory: Memory, newest: int) -> Iterator[BranchRow]:
    """The branches in the order of their heads; those that move meanwhile are for the next time."""
    head, number = int(memory.get("head", 0)), int(memory.get("number", 0))
    while rows := graph.branches.by_head(head, number, _AT_ONCE):
        for row in rows:
            if row.head > newest:
                return
            yield row
        head, number = rows[-1].head, rows[-1].number


def _look_at_branch(
    graph: Graph, row: BranchRow, look: Look, memory: Memory, seen: set[bytes]
) -> Iterator[Step]:
    for name, version in tables_of(graph, graph.snapshots.at(row.head)).items():
        if version.address in seen:
            continue
        seen.add(version.address)
        place = f"{row.name}.{name}"
        try:
            for did in look(row, name, version):
                yield Step(memory, did, place, units=0)
        except (MaskKeyMissing, Untrusted):
            continue  # it is for somebody else to do
        except LivingDBError as error:
            yield Step(memory, 0, place, [f"{place}: {error_text(error)}"], units=0)
