"""The snapshot graph as a Mermaid flowchart: a subgraph for each branch, time going right."""

from __future__ import annotations

from collections.abc import Iterator

from livingdb.render.labels import cut, sync_text
from livingdb.render.palette import LIGHT, MERMAID_STATES
from livingdb.render.picture import Lane, Link, Node, SnapshotGraph, SyncMark

__all__ = ["escape_label", "to_mermaid"]

_SHAPES = {
    "transaction": ('("', '")'),
    "merge": ('{{"', '"}}'),
    "schema_change": ('["', '"]'),
    "clone": ('("', '")'),
    "derive": ('[["', '"]]'),
    "propagate": ('(["', '"])'),
    "start": ('(("', '"))'),
}
_LABEL_WIDTH = 40
_CLASSES = (
    "classDef start fill:transparent,stroke-dasharray:2 2",
    "classDef propagate stroke-dasharray:4 3",
    "classDef head stroke-width:3px",
)


def to_mermaid(graph: SnapshotGraph) -> str:
    """The flowchart; see `SnapshotGraph.to_mermaid`."""
    lines = [
        "flowchart LR",
        *_lanes(graph),
        *_links(graph),
        *_syncs(graph),
        *(f"  {line}" for line in _CLASSES),
        *(f"  style b{at} fill:transparent,stroke:{_color(at)}" for at in range(len(graph.lanes))),
    ]
    return "\n".join(lines) + "\n"


def escape_label(text: str) -> str:
    """Text for a label in quotes: whatever Mermaid or HTML would read as its own is a number."""
    return "".join(
        character if character.isalnum() or character in " .,:/·→←↔⇒…()+" else f"#{ord(character)};"
        for character in text
    )


def _color(lane: int) -> str:
    return LIGHT.lanes[lane % len(LIGHT.lanes)]


def _lanes(graph: SnapshotGraph) -> Iterator[str]:
    members: list[list[tuple[int, Node]]] = [[] for _ in graph.lanes]
    for at, node in enumerate(graph.nodes):
        members[node.lane].append((at, node))
    for place, lane in enumerate(graph.lanes):
        yield f'  subgraph b{place}["{escape_label(_lane_label(lane))}"]'
        yield "    direction LR"
        for at, node in members[place]:
            yield f"    {_node(at, node)}"
        yield "  end"


def _lane_label(lane: Lane) -> str:
    return cut(f"{lane.name} (dropped)" if lane.is_dropped else lane.name, _LABEL_WIDTH)


def _node(at: int, node: Node) -> str:
    opening, closing = _SHAPES.get(node.kind, _SHAPES["transaction"])
    parts = [] if node.is_start else [node.id[:7]]
    parts += [escape_label(cut(node.title, _LABEL_WIDTH))]
    parts += [escape_label(cut(f"tag {tag}", _LABEL_WIDTH)) for tag in node.tags]
    if node.hidden:
        parts.insert(0, "…")
    label = "<br/>".join(part for part in parts if part)
    kind = "start" if node.is_start else "propagate" if node.kind == "propagate" else ""
    named = "head" if node.heads and not kind else kind
    return f"n{at}{opening}{label}{closing}" + (f":::{named}" if named else "")


def _links(graph: SnapshotGraph) -> Iterator[str]:
    for link in graph.links:
        yield f"  n{link.source} {_arrow(link)} n{link.target}"


def _arrow(link: Link) -> str:
    return "==>" if link.is_block else "-.->" if link.kind == "propagate" else "-->"


def _syncs(graph: SnapshotGraph) -> Iterator[str]:
    """Arrows between the newest nodes of lanes: those between subgraphs are cut short."""
    number = len(graph.links)
    newest = {node.lane: at for at, node in enumerate(graph.nodes)}
    for sync in graph.syncs:
        for source in sync.sources:
            yield f"  {_sync(sync, newest[source], newest[sync.target])}"
            color = MERMAID_STATES.get(sync.state, MERMAID_STATES["detached"])
            yield f"  linkStyle {number} stroke:{color},stroke-width:4px"
            number += 1


def _sync(sync: SyncMark, source: int, target: int) -> str:
    label = escape_label(cut(sync_text(sync), 2 * _LABEL_WIDTH))
    first, last = f"n{source}", f"n{target}"
    if sync.direction == "reverse":
        first, last = last, first
    opening = "<==" if sync.direction == "both" else "=="
    return f'{first} {opening} "{label}" ==> {last}'
