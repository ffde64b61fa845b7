"""A table in one version, ready to be read."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from livingdb.errors import InvalidData
from livingdb.graph.graph import Graph
from livingdb.tables.index import Version
from livingdb.tables.layout import Layout
from livingdb.tables.recipe import Definition
from livingdb.tables.rows import RowSet
from livingdb.tables.type_names import type_name

if TYPE_CHECKING:
    import pandas
    import polars

__all__ = ["Table", "TableReader"]


def condition_engine(engine: str | None) -> str | None:
    """The engine that conditions on rows are bound to, by that of a database; None: to none.

    Rows come in key order, so that Spark has only those which no other engine answers.
    """
    return engine if engine == "embedded" else None


_Every = TypeVar("_Every", Sequence[str], None)


def _check_columns(columns: Sequence[str] | None, every: _Every) -> Sequence[str] | _Every:
    """The columns asked for, or every one; `InvalidData` for a text, which is a list of letters."""
    if columns is None:
        return every
    if isinstance(columns, str) or not isinstance(columns, Iterable):
        raise InvalidData(f"columns={columns!r}: a list of names, as [{str(columns)!r}]")
    names = list(columns)
    for name in names:
        if not isinstance(name, str):
            raise InvalidData(f"columns={names!r}: {name!r} is no name of a column")
    return names


class TableReader:
    """Reads rows.  What it shows never changes: it is a table as it was at one moment."""

    def __init__(self, name: str, rows: RowSet, engine: str | None = None):
        self.name = name
        self._rows = rows
        self._engine = condition_engine(engine)

    @property
    def rows(self) -> RowSet:
        """The rows themselves."""
        return self._rows

    @property
    def engine(self) -> str | None:
        """The engine that answers conditions on the rows; None: whichever suits."""
        return self._engine

    @property
    def schema(self) -> pa.Schema:
        """Columns and their types."""
        return self.rows.schema.arrow

    @property
    def key(self) -> tuple[str, ...]:
        """The names of the key columns; none if rows have no key that is shown."""
        return self.rows.schema.visible_key

    @property
    def unique(self) -> dict[str, tuple[str, ...]]:
        """The unique constraints: their names, and the columns of each."""
        return dict(self.rows.schema.uniques)

    @property
    def generated(self) -> dict[str, str]:
        """The columns that draw their values: "by default", or "always"."""
        columns = self.rows.schema.visible_columns
        return {column.name: column.generated for column in columns if column.generated}

    def to_arrow(self, columns: Sequence[str] | None = None, where: str | None = None) -> pa.Table:
        """The rows in key order; `where` is a condition in SQL."""
        if where is None:
            return self.rows.to_arrow(_check_columns(columns, None))
        names = _check_columns(columns, self.schema.names)
        from livingdb.sql.select_where import select_where

        found: pa.Table = select_where(self.rows, where, names, self._engine)
        return found

    def to_pandas(
        self, columns: Sequence[str] | None = None, where: str | None = None
    ) -> pandas.DataFrame:
        """The rows as a pandas data frame."""
        return self.to_arrow(columns, where).to_pandas()

    def to_polars(
        self, columns: Sequence[str] | None = None, where: str | None = None
    ) -> polars.DataFrame:
        """The rows as a polars data frame."""
        import polars

        found = polars.from_arrow(self.to_arrow(columns, where))
        assert isinstance(found, polars.DataFrame)
        return found

    def to_parquet(
        self,
        path: str | os.PathLike[str],
        columns: Sequence[str] | None = None,
        where: str | None = None,
    ) -> int:
        """Write the rows in key order into a file, in place of one that is there; its bytes."""
        from livingdb.database.table_files import write_rows

        chosen = list(_check_columns(columns, self.schema.names))
        schema = pa.schema([self.rows.schema.column(name).field for name in chosen])
        target = Path(os.fspath(path)).absolute()
        return write_rows(target, "parquet", schema, self.batches(chosen, where))

    def batches(
        self, columns: Sequence[str] | None = None, where: str | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The rows in key order, a bounded number at a time."""
        if where is None:
            return self.rows.batches(_check_columns(columns, None))
        return iter(self.to_arrow(columns, where).to_batches())

    def get(self, key: object = None, /, **values: object) -> dict[str, Any] | None:
        """The row with this key, a tuple for a composite one; None if there is none.

        Or the one whose columns hold these values: `t.get(email="ada@example.org")`, which an
        index on them finds at once.  `InvalidData` if several do.
        """
        if values:
            from livingdb.database.find_row import find_row

            if key is not None:
                raise InvalidData("get: name a row by its key, or by values of other columns")
            return find_row(self.rows, values)
        found = tuple(key) if isinstance(key, (tuple, list)) else (key,)
        return self.rows.get(*found)

    def __contains__(self, key: object) -> bool:
        return self.get(key) is not None

    def __len__(self) -> int:
        return self.rows.count()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        reader = pa.RecordBatchReader.from_batches(self.schema, self.batches())
        return reader.__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        return self.schema.__arrow_c_schema__()

    def __repr__(self) -> str:
        columns = ", ".join(f"{field.name} {type_name(field.type)}" for field in self.schema)
        key = f" key {', '.join(self.key)}" if self.key else ""
        unique = "".join(f" unique ({', '.join(group)})" for group in self.unique.values())
        return f"<{type(self).__name__} {self.name} ({columns}){key}{unique}>"

    def _repr_html_(self) -> str:
        from html import escape

        head = next(iter(self.batches()), None)
        shown = [] if head is None else head.slice(0, 10).to_pylist()
        titles = "".join(f"<th>{escape(name)}</th>" for name in self.schema.names)
        lines = "".join(
            "<tr>" + "".join(f"<td>{escape(str(value))}</td>" for value in row.values()) + "</tr>"
            for row in shown
        )
        return (
            f"<p>{escape(self.name)}: {len(self):,} rows</p><table><tr>{titles}</tr>{lines}</table>"
        )


class Table(TableReader):
    """A table of a snapshot."""

    def __init__(self, graph: Graph, name: str, version: Version, engine: str | None = None):
        self._graph = graph
        self._version = version
        self.name = name
        self._engine = condition_engine(engine)

    @cached_property
    def rows(self) -> RowSet:
        """The rows themselves."""
        return self._graph.observer.rows(self._version)

    @property
    def schema(self) -> pa.Schema:
        """Columns and their types."""
        return self._graph.versions.definition(self._version).schema.arrow

    @property
    def version(self) -> str:
        """The address of its recipe."""
        return self._version.address.hex()

    @property
    def definition(self) -> Definition:
        """Its schema and identity, and the layout that it was made with."""
        return self._graph.versions.definition(self._version)

    @property
    def layout(self) -> Layout:
        """The layout that trees of the table are made in now, with the columns of this version."""
        self._graph.observe_now()
        return self._graph.versions.placements.of(self._version).layout

    def indexes(self) -> dict[str, tuple[str, ...]]:
        """The indexes that the table has now, of the columns of this version: names and columns."""
        from livingdb.maintenance.indexes import indexes_of

        return indexes_of(self._graph, self._version)

    def to_parquet(
        self,
        path: str | os.PathLike[str],
        columns: Sequence[str] | None = None,
        where: str | None = None,
    ) -> int:
        """Write the rows in key order into a file, in place of one that is there; its bytes.

        The database remembers what was written and where to.
        """
        from livingdb.database.export_tables import note_export

        size_bytes = super().to_parquet(path, columns, where)
        newest = self._graph.catalog.snapshots.newest_number()
        target = Path(os.fspath(path)).absolute()
        note_export(self._graph, target, newest, {"tables": [self.name], "format": "parquet"})
        return size_bytes

    def root(self) -> str:
        """The canonical root of its tree: equal for equal rows and layout.  Folds if need be."""
        self._graph.observe_now()
        tree = self._graph.index.tree(self._version.address)
        if tree is not None and self._graph.versions.placements.is_in_place(self._version, tree):
            return tree.root.hex()
        return self._graph.fold(self._version).hex()

    def __len__(self) -> int:
        return self._graph.versions.count(self._version)
