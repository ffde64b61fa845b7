"""How databases, branches, snapshots, diffs and syncs look in a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from livingdb.database.branch import Branch
from livingdb.database.database import Database
from livingdb.database.diff import Diff, SnapshotDiff
from livingdb.database.snapshot import Snapshot
from livingdb.database.sync import Sync
from livingdb.render.labels import KIND_TITLES, cut, moment, sync_text
from livingdb.render.notebook_diff import diff_html, snapshot_diff_html
from livingdb.render.palette import MERMAID_STATES
from livingdb.render.read_graph import read_graph
from livingdb.render.sync_lanes import drawn_sync

__all__ = ["html"]

_SNAPSHOTS = 60
_BRANCHES = 50
_LINES = 10


def html(shown: Database | Branch | Snapshot | Diff | SnapshotDiff | Sync) -> str:
    """How a notebook shows something."""
    match shown:
        case Database():
            return _database(shown)
        case Branch():
            return _branch(shown)
        case Snapshot():
            return _snapshot(shown)
        case Diff():
            return diff_html(shown)
        case SnapshotDiff():
            return snapshot_diff_html(shown)
        case Sync():
            return _sync(shown)


def _database(database: Database) -> str:
    """The newest of its snapshot graph, and its branches."""
    if database._open_graph is None:
        return "<p><b>LivingDB</b> (closed)</p>"
    graph = read_graph(database, limit=_SNAPSHOTS)
    branches = database.branches()
    rows = [_branch_cells(branch) for branch in branches[:_BRANCHES]]
    more = len(branches) - len(rows)
    note = f"<p>and {more:,} more branches</p>" if more > 0 else ""
    table = _table(("branch", "head", "time", "message", "tables"), rows)
    heading = f"<p><b>LivingDB</b> {escape(database.name)}</p>"
    return f'{heading}<div style="overflow-x:auto">{graph.to_svg()}</div>{table}{note}'


def _branch(branch: Branch) -> str:
    """Its head, its tables and the newest lines of its log."""
    head = branch.head
    heading = f"<p><b>{escape(branch.name)}</b> of {escape(branch.database.name)}</p>"
    lines = [_log_cells(snapshot) for snapshot in branch.log(_LINES)]
    log = _table(("snapshot", "time", "author", "kind", "message"), lines)
    return heading + _tables(head) + log


def _snapshot(snapshot: Snapshot) -> str:
    """How it came to be, and its tables."""
    edge = snapshot.edge
    cells = [
        ("id", _code(snapshot.id)),
        ("time", escape(snapshot.time.isoformat(" ", "seconds"))),
        ("author", escape(snapshot.author)),
        ("kind", escape(KIND_TITLES.get(edge.kind, edge.kind))),
        ("operation", escape(edge.operation)),
        ("message", escape(cut(snapshot.message, 400))),
        ("follows", ", ".join(_code(parent[:12]) for parent in snapshot.parents)),
        (
            "made from",
            ", ".join(f"{escape(n)} {_code(i[:12])}" for n, i in snapshot.sources.items()),
        ),
    ]
    lines = "".join(
        f'<tr><th style="text-align:left">{name}</th><td style="text-align:left">{text}</td></tr>'
        for name, text in cells
        if text
    )
    return f"<table>{lines}</table>{_tables(snapshot)}"


def _sync(sync: Sync) -> str:
    """What it joins, when it carries changes, what guards it, and how a view is maintained."""
    standing = drawn_sync(sync)
    mark = standing.mark(dict.fromkeys((*standing.sources, standing.target), 0))
    ends = f"{', '.join(standing.sources)} {mark.arrow} {standing.target}"
    color = MERMAID_STATES.get(sync.state, MERMAID_STATES["detached"])
    words = escape(sync_text(mark))
    first, *plan = sync.explain().splitlines()
    steps = "".join(f"<li>{escape(line.strip())}</li>" for line in plan)
    state = "active · " if sync.state == "active" else ""
    return (
        f'<p style="border-left:4px solid {color};padding-left:8px" title="{escape(first)}">'
        f"<b>{escape(ends)}</b><br>{escape(sync.kind.replace('_', ' '))} · "
        f'<span style="color:{color}">{state}{words}</span></p>'
        + (f"<ul>{steps}</ul>" if steps else "")
    )


def _branch_cells(branch: Branch) -> Sequence[str]:
    head = branch.head
    return (
        f"<b>{escape(branch.name)}</b>",
        _code(head.id[:12]),
        _time(head),
        escape(cut(head.message or head.edge.operation, 60)),
        escape(cut(", ".join(head.tables()), 80)),
    )


def _log_cells(snapshot: Snapshot) -> Sequence[str]:
    return (
        _code(snapshot.id[:12]),
        _time(snapshot),
        escape(cut(snapshot.author, 40)),
        KIND_TITLES.get(snapshot.edge.kind, snapshot.edge.kind),
        escape(cut(snapshot.message or snapshot.edge.operation, 80)),
    )


def _tables(snapshot: Snapshot) -> str:
    rows = []
    for name in snapshot.tables()[:_BRANCHES]:
        table = snapshot.table(name)
        count = table._version.rows
        schema = ", ".join(table.schema.names)
        size = "" if count is None else f"{count:,}"
        rows.append((f"<b>{escape(name)}</b>", size, escape(cut(schema, 120))))
    return _table(("table", "rows", "columns"), rows) if rows else "<p>no tables</p>"


def _time(snapshot: Snapshot) -> str:
    return moment(snapshot._row.time).strftime("%Y-%m-%d %H:%M:%S")


def _code(text: str) -> str:
    return f"<code>{escape(text)}</code>"


def _table(names: Iterable[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f'<th style="text-align:left">{name}</th>' for name in names)
    body = "".join(
        "<tr>" + "".join(f'<td style="text-align:left">{cell}</td>' for cell in row) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
