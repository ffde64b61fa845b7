"""Health: a check that goes on where it stopped, until everything was looked at; then rests a week.

It looks for what decays: every row of the catalog, every chunk in packs and in the journal, and
whether what versions, trees, snapshots and branches name is there.  What it finds is an alert.
The trees between their roots and their leaves, projections and what syncs promise are left to
`check`, which looks at everything at one moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from sqlalchemy import tuple_

from livingdb.alerts.raise_alert import fingerprint_of, raise_alert
from livingdb.catalog import schema
from livingdb.catalog.sealed_rows import SealedRows, sealed_tables
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.catalog.sql.sqlite import any_text
from livingdb.catalog.versions import VersionRow
from livingdb.chunks.address import Address
from livingdb.chunks.pack import Pack
from livingdb.errors import StorageFailure
from livingdb.graph.graph import Graph, now
from livingdb.graph.snapshot import SnapshotRecord
from livingdb.maintenance.check import Check, Problem
from livingdb.maintenance.upkeep.job import Estimate, Memory, Step, Work

__all__ = ["ABOUT", "DAMAGE", "check_health", "estimate_health"]

ABOUT, DAMAGE = "health", "damage"
"""What the alerts are about, and what their event is called."""
_REST = 7 * 86_400_000_000
_ROWS, _CHUNKS = 2_000, 64
_MOST_ALERTS = 20


def estimate_health(work: Work, memory: Memory) -> Estimate | None:
    """What is left of a look at everything, or the next one."""
    if memory.get("part") in _PARTS:
        return Estimate("everything is being looked at", 100, 0.1)
    due = int(memory.get("ended", 0)) + _REST
    return Estimate("a look at everything, once a week", 100, 0.1, due)


def check_health(work: Work, memory: Memory) -> Iterator[Step]:
    """Look at a bounded number of things at a time."""
    graph = work.graph
    if memory.get("part") not in _PARTS:
        ended = int(memory.get("ended", 0))
        memory = {"part": next(iter(_PARTS)), "after": None, "ended": ended, "found": 0}
    names = list(_PARTS)
    for name in names[names.index(memory["part"]) :]:
        if memory["part"] != name:
            memory = {**memory, "part": name, "after": None}
        look = _Slice(graph)
        for place in _PARTS[name](look, memory["after"]):
            problems = look.take_problems()
            if problems:
                problems = _confirm(graph, name, memory["after"], problems)
                tell_damage(graph, problems)
            memory = {**memory, "after": place, "found": memory["found"] + len(problems)}
            yield Step(memory, look.take_count(), name)
    yield Step({"ended": now(), "found": memory["found"]}, units=0, is_last=True)


def _confirm(graph: Graph, part: str, after: Any, problems: list[Problem]) -> list[Problem]:
    """Those that are there still: what others took away meanwhile is no damage."""
    graph.store.refresh()
    again = _Slice(graph)
    next(_PARTS[part](again, after), None)
    found = {problem.where for problem in again.take_problems()}
    return [problem for problem in problems if problem.where in found]


def tell_damage(graph: Graph, problems: list[Problem]) -> None:
    """Raise an alert for each place where something is wrong, once until it is resolved."""
    for problem in problems[:_MOST_ALERTS]:
        same = fingerprint_of(ABOUT, problem.where)
        with graph.catalog.write() as connection:
            if graph.catalog.alerts.first_unresolved(connection, same) is None:
                text = f"{problem}; `check` looks at everything, and can mend it from a copy"
                raise_alert(graph, connection, ABOUT, DAMAGE, "critical", text, now(), None, same)


class _Slice(Check):
    """Parts of a check that can be left anywhere; each gives where to go on, as plain values.

    Chunks are read where they lie.  Of those that something names, it is asked whether they are
    there.
    """

    def __init__(self, graph: Graph):
        super().__init__(graph)
        self.versions = _Versions(graph)
        self.hollow = graph.catalog.forgotten.versions()
        self.forgotten = set(graph.catalog.forgotten.snapshots())
        self._count = 0

    def take_problems(self) -> list[Problem]:
        """What was found since this was asked last."""
        found, self.report.problems = self.report.problems, []
        return found

    def take_count(self) -> int:
        """How many things were looked at since this was asked last."""
        count, self._count = self._count, 0
        return count

    def _check_chunk(self, address: Address, where: str) -> None:
        if not self.store.contains([address])[0]:
            self.store.refresh()
            if not self.store.contains([address])[0]:
                self._report(where, f"the chunk {address.hex()} is not there")

    def _check_tree(self, definition: Address, root: Address, where: str) -> None:
        self._check_chunk(root, where)

    def _check_changed_tables(
        self, row: SnapshotRow, record: SnapshotRecord, first: SnapshotRow | None, where: str
    ) -> None:
        """That takes all of the index; a check does it."""

    # --- parts -------------------------------------------------------------------------------

    def catalog_rows(self, after: Any) -> Iterator[Any]:
        """Every row is as it was written; table by table, in the order of their keys."""
        tables = sorted(sealed_tables(schema.metadata.sorted_tables), key=lambda r: r.table.name)
        for rows in tables:
            name = rows.table.name
            key: list[Any] | None = []
            if after is not None and name <= after[0]:
                key = after[1] if name == after[0] else None
            while key is not None:
                since, key = key, None
                with self.collect_problems(f"catalog, table {name}"):
                    key = self._look_at_rows(rows, since)
                yield [name, key]

    def _look_at_rows(self, rows: SealedRows, since: list[Any]) -> list[Any] | None:
        """Look at some rows; the key of the last one, None if there are no more."""
        keys = [rows.table.c[name] for name in rows.key]
        statement = rows.every.order_by(*keys).limit(_ROWS)
        if since:
            statement = statement.where(tuple_(*keys) > tuple_(*_from_plain(since)))
        with self.graph.catalog.queries.connection() as connection, any_text(connection):
            found = [tuple(row) for row in connection.execute(statement)]
        self._count += len(found)
        for row in found:
            if not rows.is_sound(row):
                self._report(rows.place(row[:-1]), "it is not as it was written")
        if len(found) < _ROWS:
            return None
        return _to_plain([found[-1][rows.columns.index(name)] for name in rows.key])

    def packs(self, after: Any) -> Iterator[Any]:
        """Every chunk in packs is what its address says."""
        for name in sorted(self.graph.catalog.packs.names()):
            if after is not None and (name < after[0] or (name == after[0] and not after[1])):
                continue
            since = bytes.fromhex(after[1]) if after is not None and name == after[0] else b""
            where = f"pack {name}"
            for address in self._pack_chunks(name, since, where):
                yield [name, address.hex()]
            yield [name, ""]

    def _pack_chunks(self, name: str, since: bytes, where: str) -> Iterator[Address]:
        """Look at the chunks of a pack, and give some of their addresses."""
        with self.collect_problems(where):
            try:
                pack = Pack(self.graph.place.files.view(f"packs/{name}"), name)
            except StorageFailure:
                if name in self.graph.catalog.packs.names():
                    raise
                return  # it was written anew meanwhile
            if not since:
                for what in pack.verify():
                    self._report(where, what)
            for address in pack.addresses():
                if address > since:
                    super()._check_chunk(address, where)
                    self.verified.clear()
                    self._count += 1
                    if self._count >= _CHUNKS:
                        yield address

    def journal(self, after: Any) -> Iterator[Any]:
        """Every chunk in the journal is what its address says."""
        self._check_journal()
        self._count += len(self.verified)
        yield None

    def version_rows(self, after: Any) -> Iterator[Any]:
        """Every version is what the index says, and what it names is there."""
        for page, place in self._pages(schema.version, after):
            for row in (VersionRow(*values) for values in page):
                where = f"version {row.address.hex()[:12]}"
                with self.collect_problems(where):
                    if row.address in self.hollow:
                        self._check_hollow(row, where)
                        continue
                    self._check_chunk(row.address, where)
                    self._check_version(row, where)
            yield place

    def trees_of_versions(self, after: Any) -> Iterator[Any]:
        """Every tree belongs to a version, and its root is there."""
        for page, place in self._pages(schema.materialization, after):
            for version, root, origin, depth, layout in page:
                where = f"tree of version {version.hex()[:12]}"
                row = self.versions.get(version)
                if row is None or (row.origin, row.depth) != (origin, depth):
                    self._report(where, "there is no such version, or it is elsewhere")
                self._check_chunk(root, where)
                if layout is not None:
                    self._check_chunk(layout, where)
            yield place

    def snapshot_rows(self, after: Any) -> Iterator[Any]:
        """Every snapshot is what the index says."""
        newest = self.graph.snapshots.newest_number()
        at = int(after or 0)
        while at < newest:
            rows = self.graph.snapshots.window(at + 1, at + _CHUNKS)
            for row in rows.values():
                where = f"snapshot {row.address.hex()[:12]}"
                with self.collect_problems(where):
                    self._check_chunk(row.address, where)
                    self._check_snapshot(row, where)
            self._count += len(rows)
            at += _CHUNKS
            yield at

    def branch_rows(self, after: Any) -> Iterator[Any]:
        """The log of every branch leads to its head."""
        for branch in self.graph.branches.pages(str(after or ""), _CHUNKS):
            with self.collect_problems(f"branch {branch.name}"):
                (last,) = self.graph.movements.of(branch, branch.position - 1)
                if (last.position, last.snapshot) != (branch.position, branch.head):
                    self._report(f"branch {branch.name}", "its log does not lead to its head")
            self._count += 1
            if self._count >= _CHUNKS:
                yield branch.name
        yield "\U0010ffff"

    def _pages(self, table: Any, after: Any) -> Iterator[tuple[list[Any], Any]]:
        """Rows of a table whose key is one address, some at a time, and where that ends."""
        rows = SealedRows(table)
        (key,) = (table.c[name] for name in rows.key)
        place = bytes.fromhex(after or "")
        while True:
            asked = rows.every.where(key > place).order_by(key).limit(_CHUNKS)
            found = self.graph.catalog.queries.all(asked)
            if not found:
                return
            place = bytes(found[-1][0])
            self._count += len(found)
            yield [tuple(row[:-1]) for row in found if rows.is_sound(tuple(row))], place.hex()


class _Versions(dict[Address, VersionRow]):
    """The versions of the index, each read when it is asked for."""

    def __init__(self, graph: Graph):
        super().__init__()
        self._rows = graph.catalog.versions

    def get(self, address: Any, default: Any = None) -> Any:
        found = self._rows.get(address)
        return default if found is None else found.version

    def __getitem__(self, address: Address) -> VersionRow:
        found = self._rows.get(address)
        if found is None:
            raise KeyError(address.hex())
        return found.version

    def __contains__(self, address: object) -> bool:
        return isinstance(address, bytes) and self._rows.get(Address(address)) is not None


_PARTS: Mapping[str, Callable[[_Slice, Any], Iterator[Any]]] = {
    "catalog": _Slice.catalog_rows,
    "packs": _Slice.packs,
    "journal": _Slice.journal,
    "versions": _Slice.version_rows,
    "trees": _Slice.trees_of_versions,
    "snapshots": _Slice.snapshot_rows,
    "branches": _Slice.branch_rows,
}


def _to_plain(key: list[Any]) -> list[Any]:
    return [{"hex": value.hex()} if isinstance(value, bytes) else value for value in key]


def _from_plain(key: list[Any]) -> tuple[Any, ...]:
    return tuple(bytes.fromhex(v["hex"]) if isinstance(v, dict) else v for v in key)
