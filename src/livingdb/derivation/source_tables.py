"""The tables a view's query reads: by branch and name, with the query bound to plain names."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from livingdb.catalog.branches import BranchRow
from livingdb.catalog.ids import BranchId
from livingdb.chunks.address import Address
from livingdb.derivation.rebind_view import with_query
from livingdb.derivation.view import SourceTable, View, bound_table
from livingdb.derivation.view_names import view_on
from livingdb.engines.trust import check_calls
from livingdb.errors import InvalidData, Unsupported
from livingdb.graph.graph import Graph, missing_table_error
from livingdb.sql.bind_query import resolve
from livingdb.sql.bindings import BoundQuery
from livingdb.sql.parameters import constant
from livingdb.sql.parse import parse_statement
from livingdb.sql.table_names import (
    SYSTEM,
    check_columns,
    check_sources,
    function_name,
    is_range,
    table_nodes,
)
from livingdb.tables.letter_case import check_clear, find_alike
from livingdb.tables.schema import TableSchema

__all__ = ["identified_source", "query_view", "resolve_sources"]


def query_view(graph: Graph, home: BranchRow, name: str, sql: str, trust: Sequence[str]) -> View:
    """A view by its query, over the tables where its branch is, and those of other branches."""
    if not isinstance(sql, str):
        raise InvalidData(f"the query of a view is a text, not {type(sql).__name__}")
    text = sql.strip()
    tree = parse_statement(text)
    bound, tables = resolve_sources(graph, home, text, tree.copy())
    if not tables:
        raise InvalidData("the query of a view reads at least one table")
    check_calls(tree if bound.text == text else parse_statement(bound.text), trust)
    view = View(name, "sql", tables, text=bound.text, home=home.id)
    return with_query(view, bound, bound.tables)


def resolve_sources(
    graph: Graph, branch: BranchRow, text: str, tree: exp.Expr | None = None
) -> tuple[BoundQuery, dict[str, SourceTable]]:
    """The query bound to tables that have plain names, and the table each of them stands for.

    `tree` is that of the text, if it is known.
    """
    tree = parse_statement(text) if tree is None else tree
    if not isinstance(tree, exp.Query):
        raise InvalidData("a view is made by a query: SELECT …")
    check_sources(tree)
    if any(True for _ in tree.find_all(exp.Placeholder, exp.Parameter)):
        raise Unsupported("the query of a view has no parameters: write the values into it")
    clauses = [clause.alias for clause in tree.find_all(exp.CTE)]
    names: dict[SourceTable, str] = {}
    found: dict[int, str] = {}
    for table in table_nodes(tree):
        if is_range(table):
            continue
        source = _source_table(graph, branch, table)
        if source not in names:
            is_plain = not table.db and not table.args.get("version")
            taken = names.values() if is_plain else [*names.values(), *clauses]
            names[source] = _free_name(source.table, taken)
        found[id(table)] = names[source]
    known = {name: source for source, name in names.items()}
    schemas = {name: _schema(graph, branch, source) for name, source in known.items()}
    check_columns(tree, [schema.arrow.names for schema in schemas.values()])
    tables = {name: bound_table(name, schema) for name, schema in schemas.items()}
    return resolve(text, tree, lambda table: tables[found[id(table)]]).bound, known


def _schema(graph: Graph, home: BranchRow, source: SourceTable) -> TableSchema:
    """The schema of a table as it is where its branch is."""
    if source.snapshot:
        row = graph.resolve(f"id:{source.snapshot}").snapshot
    else:
        branch = home if source.branch == home.id else graph.branches.by_id(source.branch)
        assert branch is not None
        row = graph.snapshots.at(branch.head)
    return graph.versions.definition(graph.version(row, source.table)).schema


def _free_name(name: str, taken: object) -> str:
    known = {other.casefold() for other in taken}  # type: ignore[attr-defined]
    free, number = name, 1
    while free.casefold() in known:
        number += 1
        free = f"{name}_{number}"
    return free


def _source_table(graph: Graph, branch: BranchRow, table: exp.Table) -> SourceTable:
    if isinstance(table.this, exp.Func):
        raise Unsupported(f"{function_name(table.this)}(…) cannot stand in a view's FROM")
    if table.db.casefold() == SYSTEM:
        raise Unsupported("a view reads tables of branches, not the system tables of livingdb")
    version = table.args.get("version")
    if version is not None:
        return _pinned_source(graph, branch, table, version)
    of = branch if not table.db else graph.branch(table.db)
    tables = graph.tables(graph.snapshots.at(of.head))
    name = _matching_name(table.name, list(tables))
    if name is not None:
        return identified_source(graph, of.id, name, tables[name])
    sync = view_on(graph.catalog.syncs.all(), of, table.name)
    if sync is None:
        raise missing_table_error(table.name, tables)
    target = graph.branches.by_id(sync.target)
    assert target is not None
    held = graph.tables(graph.snapshots.at(target.head))
    return identified_source(graph, target.id, target.name, held[target.name])


def _pinned_source(
    graph: Graph, branch: BranchRow, table: exp.Table, version: exp.Expr
) -> SourceTable:
    value = constant(version.expression, {})
    if str(version.this).upper() != "VERSION" or value is None:
        raise Unsupported("in a view, VERSION AS OF takes a ref in quotes, and TIMESTAMP no place")
    row = graph.resolve(str(value)).snapshot
    tables = graph.tables(row)
    name = _matching_name(table.name, list(tables))
    if name is None:
        raise missing_table_error(table.name, tables)
    return SourceTable(branch.id, name, row.address.hex())


def _matching_name(name: str, tables: list[str]) -> str | None:
    check_clear("table", name, tables)
    alike = find_alike(name, tables)
    return alike[0] if alike else None


def identified_source(graph: Graph, branch: BranchId, table: str, version: Address) -> SourceTable:
    """A table of a branch that a view is to read, by what it is."""
    known = graph.versions.definition(graph.versions.require(version)).id
    return SourceTable(branch, table, id=known or "")
