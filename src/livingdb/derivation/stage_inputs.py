"""Inputs of a stage: versions of tables before and after, their weighted diff, and rows looked up
in either.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from livingdb.catalog.ids import BranchId
from livingdb.chunks.address import Address
from livingdb.derivation.arrays.kept_rows import KeptRows, kept_tables
from livingdb.derivation.find_rows import matching_rows, matching_rows_in
from livingdb.derivation.keyed_change import (
    EncodedKeys,
    KeyedChange,
    TouchedGroups,
    is_exact,
    keyed_change,
    touched_groups,
)
from livingdb.derivation.plan import WEIGHT, Ask, Relation, Side
from livingdb.derivation.query_answers import Answers
from livingdb.derivation.stage_tables import ambiguity_message, is_bag
from livingdb.derivation.weighted_rows import (
    concat_rows,
    consolidate,
    distinct_rows,
    expand_weights,
    gone_and_come,
    with_weight,
)
from livingdb.engines.request import Source, TableLocation
from livingdb.errors import InvalidData
from livingdb.graph.diff import changed_keys, delta_since, max_differing_rows
from livingdb.tables.batches import flat
from livingdb.tables.index import Version
from livingdb.tables.versions import Versions

__all__ = ["DeltaCache", "StageInput", "VersionRelations", "weighted_diff"]

_REMEMBERED = 4


def weighted_diff(
    versions: Versions, before: Version, after: Version, columns: Sequence[str] | None = None
) -> pa.Table:
    """The rows that may differ between two versions, as they were and as they are.

    Of some columns only, if they are named: the others are not read.
    """
    old = versions.rows(before)
    names = old.schema.arrow.names if columns is None else list(columns)
    changes = delta_since(versions, before, after)
    keys = changed_keys(versions, before, after) if changes is None else changes.keys
    was, gone = old.lookup(keys, names)
    if changes is not None:
        positions = [old.schema.position(name) for name in names]
        _, come = changes.apply(keys[was], gone, positions)
    else:
        _, come = versions.rows(after).lookup(keys, names)
    return gone_and_come(names, gone, come)


@dataclass
class DeltaCache:
    """What differs between versions, found out once for several views."""

    by_versions: dict[tuple[Address, Address], pa.Table] = field(default_factory=dict)
    """The weighted rows, by the versions before and after."""
    findings: dict[tuple[Address, Address], dict[object, Any]] = field(default_factory=dict)
    """What is known about these rows."""
    empty: dict[tuple[Address, tuple[str, ...] | None], pa.Table] = field(default_factory=dict)
    """No rows of tables, by their definitions and the columns that matter."""
    columns: Mapping[tuple[BranchId, str], Sequence[str]] = field(default_factory=dict)
    """Of tables of branches, the columns that matter to any of the views, where not all do."""


@dataclass
class StageInput:
    """A table before and after a change; equal if it did not change."""

    versions: Versions
    old: Version
    new: Version
    stored: tuple[TableLocation | None, TableLocation | None] = (None, None)
    """Where other processes find both."""
    known: pa.Table | KeyedChange | None = None
    """What changed, if whoever made the change says so."""
    deltas: DeltaCache = field(default_factory=DeltaCache)
    """What changed between versions, as others found out before."""
    columns: Sequence[str] | None = None
    """Those that matter; None for all."""
    _matched: list[tuple[pa.Table, pa.Table]] = field(default_factory=list)

    @property
    def is_same(self) -> bool:
        """Whether nothing changed."""
        return self.old.address == self.new.address

    @property
    def max_changed_rows(self) -> int:
        """How many rows changed, or at most did, as far as that is known without reading them."""
        if self.is_same:
            return 0
        if self.known is not None:
            return int(self.known.num_rows)
        return max_differing_rows(self.versions, self.old, self.new)

    @cached_property
    def delta(self) -> pa.Table:
        """The weighted rows that go and come."""
        if self.known is not None:
            is_keyed = isinstance(self.known, KeyedChange)
            return self.known.weighted_rows if is_keyed else self.known
        if self.is_same:
            return self._no_rows()
        ends = self.old.address, self.new.address
        known = self.deltas.by_versions.get(ends)
        if known is None or not self._has_needed_columns(known):
            known = weighted_diff(self.versions, self.old, self.new, self.columns)
            self.deltas.by_versions[ends] = known
            self.deltas.findings[ends] = {}
        return known

    @cached_property
    def findings(self) -> dict[object, Any]:
        """What is known about the rows of `delta`, by all who share it."""
        if self.known is not None or self.is_same:
            return {}
        rows = self.delta
        ends = self.old.address, self.new.address
        is_shared = self.deltas.by_versions.get(ends) is rows
        return self.deltas.findings[ends] if is_shared else {}

    def kept_rows(self, wanted: int) -> KeptRows | None:
        """All rows, to look so many up; None if they changed, or are not in memory."""
        if not self.is_same:
            return None
        return kept_tables(self.versions).rows(self.versions, self.old, wanted)

    def _no_rows(self) -> pa.Table:
        """What changed in a table that did not, made once for several views."""
        place = self.new.definition, None if self.columns is None else tuple(self.columns)
        found = self.deltas.empty.get(place)
        if found is None:
            schema = self.versions.definition(self.new).schema.arrow
            chosen = schema if self.columns is None else [schema.field(n) for n in self.columns]
            found = pa.schema([*chosen, pa.field(WEIGHT, pa.int64())]).empty_table()
            self.deltas.empty[place] = found
        return found

    def _has_needed_columns(self, rows: pa.Table) -> bool:
        """Whether rows have the columns that matter."""
        wanted = self.columns
        if wanted is None:
            wanted = self.versions.definition(self.new).schema.arrow.names
        return set(wanted) <= set(rows.column_names)

    def matching_rows(self, side: Side, values: pa.Table) -> pa.Table:
        """The rows that hold one of the rows of `values`; null is null here.

        They are looked for among the old rows, and remembered; the new ones are those and what
        changed, so that only one of both versions is read.
        """
        found = next((rows for asked, rows in self._matched if asked.equals(values)), None)
        if found is None:
            found = matching_rows(self.versions.rows(self.old), values, self.columns)
            self._matched = [(values, found), *self._matched[: _REMEMBERED - 1]]
        if side == "old" or self.is_same:
            return found
        changed = (
            matching_rows_in(self.delta, values) if values.num_rows else self.delta.slice(0, 0)
        )
        if not changed.num_rows:
            return found
        known = consolidate(
            concat_rows([with_weight(found, 1), changed.select([*found.column_names, WEIGHT])])
        )
        rows, _ = expand_weights(known)
        return rows.drop_columns([WEIGHT])

    def source(self, side: Side) -> Source:
        """All rows."""
        is_old = side == "old"
        rows = self.versions.rows(self.old if is_old else self.new)
        return Source(rows, location=self.stored[0 if is_old else 1])


class VersionRelations:
    """Reads pairs of versions, by the names that a plan has for them."""

    def __init__(
        self,
        pairs: Mapping[str, StageInput],
        answers: Answers,
        held: Version | None = None,
        kept: Version | None = None,
    ):
        self._pairs = pairs
        self._answers = answers
        self._held = held
        self._kept = kept or held
        """The version with the same rows under which these are kept in memory."""

    def delta(self, name: str) -> pa.Table:
        """The weighted rows that go and come; empty if nothing changed."""
        return self._pairs[name].delta

    def source(self, name: str, side: Side) -> Relation:
        """All rows; those that only this process has are given as they are."""
        source = self._pairs[name].source(side)
        if source.location is None and self._answers.name != "embedded":
            assert not isinstance(source.rows, pa.Table)
            return source.rows.to_arrow()
        return source

    def matching_rows(self, name: str, side: Side, values: pa.Table) -> pa.Table:
        """The rows that hold one of the rows of `values`; null is null here."""
        return self._pairs[name].matching_rows(side, values)

    def kept_rows(self, name: str, wanted: int) -> KeptRows | None:
        """All rows of a table that did not change, to look so many up in them by its key."""
        return self._pairs[name].kept_rows(wanted)

    def findings(self, name: str) -> dict[object, Any]:
        """What is known about the rows of `delta`; who finds out more adds to it."""
        return self._pairs[name].findings

    def held_rows(self, keys: pa.Table | None) -> pa.Table:
        """The old rows with these keys, or all of them, of the stage that is maintained."""
        assert self._held is not None
        rows = next(iter(self._pairs.values())).versions.rows(self._held)
        return rows.to_arrow() if keys is None else matching_rows(rows, keys)

    def by_key(self, rows: pa.Table) -> KeyedChange | None:
        """Weighted rows of the stage that is maintained, by its key; None if it has none.

        None as well if several rows have a key, or values are equal that are not the same.
        `InvalidData` if a row comes for a key that has one already.
        """
        assert self._held is not None
        versions = next(iter(self._pairs.values())).versions
        schema, shape = versions.definition(self._held).schema, versions.forest(self._held).shape
        if is_bag(schema) or not is_exact(schema.arrow):
            return None
        columns = [flat(rows.column(c.name)) for c in schema.key_columns]
        for column, array in zip(schema.key_columns, columns, strict=True):
            if array.type != column.type or (array.null_count and not column.nullable):
                return None
        found = keyed_change(rows, EncodedKeys(shape.keys(columns), schema.key, shape))
        if found is not None and found.encoded is not None:
            come = found.encoded.keys[~found.was]
            if len(come) and versions.rows(self._held).contains(come).any():
                raise InvalidData(ambiguity_message(schema))
        return found

    def keyed_delta(self, name: str) -> KeyedChange | None:
        """What changed in an earlier stage, where it is known by key."""
        known = self._pairs[name].known
        return known if isinstance(known, KeyedChange) else None

    def touched_groups(self, keys: pa.Table) -> TouchedGroups:
        """The groups of rows with these keys, and what the stage that is maintained holds of them.

        They are in the order of its key, if that are the columns of the groups.
        """
        assert self._held is not None
        assert self._kept is not None
        versions = next(iter(self._pairs.values())).versions
        schema, shape = versions.definition(self._held).schema, versions.forest(self._held).shape
        if set(schema.key) != set(keys.column_names):
            rows = matching_rows(versions.rows(self._held), distinct_rows(keys))
            return touched_groups(keys, rows)
        encoded = shape.keys([flat(keys.column(c.name)).cast(c.type) for c in schema.key_columns])
        wanted, first, groups = np.unique(encoded, return_index=True, return_inverse=True)
        kept = kept_tables(versions).rows(versions, self._kept, len(wanted))
        held = versions.rows(self._held) if kept is None else kept
        was, arrays = held.lookup(wanted, schema.arrow.names)
        found = pa.Table.from_arrays(arrays, schema=schema.arrow)
        return TouchedGroups(first, groups, was, found, EncodedKeys(wanted, schema.key, shape))

    def answer(self, ask: Ask, relations: Mapping[str, Relation]) -> pa.Table:
        """The rows a prepared query gives over these relations."""
        return self._answers.answer(ask, relations)
