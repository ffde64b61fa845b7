"""Identity columns: who draws, who may choose, and that no number is given twice."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import livingdb
from livingdb import Branch, Database
from livingdb.errors import IllegalSync, InvalidData
from livingdb.evolution import (
    AddColumn,
    CreateTable,
    Decompose,
    DropColumn,
    JoinTables,
    Normalize,
    RenameColumn,
    RenameTable,
    RetypeColumn,
    SetDefault,
    UnionTables,
)
from livingdb.tables.schema import TableSchema

COLUMNS = {"id": "bigint", "a": "string"}


@pytest.fixture
def db(tmp_path: Path) -> Database:
    return livingdb.create(tmp_path / "shop.ldb", author="ada")


@pytest.fixture
def main(db: Database) -> Branch:
    return db.branch("main")


def held(branch: Branch, table: str = "t", column: str = "id") -> dict[object, object]:
    rows = branch.table(table).to_arrow().to_pylist()
    return {row["a"]: row[column] for row in rows}


def test_a_schema_without_such_columns_is_recorded_as_before() -> None:
    plain = TableSchema.of(COLUMNS, "id").to_json()
    assert all("generated" not in column for column in plain["columns"])
    drawn = TableSchema.of(COLUMNS, "id", generated={"id": "always"})
    assert TableSchema.from_json(drawn.to_json()) == drawn
    assert "generated" not in CreateTable("t", COLUMNS, "id").to_json()
    assert "generated" not in AddColumn("t", "x", "int").to_json()


def test_rows_that_name_no_number_draw_one(main: Branch) -> None:
    main.create_table("t", COLUMNS, "id", generated="id")
    main.insert("t", [{"a": "x"}, {"a": "y"}])
    main.insert("t", {"a": ["z"]})
    main.insert("t", [{"id": None, "a": "null"}, {"id": 20, "a": "own"}, {"a": "none"}])
    main.sql("INSERT INTO t (a) VALUES ('sql')")
    main.sql("INSERT INTO t VALUES (DEFAULT, 'default')")
    assert held(main) == {
        "x": 1, "y": 2, "z": 3, "null": 4, "none": 5, "own": 20, "sql": 21, "default": 22
    }  # fmt: skip


def test_the_counter_moves_past_what_writers_choose(main: Branch) -> None:
    main.create_table("t", COLUMNS, "id", generated="id")
    main.insert("t", {"id": [7, 1000], "a": ["seven", "thousand"]})
    main.insert("t", {"a": ["next"]})
    assert held(main)["next"] == 1001


def test_always_means_that_writers_choose_nothing(main: Branch) -> None:
    main.sql("CREATE TABLE t (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, a STRING)")
    main.insert("t", [{"a": "x"}, {"a": "y"}])
    for write in (main.insert, main.upsert):
        with pytest.raises(InvalidData, match="GENERATED ALWAYS"):
            write("t", [{"id": 9, "a": "mine"}])
    main.upsert("t", [{"id": 1, "a": "X"}, {"a": "z"}])
    main.update("t", [{"id": 2, "a": "Y"}])
    assert held(main) == {"X": 1, "Y": 2, "z": 3}


def test_a_row_that_is_there_keeps_its_number(main: Branch) -> None:
    columns = {"k": "string", "n": "int", "a": "string"}
    main.create_table("t", columns, "k", generated={"n": "always"})
    main.insert("t", [{"k": "one", "a": "x"}, {"k": "two", "a": "y"}])
    main.upsert("t", [{"k": "two", "a": "Y"}, {"k": "three", "a": "z"}])
    assert held(main, column="n") == {"x": 1, "Y": 2, "z": 3}
    with pytest.raises(InvalidData, match="GENERATED ALWAYS"):
        main.update("t", [{"k": "one", "n": 5}])


def test_a_number_that_was_drawn_for_nothing_is_lost(main: Branch) -> None:
    main.create_table("t", COLUMNS, "id", generated="id")
    lost = main.transaction()
    lost.insert("t", {"a": ["lost"]})
    lost.rollback()
    main.insert("t", {"a": ["x"]})
    assert held(main) == {"x": 2}


def test_numbers_that_were_loaded_unseen_are_passed_over(main: Branch) -> None:
    main.create_table("t", COLUMNS, "id", generated="id")
    main.insert("t", {"a": ["x"]})
    counter = main.table("t").rows.schema.column("id").id
    main.insert("t", {"id": [5], "a": ["five"]})
    values = main.database._graph.generated
    values._blocks[counter] = (4, 10)  # as another process would have it
    main.insert("t", {"a": ["y", "z"]})
    assert sorted(held(main).values())[:2] == [1, 5]  # type: ignore[type-var]
    assert len(set(held(main).values())) == 4


def test_numbers_that_are_used_up_are_told_of(main: Branch) -> None:
    main.create_table("t", {"id": "tinyint", "a": "string"}, "id", generated="id")
    main.insert("t", {"id": [127], "a": ["last"]})
    with pytest.raises(InvalidData, match="used up"):
        main.insert("t", {"a": ["more"]})


def test_branches_and_both_sides_of_a_sync_draw_from_one_counter(
    db: Database, main: Branch
) -> None:
    main.create_table("t", COLUMNS, "id", generated="id")
    main.insert("t", {"a": ["x"]})
    main.clone("dev")
    changes = [RenameTable("t", "u"), RenameColumn("u", "id", "number")]
    main.evolve(changes, keep="v1", sync="both")
    db.branch("v1").insert("t", {"a": ["old side"]})
    main.insert("u", {"a": ["new side"]})
    db.branch("dev").insert("t", {"a": ["dev"]})
    assert held(main, "u", "number") == {"x": 1, "old side": 2, "new side": 3}
    assert held(db.branch("dev")) == {"x": 1, "dev": 4}
    db.merge("dev", "main")
    assert len(main.table("u")) == 4
    assert db.check(deep=True).ok


def test_parts_of_a_table_draw_from_its_counter(db: Database, main: Branch) -> None:
    main.create_table("t", {**COLUMNS, "b": "string"}, "id", generated="id")
    main.insert("t", {"a": ["x"], "b": ["y"]})
    main.evolve(Decompose("t", {"one": ["a"], "two": ["b"]}), keep="v1", sync="both")
    main.insert("one", {"a": ["half"]})
    db.branch("v1").insert("t", {"a": ["whole"], "b": ["z"]})
    assert held(main, "one") == {"x": 1, "half": 2, "whole": 3}


def test_a_column_that_is_added_numbers_the_rows_and_both_sides_draw(
    db: Database, main: Branch
) -> None:
    main.create_table("t", COLUMNS, "id")
    main.insert("t", {"id": [5, 9], "a": ["x", "y"]})
    main.evolve(AddColumn("t", "n", "int", generated="always"), keep="v1", sync="both")
    db.branch("v1").insert("t", {"id": [1], "a": ["old side"]})
    main.insert("t", {"id": [2], "a": ["new side"]})
    db.branch("v1").update("t", {"id": [9], "a": ["Y"]})
    assert held(main, column="n") == {"x": 1, "Y": 2, "old side": 3, "new side": 4}
    assert db.check(deep=True).ok


def test_numbers_of_a_branch_that_follows_would_not_stay(db: Database, main: Branch) -> None:
    main.create_table("t", COLUMNS, "id")
    change = AddColumn("t", "n", "int", generated="always")
    with pytest.raises(IllegalSync, match="other numbers"):
        main.evolve(change, to="new", sync="forward")
    main.evolve(change, keep="old", sync="reverse")
    assert main.table("t").generated == {"n": "always"}


def test_a_column_that_is_dropped_goes_on_being_drawn_on_the_old_side(
    db: Database, main: Branch
) -> None:
    columns = {"id": "bigint", "a": "string", "n": "int"}
    main.create_table("t", columns, "id", generated={"n": "always"})
    main.insert("t", {"id": [5], "a": ["x"]})
    main.evolve(DropColumn("t", "n"), keep="v1", sync="both")
    main.insert("t", {"id": [6], "a": ["y"]})
    db.branch("v1").insert("t", {"id": [7], "a": ["z"]})
    assert held(db.branch("v1"), column="n") == {"x": 1, "y": 2, "z": 3}
    assert db.check(deep=True).ok


def test_sql_adds_such_a_column(main: Branch) -> None:
    main.create_table("t", COLUMNS, "id")
    main.insert("t", {"id": [5, 9], "a": ["x", "y"]})
    main.sql("ALTER TABLE t ADD COLUMN n BIGINT GENERATED BY DEFAULT AS IDENTITY")
    main.insert("t", {"id": [6], "a": ["z"]})
    assert held(main, column="n") == {"x": 1, "y": 2, "z": 3}


@pytest.mark.parametrize(
    ("generated", "words"),
    [
        ({"a": "always"}, "whole numbers"),
        ({"id": "sometimes"}, "'by default' or 'always'"),
        (["id"], "give a column"),
    ],
)
def test_what_is_no_identity_column(main: Branch, generated: object, words: str) -> None:
    with pytest.raises(InvalidData, match=words):
        main.create_table("t", COLUMNS, "id", generated=generated)  # type: ignore[arg-type]


def test_a_default_and_a_counter_do_not_go_together(main: Branch) -> None:
    with pytest.raises(InvalidData, match="default"):
        main.create_table("t", COLUMNS, "id", defaults={"id": 1}, generated="id")


@pytest.mark.parametrize(
    ("numbers", "drawn", "chosen", "following"),
    [
        ("START WITH 10 INCREMENT BY 5", [10, 15, 20], 31, 35),
        ("INCREMENT BY 3", [1, 4, 7], 10, 13),
        ("START WITH -1 INCREMENT BY -2", [-1, -3, -5], -6, -7),
        ("START WITH 100", [100, 101, 102], 5, 103),
    ],
)
def test_numbers_begin_and_go_on_as_said(
    main: Branch, numbers: str, drawn: list[int], chosen: int, following: int
) -> None:
    """In SQL and in Python; the counter goes on past what a writer chose."""
    words = f"by default {numbers.lower()}"
    main.sql(
        f"CREATE TABLE t (id BIGINT GENERATED BY DEFAULT AS IDENTITY ({numbers}) PRIMARY KEY, "
        "a STRING)"
    )
    main.create_table("u", COLUMNS, "id", generated={"id": words})
    assert main.table("t").generated == main.table("u").generated == {"id": words}
    for table in ("t", "u"):
        main.insert(table, [{"a": "x"}, {"a": "y"}, {"a": "z"}])
        assert list(held(main, table).values()) == sorted(drawn)
        main.insert(table, [{"id": chosen, "a": "own"}])
        main.insert(table, [{"a": "next"}])
        assert held(main, table)["next"] == following
    main.evolve(AddColumn("u", "n", "int", generated=words))
    assert main.table("u").to_arrow()["n"].to_pylist()[:2] == drawn[:2]
    main.insert("u", [{"a": "more"}])
    step = drawn[1] - drawn[0]
    assert held(main, "u", "n")["more"] == drawn[0] + 5 * step


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ("START WITH 5 START WITH 6", "said twice"),
        ("INCREMENT BY 0", "by 0"),
        ("START 5", "WITH"),
        ("START WITH '5'", "a whole number"),
        ("START WITH 1.5", "a whole number"),
        ("", "AS IDENTITY"),
        ("CACHE 5", "INCREMENT BY"),
        ("START WITH 3000000000", "cannot hold"),
    ],
)
def test_numbers_that_are_not_understood(main: Branch, numbers: str, words: str) -> None:
    with pytest.raises(InvalidData, match=words):
        main.sql(f"CREATE TABLE t (id INT GENERATED ALWAYS AS IDENTITY ({numbers}) PRIMARY KEY)")


@pytest.mark.parametrize(
    "change",
    [
        SetDefault("t", "n", 5),
        RetypeColumn("t", "n", "string"),
        Normalize("t", ["n"], into="numbers"),
        UnionTables(["t", "u"], into="all"),
        JoinTables("u", "t", into="all"),
    ],
)
def test_what_would_break_it_is_refused(main: Branch, change: object) -> None:
    main.create_table("t", {**COLUMNS, "n": "bigint"}, "id", generated="n")
    main.create_table("u", {"id": "bigint", "b": "string", "m": "bigint"}, "id")
    with pytest.raises(InvalidData):
        main.evolve(change)  # type: ignore[arg-type]


_WRITER = """
import sys, livingdb
with livingdb.open(sys.argv[1], author=sys.argv[2]) as db:
    for number in range(20):
        db.branch("main").insert("t", [{"a": f"{sys.argv[2]} {number} {n}"} for n in range(3)])
"""


def test_processes_never_draw_the_same_number(db: Database, main: Branch, tmp_path: Path) -> None:
    main.create_table("t", COLUMNS, "id", generated={"id": "always"})
    program = [sys.executable, "-c", _WRITER, str(tmp_path / "shop.ldb")]
    running = [subprocess.Popen([*program, name]) for name in ("ann", "ben")]
    for number in range(20):
        main.insert("t", {"a": [f"here {number}"]})
    assert [process.wait() for process in running] == [0, 0]
    numbers = list(held(db.branch("main")).values())
    assert len(numbers) == len(set(numbers)) == 140
