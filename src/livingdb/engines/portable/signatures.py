"""The whitelist: functions and operators that DuckDB and Spark are tested to answer alike.

A signature has the text as it is written, the node sqlglot reads it as, the kinds of its
arguments and the type Spark gives the result.  What is not here goes to Spark.  Every line is
run on both engines with awkward values by `tests/spark/test_portable.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from livingdb.engines.portable.result_types import (
    addition_type,
    average_type,
    common_type_of_rest,
    comparison_type,
    first_type,
    integral_type,
    negation_type,
    pmod_type,
    product_type,
    quotient_type,
    remainder_type,
    rounding_type,
    sum_type,
)
from livingdb.engines.spark_types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    INTEGERS,
    NUMBERS,
    STRING,
    TIMESTAMP,
    common_type,
)

__all__ = ["AGGREGATES", "CASTS", "FUNCTIONS", "GROUPS", "WINDOWED", "Signature"]

Rule = Callable[[Sequence[pa.DataType], Sequence[exp.Expr]], pa.DataType | None]

_PLAIN = ("boolean", *NUMBERS, "string", "binary", "date", "timestamp", "timestamp_ntz")
GROUPS: dict[str, tuple[str, ...]] = {
    "any": (*_PLAIN, "array", "struct", "map", "null"),
    "day": ("date", "timestamp", "timestamp_ntz"),
    "exact": (*INTEGERS, "decimal"),
    "float": ("float", "double"),
    "integer": INTEGERS,
    "inexact": (*INTEGERS, "float", "double"),
    "moment": ("timestamp", "timestamp_ntz"),
    "number": NUMBERS,
    "plain": _PLAIN,
    "small": ("tinyint", "smallint", "int"),
    "value": (*_PLAIN, "null"),
}
"""Names for several kinds.  Words in capitals name literals; see `literals`."""


@dataclass(frozen=True)
class Signature:
    """One way to call a function.  `*` after the last kind: once or more."""

    text: str
    node: type[exp.Expr] | str
    kinds: tuple[str, ...]
    result: pa.DataType | Rule


def _signatures(
    *lines: tuple[str, type[exp.Expr] | str, str, pa.DataType | Rule],
) -> tuple[Signature, ...]:
    return tuple(
        Signature(text, node, tuple(kinds.split()), result) for text, node, kinds, result in lines
    )


def _common_type(types: Sequence[pa.DataType], nodes: Sequence[exp.Expr]) -> pa.DataType | None:
    return common_type(types)


FUNCTIONS = _signatures(
    # arithmetic
    ("{} + {}", exp.Add, "number number", addition_type),
    ("{} - {}", exp.Sub, "number number", addition_type),
    ("{} * {}", exp.Mul, "number number", product_type),
    ("{} / {}", exp.Div, "number number", quotient_type),
    ("{} div {}", exp.IntDiv, "integer integer", BIGINT),
    ("{} % {}", exp.Mod, "number number", remainder_type),
    ("pmod({}, {})", "pmod", "integer COUNT", pmod_type),
    ("-{}", exp.Neg, "number", negation_type),
    ("abs({})", exp.Abs, "number", negation_type),
    ("sign({})", exp.Sign, "number", DOUBLE),
    ("ceil({})", exp.Ceil, "number", integral_type),
    ("floor({})", exp.Floor, "number", integral_type),
    ("round({})", exp.Round, "exact", rounding_type),
    ("round({}, {})", exp.Round, "exact DIGITS", rounding_type),
    ("round({})", exp.Round, "double", first_type),
    ("round({}, {})", exp.Round, "double DIGITS", first_type),
    ("{} & {}", exp.BitwiseAnd, "integer integer", _common_type),
    ("{} | {}", exp.BitwiseOr, "integer integer", _common_type),
    ("{} ^ {}", exp.BitwiseXor, "integer integer", _common_type),
    ("~{}", exp.BitwiseNot, "integer", first_type),
    ("sqrt({})", exp.Sqrt, "inexact", DOUBLE),
    ("exp({})", exp.Exp, "inexact", DOUBLE),
    ("ln({})", exp.Ln, "inexact", DOUBLE),
    ("log({}, {})", exp.Log, "BASE inexact", DOUBLE),
    ("isnan({})", exp.IsNan, "inexact", BOOLEAN),
    # text
    ("upper({})", exp.Upper, "string", STRING),
    ("lower({})", exp.Lower, "string", STRING),
    ("length({})", exp.Length, "string", INT),
    ("bit_length({})", exp.BitLength, "string", INT),
    ("trim({})", exp.Trim, "string", STRING),
    ("ltrim({})", exp.Trim, "string", STRING),
    ("rtrim({})", exp.Trim, "string", STRING),
    ("trim(BOTH {1} FROM {0})", exp.Trim, "string LETTERS", STRING),
    ("trim(LEADING {1} FROM {0})", exp.Trim, "string LETTERS", STRING),
    ("trim(TRAILING {1} FROM {0})", exp.Trim, "string LETTERS", STRING),
    ("reverse({})", exp.Reverse, "string", STRING),
    ("substring({}, {})", exp.Substring, "string int", STRING),
    ("substring({}, {}, {})", exp.Substring, "string int int", STRING),
    ("left({}, {})", exp.Left, "string int", STRING),
    ("right({}, {})", exp.Right, "string int", STRING),
    ("repeat({}, {})", exp.Repeat, "string SIZE", STRING),
    ("lpad({}, {}, {})", exp.Pad, "string SIZE LETTERS", STRING),
    ("rpad({}, {}, {})", exp.Pad, "string SIZE LETTERS", STRING),
    ("replace({}, {}, {})", exp.Replace, "string string string", STRING),
    ("translate({}, {}, {})", exp.Translate, "string LETTERS LETTERS", STRING),
    ("concat({}, {})", exp.Concat, "string*", STRING),
    ("{} || {}", exp.DPipe, "string string", STRING),
    ("concat_ws({}, {})", exp.ConcatWs, "string string*", STRING),
    ("instr({}, {})", exp.StrPosition, "string string", INT),
    ("{} LIKE {}", exp.Like, "string LIKED", BOOLEAN),
    ("{} NOT LIKE {}", exp.Like, "string LIKED", BOOLEAN),
    ("{} RLIKE {}", exp.RegexpLike, "string PATTERN", BOOLEAN),
    ("regexp_replace({}, {}, {})", exp.RegexpReplace, "string PATTERN WORD", STRING),
    ("startswith({}, {})", exp.StartsWith, "string string", BOOLEAN),
    ("endswith({}, {})", exp.EndsWith, "string string", BOOLEAN),
    ("contains({}, {})", exp.Contains, "string string", BOOLEAN),
    ("md5({})", exp.MD5, "string", STRING),
    ("sha2({}, {})", exp.SHA2, "string BITS", STRING),
    # values
    ("{} = {}", exp.EQ, "value value", comparison_type),
    ("{} <> {}", exp.NEQ, "value value", comparison_type),
    ("{} < {}", exp.LT, "value value", comparison_type),
    ("{} <= {}", exp.LTE, "value value", comparison_type),
    ("{} > {}", exp.GT, "value value", comparison_type),
    ("{} >= {}", exp.GTE, "value value", comparison_type),
    ("{} <=> {}", exp.NullSafeEQ, "value value", comparison_type),
    ("{} IS DISTINCT FROM {}", exp.NullSafeNEQ, "value value", comparison_type),
    ("coalesce({}, {})", exp.Coalesce, "value*", _common_type),
    ("nullif({}, {})", exp.Nullif, "value value", first_type),
    ("nvl2({}, {}, {})", exp.Nvl2, "value value value", common_type_of_rest),
    ("greatest({}, {})", exp.Greatest, "value*", _common_type),
    ("least({}, {})", exp.Least, "value*", _common_type),
    ("isnull({})", "isnull", "any", BOOLEAN),
    ("isnotnull({})", "isnotnull", "any", BOOLEAN),
    ("NOT {}", exp.Not, "boolean", BOOLEAN),
    ("{} AND {}", exp.And, "boolean boolean", BOOLEAN),
    ("{} OR {}", exp.Or, "boolean boolean", BOOLEAN),
    # days and moments
    ("year({})", exp.Year, "day", INT),
    ("month({})", exp.Month, "day", INT),
    ("day({})", exp.Day, "day", INT),
    ("dayofmonth({})", exp.DayOfMonth, "day", INT),
    ("dayofyear({})", exp.DayOfYear, "day", INT),
    ("dayofweek({})", exp.DayOfWeek, "day", INT),
    ("weekday({})", "weekday", "day", INT),
    ("weekofyear({})", exp.WeekOfYear, "day", INT),
    ("quarter({})", exp.Quarter, "day", INT),
    ("hour({})", exp.Hour, "moment", INT),
    ("minute({})", exp.Minute, "moment", INT),
    ("second({})", exp.Second, "moment", INT),
    ("extract({} FROM {})", exp.Extract, "PART day", INT),
    ("to_date({})", exp.TsOrDsToDate, "day", DATE),
    ("last_day({})", exp.LastDay, "day", DATE),
    ("date_add({0}, {1})", exp.TsOrDsAdd, "day small DAY", DATE),
    ("add_months({}, {})", exp.AddMonths, "day small", DATE),
    ("datediff({}, {})", exp.DateDiff, "day day", INT),
    ("trunc({1}, {0})", exp.DateTrunc, "DAYS day", DATE),
    ("date_trunc({1}, {0})", exp.TimestampTrunc, "day UNIT", TIMESTAMP),
    ("{} + {}", exp.Add, "date small", DATE),
    ("{} - {}", exp.Sub, "date small", DATE),
    ("unix_date({})", exp.UnixDate, "date", INT),
    ("date_from_unix_date({})", exp.DateFromUnixDate, "int", DATE),
    ("unix_seconds({})", exp.UnixSeconds, "timestamp", BIGINT),
    ("unix_millis({})", exp.UnixMillis, "timestamp", BIGINT),
    ("unix_micros({})", exp.UnixMicros, "timestamp", BIGINT),
)

AGGREGATES = _signatures(
    ("count({})", exp.Count, "any*", BIGINT),
    ("sum({})", exp.Sum, "number", sum_type),
    ("avg({})", exp.Avg, "inexact", DOUBLE),
    ("avg({})", exp.Avg, "decimal", average_type),
    ("min({})", exp.Min, "plain", first_type),
    ("max({})", exp.Max, "plain", first_type),
    ("stddev({})", exp.Stddev, "inexact", DOUBLE),
    ("stddev_samp({})", exp.StddevSamp, "inexact", DOUBLE),
    ("stddev_pop({})", exp.StddevPop, "integer", DOUBLE),
    ("variance({})", exp.Variance, "inexact", DOUBLE),
    ("var_pop({})", exp.VariancePop, "integer", DOUBLE),
    ("bool_and({})", exp.LogicalAnd, "boolean", BOOLEAN),
    ("bool_or({})", exp.LogicalOr, "boolean", BOOLEAN),
    ("every({})", "every", "boolean", BOOLEAN),
    ("some({})", "some", "boolean", BOOLEAN),
    ("count_if({})", exp.CountIf, "boolean", BIGINT),
    ("bit_and({})", exp.BitwiseAndAgg, "integer", first_type),
    ("bit_or({})", exp.BitwiseOrAgg, "integer", first_type),
    ("bit_xor({})", exp.BitwiseXorAgg, "integer", first_type),
    ("median({})", exp.Median, "integer", DOUBLE),
)

WINDOWED = _signatures(
    ("row_number()", exp.RowNumber, "", INT),
    ("rank()", exp.Rank, "", INT),
    ("dense_rank()", exp.DenseRank, "", INT),
    ("percent_rank()", exp.PercentRank, "", DOUBLE),
    ("cume_dist()", exp.CumeDist, "", DOUBLE),
    ("ntile({})", exp.Ntile, "COUNT", INT),
    ("lag({})", exp.Lag, "any", first_type),
    ("lag({}, {})", exp.Lag, "any COUNT", first_type),
    ("lead({})", exp.Lead, "any", first_type),
    ("lead({}, {})", exp.Lead, "any COUNT", first_type),
    ("first_value({})", exp.FirstValue, "any", first_type),
    ("last_value({})", exp.LastValue, "any", first_type),
    ("first({})", exp.First, "any", first_type),
    ("last({})", exp.Last, "any", first_type),
)
"""These need OVER; so may aggregates be written, but for those with DISTINCT."""

CASTS: dict[str, tuple[str, ...]] = {
    "boolean": ("boolean", "string", *INTEGERS, "double", "decimal"),
    "tinyint": ("boolean", "string", *NUMBERS),
    "smallint": ("boolean", "string", *NUMBERS),
    "int": ("boolean", "string", *NUMBERS),
    "bigint": ("boolean", "string", *NUMBERS),
    "float": ("boolean", "float", "double", *INTEGERS),
    "double": ("boolean", "double", "decimal", *INTEGERS),
    "decimal": ("boolean", "string", "double", "decimal", *INTEGERS),
    "string": ("boolean", "string", "binary", "date", "double", "decimal", *INTEGERS),
    "binary": ("binary",),
    "date": ("string", "date", "timestamp", "timestamp_ntz"),
    "timestamp": ("string", "date", "timestamp", "timestamp_ntz", "bigint"),
    "timestamp_ntz": ("string", "date", "timestamp", "timestamp_ntz"),
}
"""From a kind to the kinds it may be cast to."""
