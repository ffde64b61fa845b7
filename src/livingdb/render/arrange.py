"""From what is to be drawn to a picture: nodes in their places, and the links between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from livingdb.catalog.snapshots import SnapshotRow
from livingdb.render.layout import columns_of, lane_order
from livingdb.render.picture import START, Details, Lane, Link, Node, SnapshotGraph
from livingdb.render.sync_lanes import DrawnSync

__all__ = ["Item", "arrange_graph"]


@dataclass(frozen=True)
class Item:
    """A snapshot or the start of a branch; `before` and `sources` are numbers of snapshots."""

    row: SnapshotRow
    lane: int
    kind: str
    operation: str = ""
    before: tuple[int, ...] = ()
    sources: tuple[int, ...] = ()
    heads: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    start_time: int | None = None
    """When a branch started."""
    start_author: str = ""
    start_message: str = ""
    is_forgotten: bool = False

    @property
    def time(self) -> int:
        """When it was made."""
        return self.row.time if self.start_time is None else self.start_time


def arrange_graph(
    title: str,
    items: Sequence[Item],
    names: Sequence[str],
    dropped: int,
    syncs: Sequence[DrawnSync],
    details: Details | None = None,
) -> SnapshotGraph:
    """The picture of items, oldest first; lanes from `dropped` on are of dropped branches."""
    links, cuts = _links(items, syncs, names)
    before: list[list[int]] = [[] for _ in items]
    for link in links:
        before[link.target].append(link.source)
    columns = columns_of([item.lane for item in items], before)
    places = _places(items, before)
    nodes = tuple(
        _node(item, places[item.lane], column, hidden)
        for item, column, hidden in zip(items, columns, cuts, strict=True)
    )
    lanes = tuple(Lane(names[lane], lane >= dropped) for lane in places)
    shown = {names[lane]: place for lane, place in places.items() if lane < dropped}
    marks = tuple(standing.mark(shown) for standing in syncs if standing.is_shown(shown))
    kept = {at: place for place, at in enumerate(_drawn_sync_positions(syncs, shown))}
    links = [replace(k, sync=None if k.sync is None else kept.get(k.sync)) for k in links]
    return SnapshotGraph(title, lanes, nodes, tuple(links), marks, details)


def _drawn_sync_positions(syncs: Sequence[DrawnSync], shown: Mapping[str, int]) -> list[int]:
    return [at for at, standing in enumerate(syncs) if standing.is_shown(shown)]


def _node(item: Item, lane: int, column: int, hidden: int) -> Node:
    row = item.row
    identifier = row.address.hex()
    if item.kind == START:
        message = f"{item.operation} at {identifier[:7]}"
        if item.start_message:
            message = f"{message}: {item.start_message}"
        return Node(
            identifier,
            row.sequence,
            lane,
            column,
            START,
            item.time,
            item.start_author,
            message,
            item.operation,
            item.heads,
            (),
            hidden,
        )
    return Node(
        identifier,
        row.sequence,
        lane,
        column,
        item.kind,
        row.time,
        row.author,
        row.message,
        item.operation,
        item.heads,
        item.tags,
        hidden,
        item.is_forgotten,
    )


def _links(
    items: Sequence[Item], syncs: Sequence[DrawnSync], names: Sequence[str]
) -> tuple[list[Link], list[int]]:
    """The links, and for each item how many parents are not shown."""
    at = {item.row.sequence: place for place, item in enumerate(items) if item.kind != START}
    starts = {
        (item.lane, item.row.sequence): place
        for place, item in enumerate(items)
        if item.kind == START
    }
    links: list[Link] = []
    cuts = []
    for place, item in enumerate(items):
        sync = _starting_sync(item, syncs, names)
        is_start = item.kind == START
        kind = "clone" if is_start else item.kind
        hidden = 0
        for number in item.before:
            source = at.get(number) if is_start else starts.get((item.lane, number), at.get(number))
            if source is None:
                hidden += 1
            else:
                links.append(Link(source, place, kind, sync=sync))
        for number in item.sources:
            if number in at:
                links.append(Link(at[number], place, kind, True, sync))
        cuts.append(hidden)
    return links, cuts


def _starting_sync(item: Item, syncs: Sequence[DrawnSync], names: Sequence[str]) -> int | None:
    if item.kind not in ("derive", "schema_change"):
        return None
    for at, standing in enumerate(syncs):
        if standing.is_started_by(item.kind, names[item.lane], item.details, item.before):
            return at
    return None


def _places(items: Sequence[Item], before: Sequence[Sequence[int]]) -> dict[int, int]:
    """For each lane with something on it, its place from the top."""
    lanes: dict[int, int] = {}
    parents: list[int | None] = []
    starts: list[int] = []
    for place, item in enumerate(items):
        if item.lane in lanes:
            continue
        lanes[item.lane] = len(lanes)
        others = [items[source].lane for source in before[place] if items[source].lane in lanes]
        parents.append(next((lanes[lane] for lane in others if lane != item.lane), None))
        starts.append(place)
    by_number = list(lanes)
    order = lane_order(parents, starts)
    return {by_number[lane]: place for place, lane in enumerate(order)}
