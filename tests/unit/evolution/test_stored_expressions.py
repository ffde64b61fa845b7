"""Checks and computed columns keep their users' words, whatever columns are called."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import livingdb
from livingdb.errors import InvalidData
from livingdb.evolution import AddColumn, AddConstraint, RenameColumn
from livingdb.graph.row_constraints import check_rows
from livingdb.sql.stored_expressions import (
    StoredText,
    bound_table,
    follow_text,
    rename_column,
    written_text,
)
from livingdb.tables.schema import TableSchema

CHECK = "amount  >= 0 /* amount */ OR note = 'amount'"
COMPUTED = "Amount * 2 -- twice\n"


@pytest.fixture
def main(tmp_path: Path) -> Iterator[livingdb.Branch]:
    with livingdb.create(tmp_path / "db", author="ann", engine="embedded") as db:
        branch = db.branch("main")
        columns = {"id": "bigint", "amount": "bigint", "note": "string", "parts": "array<bigint>"}
        branch.create_table("orders", columns, key="id")
        yield branch


def schema_of(branch: livingdb.Branch) -> TableSchema:
    graph = branch.database._graph
    head = graph.snapshots.at(graph.branch(branch.name).head)
    return graph.versions.definition(graph.version(head, "orders")).schema


def rename(branch: livingdb.Branch, name: str, to: str) -> None:
    branch.evolve(RenameColumn("orders", name, to), sync="none")


def test_a_check_and_a_computed_column_follow_and_come_back(main: livingdb.Branch) -> None:
    main.evolve(AddConstraint("orders", "positive", check=CHECK), sync="none")
    main.evolve(AddColumn("orders", "twice", "bigint", computed="amount * 2 -- twice\n"))
    before = schema_of(main)
    rename(main, "amount", "note_2")
    rename(main, "note", "amount")
    after = schema_of(main)
    assert after.checks == (("positive", "`note_2`  >= 0 /* amount */ OR `amount` = 'amount'"),)
    assert after.column("twice").computed == "`note_2` * 2 -- twice\n"
    assert written_text(after, "check:positive", after.checks[0][1]) == CHECK
    main.insert("orders", [{"id": 1, "note_2": 2, "amount": "x"}])
    (row,) = main.sql("SELECT twice, amount FROM orders")
    assert row == {"twice": 4, "amount": "x"}
    with pytest.raises(InvalidData, match="positive"):
        main.insert("orders", [{"id": 2, "note_2": -2, "amount": "x"}])
    rename(main, "amount", "note")
    rename(main, "note_2", "amount")
    assert schema_of(main) == before


def test_a_variable_makes_way_for_a_name(main: livingdb.Branch) -> None:
    text = "exists(parts, price -> price = amount)"
    schema = replace(schema_of(main), checks=(("part", text),))
    renamed = rename_column(schema, "amount", "price")
    assert dict(renamed.checks)["part"] == "exists(parts, v1 -> v1 = `price`)"
    rows = [{"id": 1, "price": 2, "parts": [1, 2]}, {"id": 2, "price": 3, "parts": [1, 2]}]
    first, second = (pa.Table.from_pylist([row], renamed.whole) for row in rows)
    check_rows(renamed, first)
    with pytest.raises(InvalidData, match="part"):
        check_rows(renamed, second)


def test_sql_keeps_what_is_written(main: livingdb.Branch) -> None:
    main.sql(f"ALTER TABLE orders ADD CONSTRAINT positive CHECK ({CHECK})")
    main.sql(
        "ALTER TABLE orders ADD COLUMN twice BIGINT GENERATED ALWAYS AS (amount*2  /* x */ + (1))"
    )
    assert schema_of(main).checks == (("positive", CHECK),)
    assert schema_of(main).column("twice").computed == "amount*2  /* x */ + (1)"


def _schema() -> TableSchema:
    made = TableSchema.of({"id": "bigint", "a": "bigint", "b": "bigint"}, "id")
    return replace(made, checks=(("c", "a > b"),))


def test_a_schema_without_bindings_is_bound_when_it_is_first_needed() -> None:
    old = _schema()
    assert "written" not in old.to_json()
    new = rename_column(TableSchema.from_json(old.to_json()), "a", "z")
    assert new.checks == (("c", "`z` > b"),)
    assert TableSchema.from_json(new.to_json()) == new
    assert rename_column(TableSchema.from_json(new.to_json()), "z", "a") == old


def test_what_was_written_is_forgotten_with_its_text() -> None:
    new = rename_column(_schema(), "a", "z")
    other = replace(new, checks=(("c", "b > 1"),))
    assert rename_column(other, "b", "y").checks == (("c", "`y` > 1"),)
    assert written_text(other, "check:c", "b > 1") == "b > 1"


@pytest.mark.parametrize(
    "text", ["b > 1", "A > 1", "`a` > b", "b > 1 /* ſ */", "exists(array(b), z -> z > 1)"]
)
def test_a_text_that_does_not_speak_of_a_column_is_what_it_was(text: str) -> None:
    schema = replace(_schema(), checks=(("c", text),))
    after = schema.with_column(replace(schema.column("a"), name="z"))
    followed = follow_text(text, None, bound_table(schema), bound_table(after))
    assert isinstance(followed, StoredText)
    assert rename_column(schema, "a", "z").checks == (("c", followed.text),)
