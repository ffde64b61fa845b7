"""Running one statement."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from sqlglot import exp

from livingdb.engines.embedded import Session
from livingdb.engines.results import with_types
from livingdb.errors import Unsupported
from livingdb.sql.changes import Changes
from livingdb.sql.delete import delete
from livingdb.sql.insert import insert
from livingdb.sql.merge import merge
from livingdb.sql.parameters import Given, bind_parameters
from livingdb.sql.parse import POSSIBLE, parse_statement
from livingdb.sql.planner import Planner
from livingdb.sql.result import Result
from livingdb.sql.scope import Scope
from livingdb.sql.titles import titled
from livingdb.sql.update import update

__all__ = ["execute"]

_REFUSED = (exp.DML, exp.DDL, exp.Command, exp.Into, exp.Set, exp.Pragma, exp.Describe)


def execute(scope: Scope, text: str, parameters: Given = None) -> Result:
    """Run a statement in Spark's dialect: a query, or a change in one transaction.

    `parameters` is a dict for `:name` or a list for `?`; values are bound, never pasted.
    """
    tree = parse_statement(text)
    values = bind_parameters(tree, parameters)
    if isinstance(tree, exp.Values):
        tree = exp.select("*").from_(tree)
    _check(tree)
    if isinstance(tree, exp.Query):
        with Session() as session:
            found = Planner(scope, session, values).run(tree)
        return Result(titled(tree, with_types(found)))
    return _change(scope, tree, values)


def _change(scope: Scope, tree: exp.Expr, values: Mapping[str, object]) -> Result:
    with Session() as session, scope.writing() as writer:
        changes = Changes(writer, Planner(writer, session, values))
        if isinstance(tree, exp.Insert):
            insert(changes, tree)
        elif isinstance(tree, exp.Update):
            update(changes, tree)
        elif isinstance(tree, exp.Delete):
            delete(changes, tree)
        elif isinstance(tree, exp.Merge):
            merge(changes, tree)
    return Result(pa.table({}), writer.snapshot, changes.count)


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
