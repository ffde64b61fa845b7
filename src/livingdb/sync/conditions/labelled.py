"""Columns with labels, and whether they reach a target as they are.

A column reaches a view if a SELECT of it gives it, or something made of it, other than by a
function that does not let it be seen; a column that only selects, joins or groups rows stays
behind.  Where that cannot be told, every column that is used reaches the target.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from livingdb.derivation.view import KIND, View

if TYPE_CHECKING:
    from sqlglot import exp

    from livingdb.sync.conditions.crossing import Crossing

__all__ = ["crossing_labels"]

_HIDES = ("SHA2", "SHA", "MD5", "COUNT", "COUNTIF")
_HIDES_NAMED = (
    "sha",
    "sha1",
    "sha2",
    "md5",
    "hash",
    "xxhash64",
    "mask",
    "crc32",
    "count",
    "count_if",
    "approx_count_distinct",
)
"""Functions that do not let their arguments be seen."""


def crossing_labels(crossing: Crossing, label: str) -> list[tuple[str, str]]:
    """The columns of the sources that have a label and reach the target as they are."""
    labelled = crossing.graph.catalog.labels.of(label)
    if not labelled:
        return []
    sync = crossing.sync
    if sync.kind == KIND:
        view = View.from_json(sync.spec)
        named = {name: source.table for name, source in view.tables.items()}
    else:
        view, named = None, {}
    found = []
    for name in crossing.sources:
        wanted = labelled.get(named.get(name, name), ())
        there = crossing.schema(name, "source").arrow.names
        reaching = _reaching(crossing, view, name, [c for c in wanted if c in there])
        found += [(name, column) for column in reaching]
    return found


def _reaching(
    crossing: Crossing, view: View | None, table: str, columns: Sequence[str]
) -> list[str]:
    if not columns:
        return []
    if view is not None and view.what == "sql":
        used = crossing.uses.get(table)
        some = [column for column in columns if used is None or column in used]
        given = _given(view)
        return some if given is None else [c for c in some if c.casefold() in given]
    if view is not None and view.what != "clone":
        return list(columns)
    changes = view.changes if view is not None else [crossing.sync.spec.get("change", {})]
    return [column for column in columns if _is_shown(table, column, changes)]


def _is_shown(table: str, column: str, changes: Sequence[Mapping[str, Any]]) -> bool:
    """Whether schema changes leave a column to be seen, under whatever name."""
    for change in changes:
        kind = change.get("change")
        if change.get("table") != table:
            continue
        if kind == "RenameTable":
            table = str(change["to"])
        elif kind == "DropTable":
            return False
        elif change.get("name") == column:
            if kind in ("MaskColumn", "DropColumn"):
                return False
            if kind == "RenameColumn":
                column = str(change["to"])
    return True


def _given(view: View) -> set[str] | None:
    """The names of columns that the query gives to be seen; None for all."""
    from sqlglot import exp

    found: set[str] = set()
    for query in view.tree().find_all(exp.Select):
        for item in query.expressions:
            for node in item.walk(prune=_is_hiding):
                if _is_hiding(node):
                    continue
                if isinstance(node, exp.Star):
                    return None
                if isinstance(node, exp.Column):
                    found.add(node.name.casefold())
    return found


def _is_hiding(node: exp.Expr) -> bool:
    from sqlglot import exp

    if isinstance(node, exp.Anonymous):
        return node.name.casefold() in _HIDES_NAMED
    return isinstance(node, exp.Func) and (
        type(node).__name__.upper() in _HIDES or node.sql_name().casefold() in _HIDES_NAMED
    )
