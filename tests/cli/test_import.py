"""`livingdb import`: every format, keys that are guessed, rows that are bad, one transaction."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow.csv import write_csv
from tests.cli.telling import Told, tell

import livingdb
from livingdb.cli.import_sources import Column, Guess, guess_key

ROWS = pa.table(
    {
        "id": pa.array([3, 1, 2], pa.int64()),
        "name": ["Øyvind, jr.", 'say "hi"', None],
        "amount": pa.array([1.5, None, -2.25]),
        "day": [date(2024, 2, 29), None, date(1970, 1, 1)],
        "at": [datetime(2024, 1, 1, 10, 30), None, datetime(1999, 12, 31, 23, 59, 59)],
        "good": [True, None, False],
    }
)


@pytest.fixture
def db(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty database beside the files."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LIVINGDB", raising=False)
    livingdb.create("shop.ldb").close()
    return tmp_path / "shop.ldb"


def rows(db: Path, table: str = "people") -> list[dict[str, Any]]:
    with livingdb.open(db) as opened:
        found: list[dict[str, Any]] = opened.branch("main").table(table).to_arrow().to_pylist()
    return found


def key(db: Path, table: str = "people") -> tuple[str, ...]:
    with livingdb.open(db) as opened:
        return opened.branch("main").table(table).key


def snapshots(db: Path) -> int:
    with livingdb.open(db) as opened:
        return len(opened.snapshots())


def bring(db: Path, *words: str, table: str = "people") -> Told:
    return tell("-o", "json", "import", *words, "--table", table, db=db)


# --- formats ----------------------------------------------------------------------------------


def write(form: str, table: pa.Table) -> str:
    if form == "csv":
        write_csv(table, "people.csv")
    elif form == "csv.gz":
        write_csv(table, "plain.csv")
        Path("people.csv.gz").write_bytes(gzip.compress(Path("plain.csv").read_bytes()))
    elif form == "parquet":
        pa.parquet.write_table(table, "people.parquet")
    elif form == "arrow":
        pa.feather.write_feather(table, "people.arrow", compression="uncompressed")
    else:
        plain = [{k: str(v) if isinstance(v, date) else v for k, v in row.items()}
                 for row in table.to_pylist()]  # fmt: skip
        text = json.dumps(plain) if form == "json" else "\n".join(map(json.dumps, plain))
        Path(f"people.{form}").write_text(text)
    return f"people.{form}"


@pytest.mark.parametrize("form", ["csv", "csv.gz", "parquet", "arrow", "json", "jsonl"])
def test_every_format(form: str, db: Path) -> None:
    told = bring(db, write(form, ROWS))
    assert told.code == 0, told.err
    assert (told.json["rows"], told.json["key"]) == (3, ["id"])
    assert rows(db) == ROWS.sort_by("id").to_pylist()
    assert len(told.err.splitlines()) == 1, "progress is for terminals"
    assert snapshots(db) == 2, "one transaction"
    with livingdb.open(db) as opened:
        assert opened.branch("main").head.message == f"import people.{form}"
        assert opened.check().ok
        made = livingdb.create("twin.ldb").branch("main")
        made.create_table("people", opened.branch("main").table("people").schema, "id")
        made.insert("people", ROWS)
        assert opened.branch("main").table("people").root() == made.table("people").root()


def test_a_format_that_the_name_does_not_tell(db: Path) -> None:
    Path(write("csv", ROWS)).rename("people.txt.old")
    assert bring(db, "people.txt.old").code == 2
    assert bring(db, "people.txt.old", "--format", "csv").code == 0


@pytest.mark.parametrize("separator", [";", "\t", "|", ","])
def test_what_separates_cells_is_found(separator: str, db: Path) -> None:
    text = 'id,"the name",amount\n1,"a;b\t|,c",2.5\n'.replace(",", separator)
    text = text.replace(f"|{separator}c", "|,c")
    Path("people.csv").write_text("\ufeff" + text)
    assert bring(db, "people.csv").code == 0
    assert rows(db) == [{"id": 1, "the name": "a;b\t|,c", "amount": 2.5}]


def test_several_files_with_other_columns(db: Path) -> None:
    Path("a.csv").write_text("id,city\n1,Oslo\n")
    Path("b.csv").write_text("amount,id\n2.5,2\n")
    Path("odd [x]*.csv").write_text("id\n3\n")
    assert bring(db, "a.csv", "b.csv", "odd [x]*.csv").code == 0
    assert rows(db) == [
        {"id": 1, "city": "Oslo", "amount": None},
        {"id": 2, "city": None, "amount": 2.5},
        {"id": 3, "city": None, "amount": None},
    ]


def test_types_arrow_has_and_livingdb_has_not(db: Path) -> None:
    odd = pa.table(
        {
            "id": pa.array([1], pa.uint8()),
            "time": pa.array([1_000_000], pa.time64("us")),
            "nano": pa.array([1_700_000_000_000_000_001], pa.timestamp("ns")),
            "zoned": pa.array([0], pa.timestamp("us", "Europe/Oslo")),
            "nothing": pa.nulls(1),
            "price": pa.array([Decimal("1.20")], pa.decimal128(5, 2)),
            "tags": pa.array([["a", None]], pa.list_(pa.string())),
            "word": pa.array(["x"]).dictionary_encode(),
        }
    )
    pa.parquet.write_table(odd, "people.parquet")
    told = bring(db, "people.parquet")
    assert told.code == 0, told.err
    (row,) = rows(db)
    assert row["time"] == "00:00:01"
    assert row["nano"] == datetime(2023, 11, 14, 22, 13, 20)
    assert row["zoned"] == datetime(1970, 1, 1, tzinfo=UTC)
    assert (row["nothing"], row["price"], row["tags"]) == (None, Decimal("1.20"), ["a", None])
    assert row["word"] == "x"


def test_types_that_are_said(db: Path) -> None:
    Path("people.csv").write_text("id,zip,price\n1,0150,1.5\n2,9008,2\n")
    assert bring(db, "people.csv", "--type", "zip=string", "--type", "price=decimal(9,2)").code == 0
    assert [(row["zip"], row["price"]) for row in rows(db)] == [
        ("0150", Decimal("1.50")),
        ("9008", Decimal("2.00")),
    ]
    assert bring(db, "people.csv", "--type", "zip=zip").code == 5


def test_an_existing_table_says_the_types(db: Path) -> None:
    with livingdb.open(db) as opened:
        schema = {"id": "int", "zip": "string", "at": "timestamp", "on": "string"}
        opened.branch("main").create_table("people", schema, "id")
    Path("people.csv").write_text("id,zip,at,on\n1,0150,2024-01-01 10:00:00,2024-01-01\n")
    assert bring(db, "people.csv").code == 0
    at = datetime(2024, 1, 1, 10, tzinfo=UTC)
    first = {"id": 1, "zip": "0150", "at": at, "on": "2024-01-01"}
    assert rows(db) == [first]
    Path("more.json").write_text('{"id": 2, "zip": "01", "on": "2024-01-01T00:00:00Z"}')
    assert bring(db, "more.json").code == 0
    assert rows(db) == [first, {"id": 2, "zip": "01", "at": None, "on": "2024-01-01T00:00:00Z"}]


# --- modes ------------------------------------------------------------------------------------


def test_modes(db: Path) -> None:
    Path("one.csv").write_text("id,city\n2,Oslo\n1,Rome\n")
    Path("two.csv").write_text("id,city\n2,Bodø\n3,Bergen\n")
    assert bring(db, "one.csv").code == 0
    told = bring(db, "two.csv")
    assert told.code == 5
    assert "the key 2 already" in told.err
    assert bring(db, "two.csv", "--mode", "upsert").json["rows"] == 2
    assert {row["id"]: row["city"] for row in rows(db)} == {1: "Rome", 2: "Bodø", 3: "Bergen"}
    assert bring(db, "two.csv", "--mode", "replace").json["rows"] == 2
    assert {row["id"]: row["city"] for row in rows(db)} == {2: "Bodø", 3: "Bergen"}
    assert snapshots(db) == 4
    with livingdb.open(db) as opened:
        assert opened.check().ok


def test_on_a_branch(db: Path) -> None:
    assert tell("branch", "create", "dev", db=db).code == 0
    Path("one.csv").write_text("id\n1\n")
    assert tell("--branch", "dev", "import", "one.csv", "--table", "t", db=db).code == 0
    with livingdb.open(db) as opened:
        assert opened.branch("main").tables() == []
        assert opened.branch("dev").tables() == ["t"]


def test_no_rows(db: Path) -> None:
    Path("people.csv").write_text("id,city\n")
    assert bring(db, "people.csv").json["rows"] == 0
    assert rows(db) == []
    assert bring(db, "people.csv", "--mode", "replace").code == 0


def test_many_rows_in_no_order(db: Path) -> None:
    count = 200_000
    numbers = pa.array(range(count), pa.int64())
    keys = pa.compute.bit_wise_xor(numbers, 0b10101010101)
    pa.parquet.write_table(pa.table({"city": keys.cast(pa.string()), "n": numbers}), "big.parquet")
    told = bring(db, "big.parquet", "--key", "city")
    assert told.json["rows"] == count
    with livingdb.open(db) as opened:
        table = opened.branch("main").table("people").to_arrow()
        assert table.num_rows == count
        assert table.column("city").to_pylist() == sorted(keys.cast(pa.string()).to_pylist())


def test_views_follow_an_import(db: Path) -> None:
    Path("one.csv").write_text("id,city\n1,Oslo\n")
    Path("two.csv").write_text("id,city\n2,Rome\n")
    assert bring(db, "one.csv").code == 0
    view = ["--sql", "SELECT city FROM people", "--when", "immediate", "--key", "city"]
    assert tell("derive", "cities", *view, db=db).code == 0
    assert bring(db, "two.csv").code == 0
    assert [row["city"] for row in rows_of(db, "cities")] == ["Oslo", "Rome"]
    assert bring(db, "two.csv", "--mode", "replace").code == 0
    assert [row["city"] for row in rows_of(db, "cities")] == ["Rome"]


def rows_of(db: Path, view: str) -> list[dict[str, Any]]:
    with livingdb.open(db) as opened:
        found: list[dict[str, Any]] = opened.branch(view).table(view).to_arrow().to_pylist()
    return found


# --- bad rows ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("a.csv", "id,city\n1,Oslo\n2,Rome,5,6\n3,Bergen\n", "a.csv, line 3"),
        ("a.csv", "", "first line"),
        ("a.csv", "\n\n", "first line"),
        ("a.json", '{"id": 1}\n{"id": \n', "a.json"),
        ("a.json", "[1, 2", "a.json"),
        ("a.parquet", "no parquet", "a.parquet"),
        ("a.arrow", "no arrow", "a.arrow"),
        ("a.csv", "id,id2\n1,a\n1,a\n", "no column"),
        ("a.csv", "name,x\na,1.5\n,2.5\n", "no column"),
    ],
)
def test_bad_files(name: str, text: str, says: str, db: Path) -> None:
    Path(name).write_text(text)
    told = bring(db, name)
    assert told.code == 5, told
    assert says in told.err
    assert len(told.err.splitlines()) == 1
    assert snapshots(db) == 1


def test_a_bad_cell_is_told_with_its_line(db: Path) -> None:
    with livingdb.open(db) as opened:
        opened.branch("main").create_table("people", {"id": "bigint", "amount": "double"}, "id")
    Path("a.csv").write_text("id,amount\n1,2.5\n2,much\n")
    told = bring(db, "a.csv")
    assert told.code == 5
    assert "a.csv, line 3" in told.err
    assert "much" in told.err
    assert rows(db) == []


def test_a_key_that_is_none(db: Path) -> None:
    Path("a.csv").write_text("id,city\n1,Oslo\n2,\n3,Oslo\n")
    told = bring(db, "a.csv", "--key", "city")
    assert (told.code, "'city' is null" in told.err) == (5, True)
    Path("b.csv").write_text("id,city\n1,Oslo\n3,Oslo\n")
    told = bring(db, "b.csv", "--key", "city")
    assert (told.code, "{'city': 'Oslo'}" in told.err) == (5, True)
    assert snapshots(db) == 1


# --- keys that are guessed --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "text", "found"),
    [
        ("orders", "city,id\nOslo,1\nRome,2\n", ["id"]),
        ("orders", "city,ID\nOslo,1\nRome,2\n", ["ID"]),
        ("orders", "city,order_id\nOslo,1\nRome,2\n", ["order_id"]),
        ("cities", "x,city_id,y\n1,7,2\n2,8,3\n", ["city_id"]),
        ("orders", "city,number\nOslo,1\nOslo,2\n", ["number"]),
        ("orders", "id,number\n1,1\n1,2\n", ["number"]),
        ("orders", "amount,number\n1.5,1\n2.5,2\n", ["number"]),
    ],
)
def test_keys_that_are_clear(table: str, text: str, found: list[str], db: Path) -> None:
    Path("a.csv").write_text(text)
    assert bring(db, "a.csv", table=table).json["key"] == found
    assert key(db, table) == tuple(found)


@pytest.mark.parametrize(
    ("text", "likely"),
    [
        ("city,number\nOslo,1\nRome,2\n", "city"),
        ("city,day,n\nOslo,1,3\nOslo,2,3\nRome,1,3\n", "city,day"),
        ("only\nx\n", "only"),
    ],
)
def test_keys_that_are_not_clear(text: str, likely: str, db: Path) -> None:
    Path("a.csv").write_text(text)
    told = bring(db, "a.csv")
    assert told.code == 2
    assert f"--key {likely} would do" in told.err
    assert snapshots(db) == 1
    assert bring(db, "a.csv", "--key", likely).code == 0
    assert key(db) == tuple(likely.split(","))


@given(
    st.integers(0, 5),
    st.lists(st.tuples(st.sampled_from(["id", "t_id", "a", "b", "c"]), st.integers(0, 5),
                       st.integers(0, 5)), unique_by=lambda c: c[0]),
    st.sets(st.frozensets(st.sampled_from(["id", "t_id", "a", "b", "c"]), min_size=2, max_size=2)),
)  # fmt: skip
def test_a_guess_is_unique_and_never_null(
    count: int, found: list[tuple[str, int, int]], unique: set[frozenset[str]]
) -> None:
    columns = [Column(n, min(v, count), min(d, v, count)) for n, v, d in found]
    guess = guess_key("t", count, columns, lambda pair: frozenset(pair) in unique)
    by_name = {column.name: column for column in columns}
    alone = [c.name for c in columns if c.values == c.different == count]
    if guess is None:
        assert not alone
        return
    assert all(by_name[name].values == count for name in guess.key)
    if len(guess.key) == 1:
        assert guess.key[0] in alone
    else:
        assert not alone
        assert frozenset(guess.key) in unique
        assert not guess.is_sure
    if "id" in alone:
        assert guess == Guess(("id",), True)


# --- Spark ------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("form", ["csv", "parquet", "json", "jsonl"])
def test_through_spark(form: str, db: Path) -> None:
    file = write(form, ROWS)
    assert bring(db, file, "--engine", "spark").code == 0
    assert rows(db) == ROWS.sort_by("id").to_pylist()
    assert bring(db, file, "--engine", "spark").code == 5
    assert bring(db, file, "--engine", "spark", "--mode", "upsert").json["rows"] == 3
    assert bring(db, file, "--engine", "spark", "--mode", "replace").json["rows"] == 3
    assert rows(db) == ROWS.sort_by("id").to_pylist()


def test_large_files_go_through_spark(db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def load(branch: livingdb.Branch, incoming: Any, given: Any, report: Any) -> Any:
        asked.append((branch.name, given.table, given.key, given.mode))
        return branch.head, 0

    monkeypatch.setattr("livingdb.cli.load_rows_spark.load_on_spark", load)
    monkeypatch.setattr("livingdb.cli.commands.import_files.LARGE_BYTES", 10)
    assert bring(db, write("csv", ROWS)).code == 0
    assert asked == [("main", "people", ("id",), "append")]
    assert bring(db, write("csv", ROWS), "--engine", "embedded").code == 0
    assert bring(db, write("arrow", ROWS), "--mode", "upsert").code == 0
    assert len(asked) == 1
    assert len(rows(db)) == 3


def test_spark_reads_no_arrow(db: Path) -> None:
    told = bring(db, write("arrow", ROWS), "--engine", "spark")
    assert (told.code, "--engine embedded" in told.err) == (5, True)


# --- lines of CSV -----------------------------------------------------------------------------


def test_quotes_around_nothing_are_a_text(db: Path) -> None:
    Path("a.csv").write_text('id,name\n1,""\n2,\n3,x\n')
    told = bring(db, "a.csv")
    assert told.code == 0
    assert [row["name"] for row in rows(db)] == ["", None, "x"]
    assert told.err == "people: id bigint, name string; key id, which is unique and never null\n"
    assert bring(db, "a.csv", "--mode", "upsert").err == ""


def test_a_file_without_a_header(db: Path) -> None:
    Path("a.csv").write_text("1,Oslo\n2,Rome\n")
    told = bring(db, "a.csv", "--no-header", "--key", "column1")
    assert told.code == 0
    assert rows(db) == [{"column1": 1, "column2": "Oslo"}, {"column1": 2, "column2": "Rome"}]
    Path("a.json").write_text('{"id": 1}\n')
    assert bring(db, "a.json", "--no-header").code == 2


def test_lines_that_are_skipped_are_counted(db: Path) -> None:
    Path("a.csv").write_text("id,city\n1,Oslo\n2\n3,Rome,7\n4,Bodø\n")
    assert "a.csv, line 3" in bring(db, "a.csv").err
    told = tell("-o", "json", "import", "a.csv", "--table", "people", "--skip-bad-lines", db=db)
    assert (told.json["rows"], told.json["skipped"]) == (2, 2)
    assert "skipped 2 lines: a.csv line 3, a.csv line 4" in told.err
    Path("b.csv").write_text("id,city\nmany,Oslo\n2\n")
    refused = bring(db, "b.csv", "--skip-bad-lines", "--mode", "upsert")
    assert (refused.code, "do not fit" in refused.err) == (5, True)
    assert len(rows(db)) == 2


def test_numbers_that_become_text_are_told(db: Path) -> None:
    Path("a.csv").write_text("id,size,name\n1,5,a\n2,many,b\n3,7,c\n")
    told = bring(db, "a.csv")
    assert told.code == 0
    assert "warning: size is text: 1 of 3 cells are no numbers" in told.err
    assert "name is text" not in told.err


def test_dates_and_uuids_that_become_text_are_told(db: Path) -> None:
    one, other = "6f1c2a9e-3f61-4f0b-9b0a-0c7d8b1f2a11", "6f1c2a9e-3f61-4f0b-9b0a-0c7d8b1f2a12"
    Path("a.csv").write_text(
        "id,day,at,uid,some,name\n"
        f"1,2024-01-01,2024-01-01 10:00:00,{one},{one},a\n"
        f"2,soon,later,{other},none,b\n"
    )
    warnings = [line for line in bring(db, "a.csv").err.splitlines() if "warning" in line]
    assert warnings == [
        "warning: day is text: 1 of 2 cells are no dates; --type day=date would take dates alone",
        "warning: at is text: 1 of 2 cells are no timestamps; --type at=timestamp would take "
        "timestamps alone",
        "warning: uid is text: UUIDs have no type of their own",
        "warning: some is text: 1 of 2 cells are no UUIDs",
    ]


def test_a_limit_of_a_text_is_kept_to(shop: Path) -> None:
    Path("codes.csv").write_text("id,code\n1,abc\n2,abcd\n")
    given = ("import", "codes.csv", "--table", "codes", "--key", "id", "--type")
    told = tell(*given, "code=varchar(3)", db=shop)
    assert (told.code, "'abcd' in the row with the key 2" in told.err) == (5, True)
    assert tell(*given, "code=varchar(4)", db=shop).code == 0
    told = tell(*given, "code=varchar(9)", db=shop)
    assert (told.code, "the table has its own" in told.err) == (2, True)
    Path("codes.csv").write_text("id,code\n3,abcde\n")
    assert "varchar(4)" in tell(*given[:-3], db=shop).err
