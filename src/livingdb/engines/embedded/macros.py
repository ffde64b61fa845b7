"""Functions with Spark's meaning, where DuckDB has none of the name or means another thing.

Those that stand for Spark's operators and for functions DuckDB reads differently begin with
`spark_`; the SQL front end puts them where the others would be.
"""

from __future__ import annotations

__all__ = ["MACROS", "MOST_MADE_BYTES"]

MOST_MADE_BYTES = 1 << 20
"""Of a text that is made by a number: DuckDB counts no texts, and makes 2,048 before it looks."""
_TOO_LONG = (
    f"error('repeat, lpad, rpad and space make texts of at most {MOST_MADE_BYTES:,} bytes here')"
)

_SEVERAL = (
    (0xDF, 0xDF), (0x149, 0x149), (0x1F0, 0x1F0), (0x390, 0x390), (0x3B0, 0x3B0),
    (0x587, 0x587), (0x1E96, 0x1E9A), (0x1F50, 0x1F50), (0x1F52, 0x1F52), (0x1F54, 0x1F54),
    (0x1F56, 0x1F56), (0x1F80, 0x1FAF), (0x1FB2, 0x1FB4), (0x1FB6, 0x1FB7), (0x1FBC, 0x1FBC),
    (0x1FC2, 0x1FC4), (0x1FC6, 0x1FC7), (0x1FCC, 0x1FCC), (0x1FD2, 0x1FD3), (0x1FD6, 0x1FD7),
    (0x1FE2, 0x1FE4), (0x1FE6, 0x1FE7), (0x1FF2, 0x1FF4), (0x1FF6, 0x1FF7), (0x1FFC, 0x1FFC),
    (0xFB00, 0xFB06), (0xFB13, 0xFB17),
)  # fmt: skip
"""Letters whose upper case is several letters."""

_NEW = {
    0x19B: 0xA7DC, 0x264: 0xA7CB, 0x1C8A: 0x1C89, 0xA7CD: 0xA7CC, 0xA7CF: 0xA7CE,
    0xA7D3: 0xA7D2, 0xA7D5: 0xA7D4, 0xA7DB: 0xA7DA,
    **{0x10D70 + at: 0x10D50 + at for at in range(22)},
    **{0x16EBB + at: 0x16EA0 + at for at in range(25)},
}  # fmt: skip
"""Letters newer than DuckDB's tables: the upper case by the lower."""

_ZEROS = (
    0x660, 0x6F0, 0x7C0, 0x966, 0x9E6, 0xA66, 0xAE6, 0xB66, 0xBE6, 0xC66, 0xCE6, 0xD66, 0xDE6,
    0xE50, 0xED0, 0xF20, 0x1040, 0x1090, 0x17E0, 0x1810, 0x1946, 0x19D0, 0x1A80, 0x1A90, 0x1B50,
    0x1BB0, 0x1C40, 0x1C50, 0xA620, 0xA8D0, 0xA900, 0xA9D0, 0xA9F0, 0xAA50, 0xABF0, 0xFF10,
)  # fmt: skip

FOREIGN_DIGITS = "".join(chr(zero + digit) for zero in _ZEROS for digit in range(10))

DIGITS = "0123456789" * len(_ZEROS)
"""Digits of other scripts, which Spark reads in decimals, and what they stand for."""

_CASED = (
    r"\p{Lu}\p{Ll}\p{Lt}ªº\x{2160}-\x{217F}\x{24B6}-\x{24E9}\x{1F130}-\x{1F149}"
    r"\x{1F150}-\x{1F169}\x{1F170}-\x{1F189}"
)

_PASSED_OVER = (
    r"\p{Mn}\p{Me}\p{Cf}\p{Lm}\p{Sk}''.:·\x{387}\x{55F}\x{5F4}\x{2018}\x{2019}\x{2024}\x{2027}"
    r"\x{FE13}\x{FE52}\x{FE55}\x{FF07}\x{FF0E}\x{FF1A}"
)

_FINAL = f"([{_CASED}][{_PASSED_OVER}]*)Σ([{_PASSED_OVER}]*(?:[^{_CASED}{_PASSED_OVER}]|$))"
"""A sigma after a letter and before none: the end of a word."""


def _upper() -> str:
    several = [chr(code) for first, last in _SEVERAL for code in range(first, last + 1)]
    mapped = {letter: letter.upper() for letter in several}
    mapped.update({chr(lower): chr(upper) for lower, upper in _NEW.items()})
    pairs = ", ".join(f"'{letter}': '{shown}'" for letter, shown in mapped.items())
    return (
        f"spark_upper(a) AS CASE WHEN regexp_matches(a, '[{''.join(mapped)}]') THEN "
        "array_to_string(list_transform(string_split(a, ''), "
        f"lambda letter: coalesce(MAP {{{pairs}}}[letter], upper(letter))), '') "
        "ELSE upper(a) END"
    )


def _lower() -> str:
    upper, lower = ("".join(map(chr, codes)) for codes in (_NEW.values(), _NEW))
    marked = rf"regexp_replace(a, '{_FINAL}', '\1ς\2', 'g')"
    return (
        f"spark_lower(a) AS CASE WHEN regexp_matches(a, '[İΣ{upper}]') THEN "
        f"lower(translate(replace({marked}, 'İ', 'i\u0307'), '{upper}', '{lower}')) "
        "ELSE lower(a) END"
    )


CASE_MACROS = (_upper(), _lower())


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
    "spark_decimal_quotient(n, d, s) AS "
    "CASE WHEN d = 0 AND n IS NOT NULL THEN 1 % CAST(d AS BIGINT) ELSE n // d + "
    "CASE WHEN abs(n % d) + abs(d) // s >= abs(d) - abs(n % d) THEN "
    " CASE WHEN (n < 0) <> (d < 0) THEN -1 ELSE 1 END ELSE 0 END END",
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
    f"spark_length(n) AS CASE WHEN n > {MOST_MADE_BYTES} THEN {_TOO_LONG} ELSE n END",
    f"spark_times(source, n) AS CASE WHEN octet_length(encode(CAST(source AS VARCHAR))) * "
    f"CAST(n AS HUGEINT) > {MOST_MADE_BYTES} THEN {_TOO_LONG} ELSE n END",
    "spark_repeat(source, n) AS repeat(source, spark_times(source, n))",
    # what values take, measured before they are made
    "spark_size(a BLOB) AS octet_length(a), (a) AS strlen(CAST(a AS VARCHAR))",
    "spark_steps(a BIGINT, b BIGINT) AS abs(CAST(b AS DOUBLE) - a) + 1, "
    "(a BIGINT, b BIGINT, s BIGINT) AS abs(CAST(b AS DOUBLE) - a) / greatest(abs(s), 1) + 1, "
    "(a DATE, b DATE) AS CAST(abs(date_diff('day', a, b)) AS DOUBLE) + 1, "
    "(a TIMESTAMPTZ, b TIMESTAMPTZ, s INTERVAL) AS "
    "abs(epoch(b) - epoch(a)) / greatest(abs(epoch(s)), 0.000001) + 1",
    "space(n) AS repeat(' ', spark_length(n))",
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
