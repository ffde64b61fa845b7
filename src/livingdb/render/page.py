"""The snapshot graph as one page that loads nothing: styles, program and data are in it."""

from __future__ import annotations

import json
from html import escape
from importlib.resources import files
from typing import Any

from livingdb.render.geometry import sync_tracks, trunks_of
from livingdb.render.labels import KIND_TITLES, one_line, summary
from livingdb.render.palette import DARK, LIGHT
from livingdb.render.picture import SnapshotGraph

__all__ = ["page_data", "to_html"]

_KINDS = tuple(KIND_TITLES)


def to_html(graph: SnapshotGraph, diffs: int = 200) -> str:
    """The page; see `SnapshotGraph.to_html`."""
    style = (
        f":root{{{LIGHT.to_css()}}}@media(prefers-color-scheme:dark){{:root{{{DARK.to_css()}}}}}"
    )
    parts = {
        "TITLE": escape(one_line(graph.title)),
        "SUMMARY": escape(summary(graph)),
        "STYLE": style + _asset("still.css"),
        "SCRIPT": _asset("still.js"),
        "DATA": _script_json(page_data(graph, diffs)),
    }
    page = _asset("page.html")
    pieces = page.split("@@")
    return "".join(parts[p] if at % 2 else p for at, p in enumerate(pieces))


def _asset(name: str) -> str:
    return (files("livingdb.render") / "assets" / name).read_text(encoding="utf-8")


def _script_json(data: Any) -> str:
    """JSON that no HTML parser takes for the end of a script."""
    text = json.dumps(data, separators=(",", ":"), default=str)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def page_data(graph: SnapshotGraph, diffs: int = 200) -> dict[str, Any]:
    """What the page's program reads: lists in place of names, so that it is small.

    nodes   [id, sequence, lane, column, kind, milliseconds, author, message, operation,
             heads, tags, hidden, forgotten], kind and author by their places
    links   [source, target, kind, is a source, sync or -1], all in one list
    """
    authors = {name: at for at, name in enumerate(dict.fromkeys(n.author for n in graph.nodes))}
    kinds = {name: at for at, name in enumerate(_KINDS)}
    nodes = [
        [
            node.id,
            node.sequence,
            node.lane,
            node.column,
            kinds[node.kind],
            node.time // 1000,
            authors[node.author],
            node.message,
            node.operation,
            node.heads,
            node.tags,
            node.hidden,
            int(node.is_forgotten),
        ]
        for node in graph.nodes
    ]
    links: list[int] = []
    for link in graph.links:
        sync = -1 if link.sync is None else link.sync
        links += (link.source, link.target, kinds[link.kind], int(link.is_source), sync)
    return {
        "title": graph.title,
        "kinds": [[name, title] for name, title in KIND_TITLES.items()],
        "lanes": [[lane.name, int(lane.is_dropped)] for lane in graph.lanes],
        "authors": list(authors),
        "nodes": nodes,
        "links": links,
        "syncs": _syncs(graph),
        "details": None if graph.details is None else graph.details.of(graph.nodes, diffs),
    }


def _syncs(graph: SnapshotGraph) -> list[dict[str, Any]]:
    return [
        {
            "name": sync.name,
            "sources": sync.sources,
            "target": sync.target,
            "direction": sync.direction,
            "arrow": sync.arrow,
            "when": sync.when,
            "state": sync.state,
            "kind": sync.kind,
            "reason": sync.reason,
            "conditions": sync.conditions,
            "track": track,
            "trunk": trunk,
        }
        for sync, track, trunk in zip(
            graph.syncs, sync_tracks(graph), trunks_of(graph), strict=True
        )
    ]
