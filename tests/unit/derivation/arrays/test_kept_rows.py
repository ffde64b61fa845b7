"""Tables that are kept: what is found in them, when they are read, and when they go."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import livingdb
from livingdb.derivation.arrays import kept_rows
from livingdb.derivation.arrays.expressions import ArrayExpression
from livingdb.derivation.arrays.kept_rows import KeptRows, KeptTables
from livingdb.tables.index import Version
from livingdb.tables.versions import Versions
from livingdb.trees.delta import upserts
from livingdb.trees.keys import KeyCodec

ROWS = {"k": pa.array([-1, 3, 5, 9], pa.int32()), "s": pa.array(["a", None, "c", "d"])}


def kept(columns: dict[str, pa.Array], *key: str) -> KeptRows:
    kinds = {name: columns[name].type for name in key}
    codec = KeyCodec(list(kinds.values()))
    return KeptRows("rows", kinds, codec, lambda names: [columns[name] for name in names])


def test_rows_are_found_by_key_whatever_the_width_of_the_numbers() -> None:
    rows = kept(ROWS, "k")
    wanted = pa.array([9, None, 4, -1, 2**32 + 3, 3], pa.int64())
    assert rows.find([wanted]).tolist() == [3, -1, -1, 0, -1, 1]
    assert rows.find([pa.array([5, 0], pa.int8())]).tolist() == [2, -1]


def test_rows_are_found_by_keys_of_several_columns() -> None:
    columns = {"a": pa.array(["x", "x", "y"]), "b": pa.array([1, 2, 1])}
    rows = kept(columns, "a", "b")
    found = rows.find([pa.array(["y", "x", "x", None]), pa.array([1, 2, 3, 1])])
    assert found.tolist() == [2, 1, -1, -1]


def test_nothing_is_found_among_no_rows() -> None:
    rows = kept({"k": pa.array([], pa.int64())}, "k")
    assert rows.find([pa.array([1, 2])]).tolist() == [-1, -1]


def test_conditions_are_told_once_and_null_does_not_hold() -> None:
    asked = []

    def evaluate(columns: object) -> pa.Array:
        asked.append(columns)
        return pa.array([True, None, False, True])

    condition = ArrayExpression(pa.bool_(), frozenset({("t", "s")}), "s > 1", evaluate)
    rows = kept(ROWS, "k")
    for _ in range(2):
        assert rows.holds(condition).tolist() == [True, False, False, True]
    assert len(asked) == 1


@pytest.fixture
def table(tmp_path: Path) -> Iterator[tuple[Versions, Version]]:
    with livingdb.create(tmp_path / "shop.ldb", engine="embedded") as db:
        main = db.branch("main")
        numbers = np.arange(1000)
        rows = pa.table({"id": numbers, "name": numbers.astype(str)})
        main.create_table("customers", rows.schema, key="id")
        main.insert("customers", rows)
        graph = db._graph
        head = graph.snapshots.at(graph.branches.find("main").head)
        yield graph.versions, graph.versions.require(graph.tables(head)["customers"])


def test_a_table_is_read_once_enough_was_looked_up_in_it(table: tuple[Versions, Version]) -> None:
    tables = KeptTables()
    assert tables.rows(*table, 30) is None
    assert tables.rows(*table, 20) is None
    found = tables.rows(*table, 20)
    assert found is not None
    assert tables.rows(*table, 1) is found
    assert found.column("name").to_pylist() == [str(n) for n in range(1000)]


def test_tables_go_where_they_are_too_large(
    table: tuple[Versions, Version], monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = KeptTables(limit_bytes=1000)
    one = tables.rows(*table, 1000)
    assert one is not None
    assert tables.rows(*table, 1) is None
    monkeypatch.setattr(kept_rows, "MOST_ROWS", 999)
    assert tables.rows(*table, 1000) is None


def test_a_small_table_that_changes_is_kept_as_it_becomes(
    table: tuple[Versions, Version], monkeypatch: pytest.MonkeyPatch
) -> None:
    versions, old = table
    tables = KeptTables()
    assert tables.rows(versions, old, 1000) is not None
    shape = versions.forest(old).shape
    changes = upserts(shape, [pa.array([5, 2000]), pa.array(["five", "more"])])
    new = versions.change(old, changes, lambda chunk: None)
    tables.follow(versions, old, new, changes)
    made = tables.rows(versions, new, 1)
    assert made is not None
    assert len(made) == 1001
    was, (names,) = made.lookup(shape.keys([pa.array([5, 6, 1500, 2000])]), ["name"])
    assert was.tolist() == [True, True, False, True]
    assert names.to_pylist() == ["five", "6", "more"]
    monkeypatch.setattr(kept_rows, "FOLLOWED_ROWS", 10)
    tables.follow(versions, new, old, changes)
    assert tables.rows(versions, new, 1) is made
