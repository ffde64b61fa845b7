"""Conditions of one's own: SQL that gives the rows that are wrong, and named functions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from livingdb.derivation.find_rows import matching_rows
from livingdb.derivation.trusted_functions import check_name, load_function
from livingdb.errors import InvalidData, NotFound, Unsupported
from livingdb.guard.conditions.condition import Condition, Verdict
from livingdb.guard.conditions.kinds.repeated_values import unquarantined_rows
from livingdb.guard.conditions.kinds.row_conditions import row_count_text
from livingdb.guard.conditions.pending_change import render_rows
from livingdb.guard.conditions.registry import register, register_constructor

if TYPE_CHECKING:
    from sqlglot import exp

    from livingdb.guard.conditions.pending_change import PendingChange
    from livingdb.tables.rows import RowSet

__all__ = ["Function", "Sql", "function", "sql"]


@register
@dataclass(frozen=True)
class Sql(Condition):
    """A query gives no rows.

    It sees the tables of the target as they will be, `<table>_before` as they are,
    `<table>_change` with the rows that come, and those of the source by their names, or as
    `<table>_source`.  Where its answer has the key of the target's table, rows can be set aside.
    """

    query: str

    NAME: ClassVar[str] = "sql"
    BY_ROW: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        parse_query(self.query)

    def judge(self, pending: PendingChange) -> Verdict:
        """See `Condition.judge`."""
        found = run_query(pending, self.query)
        return _verdict(self, pending, {"": found}, "the query")


def _verdict(
    one: Condition, pending: PendingChange, found: Mapping[str, pa.Table], finder: str
) -> Verdict:
    """What rows that are wrong amount to, by table of the target; "" for its only one.

    Where they are to be set aside, those count that are not aside yet.
    """
    wrong = {name: rows for name, rows in found.items() if rows.num_rows}
    broken: dict[str, pa.Table] = {}
    for name, rows in wrong.items():
        broken |= (
            _rows_of_only_table(pending, rows)
            if name == ""
            else _rows_with_keys(pending, name, rows)
        )
    if wrong and one.action == "quarantine":
        if not broken:
            raise InvalidData(
                f"rows are set aside by their key: let {finder} give that of the target's table"
            )
        broken = {name: unquarantined_rows(pending, name, rows) for name, rows in broken.items()}
        wrong = broken = {name: rows for name, rows in broken.items() if rows.num_rows}
    count = sum(rows.num_rows for rows in wrong.values())
    if not count:
        return Verdict(measured=0)
    shown = "; ".join(render_rows(rows) for rows in wrong.values())
    return Verdict(f"{row_count_text(count)} that {finder} finds: {shown}", count, broken)


def _rows_of_only_table(pending: PendingChange, found: pa.Table) -> dict[str, pa.Table]:
    """The rows of the target whose keys an answer has; of its only table, or of none."""
    names = pending.names()
    return _rows_with_keys(pending, names[0], found) if len(names) == 1 else {}


def _rows_with_keys(pending: PendingChange, table: str, found: pa.Table) -> dict[str, pa.Table]:
    """The rows of a table of the target whose keys are named."""
    pending.names(table)
    rows = pending.rows(table)
    if rows is None or not set(rows.schema.key) <= set(found.column_names):
        return {}
    keys = found.select(list(rows.schema.key))
    try:
        kinds = pa.schema([pa.field(c.name, c.type) for c in rows.schema.key_columns])
        broken = matching_rows(
            rows, keys.cast(kinds), [column.name for column in rows.schema.stored_columns]
        )
    except pa.ArrowInvalid:
        return {}
    return {table: broken} if broken.num_rows else {}


@register
@dataclass(frozen=True)
class Function(Condition):
    """A named function finds nothing wrong.

    It is given the pending change and its parameters, and gives None or True if all is well, False
    or a sentence if it is not, or the rows that are wrong, as an Arrow table or by table of the
    target.  Only processes that trust it run it.
    """

    function: str
    params: str = field(default="{}", kw_only=True)

    NAME: ClassVar[str] = "function"
    BY_ROW: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_name(self.function)
        try:
            given = json.loads(self.params) if isinstance(self.params, str) else self.params
            if not isinstance(given, Mapping):
                raise ValueError
            text = json.dumps(dict(given), sort_keys=True, allow_nan=False)
        except (TypeError, ValueError):
            raise InvalidData(
                f"function: the parameters {self.params!r} are no plain values by name"
            ) from None
        object.__setattr__(self, "params", text)

    def judge(self, pending: PendingChange) -> Verdict:
        """See `Condition.judge`."""
        called = load_function(self.function, pending.trust)
        return self._verdict(pending, called(pending, **json.loads(self.params)))

    def _verdict(self, pending: PendingChange, found: object) -> Verdict:
        if found is None or found is True:
            return Verdict()
        if found is False:
            return Verdict(f"{self.function} says no")
        if isinstance(found, str):
            return Verdict(found or f"{self.function} says no")
        if isinstance(found, pa.Table):
            return _verdict(self, pending, {"": found}, self.function)
        if isinstance(found, Mapping) and all(isinstance(v, pa.Table) for v in found.values()):
            return _verdict(self, pending, found, self.function)
        raise InvalidData(
            f"{self.function} returned {type(found).__name__}; it returns None, True, False, "
            "a sentence, or the rows that are wrong"
        )


@register_constructor
def sql(query: str, **how: Any) -> Sql:
    """A query that gives the rows that are wrong gives none."""
    return Sql(query, **how)


_HOW = ("action", "severity")


@register_constructor
def function(name: str, /, **params: Any) -> Function:
    """A function 'package.module:function' finds nothing wrong; it is given the parameters."""
    how = {key: params.pop(key) for key in _HOW if key in params}
    given: Any = params.pop("params", None)
    if given is not None and params:
        raise InvalidData("function: give the parameters by name, or all of them as params=")
    chosen: Any = params if given is None else given
    return Function(name, params=chosen, **how)


_BEFORE, _CHANGE, _SOURCE = "_before", "_change", "_source"


def parse_query(text: object) -> exp.Query:
    """The tree of a query; `InvalidData` for what is none."""
    from sqlglot import exp

    from livingdb.sql.parse import parse_statement

    if not isinstance(text, str):
        raise InvalidData(f"sql: a query is text, not {text!r}")
    found = parse_statement(text)
    if not isinstance(found, exp.Query):
        raise InvalidData("sql: a condition is a query that gives the rows that are wrong")
    return found


def check_queries(data: object) -> None:
    """`Untrusted` where a condition, or one it is made of, calls what a query may not."""
    from livingdb.engines.trust import check_calls

    if isinstance(data, Mapping):
        if data.get("name") == "sql" and "query" in data:
            check_calls(parse_query(data["query"]))
        for value in data.values():
            check_queries(value)
    elif isinstance(data, (list, tuple)):
        for value in data:
            check_queries(value)


def check_portable_queries(
    data: object, targets: Mapping[str, pa.Schema], sources: Mapping[str, pa.Schema]
) -> None:
    """`Unsupported` for a condition by a query that has to be portable and is not.

    Where it reads something else than these tables it is judged when a change comes.
    """
    from livingdb.engines.portable.portability import check_portability
    from livingdb.sql.table_names import table_nodes

    if isinstance(data, Mapping) and data.get("name") == "sql" and "query" in data:
        names = ("", _BEFORE, _CHANGE)
        known = {f"{name}{_SOURCE}": schema for name, schema in sources.items()} | dict(sources)
        known |= {name + end: schema for name, schema in targets.items() for end in names}
        known = {name.casefold(): schema for name, schema in known.items()}
        query = parse_query(data["query"])
        is_known = all(table.name.casefold() in known for table in table_nodes(query))
        found = check_portability(query, known) if is_known else None
        if isinstance(found, str):
            raise _not_portable(found)
    parts = data.values() if isinstance(data, Mapping) else data
    for part in parts if isinstance(data, (Mapping, list, tuple)) else ():  # type: ignore[attr-defined]
        check_portable_queries(part, targets, sources)


def _not_portable(reason: str) -> Unsupported:
    return Unsupported(
        f"sql: {reason}; the condition of an immediate sync is judged inside the transaction, and "
        "has to be portable"
    )


def run_query(pending: PendingChange, text: str) -> pa.Table:
    """The rows that a query gives; within a transaction it has to be portable."""
    from sqlglot import exp

    from livingdb.engines.engine_choice import answer_request
    from livingdb.engines.request import Request, Source
    from livingdb.sql.table_names import check_sources, table_nodes

    query = parse_query(text)
    check_sources(query)
    sources: dict[str, Source] = {}
    for table in table_nodes(query):
        if table.db or not isinstance(table.this, exp.Identifier):
            raise InvalidData(f"sql: {table.sql('spark')} is none of {_known_tables(pending)}")
        name = f"given_{len(sources)}"
        sources[name] = Source(_relation(pending, table.name))
        if not table.alias:
            table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name, quoted=True)))
        table.set("this", exp.to_identifier(name))
    request = Request(query, sources)
    if pending.sync.frequency == "immediate" and isinstance(request.portable, str):
        raise _not_portable(request.portable)
    is_embedded = pending.sync.spec.get("engine") == "embedded"
    return answer_request(request, "embedded" if is_embedded else None)[0]


def _relation(pending: PendingChange, name: str) -> RowSet | pa.Table:
    wanted = name.casefold()
    for of in ("target", "source"):
        for table, both in pending.side(of).items():
            mine, is_target = table.casefold(), of == "target"
            version = both.new or both.old
            if version is None:
                continue
            if wanted == mine or (wanted == mine + _SOURCE and not is_target):
                rows = pending.rows(table, of)
                return _empty_table(pending, table, of) if rows is None else rows
            if wanted == mine + _BEFORE:
                rows = pending.rows(table, of, old=True)
                return _empty_table(pending, table, of) if rows is None else rows
            if wanted == mine + _CHANGE:
                return pending.come(table, of).select(pending.schema(table, of).arrow.names)
    raise NotFound(f"sql: there is no table {name!r} here; there are {_known_tables(pending)}")


def _empty_table(pending: PendingChange, table: str, of: str) -> pa.Table:
    return pending.schema(table, of).arrow.empty_table()


def _known_tables(pending: PendingChange) -> str:
    targets = [f"{name}, {name}{_BEFORE}, {name}{_CHANGE}" for name in pending.targets]
    return ", ".join([*targets, *(name for name in pending.sources)]) or "none"
