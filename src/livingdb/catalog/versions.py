"""Rows of the index over table versions, of their materializations and of runs of their deltas."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from sqlalchemy import (
    BindParameter,
    Connection,
    Engine,
    bindparam,
    case,
    func,
    literal_column,
    select,
)

from livingdb.catalog import schema
from livingdb.catalog.sealed_rows import SealedRows
from livingdb.catalog.sql.prepared_statements import PreparedStatement
from livingdb.catalog.sql.read_queries import Queries
from livingdb.catalog.sql.sqlite import writing_engine
from livingdb.chunks.address import Address

__all__ = ["FoundVersion", "RunRow", "TreeRow", "VersionRow", "VersionRows", "read_row"]

_version, _made, _run = schema.version, schema.materialization, schema.delta_run
_rows, _trees, _runs = SealedRows(_version), SealedRows(_made), SealedRows(_run)


class VersionRow(NamedTuple):
    """What the index knows of a version."""

    address: Address
    definition: Address
    origin: Address
    base: Address | None
    skip: Address | None
    depth: int
    changed: int
    keyframe: Address
    rows: int | None


class RunRow(NamedTuple):
    """A recipe that makes a version of an older one, of that depth."""

    version: Address
    since: Address
    depth: int
    change: Address


class TreeRow(NamedTuple):
    """The tree of a version: its root, and the definition in whose layout it lies, if another."""

    version: Address
    root: Address
    layout: Address | None = None


class FoundVersion(NamedTuple):
    """A version, its tree and its run, if there are any."""

    version: VersionRow
    tree: TreeRow | None
    run: RunRow | None


def read_row(row: Sequence[Any]) -> VersionRow:
    """A row as the catalog gives it; `Corruption` if it is damaged."""
    return VersionRow(*_rows.read(row))


_of_version = _run.c.version == _version.c.address
_GET = PreparedStatement(
    select(_version, _made, _run)
    .outerjoin(_made, _made.c.version == _version.c.address)
    .outerjoin(_run, _of_version)
    .where(_version.c.address == bindparam("address"))
)
_ADDRESSES = PreparedStatement(select(_version.c.address))
_RUNS = PreparedStatement(_runs.every)
_ALL = PreparedStatement(_rows.every)
_GET_MANY = select(_version).where(_version.c.address.in_(bindparam("wanted", expanding=True)))
_TREE = PreparedStatement(_trees.every.where(_made.c.version == bindparam("version")))


def _line() -> PreparedStatement:
    """Versions with their runs: one, and what it comes from by its run, or else by its change.

    As far as an ancestor of some depth, or as many as are asked for.
    """
    with_run = _version.outerjoin(_run, _of_version)
    floor: BindParameter[int] = bindparam("floor")
    is_over = _run.c.depth >= floor
    step = [
        case((is_over, _run.c.since), else_=_version.c.base).label("below"),
        case((is_over, _run.c.depth), else_=_version.c.depth - 1).label("reaches"),
    ]
    mine = [column.label(f"v_{column.name}") for column in _version.c]
    mine += [column.label(f"r_{column.name}") for column in _run.c]
    first = select(literal_column("1").label("step"), *step, *mine).select_from(with_run)
    line = first.where(_version.c.address == bindparam("address")).cte("line", recursive=True)
    earlier = (
        select(line.c.step + literal_column("1"), *step, *mine)
        .select_from(line.join(_version, _version.c.address == line.c.below))
        .outerjoin(_run, _of_version)
        .where(line.c.reaches > floor, line.c.step < bindparam("most"))
    )
    found = line.union_all(earlier)
    return PreparedStatement(select(*list(found.c)[3:]))


_LINE = _line()
_VERSION_COLUMNS = len(_version.c)
_NEAR = (
    select(_version, _made)
    .join(_made, _made.c.version == _version.c.address)
    .where(_made.c.origin == bindparam("origin"))
)


class VersionRows:
    """Reads and writes them."""

    def __init__(self, engine: Engine, queries: Queries):
        self._queries = queries
        self._writing = writing_engine(engine)

    def get(self, address: Address) -> FoundVersion | None:
        """One version, with its tree and its run."""
        rows = self._queries.run_prepared(_GET, {"address": address})
        if not rows:
            return None
        (row,) = rows
        at, end = _VERSION_COLUMNS, _VERSION_COLUMNS + len(_made.c)
        tree = None if row[at] is None else _tree(row[at:end])
        return FoundVersion(read_row(row[:at]), tree, _read_run(row[end:]))

    def line(
        self, address: Address, depth: int, most: int
    ) -> list[tuple[VersionRow, RunRow | None]]:
        """A version and those it comes from by runs and changes, above a depth; in no order."""
        values = {"address": address, "floor": depth, "most": most}
        rows = self._queries.run_prepared(_LINE, values)
        at = _VERSION_COLUMNS
        return [(read_row(row[:at]), _read_run(row[at:])) for row in rows]

    def runs(self) -> list[RunRow]:
        """Every run."""
        return [RunRow(*row) for row in _runs.read_all(self._queries.run_prepared(_RUNS, {}))]

    def get_many(self, addresses: Sequence[Address]) -> list[VersionRow]:
        """Those of the versions that are here."""
        found: list[VersionRow] = []
        for part in _parts(addresses):
            rows = self._queries.all(_GET_MANY, {"wanted": part})
            found += [read_row(row) for row in rows]
        return found

    def add(self, connection: Connection, rows: Iterable[VersionRow]) -> None:
        """Put new versions, in a transaction."""
        _rows.insert_missing(connection, [row._asdict() for row in rows])

    def addresses(self) -> set[Address]:
        """The addresses of all versions, as they stand there."""
        return {Address(a) for (a,) in self._queries.run_prepared(_ADDRESSES, {})}

    def all(self) -> list[VersionRow]:
        """Every version."""
        return [VersionRow(*row) for row in _rows.read_all(self._queries.run_prepared(_ALL, {}))]

    def remove(self, connection: Connection, versions: Sequence[Address]) -> None:
        """Remove versions that nothing comes from, with their trees and runs."""
        _rows.delete_keys(connection, zip(versions))
        self.remove_answers(connection, versions)

    def remove_answers(self, connection: Connection, versions: Sequence[Address]) -> None:
        """Remove the trees of versions, their runs, and the runs that begin at them."""
        gone = set(versions)
        trees = connection.execute(select(_made.c.version)).all()
        _trees.delete_keys(connection, [tuple(key) for key in trees if key[0] in gone])
        runs = connection.execute(select(_run.c.version, _run.c.since)).all()
        ended = [(key,) for key, since in runs if key in gone or since in gone]
        _runs.delete_keys(connection, ended)

    def put_runs(self, connection: Connection, runs: Iterable[RunRow]) -> None:
        """Put runs in the place of those that versions have."""
        _runs.put(connection, [run._asdict() for run in runs])

    def add_runs(self, connection: Connection, runs: Iterable[RunRow]) -> None:
        """Put runs to new versions, in a transaction."""
        _runs.insert_missing(connection, [run._asdict() for run in runs])

    def replace(self, connection: Connection, rows: Iterable[VersionRow]) -> None:
        """Say other things of versions that are there, in a transaction."""
        _rows.put(connection, [row._asdict() for row in rows])

    # --- materializations --------------------------------------------------------------------

    def tree(self, version: Address) -> TreeRow | None:
        """The tree of a materialized version."""
        rows = self._queries.run_prepared(_TREE, {"version": version})
        return _tree(rows[0]) if rows else None

    def materializations_of(self, origin: Address) -> list[tuple[VersionRow, TreeRow]]:
        """The materialized versions of an origin."""
        rows = self._queries.all(_NEAR, {"origin": origin})
        at = _VERSION_COLUMNS
        return [(read_row(row[:at]), _tree(row[at:])) for row in rows]

    def materializations(self) -> list[TreeRow]:
        """Every materialization."""
        return [_tree(row) for row in self._queries.all(_trees.every)]

    def count_materializations(self) -> int:
        """How many materializations there are."""
        return int(self._queries.scalar(select(func.count()).select_from(_made)))

    def materialize(
        self, connection: Connection, made: Iterable[tuple[VersionRow, TreeRow]]
    ) -> None:
        """Put trees of versions, in a transaction, in the place of those that they had."""
        values = [
            {
                "version": row.address,
                "root": tree.root,
                "origin": row.origin,
                "depth": row.depth,
                "layout": tree.layout,
            }
            for row, tree in made
        ]
        _trees.put(connection, values)

    def evict(self, version: Address) -> None:
        """Forget the tree of a version."""
        with self._writing.begin() as connection:
            _trees.delete(connection, _made.c.version == version)

    def evict_all(
        self, connection: Connection, versions: Sequence[Address], runs: Sequence[Address]
    ) -> None:
        """Forget the roots of versions, and the runs to others, in a transaction."""
        for part in _parts(versions):
            _trees.delete(connection, _made.c.version.in_(part))
        for part in _parts(runs):
            _runs.delete(connection, _run.c.version.in_(part))


def _parts(addresses: Sequence[Address]) -> Iterator[Sequence[Address]]:
    for start in range(0, len(addresses), 500):
        yield addresses[start : start + 500]


def _read_run(row: Sequence[Any]) -> RunRow | None:
    return None if row[0] is None else RunRow(*_runs.read(row))


def _tree(row: Sequence[Any]) -> TreeRow:
    version, root, *_, layout = _trees.read(row)
    return TreeRow(Address(version), Address(root), None if layout is None else Address(layout))
