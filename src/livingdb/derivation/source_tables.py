"""The tables a view's query reads: by branch and name, with the query bound to plain names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from sqlglot import exp

from livingdb.catalog.branches import BranchRow
from livingdb.catalog.ids import BranchId
from livingdb.chunks.address import Address
from livingdb.derivation.known_bindings import KnownBindings
from livingdb.derivation.view import SourceTable, View, bound_table
from livingdb.derivation.view_names import view_on
from livingdb.engines.trust import check_calls
from livingdb.errors import InvalidData, Unsupported
from livingdb.graph.graph import Graph, missing_table_error
from livingdb.sql.bind_query import resolve
from livingdb.sql.bindings import BoundQuery
from livingdb.sql.parameters import constant
from livingdb.sql.parse import parse_statement
from livingdb.sql.render_query import BrokenQuery, render
from livingdb.sql.table_names import (
    SYSTEM,
    check_columns,
    check_sources,
    function_name,
    is_range,
    table_nodes,
)
from livingdb.tables.index import Version
from livingdb.tables.letter_case import check_clear, find_alike
from livingdb.tables.schema import TableSchema

__all__ = ["identified_source", "query_view", "resolve_sources"]

_REMEMBERED_LENGTH = 4096
"""Of a query, up to which what is found out about it is remembered."""


def query_view(graph: Graph, home: BranchRow, name: str, sql: str, trust: Sequence[str]) -> View:
    """A view by its query, over the tables where its branch is, and those of other branches."""
    if not isinstance(sql, str):
        raise InvalidData(f"the query of a view is a text, not {type(sql).__name__}")
    text = sql.strip()
    bound, sources = _bound_sources(graph, home, text)
    if not sources:
        raise InvalidData("the query of a view reads at least one table")
    (_known_to_be_trusted if _is_remembered(text) else _check_trust)(text, tuple(trust))
    if isinstance(bound.query, BrokenQuery):
        raise InvalidData(bound.query.reason)
    found = bound.query, bound.bindings
    return View(name, "sql", sources, text=text, home=home.id, query=found[0], bindings=found[1])


def resolve_sources(
    graph: Graph, branch: BranchRow, text: str
) -> tuple[BoundQuery, dict[str, SourceTable]]:
    """The query bound to tables that have plain names, and the table each of them stands for."""
    bound, sources = _bound_sources(graph, branch, text)
    return bound.bindings.bound, sources


def _bound_sources(
    graph: Graph, branch: BranchRow, text: str
) -> tuple[_Binding, dict[str, SourceTable]]:
    is_remembered = _is_remembered(text)
    written = (_known_reading if is_remembered else _read)(text)
    plain_names, sources = _plain_names(graph, branch, written)
    versions = {name: _version(graph, branch, source) for name, source in sources.items()}
    definitions = tuple((name, version.definition) for name, version in versions.items())
    schemas = {n: graph.versions.definition(version).schema for n, version in versions.items()}
    place = _Definitions((text, plain_names, definitions), schemas)
    return (_known_binding if is_remembered else _bind)(place), sources


def _is_remembered(text: str) -> bool:
    return len(text) <= _REMEMBERED_LENGTH


@dataclass(frozen=True)
class _Reading:
    """A query as it is read: the tables it names, but those of WITH, in order; nobody changes them.

    `clauses` are the names of its WITH clauses.
    """

    tables: tuple[exp.Table, ...]
    clauses: tuple[str, ...]


def _read(text: str) -> _Reading:
    tree = parse_statement(text)
    if not isinstance(tree, exp.Query):
        raise InvalidData("a view is made by a query: SELECT …")
    check_sources(tree)
    if any(True for _ in tree.find_all(exp.Placeholder, exp.Parameter)):
        raise Unsupported("the query of a view has no parameters: write the values into it")
    clauses = tuple(clause.alias for clause in tree.find_all(exp.CTE))
    return _Reading(tuple(_named_tables(tree)), clauses)


def _named_tables(tree: exp.Expr) -> list[exp.Table]:
    return [table for table in table_nodes(tree) if not is_range(table)]


_known_reading = lru_cache(maxsize=256)(_read)


def _plain_names(
    graph: Graph, branch: BranchRow, written: _Reading
) -> tuple[tuple[str, ...], dict[str, SourceTable]]:
    """The plain names that stand for the tables a query names, and what each of them is."""
    names: dict[SourceTable, str] = {}
    found = []
    for table in written.tables:
        source = _source_table(graph, branch, table)
        if source not in names:
            is_plain = not table.db and not table.args.get("version")
            taken = names.values() if is_plain else [*names.values(), *written.clauses]
            names[source] = _free_name(source.table, taken)
        found.append(names[source])
    return tuple(found), {name: source for source, name in names.items()}


@dataclass(frozen=True)
class _Definitions:
    """A query over tables: `place` is its text, what its tables are called, and the addresses of
    their definitions, which say what `schemas` there are.
    """

    place: tuple[str, tuple[str, ...], tuple[tuple[str, Address], ...]]
    schemas: Mapping[str, TableSchema] = field(compare=False)


@dataclass(frozen=True)
class _Binding:
    """A query over plain names, or why it cannot be read so, and what the names in it stand for."""

    query: str | BrokenQuery
    bindings: KnownBindings


def _bind(where: _Definitions) -> _Binding:
    text, names, _ = where.place
    tree = parse_statement(text)
    check_columns(tree, [schema.arrow.names for schema in where.schemas.values()])
    tables = {name: bound_table(name, schema) for name, schema in where.schemas.items()}
    called = dict(zip(map(id, _named_tables(tree)), names, strict=True))
    bound = resolve(text, tree, lambda table: tables[called[id(table)]]).bound
    query = render(bound, bound.tables, stars=True) if bound.tables else text
    return _Binding(query, KnownBindings(bound))


_known_binding = lru_cache(maxsize=1024)(_bind)


def _check_trust(text: str, trust: tuple[str, ...]) -> None:
    check_calls(parse_statement(text), trust)


_known_to_be_trusted = lru_cache(maxsize=1024)(_check_trust)


def _version(graph: Graph, home: BranchRow, source: SourceTable) -> Version:
    """A table as it is where its branch is."""
    if source.snapshot:
        row = graph.resolve(f"id:{source.snapshot}").snapshot
    else:
        branch = home if source.branch == home.id else graph.branches.by_id(source.branch)
        assert branch is not None
        row = graph.snapshots.at(branch.head)
    return graph.version(row, source.table)


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
