"""CREATE VIEW and DROP VIEW: what they say about a derived object, in plain values.

CREATE MATERIALIZED VIEW totals WITH (when = 'immediate', refresh = 'auto') AS
    SELECT city, sum(amount) AS total FROM orders GROUP BY city
    WHEN changed_share <= 0.2 AND not_null(city) ELSE HOLD
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from livingdb.errors import InvalidData

__all__ = ["ViewStatement", "read_view"]

_NAME = r"(?P<name>`[^`]+`|[^\s(;`]+)"
_CREATE = re.compile(
    r"\s*CREATE\s+(?P<replace>OR\s+REPLACE\s+)?(?P<stored>MATERIALIZED\s+)?VIEW\s+"
    rf"(?P<missing>IF\s+NOT\s+EXISTS\s+)?{_NAME}"
    r"(?:\s+WITH\s*\((?P<options>[^()]*)\))?\s+AS\s+(?P<query>.*)\Z",
    re.IGNORECASE | re.DOTALL,
)
_DROP = re.compile(
    rf"\s*DROP\s+(?:MATERIALIZED\s+)?VIEW\s+(?P<exists>IF\s+EXISTS\s+)?{_NAME}\s*;?\s*\Z",
    re.IGNORECASE,
)
_OPTION = re.compile(
    r"\s*(?P<name>[a-z_]+)\s*=\s*(?:'(?P<text>(?:[^']|'')*)'|(?P<word>[^',\s]+))\s*(?:,|\Z)",
    re.IGNORECASE,
)
_KNOWN = ("when", "refresh", "materialize", "key", "engine", "sync")
_BEGINS = re.compile(
    r"\s*(CREATE\s+(OR\s+REPLACE\s+)?(MATERIALIZED\s+)?|DROP\s+(MATERIALIZED\s+)?)VIEW\b",
    re.IGNORECASE,
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


def read_view(text: str, sync: Mapping[str, Any]) -> ViewStatement | None:
    """What a statement says about a view; None if it is about something else.

    `sync` is what SYNC and WHEN … ELSE at its end said.
    """
    if not isinstance(text, str) or not _BEGINS.match(text):
        return None
    dropped = _DROP.match(text)
    if dropped is not None:
        return ViewStatement(_plain(dropped["name"]), if_exists=bool(dropped["exists"]))
    made = _CREATE.match(text)
    if made is None:
        raise InvalidData(
            "write CREATE [OR REPLACE] [MATERIALIZED] VIEW [IF NOT EXISTS] name "
            "[WITH (when = '…', …)] AS SELECT … [WHEN conditions ELSE action], or "
            "DROP VIEW [IF EXISTS] name"
        )
    options: dict[str, Any] = dict(_options(made["options"] or ""))
    if not made["stored"]:
        options.setdefault("materialize", "none")
    options |= {name: sync[name] for name in ("sync", "conditions") if name in sync}
    return ViewStatement(
        _plain(made["name"]),
        made["query"].strip().rstrip(";"),
        options,
        bool(made["replace"]),
        bool(made["missing"]),
    )


def _plain(name: str) -> str:
    return name.strip("`")


def _options(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    at = 0
    while text[at:].strip():
        option = _OPTION.match(text, at)
        if option is None:
            raise InvalidData(f"WITH ({text.strip()}): write name = 'value', …")
        name = option["name"].lower()
        if name not in _KNOWN:
            raise InvalidData(f"WITH ({name} = …): the options are {', '.join(_KNOWN)}")
        given = option["text"]
        found[name] = option["word"] if given is None else given.replace("''", "'")
        at = option.end()
    return found
