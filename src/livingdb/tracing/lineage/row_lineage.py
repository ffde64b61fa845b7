"""Lineage as users ask for it: the rows behind a row of a derived object."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from livingdb.catalog.snapshots import SnapshotRow
from livingdb.derivation.find_rows import matching_rows
from livingdb.errors import InvalidData, NotFound
from livingdb.evolution.masked_history import MessageFilter
from livingdb.graph.graph import Graph
from livingdb.graph.snapshot_columns import snapshot_columns
from livingdb.tables.batches import flat
from livingdb.tables.fit import fit
from livingdb.tables.free_names import free_name, free_names
from livingdb.tables.rows import RowSet
from livingdb.tracing.blame.cause import Causes
from livingdb.tracing.lineage.column_lineage import unmasked_places
from livingdb.tracing.lineage.search import Origin, Search
from livingdb.tracing.lineage.target import Target, target_of

__all__ = ["Lineage", "lineage"]

_SNAPSHOT = "_snapshot"
"""The last column of lineage's rows: which snapshot they are of."""
_SHOWN_ROWS = 10


class Lineage(dict[str, pa.Table]):
    """The source rows behind rows of a derived object, by table.

    Through a mask, rows have the columns alone that it shows as they are.
    `snapshots` and `branches` say where each table was read; `whole` names the tables of which
    no more can be said than that any of their rows may matter.
    """

    def __init__(self, search: Search, target: Target, key: object, found: Iterable[Origin]):
        self._search = search
        self._target = target
        self._origins: dict[str, list[Origin]] = {}
        self.key = key
        self.view = target.name
        self.snapshot = target.snapshot.address.hex()
        every = list(found)
        branches = {origin.branch: origin.branch_name for origin in every}
        for origin in every:
            twice = {o.branch for o in every if o.table == origin.table}
            name = origin.table
            if len(twice) > 1:
                name = f"{branches[origin.branch]}.{origin.table}"
            self._origins.setdefault(name, []).append(origin)
        self._shown = unmasked_places(search.graph, target, search.is_to_base) if every else None
        super().__init__(
            {name: self._with_snapshots(parts) for name, parts in sorted(self._origins.items())}
        )

    @property
    def snapshots(self) -> dict[str, str]:
        """The snapshot that each table was read in; the newest, if it was read in several."""
        return {
            name: max((o.snapshot for o in parts), key=lambda row: row.sequence).address.hex()
            for name, parts in sorted(self._origins.items())
        }

    @property
    def branches(self) -> dict[str, str]:
        """The branch that each table is on."""
        return {name: parts[0].branch_name for name, parts in sorted(self._origins.items())}

    @property
    def whole(self) -> tuple[str, ...]:
        """The tables that are here as a whole."""
        items = sorted(self._origins.items())
        return tuple(name for name, parts in items if any(o.is_whole for o in parts))

    @cached_property
    def commits(self) -> dict[str, pa.Table]:
        """Who gave the rows their values: for each table with a key, a snapshot for each row."""
        graph = self._search.graph
        message_filter = MessageFilter(graph, self._target.snapshot)
        made: dict[str, pa.Table] = {}
        for name, parts in sorted(self._origins.items()):
            known = [o for o in parts if o.table in graph.tables(o.snapshot)]
            if known and parts[0].source.schema.visible_key:
                keys = parts[0].source.schema.key
                shown = [self._shown_columns(origin, keys) for origin in known]
                pairs = zip(known, shown, strict=True)
                blamed = [_blame_rows(graph, message_filter, *pair) for pair in pairs]
                made[name] = pa.concat_tables(blamed)
        return made

    def _shown_columns(self, origin: Origin, names: Iterable[str]) -> list[str]:
        """Those of the columns that no mask hides."""
        if self._shown is None:
            return list(names)
        return [n for n in names if (origin.branch, origin.table, n) in self._shown]

    def _with_snapshots(self, parts: list[Origin]) -> pa.Table:
        tables = [o.rows.select(self._shown_columns(o, o.rows.column_names)) for o in parts]
        rows = pa.concat_tables(tables, promote_options="default")
        lengths = [origin.rows.num_rows for origin in parts]
        every = pa.array([origin.snapshot.address.hex() for origin in parts], pa.string())
        hexes = every.take(pa.array(np.repeat(np.arange(len(parts)), lengths)))
        name = free_name(_SNAPSHOT, rows.column_names)
        whole = rows.schema.append(pa.field(name, pa.string()))
        return pa.table([*rows.columns, hexes], schema=whole)

    def to_base(self) -> Lineage:
        """The same down to tables that are not derived."""
        return _lineage(self._search.to_base(), self._target, self.key)

    def to_text(self) -> str:
        """The rows as text, the first few of each table."""
        asked = "all rows" if self.key is None else f"{self.key!r}"
        lines = [f"{self.view} {asked} at {self.snapshot[:12]}"]
        for name, rows in self.items():
            more = ", as a whole" if name in self.whole else ""
            where = f"{self.branches[name]} at {self.snapshots[name][:12]}"
            count = f"{rows.num_rows:,} row{'' if rows.num_rows == 1 else 's'}"
            lines.append(f"  {name} ({where}): {count}{more}")
            for row in rows.slice(0, _SHOWN_ROWS).drop_columns(rows.column_names[-1:]).to_pylist():
                shown = ", ".join(f"{column}={value!r}" for column, value in row.items())
                lines.append(f"    {shown}")
            if rows.num_rows > _SHOWN_ROWS:
                lines.append(f"    … and {rows.num_rows - _SHOWN_ROWS:,} more")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return self.to_text()


def lineage(search: Search, view: str, key: object, at: SnapshotRow | None) -> Lineage:
    """The source rows behind a row of a derived object; no key: behind all rows."""
    return _lineage(search, target_of(search.graph, view, at), key)


def _lineage(search: Search, target: Target, key: object) -> Lineage:
    graph = search.graph
    rows = graph.versions.rows(graph.version(target.snapshot, target.table))
    wanted = None if key is None else find_row(rows, key, target.name)
    return Lineage(search, target, key, search.source_rows(target, wanted))


def find_row(rows: RowSet, key: object, name: str) -> pa.Table:
    """The row with a key, or those with the values of some columns; `NotFound` if none has."""
    values = _key_values(rows, key, name)
    found = matching_rows(rows, values)
    if not found.num_rows:
        shown = ", ".join(f"{n}={v!r}" for n, v in values.to_pylist()[0].items())
        raise NotFound(f"{name!r} has no row with {shown}")
    return found


def _key_values(rows: RowSet, key: object, name: str) -> pa.Table:
    schema = rows.schema
    names = {column.name: column for column in schema.visible_columns}
    given: Mapping[str, Any]
    if isinstance(key, Mapping):
        given = {str(column): value for column, value in key.items()}
        unknown = [column for column in given if column not in names]
        if unknown or not given:
            what = repr(unknown[0]) if unknown else "of no name"
            raise InvalidData(f"{name!r} has no column {what}; it has {', '.join(names)}")
    else:
        wanted = list(schema.visible_key) or list(names)
        values = tuple(key) if isinstance(key, (tuple, list)) else (key,)
        if len(values) != len(wanted):
            known = "its key is" if schema.visible_key else "it has no key; its columns are"
            raise InvalidData(
                f"{name!r} has no row with a key of {len(values)} values: {known} "
                f"({', '.join(wanted)}); a dict of columns and values finds rows, too"
            )
        given = dict(zip(wanted, values, strict=True))
    arrays = [
        fit([value], replace(names[column], nullable=True)) for column, value in given.items()
    ]
    return pa.Table.from_arrays(arrays, names=list(given))


def _blame_rows(
    graph: Graph, message_filter: MessageFilter, origin: Origin, shown: list[str]
) -> pa.Table:
    """Who gave rows their values; of their keys, the columns that are shown."""
    rows = origin.source
    key = list(rows.schema.key)
    encoded = rows.forest.shape.keys([flat(origin.rows.column(name)) for name in key])
    order = encoded.argsort(kind="stable")
    who = Causes(graph).blame(origin.snapshot, origin.table, encoded[order]).who
    numbers, places = np.unique(who, return_inverse=True)
    found = graph.snapshots.get_many(numbers.tolist())
    about = snapshot_columns(message_filter.rows(found[number] for number in numbers.tolist()))
    told = {name: values.take(pa.array(places)) for name, values in about.items()}
    keys = origin.rows.select(shown).take(pa.array(order))
    return pa.table([*keys.columns, *told.values()], [*shown, *free_names(told, shown)])
