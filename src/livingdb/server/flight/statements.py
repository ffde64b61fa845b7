"""Statements: prepared ones with their parameters, and what comes of running them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa

from livingdb.dbapi.errors import DataError
from livingdb.dbapi.many_rows import insert_target
from livingdb.engines.row_stream import RowStream
from livingdb.errors import InvalidData, LivingDBError
from livingdb.server.flight.workspace import OpenTransaction, Workspace, writable
from livingdb.sql.create_table_as import parse_create_table_as
from livingdb.sql.database_statements import parse_database_statement
from livingdb.sql.parameters import parameter_names
from livingdb.sql.parse import is_definition, parse_statement
from livingdb.sql.query_plan import QueryPlan
from livingdb.sql.show_statements import ExplainStatement, parse_show_statement

__all__ = ["Answer", "Prepared", "change_rows", "describe_answer", "prepare", "run_statement"]


@dataclass
class Prepared:
    """A statement that waits to be run, with the names of its parameters and what they are."""

    text: str
    transaction: OpenTransaction | None
    names: Sequence[str]
    parameters: pa.Table | None = field(default=None)


@dataclass(frozen=True)
class Answer:
    """What a statement gives: rows to be computed when they are fetched, or a number of changes."""

    schema: pa.Schema
    plans: Sequence[QueryPlan] = ()
    changed: int = -1


def prepare(text: str, transaction: OpenTransaction | None) -> Prepared:
    """Read a statement; what cannot be read is said at once."""
    return Prepared(text, transaction, _parameter_names(text))


def _parameter_names(text: str) -> list[str]:
    """The parameters in the order in which they are given; none where a statement takes none."""
    if parse_database_statement(text):
        return []
    made, shown = parse_create_table_as(text), parse_show_statement(text)
    if made is not None:
        text = made.query
    elif isinstance(shown, ExplainStatement):
        text = shown.query
    elif shown is not None or is_definition(text):
        return []
    return parameter_names(parse_statement(text))


def describe_answer(workspace: Workspace, statement: Prepared) -> pa.Schema | None:
    """The columns that a query gives; None if the statement is none.

    Of parameters that are not known yet nothing is assumed: where they decide about the columns,
    as in `SELECT ?`, these are known when they are.
    """
    sets = _parameter_sets(statement)
    given = sets[0] if sets else _parameters(statement.names, [None] * len(statement.names))
    try:
        plan = workspace.plan(statement.text, given)
    except LivingDBError:
        if sets or not statement.names:
            raise
        return pa.schema([])
    return None if plan is None else plan.schema


def run_statement(workspace: Workspace, statement: Prepared) -> Answer:
    """Run a statement that may give rows: a query is planned, anything else is done."""
    sets = _parameter_sets(statement)
    if statement.parameters is not None and not sets:
        return Answer(pa.schema([]), changed=0)
    first = sets[0] if sets else None
    plan = workspace.plan(statement.text, first)
    if plan is None:
        return change_rows(workspace, statement)
    plans = [plan, *(_same(plan, workspace.plan(statement.text, one)) for one in sets[1:])]
    return Answer(plan.schema, plans)


def _same(first: QueryPlan, other: QueryPlan | None) -> QueryPlan:
    """A plan for further parameters, which gives the columns that the first ones gave."""
    assert other is not None
    if other.schema.equals(first.schema):
        return other
    raise InvalidData("the parameters differ in their types, and the columns with them")


def change_rows(workspace: Workspace, statement: Prepared) -> Answer:
    """Run a statement once for each set of its parameters, all in one transaction."""
    rows = statement.parameters
    target = insert_target(statement.text) if rows is not None and rows.num_rows > 1 else None
    if rows is not None and target is not None:
        named = _columns_by_name(statement.names, rows)
        data = pa.table({column: named[name] for column, name in target.columns.items()})
        # What SQL would cast is left to it, a row at a time, and so is saying what is wrong.
        with suppress(DataError):
            return _changed(writable(workspace).run_insert(target.table, data))
    sets = [None] if rows is None else _parameter_sets(statement)
    changed, given = 0, None
    with workspace.one_transaction():
        for one in sets:
            result = workspace.run(statement.text, one)
            changed += result.changed
            given = result.to_arrow() if result.schema.names else given
    if given is None:
        return _changed(changed)
    if len(sets) > 1:
        raise InvalidData("a statement that gives rows takes one set of parameters")
    return Answer(given.schema, [QueryPlan(given.schema, partial(RowStream.of, given))], changed)


def _changed(rows: int) -> Answer:
    return Answer(pa.schema([]), changed=rows)


def _parameter_sets(statement: Prepared) -> list[Any]:
    """What the parameters are in each run: lists for `?`, dicts for `:name`."""
    if statement.parameters is None:
        return []
    named = _columns_by_name(statement.names, statement.parameters)
    columns = [named[name].to_pylist() for name in statement.names]
    rows = list(zip(*columns, strict=True)) if columns else [()] * statement.parameters.num_rows
    return [_parameters(statement.names, row) for row in rows]


def _parameters(names: Sequence[str], values: Sequence[Any]) -> list[Any] | dict[str, Any]:
    return list(values) if _is_positional(names) else dict(zip(names, values, strict=True))


def _columns_by_name(names: Sequence[str], rows: pa.Table) -> dict[str, pa.ChunkedArray]:
    """The column of each parameter: by its name, or for `?` by its place."""
    if rows.num_columns != len(names):
        raise InvalidData(
            f"{rows.num_columns} values were given for the {len(names)} parameters of the statement"
        )
    if _is_positional(names) or set(rows.column_names) != set(names):
        return dict(zip(names, rows.columns, strict=True))
    return {name: rows.column(name) for name in names}


def _is_positional(names: Sequence[str]) -> bool:
    return all(name.isdecimal() for name in names)
