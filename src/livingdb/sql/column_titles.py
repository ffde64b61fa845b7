"""What the columns of a result are called: as Spark calls them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from sqlglot import exp

from livingdb.engines.spark_text import spark_text
from livingdb.sql.spark_grammar import WRITTEN_NAME, WRITTEN_PLACE, WRITTEN_UNIT

__all__ = ["title_of", "with_spark_titles"]


def with_spark_titles(query: exp.Query, table: pa.Table) -> pa.Table:
    """The result of the query with Spark's names for the columns that are given none.

    Columns that a star stands for keep the names of their tables.
    """
    select: exp.Expr = query
    while isinstance(select, (exp.SetOperation, exp.Subquery)):
        select = select.this
    if not isinstance(select, exp.Select):
        return table
    titles = [title_of(item) for item in select.expressions]
    wide = [at for at, title in enumerate(titles) if title is None]
    first, last = (wide[0], wide[-1] + 1) if wide else (len(titles), len(titles))
    names = list(table.column_names)
    after = titles[last:]
    if len(names) < first + len(after):
        return table
    names[:first] = [str(title) for title in titles[:first]]
    names[len(names) - len(after) :] = [str(title) for title in after]
    return table.rename_columns(names)


def title_of(item: exp.Expr) -> str | None:
    """The name of an item's column; None where an item may stand for several."""
    if isinstance(item, exp.Alias):
        return str(item.alias)
    if isinstance(item, exp.Explode) and not isinstance(item, (exp.Posexplode, exp.Inline)):
        return "col"
    several = (exp.Star, exp.Explode, exp.Posexplode, exp.Inline, exp.Unnest, exp.Aliases)
    if item.is_star or (item.find(*several) and not item.find(exp.Count)):
        return None
    return _title(item)


def _title(node: exp.Expr) -> str:
    """An expression as Spark writes it in a name: quotes are left out, operators in parentheses."""
    how = _WRITTEN.get(type(node))
    if how is not None:
        return how(node)
    if isinstance(node, exp.Mod) and str(node.meta.get(WRITTEN_NAME)).lower() == "mod":
        return f"mod({_title(node.this)}, {_title(node.expression)})"
    if isinstance(node, exp.Binary) and type(node) in _OPERATORS:
        return f"({_title(node.this)} {_OPERATORS[type(node)]} {_title(node.expression)})"
    if isinstance(node, exp.Func):
        return _call(node)
    return spark_text(node, normalize_functions="lower")


def _titles(nodes: list[exp.Expr]) -> str:
    return ", ".join(map(_title, nodes))


# --- calls --------------------------------------------------------------------------------------

_UPPER = """
    acos acosh asin asinh atan atan2 atanh cbrt ceil cos cosh exp expm1 floor log log10 log1p log2
    power pow rint sin sinh sqrt tan tanh
"""
_upper = frozenset(_UPPER.split())
"""Functions that Spark writes in capitals."""
_FULL = {"substring": 3, "substr": 3, "lag": 3, "lead": 3, "locate": 3, "position": 3}
_REST = {"substring": ["2147483647"], "substr": ["2147483647"], "locate": ["1"], "position": ["1"]}
_REST |= {"lag": ["1", "NULL"], "lead": ["1", "NULL"]}
"""What Spark writes for arguments that were left out."""


def _call(node: exp.Func) -> str:
    """A call by the name it was written with."""
    name = str(node.meta.get(WRITTEN_NAME) or "").lower()
    if isinstance(node, exp.Anonymous):
        name = node.name.lower()
    if not name:
        return spark_text(_unstarred(node), normalize_functions="lower")
    if isinstance(node, exp.Struct):
        arguments = [part for item in node.expressions for part in _field(item, name)]
    else:
        arguments = [_title(argument) for argument in _arguments(node)]
    if name in _FULL:
        missing = _FULL[name] - len(arguments)
        arguments += _REST[name][-missing:] if missing else []
    if name in ("sign", "signum"):
        name = name if name == "sign" else "SIGNUM"
    return f"{name.upper() if name in _upper else name}({', '.join(arguments)})"


def _field(item: exp.Expr, name: str) -> list[str]:
    """A field of a struct, as a call of that name has it."""
    if not isinstance(item, exp.PropertyEQ):
        return [_title(item)]
    label, value = _title(item.this), _title(item.expression)
    if name == "named_struct":
        return [label, value]
    return [value if re.fullmatch(r"col\d+", label) else f"{value} AS {label}"]


def _arguments(node: exp.Func) -> list[exp.Expr]:
    """The arguments in the order they were written in."""
    if isinstance(node, exp.Anonymous):
        return list(node.expressions)
    if isinstance(node, exp.StrPosition) and WRITTEN_PLACE not in node.this.meta:
        return [node.args["substr"], node.this]
    found: list[exp.Expr] = []
    for key in node.arg_types:
        value = node.args.get(key)
        if isinstance(value, exp.Expr):
            found.append(value)
        elif isinstance(value, list):
            found += value
    written = [part for part in found if WRITTEN_PLACE in part.meta]
    return sorted(written, key=lambda part: part.meta[WRITTEN_PLACE]) if written else found


def _map(node: exp.VarMap) -> str:
    """Keys and values in turn, as they are written."""
    keys, values = (node.args[part].expressions for part in ("keys", "values"))
    pairs = zip(keys, values, strict=True)
    return f"map({_titles([item for pair in pairs for item in pair])})"


def _unstarred(node: exp.Expr) -> exp.Expr:
    plain = node.copy()
    for star in list(plain.find_all(exp.Star)):
        if isinstance(star.parent, exp.Count):
            star.replace(exp.Literal.number(1))
    return plain


def _count(node: exp.Count) -> str:
    if isinstance(node.this, exp.Star):
        return "count(1)"
    return _call(node)


def _distinct(node: exp.Distinct) -> str:
    return f"DISTINCT {_titles(node.expressions)}"


def _window(node: exp.Window) -> str:
    order, spec = node.args.get("order"), node.args.get("spec")
    parts = []
    if node.args.get("partition_by"):
        parts.append(f"PARTITION BY {_titles(node.args['partition_by'])}")
    if order is not None:
        parts.append(f"ORDER BY {_titles(order.expressions)}")
    parts.append(_frame(node.this, order, spec))
    return f"{_title(node.this)} OVER ({' '.join(parts)})"


def _frame(call: exp.Expr, order: exp.Expr | None, spec: exp.Expr | None) -> str:
    if isinstance(call, (exp.Lag, exp.Lead)):
        count = call.args.get("offset")
        number = "1" if count is None else _title(count)
        number = f"-{number}" if isinstance(call, exp.Lag) else number
        return f"ROWS BETWEEN {number} FOLLOWING AND {number} FOLLOWING"
    if spec is None:
        by_row = (exp.RowNumber, exp.Rank, exp.DenseRank, exp.PercentRank, exp.Ntile)
        kind = "ROWS" if isinstance(call, by_row) or order is None else "RANGE"
        end = "CURRENT ROW" if order is not None else "UNBOUNDED FOLLOWING"
        return f"{kind} BETWEEN UNBOUNDED PRECEDING AND {end}"
    ends = [
        _frame_end(spec.args.get(end), str(spec.args.get(f"{end}_side") or ""))
        for end in ("start", "end")
    ]
    return f"{str(spec.args.get('kind')).upper()} BETWEEN {ends[0]} AND {ends[1]}"


def _frame_end(end: object, side: str) -> str:
    if end is None:
        return "CURRENT ROW"
    if isinstance(end, exp.Expr):
        shown = _title(end)
        return f"-{shown} FOLLOWING" if side.upper() == "PRECEDING" else f"{shown} FOLLOWING"
    return f"{end} {side}".strip().upper()


def _ordered(node: exp.Ordered) -> str:
    is_last = bool(node.args.get("desc"))
    nulls_first = node.args.get("nulls_first")
    first = not is_last if nulls_first is None else bool(nulls_first)
    direction = "DESC" if is_last else "ASC"
    return f"{_title(node.this)} {direction} NULLS {'FIRST' if first else 'LAST'}"


# --- values -------------------------------------------------------------------------------------


def _column(node: exp.Column) -> str:
    return str(node.name)


def _cast(node: exp.Cast) -> str:
    kind = node.to.sql("spark").upper().replace(", ", ",")
    name = str(node.meta.get(WRITTEN_NAME) or "").lower()
    value = _title(node.this)
    if name in ("cast", "try_cast"):
        return f"{name.upper()}({value} AS {kind})"
    if name:  # Spark leaves out casts by the name of a type
        return value if name in _TYPES else f"{name}({value})"
    if not isinstance(node.this, exp.Literal):
        return f"CAST({value} AS {kind})"
    if not node.this.is_string:
        return value
    return f"{kind} '{value}'" if kind.startswith(_TIMES) else f"CAST({value} AS {kind})"


_TIMES = ("DATE", "TIMESTAMP")
_TYPES = (
    *("bigint", "binary", "boolean", "date", "decimal", "double", "float", "int", "smallint"),
    *("string", "timestamp", "tinyint"),
)


def _extract(node: exp.Extract) -> str:
    name = str(node.meta.get(WRITTEN_NAME) or "extract")
    unit = node.meta.get(WRITTEN_UNIT, node.this.name)
    return f"{name}({unit} FROM {_title(node.expression)})"


def _negative(node: exp.Neg) -> str:
    is_number = isinstance(node.this, exp.Literal) and not node.this.is_string
    return f"-{node.this.name}" if is_number else f"(- {_title(node.this)})"


def _not(node: exp.Not) -> str:
    inner = node.this
    if isinstance(inner, exp.Is) and isinstance(inner.expression, exp.Null):
        return f"({_title(inner.this)} IS NOT NULL)"
    return f"(NOT {_title(inner)})"


def _case(node: exp.Case) -> str:
    def condition(part: exp.Expr) -> str:
        found = _title(part.this)
        return found if node.this is None else f"({_title(node.this)} = {found})"

    parts = [f"WHEN {condition(p)} THEN {_title(p.args['true'])}" for p in node.args["ifs"]]
    default = node.args.get("default")
    parts += [] if default is None else [f"ELSE {_title(default)}"]
    return f"CASE {' '.join(parts)} END"


def _if(node: exp.If) -> str:
    parts = [node.this, node.args["true"], node.args.get("false") or exp.null()]
    return f"(IF({_titles(parts)}))"


def _trim(node: exp.Trim) -> str:
    side = str(node.args.get("position") or "").upper()
    letters = node.args.get("expression")
    if letters is not None:
        return f"TRIM({side or 'BOTH'} {_title(letters)} FROM {_title(node.this)})"
    name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(side, "trim")
    return f"{name}({_title(node.this)})"


def _anonymous(node: exp.Anonymous) -> str:
    tests = {"isnull": "IS NULL", "isnotnull": "IS NOT NULL"}
    test = tests.get(node.name.lower())
    return _call(node) if test is None else f"({_titles(node.expressions)} {test})"


_OPERATORS: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.And: "AND",
    exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
    exp.BitwiseXor: "^",
    exp.Div: "/",
    exp.EQ: "=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.IntDiv: "div",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.Mod: "%",
    exp.Mul: "*",
    exp.NullSafeEQ: "<=>",
    exp.Or: "OR",
    exp.Sub: "-",
}
_WRITTEN: dict[type[exp.Expr], Callable[[Any], str]] = {
    exp.Alias: lambda node: str(node.alias),
    exp.Anonymous: _anonymous,
    exp.Between: lambda node: (
        f"between({_titles([node.this, node.args['low'], node.args['high']])})"
    ),
    exp.Boolean: lambda node: "true" if node.this else "false",
    exp.Case: _case,
    exp.Cast: _cast,
    exp.Column: _column,
    exp.Concat: lambda node: f"concat({_titles(node.expressions)})",
    exp.Count: _count,
    exp.DPipe: lambda node: f"concat({_titles([node.this, node.expression])})",
    exp.Distinct: _distinct,
    exp.Extract: _extract,
    exp.Dot: lambda node: f"{_title(node.this)}.{node.expression.name}",
    exp.Filter: lambda node: f"{_title(node.this)} FILTER (WHERE {_title(node.expression.this)})",
    exp.If: _if,
    exp.In: lambda node: (
        spark_text(node)
        if node.args.get("query")
        else f"({_title(node.this)} IN ({_titles(node.expressions)}))"
    ),
    exp.Is: lambda node: f"({_title(node.this)} IS {_title(node.expression)})",
    exp.Like: lambda node: f"{_title(node.this)} LIKE {_title(node.expression)}",
    exp.Literal: lambda node: str(node.this),
    exp.NEQ: lambda node: f"(NOT ({_title(node.this)} = {_title(node.expression)}))",
    exp.Neg: _negative,
    exp.Not: _not,
    exp.Null: lambda node: "NULL",
    exp.Ordered: _ordered,
    exp.Paren: lambda node: _title(node.this),
    exp.Trim: _trim,
    exp.TryCast: _cast,
    exp.VarMap: _map,
    exp.Window: _window,
}
"""How Spark writes what is neither a call nor an operator between two operands."""
