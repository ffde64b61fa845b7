"""Tools that tell where a value comes from: blame, history, lineage, provenance."""

from __future__ import annotations

from typing import Annotated, Any

import pyarrow as pa
from pydantic import Field

from livingdb.server.mcp.answers import cut_text, rows_answer
from livingdb.server.mcp.call import Answer
from livingdb.server.mcp.session import AgentSession
from livingdb.server.mcp.tools.parameters import Key, Ref, TableName, key_values
from livingdb.tables.free_names import free_name

__all__ = ["TraceTools"]


class TraceTools:
    """Where a row, a value or a number comes from."""

    def __init__(self, session: AgentSession):
        self._session = session

    def row_history(self, table: TableName, key: Key, ref: Ref = None) -> Answer:
        """Every value that one row has had, newest first, with who set it, when and why."""
        session, limits = self._session, self._session.limits
        where = session.ref(ref)
        known = session.database.at(where).table(table)
        found = session.database.history(where, table, key_values(known, key))
        ids, more = free_name("snapshot", known.key), "ask at an earlier ref for older ones"
        return rows_answer(found, limits.rows, limits, more=more, ids=_if_there(found, ids))

    def blame(
        self,
        table: TableName,
        key: Key,
        ref: Ref = None,
        columns: Annotated[
            bool, Field(description="Tell it for every column of the row, not for the row.")
        ] = False,
    ) -> Answer:
        """The commit that gave one row, or each of its values, what it has now: who, when, why."""
        session, limits = self._session, self._session.limits
        where = session.ref(ref)
        known = session.database.at(where).table(table)
        found = session.database.blame(where, table, key_values(known, key), columns)
        ids, more = free_name("snapshot", known.key), "ask without columns"
        return rows_answer(found, limits.rows, limits, more=more, ids=_if_there(found, ids))

    def lineage(
        self,
        view: Annotated[str, Field(description="The name of the view.")],
        key: Annotated[
            Any,
            Field(
                description="The key of one row of the view, as for a table. Left out: what each "
                "column of the view is computed from."
            ),
        ] = None,
    ) -> Answer:
        """The source rows behind one row of a view, or the source columns of its columns.

        Use it to explain a number: it names the tables, and has the rows that were counted.
        """
        db, limits = self._session.database, self._session.limits
        if key is None:
            columns = db.column_lineage(view)
            return {"columns": {name: list(sources) for name, sources in columns.items()}}
        at = db.at(view)
        names = at.tables()
        table = at.table(view if view in names or not names else names[0])
        found = db.lineage(view, key=key_values(table, key))
        share = max(limits.rows // max(len(found), 1), 1)
        return {
            "branches": found.branches,
            "sources": {
                name: rows_answer(rows, share, limits, more="query them", ids=rows.column_names[-1])
                for name, rows in found.items()
            },
            "whole_tables": list(found.whole),
        }

    def provenance(
        self,
        ref: Ref = None,
        depth: Annotated[int, Field(description="How many steps back.", ge=0, le=20)] = 3,
    ) -> Answer:
        """What made a snapshot or a view, from what and by whom, as an indented tree."""
        session = self._session
        found = session.database.provenance(session.ref(ref))
        room = session.limits.characters // 2
        text = cut_text(found.to_text(depth), room, "ask for less depth")
        return {"tree": text.splitlines()}


def _if_there(rows: pa.Table, column: str) -> str | None:
    return column if column in rows.column_names else None
