"""Sealing the rows of a catalog of before there were digests, once, when it is migrated.

Versions and trees had digests of their own kind: a row that its old one does not suit is damaged,
and stays so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, select

from livingdb.catalog import schema
from livingdb.catalog.branch_log import lines, log_lines
from livingdb.catalog.sealed_rows import DIGEST, DIGEST_BYTES, SealedRows, sealed_tables
from livingdb.chunks.address import digest

__all__ = ["seal_rows", "seal_trees_anew"]


def seal_rows(connection: Connection) -> None:
    """Give every row its digest, and every branch the end of its log's chain."""
    chains = _chain_logs(connection)
    for rows in sealed_tables(schema.metadata.sorted_tables):
        if rows.table is schema.branch_log:
            continue
        known = [dict(row) for row in connection.execute(rows.every).mappings()]
        if rows.table is schema.branch:
            known = [{**row, "chain": chains.get(row["number"])} for row in known]
        is_sound = _FORMER_DIGESTS.get(rows.table.name)
        rows.seal_all(connection, [row for row in known if is_sound is None or is_sound(row)])


def seal_trees_anew(connection: Connection) -> None:
    """Trees have a layout more, which is in their digests; a row that was damaged stays so."""
    rows = SealedRows(schema.materialization)
    known = [dict(row) for row in connection.execute(rows.every).mappings()]
    before = [name for name in rows.columns if name != "layout"]
    sound = [row for row in known if rows.digest([row[n] for n in before]) == row[DIGEST]]
    rows.seal_all(connection, sound)


def _chain_logs(connection: Connection) -> dict[int, bytes]:
    """Make every log a chain; the digests of their newest lines, by branch."""
    log = schema.branch_log
    ends = {}
    for (branch,) in connection.execute(select(log.c.branch).distinct()).all():
        of_branch = select(log.c.position, log.c.snapshot, log.c.time, log.c.operation)
        found = connection.execute(of_branch.where(log.c.branch == branch).order_by(log.c.position))
        rows = found.all()
        made = log_lines(branch, [(row.snapshot, row.time, row.operation) for row in rows])
        if [row.position for row in rows] == list(range(len(rows))):
            lines.seal_all(connection, made)
            ends[branch] = made[-1][DIGEST]
    return ends


def _is_sound_version(row: Mapping[str, Any]) -> bool:
    names = ("address", "definition", "origin", "base", "skip", "keyframe")
    parts = [row[name] or b"" for name in names]
    numbers = f"{[len(part) for part in parts]}{row['depth']},{row['changed']},{row['rows']}"
    return bool(digest(*parts, numbers.encode())[:DIGEST_BYTES] == row[DIGEST])


def _is_sound_tree(row: Mapping[str, Any]) -> bool:
    return bool(digest(row["version"], row["root"])[:DIGEST_BYTES] == row[DIGEST])


_FORMER_DIGESTS = {"version": _is_sound_version, "materialization": _is_sound_tree}
