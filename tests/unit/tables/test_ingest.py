"""Data of every kind comes in alike; bad data says where it is bad, and nothing is written."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from livingdb.chunks.memory import MemoryStore
from livingdb.errors import DuplicateKey, InvalidData, LivingDBError
from livingdb.tables import ingest
from livingdb.tables.index import MemoryIndex
from livingdb.tables.layout import Layout
from livingdb.tables.recipe import Definition
from livingdb.tables.schema import TableSchema
from livingdb.tables.versions import Versions
from livingdb.trees.delta import Delta
from livingdb.trees.shape import Shape

UTC = datetime.UTC
SCHEMA = TableSchema.of({"id": "bigint", "city": "string", "amount": "double"}, "id")
ROWS: list[dict[str, Any]] = [
    {"id": 2, "city": "Bergen", "amount": 2.5},
    {"id": 1, "city": "Oslo", "amount": None},
    {"id": 3, "city": None, "amount": -1.0},
]
COLUMNS: dict[str, list[Any]] = {name: [row[name] for row in ROWS] for name in ROWS[0]}
TABLE = pa.table({"id": COLUMNS["id"], "city": COLUMNS["city"], "amount": COLUMNS["amount"]})
FRAME = pd.DataFrame({name: pd.Series(values) for name, values in COLUMNS.items()})


class Stream:
    """An object that is known only by its Arrow stream."""

    def __arrow_c_stream__(self, schema: object = None) -> object:
        return TABLE.__arrow_c_stream__(schema)


class Array:
    """An object that is known only by its Arrow array."""

    def __arrow_c_array__(self, schema: object = None) -> object:
        return TABLE.combine_chunks().to_batches()[0].__arrow_c_array__(schema)


class Result:
    """An object that turns into Arrow when told to."""

    def to_arrow_table(self) -> pa.Table:
        return TABLE


def rows_in_turn() -> Iterator[dict[str, Any]]:
    yield from ROWS


def shape_of(schema: TableSchema) -> Shape:
    return Layout().grouping(schema).row_shape


def shown(schema: TableSchema, changes: Delta) -> list[dict[str, Any]]:
    """What the changes carry, in key order."""
    rows: list[dict[str, Any]] = [{} for _ in range(len(changes))]
    for position, column in enumerate(schema.stored_columns):
        array = changes.columns[position]
        if array is None:
            continue
        carries = changes.carries(position)
        for number, value in enumerate(array.to_pylist()):
            if position < len(schema.key) or carries[number]:
                rows[number][column.name] = value
    return rows


def upserted(schema: TableSchema, data: object) -> list[dict[str, Any]]:
    return shown(schema, ingest.upserts(schema, shape_of(schema), data))


def patched(schema: TableSchema, data: object) -> list[dict[str, Any]]:
    return shown(schema, ingest.patches(schema, shape_of(schema), data))


def deleted(schema: TableSchema, keys: object) -> list[dict[str, Any]]:
    return shown(schema, ingest.deletes(schema, shape_of(schema), keys))


# --- every kind of data ---------------------------------------------------------------------

KINDS: dict[str, Callable[[], object]] = {
    "table": lambda: TABLE,
    "table of many chunks": lambda: pa.concat_tables([TABLE.slice(0, 1), TABLE.slice(1)]),
    "sliced table": lambda: pa.concat_tables([TABLE, TABLE]).slice(3),
    "batch": lambda: TABLE.combine_chunks().to_batches()[0],
    "reader": TABLE.to_reader,
    "stream": Stream,
    "array": Array,
    "result": Result,
    "dict of lists": lambda: COLUMNS,
    "dict of arrays": lambda: {name: pa.array(values) for name, values in COLUMNS.items()},
    "dict of numpy": lambda: {**COLUMNS, "id": np.array(COLUMNS["id"], np.int32)},
    "dict of series": lambda: {name: FRAME[name] for name in COLUMNS},
    "dict of tuples": lambda: {name: tuple(values) for name, values in COLUMNS.items()},
    "rows": lambda: ROWS,
    "rows in turn": rows_in_turn,
    "tuple of rows": lambda: tuple(ROWS),
    "frame": lambda: FRAME,
    "filtered frame": lambda: pd.concat([FRAME.assign(id=9), FRAME])[3:],
    "reordered frame": lambda: FRAME[["amount", "id", "city"]].sort_values("city"),
    "frame with the key as its index": lambda: FRAME.set_index("id"),
    "frame of Arrow types": lambda: FRAME.convert_dtypes(dtype_backend="pyarrow"),
    "frame of categories": lambda: FRAME.assign(city=FRAME["city"].astype("category")),
    "large and small types": lambda: TABLE.cast(
        pa.schema([("id", pa.uint8()), ("city", pa.large_string()), ("amount", pa.float32())])
    ),
    "dictionary and views": lambda: pa.table(
        {"id": TABLE["id"], "city": TABLE["city"].dictionary_encode(), "amount": TABLE["amount"]}
    ),
    "string view": lambda: TABLE.set_column(1, "city", TABLE["city"].cast(pa.string_view())),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_data(kind: str) -> None:
    expected = sorted(ROWS, key=lambda row: row["id"])
    assert upserted(SCHEMA, KINDS[kind]()) == expected
    assert patched(SCHEMA, KINDS[kind]()) == expected
    assert deleted(SCHEMA, KINDS[kind]()) == [{"id": 1}, {"id": 2}, {"id": 3}]


def test_polars() -> None:
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(COLUMNS)
    assert upserted(SCHEMA, frame) == sorted(ROWS, key=lambda row: row["id"])
    assert deleted(SCHEMA, frame) == [{"id": 1}, {"id": 2}, {"id": 3}]
    assert upserted(SCHEMA, {name: frame[name] for name in COLUMNS})[0]["city"] == "Oslo"


@pytest.mark.parametrize("nothing", [[], (), {"id": []}, TABLE.slice(0, 0), {"id": [], "city": []}])
def test_no_rows_are_no_changes(nothing: object) -> None:
    for make in (ingest.upserts, ingest.patches, ingest.deletes):
        assert len(make(SCHEMA, shape_of(SCHEMA), nothing)) == 0


def test_values_of_all_types_from_plain_python() -> None:
    schema = TableSchema.of(
        {
            "id": "int", "flag": "boolean", "tiny": "tinyint", "single": "float",
            "money": "decimal(10,2)", "day": "date", "at": "timestamp", "local": "timestamp_ntz",
            "raw": "binary", "tags": "array<string>", "who": "struct<name:string,age:int>",
            "counts": "map<string,array<int>>",
        },
        "id",
    )  # fmt: skip
    row = {
        "id": 1, "flag": True, "tiny": -128, "single": 0.5, "money": Decimal("12.30"),
        "day": datetime.date(2026, 11, 15), "at": datetime.datetime(2026, 11, 15, 1, tzinfo=UTC),
        "local": datetime.datetime(2026, 11, 15, 1), "raw": b"\0\xff", "tags": ["a", None],
        "who": {"name": "Ada", "age": None}, "counts": [("x", [1]), ("y", None)],
    }  # fmt: skip
    empty = dict.fromkeys(row) | {"id": 2}
    assert upserted(schema, [row, empty]) == [row, empty]
    loose = {
        "id": 3, "money": 5, "tiny": 7.0, "single": 1, "day": "2026-11-15",
        "at": "2026-11-15T01:00:00Z", "tags": ("a",), "who": {"age": 3}, "counts": {"x": (1, 2)},
        "raw": "text", "local": datetime.date(2026, 1, 2),
    }  # fmt: skip
    assert upserted(schema, [loose]) == [
        {
            "id": 3, "flag": None, "tiny": 7, "single": 1.0, "money": Decimal("5.00"),
            "day": row["day"], "at": row["at"], "local": datetime.datetime(2026, 1, 2),
            "raw": b"text", "tags": ["a"], "who": {"name": None, "age": 3},
            "counts": [("x", [1, 2])],
        }
    ]  # fmt: skip


# --- what is absent -------------------------------------------------------------------------


def test_absent_columns_get_their_defaults() -> None:
    kinds = {"id": "int", "city": "string", "amount": "int not null", "tags": "map<string,int>"}
    defaults = {"city": "Oslo", "amount": 1, "tags": {"a": 1}}
    schema = TableSchema.from_json(TableSchema.of(kinds, "id", defaults=defaults).to_json())
    filled = {"city": "Oslo", "amount": 1, "tags": [("a", 1)]}
    assert upserted(schema, {"id": [1, 2]}) == [{"id": 1} | filled, {"id": 2} | filled]
    rows = [{"id": 2, "city": None}, {"id": 1, "amount": 5}]
    assert upserted(schema, rows) == [
        {"id": 1} | filled | {"amount": 5},
        {"id": 2} | filled | {"city": None},
    ]


def test_a_patch_carries_what_its_row_names_and_nothing_else() -> None:
    rows = [{"id": 3, "city": None}, {"id": 1, "amount": 5.0}, {"id": 2, "city": "x", "amount": 1}]
    assert patched(SCHEMA, rows) == [
        {"id": 1, "amount": 5.0},
        {"id": 2, "city": "x", "amount": 1.0},
        {"id": 3, "city": None},
    ]
    assert patched(SCHEMA, {"id": [1]}) == [{"id": 1}]
    strict = TableSchema.of({"id": "int", "a": "int not null", "b": "int"}, "id")
    assert patched(strict, [{"id": 1, "a": 1}, {"id": 2, "b": 1}])[1] == {"id": 2, "b": 1}


# --- keys -----------------------------------------------------------------------------------

PAIRS = TableSchema.of({"x": "int", "b": "int", "a": "string"}, ["a", "b"])


@pytest.mark.parametrize(
    "keys",
    [
        [("y", 1), ("x", 2)],
        [["y", 1], ["x", 2]],
        {("y", 1), ("x", 2)},
        [{"b": 1, "a": "y"}, {"a": "x", "b": 2, "x": 9}],
        {"a": ["y", "x"], "b": [1, 2]},
        pa.table({"x": [0, 0], "a": ["y", "x"], "b": [1, 2]}),
        pa.array([{"a": "y", "b": 1}, {"a": "x", "b": 2}]),
        pa.chunked_array([[{"a": "y", "b": 1}], [{"a": "x", "b": 2}]]),
        pd.DataFrame({"a": ["y", "x"], "b": [1, 2]}, index=[7, 9]),
    ],
)
def test_composite_keys(keys: object) -> None:
    assert deleted(PAIRS, keys) == [{"a": "x", "b": 2}, {"a": "y", "b": 1}]


@pytest.mark.parametrize(
    "keys",
    [1, [1], (1,), {1}, range(1, 2), np.array([1]), pa.array([1]), pd.Series([1]), [(1,)], [1.0]],
)
def test_single_keys(keys: object) -> None:
    assert deleted(SCHEMA, keys) == [{"id": 1}]


def test_text_is_one_key_and_not_many() -> None:
    schema = TableSchema.of({"id": "string"}, "id")
    assert deleted(schema, "abc") == [{"id": "abc"}]
    assert deleted(TableSchema.of({"id": "binary"}, "id"), b"abc") == [{"id": b"abc"}]
    assert deleted(schema, ["b", "a"]) == [{"id": "a"}, {"id": "b"}]


@pytest.mark.parametrize(
    ("schema", "keys", "says"),
    [
        (PAIRS, ("x", 1), "key 0: expected a value for each of a, b"),
        (PAIRS, [("x", 1), ("y",)], "key 1: expected a value for each of a, b"),
        (PAIRS, pa.array(["x"]), "expected structs of a, b"),
        (PAIRS, pa.array([{"a": "x"}]), "the key column 'b' is missing"),
        (PAIRS, pa.array([{"a": "x", "c": 1}]), "column 'c' is not in the table"),
        (PAIRS, [("x", None)], "column 'b', row 0: null"),
        (PAIRS, [("x", 1), ("x", "y")], "column 'b', row 1: 'y' does not fit"),
        (PAIRS, [{"a": "x", "b": 1}, {"a": "x"}], "row 1: the key column 'b' is missing"),
        (SCHEMA, [1.5], "column 'id', row 0: 1.5 does not fit"),
        (SCHEMA, [True], "column 'id', row 0: True does not fit"),
        (SCHEMA, [2**63], "column 'id', row 0"),
        (SCHEMA, None, "column 'id', row 0: null"),
        (SCHEMA, [1, {"id": 2}], "column 'id', row 1"),
        (SCHEMA, [{"id": 2}, 1], "row 1 is int, not a dict"),
        (SCHEMA, pd.DataFrame({"city": ["x"]}), "the key column 'id' is missing"),
    ],
)
def test_bad_keys(schema: TableSchema, keys: object, says: str) -> None:
    with pytest.raises(InvalidData, match=says):
        deleted(schema, keys)


def test_a_key_twice_in_one_batch() -> None:
    says = r"rows 0 and 2 of the data have the same key \{'id': 7\}"
    for make in (ingest.upserts, ingest.patches, ingest.deletes):
        with pytest.raises(DuplicateKey, match=says):
            make(SCHEMA, shape_of(SCHEMA), {"id": [7, 8, 7]})
    with pytest.raises(DuplicateKey, match=r"rows 1 and 2 .* \{'a': 'x', 'b': 1\}"):
        upserted(PAIRS, {"a": ["x", "x", "x"], "b": [2, 1, 1]})
    floats = TableSchema.of({"id": "double"}, "id")
    for twins in ([0.0, -0.0], [float("nan"), float("nan")]):
        with pytest.raises(DuplicateKey):
            upserted(floats, {"id": twins})


# --- bad data -------------------------------------------------------------------------------

WIDE = TableSchema.of(
    {
        "id": "bigint", "whole": "int", "flag": "boolean", "single": "float", "real": "double",
        "money": "decimal(6,2)", "day": "date", "at": "timestamp", "local": "timestamp_ntz",
        "text": "string", "raw": "binary", "must": "string not null", "tags": "array<int>",
        "who": "struct<a:int,b:array<int>>", "counts": "map<string,int>",
    },
    "id",
    defaults={"must": "x"},
)  # fmt: skip
NAIVE, AWARE = datetime.datetime(2026, 1, 1, 5), datetime.datetime(2026, 1, 1, 5, tzinfo=UTC)
BAD_VALUES: list[tuple[str, object]] = [
    ("whole", 2**31),
    ("whole", 2**70),
    ("whole", 1.5),
    ("whole", float("nan")),
    ("whole", "1"),
    ("whole", True),
    ("whole", Decimal("1.5")),
    ("whole", [1]),
    ("flag", 1),
    ("flag", "true"),
    ("single", 1e300),
    ("real", "1.5"),
    ("real", 2**60 + 1),
    ("money", Decimal("1.555")),
    ("money", 10_000),
    ("money", "1"),
    ("day", NAIVE),
    ("day", 5),
    ("day", "yesterday"),
    ("at", NAIVE),
    ("at", 5),
    ("at", "2026-01-01T05:00:00"),
    ("local", AWARE),
    ("text", 5),
    ("text", b"x"),
    ("text", "\ud800"),
    ("text", object()),
    ("text", {"a": 1}),
    ("raw", 5),
    ("must", None),
    ("tags", [1, "a"]),
    ("tags", [2**31]),
    ("tags", "12"),
    ("tags", 1),
    ("who", {"c": 1}),
    ("who", {"a": "x"}),
    ("who", {"b": [1.5]}),
    ("who", [1]),
    ("counts", {"a": "x"}),
    ("counts", {"a": 1.5}),
    ("counts", {1: 1}),
    ("counts", [("a", 1, 2)]),
    ("counts", 5),
]


@pytest.mark.parametrize(("name", "value"), BAD_VALUES)
def test_a_bad_value_says_which_column_and_which_row(name: str, value: object) -> None:
    good = {"id": 0, "must": "x"}
    rows = [{**good, "id": n} for n in range(5)]
    rows[3] = {**good, "id": 3, name: value}
    for data in (rows, {"id": [0, 1, 2, 3], name: ["x", "x", "x", value]}):
        if isinstance(data, dict) and name != "must":
            data[name] = [None, None, None, value]
        with pytest.raises(InvalidData, match=f"column '{name}', row 3"):
            upserted(WIDE, data)
        with pytest.raises(InvalidData, match=f"column '{name}', row 3"):
            patched(WIDE, data)


def invalid_text(values: list[bytes]) -> pa.Array:
    return pa.Array.from_buffers(pa.string(), len(values), pa.array(values).buffers())


BAD_COLUMNS: list[tuple[str, pa.Array, str]] = [
    ("whole", pa.array([1, 2**40]), "column 'whole', row 1"),
    ("whole", pa.array([1, 2**63], pa.uint64()), "column 'whole', row 1"),
    ("whole", pa.array(["1", "2"]), "column 'whole': string does not fit int"),
    ("whole", pa.array([AWARE, AWARE]), "column 'whole': timestamp"),
    ("flag", pa.array([1, 0]), "column 'flag': int64 does not fit bool"),
    ("single", pa.array([0.5, 1e300]), "column 'single', row 1: 1e\\+300 does not fit"),
    ("money", pa.array([1, 10_000]), "column 'money', row 1"),
    ("day", pa.array([NAIVE.replace(hour=0), NAIVE]), "column 'day', row 1"),
    ("at", pa.array([NAIVE, NAIVE]), "column 'at'.*no time zone"),
    ("at", pa.array([0, 1001], pa.timestamp("ns", "UTC")), "column 'at', row 1"),
    ("local", pa.array([AWARE, AWARE]), "column 'local'.*the zone UTC"),
    ("text", pa.array([1, 2]), "column 'text': int64 does not fit string"),
    ("text", pa.array([b"a", b"b"]), "column 'text': binary does not fit string"),
    ("text", pa.array([1, 2], pa.duration("s")), "column 'text': duration"),
    ("text", invalid_text([b"a", b"\xff"]), "column 'text', row 1"),
    ("must", pa.array(["a", None]), "column 'must', row 1: null, but the column is NOT NULL"),
    ("must", pa.nulls(2), "column 'must', row 0: null"),
    ("tags", pa.array([["1"], []]), "column 'tags': list"),
    ("tags", pa.array([1, 2]), "column 'tags': int64 does not fit"),
    ("who", pa.array([{"c": 1}, None]), "column 'who'.*no field 'c'"),
    ("who", pa.array([{"a": "x"}, None]), "column 'who': struct"),
    ("counts", pa.array([{"a": 1}, None]), "column 'counts'.*no map"),
    ("id", pa.array([1, None]), "column 'id', row 1: null"),
    ("id", pa.array([1, 1]), "the same key"),
    ("id", pa.array(["1", "2"]), "column 'id': string does not fit bigint"),
]


@pytest.mark.parametrize(("name", "column", "says"), BAD_COLUMNS)
def test_a_bad_column_of_typed_data(name: str, column: pa.Array, says: str) -> None:
    data = pa.table({"id": pa.array([1, 2]), "must": ["x", "y"]})
    position = data.schema.get_field_index(name)
    data = data.append_column(name, column) if position < 0 else data.set_column(
        position, name, column
    )  # fmt: skip
    with pytest.raises(InvalidData, match=says):
        upserted(WIDE, data)
    frame = data.to_pandas(types_mapper=pd.ArrowDtype) if "zone" not in says else data
    if name != "text":
        with pytest.raises(InvalidData):
            upserted(WIDE, frame)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (5, "int is no table"),
        (None, "NoneType is no table"),
        ("id", "str is no table"),
        (b"id", "bytes is no table"),
        ([1, 2], "row 0 is int, not a dict"),
        ([{"id": 1}, ("id", 2)], "row 1 is tuple, not a dict"),
        ({"id": 1}, "column 'id': expected a list of values"),
        ({"id": "12"}, "column 'id': expected a list of values"),
        ({"id": [1, 2], "city": ["x"]}, "column 'city' has 1 rows, but column 'id' has 2"),
        ({"id": [1], 2: ["x"]}, "have names; 2 is none"),
        ([{"id": 1, None: 2}], "have names; None is none"),
        (pd.DataFrame({0: [1]}), "have names; 0 is none"),
        ({"id": [1], "town": ["x"]}, "column 'town' is not in the table; its columns are id, city"),
        ({"city": ["x"]}, "the key column 'id' is missing"),
        ([{"id": 1}, {"city": "x"}], "row 1: the key column 'id' is missing"),
        (pa.table([[1], [2]], ["id", "id"]), "column 'id' is in the data twice"),
        (pa.array([1]), "the key column 'id' is missing|cannot be read as a table"),
        (pd.DataFrame([[1, 2]], columns=["id", "id"]), "column 'id' is in the data twice"),
        (pd.DataFrame({"id": [1, 2], "city": ["x", 5]}), "column 'city', row 1: 5 does not fit"),
    ],
)
def test_data_that_is_no_table_of_this_kind(data: object, says: str) -> None:
    with pytest.raises(InvalidData, match=says):
        upserted(SCHEMA, data)


def test_not_null_columns_must_be_given() -> None:
    schema = TableSchema.of({"id": "int", "x": "int not null"}, "id")
    with pytest.raises(InvalidData, match="column 'x' is NOT NULL, has no default and is missing"):
        upserted(schema, {"id": [1]})
    with pytest.raises(InvalidData, match="column 'x', row 1: missing"):
        upserted(schema, [{"id": 1, "x": 1}, {"id": 2}])
    with pytest.raises(InvalidData, match="column 'x', row 1: null"):
        patched(schema, [{"id": 1, "x": 1}, {"id": 2, "x": None}])
    assert upserted(schema, {"id": [], "x": []}) == []


def test_bad_data_writes_nothing() -> None:
    store, index = MemoryStore(), MemoryIndex()
    versions = Versions(store, index)
    definition = Definition(WIDE, Layout())
    shape = shape_of(WIDE)

    def sink(chunk: Any) -> None:
        store.put([chunk])

    columns, _ = ingest.sorted_rows(WIDE, shape, {"id": [1, 2]})
    version = versions.create(definition, [columns], sink)
    before = set(store.addresses())
    for name, value in BAD_VALUES:
        data = [{"id": 5, "must": "x"}, {"id": 6, "must": "x", name: value}]
        with pytest.raises(LivingDBError):
            versions.change(version, ingest.upserts(WIDE, shape, data), sink)
        with pytest.raises(LivingDBError):
            versions.create(definition, [ingest.sorted_rows(WIDE, shape, data)[0]], sink)
    assert set(store.addresses()) == before
    assert versions.rows(version).to_arrow()["id"].to_pylist() == [1, 2]
