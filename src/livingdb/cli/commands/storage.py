"""`livingdb storage`: what a database weighs, and how much is shared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer

from livingdb.cli.open_database import Settings

__all__ = ["storage"]

_FIGURES = (
    "bytes",
    "catalog_bytes",
    "pack_bytes",
    "journal_bytes",
    "projection_bytes",
    "chunks",
    "packs",
    "snapshots",
)


def storage(context: typer.Context) -> None:
    """Bytes, chunks and packs; per table and per branch; and how often a chunk is shared.

    \b
    Example:
      livingdb storage
    """
    settings = Settings.of(context)
    output = settings.output()
    with settings.open() as db:
        found = db.storage()
        tables = [{"table": name, **vars(weight)} for name, weight in found.tables.items()]
        branches = [{"branch": name, **vars(weight)} for name, weight in found.branches.items()]
        tables, branches = _visible_rows(tables, "table"), _visible_rows(branches, "branch")
        told: dict[str, Any] = {name: getattr(found, name) for name in _FIGURES}
        told |= {"sharing": round(found.sharing, 4), "tables": tables, "branches": branches}
        output.write_record(told, str(found))
        if output.is_text:
            output.write_list(("table", "bytes", "chunks"), tables)
            output.write_list(("branch", "bytes", "chunks"), branches)


def _visible_rows(rows: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    """What users know of, the heaviest first."""
    from livingdb.graph.names import is_hidden

    def weight(row: Mapping[str, Any]) -> tuple[int, str]:
        return -row["bytes"], row[name]

    return sorted((row for row in rows if not is_hidden(row[name])), key=weight)
