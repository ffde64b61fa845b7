"""A snapshot as users see it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

from livingdb.access.roles import Role
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.database.pictures import notebook_html
from livingdb.database.table import Table
from livingdb.errors import InvalidData, NotFound
from livingdb.graph import ancestry as history
from livingdb.graph.edge_ends import source_names
from livingdb.graph.graph import missing_table_error
from livingdb.graph.names import is_hidden
from livingdb.graph.snapshot import Edge
from livingdb.graph.snapshot_columns import to_datetime
from livingdb.tables.index import Version

if TYPE_CHECKING:
    from livingdb.database.branch import Branch
    from livingdb.database.database import Database
    from livingdb.database.export_tables import Export
    from livingdb.database.sql_scope import SnapshotScope
    from livingdb.graph.graph import Graph
    from livingdb.sql.parameters import Parameters
    from livingdb.sql.query_plan import QueryPlan
    from livingdb.sql.result import Result

__all__ = ["Snapshot", "check_limit"]


def check_limit(limit: object, word: str = "limit") -> int | None:
    """How many are asked for at most; `InvalidData` if that is no number."""
    is_number = isinstance(limit, int) and not isinstance(limit, bool) and limit >= 0
    if limit is not None and not is_number:
        raise InvalidData(f"{word} {limit!r}: a whole number that is not negative, or None for all")
    return None if limit is None else min(cast("int", limit), sys.maxsize)


class Snapshot:
    """An immutable state of the whole database."""

    def __init__(
        self,
        database: Database,
        row: SnapshotRow,
        lifted: Mapping[str, Version] | None = None,
        branch: str | None = None,
    ):
        self.database = database
        self._row = database._seen_row(row)
        self._lifted = lifted
        """Its tables in another schema, if they are to be seen in one."""
        self._branch = branch
        """The branch by whose name it was asked for, if it was: SQL knows the views of that one."""

    @property
    def _graph(self) -> Graph:
        return self.database._graph

    @property
    def id(self) -> str:
        """Its address: 64 hexadecimal digits."""
        return self._row.address.hex()

    @cached_property
    def parents(self) -> tuple[str, ...]:
        """The ids of the snapshots it follows, the first parent first."""
        found = self._graph.snapshots.get_many(self._row.parents)
        return tuple(found[number].address.hex() for number in self._row.parents)

    @cached_property
    def edge(self) -> Edge:
        """How it came to be."""
        return self._graph.record(self._row.address).edge

    @property
    def sequence(self) -> int:
        """Its number: greater than those of its ancestors."""
        return self._row.sequence

    @property
    def time(self) -> datetime:
        """When it was made, in UTC."""
        return to_datetime(self._row.time)

    @property
    def author(self) -> str:
        """Who made it."""
        return self._row.author

    @property
    def message(self) -> str:
        """What its author said about it."""
        return self._row.message

    @property
    def sources(self) -> dict[str, str]:
        """The snapshots it was made from beside its parents, by the branches' names of now."""
        return source_names(self._graph.catalog, self.edge)

    def log(self, limit: int | None = None, table: str | None = None) -> list[Snapshot]:
        """This snapshot and its ancestors, newest first; of a `table`, those that changed it."""
        rows = history.log(self._graph.snapshots, self._row)
        found = rows if table is None else self._changing(rows, table)
        return [Snapshot(self.database, row) for row in islice(found, check_limit(limit))]

    def _changing(self, rows: Iterable[SnapshotRow], table: str) -> Iterator[SnapshotRow]:
        """The snapshots that have another version of a table than their first parent."""
        graph = self._graph
        for row in rows:
            parents = graph.record(row.address).parents[:1]
            before = [graph.record(parent).tables.get(table) for parent in parents]
            if graph.tables(row).get(table) not in (before or [None]):
                yield row

    def artifact(self) -> bytes | dict[str, bytes]:
        """What a model's function made: bytes, or its files by path."""
        from livingdb.derivation import named_functions as functions

        for name in self.tables():
            rows = self.table(name).rows
            if rows.schema.key == ("path", "part") and "data" in rows.schema.arrow.names:
                made: bytes | dict[str, bytes] = functions.artifact_of(rows.to_arrow())
                return made
        raise NotFound(f"snapshot {self.id[:12]} holds no artefact of a model")

    @property
    def metrics(self) -> dict[str, Any]:
        """What a model's function reported."""
        return dict(self.edge.details.get("metrics", {}))

    def tables(self) -> list[str]:
        """The names of its tables."""
        names = self._graph.tables(self._row) if self._lifted is None else self._lifted
        return sorted(name for name in names if not is_hidden(name))

    def table(self, name: str) -> Table:
        """One of its tables."""
        graph = self._graph
        if self._lifted is None:
            return Table(graph, name, graph.version(self._row, name), self.database.engine)
        if name not in self._lifted:
            raise missing_table_error(name, {n: v.address for n, v in self._lifted.items()})
        return Table(graph, name, self._lifted[name], self.database.engine)

    def sql(
        self,
        text: str,
        parameters: Parameters = None,
        *,
        engine: str | None = None,
        most: int | None = None,
    ) -> Result:
        """The answer of a query over its tables, and over views as they were then.

        `most` is how many of its rows are wanted: no more is computed than these need.
        """
        return self.database._execute(self._scope(), text, parameters, engine, most)

    def plan(
        self, text: str, parameters: Parameters = None, *, engine: str | None = None
    ) -> QueryPlan | None:
        """A query over its tables, to be computed later; None if the statement is no query."""
        return self.database._plan(self._scope(), text, parameters, engine)

    def _scope(self) -> SnapshotScope:
        from livingdb.database.sql_scope import SnapshotScope

        return SnapshotScope(self.database, self._row, self._branch, self._lifted)

    def export(
        self,
        folder: str | os.PathLike[str],
        tables: Sequence[str] | None = None,
        format: str = "parquet",
        *,
        progress: Callable[[str, int, int], object] | None = None,
    ) -> Export:
        """Write its tables, or some, into a folder: "parquet", "csv" or "arrow", a file each.

        `tables.json` beside them says what they are; `livingdb import FOLDER` makes them again.
        `progress` is called with a table's name, the rows written and those there are.
        """
        from livingdb.database.export_tables import export_tables

        self.database._require_everywhere(Role.OWNER, "write files")
        with self.database._noting_files("export", self.id):
            return export_tables(self, folder, tables, format, progress)

    def clone(
        self,
        name: str,
        *,
        derived: bool | str = False,
        message: str = "",
        author: str | None = None,
    ) -> Branch:
        """A new branch that stands on this snapshot; its log says who made it and why.

        `derived=True` derives on it, too, what was derived then on the branch that the snapshot
        was asked for by, or was made on, as it was defined then: all of it, or the clone is not
        made.  Names end in `_` and that of the clone, or in the text that is given.
        """
        who = author or self.database.author
        if not derived:
            return self.database._clone(self._row, name, self.id, who, message)
        from livingdb.commit.deriving.clone_derived import CloneRequest, clone_derived, origin_of

        origin_row = origin_of(self._graph, self._row, self._branch)
        suffix = derived if isinstance(derived, str) else f"_{name}"
        request = CloneRequest(name, self._row, origin_row, suffix, who, message)
        clone_derived(self.database._pipeline, request, self.database.engine)
        return self.database.branch(name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Snapshot) and other._row.address == self._row.address

    def __hash__(self) -> int:
        return hash(self._row.address)

    def __str__(self) -> str:
        return self.id

    def __repr__(self) -> str:
        return f"<Snapshot {self.id[:12]} {self._row.kind}: {self.message or self.edge.operation}>"

    def _repr_html_(self) -> str:
        return notebook_html(self)
