"""Upper and lower case as Spark has them, where DuckDB knows fewer letters.

DuckDB maps one letter to one.  Spark follows Unicode: ß becomes SS, a sigma at the end of a
word is written ς, and the scripts of Unicode 16 and 17 have case, too.  (A capital sigma beside
a letter of those scripts may still come out differently.)
"""

from __future__ import annotations

__all__ = ["CASE_MACROS", "DIGITS", "FOREIGN_DIGITS"]

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
