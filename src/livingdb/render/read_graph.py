"""Reads the picture of a database's snapshot graph."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import accumulate, islice

from livingdb.access.acting import acting
from livingdb.catalog.branch_log import Movement
from livingdb.catalog.branches import BranchRow
from livingdb.catalog.ids import BranchId
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.chunks.address import Address
from livingdb.database.database import Database
from livingdb.errors import InvalidData, NotFound
from livingdb.graph.names import is_hidden
from livingdb.graph.refs import parse_time
from livingdb.graph.snapshot import Edge
from livingdb.render.arrange import Item, arrange_graph
from livingdb.render.page_details import SnapshotDetails
from livingdb.render.picture import START, SnapshotGraph
from livingdb.render.sync_lanes import drawn_syncs

__all__ = ["read_graph"]

_PLAIN = "transaction"


def read_graph(
    database: Database,
    branches: Iterable[object] | None = None,
    limit: int | None = None,
    since: datetime | str | None = None,
) -> SnapshotGraph:
    """The graph of a database: of some branches only, the newest snapshots, or since a time."""
    if limit is not None and limit < 0:
        raise InvalidData(f"limit={limit}: how many snapshots to show is 0 or more")
    if isinstance(branches, str):
        branches = [branches]
    elif branches is not None and not isinstance(branches, Iterable):
        raise InvalidData(f"branches={branches!r}: a list of names, or None for all")
    wanted = None if branches is None else {str(name) for name in branches}
    reading = _GraphReader(database, wanted, limit, since)
    return arrange_graph(
        _title(database),
        reading.items,
        reading.names,
        reading.first_dropped_lane,
        drawn_syncs(database),
        SnapshotDetails(database),
    )


def _title(database: Database) -> str:
    """What the database is called; to a user who acts here it is not told where that is."""
    name = database.name
    is_whole = acting(database._whole_graph) is None
    return name if is_whole else name.partition("?")[0].rstrip("/").rpartition("/")[2]


class _GraphReader:
    """What of the catalog and the records a picture needs."""

    def __init__(
        self,
        database: Database,
        wanted: set[str] | None,
        limit: int | None,
        since: datetime | str | None,
    ):
        self.graph = database._graph
        # The oldest branch comes first, which is the first one there was.
        self.branches = sorted(self.graph.branches.all(), key=lambda branch: branch.number)
        known = {branch.name for branch in self.branches if not is_hidden(branch.name)}
        unknown = sorted((wanted or set()) - known)
        if unknown:
            there = ", ".join(sorted(known)[:12])
            raise NotFound(f"there is no branch {unknown[0]!r}; there are: {there}")
        self.wanted = wanted
        self.limit = limit
        self.since = None if since is None else _microseconds(since)

    @cached_property
    def logs(self) -> dict[BranchId, list[Movement]]:
        """How each branch moved, newest first."""
        return {branch.id: self.graph.movements.of(branch) for branch in self.branches}

    @cached_property
    def rows(self) -> dict[int, SnapshotRow]:
        """Every snapshot that may be shown, by number."""
        everything = self.graph.newest_snapshots()
        if self.limit is not None and self.wanted is None:
            unseen = sum(len(self.logs[b.id]) for b in self.branches if is_hidden(b.name))
            everything = islice(everything, self.limit + unseen)
        return {row.sequence: row for row in everything}

    @cached_property
    def lane_owners(self) -> LaneOwners:
        """The lane of each of them."""
        return assign_lanes(self.rows, self.branches, self.logs)

    @cached_property
    def names(self) -> list[str]:
        """The names of all lanes; of dropped branches, what merges called them."""
        called = {
            identifier: name
            for row in self.rows.values()
            if row.kind == "merge"
            for name, identifier in self.edge(row).sources.items()
        }
        lasts = [self.rows[number].address.hex() for number in self.lane_owners.last_snapshots]
        return [*(branch.name for branch in self.branches), *(called.get(i, "") for i in lasts)]

    @property
    def first_dropped_lane(self) -> int:
        """The first lane of a dropped branch."""
        return self.lane_owners.first_dropped_lane

    def edge(self, row: SnapshotRow) -> Edge:
        """How a snapshot came to be."""
        return self.graph.record(row.address).edge

    @cached_property
    def items(self) -> list[Item]:
        """What to draw, oldest first."""
        shown = self._shown_snapshots()
        starts = list(self._starts(set(shown)))
        told = {name for start in starts for name in start.heads}
        untold = [b for b in self.branches if not is_hidden(b.name) and b.head_name not in told]
        heads = _names_by_snapshot((branch.head, branch.head_name) for branch in untold)
        tags = _names_by_snapshot((tag.snapshot, tag.name) for tag in self.graph.catalog.tags.all())
        items = [self._item(self.rows[number], heads, tags) for number in shown]
        return _insert_starts(items, starts)

    @cached_property
    def _operations(self) -> dict[int, str]:
        """What the logs say was done, by snapshot; the first to say it is the last one here."""
        logs = [self.logs[branch.id] for branch in self.branches[::-1]]
        return {movement.snapshot: movement.operation for log in logs for movement in log}

    def _shown_snapshots(self) -> list[int]:
        lanes, names = self.lane_owners.lanes, self.names
        chosen: list[int] = []
        for number in sorted(self.rows, reverse=True):
            if self.limit is not None and len(chosen) >= self.limit:
                break
            if self.since is not None and self.rows[number].time < self.since:
                continue
            name = names[lanes[number]]
            is_wanted = self.wanted is None or (
                name in self.wanted and lanes[number] < self.lane_owners.first_dropped_lane
            )
            if is_wanted and not is_hidden(name):
                chosen.append(number)
        return chosen[::-1]

    def _item(
        self, row: SnapshotRow, heads: dict[int, list[str]], tags: dict[int, list[str]]
    ) -> Item:
        operation = self._operations.get(row.sequence)
        is_told = row.kind == _PLAIN and (operation or row.message)
        edge = None if is_told else self.edge(row)
        return Item(
            row,
            self.lane_owners.lanes[row.sequence],
            row.kind,
            operation or "" if edge is None else edge.operation,
            self._visible_origins(row.parents, False),
            () if row.kind == "merge" or edge is None else self._sources(edge),
            tuple(heads.get(row.sequence, ())),
            tuple(tags.get(row.sequence, ())),
            {} if edge is None else edge.details,
            is_forgotten=self.graph.forgotten.find(row) is not None,
        )

    def _sources(self, edge: Edge) -> tuple[int, ...]:
        return self._visible_origins(self._source_numbers(edge), True)

    def _visible_origins(self, numbers: Sequence[int], by_source: bool) -> tuple[int, ...]:
        """Snapshots, or what those were made from that are on branches no user made."""
        found: list[int] = []
        waiting, seen = list(numbers)[::-1], set(numbers)
        while waiting:
            number = waiting.pop()
            if number not in self.rows or not is_hidden(self.names[self.lane_owners.lanes[number]]):
                found.append(number)
                continue
            row = self.rows[number]
            behind = self._source_numbers(self.edge(row)) if by_source else row.parents
            fresh = [n for n in behind if n not in seen]
            seen.update(fresh)
            waiting.extend(fresh[::-1])
        return tuple(found)

    def _source_numbers(self, edge: Edge) -> list[int]:
        """The numbers of the snapshots an edge names as its sources."""
        addresses = [Address(bytes.fromhex(text)) for text in edge.sources.values()]
        rows = [self.graph.snapshots.find(address) for address in addresses]
        return [row.sequence for row in rows if row is not None]

    def _starts(self, shown: set[int]) -> Iterator[Item]:
        """The places where branches start on snapshots of other lanes."""
        with_own = {self.lane_owners.lanes[number] for number in shown}
        for lane, branch in enumerate(self.branches):
            log = self.logs[branch.id]
            if is_hidden(branch.name) or not log or branch.origin is None:
                continue
            if self.wanted is not None and branch.name not in self.wanted:
                continue
            row = self.rows.get(log[-1].snapshot)
            if row is None or self.lane_owners.lanes[row.sequence] == lane:
                continue
            is_only_wanted = self.wanted is not None and lane not in with_own
            if row.sequence in shown or (is_only_wanted and self.limit is None):
                yield _start(row, lane, branch, log[-1])


def _start(row: SnapshotRow, lane: int, branch: BranchRow, first: Movement) -> Item:
    how = "clone" if first.operation == "clone" else "keep"
    heads = (branch.head_name,) if branch.head == row.sequence else ()
    why = (first.author, first.message)
    return Item(row, lane, START, how, (row.sequence,), (), heads, (), {}, branch.time, *why)


def _insert_starts(items: list[Item], starts: list[Item]) -> list[Item]:
    """Starts among snapshots: at their time, but after what they stand on, before their own."""
    if not starts:
        return items
    position = {item.row.sequence: at for at, item in enumerate(items)}
    own: dict[int, list[int]] = {}
    for at, item in enumerate(items):
        own.setdefault(item.lane, []).append(at)
    times = list(accumulate((item.time for item in items), max))
    places: dict[int, list[Item]] = {}
    for start in sorted(starts, key=lambda item: item.time):
        stands_on = position.get(start.row.sequence, -1)
        # A branch that was reset may own snapshots that are older than where it started.
        later = [at for at in own.get(start.lane, ()) if at > stands_on]
        at = max(bisect_right(times, start.time), stands_on + 1)
        places.setdefault(min(at, *later[:1], len(items)), []).append(start)
    found: list[Item] = []
    for at in range(len(items) + 1):
        found.extend(places.get(at, []))
        found.extend(items[at : at + 1])
    return found


def _names_by_snapshot(pairs: Iterable[tuple[int, str]]) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for number, name in pairs:
        found.setdefault(number, []).append(name)
    return found


def _microseconds(since: datetime | str) -> int:
    return parse_time(since if isinstance(since, str) else since.isoformat())


@dataclass(frozen=True)
class LaneOwners:
    """For each snapshot's number its lane; from `first_dropped_lane` on, of dropped branches.

    `last_snapshots` has the newest snapshot of each of those.
    """

    lanes: Mapping[int, int]
    first_dropped_lane: int
    last_snapshots: tuple[int, ...]


def assign_lanes(
    rows: Mapping[int, SnapshotRow],
    branches: Sequence[BranchRow],
    logs: Mapping[BranchId, Iterable[Movement]],
) -> LaneOwners:
    """The lane of each snapshot: the place of its branch, or one after all of them."""
    lanes = _first_lanes(rows, branches, logs)
    for lane, branch in enumerate(branches):
        _fill_lane(rows, lanes, branch.head, lane)
    lasts: list[int] = []
    for number in sorted(rows, reverse=True):
        if number not in lanes:
            _fill_lane(rows, lanes, number, len(branches) + len(lasts))
            lasts.append(number)
    return LaneOwners(lanes, len(branches), tuple(lasts))


def _first_lanes(
    rows: Mapping[int, SnapshotRow],
    branches: Sequence[BranchRow],
    logs: Mapping[BranchId, Iterable[Movement]],
) -> dict[int, int]:
    first: dict[int, tuple[int, int, int]] = {}
    for lane, branch in enumerate(branches):
        for movement in logs[branch.id]:
            if movement.snapshot in rows:
                claim = (movement.time, branch.number, lane)
                first[movement.snapshot] = min(first.get(movement.snapshot, claim), claim)
    return {number: lane for number, (_, _, lane) in first.items()}


def _fill_lane(
    rows: Mapping[int, SnapshotRow], lanes: dict[int, int], number: int | None, lane: int
) -> None:
    """Give a lane a snapshot and what it leads back to, until another lane's begins."""
    while number is not None and number in rows and lanes.get(number, lane) == lane:
        lanes[number] = lane
        number = rows[number].first
