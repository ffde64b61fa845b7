"""A request: a query over named versions, which any engine can answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa
from sqlglot import exp

from livingdb.engines.portable.portability import PortableQuery, check_portability
from livingdb.engines.row_stream import RowStream
from livingdb.engines.tree_parts import TreeParts
from livingdb.engines.value_ranges import Ranges
from livingdb.engines.written_query import WrittenQuery
from livingdb.tables.recipe import Definition
from livingdb.tables.rows import RowSet
from livingdb.trees.scan import ALL, Span

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from livingdb.engines.spark.projected_table import ProjectedTable

__all__ = ["Engine", "Request", "Source", "TableLocation", "parameters_of"]


@dataclass(frozen=True)
class TableLocation:
    """Where a table lies, for those who read it by themselves: a database and a snapshot's id.

    `project` gives it as files that a Spark session reads natively; it is told whether all rows
    are to be read, and gives None where there are no such files.
    """

    url: str = field(repr=False)
    snapshot: str
    table: str
    project: Callable[[SparkSession, bool], ProjectedTable | None] | None = field(
        default=None, repr=False, compare=False
    )


@dataclass(frozen=True)
class Source:
    """What a name in a query stands for.

    `ranges` are those outside of which no row matters to the query; `location` is None for
    rows that only this process has.  Of those, `span` may hold the keys of the ones it stands for.
    """

    rows: RowSet | pa.Table
    ranges: Mapping[str, Ranges] = field(default_factory=dict)
    location: TableLocation | None = None
    span: Span = ALL

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self.rows.schema.arrow if isinstance(self.rows, RowSet) else self.rows.schema

    @property
    def count(self) -> int:
        """About how many rows there are; never fewer than there are."""
        if not isinstance(self.rows, RowSet):
            return int(self.rows.num_rows)
        tail = 0 if self.rows.tail is None else len(self.rows.tail)
        return self.rows.forest.count_rows(self.rows.root) + tail


@dataclass(frozen=True)
class Request:
    """A query in Spark's dialect, whose tables are the names of its sources.

    `trust` names functions that it may call although they are not on the list.  `written` finds
    the text that its user wrote, if it is the query of one: what Spark is sent.
    """

    query: exp.Query
    sources: Mapping[str, Source]
    parameters: Mapping[str, object] = field(default_factory=dict)
    trust: Sequence[str] = ()
    written: Callable[[], WrittenQuery] | None = None

    @cached_property
    def portable(self) -> PortableQuery | str:
        """The columns of the answer if all engines give the same; else why they may not."""
        schemas = {name: source.schema for name, source in self.sources.items()}
        return check_portability(self.query, schemas, self.parameters)

    def used_parameters(self) -> dict[str, object]:
        """The parameters the query uses."""
        return parameters_of(self.query, self.parameters)


def parameters_of(query: exp.Expr, given: Mapping[str, object]) -> dict[str, object]:
    """Those of the parameters that a query uses."""
    used = {str(node.this) for node in query.find_all(exp.Placeholder)}
    return {name: value for name, value in given.items() if name in used}


class Engine(Protocol):
    """Answers requests.  Every engine gives the same rows in the same types."""

    name: str

    def rows(self, request: Request) -> pa.Table:
        """The rows the query gives."""
        ...

    def schema(self, request: Request) -> pa.Schema:
        """The columns of the rows the query gives, without computing these."""
        ...

    def stream(self, request: Request) -> RowStream:
        """The rows the query gives, as they come."""
        ...

    def tree(self, request: Request, definition: Definition, url: str) -> TreeParts:
        """The rows the query gives as trees of a table, in packs of the files at a URL.

        The packs count for nobody until they are committed.
        """
        ...
