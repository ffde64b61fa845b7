"""How schemas may change: judged on the definitions before and after, and no row is read."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from livingdb.derivation.view import KIND
from livingdb.evolution.casts import Cast
from livingdb.guard.conditions.condition import Condition, Verdict
from livingdb.guard.conditions.registry import register, register_constructor
from livingdb.tables.schema import Column, TableSchema
from livingdb.tables.type_names import type_name

if TYPE_CHECKING:
    from livingdb.guard.conditions.pending_change import PendingChange

__all__ = [
    "Difference",
    "NoDestructiveChange",
    "NoRetype",
    "NoSchemaChange",
    "OnlyAdditive",
    "differences",
    "no_destructive_change",
    "no_retype",
    "no_schema_change",
    "only_additive",
]

ADDED, DROPPED, RENAMED = "added", "dropped", "renamed"
WIDENED, NARROWED, KEYED, OTHER = "widened", "narrowed", "key", "other"


@dataclass(frozen=True)
class Difference:
    """One thing that differs between two schemas: what kind it is of, and in words."""

    kind: str
    words: str


def differences(
    old: TableSchema, new: TableSchema, used: Collection[str] | None = None
) -> list[Difference]:
    """What differs; of columns only those `used`, under either name, if that is said.

    A column that is gone and one that came are the same, renamed, if they have the same id.
    """
    before = {column.name: column for column in old.visible_columns}
    after = {column.name: column for column in new.visible_columns}
    came = {column.id: column for name, column in after.items() if name not in before}
    found: list[Difference] = []
    for name, column in before.items():
        now = after.get(name) or came.pop(column.id, None)
        if used is not None and name not in used and (now is None or now.name not in used):
            continue
        found += _column_differences(column, now)
    if used is None:
        found += [
            Difference(ADDED, f"the column {column.name!r} was added") for column in came.values()
        ]
    renamed = {
        column.name: after[column.name].name if column.name in after else _name_in(new, column)
        for column in before.values()
    }
    keys = [renamed.get(name, name) for name in old.visible_key]
    if keys != list(new.visible_key) and _is_relevant([*old.visible_key, *new.visible_key], used):
        shown = f"from ({', '.join(old.visible_key)}) to ({', '.join(new.visible_key)})"
        found.append(Difference(KEYED, f"the key changed {shown}"))
    kept, keeps = ((s.checks, s.foreign_keys, s.uniques) for s in (old, new))
    if used is None and kept != keeps:
        found.append(Difference(OTHER, "what its rows have to satisfy changed"))
    return found


def _is_relevant(names: list[str], used: Collection[str] | None) -> bool:
    return used is None or any(name in used for name in names)


def _name_in(schema: TableSchema, column: Column) -> str:
    """What a column is called there."""
    return next(
        (other.name for other in schema.visible_columns if other.id == column.id), column.name
    )


def _column_differences(old: Column, new: Column | None) -> list[Difference]:
    if new is None:
        return [Difference(DROPPED, f"the column {old.name!r} was dropped")]
    found = []
    if old.name != new.name:
        found.append(Difference(RENAMED, f"the column {old.name!r} is called {new.name!r} now"))
    if old.type != new.type:
        kind = WIDENED if _is_wider(old.type, new.type) else NARROWED
        shown = f"from {type_name(old.type)} to {type_name(new.type)}"
        found.append(Difference(kind, f"the type of {old.name!r} changed {shown}"))
    if old.nullable != new.nullable:
        word = "may be null now" if new.nullable else "may not be null any more"
        found.append(Difference(OTHER, f"{new.name!r} {word}"))
    if (old.default, old.computed) != (new.default, new.computed):
        found.append(Difference(OTHER, f"what fills {new.name!r} changed"))
    return found


def _is_wider(old: pa.DataType, new: pa.DataType) -> bool:
    """Whether every value stays what it is."""
    kinds = pa.types
    if kinds.is_floating(new):
        small = kinds.is_integer(old) and old.bit_width <= 32 and new.bit_width == 64
        return bool(small or (kinds.is_floating(old) and new.bit_width >= old.bit_width))
    cast = Cast(old, new)
    if kinds.is_string(new):
        return cast.is_known and cast.is_total
    if kinds.is_timestamp(new):
        return bool(kinds.is_date(old))
    return cast.is_known and cast.is_exact


@dataclass(frozen=True)
class _SchemaCondition(Condition):
    """A condition about what differs between schemas.

    `only_used`: of the sources' columns, only those that the derivation uses.
    """

    OF_CHANGE: ClassVar[bool] = True

    only_used: bool = True
    table: str | None = field(default=None, kw_only=True)
    of: str = field(default="source", kw_only=True)

    BREAKING: ClassVar[frozenset[str]] = frozenset()

    def judge(self, pending: PendingChange) -> Verdict:
        """See `Condition.judge`; what is made for the first time has not changed."""
        if pending.head is None:
            return Verdict(measured=0)
        tables = pending.side(self.of)
        names = list(tables) if self.table is None else pending.names(self.table, of=self.of)
        found = [
            f"{name}: {difference.words}"
            for name in names
            for difference in self._table_differences(pending, name)
            if difference.kind in self.BREAKING
        ]
        return Verdict("; ".join(found) or None, len(found))

    def _table_differences(self, pending: PendingChange, name: str) -> list[Difference]:
        both = pending.side(self.of)[name]
        if both.new is None:
            return [] if both.old is None else [Difference(DROPPED, "the table was dropped")]
        if both.old is None:
            # Of what a view reads, that only means that it is not known any more.
            is_new = self.of == "target" or pending.sync.kind != KIND
            return [Difference(ADDED, "the table was added")] if is_new else []
        if both.old.definition == both.new.definition:
            return []
        old, new = (pending.versions.definition(v).schema for v in (both.old, both.new))
        return differences(old, new, self._used_columns(pending, name, old))

    def _used_columns(
        self, pending: PendingChange, name: str, old: TableSchema
    ) -> Collection[str] | None:
        """The columns that matter; None for all there are or may come to be."""
        if not self.only_used or self.of != "source":
            return None
        is_query = pending.sync.kind == KIND and pending.sync.spec.get("what") == "sql"
        return pending.uses.get(name, old.arrow.names if is_query else None)


@register
@dataclass(frozen=True)
class NoSchemaChange(_SchemaCondition):
    """No schema changes at all."""

    NAME: ClassVar[str] = "no_schema_change"
    BREAKING: ClassVar[frozenset[str]] = frozenset(
        [ADDED, DROPPED, RENAMED, WIDENED, NARROWED, KEYED, OTHER]
    )


@register
@dataclass(frozen=True)
class OnlyAdditive(_SchemaCondition):
    """Columns and tables may be added, and nothing else."""

    NAME: ClassVar[str] = "only_additive"
    BREAKING: ClassVar[frozenset[str]] = frozenset(
        [DROPPED, RENAMED, WIDENED, NARROWED, KEYED, OTHER]
    )


@register
@dataclass(frozen=True)
class NoDestructiveChange(_SchemaCondition):
    """Nothing is dropped, renamed away or narrowed, and keys stay."""

    NAME: ClassVar[str] = "no_destructive_change"
    BREAKING: ClassVar[frozenset[str]] = frozenset([DROPPED, RENAMED, NARROWED, KEYED])


@register
@dataclass(frozen=True)
class NoRetype(_SchemaCondition):
    """No column gets another type."""

    NAME: ClassVar[str] = "no_retype"
    BREAKING: ClassVar[frozenset[str]] = frozenset([WIDENED, NARROWED])


@register_constructor
def no_schema_change(
    only_used: bool = True, table: str | None = None, of: str = "source", **how: Any
) -> NoSchemaChange:
    """No schema changes; of the source's columns, of those that the derivation uses."""
    return NoSchemaChange(only_used, table=table, of=of, **how)


@register_constructor
def only_additive(
    only_used: bool = True, table: str | None = None, of: str = "source", **how: Any
) -> OnlyAdditive:
    """Columns and tables may be added, and nothing else."""
    return OnlyAdditive(only_used, table=table, of=of, **how)


@register_constructor
def no_destructive_change(
    only_used: bool = True, table: str | None = None, of: str = "source", **how: Any
) -> NoDestructiveChange:
    """No column or table is dropped or renamed, no type narrowed, no key changed."""
    return NoDestructiveChange(only_used, table=table, of=of, **how)


@register_constructor
def no_retype(
    only_used: bool = True, table: str | None = None, of: str = "source", **how: Any
) -> NoRetype:
    """No column gets another type."""
    return NoRetype(only_used, table=table, of=of, **how)
