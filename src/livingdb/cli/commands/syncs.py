"""`livingdb syncs`: what keeps branches in step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from livingdb.cli.open_database import Settings

if TYPE_CHECKING:
    from livingdb.database.sync import Sync

__all__ = ["sync_row", "syncs"]

_COLUMNS = ("name", "kind", "direction", "when", "state", "lag", "reason")


def syncs(context: typer.Context) -> None:
    """Every sync: where it leads, when, and how far it is behind.

    \b
    Example:
      livingdb syncs
      livingdb -o json syncs
    """
    settings = Settings.of(context)
    with settings.open() as db:
        rows = [sync_row(each) for each in db.syncs()]
        settings.output().write_list(_COLUMNS, rows, (), "there are no syncs")


def sync_row(sync: Sync) -> dict[str, Any]:
    """What a list says about a sync."""
    lag = sync.lag
    return {
        "name": sync.name,
        "sources": sync.sources,
        "target": sync.target,
        "kind": sync.kind,
        "direction": sync.direction,
        "when": sync.when,
        "state": sync.state,
        "reason": sync.reason or ("" if lag is None else lag.reason),
        "lag": None if lag is None else int(lag),
        "lag_seconds": None if lag is None else round(lag.seconds, 3),
    }
