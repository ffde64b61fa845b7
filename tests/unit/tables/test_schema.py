"""Schemas say what a table holds, refuse what cannot be, and come back from JSON as they went."""

from __future__ import annotations

import datetime
import json
import math
from dataclasses import replace
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from livingdb.chunks.memory import MemoryStore
from livingdb.errors import (
    Corruption,
    InvalidData,
    InvalidName,
    LivingDBError,
    NotFound,
    Unsupported,
)
from livingdb.tables.identity import column_number
from livingdb.tables.layout import Layout
from livingdb.tables.recipe import Definition
from livingdb.tables.records import record
from livingdb.tables.schema import TableSchema
from livingdb.tables.type_names import parse_type, type_name

OSLO = ZoneInfo("Europe/Oslo")
NAMED_TYPES = [
    ("boolean", pa.bool_()),
    ("tinyint", pa.int8()),
    ("smallint", pa.int16()),
    ("int", pa.int32()),
    ("bigint", pa.int64()),
    ("float", pa.float32()),
    ("double", pa.float64()),
    ("decimal(10,2)", pa.decimal128(10, 2)),
    ("decimal(38,0)", pa.decimal128(38, 0)),
    ("date", pa.date32()),
    ("timestamp", pa.timestamp("us", "UTC")),
    ("timestamp_ntz", pa.timestamp("us")),
    ("timestamp[Europe/Oslo]", pa.timestamp("us", "Europe/Oslo")),
    ("string", pa.string()),
    ("binary", pa.binary()),
    ("array<string>", pa.list_(pa.string())),
    ("map<string,double>", pa.map_(pa.string(), pa.float64())),
    ("struct<name:string,at:date>", pa.struct([("name", pa.string()), ("at", pa.date32())])),
    (
        "array<struct<a:map<int,array<decimal(5,1)>>>>",
        pa.list_(pa.struct([("a", pa.map_(pa.int32(), pa.list_(pa.decimal128(5, 1))))])),
    ),
    (
        "struct<`a b`:int,`c``d`:int,``:int>",
        pa.struct([("a b", pa.int32()), ("c`d", pa.int32()), ("", pa.int32())]),
    ),
]


@pytest.mark.parametrize(("name", "data_type"), NAMED_TYPES)
def test_type_names_round_trip(name: str, data_type: pa.DataType) -> None:
    assert parse_type(name) == data_type
    assert type_name(data_type) == name
    assert type_name(parse_type(type_name(data_type))) == name


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("LONG", "bigint"),
        (" BigInt ", "bigint"),
        ("integer", "int"),
        ("varchar(20)", "string"),
        ("string", "string"),
        ("decimal", "decimal(10,0)"),
        ("NUMERIC( 5 , 2 )", "decimal(5,2)"),
        ("timestamp_ltz", "timestamp"),
        ("timestamp[UTC]", "timestamp"),
        ("Array < Int >", "array<int>"),
        ("struct<A: int>", "struct<A:int>"),
    ],
)
def test_other_spellings(alias: str, name: str) -> None:
    assert type_name(parse_type(alias)) == name


@pytest.mark.parametrize(
    "text",
    [
        "", "whole", "int int", "array", "array<", "array<int", "array<int>>", "map<int>",
        "map<int,int,int>", "struct<>", "struct<a>", "struct<a:int,>", "decimal(0)", "decimal(39)",
        "decimal(5,6)", "decimal(x)", "decimal(²)", "decimal(10,-2)", "string(", "timestamp[oslo",
        "int!", "array[int]",
    ],
)  # fmt: skip
def test_what_is_no_type_is_refused(text: str) -> None:
    with pytest.raises(Unsupported, match=r"type|struct"):
        parse_type(text)
    with pytest.raises(Unsupported, match="column 'x'"):
        TableSchema.of({"id": "int", "x": text}, "id")


def test_foreign_arrow_types_become_types_that_are_stored() -> None:
    given = pa.schema(
        [
            ("id", pa.uint32()),
            ("text", pa.large_string()),
            ("when", pa.timestamp("ns", "UTC")),
            ("kind", pa.dictionary(pa.int8(), pa.string())),
            ("list", pa.large_list(pa.string_view())),
        ]
    )
    schema = TableSchema.of(given, "id")
    names = [type_name(column.type) for column in schema.columns]
    assert names == ["bigint", "string", "timestamp", "string", "array<string>"]


@pytest.mark.parametrize("data_type", [pa.duration("s"), pa.time64("us"), pa.decimal256(60, 2)])
def test_a_type_that_cannot_be_stored_names_its_column(data_type: pa.DataType) -> None:
    with pytest.raises(Unsupported, match="column 'x'"):
        TableSchema.of(pa.schema([("id", pa.int64()), ("x", data_type)]), "id")


# --- keys and names -------------------------------------------------------------------------


def test_the_key_comes_first_where_rows_are_stored() -> None:
    schema = TableSchema.of({"x": "int", "b": "int", "y": "int", "a": "int"}, ["a", "b"])
    assert [column.name for column in schema.columns] == ["x", "b", "y", "a"]
    assert [column.name for column in schema.stored_columns] == ["a", "b", "x", "y"]
    assert [column.name for column in schema.key_columns] == ["a", "b"]
    assert [schema.position(name) for name in "abxy"] == [0, 1, 2, 3]
    assert schema.arrow.names == ["x", "b", "y", "a"]


def test_key_columns_are_never_null() -> None:
    schema = TableSchema.of(pa.schema([("id", pa.int64()), ("x", pa.int64())]), "id")
    assert [column.nullable for column in schema.columns] == [False, True]
    assert schema.arrow.field("id").nullable is False


@pytest.mark.parametrize("text", ["bigint not null", "BIGINT  NOT   NULL ", "bigint\tNot Null"])
def test_not_null(text: str) -> None:
    column = TableSchema.of({"id": "int", "x": text}, "id").column("x")
    assert column.type == pa.int64()
    assert not column.nullable
    assert (
        not TableSchema.of(
            pa.schema([("id", pa.int64()), pa.field("x", pa.int64(), nullable=False)]), "id"
        )
        .column("x")
        .nullable
    )


@pytest.mark.parametrize(
    ("columns", "key"),
    [
        ({"id": "int"}, "other"),
        ({"id": "int"}, []),
        ({"id": "int"}, ["id", "id"]),
        ({"id": "int"}, [None]),
        ({"id": "int"}, None),
        ({"id": "int"}, 5),
        ({"id": 5}, "id"),
        ([("id", "int")], "id"),
        ("id int", "id"),
        (pa.schema([("id", pa.int64()), ("x", pa.int64()), ("x", pa.int64())]), "id"),
        ({}, "id"),
    ],
)
def test_schemas_that_cannot_be(columns: Any, key: Any) -> None:
    with pytest.raises(InvalidData):
        TableSchema.of(columns, key)


@pytest.mark.parametrize("kind", ["array<int>", "struct<a:int>", "map<string,int>"])
def test_nested_values_are_no_keys(kind: str) -> None:
    with pytest.raises(Unsupported, match="column 'id': a key cannot"):
        TableSchema.of({"id": kind}, "id")


@pytest.mark.parametrize("name", ["", "x" * 256, "a\0b", 7, None, "\ud800"])
def test_names_that_are_none(name: Any) -> None:
    with pytest.raises(InvalidName):
        TableSchema.of({"id": "int", name: "int"}, "id")


def test_any_other_text_is_a_name() -> None:
    for name in ("ø", "select", "a b", "`", "x" * 255, "$struct"):
        schema = TableSchema.of({name: "int"}, name)
        assert TableSchema.from_json(schema.to_json()) == schema


def test_a_missing_column_names_those_there_are() -> None:
    schema = TableSchema.of({"id": "int", "city": "string"}, "id")
    with pytest.raises(NotFound, match=r"'town'.*id, city"):
        schema.position("town")


# --- defaults and JSON ----------------------------------------------------------------------

DEFAULTS = [
    ("boolean", False),
    ("tinyint", -5),
    ("bigint", 2**63 - 1),
    ("double", 0.1),
    ("double", math.inf),
    ("float", -math.inf),
    ("decimal(10,2)", Decimal("1.50")),
    ("date", datetime.date(2026, 11, 15)),
    ("timestamp", datetime.datetime(2026, 11, 15, 10, 0, 0, 1, tzinfo=datetime.UTC)),
    ("timestamp[Europe/Oslo]", datetime.datetime(2026, 7, 1, 12, tzinfo=OSLO)),
    ("timestamp_ntz", datetime.datetime(2026, 11, 15, 10, 0, 0, 1)),
    ("string", "$bytes"),
    ("string", ""),
    ("binary", b"\0\xff"),
    ("array<int>", []),
    ("array<date>", [datetime.date(2026, 1, 1), None]),
    ("struct<a:int,b:binary>", {"a": 1, "b": b"x"}),
    ("struct<`$bytes`:string>", {"$bytes": "x"}),
    ("map<string,int>", [("a", 1), ("b", None)]),
    ("array<map<string,struct<at:date>>>", [[("x", {"at": datetime.date(2026, 1, 1)})]]),
]


@pytest.mark.parametrize(("kind", "default"), DEFAULTS)
def test_defaults_of_all_types_survive_json(kind: str, default: object) -> None:
    schema = TableSchema.of({"id": "int", "x": kind}, "id", defaults={"x": default})
    assert schema.column("x").default == default
    again = TableSchema.from_json(json.loads(json.dumps(schema.to_json())))
    assert again == schema
    assert type(again.column("x").default) is type(default)
    assert pa.array([again.column("x").default], again.column("x").type).to_pylist() == [default]


def test_a_nan_default_survives_json() -> None:
    schema = TableSchema.of({"id": "int", "x": "double"}, "id", defaults={"x": math.nan})
    again = TableSchema.from_json(json.loads(json.dumps(schema.to_json())))
    assert math.isnan(again.column("x").default)  # type: ignore[arg-type]


def test_a_default_takes_the_form_the_column_has() -> None:
    kinds = {"id": "int", "m": "map<string,int>", "d": "decimal(6,2)"}
    schema = TableSchema.of(kinds, "id", defaults={"m": {"a": 1}, "d": 3})
    assert schema.column("m").default == [("a", 1)]
    assert schema.column("d").default == Decimal("3.00")


@pytest.mark.parametrize(
    ("kind", "default"),
    [
        ("bigint", "one"),
        ("bigint", 1.5),
        ("tinyint", 300),
        ("boolean", 1),
        ("date", datetime.datetime(2026, 1, 1, 5)),
        ("timestamp", datetime.datetime(2026, 1, 1)),
        ("struct<a:int>", {"b": 1}),
        ("array<int>", "ab"),
        ("string", 5),
        ("decimal(3,1)", Decimal("1.55")),
    ],
)
def test_defaults_that_do_not_fit_are_refused(kind: str, default: object) -> None:
    with pytest.raises(InvalidData, match="column 'x': the default"):
        TableSchema.of({"id": "int", "x": kind}, "id", defaults={"x": default})


def test_defaults_and_foreign_keys_name_columns_of_the_schema() -> None:
    with pytest.raises(InvalidData, match="'town'"):
        TableSchema.of({"id": "int"}, "id", defaults={"town": 1})
    with pytest.raises(InvalidData, match="'town'"):
        TableSchema.of({"id": "int"}, "id", foreign_keys={"town": "towns"})


def test_a_whole_schema_survives_json_and_storage() -> None:
    schema = TableSchema.of(
        dict(zip("abcdefghijklmnopqrst", dict(NAMED_TYPES), strict=True)),
        ["e", "n"],
        defaults={"a": True},
        foreign_keys={"e": "shops", "b": "customers"},
    )
    assert TableSchema.from_json(json.loads(json.dumps(schema.to_json()))) == schema
    assert schema.next_id == 20
    layout = Layout(groups=[["a"], ["b", "c"]])
    again = TableSchema.from_json(schema.to_json())
    assert Definition(schema, layout).to_chunk() == Definition(again, layout).to_chunk()


def test_ids_survive_a_rename() -> None:
    schema = TableSchema.of({"id": "int", "city": "string", "x": "int"}, "id")
    city = schema.column("city")
    renamed = schema.with_column(replace(city, name="town", default="Oslo"))
    assert renamed.column("town").id == city.id
    assert [column_number(column.id) for column in renamed.columns] == [0, 1, 2]
    assert [column.name for column in renamed.columns] == ["id", "town", "x"]
    assert renamed.position("town") == schema.position("city")
    assert renamed.next_id == schema.next_id
    with pytest.raises(LivingDBError):
        renamed.column("city")
    assert TableSchema.from_json(renamed.to_json()) == renamed


def test_the_key_and_the_links_follow_a_rename() -> None:
    kinds = {"shop": "int", "id": "int", "customer": "int"}
    links = {"customer": "customers", "shop": "shops"}
    schema = TableSchema.of(kinds, ["shop", "id"], foreign_keys=links)
    renamed = schema.with_column(replace(schema.column("shop"), name="branch"))
    renamed = renamed.with_column(replace(renamed.column("customer"), name="buyer"))
    assert renamed.key == ("branch", "id")
    assert [column.name for column in renamed.stored_columns] == ["branch", "id", "buyer"]
    assert dict(renamed.foreign_keys) == {"buyer": "customers", "branch": "shops"}
    with pytest.raises(InvalidData, match="'id' is in the schema twice"):
        schema.with_column(replace(schema.column("customer"), name="id"))


@pytest.mark.parametrize(
    ("part", "value"),
    [("schema", []), ("schema", None), ("layout", []), ("columns", [None]), ("type", None)],
)
def test_a_record_that_is_no_definition(part: str, value: object) -> None:
    data = Definition(TableSchema.of({"id": "bigint"}, "id"), Layout()).to_json()
    places = {"columns": data["schema"], "type": data["schema"]["columns"][0]}
    places.get(part, data)[part] = value
    stored = record(data)
    with pytest.raises(Corruption, match="no table definition"):
        Definition.load(MemoryStore([stored]), stored.address)
