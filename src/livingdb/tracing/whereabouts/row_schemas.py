"""A row under other schemas: in which tables it is there, and under which keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from livingdb.catalog.snapshots import SnapshotRow
from livingdb.chunks.address import Address
from livingdb.errors import MaskKeyMissing
from livingdb.evolution.changes.decompose import DecomposeLens
from livingdb.evolution.changes.join_tables import JoinKeysLens, JoinReferencesLens
from livingdb.evolution.changes.mask_column import MaskedKeyLens, MaskLens
from livingdb.evolution.changes.revert_change import InverseLens
from livingdb.evolution.changes.tables import TableLens
from livingdb.evolution.changes.union_tables import OriginUnionLens
from livingdb.evolution.lenses.computed_lens import ComputedLens
from livingdb.evolution.lenses.key_column_lens import RetypeKeyLens
from livingdb.evolution.lenses.lens import Lens
from livingdb.evolution.lenses.lookup_lens import Lookups
from livingdb.evolution.lenses.normalize_lens import LookupTableLens, NormalizeIntoLens
from livingdb.evolution.lenses.row_lens import RowLens
from livingdb.evolution.lift import Lifter
from livingdb.evolution.plan import plan_changes
from livingdb.evolution.schema_change import SchemaChange
from livingdb.evolution.schema_history import schema_history, settled_fork
from livingdb.graph.ancestry import common_ancestors
from livingdb.graph.graph import Graph, tables_of
from livingdb.tables.recipe import Definition
from livingdb.tables.schema import TableSchema

__all__ = [
    "KnownRow",
    "translate_from_afar",
    "translate_row",
    "translate_through_changes",
]


@dataclass(frozen=True)
class KnownRow:
    """A row in a table: what is known of its values, with its key, and what is masked.

    Without values it is in rows of the table that nobody can name.  One that `is_shared` is told by
    the row that was looked for, and by others as well; one that `is_whole` holds others as well,
    with its key in other tables; one that `is_locked` is under a masked key that nobody here can
    tell.
    """

    table: str
    values: Mapping[str, Any]
    masked: frozenset[str] = field(default_factory=frozenset)
    is_shared: bool = False
    is_locked: bool = False
    is_whole: bool = False

    def key(self, schema: TableSchema) -> dict[str, Any] | None:
        """Its key in a table of this schema, if that is known."""
        if not set(schema.key) <= set(self.values):
            return None
        return {name: self.values[name] for name in schema.key}


def translate_row(
    graph: Graph, here: SnapshotRow, known: KnownRow, there: SnapshotRow
) -> list[KnownRow] | None:
    """What a row of one snapshot is in another; None if they have no history in common.

    Whether it is there at all is for others to find out.
    """
    common = common_ancestors(graph.snapshots, here, there)
    if not common:
        return None
    lifter = Lifter(graph)
    since = common[0]
    if any(_takes_back(graph, lifter, since, row) for row in (here, there)):
        since = settled_fork(graph, lifter, here, there) or since
    found = [known]
    for lens in reversed(_lenses_between(graph, lifter, since, here)):
        found = [older for row in found for older in _through_lens(lens, row, is_right=False)]
    for lens in _lenses_between(graph, lifter, since, there):
        found = [newer for row in found for newer in _through_lens(lens, row, is_right=True)]
    return found


def translate_from_afar(
    graph: Graph, here: SnapshotRow, known: KnownRow, there: SnapshotRow
) -> list[KnownRow] | None:
    """The same, also where a masked branch, which shares no history, lies between the two."""
    found = translate_row(graph, here, known, there)
    if found is not None:
        return found
    first = graph.snapshots.ancestor(there, 0)
    edge = graph.record(first.address).edge
    changes = edge.details.get("changes") or edge.details.get("definition", {}).get("changes")
    if not changes or len(edge.sources) != 1:
        return None
    (address,) = edge.sources.values()
    source = graph.snapshots.find(Address(bytes.fromhex(address)))
    rows = None if source is None else translate_from_afar(graph, here, known, source)
    if source is None or rows is None:
        return None
    made = [SchemaChange.from_json(change) for change in changes]
    masked = (new for row in rows for new in translate_through_changes(graph, source, made, row))
    return [new for row in masked for new in translate_row(graph, first, row, there) or ()]


def translate_through_changes(
    graph: Graph, source: SnapshotRow, changes: Sequence[SchemaChange], known: KnownRow
) -> list[KnownRow]:
    """What a row of a snapshot is once schema changes are made of it."""
    tables = _definitions(graph, source)
    found = [known]
    for lens in plan_changes(tables, changes).lenses:
        found = [newer for row in found for newer in _through_lens(lens, row, is_right=True)]
    return found


def _definitions(graph: Graph, row: SnapshotRow) -> dict[str, Definition]:
    return {name: graph.versions.definition(v) for name, v in tables_of(graph, row).items()}


def _takes_back(graph: Graph, lifter: Lifter, since: SnapshotRow, head: SnapshotRow) -> bool:
    """Whether a merge on the way took back schema changes of the side it was made on."""
    steps = lifter.schema_changes_between(since, head)
    return any(graph.record(step.address).edge.taken_back for step in steps)


def _lenses_between(
    graph: Graph, lifter: Lifter, since: SnapshotRow, head: SnapshotRow
) -> list[Lens]:
    """The lenses of the schema changes on the way, without those that were taken back again."""
    if _takes_back(graph, lifter, since, head):
        made = schema_history(graph, lifter, since, head)
        return [lens for one in made for lens in plan_changes(one.before, [one.change]).lenses]
    steps = lifter.schema_changes_between(since, head)
    return [lens for s in steps for lens in _lenses(graph, s, lifter.schema_changes_of(s))]


def _lenses(graph: Graph, step: SnapshotRow, changes: Sequence[SchemaChange]) -> tuple[Lens, ...]:
    assert step.first is not None
    before = _definitions(graph, graph.snapshots.at(step.first))
    return plan_changes(before, changes).lenses


def _through_lens(lens: Lens, row: KnownRow, is_right: bool) -> Iterator[KnownRow]:
    """What a row of one side is on the other."""
    mine, theirs = (lens.old, lens.new) if is_right else (lens.new, lens.old)
    if row.table not in mine:
        yield row
    elif isinstance(lens, RowLens):
        yield _through_row_lens(lens, row, is_right)
    elif isinstance(lens, TableLens):
        for old, new in lens.names.items():
            if row.table == (old if is_right else new):
                yield replace(row, table=new if is_right else old)
    elif isinstance(lens, MaskedKeyLens) and row.table == lens.table:
        yield from _under_masked_key(lens, row) if is_right else ()
    elif isinstance(lens, RetypeKeyLens):
        yield from _under_other_key(lens, row, is_right)
    elif isinstance(lens, NormalizeIntoLens) and row.table == lens.lookups.lookup[0]:
        yield row
        yield from () if is_right else _to_joined(lens.lookups, row)
    elif isinstance(lens, LookupTableLens | JoinReferencesLens):
        apart = is_right != isinstance(lens, JoinReferencesLens)
        yield from _to_parts(lens.lookups, row) if apart else _to_joined(lens.lookups, row)
    else:
        for name, definition in theirs.items():
            for other in _by_column_names(
                lens, row, name, mine[row.table].schema, definition.schema
            ):
                yield replace(other, is_whole=row.is_whole or _makes_whole(lens, is_right))


def _makes_whole(lens: Lens, is_right: bool) -> bool:
    """Whether rows with one key, of several tables, are one row on the other side."""
    if isinstance(lens, InverseLens):
        return _makes_whole(lens.inner, not is_right)
    return isinstance(lens, JoinKeysLens if is_right else DecomposeLens)


def _through_row_lens(lens: RowLens, row: KnownRow, is_right: bool) -> KnownRow:
    """A row of a table whose key stays what it is."""
    here, there, name = lens.old_schema, lens.new_schema, lens.new_name
    made: set[str] = set()
    masked = set(row.masked)
    if isinstance(lens, ComputedLens):
        mapping = lens.there if is_right else lens.back
        made = set(lens.there.makes if mapping is None else mapping.makes)
    if not is_right:
        here, there, name = there, here, lens.old_name
    ids = {column.id: column.name for column in there.columns}
    names = {column.name: ids[column.id] for column in here.columns if column.id in ids}
    if isinstance(lens, MaskLens):
        change = masked.add if is_right else masked.discard
        change(lens.column.name)
    values = {
        names[column]: value
        for column, value in row.values.items()
        if column in names and names[column] not in made
    }
    hidden = {names.get(column, column) for column in masked}
    return replace(row, table=name, values=values, masked=frozenset(hidden), is_locked=False)


def _under_masked_key(lens: MaskedKeyLens, row: KnownRow) -> Iterator[KnownRow]:
    """A row whose key is masked; nobody finds it who does not have the mask's key."""
    needed = {*lens.old[lens.table].schema.key, *lens.there.reads}
    if not needed <= set(row.values):
        return
    fields = [lens.old[lens.table].schema.column(name).field for name in sorted(needed)]
    given = pa.Table.from_pylist([dict(row.values)], schema=pa.schema(fields))
    try:
        (key,) = lens.masked_keys(given).to_pylist()
    except MaskKeyMissing:
        masked = row.masked | set(lens.there.makes)
        yield replace(row, values={}, masked=masked, is_locked=True)
        return
    masked = row.masked | set(lens.there.makes)
    yield replace(row, values={**row.values, **key}, masked=masked, is_locked=False)


def _under_other_key(lens: RetypeKeyLens, row: KnownRow, is_right: bool) -> Iterator[KnownRow]:
    """A row whose key has another type; one that has no such key is not there."""
    schema = lens.old_schema if is_right else lens.new_schema
    if not set(schema.key) <= set(row.values):
        return
    fields = pa.schema([column.field for column in schema.key_columns])
    given = pa.Table.from_pylist([{n: row.values[n] for n in schema.key}], schema=fields)
    for key in lens.other_rows(given, is_right)[0].to_pylist():
        yield replace(row, values={**row.values, **key}, is_locked=False)


def _by_column_names(
    lens: Lens, row: KnownRow, name: str, here: TableSchema, there: TableSchema
) -> Iterator[KnownRow]:
    """A row in a table that has columns of the same names, or the same key under other names."""
    columns = {column.name for column in there.columns}
    values = {column: value for column, value in row.values.items() if column in columns}
    if isinstance(lens, OriginUnionLens):
        if name in lens.new:
            values[lens.origin] = row.table
        elif row.values.get(lens.origin) != name:
            return
    missing = not set(there.key) <= set(values)
    same = [column.type for column in here.key_columns] == [c.type for c in there.key_columns]
    if missing and same and set(here.key) <= set(row.values):
        given = (row.values[column] for column in here.key)
        values |= dict(zip(there.key, given, strict=True))
    yield KnownRow(name, values, row.masked & columns, row.is_shared)


def _to_joined(lookups: Lookups, row: KnownRow) -> Iterator[KnownRow]:
    """A row that refers is in the joined table; one that is referred to is in many of its rows."""
    name, schema = lookups.wide
    names = {column.name for column in schema.columns}
    is_lookup = row.table == lookups.lookup[0]
    values = {} if is_lookup else {c: v for c, v in row.values.items() if c in names}
    yield replace(row, table=name, values=values, masked=row.masked & names, is_locked=False)


def _to_parts(lookups: Lookups, row: KnownRow) -> Iterator[KnownRow]:
    """A row that is taken apart into one that refers and one that is referred to."""
    name, schema = lookups.narrow
    names = {column.name for column in schema.columns}
    values = {c: v for c, v in row.values.items() if c in names}
    yield replace(row, table=name, values=values, masked=row.masked & names, is_locked=False)
    if {column.name for column in lookups.wide[1].columns} <= set(row.values):
        reference = _new_reference(lookups, row)
        if reference is not None:
            moved = {column: row.values[column] for column in lookups.moved}
            values = {lookups.lookup[1].key[0]: reference, **moved}
            yield KnownRow(lookups.lookup[0], values, row.masked & set(lookups.moved), True)


def _new_reference(lookups: Lookups, row: KnownRow) -> Any:
    """What a row refers to by what it holds; None if references are of a kind of their own."""
    whole = pa.Table.from_pylist([dict(row.values)], schema=lookups.wide[1].arrow)
    try:
        return lookups.new_narrow_rows(whole).column(lookups.reference)[0].as_py()
    except pa.ArrowInvalid:
        return None
