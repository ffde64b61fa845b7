"""Redacting texts: words that people or programs wrote beside the rows.

Messages of snapshots, statements in their edges, alerts, and what syncs and runs tell.  Texts are
not searched for the values of rows: who erases says which words are to go.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Table

from livingdb.catalog import schema
from livingdb.catalog.sealed_rows import SealedRows
from livingdb.chunks.address import Address
from livingdb.chunks.store import StoredChunk
from livingdb.errors import InvalidData
from livingdb.graph.graph import Graph
from livingdb.tables.records import load_record, redacted

__all__ = ["REDACTED", "RedactedTexts", "redact_texts"]

REDACTED = "[erased]"

_TOLD = {
    schema.alert: ("message", "details"),
    schema.outbox: ("error",),
    schema.trail: ("author", "reason", "details"),
    schema.run: ("details",),
    schema.snapshot: ("author", "message"),
}
"""Where the catalog tells what happened, in words of its own or of others."""
_SPOKEN = ("author", "message", "details")
"""What an edge tells in words; the rest says what it is."""
_NAMES = {
    *("action", "bindings", "branch", "change", "columns", "definition", "direction", "engine"),
    *(
        "foreign_key",
        "foreign_keys",
        "function",
        "granularity",
        "id",
        "into",
        "key",
        "kind",
        "layout",
    ),
    *("materialize", "method", "moved", "name", "on", "on_break", "refresh", "schema", "snapshot"),
    *("strategy", "sync", "table", "tables", "to", "type", "uses", "what"),
}
"""Under these, details have names and words of ours, by which they are read; a definition of a
view is one as a whole, since what was made by it is computed anew from it."""
_ADDRESS = re.compile(r"[0-9a-f]{12,}")


@dataclass
class RedactedTexts:
    """What becomes of texts: redactions of snapshots, and rows of the catalog by their tables."""

    words: tuple[str, ...] = ()
    records: dict[Address, StoredChunk] = field(default_factory=dict)
    rows: dict[Table, list[dict[str, Any]]] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether no text holds any of the words."""
        return not (self.records or self.rows)

    def write(self, connection: Connection) -> None:
        """Change the rows of the catalog, in a transaction."""
        for table, rows in self.rows.items():
            SealedRows(table).put(connection, rows)


def redact_texts(graph: Graph, words: Sequence[str]) -> RedactedTexts:
    """Take words out of every text that tells of what happened; names and addresses stay."""
    if isinstance(words, str):
        raise InvalidData(f"texts={words!r}: a list of words, as [{words!r}]")
    if any(not isinstance(word, str) or not word.strip() for word in words):
        raise InvalidData("texts: words to erase are texts, and not empty")
    if not words:
        return RedactedTexts()
    longest_first = sorted(words, key=len, reverse=True)
    pattern = re.compile("|".join(map(re.escape, longest_first)))
    found = RedactedTexts(tuple(longest_first))
    for row in graph.newest_snapshots():
        record = load_record(graph.store, row.address)
        before = record["edge"]
        told = {name: _without(before[name], pattern) for name in _SPOKEN if name in before}
        if any(value != before[name] for name, value in told.items()):
            edge = {**before, **told}
            found.records[row.address] = redacted(row.address, {**record, "edge": edge})
    for table, columns in _TOLD.items():
        changed = _changed_rows(graph, table, columns, pattern)
        if changed:
            found.rows[table] = changed
    return found


def _changed_rows(
    graph: Graph, table: Table, columns: Sequence[str], pattern: re.Pattern[str]
) -> list[dict[str, Any]]:
    sealed = SealedRows(table)
    changed = []
    for row in graph.catalog.queries.all(sealed.every):
        before = sealed.named(row)
        after = {**before, **{name: _without_in_cell(before[name], pattern) for name in columns}}
        if after != before:
            changed.append(after)
    return changed


def _without_in_cell(text: str | None, pattern: re.Pattern[str]) -> str | None:
    """A text without the words; one that is JSON stays that."""
    if text is None or not text.startswith(("{", "[")):
        return None if text is None else pattern.sub(REDACTED, text)
    try:
        value = json.loads(text)
    except ValueError:
        return pattern.sub(REDACTED, text)
    without = _without(value, pattern)
    return text if without == value else json.dumps(without, sort_keys=True)


def _without(value: Any, pattern: re.Pattern[str]) -> Any:
    """A JSON value without the words, wherever its texts tell something."""
    if isinstance(value, str):
        return value if _ADDRESS.fullmatch(value) else pattern.sub(REDACTED, value)
    if isinstance(value, Mapping):
        return {
            name: item if name in _NAMES else _without(item, pattern)
            for name, item in value.items()
        }
    return [_without(item, pattern) for item in value] if isinstance(value, list) else value
