"""Which calls are aggregates, and which of them can be kept by adding."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
from sqlglot import exp

from livingdb.engines.embedded.macros import MACROS
from livingdb.engines.portable.signature_matching import CALLS

__all__ = [
    "additive_part",
    "aggregates_in",
    "is_aggregate",
    "is_exact",
    "is_summable",
    "unmaintainable_function",
]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_AGGREGATES = _words("""
    any any_value approx_count_distinct approx_percentile array_agg bit_and bit_or bit_xor
    bitmap_construct_agg bitmap_or_agg bool_and bool_or collect_list collect_set corr count_if
    count_min_sketch covar_pop covar_samp every first first_value grouping grouping_id
    histogram_numeric hll_sketch_agg hll_union_agg kurtosis last last_value listagg max_by mean
    median min_by mode percentile percentile_approx percentile_cont percentile_disc product
    regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy
    schema_of_json_agg skewness some std stddev string_agg try_avg try_sum var_pop var_samp
    variance
""")
_SCALARS = _words("""
    abs aggregate array array_contains array_distinct array_join array_max array_min
    array_position array_sort arrays_zip ascii base64 bin bround cardinality cbrt ceiling char
    chr concat_ws conv cos cosh cot crc32 date_format date_from_unix_date decode degrees
    element_at elt encode exists factorial filter find_in_set flatten forall format_string
    from_unixtime get greatest hash hex ifnull initcap isnotnull isnull least levenshtein
    locate make_date map map_entries map_keys map_values md5 mod named_struct nanvl negative
    next_day nullif nvl nvl2 octet_length pmod position positive power printf quarter radians
    regexp_extract regexp_extract_all reverse rint sequence sha sha1 sha2 shiftleft shiftright
    size slice sort_array soundex space split split_part sqrt str_to_map struct substring_index
    tan tanh to_char to_number transform try_add try_divide try_multiply try_subtract
    try_to_number unbase64 unhex weekday width_bucket xxhash64 zip_with
""")
_MACROS = frozenset(macro.partition("(")[0].strip().casefold() for macro in MACROS)
_KNOWN = _SCALARS | _MACROS | frozenset(key for key in CALLS if isinstance(key, str))
_RANDOM = _words("""
    input_file_block_length input_file_block_start input_file_name java_method
    monotonically_increasing_id rand randn random randstr reflect shuffle spark_partition_id
    try_reflect uniform uuid
""")
_TIMED = _words("""
    curdate current_catalog current_database current_date current_schema current_time
    current_timestamp current_timezone current_user localtimestamp now session_user
    user version
""")
_RANDOM_NODES = (exp.Rand, exp.Randn, exp.Uuid)
_TIMED_NODES = (
    exp.CurrentDate,
    exp.CurrentTimestamp,
    exp.CurrentDatetime,
    exp.CurrentTime,
    exp.CurrentUser,
    exp.Localtimestamp,
)
_ORDERED = (exp.RowNumber, exp.Ntile, exp.PercentRank, exp.CumeDist)


def unmaintainable_function(query: exp.Expr) -> str | None:
    """The reason why functions of a query keep it from being maintained; None if none does."""
    for node in query.walk():
        name = node.name.casefold() if isinstance(node, exp.Anonymous) else ""
        if isinstance(node, _RANDOM_NODES) or name in _RANDOM:
            return "NOT_DETERMINISTIC"
        if isinstance(node, _TIMED_NODES) or name in _TIMED:
            return "TIME_DEPENDENT"
        if name and name not in _KNOWN and name not in _AGGREGATES:
            return "UNKNOWN_FUNCTION"
    return None


def is_aggregate(node: exp.Expr) -> bool:
    """Whether a node is a call of an aggregate, which may have a FILTER or an order."""
    if isinstance(node, (exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)):
        return is_aggregate(node.this)
    if isinstance(node, exp.Anonymous):
        return node.name.casefold() in _AGGREGATES
    return isinstance(node, exp.AggFunc) and not isinstance(node, _ORDERED)


def aggregates_in(expression: exp.Expr) -> Iterator[exp.Expr]:
    """The aggregates of an expression that are not in a query and not called over a window."""
    if isinstance(expression, (exp.Query, exp.Subquery)):
        return
    if isinstance(expression, exp.Window):
        for inner in _window_operands(expression):
            yield from aggregates_in(inner)
        return
    if is_aggregate(expression):
        yield expression
        return
    for child in expression.iter_expressions():
        yield from aggregates_in(child)


def _window_operands(window: exp.Window) -> Iterator[exp.Expr]:
    """The expressions a window is over: all but the function itself."""
    call = window.this
    while isinstance(call, (exp.Filter, exp.IgnoreNulls, exp.RespectNulls)):
        if isinstance(call, exp.Filter):
            yield call.expression
        call = call.this
    yield from call.iter_expressions()
    for name, value in window.args.items():
        for item in value if isinstance(value, list) else [value]:
            if name != "this" and isinstance(item, exp.Expr):
                yield item


def additive_part(call: exp.Expr) -> tuple[str, exp.Expr | None] | None:
    """What an aggregate adds up: "count", "sum", "avg", "min" or "max" of an expression.

    Counting without an expression is of rows; None if it cannot be kept by adding.
    """
    condition = None
    if isinstance(call, exp.Filter):
        condition, call = call.expression.this, call.this
    if isinstance(call, exp.CountIf):
        both = [call.this, *([condition] if condition is not None else [])]
        one = exp.Literal.number(1)
        made: exp.Expr = one
        for item in both:
            made = exp.Case(ifs=[exp.If(this=item.copy(), true=made)])
        return "count", made
    kinds: dict[type[exp.Expr], str] = {
        exp.Count: "count",
        exp.Sum: "sum",
        exp.Avg: "avg",
        exp.Min: "min",
        exp.Max: "max",
    }
    kind = kinds.get(type(call))
    value = call.this
    extra = [v for k, v in call.args.items() if v and k not in ("this", "big_int")]
    if kind is None or extra or isinstance(value, exp.Distinct) or value is None:
        return None
    is_rows = isinstance(value, (exp.Star, exp.Literal)) and kind == "count"
    if condition is None:
        return (kind, None) if is_rows else (kind, value)
    chosen = exp.Literal.number(1) if is_rows else value.copy()
    return kind, exp.Case(ifs=[exp.If(this=condition.copy(), true=chosen)])


def is_exact(expression: exp.Expr, types: Mapping[tuple[str, str], pa.DataType | None]) -> bool:
    """Whether an expression calculates with integers and decimals only, whatever its type."""
    if isinstance(expression, exp.Column):
        kind = types.get((expression.table, expression.name))
        return kind is not None and is_summable("sum", kind)
    if isinstance(expression, exp.Literal):
        return not expression.is_string and "e" not in expression.name.lower()
    if isinstance(expression, (exp.Add, exp.Sub, exp.Mul)):
        return is_exact(expression.this, types) and is_exact(expression.expression, types)
    if isinstance(expression, exp.Case):
        results = [part.args["true"] for part in expression.args["ifs"]]
        default = expression.args.get("default")
        results += [default] if default is not None else []
        return all(is_exact(result, types) for result in results)
    return isinstance(expression, (exp.Paren, exp.Neg)) and is_exact(expression.this, types)


def is_summable(kind: str, data_type: pa.DataType | None) -> bool:
    """Whether an aggregate over values of a type can be kept by adding."""
    if kind == "count":
        return True
    if data_type is None:
        return False
    if kind in ("sum", "avg"):
        return bool(pa.types.is_integer(data_type) or pa.types.is_decimal(data_type))
    plain = (pa.types.is_integer, pa.types.is_decimal, pa.types.is_string, pa.types.is_binary)
    times = (pa.types.is_date, pa.types.is_timestamp)
    return any(is_kind(data_type) for is_kind in (*plain, *times))
