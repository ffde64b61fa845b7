"""CREATE VIEW and DROP VIEW: what they say about a derived object, in plain values.

CREATE MATERIALIZED VIEW totals WITH (when = 'immediate', refresh = 'auto') AS
    SELECT city, sum(amount) AS total FROM orders GROUP BY city
    WHEN changed_share <= 0.2 AND not_null(city) ELSE HOLD
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from livingdb.errors import InvalidData
from livingdb.sql.token_reader import TokenReader

__all__ = ["ViewStatement", "parse_view_statement"]

_KNOWN = ("when", "refresh", "materialize", "key", "engine", "sync")

_FORM = (
    "write CREATE [OR REPLACE] [MATERIALIZED] VIEW [IF NOT EXISTS] name [WITH (when = '…', …)] "
    "AS SELECT … [WHEN conditions ELSE action], or DROP VIEW [IF EXISTS] name"
)


@dataclass(frozen=True)
class ViewStatement:
    """A view to make, or to drop if there is no query."""

    name: str
    query: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    replace: bool = False
    if_missing: bool = False
    if_exists: bool = False


def parse_view_statement(text: str, sync: Mapping[str, Any]) -> ViewStatement | None:
    """What a statement says about a view; None if it is about something else.

    `sync` is what SYNC and WHEN … ELSE at its end said.
    """
    reader = TokenReader(text)
    if reader.take("DROP"):
        reader.take("MATERIALIZED")
        return _drop(reader) if reader.take("VIEW") else None
    if not reader.take("CREATE"):
        return None
    is_replaced = reader.take("OR", "REPLACE")
    is_stored = reader.take("MATERIALIZED")
    if not reader.take("VIEW"):
        return None
    if_missing = reader.take("IF", "NOT", "EXISTS")
    name = reader.take_value()
    options: dict[str, Any] = dict(_options(reader)) if reader.take("WITH") else {}
    if name is None or not reader.take("AS") or reader.is_done:
        raise InvalidData(_FORM)
    if not is_stored:
        options.setdefault("materialize", "none")
    options |= {name: sync[name] for name in ("sync", "conditions") if name in sync}
    return ViewStatement(name, reader.rest, options, is_replaced, if_missing)


def _drop(reader: TokenReader) -> ViewStatement:
    if_exists = reader.take("IF", "EXISTS")
    name = reader.take_value()
    if name is None or not reader.is_done:
        raise InvalidData(_FORM)
    return ViewStatement(name, if_exists=if_exists)


def _options(reader: TokenReader) -> dict[str, str]:
    found: dict[str, str] = {}
    is_open = reader.take("(")
    while is_open and not reader.take(")"):
        name = reader.take_value()
        value = reader.take_value() if name is not None and reader.take("=") else None
        if name is None or value is None:
            raise InvalidData(f"WITH (…): write name = 'value', …; not {reader.rest[:40]!r}")
        if name.lower() not in _KNOWN:
            raise InvalidData(f"WITH ({name.lower()} = …): the options are {', '.join(_KNOWN)}")
        if name.lower() in found:
            raise InvalidData(f"WITH ({name.lower()} = …): it is said twice")
        found[name.lower()] = value
        if not reader.take(",") and not reader.rest.startswith(")"):
            raise InvalidData(f"WITH (…): a comma or ')' is missing before {reader.rest[:40]!r}")
    return found
