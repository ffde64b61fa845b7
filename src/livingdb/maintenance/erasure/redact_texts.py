"""Redacting texts: words that people or programs wrote beside the rows.

Messages of snapshots, statements in their edges, alerts, and what syncs and runs tell.  Texts are
not searched for the values of rows: who erases says which words are to go.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Table, Text

from livingdb.catalog import schema
from livingdb.catalog.sealed_rows import SealedRows
from livingdb.chunks.address import Address
from livingdb.chunks.store import StoredChunk
from livingdb.errors import InvalidData
from livingdb.graph.graph import Graph
from livingdb.tables.records import load_record, redacted

__all__ = ["REDACTED", "RedactedTexts", "redact_texts"]

REDACTED = "[erased]"

_TOLD = (schema.alert, schema.outbox, schema.trail, schema.run, schema.snapshot)
"""Where the catalog tells what happened, in words of its own or of others."""


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
    """Take words out of every text that tells of what happened."""
    if any(not isinstance(word, str) or not word.strip() for word in words):
        raise InvalidData("texts: words to erase are texts, and not empty")
    found = RedactedTexts(tuple(sorted(words, key=len, reverse=True)))
    if not words:
        return found
    for row in graph.newest_snapshots():
        record = load_record(graph.store, row.address)
        edge = _without(record["edge"], found.words)
        if edge != record["edge"]:
            found.records[row.address] = redacted(row.address, {**record, "edge": edge})
    for table in _TOLD:
        changed = _changed_rows(graph, table, found.words)
        if changed:
            found.rows[table] = changed
    return found


def _changed_rows(graph: Graph, table: Table, words: Sequence[str]) -> list[dict[str, Any]]:
    sealed = SealedRows(table)
    texts = [column.name for column in table.c if isinstance(column.type, Text)]
    changed = []
    for row in graph.catalog.queries.all(sealed.every):
        before = sealed.named(row)
        after = {**before, **{name: _without_in_cell(before[name], words) for name in texts}}
        if after != before:
            changed.append(after)
    return changed


def _without_in_cell(text: str | None, words: Sequence[str]) -> str | None:
    """A text without the words; one that is JSON stays that."""
    if text is None or not text.startswith(("{", "[")):
        return None if text is None else _without(text, words)
    try:
        value = json.loads(text)
    except ValueError:
        return str(_without(text, words))
    without = _without(value, words)
    return text if without == value else json.dumps(without, sort_keys=True)


def _without(value: Any, words: Sequence[str]) -> Any:
    """A JSON value without the words, wherever they are in its texts."""
    if isinstance(value, str):
        for word in words:
            value = value.replace(word, REDACTED)
        return value
    if isinstance(value, Mapping):
        return {_without(name, words): _without(item, words) for name, item in value.items()}
    return [_without(item, words) for item in value] if isinstance(value, list) else value
