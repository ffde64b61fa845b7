"""Labels of columns as users see them: `db.label("users.email", "pii")`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from livingdb.errors import InvalidData, NotFound
from livingdb.graph.graph import Graph
from livingdb.graph.names import is_hidden
from livingdb.tables.visible_names import check_visible

if TYPE_CHECKING:
    from livingdb.graph.draft import Action

__all__ = ["add_label", "drop_label", "labels"]


def _split_column(name: object) -> tuple[str, str]:
    table, dot, column = str(name).partition(".")
    if not isinstance(name, str) or not dot or not table or not column:
        raise InvalidData(f"{name!r}: name a column by its table, as in 'users.email'")
    return table, column


def _check_column(graph: Graph, table: str, column: str) -> None:
    """`NotFound` if no branch has such a column."""
    for branch in graph.branches.all():
        if is_hidden(branch.name):
            continue
        version = graph.find_version(graph.snapshots.at(branch.head), table)
        if version is not None:
            schema = graph.versions.definition(version).schema
            if column in schema.arrow.names:
                return
    raise NotFound(f"no branch has a table {table!r} with a column {column!r}")


def add_label(graph: Graph, name: str, label: str, noted: Action) -> None:
    """Give a column a label, on every branch."""
    table, column = _split_column(name)
    if not isinstance(label, str) or not label.strip():
        raise InvalidData(f"a label is a word, not {label!r}")
    check_visible("label", label)
    _check_column(graph, table, column)
    with graph.catalog.write() as connection:
        graph.catalog.labels.add(connection, table, column, label)
        noted(connection)


def drop_label(graph: Graph, name: str, label: str | None, noted: Action) -> None:
    """Take a label from a column; None: all it has."""
    table, column = _split_column(name)
    with graph.catalog.write() as connection:
        if not graph.catalog.labels.drop(connection, table, column, label):
            what = "no label" if label is None else f"no label {label!r}"
            raise NotFound(f"the column {name!r} has {what}")
        noted(connection)


def labels(graph: Graph) -> dict[str, list[str]]:
    """Every column that has labels, as 'table.column', and what they are."""
    found: dict[str, list[str]] = {}
    for table, column, label in graph.catalog.labels.all():
        found.setdefault(f"{table}.{column}", []).append(label)
    return found
