"""CREATE VIEW and DROP VIEW: what they say about a derived object, in plain values.

CREATE VIEW stores nothing and is computed when it is read; CREATE MATERIALIZED VIEW stores rows.

CREATE MATERIALIZED VIEW totals WITH (when = 'immediate', refresh = 'auto') AS
    SELECT city, sum(amount) AS total FROM orders GROUP BY city
    WHEN changed_share <= 0.2 AND not_null(city) ELSE HOLD
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from livingdb.errors import InvalidData, Unsupported
from livingdb.sql.table_statements import NOTHING_TEMPORARY
from livingdb.sql.token_reader import TokenReader

__all__ = ["ViewStatement", "parse_view_statement"]

_KNOWN = ("when", "refresh", "materialize", "key", "engine", "sync", "on_break")

_FORM = (
    "write CREATE [OR REPLACE] [MATERIALIZED] VIEW [IF NOT EXISTS] name [WITH (when = '…', …)] "
    "AS SELECT … [WHEN conditions ELSE action], or DROP [MATERIALIZED] VIEW [IF EXISTS] name"
)


@dataclass(frozen=True)
class ViewStatement:
    """A view to make, or to drop if there is no query.

    One that is not stored is computed when it is read, over its sources as they are then.
    """

    name: str
    query: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    replace: bool = False
    if_missing: bool = False
    if_exists: bool = False
    is_stored: bool = False


def parse_view_statement(text: str, sync: Mapping[str, Any]) -> ViewStatement | None:
    """What a statement says about a view; None if it is about something else.

    `sync` is what SYNC and WHEN … ELSE at its end said.
    """
    reader = TokenReader(text)
    if reader.take("DROP"):
        reader.take("MATERIALIZED")
        return _drop(reader) if reader.take("VIEW") else None
    if reader.take("ALTER"):
        reader.take("MATERIALIZED")
        if reader.take("VIEW"):
            raise Unsupported("ALTER VIEW is not possible: CREATE OR REPLACE VIEW defines it anew")
        return None
    if not reader.take("CREATE"):
        return None
    is_replaced = reader.take("OR", "REPLACE")
    other = reader.take_one("TEMPORARY", "TEMP", "GLOBAL", "RECURSIVE", "LOCAL")
    reader.take_one("TEMPORARY", "TEMP")
    is_stored = reader.take("MATERIALIZED")
    if not reader.take("VIEW"):
        return None
    if other == "RECURSIVE":
        raise Unsupported(f"CREATE {other} VIEW is not possible; {_FORM}")
    if other is not None:
        raise Unsupported(f"CREATE {other} VIEW is not possible: {NOTHING_TEMPORARY}")
    if_missing = reader.take("IF", "NOT", "EXISTS")
    if if_missing and is_replaced:
        raise InvalidData("OR REPLACE and IF NOT EXISTS exclude each other: leave one of them out")
    name = _name(reader, "CREATE VIEW")
    options: dict[str, Any] = dict(_options(reader)) if reader.take("WITH") else {}
    if not reader.take("AS"):
        raise InvalidData(
            f"CREATE VIEW {name} … {_excerpt(reader)}: this is not understood; {_FORM}"
        )
    if reader.is_done:
        raise InvalidData(f"CREATE VIEW {name} AS: the query is missing; {_FORM}")
    options |= {name: sync[name] for name in ("sync", "conditions") if name in sync}
    _choose_storage(options, is_stored)
    return ViewStatement(name, reader.rest, options, is_replaced, if_missing, is_stored=is_stored)


def _choose_storage(options: dict[str, Any], is_stored: bool) -> None:
    """What is stored: nothing of a plain view; `InvalidData` if the options say otherwise."""
    said = options.get("materialize")
    if is_stored:
        if said == "none":
            raise InvalidData(
                "CREATE MATERIALIZED VIEW stores rows, and materialize = 'none' does not: "
                "CREATE VIEW computes them when they are read"
            )
        return
    if said not in (None, "none"):
        raise InvalidData(
            f"CREATE VIEW stores nothing, and materialize = {said!r} does: "
            "CREATE MATERIALIZED VIEW takes that"
        )
    options["materialize"] = "none"


def _drop(reader: TokenReader) -> ViewStatement:
    if_exists = reader.take("IF", "EXISTS")
    name = _name(reader, "DROP VIEW")
    if not reader.is_done:
        raise InvalidData(f"DROP VIEW {name} {_excerpt(reader)}: this is not understood; {_FORM}")
    return ViewStatement(name, if_exists=if_exists)


def _name(reader: TokenReader, what: str) -> str:
    name = reader.take_name()
    if name is None:
        said = f"{what} {_excerpt(reader)}".rstrip()
        raise InvalidData(
            f"{said}: the name of a view is missing: one name, of the branch that the statement "
            f"runs on; {_FORM}"
        )
    return name


def _excerpt(reader: TokenReader) -> str:
    return reader.rest[:40]


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
