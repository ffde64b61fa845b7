"""Rows are found by values as a filter over all of them would find them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.unit.derivation.test_weighted_rows import rows_of

import livingdb
from livingdb.derivation import find_rows
from livingdb.derivation.find_rows import matching_rows, matching_rows_in
from livingdb.graph.graph import Graph
from livingdb.tables.rows import RowSet
from livingdb.trees.scan import Span

COUNT = 6_000
PLACES = ["", "a", "a\0", "aa", "ab", "b", "ø", "z"]


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Graph]:
    """A table by place and number, and one by number, each in a tree with a tail over it."""
    chance = np.random.default_rng(3)
    numbers = np.arange(COUNT)
    floats = chance.choice([0.0, -0.0, float("nan"), 1.5, np.inf], COUNT)
    data = pa.table(
        {
            "place": pa.array([PLACES[n % len(PLACES)] for n in numbers]),
            "n": pa.array(numbers - 2_000),
            "f": pa.array(floats, mask=chance.random(COUNT) < 0.1),
            "k": pa.array(chance.integers(0, 50, COUNT), mask=chance.random(COUNT) < 0.1),
        }
    )
    columns = {"place": "string", "n": "bigint", "f": "double", "k": "bigint"}
    path: Path = tmp_path_factory.mktemp("find") / "db"
    with livingdb.create(path, author="ann", engine="embedded") as db:
        main = db.branch("main")
        for name, key in (("by_place", ["place", "n"]), ("by_number", ["n", "place"])):
            main.create_table(name, columns, key=key)
            main.insert(name, data)
            main.upsert(name, {"place": ["a", "new"], "n": [1, 9], "f": [7.0, 7.0], "k": [1, 1]})
        yield db._graph


def rows_of_table(graph: Graph, name: str) -> RowSet:
    head = graph.snapshots.at(graph.branch("main").head)
    return graph.versions.rows(graph.version(head, name))


INT, TEXT, FLOAT = pa.int64(), pa.string(), pa.float64()
ASKED = {
    "one place": pa.table({"place": pa.array(["a"])}),
    "places that begin alike": pa.table({"place": pa.array(["a", "aa", "a\0"])}),
    "the empty place": pa.table({"place": pa.array([""])}),
    "no place": pa.table({"place": pa.array([None], TEXT)}),
    "places and none": pa.table({"place": pa.array(["ø", None, "nowhere"])}),
    "a number": pa.table({"n": pa.array([-1])}),
    "numbers around zero": pa.table({"n": pa.array([-257, -256, 0, 255, 256])}),
    "the first and the last": pa.table({"n": pa.array([-(2**63), 2**63 - 1, -2_000, 3_999])}),
    "smaller integers": pa.table({"n": pa.array([-5, 7], pa.int16())}),
    "a key": pa.table({"n": pa.array([1]), "place": pa.array(["a"])}),
    "keys, one of them twice": pa.table(
        {"place": pa.array(["a", "a", "b", None]), "n": pa.array([1, 1, 5, 5])}
    ),
    "zero": pa.table({"f": pa.array([0.0])}),
    "zero below": pa.table({"f": pa.array([-0.0])}),
    "NaN and null": pa.table({"f": pa.array([float("nan"), None])}),
    "null": pa.table({"k": pa.array([None], INT)}),
    "a pair": pa.table({"k": pa.array([3, 4, None]), "f": pa.array([1.5, None, None], FLOAT)}),
    "a place and more": pa.table({"k": pa.array([3]), "place": pa.array(["aa"])}),
    "nothing": pa.table({"k": pa.array([], INT)}),
}


def expected(whole: pa.Table, values: pa.Table) -> list[object]:
    wanted = set(rows_of(values))
    places = [row in wanted for row in rows_of(whole.select(values.column_names))]
    return sorted(rows_of(whole.filter(pa.array(places, pa.bool_()))), key=repr)


@pytest.mark.parametrize("table", ["by_place", "by_number"])
@pytest.mark.parametrize("asked", ASKED)
def test_what_is_found_is_what_a_filter_finds(graph: Graph, table: str, asked: str) -> None:
    rows, values = rows_of_table(graph, table), ASKED[asked]
    whole = rows.to_arrow()
    found = matching_rows(rows, values)
    assert found.schema == rows.schema.arrow
    assert sorted(rows_of(found), key=repr) == expected(whole, values)
    in_memory = matching_rows_in(whole, values)
    assert sorted(rows_of(in_memory), key=repr) == expected(whole, values)


@pytest.mark.parametrize("columns", [["f"], ["k", "place"], ["n"]])
@pytest.mark.parametrize("asked", ["one place", "a key", "a pair", "nothing"])
def test_only_columns_that_are_named_come_back(
    graph: Graph, columns: list[str], asked: str
) -> None:
    rows, values = rows_of_table(graph, "by_place"), ASKED[asked]
    found = matching_rows(rows, values, columns)
    assert found.column_names == columns
    whole = matching_rows(rows, values).select(columns)
    assert rows_of(found) == rows_of(whole)


@pytest.mark.parametrize(
    ("table", "asked", "spans"),
    [("by_place", "one place", 1), ("by_place", "places and none", 1), ("by_number", "a pair", 1)],
)
def test_only_keys_that_can_hold_the_values_are_read(
    graph: Graph, table: str, asked: str, spans: int
) -> None:
    rows, values = rows_of_table(graph, table), ASKED[asked]
    found = find_rows._spans(rows, values)
    is_whole = found == [Span()]
    first = rows.schema.key[0]
    assert is_whole == (first not in values.column_names or values.num_rows * 2048 > COUNT)
    assert len(found) == spans
