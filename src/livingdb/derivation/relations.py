"""What a stage of a view reads: versions of tables before and after a change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa

from livingdb.chunks.address import Address
from livingdb.derivation.answers import Answers
from livingdb.derivation.matching import matching
from livingdb.derivation.model import WEIGHT, Ask, Relation, Side
from livingdb.derivation.stored import weighted
from livingdb.engines.request import Source, Stored
from livingdb.graph.compare import diff_versions
from livingdb.tables.index import Version
from livingdb.tables.schema import TableSchema
from livingdb.tables.versions import Versions
from livingdb.trees.diff import DELETED, INSERTED

__all__ = ["Deltas", "Pair", "VersionRelations", "weighted_diff"]


def weighted_diff(versions: Versions, before: Version, after: Version) -> pa.Table:
    """The rows that differ between two versions, as they were and as they are."""
    schema = versions.definition(after).schema
    empty = _table(schema, [pa.array([], column.type) for column in schema.stored])
    gone, come = [empty], [empty]
    for batch in diff_versions(versions, before, after):
        gone.append(_table(schema, batch.before).filter(pa.array(batch.kinds != INSERTED)))
        come.append(_table(schema, batch.after).filter(pa.array(batch.kinds != DELETED)))
    return weighted(pa.concat_tables(gone), pa.concat_tables(come))


def _table(schema: TableSchema, stored: list[pa.Array]) -> pa.Table:
    shown = schema.arrow.names
    arrays = [stored[schema.position(name)] for name in shown]
    return pa.Table.from_arrays(arrays, names=shown)


Deltas = dict[tuple[Address, Address], pa.Table]
"""The weighted rows that differ between two versions."""


@dataclass
class Pair:
    """A table before and after a change; equal if it did not change."""

    versions: Versions
    old: Version
    new: Version
    stored: tuple[Stored | None, Stored | None] = (None, None)
    """Where other processes find both."""
    known: pa.Table | None = None
    """What changed, if whoever made the change says so."""
    deltas: Deltas = field(default_factory=dict)
    """What changed between versions, as others found out before."""

    @property
    def is_same(self) -> bool:
        """Whether nothing changed."""
        return self.old.address == self.new.address

    @cached_property
    def changed(self) -> pa.Table:
        """The weighted rows that go and come."""
        if self.known is not None:
            return self.known
        if self.is_same:
            schema = self.versions.definition(self.new).schema.arrow
            return schema.append(pa.field(WEIGHT, pa.int64())).empty_table()
        ends = self.old.address, self.new.address
        if ends not in self.deltas:
            self.deltas[ends] = weighted_diff(self.versions, self.old, self.new)
        return self.deltas[ends]

    def source(self, side: Side) -> Source:
        """All rows."""
        is_old = side == "old"
        rows = self.versions.rows(self.old if is_old else self.new)
        return Source(rows, stored=self.stored[0 if is_old else 1])


class VersionRelations:
    """Reads pairs of versions, by the names that a plan has for them."""

    def __init__(self, pairs: Mapping[str, Pair], answers: Answers, held: Version | None = None):
        self._pairs = pairs
        self._answers = answers
        self._held = held

    def changed(self, name: str) -> pa.Table:
        """The weighted rows that go and come; empty if nothing changed."""
        return self._pairs[name].changed

    def source(self, name: str, side: Side) -> Relation:
        """All rows; those that only this process has are given as they are."""
        source = self._pairs[name].source(side)
        if source.stored is None and self._answers.name != "embedded":
            assert not isinstance(source.rows, pa.Table)
            return source.rows.to_arrow()
        return source

    def matching(self, name: str, side: Side, values: pa.Table) -> pa.Table:
        """The rows that hold one of the rows of `values`; null is null here."""
        pair = self._pairs[name]
        if pair.is_same:
            side = "new"
        return matching(pair.versions.rows(pair.old if side == "old" else pair.new), values)

    def held(self, keys: pa.Table) -> pa.Table:
        """The old rows with these keys, of the stage that is maintained."""
        assert self._held is not None
        versions = next(iter(self._pairs.values())).versions
        return matching(versions.rows(self._held), keys)

    def answer(self, ask: Ask, relations: Mapping[str, Relation]) -> pa.Table:
        """The rows a prepared query gives over these relations."""
        return self._answers.answer(ask, relations)
