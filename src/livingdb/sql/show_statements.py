"""SHOW VIEWS [LIKE 'pattern']: the views that have a name where the statement runs."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pyarrow as pa

from livingdb.errors import InvalidData, Unsupported
from livingdb.sql.parse import tokenize
from livingdb.sql.token_reader import TokenReader

__all__ = ["ShowStatement", "parse_show_statement"]

_MAY_SHOW = re.compile(r"\bshow\b", re.IGNORECASE)
_FORM = "write SHOW VIEWS [LIKE 'pattern']"


@dataclass(frozen=True)
class ShowStatement:
    """Which rows are shown: those whose name matches, as Spark has it: `*` is any text, `|` or."""

    pattern: str | None = None

    def select(self, rows: pa.Table) -> pa.Table:
        """The rows whose column `name` matches, without regard to case."""
        if self.pattern is None:
            return rows
        parts = (re.escape(part.strip()).replace(r"\*", ".*") for part in self.pattern.split("|"))
        wanted = re.compile("|".join(f"(?:{part})" for part in parts), re.IGNORECASE)
        names = rows.column("name").to_pylist()
        return rows.filter(pa.array([wanted.fullmatch(name) is not None for name in names]))


def parse_show_statement(text: object) -> ShowStatement | None:
    """What a statement shows; None if it is another one, `Unsupported` for what is not there."""
    if not isinstance(text, str) or not _MAY_SHOW.search(text):
        return None
    tokens = tokenize(text)
    if not tokens or tokens[0].text.upper() != "SHOW":
        return None
    reader = TokenReader(text[tokens[0].end + 1 :])  # which the dialect takes for one text
    if not reader.take("VIEWS"):
        raise Unsupported(f"SHOW {reader.rest[:40]} is not possible; {_FORM}")
    if reader.is_done:
        return ShowStatement()
    pattern = reader.take_value() if reader.take("LIKE") else None
    if pattern is None or not reader.is_done:
        raise InvalidData(f"SHOW VIEWS {reader.rest[:40]}: this is not understood; {_FORM}")
    return ShowStatement(pattern)
