"""Syncs: standing relations between branches."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, lru_cache
from operator import attrgetter
from threading import Lock
from typing import Any

from sqlalchemy import BindParameter, Connection, bindparam, select
from sqlalchemy.exc import IntegrityError

from livingdb.catalog import schema
from livingdb.catalog.branches import EPOCH
from livingdb.catalog.ids import BranchId, SyncId
from livingdb.catalog.sealed_rows import DIGEST, SealedRows
from livingdb.catalog.sql.prepared_statements import PreparedStatement
from livingdb.catalog.sql.read_queries import Queries
from livingdb.catalog.sync_index import SyncIndex
from livingdb.chunks.address import Address
from livingdb.errors import AlreadyExists

__all__ = [
    "ACTIVE",
    "BEHIND",
    "DETACHED",
    "ERROR",
    "HELD",
    "ActiveSyncs",
    "SyncRow",
    "Syncs",
    "end_ids",
    "sync_chains",
    "with_end_names",
]

ACTIVE, HELD, DETACHED, ERROR = "active", "held", "detached", "error"
BEHIND = "behind"
"""What the spec of a sync has that waits for the key of its mask."""
_sync = schema.sync
_rows = SealedRows(_sync)


@dataclass(frozen=True)
class SyncRow:
    """A sync from source branches to a target, by the branches' ids.

    `direction` is relative to what made it: "forward" from the sources to the target, "reverse"
    the other way, or "both".  `spec` is what carries changes, in the words of its `kind`.
    `guard` are its `conditions` and where its `alerts` go, as plain values.
    `ends` are what users call the branches it leads from and to; see `with_end_names`.
    `number` is the catalog's own: it says which of two syncs was made first.
    """

    id: SyncId
    name: str
    kind: str
    sources: tuple[BranchId, ...]
    target: BranchId
    direction: str
    frequency: str
    state: str
    reason: str
    time: int
    spec: Mapping[str, Any] = field(default_factory=dict)
    guard: Mapping[str, Any] = field(default_factory=dict)
    ends: tuple[str, str] = ("", "")
    number: int = 0

    @property
    def written_branches(self) -> tuple[BranchId, ...]:
        """The branches that only the sync writes."""
        if self.direction == "forward":
            return (self.target,)
        return self.sources if self.direction == "reverse" else ()

    @property
    def carries_forward(self) -> bool:
        """Whether changes go from the sources to the target."""
        return self.direction in ("forward", "both")

    @property
    def carries_reverse(self) -> bool:
        """Whether changes go from the target to the sources."""
        return self.direction in ("reverse", "both")

    @property
    def origins(self) -> tuple[BranchId, ...]:
        """The branches whose changes it carries; of a two-way sync, those of its old schema."""
        return (self.target,) if self.direction == "reverse" else self.sources

    def far_ends(self, branch: BranchId) -> tuple[BranchId, ...]:
        """The branches that a change of one of its branches goes to."""
        if branch in self.sources:
            return (self.target,) if self.carries_forward else ()
        return self.sources if branch == self.target and self.carries_reverse else ()

    @property
    def behind(self) -> Address | None:
        """Where its source was when it last carried it, if it waits for a key since."""
        text = self.spec.get(BEHIND)
        return None if text is None else Address(bytes.fromhex(text))

    @property
    def spec_in_step(self) -> dict[str, Any]:
        """Its spec, as it is where it waits for nothing."""
        return {name: value for name, value in self.spec.items() if name != BEHIND}

    def with_ends(self, ends: tuple[str, str], name: str) -> SyncRow:
        """The same, by what users call its ends and itself."""
        known = self._with_ends
        if known.ends != ends or known.name != name:
            known = self.__dict__["_with_ends"] = replace(self, ends=ends, name=name)
        return known

    @cached_property
    def _with_ends(self) -> SyncRow:
        """What `with_ends` gave last; names seldom change."""
        return self

    @property
    def is_active(self) -> bool:
        """Whether it carries changes."""
        return self.state == ACTIVE


_ALL = PreparedStatement(_rows.every.order_by(_sync.c.name))
_MARKS = PreparedStatement(select(_sync.c.id, _sync.c[DIGEST]).order_by(_sync.c.name))
_ID = _rows.columns.index("id")
_MANY = 256
"""Of so many that changed it is not asked for each."""
_EPOCH = PreparedStatement(select(schema.meta.c.value).where(schema.meta.c.name == EPOCH))


@cache
def _by_ids(count: int) -> PreparedStatement:
    given: list[BindParameter[Any]] = [bindparam(f"n{at}") for at in range(count)]
    return PreparedStatement(_rows.every.where(_sync.c.id.in_(given)))


class Syncs:
    """Reads and writes them.  What writes takes the connection of a transaction.

    A change of the syncs raises the catalog's epoch with it: who did not see it cannot commit.
    """

    def __init__(self, queries: Queries):
        self._queries = queries
        self._known: tuple[str, Sequence[SyncRow]] | None = None
        self._index = SyncIndex()
        self._noted: tuple[str, set[SyncId]] | None = None
        """An epoch after that of the index, and which syncs alone are others then."""
        self._written: dict[SyncId, tuple[Any, ...]] = {}
        """Rows as this process added them, until it reads them."""
        self._lock = Lock()

    def all(self) -> Sequence[SyncRow]:
        """Every sync, by name; the same ones as long as the epoch is the same."""
        # The epoch first: rows that are newer than it are read again the next time.
        epoch, known = self._epoch(), self._known
        if known is None or known[0] != epoch:
            with self._lock:
                order = self._read_changed(epoch)
                known = epoch, [self._index.row(one) for one in order]
            self._known = known
        return known[1]

    def of_branches(self, branches: Iterable[BranchId], epoch: str = "") -> list[SyncRow]:
        """Those that lead from or to some branches, the oldest first.

        As of an epoch, for who has seen the catalog's.
        """
        return self._indexed(lambda index: index.of_branches(branches), epoch)

    def with_query(self, query: str, most: int, epoch: str = "") -> list[SyncRow]:
        """The oldest active syncs whose spec has this query; as of an epoch as `of_branches`."""
        return self._indexed(lambda index: index.with_query(query, most), epoch)

    def note_changed(self, syncs: Iterable[SyncId], epoch: str) -> None:
        """A commit of this process changed these, and raised the epoch to this."""
        with self._lock:
            before, outdated = self._noted or (self._index.epoch, set[SyncId]())
            if before and int(epoch) == int(before) + 1:
                found = {*outdated, *syncs}
                self._noted = (epoch, found) if len(found) <= _MANY else None

    def _epoch(self) -> str:
        return "".join(str(value) for (value,) in self._queries.run_prepared(_EPOCH, {}))

    def _indexed(self, find: Callable[[SyncIndex], list[SyncRow]], epoch: str) -> list[SyncRow]:
        """What is found in the index, as it is at an epoch or now."""
        epoch = epoch or self._epoch()
        with self._lock:
            if self._index.epoch != epoch:
                if self._noted is not None and self._noted[0] == epoch:
                    self._read_noted(epoch, self._noted[1])
                else:
                    self._read_changed(epoch)
            return find(self._index)

    def _read_noted(self, epoch: str, outdated: Collection[SyncId]) -> None:
        """Bring the index to an epoch at which only some are others."""
        added = {one: self._written.pop(one, None) for one in outdated}
        read = self._rows_of([one for one, row in added.items() if row is None])
        rows = [*(row for row in added.values() if row is not None), *read]
        self._index.replace(outdated, map(_marked, rows))
        self._index.epoch, self._noted = epoch, None

    def _read_changed(self, epoch: str) -> list[SyncId]:
        """Bring the index to an epoch, by the digests there are; the ids of all by their names."""
        self._written = {}
        marks = self._queries.run_prepared(_MARKS, {})
        changed = self._index.differing(marks)
        if len(changed) > _MANY:
            rows = self._queries.run_prepared(_ALL, {})
        else:
            rows = self._rows_of(changed)
        self._index.keep([one for one, _ in marks])
        self._index.replace(changed, map(_marked, rows))
        self._index.epoch, self._noted = epoch, None
        return [one for one, _ in marks if one in self._index]

    def _rows_of(self, ids: Collection[SyncId]) -> list[Any]:
        given = {f"n{at}": one for at, one in enumerate(ids)}
        return self._queries.run_prepared(_by_ids(len(given)), given) if given else []

    def by_ids(self, ids: Collection[SyncId]) -> list[SyncRow]:
        """Those of some ids that there are."""
        return [_of_values(tuple(row)) for row in self._rows_of(ids)]

    def add(self, connection: Connection, sync: SyncRow) -> None:
        """A new sync, active; `AlreadyExists` if the name is taken."""
        values = {
            "id": sync.id,
            "name": sync.name,
            "kind": sync.kind,
            "sources": json.dumps(list(sync.sources)),
            "target": sync.target,
            "direction": sync.direction,
            "frequency": sync.frequency,
            "state": ACTIVE,
            "reason": "",
            "spec": json.dumps(sync.spec),
            "time": sync.time,
            "guard": json.dumps(dict(sync.guard)),
        }
        self._known = None
        (number,) = _rows.next_numbers(connection, 1)
        sealed = _rows.seal({"number": number, **values})
        try:
            _rows.insert_sealed(connection, [sealed])
        except IntegrityError:
            raise AlreadyExists(f"there is a sync {sync.name!r} already") from None
        if len(self._written) >= _MANY:
            self._written = {}
        self._written[sync.id] = tuple(sealed[name] for name in (*_rows.columns, DIGEST))

    def set_state(self, connection: Connection, sync: SyncId, state: str, reason: str) -> None:
        """Change what a sync does, and say why."""
        values = {"state": state, "reason": reason}
        self._update(connection, sync, values)

    def state(self, connection: Connection, sync: SyncId) -> str | None:
        """The state of a sync, as a transaction sees it."""
        found = connection.execute(_rows.every.where(_sync.c.id == sync)).first()
        return None if found is None else str(_rows.named(found)["state"])

    def set_spec(self, connection: Connection, sync: SyncId, spec: Mapping[str, Any]) -> None:
        """Change what carries changes."""
        values = {"spec": json.dumps(spec)}
        self._update(connection, sync, values)

    def set_guard(self, connection: Connection, sync: SyncId, guard: Mapping[str, Any]) -> None:
        """Change what guards a sync."""
        values = {"guard": json.dumps(dict(guard))}
        self._update(connection, sync, values)

    def set_schedule(
        self, connection: Connection, sync: SyncId, frequency: str, guard: Mapping[str, Any]
    ) -> None:
        """Change when a sync runs and what guards it, and nothing else."""
        values = {"frequency": frequency, "guard": json.dumps(dict(guard))}
        self._update(connection, sync, values)

    def redefine(self, connection: Connection, sync: SyncRow) -> None:
        """Let a sync have another spec, sources, name, schedule and guard."""
        values = {
            "name": sync.name,
            "sources": json.dumps(list(sync.sources)),
            "frequency": sync.frequency,
            "spec": json.dumps(sync.spec),
            "guard": json.dumps(dict(sync.guard)),
        }
        self._update(connection, sync.id, values)

    def set_ends(
        self,
        connection: Connection,
        sync: SyncId,
        sources: tuple[BranchId, ...],
        target: BranchId,
        name: str,
    ) -> None:
        """Let a sync join other branches."""
        values = {"sources": json.dumps(list(sources)), "target": target, "name": name}
        self._update(connection, sync, values)

    def drop(self, connection: Connection, sync: SyncId) -> None:
        """Forget a sync."""
        self._known = None
        self._written.pop(sync, None)
        _rows.delete(connection, _sync.c.id == sync)

    def _update(self, connection: Connection, sync: SyncId, values: Mapping[str, Any]) -> None:
        self._known = None
        self._written.pop(sync, None)
        _rows.update(connection, [_sync.c.id == sync], values)


def end_ids(syncs: Iterable[SyncRow]) -> set[BranchId]:
    """The branches that syncs join."""
    return {end for sync in syncs for end in (*sync.sources, sync.target)}


class ActiveSyncs(tuple[SyncRow, ...]):
    """The syncs that carry changes, with what every commit asks about them at hand."""

    inactive: tuple[SyncRow, ...] = ()
    """Those that carry nothing for now, and whose targets are theirs nevertheless."""

    @classmethod
    def of(cls, rows: Iterable[SyncRow]) -> ActiveSyncs:
        """Those of some rows, each by what users call its ends; in the order they were made in."""
        known = sorted(rows, key=attrgetter("number"))
        found = cls([row for row in known if row.state == ACTIVE])
        if len(found) < len(known):
            found.inactive = tuple([row for row in known if row.state != ACTIVE])
        return found

    def replaced(self, gone: Collection[SyncId], new: Sequence[SyncRow]) -> ActiveSyncs:
        """The same without some, and with others; what is known of the rest stays known."""
        every = (*self, *self.inactive)
        found = self.of([*[row for row in every if row.id not in gone], *new])
        old = [row for row in every if row.id in gone]
        ends = {end for row in (*old, *new) for end in (*row.sources, row.target)}
        index = dict(self._by_branch)
        for end in ends:
            there = [row for row in index.get(end, ()) if row.id not in gone]
            there += [row for row in new if end in (*row.sources, row.target)]
            index[end] = sorted(there, key=lambda row: (not row.is_active, row.number))
        found._by_branch = index
        return found

    @cached_property
    def schema_syncs(self) -> tuple[SyncRow, ...]:
        """Those of schema changes."""
        return tuple([sync for sync in self if sync.kind == "schema_change"])

    def of_branch(self, branch: BranchId) -> Sequence[SyncRow]:
        """Those that a branch is in; the inactive ones last."""
        return self._by_branch.get(branch, ())

    def schema_syncs_of(self, branch: BranchId) -> list[SyncRow]:
        """Those of schema changes that a branch is in."""
        return [s for s in self.of_branch(branch) if s.is_active and s.kind == "schema_change"]

    def schema_syncs_from(self, branch: BranchId) -> list[tuple[SyncRow, BranchId]]:
        """Those of schema changes that a change of a branch goes along, and where to."""
        known = self._from.get(branch)
        if known is None:
            known = [(s, far) for s in self.schema_syncs_of(branch) for far in s.far_ends(branch)]
            self._from[branch] = known
        return known

    @cached_property
    def _from(self) -> dict[BranchId, list[tuple[SyncRow, BranchId]]]:
        """What `schema_syncs_from` has given."""
        return {}

    @cached_property
    def _by_branch(self) -> Mapping[BranchId, list[SyncRow]]:
        found: dict[BranchId, list[SyncRow]] = {}
        for sync in (*self, *self.inactive):
            for end in {*sync.sources, sync.target}:
                found.setdefault(end, []).append(sync)
        return found

    def schema_group(self, branch: BranchId) -> set[BranchId]:
        """The branches that a change of a branch may reach along them, itself among them."""
        found, waiting = {branch}, [branch]
        while waiting:
            for _, far in self.schema_syncs_from(waiting.pop()):
                if far not in found:
                    found.add(far)
                    waiting.append(far)
        return found

    def writer(self, branch: BranchId) -> SyncRow | None:
        """The sync that alone writes a branch, if there is one."""
        return next((s for s in self.of_branch(branch) if branch in s.written_branches), None)


def with_end_names(
    syncs: Iterable[SyncRow], names: Mapping[BranchId, str], hidden: Collection[BranchId]
) -> ActiveSyncs:
    """Syncs by what users call the branches at their ends.

    Users do not know `hidden` branches, each of which is between two syncs, but what is beyond.
    """
    known = []
    for chain in sync_chains(syncs, hidden):
        first, last = chain[0], chain[-1].target
        begin = first.sources[0] if first.sources else first.target
        ends = names.get(begin, "?"), names.get(last, "?")
        for row in chain:
            name = row.name if len(chain) == 1 else "/".join(ends)
            known.append(row.with_ends(ends, name))
    return ActiveSyncs.of(known)


def sync_chains(rows: Iterable[SyncRow], hidden: Collection[BranchId]) -> list[tuple[SyncRow, ...]]:
    """The rows of each sync from its source to its target, in the order of their first rows.

    There are several where schema changes compose; the branches between them are hidden.
    """
    every = list(rows)
    if not hidden:
        return [(row,) for row in every]
    targets = {row.target for row in every}
    links = {row.sources[0]: row for row in every if row.sources and row.sources[0] in hidden}
    chains = []
    for row in every:
        if row.sources and row.sources[0] in hidden and row.sources[0] in targets:
            continue
        chain = [row]
        while chain[-1].target in links:
            chain.append(links[chain[-1].target])
        chains.append(tuple(chain))
    return chains


def _marked(row: Sequence[Any]) -> tuple[SyncId, bytes, SyncRow]:
    return row[_ID], row[-1], _of_values(tuple(row))


@lru_cache(maxsize=4096)
def _of_values(values: tuple[Any, ...]) -> SyncRow:
    """A row of the catalog as a sync; its JSON is parsed once for as long as it stays the same."""
    given = _rows.named(values)
    sources, spec, guard = (json.loads(given.pop(name)) for name in ("sources", "spec", "guard"))
    return SyncRow(sources=tuple(sources), spec=spec, guard=guard, **given)
