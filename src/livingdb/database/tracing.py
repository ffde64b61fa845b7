"""What a database can be asked about where its rows, columns and snapshots come from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from livingdb.access.roles import Role
from livingdb.graph.graph import Graph
from livingdb.graph.refs import ResolvedRef

if TYPE_CHECKING:
    from livingdb.database.branch import Branch
    from livingdb.tracing.lineage.column_lineage import ColumnLineage
    from livingdb.tracing.lineage.forward_lineage import ForwardLineage
    from livingdb.tracing.lineage.row_lineage import Lineage
    from livingdb.tracing.provenance.provenance import Provenance
    from livingdb.tracing.whereabouts.whereabouts import Whereabouts

__all__ = ["Tracing"]


class Tracing(ABC):
    """The part of a database that explains it."""

    @property
    @abstractmethod
    def _graph(self) -> Graph:
        """The graph of the open database."""

    @abstractmethod
    def _require_everywhere(self, role: Role, what: str) -> None:
        """`Forbidden` unless who acts here has a role on the database itself."""

    @abstractmethod
    def _noting_files(self, action: str, subject: object = "") -> AbstractContextManager[None]:
        """Do inside what writes files: that a user does it is written down before and after it."""

    @abstractmethod
    def _resolve(self, ref: object) -> ResolvedRef:
        """The snapshot that a ref stands for."""

    @property
    @abstractmethod
    def default_branch(self) -> Branch:
        """The branch that is meant where none is named."""

    engine: str | None
    """The engine that is to answer; None: by the question."""
    trust: Sequence[str]
    """The functions that queries may call."""

    def blame(self, ref: object, table: str, key: object = None, columns: bool = False) -> pa.Table:
        """For every row (or that with the key), the snapshot that gave it its values.

        What syncs, schema changes and views took over is traced to the edit that caused it; `via`,
        if anything was, names the snapshot it came by.  `columns=True`: for every cell; the column
        is named in `column`.
        """
        from livingdb.tracing.blame import blame as origins

        return origins.blame(self._graph, self._resolve(ref).snapshot, table, key, columns)

    def history(self, ref: object, table: str, key: object = None) -> pa.Table:
        """Every value a row has had (no key: all rows), newest first."""
        from livingdb.tracing.blame import blame as origins

        return origins.history(self._graph, self._resolve(ref).snapshot, table, key)

    def lineage(
        self, view: str, key: object = None, at: object = None, base: bool = True
    ) -> Lineage:
        """The source rows behind a row of a derived object (no key: all rows), by table.

        `at` is a snapshot of the object, or of its source; `base=False` takes one step only.
        """
        from livingdb.tracing.lineage.row_lineage import lineage
        from livingdb.tracing.lineage.search import Search

        row = None if at is None else self._resolve(at).snapshot
        return lineage(Search(self._graph, self.engine, base, self.trust), str(view), key, row)

    def column_lineage(self, view: str, base: bool = True) -> ColumnLineage:
        """For each column of a derived object, the source columns it is computed from.

        `.used` are those that filters, joins and groups look at; `base=False` takes one step only.
        """
        from livingdb.tracing.lineage.column_lineage import column_lineage

        return column_lineage(self._graph, str(view), base)

    def forward_lineage(self, ref: object, table: str, key: object) -> ForwardLineage:
        """What would change if a row of a table did: the keys of rows, by derived object."""
        from livingdb.tracing.lineage.forward_lineage import forward_lineage

        resolved = self._resolve(ref)
        asked = self.engine, self.trust
        return forward_lineage(self._graph, asked, ref, resolved, table, key)

    def whereabouts(
        self, table: str, key: object, branch: object = None, at: object = None
    ) -> Whereabouts:
        """Where a row has gone: branches, tags, views, clones, models, and since when.

        `branch`: where the row is meant to be, by default the default branch; `at`: as of a time,
        or of the time of a ref.
        """
        from livingdb.tracing.whereabouts.search import whereabouts

        of = self.default_branch.name if branch is None else str(branch)
        return whereabouts(self._graph, table, key, of, self._to_microseconds(at))

    def provenance(self, ref: object) -> Provenance:
        """What made a snapshot, from what and by whom, as one tree down to the transactions."""
        from livingdb.tracing.provenance.search import provenance

        resolved = self._resolve(ref)
        return provenance(self._graph, resolved.snapshot, resolved.branch)

    def export_openlineage(
        self, path: str | Path, namespace: str | None = None, since: object = None
    ) -> int:
        """Write what syncs have done as OpenLineage events, a line of JSON each; how many.

        `since`: a ref or a time, whose later runs alone are written.
        """
        from livingdb.tracing.openlineage.events import export

        self._require_everywhere(Role.OWNER, "write files")
        with self._noting_files("export lineage"):
            return export(self._graph, path, namespace, self._to_microseconds(since) or 0)

    def _to_microseconds(self, given: object) -> int | None:
        """A time, or that of a ref, in microseconds."""
        if given is None:
            return None
        if isinstance(given, datetime):
            from livingdb.tracing.openlineage.events import microseconds

            return microseconds(given)
        return self._resolve(given).snapshot.time
