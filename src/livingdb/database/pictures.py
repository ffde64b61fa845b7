"""Pictures of what users hold: the one place that asks the `render` layer above for them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from livingdb.database.branch import Branch
    from livingdb.database.database import Database
    from livingdb.database.diff import Diff, SnapshotDiff
    from livingdb.database.snapshot import Snapshot
    from livingdb.database.sync import Sync
    from livingdb.render.picture import SnapshotGraph

__all__ = ["graph_picture", "notebook_html"]


def notebook_html(shown: Database | Branch | Snapshot | Diff | SnapshotDiff | Sync) -> str:
    """How a notebook shows something."""
    from livingdb.render.notebook import html

    return html(shown)


def graph_picture(
    database: Database,
    branches: Iterable[object] | None,
    limit: int | None,
    since: datetime | str | None,
) -> SnapshotGraph:
    """The snapshot graph, ready to be drawn."""
    from livingdb.render.read_graph import read_graph

    return read_graph(database, branches, limit, since)
