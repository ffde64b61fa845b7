"""Queries over a crossing: its tables by name, of which only those that are named are read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from livingdb.errors import InvalidData, NotFound

if TYPE_CHECKING:
    from sqlglot import exp

    from livingdb.guard.conditions.pending_change import PendingChange
    from livingdb.tables.rows import RowSet

__all__ = ["parse_query", "run_query"]

_BEFORE, _CHANGE, _SOURCE = "_before", "_change", "_source"


def parse_query(text: object) -> exp.Query:
    """The tree of a query; `InvalidData` for what is none."""
    from sqlglot import exp

    from livingdb.sql.parse import parse_statement

    if not isinstance(text, str):
        raise InvalidData(f"sql: a query is text, not {text!r}")
    found = parse_statement(text)
    if not isinstance(found, exp.Query):
        raise InvalidData("sql: a condition is a query that gives the rows that are wrong")
    return found


def run_query(crossing: PendingChange, text: str) -> pa.Table:
    """The rows that a query gives, answered in this process."""
    from sqlglot import exp

    from livingdb.engines.embedded.session import EmbeddedEngine
    from livingdb.engines.request import Request, Source
    from livingdb.sql.table_names import check_sources, table_nodes

    query = parse_query(text)
    check_sources(query)
    sources: dict[str, Source] = {}
    for table in table_nodes(query):
        if table.db or not isinstance(table.this, exp.Identifier):
            raise InvalidData(f"sql: {table.sql('spark')} is none of {_known_tables(crossing)}")
        name = f"given_{len(sources)}"
        sources[name] = Source(_relation(crossing, table.name))
        if not table.alias:
            table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name, quoted=True)))
        table.set("this", exp.to_identifier(name))
    return EmbeddedEngine().rows(Request(query, sources))


def _relation(crossing: PendingChange, name: str) -> RowSet | pa.Table:
    wanted = name.casefold()
    for of in ("target", "source"):
        for table, both in crossing.side(of).items():
            mine, is_target = table.casefold(), of == "target"
            version = both.new or both.old
            if version is None:
                continue
            if wanted == mine or (wanted == mine + _SOURCE and not is_target):
                rows = crossing.rows(table, of)
                return _empty_table(crossing, table, of) if rows is None else rows
            if wanted == mine + _BEFORE:
                rows = crossing.rows(table, of, old=True)
                return _empty_table(crossing, table, of) if rows is None else rows
            if wanted == mine + _CHANGE:
                return crossing.come(table, of).select(crossing.schema(table, of).arrow.names)
    raise NotFound(f"sql: there is no table {name!r} here; there are {_known_tables(crossing)}")


def _empty_table(crossing: PendingChange, table: str, of: str) -> pa.Table:
    return crossing.schema(table, of).arrow.empty_table()


def _known_tables(crossing: PendingChange) -> str:
    targets = [f"{name}, {name}{_BEFORE}, {name}{_CHANGE}" for name in crossing.targets]
    return ", ".join([*targets, *(name for name in crossing.sources)]) or "none"
