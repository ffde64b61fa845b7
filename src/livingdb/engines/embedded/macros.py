"""Functions with Spark's meaning, where DuckDB has none of the name or means another thing.

Those that stand for Spark's operators and for functions DuckDB reads differently begin with
`spark_`; the SQL front end puts them where the others would be.
"""

from __future__ import annotations

from livingdb.engines.embedded.letter_case import CASE_MACROS, DIGITS, FOREIGN_DIGITS

__all__ = ["MACROS"]

_BLANKS = "[\\x00-\\x20\\x7f]*"
_INTEGER = f"{_BLANKS}([+-]?[0-9]+){_BLANKS}"
_DECIMAL = f"{_BLANKS}([+-]?(?:[0-9]+[.]?[0-9]*|[.][0-9]+)(?:[eE][+-]?[0-9]+)?)"
_NUMBER = f"{_DECIMAL}[dDfF]?{_BLANKS}"
_YES = f"(?i){_BLANKS}(t|true|y|yes|1){_BLANKS}"
_NO = f"(?i){_BLANKS}(f|false|n|no|0){_BLANKS}"
_WORDS = f"(?i){_BLANKS}([+-]?(?:inf|infinity)|nan){_BLANKS}"
_DAY = (
    f"(?s){_BLANKS}([+-]?[0-9]{{4,7}})(?:-([0-9]{{1,2}})(?:-([0-9]{{1,2}})(?:[ T].*)?)?)?{_BLANKS}"
)
_NOT_READ = "'“' || a || '”'"
"""Text that is read as nothing, so that the error shows it."""


def _part(number: int) -> str:
    """A part of a day written as text."""
    text = f"regexp_extract(a, '^{_DAY}$', {number})"
    return f"CAST(CASE {text} WHEN '' THEN '1' ELSE {text} END AS BIGINT)"


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
    "spark_remainder(a, b) AS "
    "CASE WHEN b = 0 AND a IS NOT NULL THEN 1 % CAST(b AS BIGINT) WHEN b = -1 THEN a % 1 "
    "ELSE a % b END",
    # text
    *CASE_MACROS,
    "spark_start(source, start) AS "
    "CASE WHEN start > 0 THEN CAST(start AS BIGINT) - 1 WHEN start = 0 THEN 0 "
    "ELSE length(source) + CAST(start AS BIGINT) END",
    "spark_substring3(source, start, size) AS CASE WHEN start IS NOT NULL AND size IS NOT NULL "
    "THEN substring(source, greatest(spark_start(source, start), 0) + 1, greatest("
    "spark_start(source, start) + size - greatest(spark_start(source, start), 0), 0)) END",
    "spark_substring(source, start) AS spark_substring3(source, start, 2147483647)",
    "spark_left(source, size) AS left(source, greatest(CAST(size AS BIGINT), 0 * size))",
    "spark_right(source, size) AS right(source, greatest(CAST(size AS BIGINT), 0 * size))",
    "spark_reverse(source) AS array_to_string(list_reverse(string_split(source, '')), '')",
    f"spark_integer_text(a) AS CASE WHEN regexp_full_match(a, '{_INTEGER}') "
    f"THEN regexp_extract(a, '{_INTEGER}', 1) ELSE {_NOT_READ} END",
    f"spark_number_text(a) AS CASE WHEN regexp_full_match(a, '{_NUMBER}') "
    f"THEN regexp_extract(a, '{_NUMBER}', 1) WHEN regexp_full_match(a, '{_WORDS}') "
    f"THEN regexp_extract(a, '{_WORDS}', 1) ELSE {_NOT_READ} END",
    f"spark_plain_decimal(a) AS CASE WHEN regexp_full_match(a, '{_DECIMAL}{_BLANKS}') "
    f"THEN regexp_extract(a, '{_DECIMAL}', 1) ELSE {_NOT_READ} END",
    f"spark_decimal_text(a) AS spark_plain_decimal(translate(a, '{FOREIGN_DIGITS}', '{DIGITS}'))",
    f"spark_boolean_text(a) AS CASE WHEN regexp_full_match(a, '{_YES}') THEN 'true' "
    f"WHEN regexp_full_match(a, '{_NO}') THEN 'false' ELSE {_NOT_READ} END",
    f"spark_text_to_date(a) AS CASE WHEN regexp_full_match(a, '{_DAY}') "
    f"THEN make_date({_part(1)}, {_part(2)}, {_part(3)}) ELSE CAST({_NOT_READ} AS DATE) END",
    "spark_split(source, pattern) AS string_split_regex(source, pattern)",
    "spark_array_size(list) AS CASE WHEN list IS NULL THEN NULL ELSE CAST(len(list) AS INTEGER) "
    "END",
    "spark_to_string(a BLOB) AS decode(a), (a) AS "
    "CASE WHEN typeof(a) = 'TIMESTAMP WITH TIME ZONE' "
    "THEN regexp_replace(CAST(a AS VARCHAR), '[+]00$', '') ELSE CAST(a AS VARCHAR) END",
    "char_length(source) AS length(source)",
    "space(n) AS repeat(' ', n)",
    # numbers
    "spark_ceil(a) AS CASE WHEN isnan(a) THEN 0 ELSE CAST(ceil(a) AS BIGINT) END",
    "spark_floor(a) AS CASE WHEN isnan(a) THEN 0 ELSE CAST(floor(a) AS BIGINT) END",
    "spark_digits(a) AS CASE WHEN isfinite(a) THEN CAST(CAST(a AS DOUBLE) AS VARCHAR) END",
    "spark_round(a, digits) AS CASE WHEN isfinite(a) AND abs(a) < 9007199254740992 "
    "THEN CAST(CAST(round(CAST(CAST(a AS VARCHAR) AS DECIMAL(38, 22)), digits) AS VARCHAR) "
    "AS DOUBLE) ELSE a END",
    "spark_isnan(a) AS coalesce(isnan(a), false)",
    "spark_ln(a) AS CASE WHEN a > 0 THEN ln(a) END",
    "spark_log2(a) AS CASE WHEN a > 0 THEN log2(a) END",
    "spark_log10(a) AS CASE WHEN a > 0 THEN log10(a) END",
    "spark_sign(a) AS CASE WHEN isnan(a) THEN a ELSE CAST(sign(a) AS DOUBLE) END",
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
    "(a) AS epoch_us(a) // 1000000",
    "unix_date(day) AS date_diff('day', DATE '1970-01-01', CAST(day AS DATE))",
    "date_from_unix_date(days) AS DATE '1970-01-01' + CAST(days AS INTEGER)",
    "timestamp_seconds(a) AS to_timestamp(a)",
    "timestamp_millis(a) AS make_timestamptz(a * 1000)",
    "timestamp_micros(a) AS make_timestamptz(a)",
    "unix_micros(a) AS epoch_us(a)",
    "unix_millis(a) AS (epoch_us(a) - (epoch_us(a) % 1000 + 1000) % 1000) // 1000",
    "unix_seconds(a) AS (epoch_us(a) - (epoch_us(a) % 1000000 + 1000000) % 1000000) // 1000000",
    # aggregates
    "spark_percentile(a, share) AS quantile_cont(a, share)",
    # others
    "isnotnull(a) AS a IS NOT NULL",
    "spark_isnull(a) AS a IS NULL",
)
