"""CREATE TABLE … AS SELECT: what it says about the table that it makes."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sqlglot import exp

from livingdb.sql.clause_reader import ClauseReader
from livingdb.sql.parse import parse_statement

__all__ = ["CreateTableAs", "parse_create_table_as"]

_MAY_BE = re.compile(r"\bcreate\b.*\bas\b", re.IGNORECASE | re.DOTALL)
_FORM = "write CREATE TABLE [IF NOT EXISTS] name [(PRIMARY KEY (name, …))] AS SELECT …"


@dataclass(frozen=True)
class CreateTableAs:
    """The table, its key if that was said, and the query whose rows it gets, as it was written.

    `source` is the table that the query reads, if it does nothing but choose among its rows: its
    key will do.
    """

    table: str
    query: str
    key: tuple[str, ...] = ()
    if_missing: bool = False
    source: str | None = None


def parse_create_table_as(text: object) -> CreateTableAs | None:
    """What a statement says; None if it is another one."""
    if not isinstance(text, str) or not _MAY_BE.search(text):
        return None
    reader = ClauseReader(text, "CREATE TABLE")
    if not reader.take("CREATE", "TABLE"):
        return None
    reader.begin_clause()
    if_missing = reader.take("IF", "NOT", "EXISTS")
    name = reader.take_identifier()
    if name is None:
        return None
    key: tuple[str, ...] = ()
    if reader.take("(", "PRIMARY", "KEY"):
        key = reader.names("a column", _FORM)
        if not reader.take(")"):
            return None  # a table with columns of its own
    if not reader.take("AS"):
        return None
    if reader.is_done:
        raise reader.invalid("the query is missing", _FORM)
    tree = parse_statement(reader.rest)
    if not isinstance(tree, (exp.Query, exp.Values)):
        raise reader.invalid("what stands after AS is no query", _FORM)
    return CreateTableAs(name, reader.rest, key, if_missing, _single_source(tree))


def _single_source(tree: exp.Expr) -> str | None:
    """The table whose rows a query chooses among, each at most once; None if it does more."""
    if not isinstance(tree, exp.Select) or tree.args.get("with_"):
        return None
    if any(tree.args.get(part) for part in ("joins", "group", "laterals", "distinct")):
        return None
    clause = tree.args.get("from_") or tree.args.get("from")
    table = None if clause is None else clause.this
    if not isinstance(table, exp.Table) or table.db or table.args.get("version"):
        return None
    return str(table.name) if not tree.find(exp.AggFunc, exp.Explode) else None
