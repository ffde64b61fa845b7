"""Keys that may be null: the tables of views have them, users' own do not."""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.trying import tries

import livingdb
from livingdb.chunks.memory import MemoryStore
from livingdb.errors import DuplicateKey, InvalidData, MissingKey
from livingdb.tables import ingest
from livingdb.tables.layout import Layout
from livingdb.tables.recipe import Definition
from livingdb.tables.schema import TableSchema
from livingdb.trees.forest import Forest
from livingdb.trees.keys import KeyCodec, hash_keys

CITIES = pa.schema([("city", pa.string()), ("year", pa.int32()), ("sum", pa.int64())])
SMALL = Layout(target_rows=8)


def definition(schema: pa.Schema, *key: str, layout: Layout = SMALL) -> Definition:
    return Definition(TableSchema.of_query(schema, key), layout)


def encoded(codec: KeyCodec, *keys: tuple[Any, ...]) -> list[Any]:
    return codec.encode(codec.arrays(keys)).tolist()


# --- the encoding ---------------------------------------------------------------------------


def test_null_sorts_first_and_is_no_value() -> None:
    numbers = KeyCodec([pa.int64()], [0])
    least = -(2**63)
    assert numbers.encode(numbers.arrays([(None,), (least,), (0,), (7,)])).tolist() == [
        b"",
        b"\1",
        b"\1\x80",
        b"\1\x80\0\0\0\0\0\0\7",
    ]
    assert not numbers.packed
    assert numbers.width is None
    texts = encoded(KeyCodec([pa.string()], [0]), (None,), ("",), ("\0",), ("\0\0",), ("a",))
    assert texts == sorted(texts)
    assert len(set(texts)) == 5


def test_text_with_zero_bytes_beside_nulls() -> None:
    codec = KeyCodec([pa.binary(), pa.binary(), pa.int8()], [0, 1])
    values = [None, b"", b"\0", b"\0\0", b"\0\1", b"\1", b"\1\0", b"\xff"]
    keys = [(one, other, small) for one in values for other in values for small in (-128, 0)]
    found = encoded(codec, *keys)
    assert len(set(found)) == len(keys)
    assert found == sorted(found)


def test_trailing_zeros_are_dropped_and_no_two_keys_meet() -> None:
    codec = KeyCodec([pa.int32(), pa.int32(), pa.binary()], [0, 1, 2])
    least = -(2**31)
    keys = [
        (first, second, third)
        for first in (None, least, 0)
        for second in (None, least, 0)
        for third in (None, b"", b"\0")
    ]
    found = encoded(codec, *keys)
    assert len(set(found)) == len(keys)
    assert found == sorted(found)
    assert found[0] == b""
    assert not any(key.endswith(b"\0") for key in found)


def test_floats_are_one_nan_and_one_zero() -> None:
    codec = KeyCodec([pa.float64()], [0])
    null, low, zero, negative, high, nan, other = encoded(
        codec,
        (None,),
        (-math.inf,),
        (0.0,),
        (-0.0,),
        (math.inf,),
        (math.nan,),
        (np.frombuffer(b"\1\0\0\0\0\0\xf8\xff", np.float64)[0],),
    )
    assert zero == negative
    assert nan == other
    assert null < low < zero < high < nan


@pytest.mark.parametrize(
    "values",
    [
        pa.array([None, False, True]),
        pa.array([None, decimal.Decimal("-1.5"), decimal.Decimal("2")], pa.decimal128(10, 2)),
        pa.array([None, datetime.date(1960, 1, 1), datetime.date(2020, 1, 1)]),
        pa.array([None, b"\0\0", b"\0\1"], pa.binary(2)),
        pa.array([None, None, None], pa.binary(2)),
        pa.array([], pa.int64()),
        pa.array([5, None, 7, 8, None], pa.int16()).slice(1, 3),
        pa.array(["z", None, "a", "\0"]).slice(1),
    ],
)
def test_columns_of_every_kind_and_slice(values: pa.Array) -> None:
    codec = KeyCodec([values.type], [0])
    one_by_one = [codec.encode_one((value,)) for value in values.to_pylist()]
    assert codec.encode([values]).tolist() == one_by_one


def test_without_nullable_columns_nothing_is_different() -> None:
    types = [pa.int32(), pa.string()]
    plain, beside = KeyCodec(types), KeyCodec(types, ())
    keys = [(1, "a"), (2, "")]
    assert encoded(plain, *keys) == encoded(beside, *keys)
    assert encoded(plain, (1, "a")) == [b"\x80\0\0\1a"]
    with pytest.raises(InvalidData, match="a key value is null"):
        plain.arrays([(None, "a")])
    with pytest.raises(InvalidData, match="key column 'b': a key value is null"):
        KeyCodec(types, [0]).arrays([(None, None)], ["a", "b"])


VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.bool_(): st.booleans(),
    pa.int8(): st.integers(-128, 127),
    pa.int64(): st.sampled_from([-(2**63), -1, 0, 1, 2**63 - 1]) | st.integers(-(2**63), 2**63 - 1),
    pa.float64(): st.floats(),
    pa.decimal128(10, 2): st.decimals(-999, 999, places=2),
    pa.date32(): st.dates(),
    pa.string(): st.text(st.sampled_from("\0\1aÿ"), max_size=3),
    pa.binary(): st.binary(max_size=3) | st.binary(min_size=60, max_size=90),
}


@st.composite
def composite_keys(draw: st.DrawFn) -> tuple[KeyCodec, list[tuple[Any, ...]]]:
    types = draw(st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=4))
    nullable = [at for at in range(len(types)) if draw(st.booleans())]
    columns = [
        st.none() | VALUES[kind] if at in nullable else VALUES[kind]
        for at, kind in enumerate(types)
    ]
    keys = draw(st.lists(st.tuples(*columns), min_size=2, max_size=12))
    return KeyCodec(types, nullable), keys


def as_spark_sorts(value: Any) -> tuple[Any, ...]:
    """Nulls first, NaN after every other number, text by its bytes."""
    if value is None:
        return (0,)
    if isinstance(value, float):
        return (1, math.isnan(value), 0.0 if math.isnan(value) else value)
    return (1, value.encode() if isinstance(value, str) else value)


@given(composite_keys())
def test_the_encoding_is_injective_and_sorts_as_spark_does(
    drawn: tuple[KeyCodec, list[tuple[Any, ...]]],
) -> None:
    codec, keys = drawn
    found = codec.encode(codec.arrays(keys))
    model = [tuple(map(as_spark_sorts, key)) for key in keys]
    for i in range(len(keys)):
        assert codec.encode_one(keys[i]) == found[i]
        for j in range(i):
            assert (found[i] < found[j]) == (model[i] < model[j])
            assert (found[i] == found[j]) == (model[i] == model[j])
    assert codec.from_binary(codec.to_binary(found)).tolist() == found.tolist()
    one_by_one = [int(hash_keys(codec.encode(codec.arrays([key])), 1)[0]) for key in keys]
    assert hash_keys(found, 1).tolist() == one_by_one


# --- schemas --------------------------------------------------------------------------------


def test_users_keys_stay_not_null() -> None:
    assert not TableSchema.of(CITIES, "city").column("city").nullable
    assert TableSchema.of(CITIES, "city").nullable_keys == ()
    kept = TableSchema.of(CITIES, ["city", "year"], nullable_key=True)
    assert kept.nullable_keys == (0, 1)


def test_a_derived_schema_takes_its_fields_as_they_are() -> None:
    fields = pa.schema([pa.field("n", pa.int64()), pa.field("city", pa.large_string(), False)])
    schema = TableSchema.of_query(fields, ("city", "n"))
    assert schema.arrow == pa.schema(
        [pa.field("n", pa.int64()), pa.field("city", pa.string(), False)]
    )
    assert schema.nullable_keys == (1,)
    assert schema.key_codec.nullable == (1,)
    assert Layout().grouping(schema).row_shape.codec.nullable == (1,)
    assert TableSchema.from_json(schema.to_json()) == schema


def test_every_group_of_columns_has_the_same_keys() -> None:
    layout = Layout(groups=[["sum"]])
    schema = TableSchema.of_query(pa.schema([*CITIES, ("note", pa.string())]), ["city", "year"])
    assert [shape.nullable for shape in layout.grouping(schema).shapes] == [(0, 1), (0, 1)]


# --- rows -----------------------------------------------------------------------------------

ROWS: list[dict[str, Any]] = [
    {"city": None, "year": None, "sum": 1},
    {"city": None, "year": 0, "sum": 2},
    {"city": "", "year": None, "sum": 3},
    {"city": "", "year": -(2**31), "sum": 4},
    {"city": "\0", "year": None, "sum": 5},
    {"city": "Oslo", "year": None, "sum": None},
    {"city": "Oslo", "year": 0, "sum": 7},
]


@pytest.fixture
def db(tmp_path: Path) -> Iterator[livingdb.Database]:
    with livingdb.create(tmp_path / "views.ldb", author="ann") as database:
        yield database


@pytest.fixture
def main(db: livingdb.Database) -> livingdb.Branch:
    """A table as a view of groups has it."""
    branch = db.branch("main")
    with branch.transaction() as tx:
        tx.work.create_table("cities", definition(CITIES, "city", "year"))
        tx.insert("cities", ROWS[::-1])
    return branch


def test_rows_come_back_in_order(main: livingdb.Branch) -> None:
    table = main.table("cities")
    assert table.to_arrow().to_pylist() == ROWS
    assert table.key == ("city", "year")
    for row in ROWS:
        assert table.get((row["city"], row["year"])) == row
    assert table.get(("\0", 0)) is None
    assert table.get((None, 1)) is None


def test_a_key_is_there_once(main: livingdb.Branch) -> None:
    with pytest.raises(DuplicateKey, match="the same key"):
        main.upsert("cities", [{"city": None, "year": 3}, {"city": None, "year": 3}])
    with pytest.raises(DuplicateKey, match="city=None, year=None"):
        main.insert("cities", [{"city": None, "year": None}])
    with pytest.raises(MissingKey, match="city=None, year=9"):
        main.update("cities", [{"city": None, "year": 9, "sum": 1}])


def test_single_null_key(db: livingdb.Database) -> None:
    main = db.branch("main")
    with main.transaction() as tx:
        tx.work.create_table("n", definition(pa.schema([("k", pa.int64())]), "k"))
        tx.insert("n", {"k": [3, None, 0]})
    assert main.table("n").to_arrow().column("k").to_pylist() == [None, 0, 3]
    assert main.table("n").get(None) == {"k": None}
    assert None in main.table("n")
    main.delete("n", [None], strict=True)
    assert main.table("n").to_arrow().column("k").to_pylist() == [0, 3]
    assert main.table("n").get(None) is None


def test_changes_diff_blame_and_history(db: livingdb.Database, main: livingdb.Branch) -> None:
    before = main.head
    main.update("cities", [{"city": None, "year": None, "sum": 10}])
    main.delete("cities", [(None, 0), ("", None)])
    main.insert("cities", [{"city": "\0", "year": 1, "sum": 8}])
    found = db.diff(before, main.head)["cities"]
    assert found.key == ("city", "year")
    assert [
        (row["city"], row["year"], row["_change_type"], row["_before"] and row["_before"]["sum"])
        for row in found.to_arrow().to_pylist()
    ] == [
        (None, None, "update", 1),
        (None, 0, "delete", 2),
        ("", None, "delete", 3),
        ("\0", 1, "insert", None),
    ]
    assert dict(found.summary()) == {"inserted": 1, "updated": 1, "deleted": 2}
    blamed = db.blame("main", "cities").to_pylist()
    newest = {(row["city"], row["year"]): row["snapshot"] for row in blamed}
    assert len(newest) == len(ROWS) - 1
    assert newest[None, None] != newest["Oslo", 0]
    assert (
        db.blame("main", "cities", key=(None, None)).to_pylist()[0]["snapshot"]
        == newest[None, None]
    )
    events = db.history("main", "cities", key=(None, None)).to_pylist()
    assert [(event["_change_type"], event["sum"]) for event in events] == [
        ("update", 10),
        ("insert", 1),
    ]
    assert db.check().ok


@pytest.fixture(params=["tree", "tail"])
def wide(request: pytest.FixtureRequest, db: livingdb.Database) -> livingdb.Branch:
    """Many leaves, or a tail over few."""
    main = db.branch("main")
    with main.transaction() as tx:
        tx.work.create_table("cities", definition(CITIES, "city", "year"))
        rows = [
            {"city": city, "year": year, "sum": number}
            for number, (city, year) in enumerate(
                (city, year)
                for city in (None, "", "Bodø", "Oslo", "Oslo\0", "Rome")
                for year in (None, *range(-10, 20))
            )
        ]
        first = rows if request.param == "tree" else rows[::7]
        tx.insert("cities", first)
    if request.param == "tail":
        main.insert("cities", [row for row in rows if row not in first])
    return main


def holds(row: dict[str, Any], city: Any, year: Any) -> bool:
    return (
        row["city"] is not None
        and row["year"] is not None
        and city(row["city"])
        and year(row["year"])
    )


@pytest.mark.parametrize(
    ("condition", "passes"),
    [
        ("city IS NULL", lambda row: row["city"] is None),
        ("city IS NULL AND year IS NULL", lambda row: row["city"] is None and row["year"] is None),
        ("city IS NULL AND year = 3", lambda row: row["city"] is None and row["year"] == 3),
        ("city = ''", lambda row: row["city"] == ""),
        ("city <=> 'Oslo'", lambda row: row["city"] == "Oslo"),
        ("city < 'Bodø'", lambda row: row["city"] == ""),
        ("city >= ''", lambda row: row["city"] is not None),
        ("city > 'Oslo'", lambda row: row["city"] in ("Oslo\0", "Rome")),
        ("city = 'Oslo' AND year <= 2", lambda r: holds(r, "Oslo".__eq__, lambda y: y <= 2)),
        ("city = 'Oslo' AND year > 2", lambda r: holds(r, "Oslo".__eq__, lambda y: y > 2)),
        ("city = 'Oslo' AND year IS NULL", lambda r: r["city"] == "Oslo" and r["year"] is None),
        (
            "city IN ('', 'Rome') AND year IN (0, 1)",
            lambda r: holds(r, ("", "Rome").__contains__, (0, 1).__contains__),
        ),
        ("city LIKE 'Os%'", lambda row: row["city"] in ("Oslo", "Oslo\0")),
        ("year < -8", lambda row: row["year"] is not None and row["year"] < -8),
        ("year = -2147483648", lambda row: False),
        ("sum BETWEEN 30 AND 33", lambda row: 30 <= row["sum"] <= 33),
        ("NOT city = 'Oslo'", lambda row: row["city"] not in (None, "Oslo")),
    ],
)
def test_ranges_in_sql(wide: livingdb.Branch, condition: str, passes: Any) -> None:
    table = wide.table("cities").to_arrow().to_pylist()
    expected = [row for row in table if passes(row)]
    found = wide.sql(f"SELECT * FROM cities WHERE {condition}").to_arrow().to_pylist()
    assert sorted(found, key=table.index) == expected
    assert wide.table("cities").to_arrow(where=condition).to_pylist() == expected


def test_an_equality_reads_few_leaves(wide: livingdb.Branch) -> None:
    from livingdb.engines.pruning import scan_bounds
    from livingdb.engines.value_ranges import comparison_ranges

    rows = wide.table("cities").rows
    wanted = {
        "city": comparison_ranges(pa.string(), "=", "Oslo"),
        "year": comparison_ranges(pa.int32(), "<", -8),
    }
    part = scan_bounds(rows.schema, {name: ranges for name, ranges in wanted.items() if ranges})
    (span,) = part.spans
    assert rows.to_arrow(span=span).select(["city", "year"]).to_pylist() == [
        {"city": "Oslo", "year": -10},
        {"city": "Oslo", "year": -9},
    ]


def test_tables_that_differ_in_nullability_share_no_keys(db: livingdb.Database) -> None:
    """Their leaves are the same chunks, which one cache holds."""
    main = db.branch("main")
    rows = {"k": list(range(5)), "v": list(range(5))}
    fields = pa.schema([("k", pa.int64()), ("v", pa.int64())])
    with main.transaction() as tx:
        tx.work.create_table("nullable", definition(fields, "k", layout=Layout()))
        tx.insert("nullable", rows)
        tx.work.create_table("plain", Definition(TableSchema.of(fields, "k"), Layout()))
        tx.insert("plain", rows)
    assert main.table("nullable").root() == main.table("plain").root()
    for _ in range(2):
        for name in ("nullable", "plain"):
            assert [main.table(name).get(k) for k in (0, 4, 5)] == [
                {"k": 0, "v": 0},
                {"k": 4, "v": 4},
                None,
            ]


def test_null_in_a_users_key_is_refused(db: livingdb.Database) -> None:
    main = db.branch("main")
    main.create_table("t", {"k": "bigint"}, key="k")
    with pytest.raises(InvalidData, match="NOT NULL"):
        main.insert("t", {"k": [None]})
    with pytest.raises(InvalidData, match="NOT NULL"):
        main.table("t").get(None)


# --- the canonical law ----------------------------------------------------------------------

KEYS = st.tuples(
    st.none() | st.sampled_from(["", "\0", "a", "ab", "b"]), st.none() | st.integers(-3, 3)
)


@settings(max_examples=tries(60))
@given(
    st.dictionaries(KEYS, st.integers(0, 3), max_size=60),
    st.lists(st.dictionaries(KEYS, st.none() | st.integers(0, 3), max_size=20), max_size=3),
    st.sampled_from([None, [["sum"]]]),
)
def test_a_tree_does_not_know_how_it_came_to_be(
    start: dict[Any, int], edits: list[dict[Any, int | None]], groups: Any
) -> None:
    fields = pa.schema([*CITIES, ("note", pa.string())])
    made = definition(fields, "city", "year", layout=Layout(target_rows=4, groups=groups))
    schema, store = made.schema, MemoryStore()
    forest = Forest(store, made.layout.grouping(schema))

    def build(rows: dict[Any, int]) -> bytes:
        data = [{"city": c, "year": y, "sum": n, "note": c} for (c, y), n in rows.items()]
        columns, _ = ingest.sorted_rows(schema, forest.shape, data)
        return forest.build([columns], lambda chunk: store.put([chunk]))

    root, rows = build(start), dict(start)
    for edit in edits:
        gone = [key for key, value in edit.items() if value is None]
        new = {key: value for key, value in edit.items() if value is not None}
        data = [{"city": c, "year": y, "sum": n, "note": c} for (c, y), n in new.items()]
        for changes in (
            ingest.deletes(schema, forest.shape, gone),
            ingest.upserts(schema, forest.shape, data),
        ):
            root = forest.edit(root, changes, lambda chunk: store.put([chunk]))
        rows = {key: value for key, value in (rows | new).items() if key not in gone}
    assert root == build(rows)
    assert forest.count_rows(root) == len(rows)
