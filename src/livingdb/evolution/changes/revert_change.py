"""RevertChange: a change that was made, taken back; its lens seen from the other side."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from livingdb.errors import InvalidData
from livingdb.evolution.lenses.lens import Follower, Lens, RowImages, Side, TableImages, Verdicts
from livingdb.evolution.schema_change import SchemaChange, Schemas
from livingdb.tables.identity import new_id
from livingdb.tables.recipe import Definition

__all__ = ["InverseLens", "RevertChange", "inverse_change", "revert_of"]


@dataclass(frozen=True, repr=False)
class RevertChange(SchemaChange):
    """A change taken back.

    reverted   the change, as JSON
    before     the tables it was made on, as JSON
    """

    reverted: str
    before: str

    def __repr__(self) -> str:
        return f"RevertChange({self.change!r})"

    @property
    def change(self) -> SchemaChange:
        """What is taken back."""
        return SchemaChange.from_json(json.loads(self.reverted))

    @property
    def title(self) -> str:
        return f"revert {self.change.title}"

    @property
    def about(self) -> str:
        return self.change.about

    @property
    def text(self) -> str:
        return f"revert {self.change.text}"

    @property
    def reverts(self) -> str | None:
        return self.change.identity

    def plan(self, tables: Schemas) -> Lens:
        before = {n: Definition.from_json(data) for n, data in json.loads(self.before).items()}
        lens = self.change.plan(before)
        name = str(json.loads(self.reverted)["change"])
        reason = lens.directions()["reverse"]
        if reason is not None:
            raise InvalidData(f"{name} cannot be taken back: {reason}")
        beside = {name: before[name] for name in lens.consults if name not in lens.new}
        for table, definition in {**lens.new, **beside}.items():
            if table not in tables or not definition.is_alike(tables[table]):
                raise InvalidData(
                    f"{name} cannot be taken back: the table {table!r} is not as it left it; "
                    "revert first what changed its schema since"
                )
        for table in lens.old:
            if table in tables and table not in lens.new:
                raise InvalidData(
                    f"{name} cannot be taken back: there is another table {table!r} since"
                )
        return InverseLens(lens)


def revert_of(change: SchemaChange, before: Schemas) -> RevertChange:
    """What takes back a change that was made on these tables."""
    lens = change.plan(before)
    linked = {target for n in lens.old for _, target in before[n].schema.foreign_keys}
    linked |= {target for known in lens.new.values() for _, target in known.schema.foreign_keys}
    linked |= lens.consults
    needed = {name: known for name, known in before.items() if name in lens.old or name in linked}
    data: dict[str, Any] = {name: known.to_json() for name, known in needed.items()}
    return RevertChange(json.dumps(change.to_json()), json.dumps(data))


def inverse_change(change: SchemaChange, before: Schemas) -> SchemaChange:
    """What leads back over a change that was made on these tables: of a revert, the change."""
    if isinstance(change, RevertChange):
        return change.change
    return revert_of(change, before).with_id(new_id())


class _NoRows:
    """A side whose tables are empty, but for those that a lens only reads."""

    def __init__(self, tables: Mapping[str, Definition], others: Side):
        self._tables, self._others = tables, others

    def lookup(self, table: str, keys: pa.Table) -> pa.Table:
        if table not in self._tables:
            return self._others.lookup(table, keys)
        return self._tables[table].schema.whole.empty_table()

    def matching_rows(self, table: str, values: pa.Table) -> pa.Table:
        if table not in self._tables:
            return self._others.matching_rows(table, values)
        return self._tables[table].schema.whole.empty_table()

    def scan(self, table: str, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        return iter(()) if table in self._tables else self._others.scan(table, columns)

    def count(self, table: str) -> int:
        return 0


class InverseLens(Lens):
    """A lens whose old side is the new one of another, and the other way."""

    def __init__(self, lens: Lens):
        self.inner = lens
        self.old, self.new = lens.new, lens.old
        self.consults = lens.consults

    def of_table(self, table: str) -> Lens:
        part = self.inner.of_table(table)
        return self if part is self.inner else InverseLens(part)

    def directions(self) -> Verdicts:
        found = self.inner.directions()
        return {**found, "forward": found["reverse"], "reverse": found["forward"]}

    def hides(self, is_right: bool) -> bool:
        return self.inner.hides(not is_right)

    def unchanged_source(self, name: str) -> str | None:
        sources = {self.inner.unchanged_source(other): other for other in self.inner.new}
        return sources.get(name)

    def create(self, old: Side) -> Mapping[str, Iterator[pa.RecordBatch]]:
        images: dict[str, RowImages] = {}
        for name, definition in self.old.items():
            empty = definition.schema.whole.empty_table()
            rows = pa.Table.from_batches(old.scan(name), definition.schema.whole)
            images[name] = RowImages(empty, rows)
        made = self.inner.putl(images, _NoRows(self.old, old), _NoRows(self.new, old))
        return {
            name: iter(made[name].after.to_batches()) if name in made else iter(())
            for name in self.new
        }

    @property
    def settles(self) -> bool:
        return self.inner.settles

    def settle_old(self, deltas: TableImages, old: Side, new: Side) -> TableImages:
        return self.inner.settle_new(deltas, old, new)

    def settle_new(self, deltas: TableImages, new: Side, old: Side) -> TableImages:
        return self.inner.settle_old(deltas, new, old)

    def follower(self, table: str, is_right: bool) -> Follower | None:
        return self.inner.follower(table, not is_right)

    def outlets(self, table: str, column: str) -> list[tuple[str, str]]:
        return [
            (name, other.name)
            for name, definition in self.new.items()
            for other in definition.schema.columns
            if (table, column) in self.inner.outlets(name, other.name)
        ]

    def putr(self, deltas: TableImages, old: Side, new: Side) -> TableImages:
        return self.inner.putl(deltas, old, new)

    def putl(self, deltas: TableImages, new: Side, old: Side) -> TableImages:
        return self.inner.putr(deltas, new, old)

    def expected_new(
        self, old: Side, new: Side, direction: str
    ) -> Mapping[str, Iterator[pa.Table]]:
        return self.inner.expected_old(old, new, _other(direction))

    def expected_old(
        self, new: Side, old: Side, direction: str
    ) -> Mapping[str, Iterator[pa.Table]]:
        return self.inner.expected_new(new, old, _other(direction))

    def own_rows(self, table: str, is_new: bool, rows: pa.Table) -> npt.NDArray[np.bool_]:
        return self.inner.own_rows(table, not is_new, rows)

    def unverified_columns(self, direction: str) -> Sequence[str]:
        return self.inner.unverified_columns(_other(direction))


def _other(direction: str) -> str:
    return {"forward": "reverse", "reverse": "forward"}.get(direction, direction)
