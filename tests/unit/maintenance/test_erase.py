"""Erased rows are in no version and no file, and everything else is as it was."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.maintenance.canary import places_of

import livingdb
from livingdb import Database
from livingdb.database.evolve import evolve as _evolve  # noqa: F401
from livingdb.evolution import AddColumn, RenameColumn

CANARY = "zebra-canary"
KEY = 42

Contents = dict[tuple[str, str], list[dict[str, Any]]]


def _contents(database: Database) -> Contents:
    """The rows of every table of every snapshot, as they are stored."""
    graph = database._graph
    found: Contents = {}
    for row in graph.newest_snapshots():
        for name, address in graph.tables(row).items():
            rows = graph.versions.rows(graph.versions.require(address)).to_arrow()
            found[row.address.hex(), name] = rows.to_pylist()
    return found


def _without(contents: Contents) -> Contents:
    """The same without the rows that tell of the canary."""
    return {
        place: [row for row in rows if CANARY not in str(row)] for place, rows in contents.items()
    }


def _rows(word: str, ids: range = range(300)) -> list[dict[str, Any]]:
    return [
        {"id": i, "name": word if i == KEY else f"name {i}", "city": f"city {i % 7}", "n": i}
        for i in ids
    ]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Branches, folded trees, renamed tables and columns, views, a twin, a dropped branch."""
    path: Path = tmp_path_factory.mktemp("erase") / "db"
    with livingdb.create(path, author="ann", engine="embedded") as database:
        main = database.branch("main")
        columns = {"id": "bigint", "name": "string", "city": "string", "n": "bigint"}
        layout = livingdb.Layout(target_rows=16, fold=0.1, groups=[["name"], ["n"]])
        main.create_table("people", columns, key="id", layout=layout)
        main.create_table("twin", columns, key="id")
        main.insert("people", _rows(CANARY))
        main.insert("twin", _rows("innocent"))
        main.derive("named", "SELECT id, name FROM people", when="immediate")
        main.derive("bag", "SELECT name, city FROM people WHERE id < 100", when="immediate")
        main.derive("towns", "SELECT city, count(*) AS c FROM people GROUP BY city")
        for step in range(6):
            main.update("people", [{"id": KEY, "n": step}, {"id": step, "n": -step}])
        side = main.clone("side")
        side.upsert("people", [{**_rows(f"{CANARY} aside")[KEY]}])
        main.clone("gone").delete("people", [KEY])
        database.drop_branch("gone")
        database.tag("first", "main~3")
        main.evolve([RenameColumn("people", "n", "number"), AddColumn("people", "age", "int")])
        main.sql("UPDATE people SET age = 7 WHERE id IN (41, 42, 43)")
        main.delete("people", [KEY])
        main.insert("people", [{"id": KEY, "name": f"{CANARY} again", "city": "x", "age": 3}])
    return path


@pytest.fixture
def database(world: Path, tmp_path: Path) -> Iterator[Database]:
    shutil.copytree(world, tmp_path / "db")
    with livingdb.open(tmp_path / "db", author="ann", engine="embedded") as found:
        yield found


@pytest.mark.parametrize("is_compacted", [False, True])
def test_nothing_of_the_row_is_left_and_everything_else_is_as_it_was(
    database: Database, is_compacted: bool
) -> None:
    if is_compacted:
        database.compact()
    assert places_of(database._graph, CANARY)
    before = _contents(database)
    told = database.erase("people", [KEY], reason="she asked")
    after = _contents(database)
    kept = {place for place, rows in before.items() if "bag" in place[1] or "~" in place[1]}
    expected = _without(before)
    for place in before.keys() - kept:
        if "towns" not in place[1]:
            assert after[place] == expected[place], place
    assert places_of(database._graph, CANARY) == []
    assert database.check(deep=True).problems == []
    assert told.number == 1
    assert not told.waiting
