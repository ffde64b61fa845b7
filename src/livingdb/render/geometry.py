"""The picture in numbers: points, paths and tracks in pixels, with time going right."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass

from livingdb.render.labels import cut, display_width, moment
from livingdb.render.layout import slots_of
from livingdb.render.picture import Link, SnapshotGraph, SyncMark

__all__ = ["Geometry", "Route", "Tick", "is_inside", "sync_tracks", "trunks_of"]

LANE_HEIGHT = 66
TOP = 78
RADIUS = 7
TRACK_WIDTH = 22
_WIDE, _NARROW = 92, 34
_MOST_WIDE = 90
_LETTER = 8.8


@dataclass(frozen=True)
class Tick:
    """A line across all lanes where a new day, hour or minute begins."""

    x: float
    text: str


@dataclass(frozen=True)
class Route:
    """A way from one node to another: a path, and where it begins and ends."""

    path: str
    begin: tuple[float, float]
    end: tuple[float, float]
    joins: bool = False
    """Whether it ends on the line of the lane, which leads on."""


class Geometry:
    """Where the nodes and links of a picture are."""

    def __init__(self, graph: SnapshotGraph):
        self.graph = graph
        self.columns = max((node.column for node in graph.nodes), default=0) + 1
        self.has_labels = self.columns <= _MOST_WIDE
        self.column_width = _WIDE if self.has_labels else _NARROW
        names = [display_width(cut(lane.name, 24)) + 7 * lane.is_dropped for lane in graph.lanes]
        self.left = 44 + _LETTER * max([7, *names])
        self.tracks = sync_tracks(graph)
        self.tracks_left = self.left + self.columns * self.column_width + 6
        self.labels_left = self.tracks_left + TRACK_WIDTH * (max(self.tracks, default=-1) + 1) + 8
        self.on_lane: list[list[int]] = [[] for _ in graph.lanes]
        for node in graph.nodes:
            self.on_lane[node.lane].append(node.column)
        # The columns that a lane's own line comes from and leads to, for each node.
        self.line_from = [self.columns] * len(graph.nodes)
        self.line_to = [-1] * len(graph.nodes)
        for link in graph.links:
            source, target = graph.nodes[link.source], graph.nodes[link.target]
            if source.lane == target.lane:
                self.line_from[link.target] = min(self.line_from[link.target], source.column)
                self.line_to[link.source] = max(self.line_to[link.source], target.column)

    def x(self, column: int) -> float:
        """The middle of a column."""
        return self.left + (column + 0.5) * self.column_width

    def y(self, lane: int) -> float:
        """The middle of a lane."""
        return TOP + (lane + 0.5) * LANE_HEIGHT

    @property
    def bottom(self) -> float:
        """Below all lanes."""
        return TOP + len(self.graph.lanes) * LANE_HEIGHT

    def is_free(self, lane: int, after: int, before: int) -> bool:
        """Whether a lane has no node in the columns between two."""
        columns = self.on_lane[lane]
        return bisect_right(columns, after) == bisect_left(columns, before)

    def route(self, link: Link) -> Route:
        """The way of a link; it leaves and arrives level."""
        source, target = self.graph.nodes[link.source], self.graph.nodes[link.target]
        head = 9 if link.is_block else 5
        x1, y1 = self.x(source.column) + RADIUS + 1, self.y(source.lane)
        x2, y2 = self.x(target.column) - RADIUS - 1 - head, self.y(target.lane)
        begin, end = (x1, y1), (x2, y2)
        if source.lane == target.lane:
            if self.is_free(source.lane, source.column, target.column):
                return Route(f"M{x1:g} {y1:g}H{x2:g}", begin, end)
            bow = y1 - 26
            first, last = x1 + 18, x2 - 18
            path = f"M{x1:g} {y1:g}C{first:g} {y1:g} {x1:g} {bow:g} {first + 6:g} {bow:g}"
            path += f"H{last - 6:g}C{x2:g} {bow:g} {last:g} {y2:g} {x2:g} {y2:g}"
            return Route(path, begin, end)
        bend = self.column_width - 2 * RADIUS - 4
        joins = leaves = False
        first, last = x1, x2
        if self.is_free(target.lane, source.column, target.column):
            last = min(x1 + bend, x2)
            joins = last < x2 and self.line_from[link.target] <= source.column
        elif self.is_free(source.lane, source.column, target.column):
            first = max(x2 - bend, x1)
            leaves = first > x1 and self.line_to[link.source] >= target.column
        middle = (first + last) / 2
        path = f"M{first:g} {y1:g}" if leaves else f"M{x1:g} {y1:g}H{first:g}"
        path += f"C{middle:g} {y1:g} {middle:g} {y2:g} {last:g} {y2:g}"
        return Route(path if joins else f"{path}H{x2:g}", begin, end, joins)

    def ticks(self) -> list[Tick]:
        """Times along the top, not nearer to each other than they are long."""
        if not self.graph.nodes:
            return []
        times = [node.time for node in self.graph.nodes]
        span = (times[-1] - times[0]) / 1e6
        form = "%Y-%m-%d" if span > 3 * 86_400 else "%m-%d %H:%M" if span > 3600 else "%H:%M:%S"
        found: list[Tick] = []
        latest = ""
        for node in self.graph.nodes:
            text = moment(node.time).strftime(form)
            x = self.x(node.column)
            if text > latest and (not found or x - found[-1].x > 84):
                found.append(Tick(x, text))
                latest = text
        return found


def sync_tracks(graph: SnapshotGraph) -> list[int]:
    """For each sync, which of the tracks beside the heads it runs on, so that none overlap.

    Those that share a trunk share a track.
    """
    trunks = trunks_of(graph)
    spans: dict[int, tuple[int, int]] = {}
    for trunk, sync in zip(trunks, graph.syncs, strict=True):
        lanes = (*sync.sources, sync.target, *spans.get(trunk, ()))
        spans[trunk] = (min(lanes), max(lanes))
    slots = slots_of(spans)
    return [slots[trunk] for trunk in trunks]


def trunks_of(graph: SnapshotGraph) -> list[int]:
    """For each sync, a number that those have in common which are one line with several ends."""
    numbers: dict[object, int] = {}
    return [numbers.setdefault(trunk, len(numbers)) for trunk in map(_trunk, graph.syncs)]


def _trunk(sync: SyncMark) -> object:
    """What the syncs of a trunk have in common."""
    is_shared = sync.direction == "forward" and len(sync.sources) == 1
    return (sync.sources, sync.state) if is_shared else sync


def is_inside(graph: SnapshotGraph, sync: SyncMark) -> bool:
    """Whether another sync of the same trunk goes on further the same way."""
    source, trunk = sync.sources[0], _trunk(sync)
    reach = sync.target - source
    return any(
        _trunk(other) == trunk and (other.target - source) * reach > reach * reach
        for other in graph.syncs
    )
