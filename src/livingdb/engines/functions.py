"""Functions with Spark's meaning, where DuckDB has none of the name or means another thing.

Those that stand for Spark's operators and for functions DuckDB reads differently begin with
`spark_`; the SQL front end puts them where the others would be.
"""

from __future__ import annotations

__all__ = ["MACROS"]

_SUBSTRING_START = (
    "CASE WHEN start > 0 THEN start WHEN start = 0 THEN 1 "
    "ELSE greatest(length(source) + start, 0) + 1 END"
)


def _to_integer(name: str) -> str:
    """A cast that cuts a fraction off instead of rounding it, and takes no text with one."""
    is_whole = "regexp_full_match(trim(a), '[+-]?[0-9]+')"
    return (
        f"spark_to_{name}(a VARCHAR) AS "
        f"CAST(CASE WHEN {is_whole} THEN trim(a) ELSE '“' || a || '”' END AS {name}), "
        f"(a BOOLEAN) AS CAST(a AS {name}), (a BIGINT) AS CAST(a AS {name}), "
        f"(a DATE) AS CAST(CAST(a AS VARCHAR) AS {name}), "
        f"(a TIMESTAMPTZ) AS CAST(floor(epoch(a)) AS {name}), (a) AS CAST(trunc(a) AS {name})"
    )


MACROS: tuple[str, ...] = (
    *(_to_integer(name) for name in ("tinyint", "smallint", "int", "bigint")),
    # operators
    "spark_divide(a, b) AS "
    "CASE WHEN b = 0 AND a IS NOT NULL THEN 1 % CAST(b AS BIGINT) ELSE a / b END",
    # text
    f"spark_substring(source, start) AS substring(source, {_SUBSTRING_START})",
    f"spark_substring3(source, start, size) AS substring(source, {_SUBSTRING_START}, "
    "greatest(CASE WHEN length(source) + start < 0 AND start < 0 "
    "THEN size + length(source) + start ELSE size END, 0))",
    "spark_split(source, pattern) AS string_split_regex(source, pattern)",
    "spark_array_size(list) AS CASE WHEN list IS NULL THEN NULL ELSE CAST(len(list) AS INTEGER) "
    "END",
    "spark_to_string(a BLOB) AS decode(a), (a) AS "
    "CASE WHEN typeof(a) = 'TIMESTAMP WITH TIME ZONE' "
    "THEN regexp_replace(CAST(a AS VARCHAR), '[+]00$', '') ELSE CAST(a AS VARCHAR) END",
    "char_length(source) AS length(source)",
    "space(n) AS repeat(' ', n)",
    # numbers
    "pmod(a, b) AS ((a % b) + b) % b",
    "bround(a) AS round_even(a, 0)",
    "rint(a) AS round_even(a, 0)",
    "negative(a) AS -a",
    "positive(a) AS a",
    "hypot(a, b) AS sqrt(a * a + b * b)",
    "log1p(a) AS ln(1 + a)",
    "expm1(a) AS exp(a) - 1",
    "try_divide(a, b) AS CASE WHEN b = 0 THEN NULL ELSE a / b END",
    # dates
    "spark_date_add(day, days) AS CAST(day AS DATE) + CAST(days AS INTEGER)",
    "spark_dayofweek(day) AS dayofweek(CAST(day AS DATE)) + 1",
    "spark_weekday(day) AS isodow(CAST(day AS DATE)) - 1",
    "spark_unix_timestamp(a VARCHAR) AS CAST(epoch(CAST(a AS TIMESTAMP)) AS BIGINT), "
    "(a) AS CAST(floor(epoch(a)) AS BIGINT)",
    "unix_date(day) AS date_diff('day', DATE '1970-01-01', CAST(day AS DATE))",
    "date_from_unix_date(days) AS DATE '1970-01-01' + CAST(days AS INTEGER)",
    "timestamp_seconds(a) AS to_timestamp(a)",
    "timestamp_millis(a) AS make_timestamptz(a * 1000)",
    "timestamp_micros(a) AS make_timestamptz(a)",
    "unix_micros(a) AS epoch_us(a)",
    "unix_millis(a) AS epoch_ms(a)",
    "unix_seconds(a) AS CAST(floor(epoch(a)) AS BIGINT)",
    # aggregates
    "every(a) AS bool_and(a)",
    "count_if(a) AS count(*) FILTER (WHERE a)",
    "spark_percentile(a, share) AS quantile_cont(a, share)",
    # others
    "isnotnull(a) AS a IS NOT NULL",
    "spark_isnull(a) AS a IS NULL",
)
