"""The snapshot graph for a terminal: a line per snapshot, time going down."""

from __future__ import annotations

import shutil

from livingdb.render.labels import cut, display_width, moment, summary, sync_text
from livingdb.render.layout import slots_of
from livingdb.render.picture import Lane, Link, Node, SnapshotGraph

__all__ = ["to_text"]

GLYPHS = {
    "transaction": "●",
    "merge": "◆",
    "schema_change": "■",
    "derive": "▲",
    "propagate": "◌",
    "clone": "●",
    "start": "○",
}
_HOLLOW = {"transaction": "◦", "merge": "◇", "schema_change": "□", "derive": "△", "clone": "◦"}
"""Of snapshots whose rows were forgotten."""
_LEGEND = (
    "● transaction  ◆ merge  ■ schema change  ▲ derived  ◌ propagated  ○ start of a branch\n"
    "─ follows  ═ schema change, clone, derivation  ┄ propagation"
)
_PALETTE = (33, 166, 35, 133, 37, 136, 168, 69)
_STATES = {"active": 35, "held": 178, "detached": 245, "error": 167}
_LEAST_WORDS = 32
_MOST_NAME = 18


def to_text(graph: SnapshotGraph, width: int | None = None, color: bool = False) -> str:
    """The lines of a picture; see `SnapshotGraph.to_text`."""
    given = shutil.get_terminal_size((100, 24)).columns if width is None else width
    drawing = _Drawing(graph, max(given, 20), color)
    lines = [drawing.paint(cut(f"{graph.title}: {summary(graph)}", drawing.width), "1")]
    lines += [""] if graph.nodes else []
    lines += [drawing.line(row) for row in range(len(graph.nodes))]
    if graph.syncs:
        lines += ["", drawing.paint("Syncs", "1"), *drawing.syncs()]
    if graph.nodes:
        lines += ["", *(cut(line, drawing.width) for line in _LEGEND.splitlines())]
    if any(node.is_forgotten for node in graph.nodes):
        lines.append(cut("◦ ◇ □ △ rows forgotten", drawing.width))
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _lane_label(lane: Lane) -> str:
    return f"({lane.name or 'dropped'})" if lane.is_dropped else lane.name


class _Drawing:
    """Draws row by row: the lines of lanes that go on, then what leads to the row's node."""

    def __init__(self, graph: SnapshotGraph, width: int, color: bool):
        self.graph = graph
        self.width = width
        self.color = color
        self.incoming: dict[int, list[Link]] = {}
        for link in graph.links:
            self.incoming.setdefault(link.target, []).append(link)
        spans = self._spans()
        slots = slots_of(spans, gap=1)
        self.spans = spans
        count = max(slots.values(), default=0) + 1
        room = max(width - _LEAST_WORDS, 4)
        self.step = 3 if 3 * count <= width // 3 else 2 if 2 * count <= room else 1
        self.most = max(room // self.step, 1)
        # Lanes that find no room share the last slot.
        self.slots = {lane: min(slot, self.most - 1) for lane, slot in slots.items()}
        self.count = min(count, self.most)
        self.following = self._next_node_kinds()
        names = [display_width(cut(_lane_label(lane), _MOST_NAME)) for lane in graph.lanes]
        self.name_width = min(max(names, default=0), max(width // 5, 4), _MOST_NAME)
        self.alive: dict[int, int] = {}
        """Which lane's line is in a slot, as rows go by."""
        self.next_kinds: dict[int, str] = {}
        """What a lane's line leads to."""

    def _spans(self) -> dict[int, tuple[int, int]]:
        """The first and last row in which a lane has a node or something leads away from it."""
        spans: dict[int, tuple[int, int]] = {}
        for row, node in enumerate(self.graph.nodes):
            lanes = [node.lane]
            lanes += [self.graph.nodes[link.source].lane for link in self.incoming.get(row, ())]
            for lane in lanes:
                first, _ = spans.get(lane, (row, row))
                spans[lane] = (first, row)
        return spans

    def _next_node_kinds(self) -> dict[int, str]:
        """For each row, the kind of the next node on its lane; "" if there is none."""
        latest: dict[int, str] = {}
        found = {}
        for row in range(len(self.graph.nodes) - 1, -1, -1):
            node = self.graph.nodes[row]
            found[row] = latest.get(node.lane, "")
            latest[node.lane] = node.kind
        return found

    # --- one row -----------------------------------------------------------------------------

    def line(self, row: int) -> str:
        """The line of a node."""
        node = self.graph.nodes[row]
        drawn = self._draw_lanes(row, node)
        self._advance(row, node)
        room = self.width - self.step * self.count - 1
        return f"{drawn} {self._words(row, node, room)}"

    def _draw_lanes(self, row: int, node: Node) -> str:
        cells = [" "] * (self.step * self.count)
        paints = [""] * len(cells)
        for slot, lane in self.alive.items():
            cells[slot * self.step] = self._vertical(lane)
            paints[slot * self.step] = self._lane_paint(lane)
        here = self.slots[node.lane]
        for link in self.incoming.get(row, ()):
            lane = self.graph.nodes[link.source].lane
            if self.slots[lane] != here:
                self._draw_link(cells, paints, lane, here, link, row)
        glyph = GLYPHS.get(node.kind, "●")
        cells[here * self.step] = _HOLLOW.get(node.kind, glyph) if node.is_forgotten else glyph
        paints[here * self.step] = self._lane_paint(node.lane)
        return "".join(self.paint(c, p) for c, p in zip(cells, paints, strict=True))

    def _draw_link(
        self, cells: list[str], paints: list[str], lane: int, here: int, link: Link, row: int
    ) -> None:
        """A horizontal line from the slot of a lane to that of the node."""
        there = self.slots[lane]
        is_right = here > there
        paint = self._lane_paint(self.graph.nodes[link.target].lane)
        dash = "═" if link.is_block else "┄" if link.kind == "propagate" else "─"
        start, end = there * self.step, here * self.step
        for at in range(min(start, end) + 1, max(start, end)):
            is_line = at % self.step == 0 and at // self.step in self.alive
            cells[at] = ("╪" if link.is_block else "┼") if is_line else dash
            paints[at] = paint
        goes_on = self.spans[lane][1] > row
        corners = ("╞╘", "╡╛") if link.is_block else ("├╰", "┤╯")
        cells[start] = corners[0 if is_right else 1][0 if goes_on else 1]
        if self.step > 1:
            cells[end - 1 if is_right else end + 1] = "▸" if is_right else "◂"
            paints[end - 1 if is_right else end + 1] = paint

    def _vertical(self, lane: int) -> str:
        return "╎" if self.next_kinds.get(lane) == "propagate" else "│"

    def _advance(self, row: int, node: Node) -> None:
        """The lines that the next row has."""
        self.next_kinds[node.lane] = self.following[row]
        self.alive[self.slots[node.lane]] = node.lane
        for slot, lane in list(self.alive.items()):
            if self.spans[lane][1] <= row:
                del self.alive[slot]

    # --- words -------------------------------------------------------------------------------

    def _words(self, row: int, node: Node, room: int) -> str:
        lane = self.graph.lanes[node.lane]
        name = cut(_lane_label(lane), self.name_width)
        name += " " * (self.name_width - display_width(name))
        time = moment(node.time).strftime("%Y-%m-%d %H:%M")
        marks = [f"[{cut(head, _MOST_NAME)}]" for head in node.heads]
        marks += [f"#{cut(tag, _MOST_NAME)}" for tag in node.tags]
        told = " ".join([*marks, node.title, *self._remarks(row, node)])
        if not node.is_start and node.author:
            told += f" — {node.author}"
        left = room - 7 - 1 - self.name_width - 1
        with_time = left >= 40
        words = cut(told, left - (len(time) + 1 if with_time else 0))
        identifier = "       " if node.is_start else node.id[:7]
        shown = f"{self.paint(identifier, '2')} {self.paint(name, self._lane_paint(node.lane))} "
        return shown + (f"{self.paint(time, '2')} " if with_time else "") + words

    def _remarks(self, row: int, node: Node) -> list[str]:
        """What the lines do not show: older parents, and those that are not shown."""
        found = []
        if node.kind == "merge":
            others = [k.source for k in self.incoming.get(row, ()) if not k.is_source][1:]
            found += [f"(of {self.graph.nodes[other].id[:7]})" for other in others]
        if node.hidden:
            found.append("(older ones are not shown)")
        return found

    def syncs(self) -> list[str]:
        """A line for each sync."""
        lines = []
        for sync in self.graph.syncs:
            names = ", ".join(self.graph.lanes[lane].name for lane in sync.sources)
            ends = f"{names} {sync.arrow} {self.graph.lanes[sync.target].name}"
            text = sync_text(sync) + ("" if sync.state != "active" else " · active")
            line = cut(f"  {ends}: {text}", self.width - 2)
            lines.append("  " + self.paint(line, f"38;5;{_STATES.get(sync.state, 245)}"))
        return lines

    def _lane_paint(self, lane: int) -> str:
        return f"38;5;{_PALETTE[lane % len(_PALETTE)]}"

    def paint(self, text: str, code: str) -> str:
        """Text in a colour, if there are colours."""
        return f"\x1b[{code}m{text}\x1b[0m" if self.color and code and text.strip() else text
