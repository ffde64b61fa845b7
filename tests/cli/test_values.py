"""Keys as they are typed, values as they are told."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cli.telling import tell

import livingdb
from livingdb.cli.keys import parse_key
from livingdb.cli.values import csv_cell, fact_text, json_text, json_value, value_text
from livingdb.errors import InvalidData

ID = pa.field("id", pa.int64())
CITY = pa.field("city", pa.string())
DAY = pa.field("day", pa.date32())

# --- keys -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "text", "key"),
    [
        ([ID], "42", (42,)),
        ([ID], " 42 ", (42,)),
        ([ID], "[42]", (42,)),
        ([ID], '{"id": 42}', (42,)),
        ([CITY], "Oslo, Norway", ("Oslo, Norway",)),
        ([CITY], "", ("",)),
        ([CITY], "[x", ("[x",)),
        ([CITY], '"quoted"', ("quoted",)),
        ([CITY], '"open', ('"open',)),
        ([CITY], "Bodø", ("Bodø",)),
        ([CITY, DAY], "Oslo,2024-02-29", ("Oslo", date(2024, 2, 29))),
        ([CITY, ID], '"Oslo, N",7', ("Oslo, N", 7)),
        ([CITY, ID], '["Oslo, N", 7]', ("Oslo, N", 7)),
        ([CITY, DAY], '{"day": "2024-02-29", "city": "a"}', ("a", date(2024, 2, 29))),
        ([pa.field("at", pa.timestamp("us"))], "2024-01-01T10:00", (datetime(2024, 1, 1, 10),)),
        (
            [pa.field("at", pa.timestamp("us", "UTC"))],
            "2024-01-01 10:00",
            (datetime(2024, 1, 1, 10, tzinfo=UTC),),
        ),
        (
            [pa.field("at", pa.timestamp("us", "UTC"))],
            "2024-01-01T10:00+02:00",
            (datetime(2024, 1, 1, 10, tzinfo=timezone(timedelta(hours=2))),),
        ),
        ([pa.field("price", pa.decimal128(9, 2))], "1.20", (Decimal("1.20"),)),
        ([pa.field("good", pa.bool_())], "true", (True,)),
        ([pa.field("raw", pa.binary())], "00ff", (b"\x00\xff",)),
        ([pa.field("x", pa.float64())], "1e3", (1000.0,)),
    ],
)
def test_keys(fields: list[pa.Field], text: str, key: tuple[Any, ...]) -> None:
    assert parse_key(fields, text) == key


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ([ID], "x"),
        ([ID], "1.5"),
        ([ID], "99999999999999999999"),
        ([ID], "[1, 2]"),
        ([ID], "{}"),
        ([ID], '{"id": 1, "x": 2}'),
        ([CITY, ID], "Oslo"),
        ([CITY, ID], "Oslo,1,2"),
        ([CITY, ID], '"Oslo"x,1'),
        ([CITY, DAY], "Oslo,yesterday"),
        ([pa.field("raw", pa.binary())], "xyz"),
    ],
)
def test_no_keys(fields: list[pa.Field], text: str) -> None:
    with pytest.raises(InvalidData, match="key"):
        parse_key(fields, text)


@given(st.lists(st.text(max_size=5) | st.integers(-9, 9), min_size=1, max_size=3))
def test_json_names_every_key(values: list[Any]) -> None:
    fields = [
        pa.field(f"c{at}", pa.string() if isinstance(value, str) else pa.int64())
        for at, value in enumerate(values)
    ]
    assert parse_key(fields, json.dumps(values)) == tuple(values)


# --- values -----------------------------------------------------------------------------------

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary()
    | st.decimals() | st.dates() | st.datetimes(timezones=st.none() | st.just(UTC)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
)  # fmt: skip


@given(VALUES)
def test_json_is_json(value: Any) -> None:
    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    assert json.loads(json_text(value), parse_constant=refuse) == json_value(value)


@given(st.lists(st.none() | st.text(st.characters(exclude_characters="\0")), min_size=2))
def test_csv_is_csv(values: list[str | None]) -> None:
    line = ",".join(map(csv_cell, values)) + "\n"
    (read,) = csv.reader(io.StringIO(line, newline=""), strict=True)
    assert read == [value or "" for value in values]


@given(VALUES)
def test_nothing_moves_the_cursor(value: Any) -> None:
    for text in (value_text(value), fact_text(value)):
        assert not any(ord(c) < 32 or 127 <= ord(c) < 160 for c in text)


def test_hostile_rows_stay_on_their_lines(tmp_path: Path) -> None:
    with livingdb.create(tmp_path / "x.ldb") as db:
        main = db.branch("main")
        main.create_table("t", {"id": "bigint", "text": "string"}, "id")
        evil = ["\x1b[2J\x1b[31m", "a\nb\r\tc", "[bold]x[/bold]", "\u2028", "NULL", "ø" * 5]
        main.insert("t", [{"id": at, "text": text} for at, text in enumerate(evil)])
        main.insert("t", [{"id": 99, "text": None}], message="\x1b[31m[red]\nnext")
    told = tell("sql", "SELECT * FROM t ORDER BY id", db=tmp_path / "x.ldb")
    lines = [line for line in told.out.splitlines() if line.strip()]
    assert len(lines) == 2 + 7 + 1
    assert "\\x1b[2J\\x1b[31m" in told.out
    assert "[bold]x[/bold]" in told.out
    assert "\x1b" not in told.out
    assert "\x1b" not in tell("log", db=tmp_path / "x.ldb").out
    for form in ("json", "csv"):
        told = tell("-o", form, "sql", "SELECT text FROM t ORDER BY id", db=tmp_path / "x.ldb")
        if form == "json":
            assert [row["text"] for row in told.json] == [*evil, None]
        else:
            assert [row[0] if row else "" for row in csv.reader(io.StringIO(told.out, newline=""))][
                1:
            ] == [*evil, ""]


def test_every_type_can_be_told(tmp_path: Path) -> None:
    row = {
        "id": 1,
        "d": Decimal("12345678901234567890.10"),
        "x": float("nan"),
        "y": float("-inf"),
        "b": b"\x00\xff",
        "t": datetime(2024, 1, 1, 10, 0, 0, 1, tzinfo=UTC),
        "n": datetime(2024, 1, 1, 10),
        "l": [1, None],
        "s": {"a": 1, "b": "x"},
        "m": [("k", 1.5)],
        "f": False,
    }
    types = {
        "id": "bigint", "d": "decimal(30,2)", "x": "double", "y": "float", "b": "binary",
        "t": "timestamp", "n": "timestamp_ntz", "l": "array<int>", "s": "struct<a:int,b:string>",
        "m": "map<string,double>", "f": "boolean",
    }  # fmt: skip
    with livingdb.create(tmp_path / "x.ldb") as db:
        db.branch("main").create_table("t", types, "id")
        db.branch("main").insert("t", [row])
    (told,) = tell("-o", "json", "history", "t", "1", db=tmp_path / "x.ldb").json
    assert {name: told[name] for name in types} == {
        "id": 1,
        "d": "12345678901234567890.10",
        "x": "NaN",
        "y": "-Infinity",
        "b": "00ff",
        "t": "2024-01-01T10:00:00.000001+00:00",
        "n": "2024-01-01T10:00:00",
        "l": [1, None],
        "s": {"a": 1, "b": "x"},
        "m": [["k", 1.5]],
        "f": False,
    }
    for form in ("text", "csv"):
        assert tell("-o", form, "history", "t", "1", db=tmp_path / "x.ldb").code == 0


# --- pictures and lineage: as the database has them -------------------------------------------


@pytest.mark.parametrize("form", ["text", "mermaid", "svg", "html"])
def test_graph(form: str, shop: Path) -> None:
    with livingdb.open(shop) as db:
        drawn = str(getattr(db.graph(), f"to_{form}")())
    assert tell("graph", "--format", form, db=shop).out.strip() == drawn.strip()
    told = tell("-o", "json", "graph", "--format", form, "--out", "picture", db=shop)
    assert told.json["file"] == "picture"
    assert Path("picture").read_text(encoding="utf-8").strip() == drawn.strip()
    assert tell("-o", "json", "graph", "--format", form, db=shop).json["picture"].strip() == (
        drawn.strip()
    )


def test_graph_into_no_file(shop: Path) -> None:
    assert tell("graph", "--out", "no/such/folder", db=shop).code == 3


def test_lineage(shop: Path) -> None:
    told = tell("-o", "json", "lineage", "large", "2", db=shop)
    assert told.code == 0, told.err
    assert [(row["table"], row["row"]["id"]) for row in told.json] == [("orders", 2)]
    assert "Bodø" in tell("lineage", "large", "2", db=shop).out
    assert tell("lineage", "large", "77", db=shop).code == 3


def test_column_lineage(shop: Path) -> None:
    told = tell("-o", "json", "lineage", "large", "--columns", db=shop)
    assert told.code == 0, told.err
    assert {row["column"] for row in told.json} == {"id", "amount"}
    assert "amount" in str(next(r for r in told.json if r["column"] == "amount")["from"])


def test_forward_lineage(shop: Path) -> None:
    told = tell("-o", "json", "lineage", "--forward", "orders", "2", db=shop)
    assert told.code == 0, told.err
    assert {"large", "totals"} <= {row["object"] for row in told.json}


def test_bench_says_where_it_is(
    shop: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(livingdb, "__file__", str(tmp_path / "a" / "b" / "c.py"))
    told = tell("bench")
    assert (told.code, "make bench" in told.err) == (3, True)


def test_bench_runs_that_of_the_source(shop: Path) -> None:
    assert tell("bench", "nothing-of-this-name").code == 2
