"""Constraints: rows meet conditions, values are unique, and every foreign key names a row.

Checked when a change is about to become a snapshot, on the tables as they will be.  The tables
before the change are known to be sound, so only what it touches is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from livingdb.chunks.arrow_values import as_mask
from livingdb.engines.index_lookup import keys_holding
from livingdb.errors import BrokenConstraint, InvalidData, NotFound
from livingdb.graph.row_constraints import check_conditions, check_delta_not_null
from livingdb.graph.unique_constraints import check_unique
from livingdb.tables.index import Version
from livingdb.tables.rows import RowSet
from livingdb.tables.schema import TableSchema
from livingdb.tables.versions import Versions
from livingdb.trees.delta import DELETE, Delta

__all__ = [
    "check_foreign_keys",
    "check_new_table",
    "check_references",
    "check_tables",
    "check_targets",
]


def check_new_table(
    name: str, schema: TableSchema, find: Callable[[str], TableSchema | None]
) -> None:
    """Every foreign key of a new table names a table whose key it can hold."""
    for column, target in schema.foreign_keys:
        parent = schema if target == name else find(target)
        if parent is None:
            raise NotFound(f"column {column!r} refers to the table {target!r}, which is not there")
        if len(parent.key) != 1:
            raise InvalidData(
                f"column {column!r} refers to {target!r}, whose key has {len(parent.key)} columns; "
                "a foreign key names a table with a key of one column"
            )
        wanted, given = parent.key_columns[0].type, schema.column(column).type
        if wanted != given:
            raise InvalidData(
                f"column {column!r} is {given}, but the key of {target!r} is {wanted}"
            )


def check_targets(schemas: Mapping[str, TableSchema]) -> None:
    """Every foreign key names a table that is there; `schemas` is every table there is."""
    for name, schema in schemas.items():
        for column, target in schema.foreign_keys:
            if target not in schemas:
                raise InvalidData(
                    f"table {name!r}, column {column!r}: refers to the table {target!r}, which "
                    "would not be there"
                )


def check_tables(
    versions: Versions,
    tables: Mapping[str, Version],
    changed: Iterable[str],
    known: Mapping[str, Delta],
    happens: Callable[[str], Delta],
    kept: Mapping[str, Callable[[], Collection[str]]] | None = None,
    has_nulls: bool = True,
) -> None:
    """NOT NULL, conditions, unique constraints and foreign keys hold in all tables as they will be.

    `changed` are those that differ from what was there; `happens` tells how, where it is not
    `known`.  A whole version that takes the place of another has no nulls where there may be none.
    `kept` tells the checks, by table, that what happens is known to keep; unless it `has_nulls`,
    what is known has nulls only where they may be.
    """
    schemas = _Schemas(versions, tables)
    names = [name for name in changed if name in tables]
    told: dict[str, Delta] = dict(known)

    def found(name: str) -> Delta:
        if name not in told:
            told[name] = happens(name)
        return told[name]

    for name in names:
        schema = schemas[name]
        if has_nulls and name in known:
            check_delta_not_null(name, schema, known[name])
        if schema.has_conditions:
            rows = partial(versions.rows, tables[name])
            keeps = None if kept is None else kept.get(name)
            check_conditions(name, schema, rows, found(name), keeps)
        if schema.uniques:
            check_unique(versions, name, tables[name], found(name))
    targets: set[str] | None = None
    linked = []
    for name in names:
        is_linked = bool(schemas[name].foreign_keys)
        if not is_linked and (name not in told or told[name].counts[DELETE]):
            if targets is None:
                targets = {target for one in schemas.values() for _, target in one.foreign_keys}
            is_linked = name in targets
        if is_linked:
            linked.append(name)
    if linked:
        changes = {name: found(name) for name in linked}
        check_foreign_keys(changes, schemas, lambda name: versions.rows(tables[name]))


class _Schemas(Mapping[str, TableSchema]):
    """The schemas of tables, each looked for when it is asked for."""

    def __init__(self, versions: Versions, tables: Mapping[str, Version]):
        self._versions, self._tables = versions, tables

    def __getitem__(self, name: str) -> TableSchema:
        return self._versions.definition(self._tables[name]).schema

    def __iter__(self) -> Iterator[str]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)


def check_foreign_keys(
    changes: Mapping[str, Delta],
    schemas: Mapping[str, TableSchema],
    rows: Callable[[str], RowSet],
    targets: Collection[str] | None = None,
) -> None:
    """`InvalidData` names the first foreign key that would name nothing.

    `changes` is what happens to each table, `schemas` every table there is, and `rows` gives a
    table as it will be.  Only those to the `targets` are looked at, if these are given.
    """
    for name, change in changes.items():
        schema = schemas[name]
        for column, target in schema.foreign_keys:
            if targets is None or target in targets:
                position = schema.position(column)
                _check_children(name, column, position, target, change, rows)
    for name, change in changes.items():
        if not change.counts[DELETE] or (targets is not None and name not in targets):
            continue
        for child, schema in schemas.items():
            for column, target in schema.foreign_keys:
                if target == name:
                    _check_parents(child, column, name, change, rows)


def _check_children(
    name: str,
    column: str,
    position: int,
    target: str,
    change: Delta,
    rows: Callable[[str], RowSet],
) -> None:
    """What a change puts in a foreign key is there."""
    values = change.columns[position]
    if values is None or values.null_count == len(values):
        return
    carried = change.carries(position) & as_mask(values.is_valid())
    if not carried.any():
        return
    wanted = values.filter(pa.array(carried)).unique()
    _check_named(name, column, target, wanted, rows(target))


def check_references(
    name: str, column: str, target: str, children: RowSet, parents: RowSet
) -> None:
    """`InvalidData` names the first value of a foreign key that names nothing, of all rows."""
    for batch in children.batches([column]):
        wanted = batch.column(0).drop_null().unique()
        if len(wanted):
            _check_named(name, column, target, wanted, parents)


def _check_named(name: str, column: str, target: str, wanted: pa.Array, parents: RowSet) -> None:
    """Each of these values is the key of a row."""
    encoded = parents.forest.shape.codec.encode([wanted])
    order = np.argsort(encoded, kind="stable")
    there = parents.contains(encoded[order])
    if not there.all():
        value = wanted[int(order[int(np.argmin(there))])].as_py()
        raise BrokenConstraint(
            f"table {name!r}, column {column!r}: {target!r} has no row with the key {value!r}"
        )


def _check_parents(
    child: str, column: str, name: str, change: Delta, rows: Callable[[str], RowSet]
) -> None:
    """Nothing refers to what a change deletes."""
    deleted = np.flatnonzero(change.ops == DELETE)
    parents = rows(name)
    gone = deleted[~parents.contains(change.keys[deleted])]
    if not len(gone):
        return
    key = change.columns[0]
    assert key is not None
    keys = key.take(pa.array(gone))
    children = rows(child)
    found_keys = keys_holding(children, {column: keys})
    if found_keys is not None:
        held = children.lookup(found_keys, [column])[1]
        batches: Iterable[pa.RecordBatch] = [pa.RecordBatch.from_arrays(held, names=[column])]
    else:
        batches = children.batches([column])
    for batch in batches:
        values = batch.column(0)
        found = pc.index(pc.is_in(values, value_set=keys), pa.scalar(True)).as_py()
        if found >= 0:
            raise BrokenConstraint(
                f"table {child!r} still refers to {name!r} with the key "
                f"{values[found].as_py()!r}: delete those rows first, or in the same transaction"
            )
