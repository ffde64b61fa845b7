"""Answers DESCRIBE and EXPLAIN from what the scope of a statement sees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
from sqlglot import exp

from livingdb.engines.engine_choice import choose_engine
from livingdb.engines.request import Request
from livingdb.errors import InvalidData, NotFound
from livingdb.sql.parameters import Parameters, bind_parameters
from livingdb.sql.parse import parse_statement
from livingdb.sql.planner import Planner
from livingdb.sql.scope import Scope
from livingdb.sql.show_statements import DescribeStatement, ExplainStatement
from livingdb.sql.table_names import INFORMATION, SYSTEM, find_rows
from livingdb.tables.rows import RowSet
from livingdb.tables.schema import TableSchema
from livingdb.tables.type_names import type_name

__all__ = ["describe", "explain"]

_TEXT_COLUMNS = ("name", "type", "nullable", "key", "default")


def describe(scope: Scope, statement: DescribeStatement) -> pa.Table:
    """The columns of a table, one a row; EXTENDED adds what else is known of it."""
    branch = statement.branch
    if branch is not None and branch.casefold() in (SYSTEM, INFORMATION):
        table = statement.table.casefold()
        is_system = branch.casefold() == SYSTEM
        found = scope.system_table(table, []) if is_system else scope.information_table(table)
        return _rows([(f.name, type_name(f.type), "yes", "", None) for f in found.schema])
    ref = None
    if branch is not None:
        ref = scope.find_branch(branch)
        if ref is None:
            raise NotFound(f"there is no branch {branch!r}, in which to look for a table")
    name, rows = find_rows(scope, statement.table, ref)
    lines = _columns(rows.schema)
    if statement.is_extended:
        indexes = scope.indexes(name, ref)
        lines += [("", "", "", "", None), *_facts(name, rows, indexes)]
    return _rows(lines)


Line = tuple[str, str, str, str, str | None]


def _rows(lines: list[Line]) -> pa.Table:
    columns = zip(*lines, strict=True) if lines else [()] * len(_TEXT_COLUMNS)
    arrays = [pa.array(list(values), pa.string()) for values in columns]
    return pa.Table.from_arrays(arrays, names=list(_TEXT_COLUMNS))


def _columns(schema: TableSchema) -> list[Line]:
    return [
        (
            column.name,
            column.type_name,
            "no" if column.name in schema.key or not column.nullable else "yes",
            str(schema.key.index(column.name) + 1) if column.name in schema.key else "",
            None if column.default is None else str(column.default),
        )
        for column in schema.visible_columns
    ]


def _facts(name: str, rows: RowSet, indexes: Mapping[str, Sequence[str]]) -> list[Line]:
    schema = rows.schema
    facts = [("# table", name), ("# key", ", ".join(schema.key))]
    facts += [(f"# unique {title}", ", ".join(columns)) for title, columns in schema.uniques]
    facts += [(f"# index {title}", ", ".join(columns)) for title, columns in indexes.items()]
    facts += [(f"# foreign key {column}", target) for column, target in schema.foreign_keys]
    facts += [(f"# check {title}", condition) for title, condition in schema.checks]
    facts += [
        (f"# computed {column.name}", column.computed)
        for column in schema.visible_columns
        if column.computed is not None
    ]
    return [(title, text, "", "", None) for title, text in facts]


def explain(
    scope: Scope, statement: ExplainStatement, parameters: Parameters, engine: str | None
) -> pa.Table:
    """How a query would be answered, a line a row: by whom, why, from what, and the engine's plan.

    Nothing is read and no engine is started for it but the one in this process.
    """
    tree = parse_statement(statement.query)
    values = bind_parameters(tree, parameters)
    if isinstance(tree, exp.Values):
        tree = exp.select("*").from_(tree)
    if not isinstance(tree, exp.Query):
        raise InvalidData("EXPLAIN takes a query; what a change would do is not told beforehand")
    request = Planner(scope, values).request(tree, statement.query, parameters)
    name, reason = choose_engine(request, engine)
    lines = [f"engine: {name} ({reason})", *_source_lines(request)]
    if name == "embedded":
        from livingdb.engines.embedded.session import Session

        with Session() as session:
            text = session.prepare_sql(request)
            plan = session.query(f"EXPLAIN {text}", request.used_parameters())
            lines += "\n".join(plan.column(1).to_pylist()).splitlines()
    return pa.table({"plan": pa.array(lines, pa.string())})


def _source_lines(request: Request) -> list[str]:
    return [
        f"{name}: {source.location.table if source.location else 'rows of this process'}, "
        f"at most {source.count:,} rows"
        + (f", by {', '.join(sorted(source.ranges))}" if source.ranges else "")
        for name, source in request.sources.items()
    ]
