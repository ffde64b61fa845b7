"""What a database can be asked about where its rows, columns and snapshots come from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from livingdb.database import origins
from livingdb.graph.graph import Graph
from livingdb.graph.refs import Resolved

if TYPE_CHECKING:
    from livingdb.database.database import Database

__all__ = ["Tracing"]


class Tracing(ABC):
    """The part of a database that explains it."""

    @property
    @abstractmethod
    def _graph(self) -> Graph:
        """The graph of the open database."""

    @abstractmethod
    def _resolve(self, ref: object) -> Resolved:
        """The snapshot that a ref stands for."""

    def blame(self, ref: object, table: str, key: object = None, columns: bool = False) -> pa.Table:
        """For every row (or that with the key), the snapshot that gave it its values.

        What syncs, schema changes and views took over is traced to the edit that caused it; `via`,
        if anything was, names the snapshot it came by.  `columns=True`: for every cell; the column
        is named in `column`.
        """
        return origins.blame(self._graph, self._resolve(ref).snapshot, table, key, columns)

    def history(self, ref: object, table: str, key: object = None) -> pa.Table:
        """Every value a row has had (no key: all rows), newest first."""
        return origins.history(self._graph, self._resolve(ref).snapshot, table, key)

    def lineage(self, view: str, key: object = None, at: object = None, base: bool = True) -> Any:
        """The source rows behind a row of a derived object (no key: all rows), by table.

        `at` is a snapshot of the object, or of its source; `base=False` takes one step only.
        """
        found = import_module("livingdb.database.lineage")
        return found.lineage(cast("Database", self), str(view), key, at, base)

    def column_lineage(self, view: str, base: bool = True) -> Any:
        """For each column of a derived object, the source columns it is computed from.

        `.used` are those that filters, joins and groups look at; `base=False` takes one step only.
        """
        found = import_module("livingdb.database.lineage_columns")
        return found.column_lineage(self._graph, str(view), base)

    def forward_lineage(self, ref: object, table: str, key: object) -> Any:
        """What would change if a row of a table did: the keys of rows, by derived object."""
        found = import_module("livingdb.database.lineage_forward")
        return found.forward_lineage(cast("Database", self), ref, table, key)

    def whereabouts(
        self, table: str, key: object, branch: object = "main", at: object = None
    ) -> Any:
        """Where a row has gone: branches, tags, views, clones, models, and since when.

        `at`: as of a time, or of the time of a ref.
        """
        found = import_module("livingdb.database.whereabouts_search")
        return found.whereabouts(self._graph, table, key, str(branch), self._moment(at))

    def provenance(self, ref: object) -> Any:
        """What made a snapshot, from what and by whom, as one tree down to the transactions."""
        found = import_module("livingdb.database.provenance_search")
        resolved = self._resolve(ref)
        return found.provenance(self._graph, resolved.snapshot, resolved.branch)

    def export_openlineage(
        self, path: str | Path, namespace: str | None = None, since: object = None
    ) -> int:
        """Write what syncs have done as OpenLineage events, a line of JSON each; how many.

        `since`: a ref or a time, whose later runs alone are written.
        """
        found = import_module("livingdb.database.openlineage")
        count: int = found.export(self._graph, path, namespace, self._moment(since) or 0)
        return count

    def _moment(self, given: object) -> int | None:
        """A time, or that of a ref, in microseconds."""
        if given is None:
            return None
        if isinstance(given, datetime):
            found: int = import_module("livingdb.database.openlineage").microseconds(given)
            return found
        return self._resolve(given).snapshot.time
