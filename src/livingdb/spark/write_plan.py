"""What a write needs of a table: the schema its rows are checked for, and the changes to get there.

A plan is made before the job starts, and is what tasks and the commit go by.  Changes have their
ids from then on, so that whoever finds them made knows them again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from livingdb.catalog.snapshots import SnapshotRow
from livingdb.errors import InvalidData, TransactionConflict
from livingdb.evolution.plan import check_change_names, definitions_of, plan_changes
from livingdb.evolution.schema_change import SchemaChange, identify_changes
from livingdb.graph.dropped import dropped_since
from livingdb.graph.graph import Graph, missing_table_error, tables_of
from livingdb.spark.options import flag_option, list_option
from livingdb.tables.recipe import Definition
from livingdb.tables.schema import TableSchema

if TYPE_CHECKING:
    from livingdb.trees.shape import Shape

__all__ = ["SchemaOptions", "WritePlan", "plan_write"]


@dataclass(frozen=True)
class WritePlan:
    """The table that rows are written to: as it was at a snapshot, and as they need it."""

    table: str
    snapshot: str
    before: dict[str, Any] | None
    """Its definition there; None if there was none."""
    after: dict[str, Any]
    changes: tuple[dict[str, Any], ...] = ()

    @cached_property
    def schema(self) -> TableSchema:
        """The schema that rows are checked for."""
        return Definition.from_json(self.after).schema

    @property
    def shape(self) -> Shape:
        """The shape of changes."""
        return Definition.from_json(self.after).layout.grouping(self.schema).row_shape

    def pending_changes(self, graph: Graph, head: SnapshotRow) -> list[SchemaChange]:
        """The schema changes that a head lacks.

        `TransactionConflict` if its table is not any more the one that the plan was made for.
        """
        version = graph.find_version(head, self.table)
        now = None if version is None else graph.versions.definition(version).to_json()
        if self.changes and now == self.after:
            return []
        what = None
        if self.before is not None:
            since = graph.resolve(f"id:{self.snapshot}").snapshot
            what = dropped_since(graph, self.table, since, head)
        elif now is not None:
            what = f"table {self.table!r} was created meanwhile"
        if what is None and now != self.before:
            what = f"table {self.table!r} was changed in its schema meanwhile"
        if what is not None:
            raise TransactionConflict(f"{what}; write the data frame again")
        return [SchemaChange.from_json(change) for change in self.changes]


@dataclass(frozen=True)
class SchemaOptions:
    """What the options say of the schema: what may be changed, and the key of a new table."""

    merges: bool
    overwrites: bool
    key: tuple[str, ...] | None

    @classmethod
    def of(cls, options: Mapping[str, str], overwrite: bool, operation: str) -> SchemaOptions:
        """The options; `InvalidData` for what does not fit together."""
        merges, overwrites = (
            flag_option(options, f"{how}Schema") for how in ("merge", "overwrite")
        )
        if overwrites and not overwrite:
            raise InvalidData("overwriteSchema goes with mode overwrite")
        if overwrites and merges:
            raise InvalidData("mergeSchema and overwriteSchema exclude each other")
        if merges and operation == "delete":
            raise InvalidData("mergeSchema goes with no operation 'delete': keys add no columns")
        key = list_option(options, "key")
        return cls(merges, overwrites, None if key is None else tuple(key))


def plan_write(
    graph: Graph,
    head: SnapshotRow,
    table: str,
    frame: pa.Schema,
    wish: SchemaOptions,
    operation: str,
) -> WritePlan:
    """The plan for rows with a data frame's columns."""
    tables = tables_of(graph, head)
    known = definitions_of(graph, tables)
    before = known.get(table)
    made = _changes(table, before, frame, wish, operation, known)
    after = before
    if made:
        changes = identify_changes(made)
        plan = plan_changes(known, changes, is_new=True)
        check_change_names(plan, known)
        after, made = plan.tables[table], changes
    assert after is not None
    return WritePlan(
        table,
        head.address.hex(),
        None if before is None else before.to_json(),
        after.to_json(),
        tuple(change.to_json() for change in made),
    )


def _changes(
    table: str,
    before: Definition | None,
    frame: pa.Schema,
    wish: SchemaOptions,
    operation: str,
    known: Mapping[str, Definition],
) -> Sequence[SchemaChange]:
    """The schema changes that the options ask for."""
    if before is None:
        return [_creation(table, frame, wish, operation, known)]
    if wish.overwrites:
        return _replacement(table, before.schema, frame, wish)
    if wish.key is not None and wish.key != before.schema.visible_key:
        raise InvalidData(
            f"the key of table {table!r} is {', '.join(before.schema.visible_key)}, and not "
            f"{', '.join(wish.key)}: leave the option 'key' out"
        )
    held = {column.name for column in before.schema.columns}
    new = [field for field in frame if field.name not in held]
    if not new or operation == "delete":
        return []
    if not wish.merges:
        shown = ", ".join(column.name for column in before.schema.visible_columns)
        raise InvalidData(
            f"column {new[0].name!r} is not in the table; its columns are {shown}; "
            '.option("mergeSchema", "true") adds what is new'
        )
    return [_addition(table, field) for field in new]


def _addition(table: str, field: pa.Field) -> SchemaChange:
    from livingdb.evolution.changes.add_column import AddColumn

    return AddColumn(table, field.name, field.type)


def _creation(
    table: str,
    frame: pa.Schema,
    wish: SchemaOptions,
    operation: str,
    known: Mapping[str, Definition],
) -> SchemaChange:
    """The change that makes the table, with the columns of the data frame."""
    if operation not in ("insert", "upsert") or wish.key is None:
        error = missing_table_error(table, dict.fromkeys(known))  # type: ignore[arg-type]
        if operation in ("insert", "upsert"):
            raise type(error)(f'{error}; .option("key", …) with its key columns makes it')
        raise error
    return _create_table(table, frame, wish.key)


def _create_table(table: str, frame: pa.Schema, key: Sequence[str]) -> SchemaChange:
    """A table that a data frame's rows fit; as elsewhere in Spark, columns may be null."""
    from livingdb.evolution.changes.tables import CreateTable

    for name in key:
        if name not in frame.names:
            shown = ", ".join(frame.names)
            raise InvalidData(f"the key column {name!r} is not in the data; there are: {shown}")
    schema = pa.schema([field.with_nullable(field.name not in key) for field in frame])
    return CreateTable(table, schema, tuple(key))


def _replacement(
    table: str, schema: TableSchema, frame: pa.Schema, wish: SchemaOptions
) -> Sequence[SchemaChange]:
    """The changes after which a table has the data frame's columns, in their order.

    With its key it stays the table that it is; with another one it is made anew.
    """
    from livingdb.evolution.changes.drop_column import DropColumn
    from livingdb.evolution.changes.reorder_columns import ReorderColumns
    from livingdb.evolution.changes.tables import DropTable

    key = wish.key or schema.visible_key
    creation = _create_table(table, frame, key)
    wanted = TableSchema.of(frame, key)
    held = {column.name: column for column in schema.visible_columns}
    same = [
        column.name
        for column in wanted.columns
        if column.name in held and held[column.name].type == column.type
    ]
    if tuple(key) != schema.visible_key or not set(key) <= set(same):
        return [DropTable(table), creation]
    made: list[SchemaChange] = [DropColumn(table, name) for name in held if name not in same]
    made += [_addition(table, field) for field in frame if field.name not in same]
    order = [name for name in held if name in same]
    order += [name for name in frame.names if name not in same]
    if order != frame.names:
        made.append(ReorderColumns(table, frame.names))
    return made
