"""The snapshot graph as a stand-alone SVG image."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from livingdb.render.geometry import LANE_HEIGHT, RADIUS, TOP, TRACK_WIDTH, Geometry, is_inside
from livingdb.render.labels import KIND_TITLES, cut, moment, one_line, summary, sync_text
from livingdb.render.palette import DARK, LIGHT, Scheme
from livingdb.render.picture import Link, Node, SnapshotGraph, SyncMark

__all__ = ["to_svg"]

_LABEL = 13
_LEGEND = ("transaction", "merge", "schema_change", "derive", "propagate", "start")
_STATES = ("active", "held", "detached", "error")
_FONT = "ui-sans-serif,system-ui,-apple-system,'Segoe UI','Noto Sans',sans-serif"
_STYLE = (
    f"text{{font:12px {_FONT}}} .small{{font-size:10.5px}}.name{{font-weight:600;font-size:13px}}"
    ".title{font-size:16px;font-weight:600}.mid{text-anchor:middle}.thin{stroke-width:1}"
    ".solid{fill:none;stroke-width:2}.dash{fill:none;stroke-width:1.6;stroke-dasharray:5 4}"
    ".rim{fill:none;stroke-width:9}.core{fill:none;stroke-width:6}.node{stroke-width:2}"
    ".halo{fill-opacity:.18;stroke:none}.shade{fill-opacity:.22;stroke-width:1.2}"
    ".core.tint{stroke-opacity:.55}"
)


def to_svg(graph: SnapshotGraph) -> str:
    """The image; see `SnapshotGraph.to_svg`."""
    place = Geometry(graph)
    longest = max(
        (len(line) for sync in graph.syncs for line in _sync_lines(graph, sync)), default=0
    )
    width = max(place.labels_left + 6.2 * longest + 24, 760)
    height = place.bottom + 64
    title, told = escape(one_line(graph.title)), escape(summary(graph))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" version="1.1" width="{width:.0f}" '
        f'height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}" role="img" '
        f'class="livingdb-graph" aria-label="{title}: {told}">',
        f"<title>{title}</title><desc>{told}</desc>",
        f"<style>{_scope_rules(_STYLE)}{_colors(LIGHT)}",
        f"@media (prefers-color-scheme:dark){{{_colors(DARK)}}}</style>",
        '<rect class="f-paper" width="100%" height="100%"/>',
        f'<text class="title f-ink" x="20" y="30">{escape(cut(graph.title, 80))}</text>',
        f'<text class="small f-soft" x="20" y="48">{told}</text>',
        *_lanes(place, width),
        *_ticks(place),
        *(part for link in graph.links for part in _link(place, link)),
        *(part for node in graph.nodes for part in _node(place, node)),
        *_syncs(place),
        *_legend(place),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _colors(scheme: Scheme) -> str:
    named = {
        **scheme.colors,
        **{f"l{at}": color for at, color in enumerate(scheme.lanes)},
    }
    return _scope_rules(
        " ".join(
            f".f-{name}{{fill:{color}}} .s-{name}{{stroke:{color}}}"
            for name, color in named.items()
        )
    )


def _scope_rules(rules: str) -> str:
    """Rules that hold in this image alone, wherever it is put."""
    return "".join(f".livingdb-graph {rule}}}" for rule in rules.split("}") if rule.strip())


def _lanes(place: Geometry, width: float) -> Iterator[str]:
    for at, lane in enumerate(place.graph.lanes):
        y = place.y(at)
        if at % 2 == 0:
            top = y - LANE_HEIGHT / 2
            yield f'<rect class="f-band" y="{top:g}" width="{width:.0f}" height="{LANE_HEIGHT}"/>'
        ends = f'x1="{place.left:g}" x2="{place.labels_left - 6:g}" y1="{y:g}" y2="{y:g}"'
        yield f'<line class="thin s-line" {ends}/>'
        color = _lane(at)
        yield f'<rect class="f-{color}" x="20" y="{y - 8:g}" width="4" height="16" rx="2"/>'
        name = cut(lane.name or "dropped", 24)
        soft = "f-soft" if lane.is_dropped else "f-ink"
        below = (
            ' <tspan class="small f-soft">dropped</tspan>' if lane.is_dropped and lane.name else ""
        )
        yield f'<text class="name {soft}" x="32" y="{y + 4:g}">{escape(name)}{below}</text>'


def _lane(lane: int) -> str:
    return f"l{lane % len(LIGHT.lanes)}"


def _ticks(place: Geometry) -> Iterator[str]:
    for tick in place.ticks():
        yield (
            f'<line class="thin s-line" x1="{tick.x:g}" x2="{tick.x:g}" y1="{TOP - 6}" '
            f'y2="{place.bottom:g}" stroke-opacity=".6"/>'
            f'<text class="small mid f-soft" x="{tick.x:g}" y="{TOP - 12}">{tick.text}</text>'
        )


def _link(place: Geometry, link: Link) -> Iterator[str]:
    route = place.route(link)
    x, y = route.end
    lane = place.graph.nodes[link.target].lane
    if not link.is_block:
        style = "dash" if link.kind == "propagate" else "solid"
        faint = ' stroke-opacity=".75"' if link.is_source else ""
        yield f'<path class="{style} s-{_lane(lane)}"{faint} d="{route.path}"/>'
        if not route.joins:
            yield f'<path class="f-{_lane(lane)}" d="M{x:g} {y - 3.5:g}l5 3.5-5 3.5z"/>'
        return
    sync = None if link.sync is None else place.graph.syncs[link.sync]
    color = _lane(lane) if sync is None else sync.state
    core = "core s-paper" if sync is None else f"core tint s-{color}"
    yield f'<path class="rim s-{color}" d="{route.path}"/>'
    yield f'<path class="core s-paper" d="{route.path}"/>'
    if sync is not None:
        yield f'<path class="{core}" d="{route.path}"/>'
    if sync is None or sync.direction != "reverse":
        yield f'<path class="f-{color}" d="M{x - 2:g} {y - 8:g}l11 8-11 8z"/>'
    if sync is not None and sync.direction != "forward":
        x, y = route.begin
        yield f'<path class="f-{color}" d="M{x + 9:g} {y - 8:g}l-11 8 11 8z"/>'


def _node(place: Geometry, node: Node) -> Iterator[str]:
    x, y = place.x(node.column), place.y(node.lane)
    color = _lane(node.lane)
    when = moment(node.time).strftime("%Y-%m-%d %H:%M:%S UTC")
    told = [node.id[:12], KIND_TITLES.get(node.kind, node.kind), node.title, node.author, when]
    title = escape(" · ".join(one_line(text) for text in told if text))
    yield f"<g><title>{title}</title>"
    if node.hidden:
        way = f"M{x - RADIUS - 21:g} {y:g}h18"
        yield f'<path class="solid s-{color}" stroke-dasharray="2 4" d="{way}"/>'
    if node.heads:
        yield f'<circle class="halo f-{color}" cx="{x:g}" cy="{y:g}" r="{RADIUS + 7}"/>'
    yield _shape(node.kind, x, y, color, node.is_forgotten)
    yield "</g>"
    if node.tags:
        tags = cut(", ".join(node.tags), _LABEL)
        yield f'<text class="small mid f-{color}" x="{x:g}" y="{y - 18:g}">⚑ {escape(tags)}</text>'
    if place.has_labels:
        words = cut(node.title, _LABEL)
        yield f'<text class="small mid f-soft" x="{x:g}" y="{y + 25:g}">{escape(words)}</text>'


def _shape(kind: str, x: float, y: float, color: str, is_hollow: bool = False) -> str:
    r = RADIUS
    full, hollow = f"node f-{color} s-{color}", f"node f-paper s-{color}"
    full = hollow if is_hollow else full
    if kind == "merge":
        return f'<path class="{full}" d="M{x - r:g} {y:g}l{r}-{r} {r} {r}-{r} {r}z"/>'
    if kind == "schema_change":
        return (
            f'<rect class="{full}" x="{x - r + 1:g}" y="{y - r + 1:g}" '
            f'width="{2 * r - 2}" height="{2 * r - 2}" rx="2"/>'
        )
    if kind == "derive":
        return (
            f'<path class="{full}" d="M{x - r:g} {y + r - 1:g}l{r}-{2 * r - 1} {r} {2 * r - 1}z"/>'
        )
    if kind == "propagate":
        return f'<circle class="{hollow}" cx="{x:g}" cy="{y:g}" r="{r - 1}"/>'
    if kind == "start":
        return (
            f'<circle class="{hollow}" stroke-dasharray="2 2" cx="{x:g}" cy="{y:g}" r="{r - 2}"/>'
        )
    return f'<circle class="{full}" cx="{x:g}" cy="{y:g}" r="{r}"/>'


def _sync_lines(graph: SnapshotGraph, sync: SyncMark) -> tuple[str, str]:
    names = ", ".join(graph.lanes[lane].name for lane in sync.sources)
    ends = f"{cut(names, 28)} {sync.arrow} {cut(graph.lanes[sync.target].name, 28)}"
    return ends, cut(sync_text(sync), 72)


def _syncs(place: Geometry) -> Iterator[str]:
    below: dict[int, int] = {}
    for at, sync in enumerate(place.graph.syncs):
        x = place.tracks_left + (place.tracks[at] + 0.5) * TRACK_WIDTH
        if is_inside(place.graph, sync):
            tap = f"M{x + 4:g} {place.y(sync.target) - 5:g}l9 5-9 5z"
            yield f'<path class="f-{sync.state}" d="{tap}"/>'
        for source in () if is_inside(place.graph, sync) else sync.sources:
            yield _band(x, place.y(source), place.y(sync.target), sync)
        count = below.get(sync.target, 0)
        below[sync.target] = count + 1
        if count > 1:
            continue
        y = place.y(sync.target) + (30 * count - 2)
        ends, told = _sync_lines(place.graph, sync)
        yield f'<text class="small f-ink" x="{place.labels_left:g}" y="{y:g}">{escape(ends)}</text>'
        yield (
            f'<text class="small f-{sync.state}" x="{place.labels_left:g}" y="{y + 13:g}">'
            f"{escape(told)}</text>"
        )


def _band(x: float, source: float, target: float, sync: SyncMark) -> str:
    """A shaded block arrow from one lane to another, upright."""
    down = 1 if target > source else -1
    first = 12 * down if sync.direction in ("both", "reverse") else 0
    last = 12 * down if sync.direction in ("both", "forward") else 0
    a, b = source + first, target - last
    path = f"M{x - 4:g} {a:g}V{b:g}"
    path += f"H{x - 8:g}L{x:g} {target:g}L{x + 8:g} {b:g}H{x + 4:g}" if last else f"H{x + 4:g}"
    path += f"V{a:g}"
    path += f"H{x + 8:g}L{x:g} {source:g}L{x - 8:g} {a:g}z" if first else "z"
    dashed = "" if sync.state == "active" else ' stroke-dasharray="3 3"'
    return f'<path class="shade f-{sync.state} s-{sync.state}"{dashed} d="{path}"/>'


def _legend(place: Geometry) -> Iterator[str]:
    x, y = 26.0, place.bottom + 34
    for kind in _LEGEND:
        title = KIND_TITLES[kind]
        yield _shape(kind, x, y - 4, "soft")
        yield f'<text class="small f-soft" x="{x + 13:g}" y="{y:g}">{title}</text>'
        x += 36 + 6.3 * len(title)
    for state in _STATES if place.graph.syncs else ():
        size = f'x="{x - 6:g}" y="{y - 11:g}" width="16" height="12" rx="3"'
        yield f'<rect class="shade f-{state} s-{state}" {size}/>'
        yield f'<text class="small f-soft" x="{x + 15:g}" y="{y:g}">sync {state}</text>'
        x += 34 + 6.3 * len(f"sync {state}")
