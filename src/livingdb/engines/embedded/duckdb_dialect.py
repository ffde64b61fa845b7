"""Translates Spark SQL syntax trees to DuckDB SQL.

sqlglot translates most of Spark's functions.  What it leaves to the reader is done here:
division, casts to integers, `substring`, `LIKE` with a backslash, dates and days, and functions
DuckDB calls differently.  Where `check_portability` annotated types, `typed_sql` does more: there
the meaning is Spark's to the type.

Known differences that remain without annotations:

- a quotient or an average of decimals is a double, a sum of decimals has 38 digits;
- a date and an interval add up to a timestamp;
- `round` of a double rounds the binary number, not its shortest text;
- text does not become a number by itself in arithmetic: cast it;
- the time zone of a session is UTC, and functions that neither engine macro nor sqlglot knows
  are `Unsupported`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sqlglot import ErrorLevel, exp
from sqlglot.errors import SqlglotError

from livingdb.engines.embedded.grouping_sql import write_grouping_sets
from livingdb.engines.embedded.spark_casts import cast_to_spark_type
from livingdb.engines.embedded.typed_sql import needs_cast, rewrite_typed
from livingdb.engines.embedded.value_sizes import limit_value_sizes
from livingdb.engines.portable.type_annotations import annotate_type, annotated_type
from livingdb.engines.trust import check_calls
from livingdb.errors import InvalidData, Unsupported
from livingdb.interruption import check_interruption

__all__ = ["NotEmbedded", "to_duckdb_sql"]


class NotEmbedded(Unsupported):
    """What the embedded engine cannot answer, although Spark may."""


_RENAMED = {
    "any": "bool_or",
    "every": "bool_and",
    "isnull": "spark_isnull",
    "some": "bool_or",
    "weekday": "spark_weekday",
}
_CASTS = {
    "bigint": "BIGINT",
    "binary": "BLOB",
    "boolean": "BOOLEAN",
    "decimal": "DECIMAL(10, 0)",
    "double": "DOUBLE",
    "float": "FLOAT",
    "int": "INT",
    "smallint": "SMALLINT",
    "string": "TEXT",
    "tinyint": "TINYINT",
}
_OWN = ("spark:try",)
"""What DuckDB has beside the list, and LivingDB writes into expressions itself."""
_UNITS = {"MM": "MONTH", "MON": "MONTH", "Q": "QUARTER", "YY": "YEAR", "YYYY": "YEAR"}
_INTEGERS = {
    exp.DataType.Type.TINYINT: "spark_to_tinyint",
    exp.DataType.Type.SMALLINT: "spark_to_smallint",
    exp.DataType.Type.INT: "spark_to_int",
    exp.DataType.Type.BIGINT: "spark_to_bigint",
}


def to_duckdb_sql(
    query: exp.Query, most_bytes: int | None = None, *, of_tables: bool = True
) -> str:
    """The query as DuckDB reads it; its tree is changed.

    `Untrusted` for a call of what is not on the list of functions.  Texts and lists that it makes
    take at most `most_bytes` in the rows that are computed together, but for a few times what
    tables hold; `of_tables`: it is tables that the query reads.
    """
    check_calls(query, _OWN)
    _check_writing(query)
    if most_bytes is not None:
        limit_value_sizes(query, most_bytes, of_tables=of_tables)
    for node in reversed(list(query.walk(bfs=True))):
        check_interruption()
        parent, key, index = node.parent, node.arg_key, node.index
        reworded = _rewrite_node(node)
        if reworded is not node and parent is not None and key is not None:
            parent.set(key, reworded, index)
    try:
        return query.sql("duckdb", unsupported_level=ErrorLevel.IGNORE, comments=False)
    except (AttributeError, IndexError, KeyError, SqlglotError, TypeError, ValueError):
        raise NotEmbedded("the embedded engine has no words for this statement") from None
    except RecursionError:
        raise NotEmbedded("the statement is nested too deeply for the embedded engine") from None


_WRITTEN_OFTEN: dict[type[exp.Expr] | str, int] = {
    exp.ArrayAppend: 2,
    exp.ArrayInsert: 2,
    exp.ArrayPrepend: 2,
    exp.ArraysZip: 6,
    exp.Cast: 3,
    exp.Ceil: 2,
    exp.Div: 2,
    exp.Floor: 2,
    exp.Initcap: 6,
    exp.Ln: 2,
    exp.Log: 2,
    exp.Lower: 3,
    exp.Mod: 3,
    exp.Repeat: 2,
    exp.Round: 4,
    exp.SafeDivide: 2,
    exp.Sign: 2,
    exp.Stuff: 2,
    exp.Substring: 4,
    exp.TryCast: 3,
    exp.Upper: 3,
    "pmod": 3,
}
"""How often the macros and DuckDB's words for a function have what it is given."""
_MOST_WRITTEN = 2_000_000


def _check_writing(query: exp.Expr) -> None:
    """`InvalidData` for functions in each other of which each is written with its argument often.

    Each level multiplies what engines have to read: forty of them would fill all memory.
    """
    total = 0
    pending = [(query, 1)]
    while pending:
        node, times = pending.pop()
        total += times
        if total > _MOST_WRITTEN:
            raise InvalidData("the statement is nested too deeply: too many functions in functions")
        kind = node.name.casefold() if isinstance(node, exp.Anonymous) else type(node)
        factor = _WRITTEN_OFTEN.get(kind, 1)
        pending += [(child, times * factor) for child in node.iter_expressions()]


def _rewrite_node(node: exp.Expr) -> exp.Expr:
    """The node in DuckDB's words; with a note of its type, exactly what Spark means by it."""
    data_type = annotated_type(node)
    found = rewrite_typed(node, data_type) if data_type is not None else None
    if found is None:
        reword = _REWRITERS.get(type(node))
        found = node if reword is None else reword(node)
    if data_type is None:
        return found
    made = cast_to_spark_type(found, data_type) if needs_cast(node, data_type) else found
    annotate_type(made, data_type)
    return made


def _call(name: str, *arguments: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=name, expressions=list(arguments))


def _cast(node: exp.Cast) -> exp.Expr:
    """A cast to an integer cuts fractions off; a timestamp is a moment and is written in UTC."""
    kind = node.to.this
    if kind in exp.DataType.TEXT_TYPES:
        return _call("spark_to_string", node.this)
    if kind in _INTEGERS:
        return _call(_INTEGERS[kind], node.this)
    if kind == exp.DataType.Type.TIMESTAMP:
        node.set("to", exp.DataType.build("timestamptz"))
    return node


def _try_cast(node: exp.TryCast) -> exp.Expr:
    kind = node.to.this
    return _call("TRY", _call(_INTEGERS[kind], node.this)) if kind in _INTEGERS else node


def _moment(node: exp.StrToTime) -> exp.Expr:
    """Text read as a time is a moment, in UTC."""
    return exp.Cast(this=node.copy(), to=exp.DataType.build("timestamptz"))


def _seconds(node: exp.StrToUnix) -> exp.Expr:
    """Seconds since 1970 of a time, or of text in the usual format."""
    pattern = node.args.get("format")
    if pattern is not None and pattern.name.replace("strict", "") != "%Y-%m-%d %H:%M:%S":
        return node
    return _call("spark_unix_timestamp", node.this)


def _repeat(node: exp.Repeat) -> exp.Expr:
    return _call("spark_repeat", node.this, node.args["times"])


def _pad(node: exp.Pad) -> exp.Expr:
    node.set("expression", _call("spark_length", node.expression))
    return node


def _average(node: exp.Avg) -> exp.Expr:
    """An average of doubles, as Spark adds them up."""
    given = node.this
    if isinstance(given, exp.Distinct):
        for item in given.expressions:
            item.replace(exp.Cast(this=item.copy(), to=exp.DataType.build("double")))
        return node
    node.set("this", exp.Cast(this=given, to=exp.DataType.build("double")))
    return node


def _count_if(node: exp.CountIf) -> exp.Expr:
    """The number of rows for which a condition holds, in words that take FILTER and OVER."""
    holds = exp.Nullif(this=node.this.copy(), expression=exp.false())
    return exp.Count(this=holds, big_int=True)


def _exists(node: exp.Exists) -> exp.Expr:
    """`exists(list, x -> …)`, not EXISTS with a query."""
    if not isinstance(node.expression, exp.Lambda):
        return node
    kept = exp.ArrayFilter(this=node.this, expression=node.expression)
    return exp.GT(this=_call("len", kept), expression=exp.Literal.number(0))


def _values(node: exp.Values) -> exp.Expr:
    if not isinstance(node.parent, (exp.From, exp.Join)) or not node.expressions:
        return node
    width = len(node.expressions[0].expressions)
    return _set_alias(node, "given", [f"col{at}" for at in range(1, width + 1)])


def _table(node: exp.Table) -> exp.Expr:
    """The only function among tables is `range`."""
    return _set_alias(node, "range", ["id"]) if isinstance(node.this, exp.Func) else node


def _lateral(node: exp.Lateral) -> exp.Expr:
    """LATERAL VIEW OUTER keeps a row whose list is empty or missing, with null for its item."""
    if not node.args.get("outer"):
        return node
    listed = node.this
    alias = node.args.get("alias")
    if type(listed) is not exp.Explode or alias is None or len(alias.columns) > 1:
        raise Unsupported("LATERAL VIEW OUTER goes with explode(list) here; engine='spark' has all")
    items = listed.this
    has_any = exp.GT(this=_call("len", items.copy()), expression=exp.Literal.number(0))
    none = exp.Array(expressions=[exp.Null()])
    listed.set("this", exp.Case(ifs=[exp.If(this=has_any, true=items.copy())], default=none))
    return node


def _number(node: exp.Literal) -> exp.Expr:
    """A whole number too large for bigint is a decimal."""
    if node.is_string or not node.name.isdecimal() or not 2**63 <= int(node.name) < 10**38:
        return node
    return exp.Cast(this=node.copy(), to=exp.DataType.build("decimal(38, 0)"))


def _substring(node: exp.Substring) -> exp.Expr:
    start, length = node.args.get("start"), node.args.get("length")
    if start is None:
        return node
    is_plain = isinstance(start, exp.Literal) and start.name.isdecimal() and int(start.name) > 0
    if is_plain:
        return node
    if length is None:
        return _call("spark_substring", node.this, start)
    return _call("spark_substring3", node.this, start, length)


def _like(node: exp.Like | exp.ILike) -> exp.Expr:
    """Spark's escape character is the backslash."""
    pattern = node.expression
    is_plain = isinstance(pattern, exp.Literal) and "\\" not in pattern.name
    if is_plain or isinstance(node.parent, exp.Escape) or isinstance(pattern, (exp.Any, exp.All)):
        return node
    return exp.Escape(this=node.copy(), expression=exp.Literal.string("\\"))


def _select(node: exp.Select) -> exp.Expr:
    """SORT BY and CLUSTER BY order the rows of each part of an answer, of which there is one."""
    part = node.args.get("sort") or node.args.get("cluster")
    if part is not None and node.args.get("order") is None:
        keys = (each.copy() for each in part.expressions)
        ordered = [
            key if isinstance(key, exp.Ordered) else exp.Ordered(this=key, nulls_first=True)
            for key in keys
        ]
        node.set("order", exp.Order(expressions=ordered))
    return write_grouping_sets(node)


def _trim(node: exp.Trim) -> exp.Expr:
    """Spark trims spaces, not every blank."""
    if node.expression is None:
        node.set("expression", exp.Literal.string(" "))
    return node


def _add_days(node: exp.TsOrDsAdd) -> exp.Expr:
    unit = node.args.get("unit")
    if unit is not None and unit.name.upper() not in ("DAY", "DAYS"):
        return node
    return _call("spark_date_add", node.this, node.expression)


def _as_day(node: exp.Expr) -> exp.Expr:
    """A function of days that gives a day."""
    return exp.Cast(this=node.copy(), to=exp.DataType.build("date"))


def _truncate_time(node: exp.DateTrunc | exp.TimestampTrunc) -> exp.Expr:
    unit = node.args.get("unit")
    name = unit.name.upper() if unit is not None else ""
    node.set("unit", exp.Literal.string(_UNITS.get(name, name)))
    return _as_day(node) if isinstance(node, exp.DateTrunc) else node


def _function(node: exp.Anonymous) -> exp.Expr:
    name = node.name.casefold()
    if name in _CASTS and len(node.expressions) == 1:
        made = exp.Cast(this=node.expressions[0], to=exp.DataType.build(_CASTS[name], "duckdb"))
        return _cast(made)
    if name in _RENAMED:
        return _call(_RENAMED[name], *node.expressions)
    return node


def _set_alias(source: exp.Expr, name: str, columns: Sequence[str]) -> exp.Expr:
    """Rows from no table under the names Spark gives them, where the query gives none."""
    alias = source.args.get("alias") or exp.TableAlias()
    if alias.this is None:
        alias.set("this", exp.to_identifier(name))
    if not alias.columns:
        alias.set("columns", [exp.to_identifier(column) for column in columns])
    source.set("alias", alias)
    return source


_REWRITERS: dict[type[exp.Expr], Callable[[Any], exp.Expr]] = {
    exp.AddMonths: _as_day,
    exp.Anonymous: _function,
    exp.Avg: _average,
    exp.ArraySize: lambda node: _call("spark_array_size", node.this),
    exp.BitwiseNot: lambda node: exp.Paren(this=node.copy()),
    exp.Cast: _cast,
    exp.CountIf: _count_if,
    exp.DateTrunc: _truncate_time,
    exp.DayOfWeek: lambda node: _call("spark_dayofweek", node.this),
    exp.Div: lambda node: _call("spark_divide", node.left, node.right),
    exp.Exists: _exists,
    exp.ILike: _like,
    exp.Lateral: _lateral,
    exp.Left: lambda node: _call("spark_left", node.this, node.expression),
    exp.Like: _like,
    exp.Literal: _number,
    exp.Pad: _pad,
    exp.Quantile: lambda node: _call("spark_percentile", node.this, node.args["quantile"]),
    exp.Repeat: _repeat,
    exp.Right: lambda node: _call("spark_right", node.this, node.expression),
    exp.Select: _select,
    exp.Space: lambda node: _call("space", node.this),
    exp.StrToTime: _moment,
    exp.StrToUnix: _seconds,
    exp.Substring: _substring,
    exp.Table: _table,
    exp.TimestampTrunc: _truncate_time,
    exp.Trim: _trim,
    exp.TryCast: _try_cast,
    exp.TsOrDsAdd: _add_days,
    exp.UnixMillis: lambda node: _call("unix_millis", node.this),
    exp.UnixSeconds: lambda node: _call("unix_seconds", node.this),
    exp.Values: _values,
}
