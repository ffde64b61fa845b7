"""Views over USING, whose sides are renamed later, beside ones whose sides never are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.thinned import thinned

import livingdb
from livingdb.evolution import AddColumn, RenameColumn, RenameTable, SchemaChange

QUERIES = {
    "inner": "SELECT k, a, e FROM t JOIN u USING (k)",
    "left": "SELECT k, x.k AS xk, e FROM t x LEFT JOIN u AS y USING (k)",
    "right": "SELECT k, a, e FROM t RIGHT JOIN u USING (k)",
    "full": "SELECT k, a, e FROM t FULL JOIN u USING (k) WHERE k > 1",
    "sides": "SELECT k, t.k AS tk, u.k AS uk FROM t FULL JOIN u USING (k)",
    "group": "SELECT k, count(*) AS n, sum(a) AS s FROM t FULL JOIN u USING (k) GROUP BY k",
    "self": "SELECT k, x.a, y.a AS b FROM t x JOIN t y USING (k)",
}
RENAMES: dict[str, list[SchemaChange]] = {
    "left": [RenameColumn("t", "k", "p")],
    "right": [RenameColumn("u", "k", "a")],
    "both": [
        RenameColumn("t", "k", "c1"),
        RenameColumn("u", "k", "c2"),
        RenameTable("t", "first"),
        RenameTable("u", "t"),
    ],
    "swap": [
        RenameColumn("t", "k", "x"),
        RenameColumn("t", "c", "k"),
        RenameColumn("t", "x", "c"),
        AddColumn("u", "more", "bigint", default=1),
    ],
}
TABLES = {
    "t": ("id", "k", "a", "c"),
    "u": ("id2", "k", "e"),
    "w": ("id3", "k", "d"),
    "x": ("id4", "k", "c"),
}
NAMES = {
    "left": {"t": ("t", {"k": "p"})},
    "right": {"u": ("u", {"k": "a"})},
    "both": {"t": ("first", {"k": "c1"}), "u": ("t", {"k": "c2"})},
    "swap": {"t": ("t", {"k": "c", "c": "k"})},
}


@pytest.fixture
def db(tmp_path: Path) -> Iterator[livingdb.Database]:
    with livingdb.create(tmp_path / "shop.ldb") as made:
        main = made.branch("main")
        for table, columns in TABLES.items():
            main.create_table(table, dict.fromkeys(columns, "bigint"), key=columns[0])
        main.insert("t", [{"id": n, "k": n % 4, "a": n, "c": n % 2} for n in range(6)])
        main.insert("u", [{"id2": n, "k": n, "e": n % 2} for n in range(2, 6)])
        main.insert("t", [{"id": 9, "k": None, "a": 9, "c": 9}])
        made.branch("main").clone("still")
        yield made


def write(branch: livingdb.Branch, called: dict[str, tuple[str, dict[str, str]]]) -> None:
    given: dict[str, list[dict[str, Any]]] = {
        "t": [{"id": 1, "k": 5, "a": 10, "c": 1}, {"id": 7, "k": 8, "a": 70, "c": 0}],
        "u": [{"id2": 2, "k": 1, "e": 0}, {"id2": 9, "k": 8, "e": 0}],
    }
    with branch.transaction() as tx:
        for table, rows in given.items():
            name, columns = called.get(table, (table, {}))
            tx.upsert(name, [{columns.get(n, n): v for n, v in row.items()} for row in rows])


def rows_of(branch: livingdb.Branch, name: str) -> list[tuple[Any, ...]]:
    table = branch.table(name).to_arrow()
    return sorted(zip(*(c.to_pylist() for c in table.columns), strict=True), key=repr)


@pytest.mark.parametrize(("joined", "names"), thinned(QUERIES, RENAMES))
def test_using_means_what_it_meant(db: livingdb.Database, joined: str, names: str) -> None:
    query = QUERIES[joined]
    main, still = db.branch("main"), db.branch("still")
    for branch, made in ((main, "v"), (still, "twin")):
        branch.derive(made, query, when="immediate")
    main.derive("held", query, when="on demand", engine="embedded")
    main.evolve(RENAMES[names])
    assert rows_of(db.branch("v"), "v") == rows_of(db.branch("twin"), "twin")
    write(main, NAMES[names])
    write(still, {})
    db.refresh("held")
    wanted = db.branch("twin").table("twin")
    for name in ("v", "held"):
        assert db.sync(name).state == "active", db.sync(name).reason
        assert db.branch(name).table(name).schema == wanted.schema
        assert rows_of(db.branch(name), name) == rows_of(db.branch("twin"), "twin")
    assert not db.check(deep=True).problems
