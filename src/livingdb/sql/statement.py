"""Executes one statement: query, DML, schema statement or view statement."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import pyarrow as pa
from sqlglot import exp

from livingdb.engines.embedded.results import null_types_as_text, typed_keys
from livingdb.engines.engine_choice import answer_request
from livingdb.engines.planned_answer import PlannedAnswer
from livingdb.engines.portable.portability import PortableQuery
from livingdb.engines.request import Request
from livingdb.engines.row_stream import RowStream, one_batch
from livingdb.errors import InvalidData, Unsupported
from livingdb.sql.column_titles import with_spark_titles
from livingdb.sql.create_table_as import CreateTableAs, parse_create_table_as
from livingdb.sql.database_statements import parse_database_statement
from livingdb.sql.describe import describe, explain
from livingdb.sql.index_statements import parse_index_statement
from livingdb.sql.insert import delete, insert
from livingdb.sql.merge import merge
from livingdb.sql.parameters import Parameters, bind_parameters
from livingdb.sql.parse import POSSIBLE, is_definition, parse_statement
from livingdb.sql.planner import Planner
from livingdb.sql.query_plan import QueryPlan
from livingdb.sql.result import Result
from livingdb.sql.row_statements import StatementWriter
from livingdb.sql.scope import Scope
from livingdb.sql.show_statements import (
    DescribeStatement,
    ExplainStatement,
    ShowStatement,
    parse_show_statement,
)
from livingdb.sql.table_statements import parse_schema_statement, without_sync
from livingdb.sql.update import update
from livingdb.sql.view_statements import parse_view_statement

__all__ = ["execute", "plan_query", "statement_kind"]

_REFUSED = (exp.DML, exp.DDL, exp.Command, exp.Into, exp.Set, exp.Pragma, exp.Describe)


def execute(
    scope: Scope,
    text: str,
    parameters: Parameters = None,
    engine: str | None = None,
    most: int | None = None,
) -> Result:
    """Run a statement in Spark's dialect: a query, or a change in one transaction.

    `parameters` is a dict for `:name` or a list for `?`; values are bound, never pasted.
    `engine` answers queries, and those by which the rows of changes are computed.  `most` is how
    many rows of a query are wanted: no more is computed than these need.
    """
    try:
        return _execute(scope, text, parameters, engine, most)
    except RecursionError:
        raise InvalidData("the statement is nested too deeply") from None


_KINDS = {
    *("select", "insert", "update", "delete", "merge", "create", "alter", "drop", "truncate"),
    *("show", "describe", "explain", "refresh", "detach", "reattach", "resume"),
}


def statement_kind(text: str) -> str:
    """What a statement does, by its first word: one of a few words, whatever it says."""
    word = text[:200].split(None, 1)[:1]
    kind = word[0].lower() if word else ""
    if kind in ("with", "values", "from"):
        return "select"
    return kind if kind in _KINDS else "other"


def _execute(
    scope: Scope, text: str, parameters: Parameters, engine: str | None, most: int | None
) -> Result:
    asked = parse_database_statement(text)
    if asked is not None:
        return Result(pa.table({}), scope.run(asked))
    made = parse_create_table_as(text)
    if made is not None:
        return _create_table_as(scope, made, parameters, engine)
    if is_definition(text):
        return _define(scope, text)
    shown = _show(scope, text, parameters, engine)
    if shown is not None:
        return Result(shown)
    tree, values = _read(text, parameters)
    if isinstance(tree, exp.Query):
        request = Planner(scope, values).request(tree, text, parameters)
        return _select(tree, request, engine, most)
    return _execute_change(scope, tree, values, engine)


def _show(scope: Scope, text: str, parameters: Parameters, engine: str | None) -> pa.Table | None:
    """What SHOW, DESCRIBE or EXPLAIN say; None if it is another statement."""
    shown = parse_show_statement(text)
    if isinstance(shown, ShowStatement):
        return shown.select(scope.show(shown.what))
    if isinstance(shown, DescribeStatement):
        return describe(scope, shown)
    if isinstance(shown, ExplainStatement):
        return explain(scope, shown, parameters, engine)
    return None


def _read(text: str, parameters: Parameters) -> tuple[exp.Expr, dict[str, object]]:
    """The tree of a query or a change of rows, and the values of its parameters."""
    tree = parse_statement(text)
    values = bind_parameters(tree, parameters)
    if isinstance(tree, exp.Values):
        tree = exp.select("*").from_(tree)
    _check(tree)
    return tree, values


def plan_query(
    scope: Scope, text: str, parameters: Parameters = None, engine: str | None = None
) -> QueryPlan | None:
    """What a query will give, over the rows that there are now; None if the statement is none.

    The rows are computed when the plan is opened, and come a batch at a time.
    """
    try:
        if parse_database_statement(text) or is_definition(text):
            return None
        shown = _show(scope, text, parameters, engine)
        if shown is not None:
            return QueryPlan(shown.schema, partial(RowStream.of, shown))
        tree, values = _read(text, parameters)
        if not isinstance(tree, exp.Query):
            return None
        request = Planner(scope, values).request(tree, text, parameters)
        return _planned(tree, PlannedAnswer(request, engine))
    except RecursionError:
        raise InvalidData("the statement is nested too deeply") from None


def _planned(tree: exp.Query, answer: PlannedAnswer) -> QueryPlan:
    schema = _as_result(tree, answer.request, answer.schema.empty_table(), answer.engine).schema

    def finish(batch: pa.RecordBatch) -> pa.RecordBatch:
        if batch.schema.equals(schema):
            return batch
        return one_batch(pa.Table.from_batches([batch]).rename_columns(schema.names).cast(schema))

    known = answer.request.portable
    caution = known if isinstance(known, str) else ""
    return QueryPlan(schema, lambda: answer.open().map(schema, finish), caution)


def _select(tree: exp.Query, request: Request, engine: str | None, most: int | None) -> Result:
    if most is not None:
        answer = PlannedAnswer(request, engine)
        return Result(_planned(tree, answer).first_rows(most), engine=answer.engine)
    rows, name = answer_request(request, engine)
    return Result(_as_result(tree, request, rows, name), engine=name)


def _as_result(tree: exp.Query, request: Request, rows: pa.Table, engine: str) -> pa.Table:
    """The answer of an engine as its reader sees it."""
    if engine != "embedded":
        return rows
    is_typed = isinstance(request.portable, PortableQuery)
    rows = typed_keys(rows) if is_typed else null_types_as_text(rows)
    return with_spark_titles(tree, rows)


def _create_table_as(
    scope: Scope, statement: CreateTableAs, parameters: Parameters, engine: str | None
) -> Result:
    """Make a table of the rows of a query, in one transaction."""
    found = execute(scope, statement.query, parameters, engine).to_arrow()
    with scope.write_transaction() as writer:
        is_made = writer.create_table_as(statement, found)
    if not is_made:
        return Result(pa.table({}))
    return Result(pa.table({}), writer.snapshot, found.num_rows)


def _define(scope: Scope, text: str) -> Result:
    index = parse_index_statement(text)
    if index is not None:
        scope.define_index(index)
        return Result(pa.table({}))
    text, guard = scope.without_guard(text)
    rest, options = without_sync(text)
    view = parse_view_statement(rest, {**options, **guard})
    if view is not None:
        return Result(pa.table({}), scope.define_view(view))
    return Result(pa.table({}), scope.define(parse_schema_statement(text, guard)))


def _execute_change(
    scope: Scope, tree: exp.Expr, values: Mapping[str, object], engine: str | None
) -> Result:
    with scope.write_transaction() as writer:
        planner = Planner(writer, values, engine)
        changes = StatementWriter(writer, planner)
        if isinstance(tree, exp.Insert):
            insert(changes, tree)
        elif isinstance(tree, exp.Update):
            update(changes, tree)
        elif isinstance(tree, exp.Delete):
            delete(changes, tree)
        elif isinstance(tree, exp.Merge):
            merge(changes, tree)
    return Result(changes.returned, writer.snapshot, changes.count, planner.engine)


def _check(tree: exp.Expr) -> None:
    """`Unsupported` for every part of a statement that is not for SQL here."""
    if not isinstance(tree, (exp.Query, exp.Insert, exp.Update, exp.Delete, exp.Merge)):
        raise Unsupported(f"this statement is not possible; {POSSIBLE}")
    for node in tree.walk():
        if node is tree or not isinstance(node, _REFUSED) or isinstance(node, exp.Query):
            continue
        if not (isinstance(tree, exp.Merge) and isinstance(node.parent, exp.When)):
            what = node.key.upper()
            raise Unsupported(f"{what} is not possible inside a statement; {POSSIBLE}")
