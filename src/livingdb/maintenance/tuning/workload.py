"""The observed work on a table as numbers, and the table as it lies."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from livingdb.catalog.branches import BranchRow
from livingdb.catalog.observations import Counts
from livingdb.errors import LivingDBError
from livingdb.graph.graph import Graph, tables_of
from livingdb.graph.names import is_hidden
from livingdb.graph.storage.observe import STATEMENTS
from livingdb.tables.index import Version
from livingdb.tables.layout import Layout
from livingdb.tables.read_counts import SAMPLED_MASK
from livingdb.tables.schema import TableSchema

__all__ = ["ObservedTable", "Scans", "TableWork", "has_stored_tree", "observed_tables"]

_PLACES = 16
_LOOKED_AT = 4 * _PLACES
_MOST_BRANCHES = 256
_SAMPLED_ROWS = 4096
_SCANS = ("whole", "range", "filter", "keys")


@dataclass(frozen=True)
class Scans:
    """Reads of one kind: how many, of which columns (None: all), each of so many rows."""

    kind: str
    times: float
    columns: frozenset[str] | None
    rows: float


@dataclass(frozen=True)
class TableWork:
    """What was done with a table lately, by what was observed of it; columns by identities."""

    counts: Counts

    def _of(self, kind: str, name: str) -> float:
        return self.counts.get(kind, {}).get(name, 0.0)

    @property
    def gets(self) -> float:
        """Rows that were read one by one."""
        return self._of("read", "get")

    @property
    def gets_a_session(self) -> float:
        """How many of them one process read, on average."""
        return self.gets / max(1.0, self._of("session", "gets"))

    @property
    def commits(self) -> float:
        """Commits that changed the table."""
        return self._of("write", "commits")

    @property
    def rows_written(self) -> float:
        """Rows that they wrote."""
        return self._of("write", "rows")

    @property
    def rows_a_commit(self) -> float:
        """Rows that one of them wrote, on average."""
        return self.rows_written / max(1.0, self.commits)

    @cached_property
    def patched(self) -> dict[frozenset[str], float]:
        """Sets of columns that were written alone, and in what share of the commits."""
        found = self.counts.get("written columns", {})
        return {frozenset(ids.split()): n / max(1.0, self.commits) for ids, n in found.items()}

    def share_written(self, columns: frozenset[str]) -> float:
        """The share of commits that write one of the columns, or whole rows."""
        others = sum(share for ids, share in self.patched.items() if not ids & columns)
        return max(0.0, 1.0 - others)

    @cached_property
    def scans(self) -> tuple[Scans, ...]:
        """Reads of more than a row."""
        found = []
        for kind in _SCANS:
            times = self._of("read", kind)
            rows = self._of("rows", kind) / times if times else 0.0
            by_columns = self._columns_of(kind)
            known = sum(by_columns.values())
            found += [Scans(kind, n, ids, rows) for ids, n in by_columns.items()]
            if times - known >= 0.5:
                found.append(Scans(kind, times - known, None, rows))
        return tuple(found)

    def filtered_by(self, column: str) -> float:
        """How many reads of filtered rows had a filter that says something of a column."""
        return min(self._of("filtered", column), self._of("read", "filter"))

    def _columns_of(self, kind: str) -> dict[frozenset[str], float]:
        found = {}
        for text, times in self.counts.get("read columns", {}).items():
            of, *ids = text.split()
            if of == kind:
                found[frozenset(ids)] = times
        return found

    @property
    def reads(self) -> float:
        """Reads of any kind."""
        return self.gets + sum(scans.times for scans in self.scans)

    @property
    def lens_share(self) -> float:
        """The share of opened versions that were read through a lens."""
        opened = sum(self.counts.get("tail", {}).values())
        return min(1.0, self._of("read", "lens") / opened) if opened else 0.0

    @property
    def tail_rows(self) -> float:
        """Rows that lay over the tree that was read, on average."""
        return _mean_of_bits(self.counts.get("tail", {}))

    @property
    def reads_behind(self) -> float:
        """How often it was opened at another version than the newest one."""
        return sum(n for bits, n in self.counts.get("behind", {}).items() if bits != "0")

    @property
    def hot_share(self) -> float:
        """In how much of the table rows are read one by one: 1 if anywhere alike.

        Or if too few were looked at to say.
        """
        found = self.counts.get("place", {}).values()
        whole = sum(found)
        if whole < _LOOKED_AT * (SAMPLED_MASK + 1):
            return 1.0
        spread = -sum(n / whole * math.log(n / whole) for n in found if n)
        return min(1.0, math.exp(spread) / _PLACES)

    def projections(self, what: str) -> float:
        """How often Spark read files of the table ("hit"), or had none ("miss")."""
        return self._of("projection", what)

    def evaluations(self) -> tuple[float, float]:
        """How often a version was computed to be read, and the seconds that took in all."""
        return self._of("evaluate", "times"), self._of("evaluate", "microseconds") / 1e6

    def observed_seconds(self) -> dict[str, tuple[float, float]]:
        """Kinds of reads and folds: how many there were, and the seconds they took in all."""
        spent = self.counts.get("microseconds", {})
        found = {kind: (self._of("read", kind), much / 1e6) for kind, much in spent.items()}
        for kind in ("fold", "evaluate"):
            times = self._of(kind, "times")
            if times:
                found[kind] = times, self._of(kind, "microseconds") / 1e6
        return {kind: told for kind, told in found.items() if told[0] > 0}


def _mean_of_bits(counts: Mapping[str, float]) -> float:
    """The mean of sizes that were counted by how many bits they have."""
    whole = sum(counts.values())
    if not whole:
        return 0.0
    middle = {bits: 0.75 * 2.0 ** int(bits) if bits != "0" else 0.0 for bits in counts}
    return sum(n * middle[bits] for bits, n in counts.items()) / whole


@dataclass(frozen=True)
class ObservedTable:
    """A table of a branch, its newest version there, and what was observed of it everywhere."""

    graph: Graph
    id: str
    branch: BranchRow
    name: str
    version: Version
    work: TableWork

    @property
    def schema(self) -> TableSchema:
        """Its schema."""
        return self.graph.versions.definition(self.version).schema

    @property
    def layout(self) -> Layout:
        """The layout in force."""
        return self.graph.versions.placements.of(self.version).layout

    @cached_property
    def rows(self) -> int:
        """How many rows it has."""
        return self.graph.versions.count(self.version)

    @property
    def is_stored(self) -> bool:
        """Whether there is a tree that it is read from, which everybody has."""
        return has_stored_tree(self.graph, self.version)

    @cached_property
    def widths(self) -> dict[str, float]:
        """Bytes that a row takes in each column, by its identity, before they are compressed."""
        columns = self.schema.stored_columns
        sampled = 0
        sizes = dict.fromkeys((column.id for column in columns), 0.0)
        names = [column.name for column in columns]
        for batch in self.graph.versions.rows(self.version).batches(names):
            sampled += batch.num_rows
            for column, values in zip(columns, batch.columns, strict=True):
                sizes[column.id] += values.nbytes
            if sampled >= _SAMPLED_ROWS:
                break
        return {of: size / max(1, sampled) for of, size in sizes.items()}

    @property
    def key_ids(self) -> frozenset[str]:
        """The columns of its key."""
        return frozenset(c.id for c in self.schema.stored_columns[: len(self.schema.key)])


def has_stored_tree(graph: Graph, version: Version) -> bool:
    """Whether a version is read from a stored tree, and not from what one process computed."""
    near = graph.versions.nearest_stored(version)
    return near is not None and not graph.index.is_cached(near.address)


def observed_tables(graph: Graph, now: int) -> list[ObservedTable]:
    """The tables that were observed and are at a head, each at one of them.

    That of the default branch if it is there.  Of very many branches some are looked at.
    """
    known = {
        subject: TableWork(counts)
        for subject, counts in graph.observer.known(now).items()
        if subject != STATEMENTS
    }
    found: dict[str, ObservedTable] = {}
    for branch in islice(_branches(graph), _MOST_BRANCHES):
        if len(found) == len(known):
            break
        for table in _tables(graph, branch, known):
            found.setdefault(table.id, table)
    return sorted(found.values(), key=lambda table: table.id)


def _branches(graph: Graph) -> Iterator[BranchRow]:
    first = graph.default_branch()
    if first is not None:
        yield first
    for row in graph.branches.all():
        if (first is None or row.id != first.id) and not is_hidden(row.name):
            yield row


def _tables(
    graph: Graph, branch: BranchRow, known: Mapping[str, TableWork]
) -> Iterator[ObservedTable]:
    try:
        tables = tables_of(graph, graph.snapshots.at(branch.head))
        defined = {name: graph.versions.definition(version) for name, version in tables.items()}
    except LivingDBError:  # what is wrong with it is for others to tell
        return
    for name, version in tables.items():
        table = defined[name].id
        if table is not None and table in known and not is_hidden(name):
            yield ObservedTable(graph, table, branch, name, version, known[table])
