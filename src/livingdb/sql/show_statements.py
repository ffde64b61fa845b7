"""SHOW, DESCRIBE and EXPLAIN: what there is, what a table is, and how a query would be answered."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pyarrow as pa

from livingdb.errors import InvalidData, Unsupported
from livingdb.sql.parse import tokenize
from livingdb.sql.token_reader import TokenReader

__all__ = ["DescribeStatement", "ExplainStatement", "ShowStatement", "parse_show_statement"]

_MAY_SHOW = re.compile(r"\b(?:show|desc|describe|explain)\b", re.IGNORECASE)
_SHOWN = ("TABLES", "VIEWS", "BRANCHES", "TAGS", "SYNCS", "ALERTS")
_FORM = f"write SHOW {' | '.join(_SHOWN)} | MERGE REQUESTS [LIKE 'pattern']"
_NAMES = {"alerts": "sync", "merge_requests": "title"}
"""What patterns are for, where there is no `name`."""
_DESCRIBE_FORM = "write DESCRIBE [TABLE] [EXTENDED] name"
_EXPLAIN_FORM = "write EXPLAIN SELECT …"
_EXPLAIN_WORDS = ("ANALYZE", "CODEGEN", "COST", "EXTENDED", "FORMATTED", "LOGICAL", "VERBOSE")


@dataclass(frozen=True)
class ShowStatement:
    """Which rows are shown: those whose name matches, as Spark has it: `*` is any text, `|` or."""

    what: str
    pattern: str | None = None

    def select(self, rows: pa.Table) -> pa.Table:
        """The rows whose name matches, without regard to case; alerts have that of their sync.

        Merge requests are found by their titles.
        """
        if self.pattern is None:
            return rows
        parts = (re.escape(part.strip()).replace(r"\*", ".*") for part in self.pattern.split("|"))
        wanted = re.compile("|".join(f"(?:{part})" for part in parts), re.IGNORECASE)
        names = rows.column(_NAMES.get(self.what, "name")).to_pylist()
        is_wanted = [wanted.fullmatch(name) is not None for name in names]
        return rows.filter(pa.array(is_wanted, pa.bool_()))


@dataclass(frozen=True)
class DescribeStatement:
    """A table, maybe of another branch, and whether more than its columns is told."""

    table: str
    branch: str | None = None
    is_extended: bool = False


@dataclass(frozen=True)
class ExplainStatement:
    """The query that would be answered."""

    query: str


Shown = ShowStatement | DescribeStatement | ExplainStatement


def parse_show_statement(text: object) -> Shown | None:
    """What a statement shows; None if it is another one, `Unsupported` for what is not there."""
    if not isinstance(text, str) or not _MAY_SHOW.search(text):
        return None
    tokens = tokenize(text)
    if not tokens:
        return None
    rest = text[tokens[0].end + 1 :]  # which the dialect takes for one text
    word = tokens[0].text.upper()
    if word == "SHOW":
        return _show(TokenReader(rest))
    if word in ("DESC", "DESCRIBE"):
        return _describe(TokenReader(rest))
    return _explain(TokenReader(rest)) if word == "EXPLAIN" else None


def _show(reader: TokenReader) -> ShowStatement:
    is_requests = reader.take("MERGE", "REQUESTS")
    what = "MERGE_REQUESTS" if is_requests else reader.take_one(*_SHOWN)
    if what is None:
        raise Unsupported(f"SHOW {reader.rest[:40]} is not possible; {_FORM}")
    if reader.is_done:
        return ShowStatement(what.lower())
    pattern = reader.take_value() if reader.take("LIKE") else None
    if pattern is None or not reader.is_done:
        raise InvalidData(f"SHOW {what} {reader.rest[:40]}: this is not understood; {_FORM}")
    return ShowStatement(what.lower(), pattern)


def _describe(reader: TokenReader) -> DescribeStatement:
    other = reader.take_one("CATALOG", "DATABASE", "FUNCTION", "HISTORY", "QUERY", "SCHEMA")
    if other is not None and not reader.is_done:
        raise Unsupported(f"DESCRIBE {other} is not possible; {_DESCRIBE_FORM}")
    is_table = other is None and reader.take("TABLE")
    is_extended = other is None and not reader.ends_at(1) and reader.take("EXTENDED")
    if (other is not None or is_table) and reader.is_done and not is_extended:
        return DescribeStatement((other or "TABLE").lower())
    parts = [reader.take_identifier()]
    if reader.take("."):
        parts.append(reader.take_identifier())
    if None in parts or not reader.is_done:
        said = f"DESCRIBE … {reader.rest[:40]}".rstrip()
        raise InvalidData(f"{said}: this is not understood; {_DESCRIBE_FORM}")
    names = [str(part) for part in parts]
    return DescribeStatement(names[-1], names[0] if len(names) > 1 else None, is_extended)


def _explain(reader: TokenReader) -> ExplainStatement:
    if reader.is_next(*_EXPLAIN_WORDS):
        raise Unsupported(f"EXPLAIN {reader.word_at(0)} is not possible; {_EXPLAIN_FORM}")
    if reader.is_done:
        raise InvalidData(f"EXPLAIN: the query is missing; {_EXPLAIN_FORM}")
    return ExplainStatement(reader.rest)
