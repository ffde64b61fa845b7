"""Deep check: every active sync that is not behind satisfies its recipe at the heads.

All heads and syncs are those of one moment; whoever commits meanwhile does not matter.  Nothing
is written and nothing is locked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from livingdb.catalog.branches import EPOCH, BranchRow
from livingdb.catalog.ids import BranchId
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.catalog.syncs import ERROR, SyncRow, sync_chains
from livingdb.chunks.address import Address
from livingdb.commit.carrying.sync_lens import lens_of
from livingdb.derivation.hidden_tables import ASIDE, WHOLE, whole_tables
from livingdb.derivation.source_positions import refresh_inputs, source_positions
from livingdb.derivation.view import KIND, View
from livingdb.errors import LivingDBError, TransactionConflict
from livingdb.evolution.lenses.lens_agreement import (
    all_rows,
    disagreements,
    has_same_columns,
    whole_delta,
)
from livingdb.evolution.schema_change import SchemaChange, unlock_changes
from livingdb.graph.graph import Graph, tables_of
from livingdb.graph.names import is_hidden
from livingdb.maintenance.check import NOT_HERE, Problem
from livingdb.tables.index import Version
from livingdb.tables.row_difference import RowDifference, compare_rows, with_held_values
from livingdb.trees.keys import member

if TYPE_CHECKING:
    from livingdb.maintenance.recompute import RecomputedTable

__all__ = ["BrokenPromise", "NotChecked", "SyncReport", "check_syncs"]

Progress = Callable[[int, int, str], object]
_ATTEMPTS = 16
_FUNCTIONS = ("spark", "model")


@dataclass(frozen=True)
class BrokenPromise(Problem):
    """A table of a sync's target that is not what the sync says, and what mends it.

    `rows` is how many differ, 0 where it is not about rows; `keys` are those of the first few.
    """

    sync: str = ""
    table: str = ""
    mend: str = ""
    rows: int = 0
    keys: tuple[Mapping[str, Any], ...] = ()

    @property
    def is_mendable(self) -> bool:
        return bool(self.mend)

    def __str__(self) -> str:
        mend = f"; {self.mend}" if self.mend else ""
        return f"{self.where}: {self.what}{mend}"


@dataclass(frozen=True)
class NotChecked:
    """A sync, or a part of one, that was not looked at, and why."""

    sync: str
    why: str

    def __str__(self) -> str:
        return f"{self.sync}: {self.why}"


@dataclass
class SyncReport:
    """What became of the syncs: how many hold, what does not, and what was not looked at."""

    checked: int = 0
    broken: list[BrokenPromise] = field(default_factory=list)
    not_checked: list[NotChecked] = field(default_factory=list)


def check_syncs(
    graph: Graph,
    engine: str | None = None,
    trust: Sequence[str] = (),
    progress: Progress | None = None,
) -> SyncReport:
    """Compute anew what every active sync promises, and compare it with what there is."""
    moment = _read_moment(graph)
    found = SyncReport()
    chains = sorted(moment.chains, key=moment.name)
    for number, chain in enumerate(chains):
        if progress is not None:
            progress(number, len(chains), moment.name(chain))
        _ChainCheck(graph, moment, chain, found, engine, trust).run()
    if progress is not None:
        progress(len(chains), len(chains), "")
    return found


@dataclass(frozen=True)
class _Moment:
    """The branches and syncs of one moment."""

    branches: Mapping[BranchId, BranchRow]
    chains: Sequence[tuple[SyncRow, ...]]

    def branch_name(self, number: BranchId) -> str:
        row = self.branches.get(number)
        return "?" if row is None else row.name

    def name(self, chain: Sequence[SyncRow]) -> str:
        """What users call a sync."""
        sources = "+".join(self.branch_name(number) for number in chain[0].sources)
        return f"{sources}/{self.branch_name(chain[-1].target)}"


def _read_moment(graph: Graph) -> _Moment:
    """All branches, read in one statement, and the syncs there were then."""
    for _ in range(_ATTEMPTS):
        rows = graph.branches.all()
        syncs = graph.catalog.syncs.all()
        epoch = graph.catalog.meta(EPOCH)
        if all(row.epoch == epoch for row in rows):
            graph.observe_epoch(epoch)
            hidden = {row.id for row in rows if is_hidden(row.name)}
            return _Moment({row.id: row for row in rows}, sync_chains(syncs, hidden))
    raise TransactionConflict("others keep changing syncs; try again")


class _NotChecked(Exception):
    """There is nothing to look at, or no way to; says why."""


class _ChainCheck:
    """The check of one sync."""

    def __init__(
        self,
        graph: Graph,
        moment: _Moment,
        chain: Sequence[SyncRow],
        report: SyncReport,
        engine: str | None,
        trust: Sequence[str],
    ):
        self._graph, self._moment, self._chain = graph, moment, chain
        self._report, self._engine, self._trust = report, engine, trust
        self._name = moment.name(chain)
        target = chain[0].sources[0] if chain[0].direction == "reverse" else chain[-1].target
        self._target = moment.branch_name(target)

    def run(self) -> None:
        """Look at it; whatever happens is in the report."""
        try:
            stopped = next((row for row in self._chain if not row.is_active), None)
            if stopped is not None:
                state = "in error" if stopped.state == ERROR else stopped.state
                raise _NotChecked(f"it is {state}, and promises nothing")
            if self._chain[0].kind == KIND:
                self._check_derived(self._chain[0])
            else:
                self._check_lenses()
        except _NotChecked as reason:
            self._report.not_checked.append(NotChecked(self._name, str(reason)))
        except NOT_HERE as error:
            why = f"what it promises cannot be computed here: {error}"
            self._report.not_checked.append(NotChecked(self._name, why))
        except LivingDBError as error:
            self._fail(f"what it promises cannot be computed: {error}")
        except (ArithmeticError, AssertionError, LookupError, TypeError, ValueError) as error:
            kind = type(error).__name__
            self._fail(f"what it promises cannot be computed: {kind}: {error}")
        else:
            self._report.checked += 1

    def _fail(self, what: str, table: str = "") -> None:
        self._report.broken.append(BrokenPromise(f"sync {self._name}", what, self._name, table))

    # --- derived objects -----------------------------------------------------------------------

    def _check_derived(self, sync: SyncRow) -> None:
        view = View.from_json(sync.spec)
        if view.what in _FUNCTIONS:
            raise _NotChecked(f"it is made by {view.function}, which is not run again")
        if view.restless:
            raise _NotChecked("it asks for the time or for chance, and may differ each time")
        head = self._head(sync.target)
        at = {number: self._head(number).address for number in view.branches}
        then = source_positions(self._graph, head)
        if not set(view.branches) <= set(then):
            self._tell(view.name, "its newest snapshot is not one that the sync has made")
            return
        is_follower = sync.frequency != "immediate" or view.what == "clone"
        if is_follower and self._is_behind(view, then, at):
            raise _NotChecked("it is behind what it reads")
        tables = tables_of(self._graph, head)
        if view.what == "clone":
            unlock_changes(map(SchemaChange.from_json, view.changes), self._trust)
            self._check_clone(view, at, whole_tables(tables))
        else:
            from livingdb.maintenance.recompute import recompute_view

            wanted = recompute_view(self._graph, view, at, self._engine, self._trust)
            self._check_tables(wanted, whole_tables(tables), unordered=True)
        self._check_quarantine(tables)

    def _head(self, number: BranchId) -> SnapshotRow:
        row = self._moment.branches.get(number)
        if row is None:
            raise _NotChecked("a branch that it joins is gone")
        return self._graph.snapshots.at(row.head)

    def _is_behind(
        self, view: View, then: Mapping[BranchId, Address], at: Mapping[BranchId, Address]
    ) -> bool:
        """Whether what it reads is not what it was made from."""
        graph = self._graph
        if view.what == "clone":
            sides = ((graph.record(then[n]).tables, graph.record(at[n]).tables) for n in at)
            return any(_shown_tables(old) != _shown_tables(new) for old, new in sides)
        read = refresh_inputs(graph, view, then, at).values()
        return any(
            item.old is None or item.old.version.address != item.new.version.address
            for item in read
        )

    def _check_clone(
        self, view: View, at: Mapping[BranchId, Address], tables: Mapping[str, Version]
    ) -> None:
        from livingdb.maintenance.recompute import recompute_clone

        wanted, same = recompute_clone(self._graph, view, at)
        self._check_tables(self._with_kept_values(view, wanted, tables), tables)
        self._check_same(same, tables)
        for name in _visible(tables).keys() - {*wanted, *same}:
            self._tell(name, f"the table {_shown(name)} is none that the sync makes")

    def _with_kept_values(
        self,
        view: View,
        wanted: Mapping[str, RecomputedTable],
        tables: Mapping[str, Version],
    ) -> dict[str, RecomputedTable]:
        """Tables as they should be, with values that are filled once as they are.

        A column that `up` fills keeps what it was filled with, whatever its row does later.
        """
        found = dict(wanted)
        for change in view.changes:
            if change["change"] != "AddColumn" or not change.get("up"):
                continue
            table, column = change["table"], change["name"]
            is_there = table in found and table in tables
            if not is_there or column not in found[table].rows.column_names:
                continue
            why = f"the column {column!r}: it keeps what it was filled with"
            self._report.not_checked.append(NotChecked(self._name, why))
            rows = self._graph.versions.rows(tables[table])
            if column in rows.schema.arrow.names:
                kept = with_held_values(rows, found[table].rows, column)
                found[table] = replace(found[table], rows=kept)
        return found

    def _check_tables(
        self,
        wanted: Mapping[str, RecomputedTable],
        tables: Mapping[str, Version],
        unordered: bool = False,
    ) -> None:
        for name, table in wanted.items():
            version = tables.get(name)
            if version is None:
                self._tell(name, f"the table {_shown(name)} is missing")
                continue
            schema = self._graph.versions.definition(version).schema
            if not has_same_columns(schema, table.schema):
                self._tell(name, f"the table {_shown(name)} has other columns or another key")
                continue
            rows = self._graph.versions.rows(version)
            wanted_rows = whole_delta(rows, table.rows)
            allowed = _all_rows if table.keeps_rows else None
            found = compare_rows(rows, wanted_rows, allowed, unordered=unordered)
            self._tell_difference(name, found)

    # --- schema syncs --------------------------------------------------------------------------

    def _check_lenses(self) -> None:
        """Each change of the chain, between the branches that it joins."""
        for row in self._chain:
            if row.behind is not None:
                raise _NotChecked("it waits for the key of a mask")
            (source,) = row.sources
            old, new = (tables_of(self._graph, self._head(n)) for n in (source, row.target))
            is_reverse = row.direction == "reverse"
            sides = (
                _visible(whole_tables(old) if is_reverse else old),
                _visible(new if is_reverse else whole_tables(new)),
            )
            if row.direction == "both":
                sides = self._without_own_tables(row, *sides)
            unlock_changes([SchemaChange.from_json(row.spec["change"])], self._trust)
            lens = lens_of(self._graph, row)
            for column in lens.unverified_columns(row.direction):
                why = f"the column {column!r}: both sides write what it is made of"
                self._report.not_checked.append(NotChecked(self._name, why))
            for one in disagreements(self._graph.versions, lens, *sides, row.direction):
                if one.is_lost:
                    self._fail(f"the table {_shown(one.table)} {one.problem}", one.table)
                elif one.difference is None:
                    self._tell(one.table, f"the table {_shown(one.table)} {one.problem}")
                else:
                    self._tell_difference(one.table, one.difference)
            written = old if is_reverse else new
            self._check_quarantine(written)

    def _without_own_tables(
        self, row: SyncRow, old: Mapping[str, Version], new: Mapping[str, Version]
    ) -> tuple[dict[str, Version], dict[str, Version]]:
        """The tables of both sides but those that one has made since they are in step."""
        graph = self._graph
        made_on = graph.snapshots.find(Address(bytes.fromhex(str(row.spec["snapshot"]))))
        shared = {} if made_on is None else graph.tables(made_on)
        both = {*shared, *(old.keys() & new.keys()), *lens_of(graph, row).new}
        first, second = ({n: v for n, v in side.items() if n in both} for side in (old, new))
        return first, second

    # --- what both have ------------------------------------------------------------------------

    def _check_same(self, wanted: Mapping[str, Version], tables: Mapping[str, Version]) -> None:
        """Tables that both sides share."""
        versions = self._graph.versions
        for name, version in wanted.items():
            if name not in tables:
                self._tell(name, f"the table {_shown(name)} is missing")
                continue
            if tables[name].address == version.address:
                continue
            if versions.definition(version).schema != versions.definition(tables[name]).schema:
                self._tell(name, f"the table {_shown(name)} has other columns or another key")
                continue
            rows = versions.rows(tables[name])
            self._tell_difference(name, compare_rows(rows, all_rows(versions.rows(version), rows)))

    def _check_quarantine(self, tables: Mapping[str, Version]) -> None:
        """What users see is the whole without what is set aside."""
        versions = self._graph.versions
        for hidden in [name for name in tables if name.startswith(ASIDE)]:
            name = hidden.removeprefix(ASIDE)
            if WHOLE + name not in tables or name not in tables:
                self._tell(name, f"the table {_shown(name)} or its rows set aside are missing")
                continue
            rows, aside = versions.rows(tables[name]), versions.rows(tables[hidden])
            whole = all_rows(versions.rows(tables[WHOLE + name]), rows)
            keys = aside.to_arrow(list(rows.schema.key))
            gone = rows.forest.shape.keys([c.combine_chunks() for c in keys.columns])
            stays = ~member(whole.keys, gone)
            self._tell_difference(name, compare_rows(rows, whole.select(stays.nonzero()[0])))

    def _tell_difference(self, table: str, found: RowDifference) -> None:
        if not len(found):
            return
        counts = {
            "missing": found.missing,
            "too many": found.surplus,
            "with other values": found.changed,
        }
        kinds = ", ".join(f"{count:,} {what}" for what, count in counts.items() if count)
        keys = "; ".join(_example(row) for row in found.examples)
        rows = "1 row differs" if len(found) == 1 else f"{len(found):,} rows differ"
        what = f"the table {_shown(table)} is not what the sync says: {rows} ({kinds}), as {keys}"
        self._tell(table, what, len(found), tuple(found.examples))

    def _tell(
        self, table: str, what: str, rows: int = 0, keys: tuple[Mapping[str, Any], ...] = ()
    ) -> None:
        mend = f"db.refresh({self._target!r}, full=True) makes it anew"
        where = f"sync {self._name}"
        self._report.broken.append(BrokenPromise(where, what, self._name, table, mend, rows, keys))


def _shown_tables(tables: Mapping[str, Address]) -> dict[str, Address]:
    return {name: address for name, address in tables.items() if not is_hidden(name)}


def _visible(tables: Mapping[str, Version]) -> dict[str, Version]:
    return {name: version for name, version in tables.items() if not is_hidden(name)}


def _all_rows(rows: pa.Table) -> npt.NDArray[np.bool_]:
    return np.ones(rows.num_rows, bool)


def _shown(table: str) -> str:
    return f"{table!r}, which is hidden," if is_hidden(table) else repr(table)


def _example(row: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r:.60}" for name, value in row.items())
