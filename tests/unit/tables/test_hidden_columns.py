"""Hidden columns: stored as any other, shown only to those who name them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import livingdb
from livingdb.engines.request import Source
from livingdb.errors import InvalidData, NotFound, Unsupported
from livingdb.tables.layout import Layout
from livingdb.tables.recipe import Definition
from livingdb.tables.schema import TableSchema
from livingdb.trees.forest import Forest

BAG = TableSchema.of_query(
    pa.schema(
        [
            ("city", pa.string()),
            pa.field("_row", pa.binary(), nullable=False),
            ("sum", pa.int64()),
        ]
    ),
    key=["_row"],
    hidden=["_row"],
)
GROUPS = TableSchema.of_query(
    pa.schema([("city", pa.string()), ("sum", pa.int64()), ("_count", pa.int64())]),
    key=["city"],
    hidden=["_count"],
)
BAG_ROWS: list[dict[str, Any]] = [
    {"_row": b"aaaa", "city": "Oslo", "sum": 1},
    {"_row": b"bbbb", "city": "Oslo", "sum": 1},
    {"_row": b"cccc", "city": None, "sum": None},
]
GROUP_ROWS: list[dict[str, Any]] = [
    {"city": None, "sum": 5, "_count": 2},
    {"city": "Oslo", "sum": 7, "_count": 1},
]


def without(rows: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [{key: value for key, value in row.items() if key != name} for row in rows]


@pytest.fixture
def db(tmp_path: Path) -> Iterator[livingdb.Database]:
    with livingdb.create(tmp_path / "views.ldb", author="ann") as database:
        yield database


@pytest.fixture(params=["tree", "tail"])
def main(request: pytest.FixtureRequest, db: livingdb.Database) -> livingdb.Branch:
    """A bag and a table of groups; with all rows in trees, or with one over them."""
    branch = db.branch("main")
    first = 3 if request.param == "tree" else 1
    with branch.transaction() as tx:
        tx.work.create_table("bag", Definition(BAG, Layout()))
        tx.work.create_table("groups", Definition(GROUPS, Layout()))
        tx.insert("bag", BAG_ROWS[:first])
        tx.insert("groups", GROUP_ROWS[:first])
    if request.param == "tail":
        with branch.transaction() as tx:
            tx.insert("bag", pa.Table.from_pylist(BAG_ROWS[1:]))
            tx.insert("groups", GROUP_ROWS[1:])
    return branch


# --- schemas --------------------------------------------------------------------------------


def test_hidden_columns_come_first_and_are_not_in_the_arrow_schema() -> None:
    assert BAG.arrow.names == ["city", "sum"]
    assert BAG.whole.names == ["_row", "city", "sum"]
    assert BAG.whole.field("_row") == pa.field("_row", pa.binary(), nullable=False)
    assert BAG.visible_key == ()
    assert GROUPS.whole.names == ["_count", "city", "sum"]
    assert [column.name for column in GROUPS.stored_columns] == ["city", "_count", "sum"]
    assert GROUPS.visible_key == GROUPS.key == ("city",)


def test_hidden_is_in_the_record_only_where_it_is_true() -> None:
    for schema in (BAG, GROUPS):
        assert TableSchema.from_json(schema.to_json()) == schema
    assert [column.get("hidden") for column in BAG.to_json()["columns"]] == [True, None, None]


def test_what_cannot_be_hidden() -> None:
    with pytest.raises(InvalidData, match="'x' is not in the schema"):
        TableSchema.of_query(pa.schema([("a", pa.int64())]), ["a"], ["x"])
    with pytest.raises(InvalidData, match="at least one column"):
        TableSchema.of_query(pa.schema([("a", pa.int64())]), [])
    with pytest.raises(NotFound, match=r"the columns are city, sum$"):
        BAG.column("town")


# --- reading --------------------------------------------------------------------------------


def test_tables_show_what_is_not_hidden(main: livingdb.Branch) -> None:
    bag, groups = main.table("bag"), main.table("groups")
    assert bag.schema == BAG.arrow
    assert bag.to_arrow().schema == BAG.arrow
    assert bag.to_arrow().to_pylist() == without(BAG_ROWS, "_row")
    assert groups.to_arrow().to_pylist() == without(GROUP_ROWS, "_count")
    assert (len(bag), len(groups)) == (3, 2)
    assert (bag.key, groups.key) == ((), ("city",))
    assert pa.table(bag).schema.names == ["city", "sum"]
    assert repr(bag) == "<Table bag (city string, sum bigint)>"
    assert "_row" not in bag._repr_html_()


def test_hidden_columns_are_there_for_those_who_name_them(main: livingdb.Branch) -> None:
    bag = main.table("bag")
    assert bag.to_arrow(["_row"]).column("_row").to_pylist() == [b"aaaa", b"bbbb", b"cccc"]
    assert pa.Table.from_batches(bag.batches(["sum", "_row"])).schema.names == ["sum", "_row"]
    assert bag.rows.to_arrow(BAG.whole.names).to_pylist() == BAG_ROWS
    assert bag.to_arrow([]).num_rows == 3


def test_conditions_see_what_is_shown(main: livingdb.Branch) -> None:
    bag = main.table("bag")
    assert bag.to_arrow(where="sum = 1").to_pylist() == without(BAG_ROWS[:2], "_row")
    assert bag.to_arrow(["sum"], where="city IS NULL").to_pylist() == [{"sum": None}]
    with pytest.raises(Unsupported, match="'_row' is hidden"):
        bag.to_arrow(["_row"], where="sum = 1")


def test_rows_by_key(db: livingdb.Database, main: livingdb.Branch) -> None:
    groups = main.table("groups")
    assert groups.get(None) == {"city": None, "sum": 5}
    assert groups.get("Oslo") == {"city": "Oslo", "sum": 7}
    bag = main.table("bag")
    for ask in (
        lambda: bag.get(b"aaaa"),
        lambda: b"aaaa" in bag,
        lambda: db.blame("main", "bag", key=b"aaaa"),
        lambda: db.history("main", "bag", key=b"aaaa"),
    ):
        with pytest.raises(Unsupported, match="no key to name one by"):
            ask()


def test_sql_shows_what_is_not_hidden(main: livingdb.Branch) -> None:
    found = main.sql("SELECT * FROM bag").to_arrow()
    assert found.column_names == ["city", "sum"]
    assert found.num_rows == 3
    assert main.sql("SELECT count(*) AS n FROM bag").to_arrow().to_pylist() == [{"n": 3}]
    grouped = main.sql("SELECT * FROM groups WHERE city = 'Oslo'").to_arrow().to_pylist()
    assert grouped == [{"city": "Oslo", "sum": 7}]
    with pytest.raises(livingdb.errors.LivingDBError):
        main.sql("SELECT _row FROM bag").to_arrow()
    assert Source(main.table("bag").rows).schema == BAG.arrow


# --- what happened --------------------------------------------------------------------------


def test_diff_of_a_bag_has_no_key(db: livingdb.Database, main: livingdb.Branch) -> None:
    before = main.head
    with main.transaction() as tx:
        tx.delete("bag", {"_row": [b"bbbb"]})
        tx.insert("bag", [{"_row": b"dddd", "city": "Rome", "sum": 4}])
        tx.update("groups", [{"city": None, "_count": 3}])
    found = db.diff(before, main.head)
    assert found["bag"].key == ()
    assert found["bag"].to_arrow().to_pylist() == [
        {"_change_type": "delete", "_before": {"city": "Oslo", "sum": 1}, "_after": None},
        {"_change_type": "insert", "_before": None, "_after": {"city": "Rome", "sum": 4}},
    ]
    assert "_row" not in found["bag"]._repr_html_()
    (row,) = found["groups"].to_arrow().to_pylist()
    assert row == {
        "city": None,
        "_change_type": "update",
        "_before": {"city": None, "sum": 5},
        "_after": {"city": None, "sum": 5},
    }
    assert db.check().ok


def test_blame_and_history(db: livingdb.Database, main: livingdb.Branch) -> None:
    about = ["snapshot", "author", "time", "message"]
    assert db.blame("main", "bag").column_names == about
    assert db.blame("main", "bag").num_rows == 3
    cells = db.blame("main", "bag", columns=True)
    assert cells.column_names == ["column", *about]
    assert cells.column("column").to_pylist() == ["city"] * 3 + ["sum"] * 3
    assert db.blame("main", "groups", columns=True).column("column").to_pylist() == ["sum"] * 2
    assert db.history("main", "bag").column_names == [*about, "_change_type", "city", "sum"]
    assert len(db.history("main", "groups", key=(None,))) == 1


def test_the_change_feed(main: livingdb.Branch) -> None:
    pytest.importorskip("pyspark")
    from livingdb.graph.change_feed import feed_entries
    from livingdb.spark.change_feed import feed_rows

    graph = main.database._graph
    branch = graph.branch("main")
    start = graph.snapshots.ancestor(graph.snapshots.at(branch.head), 0)
    rows = [
        row
        for step in feed_entries(graph, branch, "bag", start, -1, branch.position)
        for batch in step.batches(graph)
        for row in feed_rows(BAG, batch, "id", step.position, 0).to_pylist()
    ]
    assert [(row["_change_type"], row["city"]) for row in rows] == [
        ("insert", row["city"]) for row in BAG_ROWS
    ]
    assert all("_row" not in row for row in rows)


# --- writing --------------------------------------------------------------------------------


def test_writers_name_hidden_columns(main: livingdb.Branch) -> None:
    with pytest.raises(Unsupported, match="the rows of 'bag' have no key"):
        main.insert("bag", [{"city": "Rome", "sum": 1}])
    with pytest.raises(InvalidData, match=r"its columns are city, sum$"):
        main.insert("bag", [{"_row": b"eeee", "town": "Rome"}])
    main.upsert("groups", [{"city": "Oslo", "sum": 8}])
    held = main.table("groups").to_arrow(["city", "_count"]).to_pylist()
    assert held == [{"city": None, "_count": 2}, {"city": "Oslo", "_count": None}]


def test_trees_hold_hidden_columns(main: livingdb.Branch) -> None:
    table = main.table("bag")
    graph = main.database._graph
    root = bytes.fromhex(table.root())
    assert isinstance(table.rows.forest, Forest)
    batches = list(graph.versions.rows(table._version).forest.scan(root))  # type: ignore[arg-type]
    assert [len(columns) for columns in batches] == [3]
    assert batches[0][0].to_pylist() == [b"aaaa", b"bbbb", b"cccc"]
