"""Forward lineage as users ask for it: what would change, wherever it is, if a row changed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import pyarrow as pa

from livingdb.errors import InvalidData
from livingdb.graph.graph import Graph
from livingdb.graph.refs import ResolvedRef
from livingdb.tracing.lineage.affected_rows import AffectedRows
from livingdb.tracing.lineage.row_lineage import find_row

__all__ = ["ForwardLineage", "forward_lineage"]


class ForwardLineage(dict[str, pa.Table]):
    """The keys of rows that a row has a part in, by derived object.

    What has no key is told by all its columns; objects with several tables are named with the
    table, as in `masked.users`.  `whole` names those of which any row may depend on the row.
    """

    def __init__(self, of: str, tables: Mapping[str, pa.Table], whole: Sequence[str]):
        super().__init__(tables)
        self.of = of
        self.whole = tuple(whole)

    def to_text(self) -> str:
        """One line for each object, and its keys."""
        lines = [self.of]
        for name, keys in self.items():
            more = ", as a whole" if name in self.whole else ""
            lines.append(
                f"  {name}: {keys.num_rows:,} row{'' if keys.num_rows == 1 else 's'}{more}"
            )
            for row in keys.slice(0, 10).to_pylist():
                lines.append("    " + ", ".join(f"{name}={value!r}" for name, value in row.items()))
        return "\n".join(lines)

    def __repr__(self) -> str:
        return self.to_text()


def forward_lineage(
    graph: Graph,
    asked: tuple[str | None, Sequence[str]],
    ref: object,
    resolved: ResolvedRef,
    table: str,
    key: object,
) -> ForwardLineage:
    """What would change if a row of a table did: the keys of derived rows, by object.

    `resolved` is what the ref stands for; `asked` are the engine that is to answer, and the
    functions that queries may call.
    """
    branch = resolved.branch or graph.branches.find(re.split(r"[~@]", str(ref))[0])
    if branch is None:
        raise InvalidData(f"{ref}: name the branch whose row it is, as main or main~3")
    version = graph.version(resolved.snapshot, table)
    rows = find_row(graph.versions.rows(version), key, table)
    with graph.stage() as staging:
        search = AffectedRows(graph, *asked, staging)
        search.start(branch, resolved.snapshot, table, version, rows)
        search.run()
        tables, whole = search.affected_keys((branch.id, table))
        return ForwardLineage(f"{branch.name}.{table} {key!r}", tables, whole)
