"""CREATE TABLE with columns that are computed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import livingdb
from livingdb.evolution import CreateTable, RenameColumn
from livingdb.evolution.schema_change import SchemaChange

TEXT = (
    "CREATE TABLE t (id BIGINT PRIMARY KEY, twice BIGINT GENERATED ALWAYS AS ( a  * 2 ), a BIGINT, "
    "four BIGINT GENERATED ALWAYS AS (twice * 2))"
)


@pytest.fixture
def main(tmp_path: Path) -> Iterator[livingdb.Branch]:
    with livingdb.create(tmp_path / "shop.ldb") as db:
        yield db.branch("main")


def test_they_are_computed(main: livingdb.Branch) -> None:
    main.sql(TEXT)
    main.sql("INSERT INTO t (id, a) VALUES (1, 5), (2, NULL)")
    assert main.table("t").get(1) == {"id": 1, "twice": 10, "a": 5, "four": 20}
    assert main.table("t").get(2) == {"id": 2, "twice": None, "a": None, "four": None}
    main.sql("UPDATE t SET a = 7 WHERE id = 1")
    assert main.table("t").get(1) == {"id": 1, "twice": 14, "a": 7, "four": 28}
    with pytest.raises(livingdb.InvalidData, match="'twice' is computed as a  \\* 2"):
        main.sql("INSERT INTO t (id, a, twice) VALUES (3, 5, 9)")


def test_they_follow_names(main: livingdb.Branch) -> None:
    main.sql(TEXT)
    main.evolve(RenameColumn("t", "a", "b"))
    main.insert("t", [{"id": 1, "b": 5}])
    assert main.table("t").get(1) == {"id": 1, "twice": 10, "b": 5, "four": 20}


def test_a_table_is_the_same_elsewhere(main: livingdb.Branch) -> None:
    main.sql(TEXT + " SYNC BOTH KEEP old")
    assert main.database.branch("old").tables() == []
    main.insert("t", [{"id": 1, "a": 5}])
    copy = main.clone("copy")
    copy.insert("t", [{"id": 2, "a": 6}])
    assert [row["four"] for row in copy.table("t").to_arrow().to_pylist()] == [20, 24]
    assert not main.database.check(deep=True).problems


def test_a_change_says_what_it_has_to() -> None:
    plain = CreateTable("t", {"id": "bigint", "a": "bigint"}, "id")
    assert "computed" not in plain.to_json()
    made = CreateTable("t", {"id": "bigint", "a": "bigint"}, "id", computed={"a": "id + 1"})
    assert SchemaChange.from_json(made.to_json()) == made
    assert made.plan({}).new["t"].schema.column("a").computed == "id + 1"


@pytest.mark.parametrize(
    ("columns", "error", "said"),
    [
        ("id BIGINT GENERATED ALWAYS AS (a), a BIGINT, PRIMARY KEY (id)",
         livingdb.InvalidData, "'id' is in the key"),
        ("id BIGINT PRIMARY KEY, x INT GENERATED ALWAYS AS (y), y INT GENERATED ALWAYS AS (id)",
         livingdb.NotFound, "'y'"),
        ("id BIGINT PRIMARY KEY, x BIGINT GENERATED ALWAYS AS (x + 1)", livingdb.NotFound, "'x'"),
        ("id BIGINT PRIMARY KEY, x BIGINT DEFAULT 1 GENERATED ALWAYS AS (id)",
         livingdb.InvalidData, "'default' or 'computed'"),
        ("id BIGINT PRIMARY KEY, x DOUBLE GENERATED ALWAYS AS (rand())",
         livingdb.InvalidData, "each time"),
        ("id BIGINT PRIMARY KEY, x STRING GENERATED ALWAYS AS (soundex(cast(id AS STRING)))",
         livingdb.Unsupported, "soundex"),
        ("id BIGINT PRIMARY KEY, x STRING GENERATED ALWAYS AS (hex(id))",
         livingdb.Unsupported, "hex.* is not tested to be the same on every engine"),
        ("id BIGINT PRIMARY KEY, x BIGINT GENERATED ALWAYS AS (sum(id))",
         livingdb.Unsupported, "aggregates"),
        ("id BIGINT PRIMARY KEY, x STRING GENERATED ALWAYS AS (getenv('HOME'))",
         livingdb.LivingDBError, "getenv"),
        ("id BIGINT PRIMARY KEY, x BIGINT GENERATED ALWAYS AS IDENTITY (INCREMENT BY 0)",
         livingdb.InvalidData, "by 0"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(
    main: livingdb.Branch, columns: str, error: type[Exception], said: str
) -> None:
    head = main.head
    with pytest.raises(error, match=said):
        main.sql(f"CREATE TABLE t ({columns})")
    assert main.head == head
