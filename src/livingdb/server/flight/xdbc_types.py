"""The types of columns, as ODBC and JDBC number them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

__all__ = ["xdbc_types", "xdbc_types_schema"]

_NULLABLE, _SEARCHABLE_FULL, _SEARCHABLE_BASIC = 1, 3, 2
_DATETIME, _DATE, _TIMESTAMP, _ZONED = 9, 1, 3, 5


def _type(name: str, number: int, **more: Any) -> dict[str, Any]:
    """A type of that name; what is not said is not applicable."""
    return {
        "type_name": name,
        "data_type": number,
        "nullable": _NULLABLE,
        "case_sensitive": False,
        "searchable": _SEARCHABLE_BASIC,
        "fixed_prec_scale": False,
        "sql_data_type": number,
        **more,
    }


def _number(name: str, number: int, size: int, radix: int, **more: Any) -> dict[str, Any]:
    return _type(
        name,
        number,
        column_size=size,
        num_prec_radix=radix,
        unsigned_attribute=False,
        auto_increment=name in ("bigint", "int"),
        **more,
    )


def _quoted(name: str, number: int, before: str, **more: Any) -> dict[str, Any]:
    return _type(name, number, literal_prefix=before, literal_suffix="'", **more)


def _moment(name: str, number: int, size: int, code: int) -> dict[str, Any]:
    more = {"sql_data_type": _DATETIME, "datetime_subcode": code, "column_size": size}
    return _quoted(name, number, f"{name.upper()} '", **more)


_TYPES = [
    _type("boolean", -7, column_size=1),
    _number("tinyint", -6, 3, 10, minimum_scale=0, maximum_scale=0),
    _number("bigint", -5, 19, 10, minimum_scale=0, maximum_scale=0),
    _quoted("binary", -3, "X'", column_size=2**31 - 1),
    _number(
        "decimal",
        3,
        38,
        10,
        minimum_scale=0,
        maximum_scale=38,
        create_params=["precision", "scale"],
    ),
    _number("int", 4, 10, 10, minimum_scale=0, maximum_scale=0),
    _number("smallint", 5, 5, 10, minimum_scale=0, maximum_scale=0),
    _number("float", 7, 24, 2),
    _number("double", 8, 53, 2),
    _quoted(
        "string", 12, "'", column_size=2**31 - 1, case_sensitive=True, searchable=_SEARCHABLE_FULL
    ),
    _quoted(
        *("varchar", 12, "'"),
        column_size=2**31 - 1,
        case_sensitive=True,
        searchable=_SEARCHABLE_FULL,
        create_params=["length"],
    ),
    _moment("date", 91, 10, _DATE),
    _moment("timestamp", 93, 32, _ZONED),
    _moment("timestamp_ntz", 93, 26, _TIMESTAMP),
]


def xdbc_types_schema() -> pa.Schema:
    """What is told of a type."""
    text, number, yes_or_no = pa.string(), pa.int32(), pa.bool_()
    return pa.schema(
        [
            pa.field("type_name", text, False),
            pa.field("data_type", number, False),
            pa.field("column_size", number),
            pa.field("literal_prefix", text),
            pa.field("literal_suffix", text),
            pa.field("create_params", pa.list_(pa.field("item", text, False))),
            pa.field("nullable", number, False),
            pa.field("case_sensitive", yes_or_no, False),
            pa.field("searchable", number, False),
            pa.field("unsigned_attribute", yes_or_no),
            pa.field("fixed_prec_scale", yes_or_no, False),
            pa.field("auto_increment", yes_or_no),
            pa.field("local_type_name", text),
            pa.field("minimum_scale", number),
            pa.field("maximum_scale", number),
            pa.field("sql_data_type", number, False),
            pa.field("datetime_subcode", number),
            pa.field("num_prec_radix", number),
            pa.field("interval_precision", number),
        ]
    )


def xdbc_types(wanted: int | None) -> pa.Table:
    """All types, or those of one number, in the order of numbers and names."""
    found = [one for one in _TYPES if wanted in (None, one["data_type"])]
    ordered = sorted(found, key=lambda one: (one["data_type"], one["type_name"]))
    return pa.Table.from_pylist(ordered, schema=xdbc_types_schema())
