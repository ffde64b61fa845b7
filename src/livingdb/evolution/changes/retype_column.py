"""RetypeColumn: the same column in another type."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from livingdb.errors import InvalidData, Unsupported
from livingdb.evolution.casts import Cast
from livingdb.evolution.definition_edits import (
    TypeLike,
    check_layout,
    new_column,
    refuse_computed,
    refuse_link,
    refuse_unique,
    refuse_used,
)
from livingdb.evolution.lenses.column_lens import verdicts
from livingdb.evolution.lenses.column_mapping import CastValues, ColumnMapping, expression_mapping
from livingdb.evolution.lenses.computed_lens import ComputedLens
from livingdb.evolution.lenses.key_column_lens import RetypeKeyLens
from livingdb.evolution.lenses.lens import Lens, Loss, RowImages, Side, TableImages, Verdicts
from livingdb.evolution.lenses.lookup_columns import (
    LookupColumnsLens,
    TableLookups,
    lookups_in,
    with_lookup_columns,
)
from livingdb.evolution.lenses.row_alignment import align_rows, keys_of
from livingdb.evolution.lenses.table_parts import check_unreferenced
from livingdb.evolution.policies import POLICIES, check_policy, require_policy
from livingdb.evolution.schema_change import SchemaChange, Schemas, definition_of
from livingdb.graph.row_constraints import first_key
from livingdb.tables.batches import flat
from livingdb.tables.recipe import Definition
from livingdb.tables.schema import Column, TableSchema
from livingdb.tables.type_names import type_name
from livingdb.trees.compare import differs

__all__ = ["RetypeColumn"]


@dataclass(frozen=True)
class RetypeColumn(SchemaChange):
    """Another type for a column.

    policy    what becomes of a value that the other type cannot hold (see `policies`); the side
              that can hold it keeps it.  For a column of the key "reject" or "quarantine": a key
              fits if it comes back as it was
    up, down  expressions over the old and the new row, instead of a cast; they may look values
              up in another table by key, as `up` of AddColumn
    """

    table: str
    name: str
    type: TypeLike
    policy: str | None = "reject"
    up: str | None = None
    down: str | None = None

    def check_definition(self, tables: Schemas) -> None:
        require_policy(self.policy)
        column, wanted = self._columns(definition_of(tables, self.table).schema)
        if column.default is not None:
            new_column(self.name, wanted.type_name, column.default)

    def plan(self, tables: Schemas) -> Lens:
        old = definition_of(tables, self.table)
        column, wanted = self._columns(old.schema)
        self._check(old.schema, column)
        if (wanted.type, wanted.limit) == (column.type, column.limit):
            raise InvalidData(f"the column {self.name!r} is {column.type_name} already")
        if column.nullable and not wanted.nullable:
            raise InvalidData(
                f"the column {self.name!r} is nullable: NOT NULL is a constraint; see AddConstraint"
            )
        there, back = Cast(column.type, wanted.type), Cast(wanted.type, column.type)
        self._check_casts(old.schema, there, back)
        if column.generated is not None and not pa.types.is_integer(wanted.type):
            raise InvalidData(
                f"the column {self.name!r} draws its values: it holds whole numbers only"
            )
        typed = replace(
            column,
            type=wanted.type,
            limit=wanted.limit,
            default=_cast_default(column, there),
        )
        new = check_layout(replace(old, schema=old.schema.with_column(typed)))
        if self.name in old.schema.key:
            self._check_key(tables, there, back)
            return RetypeKeyLens(self.table, old, new, self.name, self.policy or "reject")
        return self._lens(old, new, tables)

    def _lens(self, old: Definition, new: Definition, tables: Schemas) -> Lens:
        """The lens; what `up` and `down` look up comes beside the rows."""
        up, down = (
            lookups_in(text, self.table, side, tables)
            for text, side in ((self.up, old), (self.down, new))
        )
        there, back = TableLookups(up, tables), TableLookups(down, tables)
        if not there and not back:
            return RetypeLens(self, old, new)
        to_new = replace(self, up=None if up is None else up.text, down=None if back else self.down)
        to_old = replace(
            self, down=None if down is None else down.text, up=None if there else self.up
        )
        right = RetypeLens(to_new, with_lookup_columns(old, up), new, there.given)
        left = RetypeLens(to_old, old, with_lookup_columns(new, down), back.given)
        return LookupColumnsLens(self.table, old, new, right, left, there, back)

    def _columns(self, schema: TableSchema) -> tuple[Column, Column]:
        """The column as it is, and one as it is to be."""
        return schema.column(self.name), new_column(self.name, self.type)

    def _check(self, schema: TableSchema, column: Column) -> None:
        is_key = self.name in schema.key
        check_policy(self.policy, [column], RetypeKeyLens.policies if is_key else POLICIES)
        refuse_computed(column, "made another type")
        refuse_link(schema, self.name, "made another type")

    def _check_key(self, tables: Schemas, there: Cast, back: Cast) -> None:
        """Keys cross by a cast that leads back, and nothing else refers to them."""
        check_unreferenced(tables, self.table)
        if self.up is not None or self.down is not None:
            raise Unsupported(
                f"the column {self.name!r} is in the key, which is cast: it takes no `up` and "
                "`down`; add a column and make it the key with ChangeKey"
            )
        if there.source != there.target and not back.is_known:
            raise Unsupported(
                f"column {self.name!r}: {type_name(back.source)} is not cast to "
                f"{type_name(back.target)}, so that a key would not lead back"
            )

    def _check_casts(self, schema: TableSchema, there: Cast, back: Cast) -> None:
        is_limit = there.source == there.target
        keeps = self.policy in (None, "reject", "quarantine")
        is_same = is_limit or there.is_exact or (back.is_exact and keeps)
        if not is_same or self.policy == "null" or (is_limit and self.policy == "truncate"):
            refuse_used(schema, self.name, "made another type")
        if self.up is not None or self.down is not None:
            refuse_unique(schema, self.name, "made another type by an expression")
        if self.up is None and not (is_limit or there.is_known):
            raise Unsupported(
                f"column {self.name!r}: {type_name(there.source)} is not cast to "
                f"{type_name(there.target)}; give an `up` expression"
            )
        if self.policy == "clamp" and not (there.can_clamp and back.can_clamp):
            raise InvalidData(f"column {self.name!r}: only numbers can be clamped")


class RetypeLens(ComputedLens):
    """A value crosses when it changed; one that did not stays what it is on the other side."""

    def __init__(
        self,
        change: RetypeColumn,
        old: Definition,
        new: Definition,
        given: frozenset[str] = frozenset(),
    ):
        """`given` are columns that expressions do not name and that decide what they give."""
        was, now = (side.schema.column(change.name) for side in (old, new))
        self.name = change.name
        self.up, self.down = change.up, change.down
        there = _column_mapping(change, change.up, old.schema, was, now, given)
        back = _column_mapping(change, change.down, new.schema, now, was, given)
        self.can_return = change.down is not None or _is_castable(now, was)
        super().__init__(change.table, old, new, there, back)

    def directions(self) -> Verdicts:
        if self.can_return:
            return verdicts(None, None)
        source, target = (s.column(self.name).type for s in (self.new_schema, self.old_schema))
        return verdicts(
            None,
            f"{type_name(source)} is not cast to {type_name(target)}, which the old side has: "
            "give `down`",
        )

    def loss(self, deltas: TableImages, carried: TableImages, old: Side) -> Loss | None:
        """A value that the new type cannot hold, and that is not there as it was written."""
        delta = deltas.get(self.old_name)
        if not delta or self.up is not None:
            return super().loss(deltas, carried, old)
        rows = _set_anew(self.old_schema, delta, self.name)
        unfit = replace(self.there, policy="quarantine").hidden_rows(rows)
        if not unfit.any():
            return None
        return Loss(self.old_name, self.name, first_key(self.old_schema, rows, unfit))


def _is_castable(source: Column, target: Column) -> bool:
    return source.type == target.type or Cast(source.type, target.type).is_known


def _column_mapping(
    change: RetypeColumn,
    text: str | None,
    schema: TableSchema,
    source: Column,
    target: Column,
    given: frozenset[str],
) -> ColumnMapping:
    """How the column crosses to one side."""
    if text is not None:
        texts = {target.name: text}
        made = expression_mapping(change.table, texts, schema, [target], change.policy)
        return replace(made, decided_by=given)
    function = CastValues(source.name, Cast(source.type, target.type))
    return ColumnMapping(change.table, schema, [([target], function)], change.policy)


def _set_anew(schema: TableSchema, delta: RowImages, name: str) -> pa.Table:
    """The rows of a delta that are new, or have another value in a column than they had."""
    before = align_rows(schema, keys_of(schema, delta.after), delta.before)
    anew = ~before.there | differs(before.column(name), flat(delta.after.column(name)))
    return delta.after.filter(pa.array(anew))


def _cast_default(column: Column, cast: Cast) -> object:
    """The default in the new type."""
    if column.default is None or cast.source == cast.target:
        return column.default
    if not cast.is_known:
        return None
    made, failed = cast.values(pa.array([column.default], cast.source))
    if failed.any():
        raise InvalidData(
            f"column {column.name!r}: the default {column.default!r:.80} does not fit "
            f"{type_name(cast.target)}"
        )
    return made[0].as_py()
