"""A laboratory for views: tables in memory, a plan, and what its stages hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from livingdb.derivation.arrays.kept_rows import KeptRows
from livingdb.derivation.compiler.plan_query import WEIGHT, Ask, Input, NeedsFull, Plan, Stage, plan
from livingdb.derivation.keyed_change import TouchedGroups, touched_groups
from livingdb.derivation.weighted_rows import consolidate, difference, distinct_rows, semi_join
from livingdb.engines.embedded.session import EmbeddedEngine
from livingdb.engines.request import Request, Source
from livingdb.sql.column_titles import with_spark_titles
from livingdb.sql.parse import parse_statement
from livingdb.tables.batches import flat
from livingdb.trees.keys import KeyCodec

ENGINE = EmbeddedEngine()


def answer(ask: Ask, relations: Mapping[str, Source | pa.Table]) -> pa.Table:
    """The rows of a prepared query."""
    sources = {
        name: rows if isinstance(rows, Source) else Source(rows)
        for name, rows in relations.items()
        if name in ask.relations
    }
    assert set(sources) == set(ask.relations), (set(sources), ask.relations)
    return ENGINE.rows(Request(ask.query.copy(), sources))


def in_memory_rows(rows: pa.Table, key: tuple[str, ...]) -> KeptRows:
    """All rows of a table in memory, as they are kept of one that is stored."""
    kinds = {name: rows.schema.field(name).type for name in key}
    codec = KeyCodec(list(kinds.values()))
    encoded = codec.encode([flat(rows.column(name)) for name in key])
    rows = rows.take(pa.array(np.argsort(encoded, kind="stable")))
    return KeptRows(
        id(rows), kinds, codec, lambda names: [flat(rows.column(name)) for name in names]
    )


@dataclass
class Memory:
    """Tables and stages before and after a change; counts what is read."""

    old: dict[str, pa.Table]
    new: dict[str, pa.Table]
    stored: pa.Table | None = None
    stage: Stage | None = None
    reads: list[str] = field(default_factory=list)
    keys: Mapping[str, tuple[str, ...] | None] = field(default_factory=dict)
    """The keys of tables, which are then kept unless they change."""
    known: dict[str, dict[object, Any]] = field(default_factory=dict)

    def delta(self, name: str) -> pa.Table:
        return difference(self.old[name], self.new[name])

    def source(self, name: str, side: str) -> pa.Table:
        self.reads.append(f"source {name}")
        return (self.old if side == "old" else self.new)[name]

    def matching_rows(self, name: str, side: str, values: pa.Table) -> pa.Table:
        self.reads.append(f"matching {name}")
        rows = (self.old if side == "old" else self.new)[name]
        for field_ in values.schema:
            assert rows.schema.field(field_.name).type == field_.type, (name, field_, rows.schema)
        assert distinct_rows(values).num_rows == values.num_rows
        return semi_join(rows, values.column_names, values)

    def kept_rows(self, name: str, wanted: int) -> KeptRows | None:
        rows, key = self.new[name], self.keys.get(name)
        if key is None or self.old[name] is not rows:
            return None
        self.reads.append(f"kept {name}")
        return in_memory_rows(rows, key)

    def findings(self, name: str) -> dict[object, Any]:
        return self.known.setdefault(name, {})

    def touched_groups(self, keys: pa.Table) -> TouchedGroups:
        return touched_groups(keys, self.held_rows(distinct_rows(keys)))

    def keyed_delta(self, name: str) -> None:
        return None

    def by_key(self, rows: pa.Table) -> None:
        return None

    def held_rows(self, keys: pa.Table | None) -> pa.Table:
        assert self.stage is not None
        assert self.stored is not None
        if keys is None:
            self.reads.append("held")
            return self.stored
        assert tuple(keys.column_names) == self.stage.key, (
            keys.column_names,
            self.stage.key,
        )
        for field_ in keys.schema:
            assert self.stored.schema.field(field_.name).type == field_.type
        assert distinct_rows(keys).num_rows == keys.num_rows
        self.reads.append("held")
        return semi_join(self.stored, keys.column_names, keys)

    def answer(self, ask: Ask, relations: Mapping[str, Source | pa.Table]) -> pa.Table:
        self.reads.append("answer")
        return answer(ask, relations)


class Lab:
    """A view that is maintained beside its tables."""

    def __init__(
        self,
        text: str,
        tables: dict[str, pa.Table],
        keys: Mapping[str, tuple[str, ...] | None],
        key: tuple[str, ...] | None = None,
    ):
        self.tables = dict(tables)
        self.keys = dict(keys)
        self.query = parse_statement(text)
        inputs = {name: Input(rows.schema, keys[name]) for name, rows in tables.items()}
        self.plan: Plan = plan(self.query, inputs, key)
        self.held: dict[str, pa.Table] = {}
        self.reads: dict[str, list[str]] = {}
        self.fulls: list[str] = []
        for stage in self.plan.stages:
            self.held[stage.name] = self.full(stage, self.tables | self.held)
            self._check_key(stage)
        self._check_view()

    def full(self, stage: Stage, world: Mapping[str, pa.Table]) -> pa.Table:
        """The whole answer of a stage."""
        return answer(stage.ask, {name: world[name] for name in stage.reads})

    def change(self, tables: Mapping[str, pa.Table]) -> None:
        """Tables become others; every stage follows, and holds what a full answer would."""
        old = self.tables | self.held
        self.tables |= tables
        new = dict(self.tables)
        for stage in self.plan.stages:
            memory = Memory(old, new, old[stage.name], stage, keys=self.keys)
            whole = self.full(stage, new)
            if stage.strategy == "full":
                made = whole
            else:
                try:
                    made = self._applied(stage, stage.maintain(memory), old[stage.name])
                except NeedsFull as reason:
                    self.fulls.append(reason.code)
                    made = whole
            self.reads[stage.name] = memory.reads
            assert_alike(made, whole, stage)
            new[stage.name] = self.held[stage.name] = made.cast(whole.schema)
            self._check_key(stage)
        self._check_view()

    def _check_view(self) -> None:
        """The view is what its query, as it is written, gives."""
        sources = {name: Source(rows) for name, rows in self.tables.items()}
        whole = ENGINE.rows(Request(self.query.copy(), sources))
        last = self.plan.stages[-1]
        made = self.held[""]
        assert [n.casefold() for n in made.column_names] == [
            n.casefold() for n in with_spark_titles(self.query, whole).column_names
        ]
        assert_alike(made, whole.rename_columns(made.column_names).cast(made.schema), last)

    def _applied(self, stage: Stage, delta: pa.Table, held: pa.Table) -> pa.Table:
        assert delta.column_names == [*held.column_names, WEIGHT], (stage, delta.schema)
        if not delta.num_rows:
            return held
        assert consolidate(delta).num_rows == delta.num_rows
        ones = pa.array(np.ones(held.num_rows, np.int64))
        both = pa.concat_tables(
            [
                held.append_column(WEIGHT, ones),
                delta.cast(pa.schema([*held.schema, (WEIGHT, pa.int64())])),
            ]
        )
        found = consolidate(both)
        weights = found.column(WEIGHT).to_numpy()
        assert (weights > 0).all(), ("rows go that are not there", stage.name, delta, held)
        places = np.repeat(np.arange(found.num_rows), weights)
        return found.drop_columns([WEIGHT]).take(pa.array(places, pa.int64()))

    def _check_key(self, stage: Stage) -> None:
        rows = self.held[stage.name]
        if stage.key is not None:
            keys = rows.select(list(stage.key))
            assert distinct_rows(keys).num_rows == rows.num_rows, ("key", stage.key, rows)


def assert_alike(made: pa.Table, whole: pa.Table, stage: Stage) -> None:
    """Both have the same rows; floats may differ in the last places."""
    assert made.column_names == whole.column_names
    assert made.num_rows == whole.num_rows, (stage.name, stage.strategy, made, whole)
    floats = [f.name for f in whole.schema if pa.types.is_floating(f.type)]
    others = [n for n in whole.column_names if n not in floats]
    order = [(name, "ascending") for name in [*others, *floats]]
    nested = [f for f in whole.schema if pa.types.is_nested(f.type)]
    if nested:
        assert sorted(map(str, made.to_pylist())) == sorted(map(str, whole.to_pylist()))
        return
    if not others:
        order = [(name, "ascending") for name in floats]
    one, other = (rows.take(pc.sort_indices(rows, order)) for rows in (made, whole))
    for name in others:
        left, right = one.column(name).to_pylist(), other.column(name).to_pylist()
        assert left == right, (stage.name, stage.strategy, name, made, whole)
    for name in floats:
        left = one.column(name).to_numpy(zero_copy_only=False).astype(float)
        right = other.column(name).to_numpy(zero_copy_only=False).astype(float)
        np.testing.assert_allclose(left, right, rtol=1e-9, atol=1e-12)
