"""A float, a map: what is written reads at once as it reads when it is stored and folded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import livingdb
from livingdb.evolution import AddColumn, RetypeColumn

SCHEMA = {
    "id": "bigint",
    "f": "double",
    "g": "float",
    "l": "array<double>",
    "s": "struct<x: double>",
    "m": "map<string, double>",
}
GIVEN = {"f": -0.0, "g": -0.0, "l": [-0.0], "s": {"x": -0.0}, "m": {"b": -0.0, "a": 1.0}}
STORED = "{'f': 0.0, 'g': 0.0, 'l': [0.0], 's': {'x': 0.0}, 'm': [('a', 1.0), ('b', 0.0)]}"


@pytest.fixture
def main(tmp_path: Path) -> Iterator[livingdb.Branch]:
    with livingdb.create(tmp_path / "zero.ldb", engine="embedded") as db:
        main = db.branch("main")
        main.create_table("t", SCHEMA, key="id", layout=livingdb.Layout(fold="never"))
        yield main


def shown(row: dict[str, object] | None) -> str:
    """A row without its key, as text: there -0.0 is not 0.0."""
    return str({name: value for name, value in (row or {}).items() if name != "id"})


def test_rows_of_a_tail(main: livingdb.Branch) -> None:
    main.insert("t", [{"id": 1, **GIVEN}])
    main.upsert("t", [{"id": 2, **GIVEN}])
    main.update("t", [{"id": 1, "f": -0.0}])
    with main.transaction() as tx:
        tx.upsert("t", [{"id": 3, **GIVEN}])
        assert shown(tx.table("t").get(3)) == STORED
    tail = [shown(row) for row in main.table("t").to_arrow().to_pylist()]
    assert tail == [STORED] * 3
    assert shown(main.table("t").get(1)) == STORED
    main.table("t").root()
    assert [shown(row) for row in main.table("t").to_arrow().to_pylist()] == tail


def test_defaults(main: livingdb.Branch) -> None:
    main.insert("t", [{"id": 1}])
    main.evolve(AddColumn("t", "d", "double", default=-0.0))
    main.upsert("t", [{"id": 2}])
    assert [str(row["d"]) for row in main.table("t").to_arrow().to_pylist()] == ["0.0", "0.0"]


@pytest.mark.parametrize("made", [{"computed": "-f"}, {"up": "-f"}], ids=["computed", "up"])
def test_what_expressions_give(main: livingdb.Branch, made: dict[str, Any]) -> None:
    main.insert("t", [{"id": 1, "f": 0.0}])
    main.evolve(AddColumn("t", "d", "double", **made), keep="old", sync="both")
    main.database.branch("old").insert("t", [{"id": 2, "f": 0.0}])
    assert [str(row["d"]) for row in main.table("t").to_arrow().to_pylist()] == ["0.0", "0.0"]
    assert str((main.table("t").get(2) or {})["d"]) == "0.0"


def test_what_casts_give(main: livingdb.Branch) -> None:
    main.create_table("texts", {"id": "bigint", "x": "string"}, key="id")
    main.insert("texts", [{"id": 1, "x": "-0.0"}])
    main.evolve(RetypeColumn("texts", "x", "double"))
    assert str((main.table("texts").get(1) or {})["x"]) == "0.0"
